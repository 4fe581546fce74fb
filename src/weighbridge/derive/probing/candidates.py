"""The values to try for a field in place of its own, most likely first."""

from __future__ import annotations

import itertools
import re
import sys
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.rewrite import field_names
from weighbridge.derive.probing.state import LAYER_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.derive.probing.state import Exploration
    from weighbridge.derive.probing.subject import Knob

# The annotation of a keyword argument that is null by default.
KEYWORD_ANNOTATION = "int | list[int] | None"
# The annotation of the list of stages that a backbone returns begins so; all stages follow.
STAGES_ANNOTATION = "stages: "
SMALLEST_SIZE = 16  # an integer this large is assumed to be a size, a smaller one a count
FEW_LAYERS = (4, 3, 5)  # enough to distinguish the first, the last and every other layer
MOST_KEPT_LAYERS = 4  # a model with no more layers is already small
MOST_KEPT_ITEM = 3  # so is a model with no more layers in each stage
MOST_LAYERS_LISTED = 64  # items of a list that has one for each layer
MOST_TEXTS = 8  # texts of one field that are tried; those in the code come first
REACH_TO_COMPARISON = 20  # characters from a field's name to the `==` that compares it
REACH_OF_TEXTS = 120  # characters after the `==` in which texts belong to the comparison
# Kinds of layers in configs, besides those that the code compares with.
LAYER_KINDS = frozenset(
    {
        "full_attention",
        "sliding_attention",
        "linear_attention",
        "chunked_attention",
        "attention",
        "mamba",
        "conv",
        "moe",
        "mlp",
        "dense",
        "sparse",
        "recurrent",
        "hybrid",
    }
)
ACTIVATIONS = ("gelu", "silu")  # functions without parameters; one of them is not the default
_OPTIONAL = r"\b(?:None|Optional)\b"  # Python prints `Literal[…] | None` as Optional[Literal[…]]
_QUOTED_WORD = re.compile(r"['\"]([\w\-]+)['\"]")


def values_for_none(knob: Knob, value: Any) -> Iterator[Any]:
    """Yield the values that often switch a part off: null and 0."""
    if LAYER_COUNT.search(knob.path):
        return
    if re.search(_OPTIONAL, knob.annotation) and value is not None:
        yield None
    if type(value) is int and value != 0:
        yield 0


def other_values(exploration: Exploration, knob: Knob, value: Any) -> Iterator[Any]:
    """Yield values to try in place of this one, each once. 1 and True are two values."""
    seen = [value]
    for candidate in _proposed(exploration, knob, value):
        if not any(type(candidate) is type(other) and candidate == other for other in seen):
            seen.append(candidate)
            yield candidate


