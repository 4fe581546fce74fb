"""The waist: every model and every checkpoint becomes rows of one kind, and every answer is a fold over them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.blueprint import LARGEST_SIZE, MOST_LAYERS, Template, component_of
from weighbridge.errors import ExpressionError, UsageError, nearest
from weighbridge.expr import NUMBERS, Tree, evaluate, names_in, parse, source
from weighbridge.polynomial import Polynomial, symbols

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.blueprint import Blueprint
    from weighbridge.expr import Meaning

LARGEST_TOTAL = 2**63 - 1  # that an array of 64 bits can hold
GROUPINGS = ("component", "role", "layer", "tensor")


class Row(NamedTuple):
    """One tensor, expected or found.

    ``count`` is the number of its elements; ``parameters`` is what it adds to the unique parameters of its class: the
    same, or 0 for a tied tensor (``tied_to`` names the row that holds the weight) and for a buffer. A header does not
    tell one from the other: in a row that a reader found, ``parameters`` is ``count``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    dims: tuple[str, ...]
    count: int  # type: ignore[assignment]  # the word that users know; a tuple's own count() is not missed
    parameters: int
    tied_to: str | None = None


class Entry(NamedTuple):
    """A template bound to numbers: one row, or the same row in each of ``indices``.

    ``indices`` is a range where the tensor stands in every layer, so that an entry's cost does not grow with them.
    """

    template: Template
    shape: tuple[int, ...]
    indices: Sequence[int]
    tied: bool

    @property
    def parameters(self) -> int:
        """What its rows add to the unique parameters."""
        return 0 if self.tied else prod(self.shape) * len(self.indices)

    def name(self, index: int) -> str:
        """Return the name of the tensor in this layer."""
        return self._in_layer(self.template.name, index)

    def tied_to(self, index: int) -> str | None:
        """Return the name of the tensor that this one is in this layer, if it is another one."""
        tie = self.template.tie if self.tied else None
        return self._in_layer(tie.to, index) if tie else None

    def _in_layer(self, name: str, index: int) -> str:
        repeat = self.template.repeat
        return name.replace(f"{{{repeat}}}", str(index)) if repeat else name


class Line(NamedTuple):
    """A group of entries under one name: a component, a role, a layer or a tensor."""

    name: str
    entries: tuple[Entry, ...]

    @property
    def parameters(self) -> int:
        """The unique parameters of the group."""
        return sum(entry.parameters for entry in self.entries)

    @property
    def tied(self) -> int:
        """The elements of the group that are shared with another tensor, and so counted there."""
        return sum(prod(entry.shape) * len(entry.indices) for entry in self.entries if entry.tied)


