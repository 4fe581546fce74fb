"""A model as a tree of modules, as PyTorch prints it, with the shape and count of each tensor."""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.data_table import INTEGER, Column, DataTable
from weighbridge.answers.weigh import weigh
from weighbridge.errors import UsageError
from weighbridge.ledger.places import ONE
from weighbridge.ledger.rows import RowGroup
from weighbridge.render.document import Branch, Document, Leaf, Outline
from weighbridge.render.words import words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.answers.flow_tree import FlowTree
    from weighbridge.answers.weigh import Weighing
    from weighbridge.ledger.rows import Entry

    # The rest of a name's path below a module, and of its places.
    Item = tuple[tuple[str, ...], Entry]
    from weighbridge.models.find import Described


def tree(
    model: Described,
    class_name: str | None = None,
    *,
    fields: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | None = None,
) -> Tree:
    """Return the tree of a model's modules, with the shape and the parameters of every tensor.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`.
        fields: as for `weigh`.
        dtype: as for `weigh`.
        strict: as for `weigh`.
        blueprint: as for `weigh`.

    Raises:
        ModelError, ConfigError, BlueprintError: as for `weigh`.

    Example:
        >>> tree("bert-base-chinese").root.modules[1].modules[0].modules[0].name
        '0-11'
    """
    return Tree(
        weigh(model, class_name, fields=fields, dtype=dtype, strict=strict, blueprint=blueprint)
    )


class TensorLeaf(NamedTuple):
    """A tensor of a module; ``parameters`` is 0 if it is tied to another."""

    name: str
    shape: tuple[int, ...]
    parameters: int
    tied_to: str | None


class Node(NamedTuple):
    """A module with tensors, or a run of identical layers.

    ``indices`` lists the layers of a run, and its ``name`` is like ``"0-11"``. ``parameters_each``
    counts one of the layers and ``parameters`` all; ``tensors`` and ``modules`` are those of one.
    """

    name: str
    class_name: str
    parameters: int
    parameters_each: int
    tensors: tuple[TensorLeaf, ...]
    modules: tuple[Node, ...]
    indices: range | None = None

    @property
    def copies(self) -> int:
        """The number of modules: 1, or the layers of a run."""
        if self.indices is None:
            return 1
        return len(self.indices)


