"""A model as the tree of its modules: what PyTorch's own print shows, with the shape and the count of every tensor."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.answers.weigh import weigh
from weighbridge.errors import UsageError
from weighbridge.ledger.places import ONE
from weighbridge.ledger.rows import RowGroup
from weighbridge.render.table import COLUMNS, width, wrap
from weighbridge.render.words import words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.answers.weigh import Weighing
    from weighbridge.ledger.rows import Entry

    Item = tuple[
        tuple[str, ...], Entry
    ]  # what is left of the name's path, and of its places, below a module


def tree(
    model: str | os.PathLike[str] | Mapping[str, Any],
    class_name: str | None = None,
    *,
    fields: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | None = None,
) -> Tree:
    """Return the tree of a model's modules; the arguments and the errors are those of `weigh`.

    Example:
        >>> tree("bert-base-chinese").root.modules[1].modules[0].modules[0].name
        '0-11'
    """
    return Tree(
        weigh(model, class_name, fields=fields, dtype=dtype, strict=strict, blueprint=blueprint)
    )


class Tensor(NamedTuple):
    """A tensor that hangs on a module: ``parameters`` is 0 where it is tied, and so counted at ``tied_to``."""

    name: str
    shape: tuple[int, ...]
    parameters: int
    tied_to: str | None


class Node(NamedTuple):
    """A module that holds tensors, or a run of layers that are alike: ``indices`` says which, ``name`` is ``"0-11"``.

    ``parameters_each`` counts one of them and ``parameters`` them all; ``tensors`` and ``modules``
    are those of one.
    """

    name: str
    class_name: str
    parameters: int
    parameters_each: int
    tensors: tuple[Tensor, ...]
    modules: tuple[Node, ...]
    indices: range | None = None

    @property
    def copies(self) -> int:
        """How many modules this stands for: 1, or the layers of a run."""
        return 1 if self.indices is None else len(self.indices)


class Tree:
    r"""What `tree` returns.

    Modules that hold no tensors, such as dropout and activations, are left out: they weigh nothing.
    Layers are folded where they are alike and follow on each other, and cost no more for being
    many.

    Example:
        >>> print("\n".join(tree("bert-base-chinese", "BertForMaskedLM").text(depth=2).splitlines()[:7]))
        google-bert/bert-base-chinese
        BertForMaskedLM                                               102,290,312 100.0%
          (bert): BertModel                                           101,677,056  99.4%
            (embeddings): BertEmbeddings                               16,622,592  16.3%
            (encoder): BertEncoder                                     85,054,464  83.2%
          (cls): BertOnlyMLMHead                                          613,256   0.6%
            (predictions): BertLMPredictionHead                           613,256   0.6%
    """

    def __init__(self, weighing: Weighing) -> None:
        self.weighing = weighing
        items = [
            (tuple(entry.template.name.split(".")), entry)
            for entry in weighing.ledger.entries
            if entry.indices
        ]
        classes = weighing.model.blueprint.modules(weighing.class_name)
        self.root = _node("", (), items, classes)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def named_modules(self) -> Iterator[tuple[str, str, int]]:
        """Yield the path, the class and the unique parameters of every module, in the order of PyTorch's own.

        Example:
            >>> [path for path, class_name, _ in tree("bert").named_modules() if class_name == "BertLayer"][-1]
            'encoder.layer.11'
        """
        return _unfold(self.root, ())

    def to_dict(self, depth: int | None = None) -> dict[str, Any]:
        """Return the tree, ready for JSON; modules ``depth`` levels down have no ``modules``.

        Below a node with more ``copies`` than one, every number is of one copy.
        """
        _check(depth)
        return {
            "model": self.weighing.model.where,
            "family": self.weighing.model.blueprint.family,
            "class": self.weighing.class_name,
            "parameters": self.weighing.parameters,
            "tree": _to_dict(self.root, depth),
            "notes": self.weighing.model.notes,
            "evidence": self.weighing.evidence,
        }

    def text(self, depth: int | None = None, lang: str = "en") -> str:
        """Write the tree for a terminal, ``depth`` levels of modules below the model itself.

        Raises:
            UsageError: the depth is negative, or there is no such language.
        """
        _check(depth)
        view = _View(self.root.parameters, depth, _said(lang))
        lines = _lines(self.root, 0, 1, view)
        return "\n".join([self.weighing.model.where, *lines, "", *map(wrap, self._notes(lang))])

    def html(self, lang: str = "en") -> str:
        """Write the tree as a piece of HTML whose modules open and close."""
        from html import escape  # noqa: PLC0415

        view = _View(self.root.parameters, None, _said(lang))
        notes = "".join(f"<li>{escape(note)}</li>" for note in self._notes(lang))
        heading = f'<div style="font-family:monospace"><b>{escape(self.weighing.model.where)}</b>'
        return "\n".join([heading, *_html(self.root, 0, 1, view), f"<ul>{notes}</ul></div>"])

    def _notes(self, lang: str) -> list[str]:
        said = _said(lang)
        tied = self.weighing.ledger.tied
        return [
            *([said["alike"]] if _folds(self.root) else []),
            said["left_out"],
            *([said["tied"].format(count=units.count(tied))] if tied else []),
            *self.weighing.known(lang),
        ]


def _check(depth: int | None) -> None:
    if depth is not None and (type(depth) is not int or depth < 0):
        raise UsageError(
            "a depth is 0 or more", values={"depth": depth}, hint="leave it out to see every level"
        )


def _said(lang: str) -> dict[str, str]:
    return {**words(lang), **data.read_toml(f"words/tree.{lang}.toml")}


# From entries to nodes


def _node(
    name: str,
    path: tuple[str, ...],
    items: Sequence[Item],
    classes: Mapping[str, str],
    at: tuple[int, ...] = (),
    indices: range | None = None,
) -> Node:
    """Return the module at this path, of the tensors below it; those of a run of layers are given as one layer's."""
    below: dict[str, list[Item]] = {}
    for (first, *rest), entry in items:
        if rest:
            below.setdefault(first, []).append((tuple(rest), entry))
    modules: list[Node] = []
    for first, inside in below.items():
        inner = (*path, first)
        if first.startswith("{"):
            runs = ((_run_name(run), one, run) for run, one in _runs(inside))
            modules.extend(
                _node(run_name, inner, one, classes, (*at, run[0]), run)
                for run_name, one, run in runs
            )
        else:
            modules.append(_node(first, inner, inside, classes, at))
    each = RowGroup(name, tuple(entry for _, entry in items)).parameters
    every = each if indices is None else each * len(indices)
    class_name = classes.get(".".join(path), "Module")
    return Node(name, class_name, every, each, tuple(_tensors(items, at)), tuple(modules), indices)