class Ledger:
    """What a class of a model holds under one config.

    Example:
        >>> from weighbridge.blueprint import load
        >>> bert = load("bert")
        >>> ledger = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2})
        >>> ledger.parameters
        109482240
        >>> ledger.rows[0].name, ledger.rows[0].shape
        ('embeddings.word_embeddings.weight', (30522, 768))
    """

    def __init__(
        self, blueprint: Blueprint, class_name: str, fields: Mapping[str, Any], entries: tuple[Entry, ...], dtype: str
    ) -> None:
        self.blueprint, self.class_name, self.fields = blueprint, class_name, fields
        self.entries, self.dtype = entries, dtype

    def __repr__(self) -> str:
        return f"<Ledger of {self.class_name}: {self.parameters} parameters>"

    @property
    def parameters(self) -> int:
        """The unique parameters: what ``sum(p.numel() for p in model.parameters())`` gives."""
        return sum([prod(entry.shape) * len(entry.indices) for entry in self.entries if not entry.tied])

    @property
    def tied(self) -> int:
        """The elements that are shared with another tensor, and so counted there."""
        return Line("", self.entries).tied

    @property
    def rows(self) -> list[Row]:
        """Every tensor in checkpoint order, layer by layer."""
        return [self._row(entry, index) for entry, index in _in_order(self.entries)]

    def by(self, grouping: str) -> list[Line]:
        """Return the entries in groups, in the order of their first tensor.

        Args:
            grouping: ``"component"``, ``"role"``, ``"layer"`` or ``"tensor"``.

        Raises:
            UsageError: there is no such grouping.

        Example:
            >>> from weighbridge.blueprint import load
            >>> bert = load("bert")
            >>> lines = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2}).by("component")
            >>> [(line.name, line.parameters) for line in lines if line.name in ("pooler", "attention")]
            [('attention', 28348416), ('pooler', 590592)]
        """
        if grouping not in GROUPINGS:
            raise UsageError(
                "cannot group so", values={"by": grouping}, hint=f"group by {', '.join(GROUPINGS[:-1])} or tensor"
            )
        groups: dict[str, list[Entry]] = {}
        for name, entry in self._named(grouping):
            groups.setdefault(name, []).append(entry)
        return [Line(name, tuple(entries)) for name, entries in groups.items()]

    def formula(self, **fields: Any) -> Any:
        """Return the total as a formula, or its value where some fields are other numbers than the config's.

        With no field, every size is a letter and the result a `Polynomial`. With fields, the others keep the config's
        values, and the result is of the kind given: an integer, or an array of one total an element. It is the same
        fold over the same expressions each time; conditions and lists keep what the config says.

        Raises:
            UsageError: a field is no size, or decides which tensors exist; or the family's requirements do not hold.

        Example:
            >>> from weighbridge.blueprint import load
            >>> bert = load("bert")
            >>> ledger = bind(bert, "BertForMultipleChoice", {**bert.defaults, "num_labels": 2})
            >>> ledger.formula(num_hidden_layers=24)
            194537473
            >>> import numpy
            >>> ledger.formula(num_hidden_layers=numpy.array([12, 24]))
            array([109483009, 194537473])
            >>> ledger.formula() == ledger.formula_of(ledger.by("role"))
            True
        """
        if fields:
            self._check_sizes(fields)
            fields = {name: _widened(value) for name, value in fields.items()}
            self._check_rules(fields)
        bound = {**self.fields, **fields} if fields else self.variables()
        return _total(self.entries, self.blueprint, bound, NUMBERS if fields else self.meaning())

    def _check_sizes(self, fields: Mapping[str, Any]) -> None:
        """Refuse fields for which the same tensors at other sizes are not the answer."""
        blueprint = self.blueprint
        varies = any(entry.template.varies for entry in self.entries)
        sizes = blueprint.sizes - blueprint.deciding - (blueprint.repeats if varies else frozenset())
        for name in fields:
            if name not in blueprint.fields:
                near = nearest(sizes, name) or sorted(sizes)
                raise UsageError(f"{blueprint.family} has no field {name}", hint=f"did you mean {' or '.join(near)}?")
            if name not in sizes:
                hint = "weigh the config with that value"
                raise UsageError(f"{name} decides more than sizes, so a formula cannot replace it", hint=hint)
        for name, tree in blueprint.computed.items():
            if name not in fields and not fields.keys().isdisjoint(names_in(tree)):
                raise UsageError(f"{name} follows from a field that is replaced", hint=f"give {name} too")
        if not all(map(_is_whole, fields.values())):
            raise UsageError("a formula takes integers, or arrays of them", values=fields, hint="round them first")

    def _check_rules(self, fields: Mapping[str, Any]) -> None:
        """Refuse values that the family does not allow, and arrays whose totals do not fit one."""
        bound = {**self.fields, **fields}
        rules = {f"{name} >= 1": parse(f"{name} >= 1") for name in fields} | self.blueprint.require
        for rule, tree in rules.items():
            holds = evaluate(tree, bound)
            if not (holds.all() if hasattr(holds, "all") else holds):
                values = {name: bound[name] for name in names_in(tree)}
                hint = "replace other fields too"
                raise UsageError(f"a {self.blueprint.family} needs {rule}", values=values, hint=hint)
        most = {name: int(value.max()) if _is_array(value) else value for name, value in fields.items()}
        if any(map(_is_array, fields.values())) and self._total_at(most) > LARGEST_TOTAL:
            raise UsageError("the total does not fit an array's 64 bits", values=most, hint="use smaller sizes")

    def _total_at(self, fields: Mapping[str, Any]) -> int:
        total: int = _total(self.entries, self.blueprint, {**self.fields, **fields}, NUMBERS)
        return total

    def formula_of(self, lines: Iterable[Line]) -> Polynomial:
        """Return the formula in letters of some groups together."""
        entries = tuple(entry for line in lines for entry in line.entries)
        total: Polynomial = Polynomial({}) + _total(entries, self.blueprint, self.variables(), self.meaning())
        return total

    def buffers(self) -> list[Row]:
        """Return the tensors that are no parameters, but that some checkpoints store."""
        found = []
        for buffer in self.blueprint.buffers(self.class_name):
            shape = tuple(evaluate(self.blueprint.dims[dim], self.fields) for dim in buffer.dims)
            found.append(Row(buffer.name, shape, buffer.dtype, "buffer", buffer.dims, prod(shape), 0))
        return found

    def _row(self, entry: Entry, index: int) -> Row:
        template, count = entry.template, prod(entry.shape)
        shared, to = 0 if entry.tied else count, entry.tied_to(index)
        return Row(entry.name(index), entry.shape, self.dtype, template.role, template.dims, count, shared, to)

    def _named(self, grouping: str) -> Iterator[tuple[str, Entry]]:
        if grouping == "component":
            yield from ((component_of(entry.template.role), entry) for entry in self.entries)
        elif grouping == "role":
            yield from ((entry.template.role, entry) for entry in self.entries)
        else:
            prefix = self.blueprint.prefix(self.class_name)
            for entry, index in _in_order(self.entries):
                alone = entry._replace(indices=(index,))
                yield entry.name(index) if grouping == "tensor" else _layer(entry, index, prefix), alone

    def variables(self) -> dict[str, Any]:
        """Return the fields with a symbol in place of every integer; flags and lists stay as the config has them."""
        return {name: Polynomial.of(name) if type(value) is int else value for name, value in self.fields.items()}

    def meaning(self) -> Meaning:
        """Return the meaning under which those symbols are divided as the family's requirements allow."""
        return symbols(self.blueprint.require.values())


