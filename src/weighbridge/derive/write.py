"""From drafts to a blueprint, as data and as the text of its file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.expr import PRECEDENCE, SOURCE, Shown, infix, show
from weighbridge.algebra.rewrite import field_names, leaves, replaced
from weighbridge.derive.generalize.places import list_above

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Meaning, Tree
    from weighbridge.derive.generalize.draft import Draft, Drafted

_LETTERS = "ijklmnopqrstuvwxyzabcdefgh"
_TIGHT: Meaning = {
    **SOURCE,
    **{kind: infix(kind, f"{{}}{kind}{{}}") for kind in ("+", "-", "*", "/", "//", "%", "**")},
}


class Letters:
    """The letters of indices: lists of the same number of modules, in the same place, share one; none is a field's."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._free = [letter for letter in _LETTERS if letter not in set(taken)]
        self._of: dict[tuple[str, str, int], str] = {}
        self.counts: dict[str, str] = {}

    def of(self, draft: Draft, path: str) -> str:
        """Return the letter of a list's index."""
        count = draft.repeats[path]
        return self.counting(
            count if count is not None else ("value", 0), self.chain(draft, list_above(path))
        )

    def counting(self, tree: Tree, above: Sequence[str]) -> str:
        """Return the letter of an index that runs up to this, inside others of these letters."""
        text = expression(tree, above)
        outer = "".join(
            above[: 1 + max((leaf[1] for leaf in leaves(tree) if leaf[0] == "index"), default=-1)]
        )
        key = (outer, text, len(above))
        if key not in self._of:
            self._of[key] = self._free[len(self._of)]
            self.counts[self._of[key]] = text
        return self._of[key]

    def chain(self, draft: Draft, path: str) -> list[str]:
        """Return the letters of the lists that stand one in another down to this one."""
        return [*self.chain(draft, list_above(path)), self.of(draft, path)] if path else []

    def named(self, draft: Draft, template: str) -> str:
        """Return a name with its letters."""
        return template.format(
            *[f"{{{letter}}}" for letter in self.chain(draft, list_above(template))]
        )


def expression(tree: Tree, letters: Iterable[str] = ()) -> str:
    """Return the text of a tree, its indices by their letters.

    Example:
        >>> expression(("<", ("index", 0), ("name", "first_k_dense_replace")), "i")
        'i < first_k_dense_replace'
    """
    return str(show(_lettered(tree, list(letters)), str, SOURCE))


def dim(tree: Tree, letters: Iterable[str] = ()) -> str:
    """Return the text of one dim, with spaces inside brackets only.

    Example:
        >>> dim(("*", ("value", 2), ("+", ("name", "a"), ("name", "b"))))
        '2*(a+b)'
    """
    shown: Shown = show(_lettered(tree, list(letters)), str, _TIGHT)
    return f"({shown})" if shown.strength <= max(PRECEDENCE["=="], PRECEDENCE["if"]) else str(shown)


def _lettered(tree: Tree, letters: list[str]) -> Tree:
    if tree[0] == "for":
        return ("for", tree[1], _lettered(tree[2], letters), _lettered(tree[3], letters))
    return replaced(tree, lambda leaf: ("name", letters[leaf[1]]) if leaf[0] == "index" else leaf)


def section(
    draft: Draft, letters: Letters, only: Iterable[str] | None = None
) -> dict[str, dict[str, str]]:
    """Return a draft's tensors, ties, conditions and buffers as the tables of a blueprint.

    ``only`` names the templates to write down; conditions are kept that one of them stands under.
    """
    kept = _kept(draft, only)
    tables: dict[str, dict[str, str]] = {"tensors": {}, "when": {}, "ties": {}, "buffers": {}}
    for template, tensor in draft.tensors.items():
        if template in kept:
            chain = letters.chain(draft, list_above(template))
            tables["tensors"][letters.named(draft, template)] = " ".join(
                dim(tree, chain) for tree in tensor.dims or ()
            )
            _tie(draft, letters, tensor, chain, tables["ties"])
    for template, buffer in draft.buffers.items():
        if template in kept:
            chain = letters.chain(draft, list_above(template))
            words = [DTYPES[buffer.dtype], *[dim(tree, chain) for tree in buffer.dims or ()]]
            tables["buffers"][letters.named(draft, template)] = " ".join(words)
    for path, condition in draft.conditions.items():
        if condition is not None and any(f"{name}.".startswith(f"{path}.") for name in kept):
            tables["when"][letters.named(draft, path)] = expression(
                condition, letters.chain(draft, list_above(path))
            )
    return {name: table for name, table in tables.items() if table}


