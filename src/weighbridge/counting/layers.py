"""The tensors of a ledger as people see them: outside the layers, or in each kind of layer.

Fused tensors are split into the matrices that they hold. The cost grows with the number of layers
and of tensors in a layer, not with the number of experts.
"""

from __future__ import annotations

from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.expr import names_in
from weighbridge.ledger.symbols import size_symbols

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.places import Place, Places
    from weighbridge.ledger.rows import Entry


class PartTensor(NamedTuple):
    """A tensor, or a matrix inside a fused tensor: ``at`` is the position of its entry.

    ``kind`` is ``"matrix"``, ``"bias"``, ``"norm"`` or ``"vector"``. ``elements`` are those of one
    place, of which one token uses the share ``active`` of ``places``. ``experts`` is the number of
    experts in one place, if an axis counts them. ``heads`` is 0 if it is not divided among heads.
    """

    at: int
    name: str
    role: str
    kind: str
    elements: int
    active: int
    places: int
    is_expert: bool = False
    experts: int = 0
    heads: int = 0
    tied: bool = False

    def active_in(self, count: int) -> int:
        """Return the elements that one token uses of ``count`` places."""
        return self.active * count // self.places

    def of_one_expert(self, count: int) -> int:
        """Return the elements of one expert, given the number of places in a layer."""
        return self.elements * count // (self.experts or count)


Contents = tuple[tuple[PartTensor, int], ...]
"""Tensors, each with the number of places that count."""


class LayerKind(NamedTuple):
    """Layers of a stack that hold the same tensors: the path of the stack and their numbers."""

    stack: str
    layers: tuple[Place, ...]
    contents: Contents

    @property
    def mixes_tokens(self) -> bool:
        """Whether tokens take in others in these layers."""
        return any(tensor.role.startswith(_MIXES_TOKENS) for tensor, _ in self.contents)


class Division(NamedTuple):
    """A ledger's tensors outside all layers, and its kinds of layers."""

    outside: Contents
    kinds: tuple[LayerKind, ...]


def divide(ledger: Ledger) -> Division:
    """Divide the tensors of a ledger into those of its layers and the others.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.ledger.ledger import bind
        >>> bert = load("bert")
        >>> division = divide(bind(bert, "BertModel", dict(bert.defaults)))
        >>> [(kind.stack, len(kind.layers), len(kind.contents)) for kind in division.kinds]
        [('encoder.layer', 12, 16)]
    """
    entries = ledger.entries
    levels = _levels(entries)
    outside: list[tuple[PartTensor, int]] = []
    layers: dict[tuple[str, Place], list[tuple[PartTensor, int]]] = {}
    for entry, tensors in zip(entries, _tensors(ledger), strict=True):
        path, _, _ = entry.template.name.partition("{")
        level = min(_depth(entry), levels.get(path, 1))
        if not level:
            outside += [(tensor, len(entry.indices)) for tensor in tensors]
            continue
        stack = "{".join(entry.template.name.split("{")[:level]).rstrip(".")
        for place, count in _layers_of(entry.indices, level):
            layers.setdefault((stack, place), []).extend((tensor, count) for tensor in tensors)
    kinds: dict[tuple[str, Contents], list[Place]] = {}
    for (stack, place), contents in layers.items():
        kinds.setdefault((stack, tuple(contents)), []).append(place)
    return Division(
        tuple(outside),
        tuple(LayerKind(stack, tuple(at), contents) for (stack, contents), at in kinds.items()),
    )


_MIXES_TOKENS = ("attention.", "linear_attention.", "ssm.", "recurrent.", "time_mix.")
_FEEDS_FORWARD = ("ffn.", "channel_mix.")


def _levels(entries: Iterable[Entry]) -> dict[str, int]:
    """Return how many indices number the layers below each path.

    A layer mixes tokens and feeds forward: the blocks of a stage are the layers, not the stage; and
    not the halves of a block, if an index numbers these.
    """
    mixing: dict[str, list[Entry]] = {}
    feeding: dict[str, list[Entry]] = {}
    for entry in entries:
        path, _, _ = entry.template.name.partition("{")
        if entry.template.role.startswith(_MIXES_TOKENS):
            mixing.setdefault(path, []).append(entry)
        elif entry.template.role.startswith(_FEEDS_FORWARD):
            feeding.setdefault(path, []).append(entry)
    levels: dict[str, int] = {}
    for path, of_attention in mixing.items():
        level = max(map(_depth, of_attention))
        others = feeding.get(path, [])
        while (
            level > 1
            and others
            and _layers_with(of_attention, level).isdisjoint(_layers_with(others, level))
        ):
            level -= 1
        levels[path] = level
    return levels


def _layers_with(entries: Iterable[Entry], level: int) -> set[Place]:
    layers: set[Place] = set()
    for entry in entries:
        if _depth(entry) >= level:
            layers.update(place for place, _ in _layers_of(entry.indices, level))
    return layers


def _depth(entry: Entry) -> int:
    """Return the number of indices of an entry that do not number experts."""
    template = entry.template
    numbers_experts = template.active is not None and bool(template.active.over)
    return len(template.repeat) - numbers_experts