def bind(blueprint: Blueprint, class_name: str, fields: Mapping[str, Any], dtype: str = "F32") -> Ledger:
    """Return the ledger of a class where every field of the blueprint has a value.

    The cost does not depend on the number of layers, unless a tensor's shape or presence depends on its layer.

    Raises:
        ModelError: the family has no such class.
        ExpressionError: a field is missing, or an expression has no value.
    """
    sizes = _Sizes(blueprint.dims, fields)
    layers = {index: range(_size(tree, fields, 0, MOST_LAYERS)) for index, tree in blueprint.repeat.items()}
    layers[""] = range(1)
    entries: list[Entry] = []
    for template in blueprint.templates(class_name):
        if template.varies:
            entries.extend(_varying(blueprint, template, layers[template.repeat], fields))
        elif template.when is None or evaluate(template.when, fields):
            shape = tuple([sizes[dim] for dim in template.dims])
            entries.append(Entry(template, shape, layers[template.repeat], _is_tied(template, fields)))
    return Ledger(blueprint, class_name, fields, tuple(entries), dtype)


def _is_whole(value: Any) -> bool:
    """Whether a value is an integer or an array of integers, of at least one."""
    return type(value) is int or (getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u") and value.size > 0)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype")


def _widened(value: Any) -> Any:
    """Return an array in 64 bits, where its own may be too few for a product."""
    return value.astype("int64") if _is_array(value) else value


class _Sizes(dict[str, int]):
    """The value of each dim that some tensor has, worked out when it is first asked for."""

    def __init__(self, dims: Mapping[str, Tree], fields: Mapping[str, Any]) -> None:
        super().__init__()
        self.dims, self.fields = dims, fields

    def __missing__(self, dim: str) -> int:
        self[dim] = size = _size(self.dims[dim], self.fields)
        return size


def _size(tree: Tree, fields: Mapping[str, Any], least: int = 1, most: int = LARGEST_SIZE) -> int:
    size = evaluate(tree, fields)
    if type(size) is not int or not least <= size <= most:
        bound = {name: fields[name] for name in names_in(tree)}
        raise ExpressionError(f"comes to {size!r}, no integer from {least} to {most}", where=source(tree), values=bound)
    return size


def _is_tied(template: Template, fields: Mapping[str, Any]) -> bool:
    tie = template.tie
    return tie is not None and (tie.when is None or bool(evaluate(tie.when, fields)))


def _varying(blueprint: Blueprint, template: Template, layers: range, fields: Mapping[str, Any]) -> list[Entry]:
    """Return an entry for each shape that a template has over the layers it stands in."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index in layers:
        here = {**fields, template.repeat: index}
        if template.when is None or evaluate(template.when, here):
            shape = tuple(_size(blueprint.dims[dim], here) for dim in template.dims)
            by_shape.setdefault(shape, []).append(index)
    tied = _is_tied(template, fields)
    return [Entry(template, shape, tuple(indices), tied) for shape, indices in by_shape.items()]


def _total(entries: Sequence[Entry], blueprint: Blueprint, bound: Mapping[str, Any], meaning: Meaning) -> Any:
    """Add up the unique parameters of entries under any meaning of the fields."""
    total: Any = 0
    for entry in entries:
        if entry.tied:
            continue
        template, in_every_layer = entry.template, isinstance(entry.indices, range)
        here = {**bound, template.repeat: entry.indices[0]} if template.varies else bound
        product: Any = len(entry.indices)
        if template.repeat and in_every_layer:
            product = evaluate(blueprint.repeat[template.repeat], bound, meaning)
        for dim in template.dims:
            product = product * evaluate(blueprint.dims[dim], here, meaning)
        total = total + product
    return total


def _stem(entry: Entry) -> str:
    """Return the path down to the layer's index, ``"encoder.layer."``, or nothing where there is none."""
    template = entry.template
    return template.name.partition(f"{{{template.repeat}}}")[0] if template.repeat else ""


def _layer(entry: Entry, index: int, prefix: str) -> str:
    """Return the path of the layer that a tensor is in, or of its first module, the base's prefix aside."""
    stem, name = _stem(entry), entry.template.name
    if stem:
        return f"{stem}{index}"
    below = name.removeprefix(prefix)
    return name[: len(name) - len(below)] + below.partition(".")[0]


def _in_order(entries: Sequence[Entry]) -> Iterator[tuple[Entry, int]]:
    """Yield entries with their indices in checkpoint order: all of layer 0, then all of layer 1, and so on."""
    start = 0
    while start < len(entries):
        stem, end = _stem(entries[start]), start + 1
        while end < len(entries) and stem and _stem(entries[end]) == stem:
            end += 1
        run = entries[start:end]
        yield from (
            sorted(((entry, index) for entry in run for index in entry.indices), key=lambda pair: pair[1])
            if stem
            else ((run[0], 0),)
        )
        start = end
