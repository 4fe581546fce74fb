"""Writes the drafts of classes as the tables of a blueprint: names, dims and conditions as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.algebra.expr import PRECEDENCE, SOURCE, Shown, infix, show
from weighbridge.algebra.rewrite import field_names, joined, leaves, plain_condition, replaced
from weighbridge.derive.generalize.places import list_above

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Meaning, Tree
    from weighbridge.derive.generalize.draft import Draft, Drafted

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
    "complex64": "C64",
    "uint64": "U64",
    "bool": "BOOL",
}
_LETTERS = "ijklmnopqrstuvwxyzabcdefgh"
_TIGHT: Meaning = {
    **SOURCE,
    **{kind: infix(kind, f"{{}}{kind}{{}}") for kind in ("+", "-", "*", "/", "//", "%", "**")},
}
_BRACKETED = max(PRECEDENCE["=="], PRECEDENCE["if"])  # a dim no stronger than this needs brackets


class IndexLetters:
    """The letters of indices; no letter is also the name of a field.

    Lists with the same number of modules, inside the same lists, share a letter.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        fields = set(taken)
        self._free = [letter for letter in _LETTERS if letter not in fields]
        self._letter_of: dict[tuple[str, str, int], str] = {}
        self.counts: dict[str, str] = {}
        """How many values each index takes, as text."""

    def of(self, draft: Draft, path: str) -> str:
        """Return the letter of a list's index."""
        count = draft.repeats[path]
        if count is None:
            count = ("value", 0)
        return self.counting(count, self.chain(draft, list_above(path)))

    def counting(self, tree: Tree, above: Sequence[str]) -> str:
        """Return the letter of an index with this many values, inside indices of these letters."""
        text = expression(tree, above)
        depths = [leaf[1] for leaf in leaves(tree) if leaf[0] == "index"]
        outer = "".join(above[: 1 + max(depths, default=-1)])
        key = (outer, text, len(above))
        if key not in self._letter_of:
            self._letter_of[key] = self._free[len(self._letter_of)]
            self.counts[self._letter_of[key]] = text
        return self._letter_of[key]

    def chain(self, draft: Draft, path: str) -> list[str]:
        """Return the letters of the lists from the outermost list down to this one."""
        if not path:
            return []
        return [*self.chain(draft, list_above(path)), self.of(draft, path)]

    def named(self, draft: Draft, template: str) -> str:
        """Return a template's name, with letters for its indices."""
        return lettered_name(template, self.chain(draft, list_above(template)))


def lettered_name(template: str, letters: Iterable[str]) -> str:
    """Return a template with letters for the numbers of its indices.

    Example:
        >>> lettered_name("layers.{0}.experts.{1}.weight", "ij")
        'layers.{i}.experts.{j}.weight'
    """
    return template.format(*[f"{{{letter}}}" for letter in letters])


def expression(tree: Tree, letters: Iterable[str] = ()) -> str:
    """Return the text of a tree, with letters for its indices.

    Example:
        >>> expression(("<", ("index", 0), ("name", "first_k_dense_replace")), "i")
        'i < first_k_dense_replace'
    """
    return str(show(_lettered(tree, list(letters)), str, SOURCE))


def dim(tree: Tree, letters: Iterable[str] = ()) -> str:
    """Return the text of one dim; only text inside brackets may have spaces.

    Example:
        >>> dim(("*", ("value", 2), ("+", ("name", "a"), ("name", "b"))))
        '2*(a+b)'
    """
    shown: Shown = show(_lettered(tree, list(letters)), str, _TIGHT)
    return f"({shown})" if shown.strength <= _BRACKETED else str(shown)


def _lettered(tree: Tree, letters: list[str]) -> Tree:
    if tree[0] in ("for", "count"):
        return (tree[0], tree[1], _lettered(tree[2], letters), _lettered(tree[3], letters))
    return replaced(tree, lambda leaf: ("name", letters[leaf[1]]) if leaf[0] == "index" else leaf)