def _layers_of(places: Places, level: int) -> Iterator[tuple[Place, int]]:
    """Yield each layer with the number of places in it."""
    for values, inside in places.blocks:
        for value in values:
            if level == 1:
                yield (value,), len(inside)
                continue
            for place, count in _layers_of(inside, level - 1):
                yield (value, *place), count


# Tensors and fused tensors


def _tensors(ledger: Ledger) -> Iterator[list[PartTensor]]:
    """Yield the tensors of each entry: one, or the matrices that it holds."""
    shares_of_qkv = _shares_of_qkv(ledger)
    for at, entry in enumerate(ledger.entries):
        whole = _whole_tensor(ledger, at, entry)
        component, _, fused = whole.role.rpartition(".")
        shares = _FUSED.get(fused) or shares_of_qkv.get(_module(whole.name))
        if not shares or whole.elements % sum(shares.values()):
            yield [whole._replace(heads=_heads(ledger, entry, whole.role))]
            continue
        parts = []
        for name, share in shares.items():
            role = f"{component}.{name}"
            part = whole._replace(
                role=role,
                elements=whole.elements * share // sum(shares.values()),
                active=whole.active * share // sum(shares.values()),
                heads=_heads(ledger, entry, role),
            )
            parts.append(part)
        yield parts


_FUSED: Mapping[str, Mapping[str, int]] = {
    "gate_up": {"gate": 1, "up": 1},
    "kv": {"key": 1, "value": 1},
}


def _shares_of_qkv(ledger: Ledger) -> dict[str, dict[str, int]]:
    """Return the shares of query, key and value in each module that holds all three.

    The query is as large as the output projection beside it; without one, all three are as large.
    """
    outputs, shares = dict[str, int](), dict[str, dict[str, int]]()
    matrices = [entry for entry in ledger.entries if len(entry.shape) > 1]
    for entry in matrices:
        if entry.template.role.endswith("attention.output"):
            outputs[_module(_module(entry.template.name))] = prod(entry.shape)
    for entry in matrices:
        if not entry.template.role.endswith("attention.qkv"):
            continue
        module = _module(entry.template.name)
        query = outputs.get(_module(module), 0)
        rest = prod(entry.shape) - query
        shares[module] = dict.fromkeys(("query", "key", "value"), 1)
        if query and rest > 0 and rest % 2 == 0:
            common = gcd(query, rest // 2)
            side = rest // 2 // common
            shares[module] = {"query": query // common, "key": side, "value": side}
    return shares


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _whole_tensor(ledger: Ledger, at: int, entry: Entry) -> PartTensor:
    template = entry.template
    experts = 0
    if template.active is not None and not template.active.over:
        experts = entry.shape[0]
    active = ledger.active_of(entry)
    if entry.tied:
        active = prod(entry.shape) * len(entry.indices)
    return PartTensor(
        at=at,
        name=template.name,
        role=template.role,
        kind=_kind(entry),
        elements=prod(entry.shape),
        active=active,
        places=len(entry.indices),
        is_expert=template.active is not None,
        experts=experts,
        tied=entry.tied,
    )


def _kind(entry: Entry) -> str:
    role, name = entry.template.role, entry.template.name
    if any(piece.endswith("norm") for piece in role.split(".")):
        return "norm"
    if name.endswith("bias") and not role.endswith("relative_position"):
        return "bias"
    if len(entry.shape) > 1:
        return "matrix"
    return "vector"


# Heads

_QUERY_HEADS = ("A", "A_e", "A_d")
_KEY_HEADS = ("A_kv",)
_OF_QUERY = ("attention.query", "attention.output", "attention.q_up", "attention.kv_up")
_OF_KEY = ("attention.key", "attention.value")


def _heads(ledger: Ledger, entry: Entry, role: str) -> int:
    """Return the number of heads among which a matrix is divided; 0 if it is not known."""
    is_bias_of_output = role.endswith("output") and len(entry.shape) == 1
    if is_bias_of_output or not role.endswith((*_OF_QUERY, *_OF_KEY)):
        return 0
    in_shape: list[str] = []
    for dim in entry.template.dims:
        in_shape += names_in(ledger.blueprint.dims[dim])
    of_family = sorted(ledger.blueprint.fields)
    for fields, letters in product((in_shape, of_family), _letters_of_heads(role)):
        values = [ledger.fields.get(field) for field in fields if _letter(field) in letters]
        numbers = {value for value in values if isinstance(value, int) and value > 0}
        if len(numbers) == 1 and len(values) == values.count(*numbers):
            return numbers.pop()
    return 0


def _letters_of_heads(role: str) -> Sequence[tuple[str, ...]]:
    if role.endswith(_OF_KEY):
        return (_KEY_HEADS, _QUERY_HEADS)
    return (_QUERY_HEADS,)


def _letter(field: str) -> str:
    symbol = size_symbols().get(field.rpartition(".")[2])
    if symbol is None:
        return ""
    return symbol.letter