def _tensors(items: Iterable[Item], at: tuple[int, ...]) -> Iterator[Tensor]:
    for (name, *rest), entry in items:
        if not rest:
            one = entry._replace(indices=ONE)
            for place in entry.indices:  # one, unless it is a list of bare tensors
                called = str(place[0]) if name.startswith("{") else name
                yield Tensor(called, entry.shape, one.parameters, one.tied_to((*at, *place)))


def _runs(items: Sequence[Item]) -> Iterator[tuple[range, list[Item]]]:
    """Yield each run of layers that are alike, with the tensors of its first layer.

    Where a tensor appears, changes its shape or ends, a run ends; between such places all layers
    are alike.
    """
    stretches = [
        sorted(
            (
                (stretch, inside)
                for values, inside in entry.indices.blocks
                for stretch in _stretches(values)
            ),
            key=lambda pair: pair[0].start,
        )
        for _, entry in items
    ]
    ends = sorted(
        {
            end
            for found in stretches
            for stretch, _ in found
            for end in (stretch.start, stretch.stop)
        }
    )
    for start, stop in pairwise(ends):
        here = []
        for (path, entry), found in zip(items, stretches, strict=True):
            last = bisect_right(found, start, key=lambda pair: pair[0].start) - 1
            if last >= 0 and start in found[last][0]:
                here.append((path, entry._replace(indices=found[last][1])))
        if here:
            yield range(start, stop), here


def _stretches(indices: Sequence[int]) -> Iterator[range]:
    """Cut indices into stretches without a gap."""
    if isinstance(indices, range):
        yield indices
        return
    start = 0
    for at in range(1, len(indices) + 1):
        if at == len(indices) or indices[at] != indices[at - 1] + 1:
            yield range(indices[start], indices[at - 1] + 1)
            start = at


def _run_name(run: range) -> str:
    return str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"