def section(
    draft: Draft, letters: IndexLetters, only: Iterable[str] | None = None
) -> dict[str, dict[str, str]]:
    """Return a draft's tensors, ties, conditions and buffers as the tables of a blueprint.

    ``only`` names the templates to write. Only conditions that apply to one of them are kept.
    """
    kept = _kept(draft, only)
    tensors: dict[str, str] = {}
    ranks: dict[str, str] = {}
    ties: dict[str, str] = {}
    buffers: dict[str, str] = {}
    conditions: dict[str, str] = {}
    for tensor in _chosen(draft.tensors, kept):
        chain = letters.chain(draft, list_above(tensor.name))
        name = lettered_name(tensor.name, chain)
        tensors[name] = _dims(tensor, chain)
        if tensor.ranks:
            ranks[name] = "; ".join(_ranks(tensor, chain))
        if tensor.ties:
            ties[name] = "; ".join(_ties(tensor, chain))
    for buffer in _chosen(draft.buffers, kept):
        chain = letters.chain(draft, list_above(buffer.name))
        text = f"{DTYPES[buffer.dtype]} {_dims(buffer, chain)}"
        buffers[lettered_name(buffer.name, chain)] = text.rstrip()
    for path, condition in _conditions_above(draft, kept).items():
        chain = letters.chain(draft, list_above(path))
        conditions[lettered_name(path, chain)] = expression(condition, chain)
    tables = {"tensors": tensors, "ranks": ranks, "when": conditions, "ties": ties}
    tables["buffers"] = buffers
    return {name: table for name, table in tables.items() if table}


def _kept(draft: Draft, only: Iterable[str] | None) -> set[str]:
    """Return the templates to write: these, or all tensors and the known buffers."""
    if only is not None:
        return set(only)
    kept = set(draft.tensors)
    for name, buffer in draft.buffers.items():
        if buffer.dims is not None and not buffer.ranks and buffer.dtype in DTYPES:
            kept.add(name)
    return kept


def _dims(tensor: Drafted, chain: Sequence[str]) -> str:
    return " ".join(dim(tree, chain) for tree in tensor.dims or ())


def _ranks(tensor: Drafted, chain: Sequence[str]) -> Iterator[str]:
    """Yield the dims of a tensor with another number of them, and the condition for that."""
    for rank in tensor.ranks:
        dims = [dim(tree, chain) for tree in rank.dims]
        yield " ".join([*dims, "if", expression(plain_condition(rank.condition), chain)])


def _ties(tensor: Drafted, chain: Sequence[str]) -> Iterator[str]:
    """Yield the tensors that this one is tied to, each with the condition of the tie."""
    for target_template, condition, index in tensor.ties:
        target = lettered_name(target_template, chain)
        if index is not None:
            target = f"{target} at {expression(index, chain)}"
        if condition == ("value", True):
            yield target
            return
        yield f"{target} if {expression(plain_condition(condition), chain)}"


def _chosen(tensors: Mapping[str, Drafted], kept: Container[str]) -> list[Drafted]:
    return [tensor for template, tensor in tensors.items() if template in kept]


def _conditions_above(draft: Draft, kept: Iterable[str]) -> dict[str, Tree]:
    """Return the conditions under which these templates exist, by path.

    The items of a list such as ``conv_{0}`` have no module above them: its condition is theirs.
    """
    conditions: dict[str, Tree] = {}
    for path, condition in draft.conditions.items():
        if condition is None:
            continue
        if any(f"{template}.".startswith(f"{path}.") for template in kept):
            conditions[path] = joined("and", [*_of(conditions, path), condition])
        for item in _items_of_stem(path, kept):
            conditions[item] = joined("and", [condition, *_of(conditions, item)])
    return conditions


def _items_of_stem(path: str, kept: Iterable[str]) -> list[str]:
    """Return the paths of numbered items without a module above: ``bias_l{0}`` for ``bias_l``."""
    start = f"{path}{{{path.count('{')}}}"
    items = [
        template[: len(start)] + template[len(start) :].partition(".")[0]
        for template in kept
        if template.startswith(start)
    ]
    return list(dict.fromkeys(items))


def _of(conditions: Mapping[str, Tree], path: str) -> list[Tree]:
    return [conditions[path]] if path in conditions else []


def fields_in(draft: Draft, only: Iterable[str] | None = None) -> list[str]:
    """Return the fields that a draft's expressions name, in the order of its tensors."""
    kept = _kept(draft, only)
    trees: list[Tree] = []
    for path, count in draft.repeats.items():
        if count is not None and any(name.startswith((f"{path}.", f"{path}{{")) for name in kept):
            trees.append(count)
    for tensor in _chosen(draft.tensors, kept):
        trees += tensor.dims or ()
        for rank in tensor.ranks:
            trees += rank.trees
        for tie in tensor.ties:
            trees += tie.trees
    trees += _conditions_above(draft, kept).values()
    for buffer in _chosen(draft.buffers, kept):
        trees += buffer.dims or ()
    fields: dict[str, None] = {}
    for tree in trees:
        fields |= dict.fromkeys(sorted(field_names(tree)))
    return list(fields)