def _kept(draft: Draft, only: Iterable[str] | None) -> set[str]:
    """Return the templates to write down: these tensors, or all of them and the buffers that are known."""
    if only is not None:
        return set(only)
    return {
        *draft.tensors,
        *[
            name
            for name, buffer in draft.buffers.items()
            if buffer.dims is not None and buffer.dtype in DTYPES
        ],
    }


def _tie(
    draft: Draft, letters: Letters, tensor: Drafted, chain: list[str], ties: dict[str, str]
) -> None:
    for to, condition in tensor.ties[:1]:
        target = to.format(*[f"{{{letter}}}" for letter in chain])
        always = condition == ("value", True)
        ties[letters.named(draft, tensor.name)] = (
            target if always else f"{target} if {expression(condition, chain)}"
        )


DTYPES = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}


def fields_in(draft: Draft, only: Iterable[str] | None = None) -> list[str]:
    """Return the fields that a draft's expressions name, in the order in which its tensors do."""
    kept = _kept(draft, only)
    trees: list[Tree] = []
    for path, count in draft.repeats.items():
        if count is not None and any(name.startswith((f"{path}.", f"{path}{{")) for name in kept):
            trees.append(count)
    for template, tensor in draft.tensors.items():
        if template in kept:
            trees += [*(tensor.dims or ()), *[condition for _, condition in tensor.ties]]
    trees += [
        condition
        for path, condition in draft.conditions.items()
        if condition is not None and any(f"{name}.".startswith(f"{path}.") for name in kept)
    ]
    trees += [
        tree for name, buffer in draft.buffers.items() if name in kept for tree in buffer.dims or ()
    ]
    return list(dict.fromkeys(name for tree in trees for name in sorted(field_names(tree))))


# The text of the file

_NOTES = {
    "values": "texts, and what a field of texts may be for the blueprint to hold",
    "spelled": "other words for these texts; null where one says that the field is left out",
    "defaults": "what {config} assumes when a config leaves a field out",
    "given": "and where a sub-config is given but leaves the field out",
    "configs": "sub-configs, and the model each is of",
    "aliases": "other spellings that the reference reads",
    "computed": "fields that, left out or null, follow from others",
    "repeat": "an index runs 0, 1, … below it",
    "tensors": "checkpoint names, whole, in checkpoint order",
    "when": "tensors, or modules whole, that exist only on a condition",
    "ties": "tensors that are another one",
    "buffers": "not parameters; checkpoints may store them: dtype and dims",
    "active": "of how many experts one token takes the way",
    "stored": "what files hold in place of a tensor, or of all under a path",
    "renamed": "paths that older files have, and what files call them now",
    "modules": "the classes of the modules that hold tensors",
}
_ORDER = (
    "values",
    "spelled",
    "proof",
    "defaults",
    "given",
    "configs",
    "aliases",
    "computed",
    "repeat",
    "tensors",
    "when",
    "ties",
    "buffers",
    "active",
    "stored",
    "renamed",
    "modules",
)


