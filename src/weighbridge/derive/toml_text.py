"""The text of derived files: a blueprint or operations as TOML, in reading order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from weighbridge.blueprint.operations import ALL_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NOTE_COLUMN = 34  # characters from the start of a table's name to its note
_LISTS = ("require", "inert", "nullable", "zero", "beyond", "late", "flat", "stated")
_ENTRIES_OF_CLASS = ("base", "prefix", "without")
_NOTES = {
    "values": "the values of text fields that the blueprint covers",
    "tried": "the kinds of values that these fields were tried with",
    "spelled": "other spellings of these texts; null means the field is left out",
    "separators": "the text between items, where a list may be given as one text",
    "defaults": "what {config} assumes when a config leaves a field out",
    "given": "the same, where the sub-config is given without the field",
    "configs": "sub-configs and their model types",
    "parts": "modules that are models of any type: the sub-config, and the auto class",
    "aliases": "other names for fields that the reference accepts",
    "computed": "fields that follow from others when left out or null",
    "guards": "conditions that keep a config off code that no probe reached",
    "repeat": "how many values each index takes: 0, 1, …",
    "tensors": "full checkpoint names and dims, in checkpoint order",
    "ranks": "tensors that have another number of dims under a condition",
    "when": "tensors and whole modules that exist only under a condition",
    "ties": "tied tensors and their targets",
    "buffers": "not parameters; checkpoints may store them: dtype and dims",
    "active": "how many experts each token is routed to",
    "stored": "what files hold instead of a tensor, or of all tensors under a path",
    "renamed": "paths in older files and their current names",
    "modules": "the classes of modules that hold tensors",
}
_ORDER = (
    "values",
    "tried",
    "spelled",
    "separators",
    "proof",
    "defaults",
    "given",
    "configs",
    "parts",
    "aliases",
    "computed",
    "guards",
    "repeat",
    "tensors",
    "ranks",
    "when",
    "ties",
    "buffers",
    "active",
    "stored",
    "renamed",
    "modules",
)
_EVEN_IF_EMPTY = ("defaults",)  # required: a module without arguments has no fields
_QUOTED_KEYS = (
    "guards",
    "tensors",
    "ranks",
    "when",
    "ties",
    "buffers",
    "modules",
    "active",
    "stored",
    "renamed",
    "parts",
)
_NOTES_OF_OPERATIONS = {
    "fields": "the fields that matter, with their defaults",
    "computed": "fields that follow from others when left out or null",
    "held": "fields that must keep these values",
    "types": "the types that layers had",
    "unstated": "what a config means that leaves one of these out",
    "tied": "fields that must be what follows from others",
    "listed": "lists of layers, and how many layers there are",
    "images": "the tokens that stand for each image in a sequence",
    "repeat": "how many values each index takes: 0, 1, …",
    "forward": "matrix products of eager attention: batch, rows, inner, columns",
    "backward": "the same in the backward pass, from the loss or the sum of outputs",
    "recomputed": "what the backward pass computes again, if layers are checkpointed",
    "step": "the products of one more token, after `past` tokens in the cache",
    "saved": "tensors kept for backward, each storage once: dtype and dims",
    "checkpointed": "the same, if layers are checkpointed",
    "prefilled": "what the cache holds after a prefill of `past` tokens",
    "stepped": "what it holds after one more token",
}

_NOTES_OF_FLOWS = {
    "fields": "fields in conditions that the blueprint leaves out, with their defaults",
    "held": "fields that must keep these values",
    "flow": "the steps of each module, or the module that has the same",
    "functions": "the steps of functions of the code",
    "bare": "modules that run and hold no tensors: their class, or the field that names it",
    "unused": "modules that do not run, and when",
}


def blueprint_text(raw: Mapping[str, Any], config: str) -> str:
    """Return the text of a blueprint's file; ``config`` names the class that has the defaults."""
    proved = f"derived and proved on {raw['proof']['configs']} unseen configs."
    lines = [
        f"# {raw['class']}: {raw['source']}, {proved}",
        f"# `{raw['proof']['by']}` writes this file; do not edit it.",
    ]
    lines += _entry_lines(raw, ("format", "family", "source", "class"))
    for key in _LISTS:
        if raw.get(key):
            lines += _list_lines(key, raw[key])
    for key in _ORDER:
        if raw.get(key) or key in _EVEN_IF_EMPTY:
            note = _NOTES.get(key, "").format(config=config)
            lines += ["", *_table_lines(key, raw[key], note)]
    for class_name, part in raw.get("classes", {}).items():
        lines += _class_lines(class_name, part)
    return "\n".join(lines) + "\n"


