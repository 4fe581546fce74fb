"""The model card of a fine-tuned classifier: the README.md in its folder."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from weighbridge import units
from weighbridge.answers.finetune import Finetuned, finetune_words, weighed_table
from weighbridge.errors import printable
from weighbridge.render.document import Code, Document, Heading, Notes, plain, write
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.render.document import Block

    Result = Mapping[str, Any]
    Texts = Mapping[str, str]


def model_card(result: Result, lang: str = "en") -> str:
    """Return the card of a run: metadata as the hub reads it, then Markdown.

    It has what somebody needs to know who uses the model: data, split, scores, training and costs.
    """
    metadata: dict[str, Any] = {
        "pipeline_tag": "text-classification",
        "library_name": "transformers",
        "tags": ["bert", "weighbridge"],
        "metrics": ["accuracy", "f1"],
    }
    start = result["run"]["start"]
    if start.startswith("hf://"):
        metadata["base_model"] = start.removeprefix("hf://").partition("@")[0]
    lines = [f"{name}: {json.dumps(value)}" for name, value in metadata.items()]  # JSON is YAML
    front = "\n".join(("---", *lines, "---"))
    document = Document(tuple(_sections(result, finetune_words(lang))), lang)
    return f"{front}\n\n{write(document, 'markdown')}\n"


def _sections(result: Result, texts: Texts) -> Iterator[Block]:
    finetuned = Finetuned(result)
    yield Heading(1, plain(_public(result["run"]["out"])))
    yield Notes((texts["card_what"].format(**_what(result)),))
    yield Heading(2, texts["card_use"])
    yield Code(_USE)
    yield Heading(2, texts["card_data"])
    for source in result["data"]:
        yield _source_table(source, texts)
    yield Heading(2, texts["card_split"])
    yield Notes((_drawn(result, texts),))
    yield _split(result["split"], texts)
    yield Heading(2, texts["card_scores"])
    yield from finetuned.score_blocks(texts)
    yield Notes((finetuned.kept_weights(texts),))
    yield Heading(2, texts["card_training"])
    yield _settings(result["settings"], texts)
    yield finetuned.history(texts)
    yield Heading(2, texts["card_costs"])
    yield weighed_table(result, texts)
    yield Notes((texts["memory"],))


def _what(result: Result) -> dict[str, str]:
    """Return the values in the sentence that says what the model is."""
    run, versions = result["run"], result["fingerprint"]["versions"]
    return {
        "start": _public(run["start"]),
        "parameters": units.count(result["measured"]["parameters"]),
        "classes": units.count(len(run["labels"])),
        "version": versions["weighbridge"],
        "torch": versions["torch"],
    }


def _public(path: str) -> str:
    """Return an address, or the last name of a local path: others need not know the folders.

    Example:
        >>> _public("/home/ann/reviews/"), _public("hf://org/name")
        ('reviews', 'hf://org/name')
    """
    if "://" in path:
        return printable(path)
    return printable(os.path.basename(os.path.realpath(path)))


def _drawn(result: Result, texts: Texts) -> str:
    """Return the sentence on where the held-out texts are from."""
    share = result["split"]["share"]
    if share is None:
        return texts["card_test"]
    return texts["card_share"].format(share=units.percent(share), seed=result["settings"]["seed"])


def _split(split: Result, texts: Texts) -> Table:
    rows = []
    for label, count in split["training"].items():
        weight = units.fixed(split["class_weights"][label], 3)
        held_out = units.count(split["held_out"][label])
        rows.append((printable(label), units.count(count), held_out, weight))
    names = ("class_name", "card_training_texts", "card_held_out_texts", "card_class_weight")
    return Table(tuple(texts[name] for name in names), tuple(rows), "<>>>")


def _settings(settings: Result, texts: Texts) -> Table:
    rows = []
    for name, value in settings.items():
        if value is not None:
            rows.append((f"--{name.replace('_', '-')}", str(value)))
    return Table((texts["card_setting"], texts["card_value"]), tuple(rows), "<>")


def _source_table(source: Result, texts: Texts) -> Table:
    rows = []
    for name, value in {**source, "path": _public(source["path"])}.items():
        shown = units.count(value) if isinstance(value, int) else printable(value)
        rows.append((texts[f"card_{name}"], shown))
    return Table((texts["what"], texts["card_value"]), tuple(rows), "<<")


_USE = """from transformers import pipeline

classify = pipeline("text-classification", model="path/to/this/folder")
classify("a text")"""