def toml(raw: Mapping[str, Any], config: str) -> str:
    """Return the text of a blueprint's file."""
    lines = [
        f"# {raw['class']}: {raw['source']}, derived and proved on {raw['proof']['configs']} unseen configs.",
        f"# `{raw['proof']['by']}` writes this file; do not edit it.",
        *[f"{key} = {_literal(raw[key])}" for key in ("format", "family", "source", "class")],
    ]
    for key in ("require", "inert", "nullable", "zero", "beyond"):
        if raw.get(key):
            lines += [f"{key} = [", *[f"    {_literal(item)}," for item in raw[key]], "]"]
    for key in _ORDER:
        if raw.get(key):
            lines += ["", *_table(key, raw[key], _NOTES.get(key, "").format(config=config))]
    for name, of_class in raw.get("classes", {}).items():
        lines += ["", "", f"[classes.{name}]"]
        lines += [
            f"{key} = {_literal(of_class[key])}"
            for key in ("base", "prefix", "without")
            if key in of_class
        ]
        for key in _ORDER:
            if of_class.get(key):
                lines += ["", *_table(f"classes.{name}.{key}", of_class[key], "")]
    return "\n".join(lines) + "\n"


_OPERATION_NOTES = {
    "fields": "that decide anything, with what they are by default",
    "held": "fields at which alone this was recorded",
    "repeat": "an index runs 0, 1, … below it",
    "forward": "matrix products of eager attention: batch, rows, inner, columns",
    "backward": "those of the backward pass, from the loss or the sum of outputs",
    "saved": "what is kept for backward, a storage once: dtype and dims",
}


def operations_text(raw: Mapping[str, Any]) -> str:
    """Return the text of a file of operations."""
    lines = [
        f"# Operations of {raw['class']}: {raw['source']}, recorded on {raw['kernels']}.",
        f"# `{raw['proof']['by']}` writes this file; do not edit it.",
        *[
            f"{key} = {_literal(raw[key])}"
            for key in ("format", "family", "source", "kernels", "class")
        ],
        "",
        *_table("proof", raw["proof"], ""),
    ]
    for key, note in _OPERATION_NOTES.items():
        lines += ["", *_operations(key, raw[key], note)]
    for name, of_class in raw.get("classes", {}).items():
        lines += ["", "", f"[classes.{name}]"]
        lines += [f"prefix = {_literal(of_class['prefix'])}"] if "prefix" in of_class else []
        for key in ("forward", "backward", "saved"):
            if of_class.get(key):
                lines += ["", *_operations(f"classes.{name}.{key}", of_class[key], "")]
    return "\n".join(lines) + "\n"


def _operations(name: str, table: Mapping[str, Any], note: str) -> Iterator[str]:
    """Yield a table, its lists an item a line where they have several."""
    yield f"[{name}]{' ' * max(1, 34 - len(name))}# {note}" if note else f"[{name}]"
    for key, value in table.items():
        if isinstance(value, list) and len(value) > 1:
            yield from (f"{_key(key)} = [", *[f"    {_literal(item)}," for item in value], "]")
        else:
            yield f"{_key(key)} = {_literal(value)}"


def _table(name: str, table: Mapping[str, Any], note: str) -> Iterator[str]:
    yield f"[{name}]{' ' * max(1, 34 - len(name))}# {note}" if note else f"[{name}]"
    bare = not any(
        part in name
        for part in ("tensors", "when", "ties", "buffers", "modules", "active", "stored", "renamed")
    )
    for key, value in table.items():
        shown = (
            key if bare and key.replace("_", "a").isalnum() else json.dumps(key, ensure_ascii=False)
        )
        if name.endswith("stored") and len(value) > 1:
            yield from (f"{shown} = [", *[f"    {_literal(item)}," for item in value], "]")
        else:
            yield f"{shown} = {_literal(value)}"


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(f"{_key(key)} = {_literal(item)}" for key, item in value.items())
            + " }"
            if value
            else "{}"
        )
    if isinstance(value, list | tuple):
        return f"[{', '.join(_literal(item) for item in value)}]"
    if isinstance(value, str):
        return (
            f"'{value}'"
            if '"' in value and "'" not in value
            else json.dumps(value, ensure_ascii=False)
        )
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _key(key: str) -> str:
    return (
        key
        if key.replace("_", "a").replace("-", "a").isalnum() and key.isascii()
        else json.dumps(key)
    )