def _proposed(exploration: Exploration, knob: Knob, value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from _integers(value)
    elif isinstance(value, float):
        yield from (value * 2, value / 2, value + 1)
    elif isinstance(value, str):
        yield from compared_texts(exploration, knob)
        yield from listed_beside(value, exploration.subject.code)
        yield from _other_activations(value)
        if re.search(r"\bint\b", knob.annotation):  # such as "auto"
            yield from (2, 1, 3)
        yield from (value.removeprefix("gated-"), f"gated-{value}", "relu")
    elif value is None:
        yield from _instead_of_null(exploration, knob)
    elif knob.annotation.startswith(STAGES_ANNOTATION):
        stages = _QUOTED_WORD.findall(knob.annotation)
        yield from (stages[first:] for first in (-4, -3, -2, -1))
        yield stages[-3:-1]
    elif isinstance(value, list | tuple):
        yield from _lists(type(value), list(value))


def _integers(value: int) -> Iterator[int]:
    """Yield other integers; the first differs by a step that no product gives by accident."""
    if value >= SMALLEST_SIZE:
        yield from (value + 13, value * 2, value * 3, value // 2, value + 8, value + 16, value + 64)
    else:
        yield from (value + 1, value * 2, value + 3, 1, 2, 3, 4, value + 7)


def _lists(kind: type, items: list[Any]) -> Iterator[Any]:
    if not items:
        yield from ([0], [1], [0, 2])
    elif all(type(item) is int for item in items):
        yield from (
            kind(item * 2 for item in items),
            kind(item + 1 for item in items),
            kind([items[0], *[item + 8 for item in items[1:]]]),
            kind(items[:-1]),
            kind([*items, items[-1]]),
            kind(item + 13 for item in items),
        )
    elif all(type(item) is bool for item in items):
        yield from (kind(not item for item in items), kind([not items[0], *items[1:]]))


def _instead_of_null(exploration: Exploration, knob: Knob) -> Iterator[Any]:
    annotation = knob.annotation
    if "bool" in annotation:
        yield from (True, False)
    if annotation == KEYWORD_ANNOTATION:
        yield from (2, 1)  # such a keyword may count layers, and the base has few
    if "int" in annotation and "list" not in annotation.partition("int")[0]:
        yield from (16, 8, 4, 2, 1, 24, 64)
    if "str" in annotation:
        yield from compared_texts(exploration, knob)
    if annotation.startswith("list[float"):
        yield [0.5] * MOST_LAYERS_LISTED
    if "float" in annotation:
        yield from (2.0, 0.5)
    if "list" in annotation:
        yield from ([0], [1, 2], [8, 8])


def compared_texts(exploration: Exploration, knob: Knob) -> list[str]:
    """Return the texts that the code compares a field with."""
    texts = {
        tree[2][1]
        for tree in exploration.asked()
        if tree[0] == "==" and tree[1] == ("name", knob.path) and tree[2][0] == "value"
    }
    if "Literal" in knob.annotation:
        texts.update(_QUOTED_WORD.findall(knob.annotation))
    texts.update(texts_compared_in(exploration.subject.code, knob.path))
    return sorted(texts)[:MOST_TEXTS]


def texts_compared_in(code: str, path: str) -> set[str]:
    """Return the texts that stand in code where a field is compared: `config.norm == "layer"`.

    Example:
        >>> sorted(texts_compared_in("if config.norm in ('layer', 'rms'):", "encoder.norm"))
        ['layer', 'rms']
    """
    name = re.escape(path.rpartition(".")[2])
    comparison = re.compile(
        rf"\b{name}\b[^\n]{{0,{REACH_TO_COMPARISON}}}?"
        rf"(?:==|!=| in )\s*([^\n]{{0,{REACH_OF_TEXTS}}})"
    )
    texts = (_QUOTED_WORD.findall(match[1]) for match in comparison.finditer(code))
    return {*itertools.chain.from_iterable(texts)}


def _other_activations(value: str) -> Iterator[str]:
    """Yield other keys of transformers' table of activations, if a text names one of its keys."""
    activations = getattr(sys.modules.get("transformers.activations"), "ACT2FN", {})
    gate, _, name = value.rpartition("gated-")
    if name in activations:
        yield from (f"{gate}{other}" for other in ACTIVATIONS if other in activations)
        yield from (f"gated-{other}" for other in ACTIVATIONS if other in activations)


def listed_beside(text: str, code: str) -> list[str]:
    """Return the other texts of the short lists in code that hold a text: `["basic", "thin"]`."""
    quoted = re.escape(text)
    lists = re.findall(rf"[\[({{]([^\[\](){{}}]*['\"]{quoted}['\"][^\[\](){{}}]*)[\])}}]", code)
    texts = {word for items in lists for word in _QUOTED_WORD.findall(items)}
    return sorted(texts - {text})[:MOST_TEXTS]


def compared_items(exploration: Exploration, path: str, items: set[str]) -> list[str]:
    """Return the texts that the items of a list may be.

    These are the texts that the code compares items with, the kinds of layers that the code names,
    and the older words for the list's own items.
    """
    texts = {
        tree[2][1]
        for tree in exploration.asked()
        if tree[0] in ("==", "!=")
        and tree[2][0] == "value"
        and isinstance(tree[2][1], str)
        and path in field_names(tree[1])
    }
    transformers = sys.modules.get("transformers.configuration_utils")
    code = exploration.subject.code
    for kind in {*getattr(transformers, "ALLOWED_LAYER_TYPES", ()), *LAYER_KINDS}:
        if re.search(rf"['\"]{kind}['\"]", code):
            texts.add(kind)
    for older, newer in exploration.subject.older_words.items():
        if newer in items | texts:
            texts.add(older)
    return sorted(texts)


def fewer(value: Any) -> Iterator[Any]:
    """Yield smaller values for a field that counts or multiplies layers, or lists their counts."""
    if type(value) is int and value > MOST_KEPT_LAYERS:
        yield from FEW_LAYERS
    elif (
        isinstance(value, list)
        and value
        and all(type(item) is int for item in value)
        and max(value) > MOST_KEPT_ITEM
    ):
        yield [min(item, 2 + at % 2) for at, item in enumerate(value)]  # neighbours differ
    elif isinstance(value, float) and value > 1:
        yield 1.0
    elif is_of_texts(value):
        few_layers = of_each_kind(value, FEW_LAYERS[0])
        if len(few_layers) < len(value):
            yield few_layers


def is_of_texts(value: Any) -> bool:
    """Whether a value is a list of texts with at least one item."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def of_each_kind(items: list[str], length: int) -> list[str]:
    """Return the different items of a list, repeated up to a length; at least each once."""
    kinds = list(dict.fromkeys(items))
    return [kinds[at % len(kinds)] for at in range(max(length, len(kinds)))]


def answering(value: Any, texts: list[str], numbers: list[int]) -> Iterator[Any]:
    """Yield values of a field that may change the answer to a question with these constants."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, list | tuple):
        yield from ([*value, text] for text in texts)
        yield texts or numbers
    elif isinstance(value, str):
        yield from (text for text in texts if text != value)
    else:
        for number in numbers:
            yield from (number, number + 1, number - 1)
        if type(value) is int and value > 1:
            yield from (value * 2, value // 2)
        if value is None:
            yield from _answering_null(texts, numbers)


def _answering_null(texts: list[str], numbers: list[int]) -> Iterator[Any]:
    yield from texts
    yield from ([text] for text in texts)
    if len(texts) > 1:
        yield texts
    if not texts and not numbers:
        yield from (True, 1)