def _unfold(node: Node, path: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    names = [node.name] if node.indices is None else map(str, node.indices)
    for name in names:
        here = (*path, name) if name else path
        yield ".".join(here), node.class_name, node.parameters_each
        for module in node.modules:
            yield from _unfold(module, here)


def _folds(node: Node) -> bool:
    return node.copies > 1 or any(map(_folds, node.modules))


# From nodes to dicts, lines and HTML


def _to_dict(node: Node, depth: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": node.name,
        "class": node.class_name,
        "copies": node.copies,
        "parameters": node.parameters,
        "parameters_each": node.parameters_each,
        "tensors": [{**tensor._asdict(), "shape": list(tensor.shape)} for tensor in node.tensors],
    }
    if depth != 0:
        deeper = None if depth is None else depth - 1
        found["modules"] = [_to_dict(module, deeper) for module in node.modules]
    return found


class _View(NamedTuple):
    """What a writer needs to know besides the node: the whole that shares are of, the levels asked for, the words."""

    total: int
    depth: int | None
    said: Mapping[str, str]

    def title(self, node: Node) -> str:
        if node.copies > 1:
            each = self.said["each"].format(count=units.count(node.parameters_each))
            return f"({node.name}): {node.copies} × {node.class_name}{each}"
        return f"({node.name}): {node.class_name}" if node.name else node.class_name

    def figures(self, parameters: int, copies: int) -> str:
        """Write a count with its share, or with how often it stands in the model."""
        share = units.share(parameters, self.total) if copies == 1 else f"× {copies}"
        return f"{units.count(parameters)} {share:>6}"


def _lines(node: Node, level: int, copies: int, view: _View) -> Iterator[str]:
    """Yield a module's line and those below it; a module without others has its tensors on its line if they fit."""
    title, figures = "  " * level + view.title(node), view.figures(node.parameters, copies)
    whole = f"{title} {', '.join(map(_shaped, node.tensors))}"
    if node.tensors and not node.modules and _fits(whole, figures):
        yield _line(whole, figures)
        return
    yield _line(title, figures)
    inside = copies * node.copies
    if not node.modules or view.depth is None or level < view.depth:
        for tensor in node.tensors:
            yield from _tensor_lines(
                tensor, "  " * (level + 1), view.figures(tensor.parameters, inside)
            )
        for module in node.modules:
            yield from _lines(module, level + 1, inside, view)


def _tensor_lines(tensor: Tensor, indent: str, figures: str) -> Iterator[str]:
    whole = indent + _shaped(tensor)
    shape, equals, tied_to = whole.partition(" = ")
    if equals and not _fits(whole, figures):
        yield _line(shape, figures)
        shared, room = f"= {tied_to}", COLUMNS - width(f"= {tied_to}")
        yield (
            f"{indent}  "[: room if room >= 0 else None] + shared
        )  # a long name goes to the left if that helps
    else:
        yield _line(whole, figures)


def _shaped(tensor: Tensor) -> str:
    shape = f"{tensor.name} {list(tensor.shape)}"
    return f"{shape} = {tensor.tied_to}" if tensor.tied_to else shape


def _fits(left: str, right: str) -> bool:
    return width(left) + 2 + width(right) <= COLUMNS


def _line(left: str, right: str) -> str:
    """Write a line with its figures on the right, and what has no room beside them below it."""
    indent = " " * (len(left) - len(left.lstrip()) + 4)
    first, *rest = wrap(left, COLUMNS - width(right) - 2, indent).split("\n")
    return "\n".join([first + " " * max(2, COLUMNS - width(first) - width(right)) + right, *rest])


def _html(node: Node, level: int, copies: int, view: _View) -> Iterator[str]:
    figures = view.figures(node.parameters, copies)
    if not node.modules:
        yield _div(f"{view.title(node)} {', '.join(map(_shaped, node.tensors))}", figures)
        return
    opened = ' open=""' if level < 2 else ""
    yield f"<details{_INDENT}{opened}><summary>{_spread(view.title(node), figures)}</summary>"
    inside = copies * node.copies
    for tensor in node.tensors:
        yield _div(_shaped(tensor), view.figures(tensor.parameters, inside))
    for module in node.modules:
        yield from _html(module, level + 1, inside, view)
    yield "</details>"


_INDENT = ' style="margin-left:1.5em"'


def _div(left: str, right: str) -> str:
    return f"<div{_INDENT}>{_spread(left, right)}</div>"


def _spread(left: str, right: str) -> str:
    from html import escape  # noqa: PLC0415

    return f'{escape(left)} <span style="float:right">{escape(right)}</span>'