class Tree(TabularAnswer):
    r"""What `tree` returns.

    Modules without tensors, such as dropout and activations, are left out: they weigh nothing.
    Consecutive identical layers are folded, so their number does not matter for the cost.

    Example:
        >>> shown = tree("bert-base-chinese", "BertForMaskedLM").text(depth=2)
        >>> print("\n".join(shown.splitlines()[:7]))
        google-bert/bert-base-chinese
        BertForMaskedLM                                               102,290,312 100.0%
          (bert): BertModel                                           101,677,056  99.4%
            (embeddings): BertEmbeddings                               16,622,592  16.3%
            (encoder): BertEncoder                                     85,054,464  83.2%
          (cls): BertOnlyMLMHead                                          613,256   0.6%
            (predictions): BertLMPredictionHead                           613,256   0.6%
    """

    groupings = ("module",)

    def __init__(self, weighing: Weighing) -> None:
        self.weighing = weighing
        items = [
            (tuple(entry.template.name.split(".")), entry)
            for entry in weighing.ledger.entries
            if entry.indices
        ]
        classes = weighing.model.blueprint.modules(weighing.class_name)
        self.root = _node("", (), items, classes)

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read."""
        return self.weighing.notes

    def flow(self) -> FlowTree:
        """Return the modules in the order in which they run, with the values between them.

        Raises:
            ModelError: the flow of the family is not recorded, or not for this config.

        Example:
            >>> tree("bert").flow().to_dict(depth=0)["steps"][0]["called"]
            'embeddings'
        """
        from weighbridge.answers.flow_tree import FlowTree  # noqa: PLC0415  # most do without

        return FlowTree(self.weighing)

    def named_modules(self) -> Iterator[tuple[str, str, int]]:
        """Yield each module's path, class and unique parameters, in PyTorch's order.

        Example:
            >>> modules = list(tree("bert").named_modules())
            >>> modules[0]
            ('', 'BertModel', 109482240)
        """
        return _unfold(self.root, ())

    def to_dict(self, depth: int | None = None) -> dict[str, Any]:
        """Return the tree, ready for JSON; modules ``depth`` levels down have no ``modules``.

        Below a node with several ``copies``, every number is for one copy.
        """
        _check_depth(depth)
        active = {}
        if self.weighing.active is not None:
            active = {"active": self.weighing.active}
        return {
            "model": self.weighing.model.where,
            "family": self.weighing.model.blueprint.family,
            "class": self.weighing.class_name,
            "parameters": self.weighing.parameters,
            **active,
            "tree": _to_dict(self.root, depth),
            "notes": self.weighing.model.notes,
            "evidence": self.weighing.evidence,
        }

    def _data_table(self, by: str) -> DataTable:
        """Return a row for each module, with every layer separate."""
        columns = (Column(by), Column("class"), Column("parameters", INTEGER))
        return DataTable(columns, list(self.named_modules()))

    def document(
        self, lang: str = "en", depth: int | None = None, *, evidence: bool = False
    ) -> Document:
        """Return the tree as a document, ``depth`` levels of modules below the model itself.

        Raises:
            UsageError: the depth is negative, or the language is unknown.
        """
        _check_depth(depth)
        texts = {**words(lang), **data.read_toml(f"words/tree.{lang}.toml")}
        root = _Outliner(self.root.parameters, depth, texts).branch(self.root, 0, 1)
        notes = *self._sentences(texts, lang), *self.weighing.known(lang, evidence=evidence)
        return Document((Outline(self.weighing.model.where, root, notes),), lang)

    def _sentences(self, texts: Mapping[str, str], lang: str) -> Iterator[str]:
        tied = self.weighing.ledger.tied
        if _folds(self.root):
            yield texts["alike"]
        yield texts["left_out"]
        yield from self.weighing.within(lang)
        if tied:
            yield texts["tied"].format(count=units.count(tied))


def _check_depth(depth: int | None) -> None:
    if depth is not None and (type(depth) is not int or depth < 0):
        raise UsageError(
            "the depth must be 0 or more",
            values={"depth": depth},
            hint="leave it out to show all levels",
        )


# From entries to nodes


def _node(
    name: str,
    path: tuple[str, ...],
    items: Sequence[Item],
    classes: Mapping[str, str],
    at: tuple[int, ...] = (),
    indices: range | None = None,
) -> Node:
    """Return the module at this path, made of the tensors below it.

    A run of layers is given as the tensors of one layer.
    """
    below: dict[str, list[Item]] = {}
    for (first, *rest), entry in items:
        if rest:
            below.setdefault(first, []).append((tuple(rest), entry))
    modules: list[Node] = []
    for first, inside in below.items():
        inner = (*path, first)
        if not first.startswith("{"):
            modules.append(_node(first, inner, inside, classes, at))
            continue
        for run, layer in _runs(inside):
            modules.append(_node(_run_name(run), inner, layer, classes, (*at, run[0]), run))
    parameters_each = RowGroup(name, tuple(entry for _, entry in items)).parameters
    parameters = parameters_each
    if indices is not None:
        parameters *= len(indices)
    class_name = classes.get(".".join(path), "Module")
    tensors = tuple(_leaves(items, at))
    return Node(name, class_name, parameters, parameters_each, tensors, tuple(modules), indices)


def _leaves(items: Iterable[Item], at: tuple[int, ...]) -> Iterator[TensorLeaf]:
    for (name, *rest), entry in items:
        if rest:
            continue
        one = entry._replace(indices=ONE)
        for place in entry.indices:  # one class, unless it is a list of bare tensors
            leaf_name = name
            if name.startswith("{"):
                leaf_name = str(place[0])
            tied_to = one.tied_to((*at, *place))
            yield TensorLeaf(leaf_name, entry.shape, one.parameters, tied_to)


def _runs(items: Sequence[Item]) -> Iterator[tuple[range, list[Item]]]:
    """Yield each run of identical layers, with the tensors of its first layer.

    A run ends where a tensor appears, changes its shape or ends; in between, all layers are
    identical.
    """
    stretches_of_items = [_stretches_of(entry) for _, entry in items]
    ends = set[int]()
    for stretch, _ in chain.from_iterable(stretches_of_items):
        ends |= {stretch.start, stretch.stop}
    for start, stop in pairwise(sorted(ends)):
        layer = []
        for (path, entry), stretches in zip(items, stretches_of_items, strict=True):
            last = bisect_right(stretches, start, key=_start) - 1
            if last >= 0 and start in stretches[last][0]:
                layer.append((path, entry._replace(indices=stretches[last][1])))
        if layer:
            yield range(start, stop), layer


def _stretches_of(entry: Entry) -> list[tuple[range, Any]]:
    """Return the ranges of layers that have a tensor, in order, with its places in each."""
    stretches = []
    for values, inside in entry.indices.blocks:
        stretches += [(stretch, inside) for stretch in _stretches(values)]
    return sorted(stretches, key=_start)


def _start(stretch: tuple[range, Any]) -> int:
    return stretch[0].start


def _stretches(indices: Sequence[int]) -> Iterator[range]:
    """Split indices into ranges without gaps."""
    if isinstance(indices, range):
        yield indices
        return
    start = 0
    for at in range(1, len(indices) + 1):
        if at == len(indices) or indices[at] != indices[at - 1] + 1:
            yield range(indices[start], indices[at - 1] + 1)
            start = at


def _run_name(run: range) -> str:
    if len(run) == 1:
        return str(run[0])
    return f"{run[0]}-{run[-1]}"


def _unfold(node: Node, path: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    names = [node.name]
    if node.indices is not None:
        names = list(map(str, node.indices))
    for name in names:
        module_path = (*path, *filter(None, [name]))  # the model itself has no name
        yield ".".join(module_path), node.class_name, node.parameters_each
        for module in node.modules:
            yield from _unfold(module, module_path)


def _folds(node: Node) -> bool:
    return node.copies > 1 or any(map(_folds, node.modules))


# From nodes to dicts and branches


def _to_dict(node: Node, depth: int | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": node.name,
        "class": node.class_name,
        "copies": node.copies,
        "parameters": node.parameters,
        "parameters_each": node.parameters_each,
        "tensors": [{**tensor._asdict(), "shape": list(tensor.shape)} for tensor in node.tensors],
    }
    if depth is None:
        described["modules"] = [_to_dict(module, None) for module in node.modules]
    elif depth > 0:
        described["modules"] = [_to_dict(module, depth - 1) for module in node.modules]
    return described


class _Outliner(NamedTuple):
    """Turns nodes into branches, with the total for shares, the requested depth, the words."""

    total: int
    depth: int | None
    texts: Mapping[str, str]

    def branch(self, node: Node, level: int, copies: int) -> Branch:
        """Return a module as a branch; its parent has this many copies."""
        inside = copies * node.copies
        leaves, branches = [], []
        if not node.modules or self.depth is None or level < self.depth:
            for tensor in node.tensors:
                text = f"{tensor.name} {list(tensor.shape)}"
                if tensor.tied_to:
                    text = f"{text} = {tensor.tied_to}"
                figures = self.figures(tensor.parameters, inside)
                leaves.append(Leaf(text, figures, tensor.tied_to or ""))
            branches = [self.branch(module, level + 1, inside) for module in node.modules]
        figures = self.figures(node.parameters, copies)
        return Branch(self.title(node), figures, tuple(leaves), tuple(branches))

    def title(self, node: Node) -> str:
        if node.copies > 1:
            each = self.texts["each"].format(count=units.count(node.parameters_each))
            return f"({node.name}): {node.copies} × {node.class_name}{each}"
        if node.name:
            return f"({node.name}): {node.class_name}"
        return node.class_name

    def figures(self, parameters: int, copies: int) -> tuple[str, str]:
        """Return a count with its share, or with the number of its copies."""
        if copies == 1:
            return units.count(parameters), units.share(parameters, self.total)
        return units.count(parameters), f"× {copies}"