def _class_lines(class_name: str, part: Mapping[str, Any]) -> list[str]:
    """Return the lines of a task class in a blueprint."""
    lines = ["", "", f"[classes.{class_name}]", *_entry_lines(part, _ENTRIES_OF_CLASS)]
    for key in _ORDER:
        if part.get(key):
            lines += ["", *_table_lines(f"classes.{class_name}.{key}", part[key])]
    return lines


def operations_text(raw: Mapping[str, Any]) -> str:
    """Return the text of a file of operations."""
    lines = [
        f"# Operations of {raw['class']}: {raw['source']}, recorded on {raw['kernels']}.",
        f"# `{raw['proof']['by']}` writes this file; do not edit it.",
    ]
    lines += _entry_lines(raw, ("format", "family", "source", "kernels", "class"))
    lines += ["", *_table_lines("proof", raw["proof"])]
    for key, note in _NOTES_OF_OPERATIONS.items():
        if key in raw:
            lines += ["", *_operations_lines(key, raw[key], note)]
    for class_name, part in raw.get("classes", {}).items():
        lines += ["", "", f"[classes.{class_name}]", *_entry_lines(part, ["prefix"])]
        for key in ALL_KINDS:
            if part.get(key):
                lines += ["", *_operations_lines(f"classes.{class_name}.{key}", part[key])]
    return "\n".join(lines) + "\n"


def flow_text(raw: Mapping[str, Any]) -> str:
    """Return the text of a file of a flow."""
    proved = f"recorded, and proved on {raw['proof']['configs']} unseen configs."
    lines = [
        f"# The flow of {raw['class']}: {raw['source']}, {proved}",
        f"# `{raw['proof']['by']}` writes this file; do not edit it.",
    ]
    lines += _entry_lines(raw, ("format", "family", "source", "class"))
    if raw["opaque"]:
        lines.append(f"opaque = {value_text(raw['opaque'])}")
    lines += ["", *_table_lines("proof", raw["proof"])]
    for key, note in _NOTES_OF_FLOWS.items():
        if raw[key] or key == "flow":
            lines += ["", *_operations_lines(key, raw[key], note)]
    for variant in raw["variant"]:
        lines += ["", "[[variant]]", *_entry_lines(variant, ("of", "when"))]
        lines += _list_lines("steps", variant["steps"])
    return "\n".join(lines) + "\n"


def _entry_lines(table: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    return [f"{key} = {value_text(table[key])}" for key in keys if key in table]


def _table_lines(name: str, table: Mapping[str, Any], note: str = "") -> Iterator[str]:
    """Yield the lines of a blueprint's table; names of tensors and rules are quoted."""
    yield _header(name, note)
    is_quoted = any(part in name for part in _QUOTED_KEYS)
    for key, value in table.items():
        shown_key = key
        if is_quoted or not key.replace("_", "a").isalnum():
            shown_key = json.dumps(key, ensure_ascii=False)
        if name.endswith("stored") and len(value) > 1:
            yield from _list_lines(shown_key, value)
        else:
            yield f"{shown_key} = {value_text(value)}"


def _operations_lines(name: str, table: Mapping[str, Any], note: str = "") -> Iterator[str]:
    """Yield the lines of a table of operations; a list of several items has one per line."""
    yield _header(name, note)
    for key, value in table.items():
        if isinstance(value, list) and len(value) > 1:
            yield from _list_lines(_key_text(key), value)
        else:
            yield f"{_key_text(key)} = {value_text(value)}"


def _header(name: str, note: str) -> str:
    if not note:
        return f"[{name}]"
    return f"[{name}]{' ' * max(1, _NOTE_COLUMN - len(name))}# {note}"


def _list_lines(key: str, items: list[Any]) -> list[str]:
    return [f"{key} = [", *[f"    {value_text(item)}," for item in items], "]"]


def value_text(value: Any) -> str:
    """Return a value as TOML has it."""
    if isinstance(value, dict):
        if not value:
            return "{}"
        pairs = [f"{_key_text(key)} = {value_text(item)}" for key, item in value.items()]
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, str):
        if '"' in value and "'" not in value:
            return f"'{value}'"
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def _key_text(key: str) -> str:
    is_bare = key.replace("_", "a").replace("-", "a").isalnum() and key.isascii()
    return key if is_bare else json.dumps(key)
