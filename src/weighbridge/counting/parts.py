"""Every number that one part of a model has: a matrix, a layer, the embeddings, a head, a total.

The parts follow from the ledger alone, so they exist for any family. `facts/parts.toml` names the
groups that people count besides roles and components, and says how likely each name is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from functools import cached_property
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.blueprint.roles import component_of
from weighbridge.counting.layers import divide
from weighbridge.render.words import label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.counting.layers import Contents, LayerKind, PartTensor
    from weighbridge.ledger.ledger import Ledger


class PartName(NamedTuple):
    """The name of a number: the part of a model that it counts, and how.

    ``part`` is a role, a component, a group of `facts/parts.toml`, ``"layer"``, ``"model"``, or
    ``"module"`` with its ``path`` in the state dict. ``layers`` is 1 for a part of one layer, the
    number of layers that are counted together, or 0 for a part outside the layers or of the whole
    model; ``of_layers`` is the number of all layers. ``only`` limits the part to its ``"weight"``,
    its ``"bias"`` or what is ``"active"``; ``per`` is ``"head"`` or ``"expert"`` for the share of
    one. ``stack`` is the path of the layers if other layers have another number, and ``which``
    lists them if they differ. ``tied`` counts tensors that are shared with another part too. The
    lower the ``rank``, the more likely people mean it.
    """

    part: str
    parameters: int
    tensors: int
    layers: int = 0
    of_layers: int = 0
    stack: str = ""
    which: str = ""
    without: tuple[str, ...] = ()
    only: str = ""
    per: str = ""
    tied: bool = False
    path: str = ""
    rank: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the rank, ready for JSON.

        Example:
            >>> PartName("pooler", 589824, 1, only="weight").to_dict()["part"]
            'pooler'
        """
        values = {**self._asdict(), "without": list(self.without)}
        del values["rank"]
        return values

    def text(self, lang: str = "en") -> str:
        """Return the part in words.

        Example:
            >>> attention = PartName("attention", 2359296, 4, 1, 12, without=("biases",))
            >>> attention.text(), attention.text("zh")
            ('attention of one layer, without biases', '一层的自注意力，不含偏置')
        """
        return texts_of((self,), lang)


class PartIndex:
    """The parts of one class of a model, by their numbers of parameters."""

    def __init__(self, names: Iterable[PartName]) -> None:
        by_number: dict[int, list[PartName]] = {}
        for name in sorted(names, key=_rank):
            by_number.setdefault(name.parameters, []).append(name)
        self._by_number = by_number

    def named(self, number: int) -> tuple[PartName, ...]:
        """Return the parts with this number of parameters, the most likely first."""
        return tuple(self._by_number.get(number, ()))

    def within(self, least: int, most: int) -> tuple[PartName, ...]:
        """Return the parts with a number from ``least`` to ``most``, the most likely first."""
        names: list[PartName] = []
        for number in self.numbers[bisect_left(self.numbers, least) :]:
            if number > most:
                break
            names += self._by_number[number]
        return tuple(sorted(names, key=_rank))

    @cached_property
    def numbers(self) -> Sequence[int]:
        """All numbers that some part has, the smallest first."""
        return sorted(self._by_number)


def _rank(name: PartName) -> float:
    return name.rank


def parts_of(ledger: Ledger) -> PartIndex:
    """Return every part of a class that people count, with its number of parameters.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.ledger.ledger import bind
        >>> bert = load("bert")
        >>> parts = parts_of(bind(bert, "BertModel", dict(bert.defaults)))
        >>> [name.text() for name in parts.named(23837184)]
        ['embeddings']
        >>> parts.named(7087872)[0].text("zh")
        '一层'
    """
    return PartIndex(_Division(ledger).names())


# Selections: which tensors a name covers


class Selection(NamedTuple):
    """A name for tensors, the test whether it covers one, and the rank of the name."""

    part: str
    covers: Callable[[PartTensor], bool]
    rank: float
    is_plain: bool = False
    """Whether it has no variants, such as one without biases."""
    path: str = ""


def _selections(tensors: Sequence[PartTensor]) -> Iterator[Selection]:
    """Yield the names that apply to a model: its groups, components, roles and modules."""
    rank = _facts()["rank"]
    yield Selection("layer", _covers_all, rank["layer"])
    yield Selection("model", _covers_all, rank["model"])
    for name, group in _facts()["group"].items():
        if "kinds" in group:
            yield Selection(name, _of_kinds(group["kinds"]), group["rank"], is_plain=True)
            continue
        covers = _of_roles((*group["roles"], *group.get("also", ())))
        several = len({tensor.role for tensor in tensors if covers(tensor)}) > 1
        if several and all(any(map(_of_roles((role,)), tensors)) for role in group["roles"]):
            yield Selection(name, covers, group["rank"])
    roles = dict.fromkeys(tensor.role for tensor in tensors)
    for component in dict.fromkeys(map(component_of, roles)):
        yield Selection(component, _of_component(component), rank["component"])
    for role in roles:
        yield Selection(role, _of_role(role), rank["role"])
    for path in dict.fromkeys(chain.from_iterable(_paths(tensor.name) for tensor in tensors)):
        yield Selection("module", _under(f"{path}."), rank["module"], path=path)


def _facts() -> dict[str, Any]:
    return data.read_toml("facts/parts.toml")


def _covers_all(_: PartTensor) -> bool:
    return True


def _of_kinds(kinds: Iterable[str]) -> Callable[[PartTensor], bool]:
    return lambda tensor: tensor.kind in kinds


def _of_roles(roles: Iterable[str]) -> Callable[[PartTensor], bool]:
    prefixes = tuple(f"{role}." for role in roles)
    return lambda tensor: f"{tensor.role}.".startswith(prefixes)


def _of_component(component: str) -> Callable[[PartTensor], bool]:
    return lambda tensor: component_of(tensor.role) == component


def _of_role(role: str) -> Callable[[PartTensor], bool]:
    return lambda tensor: tensor.role == role


def _under(prefix: str) -> Callable[[PartTensor], bool]:
    return lambda tensor: tensor.name.startswith(prefix)


def _paths(name: str) -> Iterator[str]:
    """Yield the paths of the modules that hold a tensor."""
    pieces = name.split(".")
    for end in range(1, len(pieces)):
        yield ".".join(pieces[:end])


# Scopes: where a name's tensors lie, and in how many layers


class Scope(NamedTuple):
    """The tensors of a name in one layer, in several, or outside all layers."""

    contents: Contents
    layers: int
    of_layers: int = 0
    stack: str = ""
    which: str = ""
    rank: float = 0.0


class _Division:
    """A ledger's tensors outside the layers and in each kind of layer, and the names of parts."""

    def __init__(self, ledger: Ledger) -> None:
        self.outside, self.kinds = divide(ledger)
        self.tensors = [tensor for tensor, _ in self.outside]
        for kind in self.kinds:
            self.tensors += [tensor for tensor, _ in kind.contents]
        self.tensors = list(dict.fromkeys(self.tensors))
        self.mixing = {kind.stack for kind in self.kinds if kind.mixes_tokens}
        self.layers_of_stack = Counter[str]()
        for kind in self.kinds:
            self.layers_of_stack[kind.stack] += len(kind.layers)

    def names(self) -> Iterator[PartName]:
        """Yield the names of all parts; of several names for the same tensors the likeliest."""
        likeliest: dict[tuple[object, ...], PartName] = {}
        for selection in _selections(self.tensors):
            for key, name in self._named(selection):
                known = likeliest.get(key)
                if known is None or name.rank <= known.rank:
                    likeliest[key] = name
        yield from _merged(likeliest.values())

    def _named(self, selection: Selection) -> Iterator[tuple[tuple[object, ...], PartName]]:
        for scope in self._scopes(selection):
            for variant in _variants(selection, scope):
                contents = variant.contents
                number = _number(variant)
                if not number:
                    continue
                name = PartName(
                    part=selection.part,
                    parameters=number,
                    tensors=_tensor_count(contents),
                    layers=scope.layers,
                    of_layers=scope.of_layers,
                    stack=scope.stack,
                    which=scope.which,
                    without=variant.without,
                    only=variant.only,
                    per=variant.per,
                    tied=variant.tied,
                    path=selection.path,
                    rank=selection.rank + scope.rank + variant.rank,
                )
                counted = tuple((tensor.at, tensor.role, count) for tensor, count in contents)
                is_active = variant.only == "active"
                yield (counted, is_active, variant.per), name

    def _scopes(self, selection: Selection) -> Iterator[Scope]:
        """Yield the tensors of a name: outside the layers, in one, in all, or in the model."""
        stacks = self._by_stack(selection)
        if selection.part != "model":
            for stack, kinds_by_contents in stacks.items():
                yield from self._of_stack(stack, kinds_by_contents)
        outside: Contents = ()
        if selection.part != "layer":
            outside = _covered(self.outside, selection)
        everything, layers = outside, 0
        for kinds_by_contents in stacks.values():
            everything += _all_layers(kinds_by_contents)
            layers += _layer_count(kinds_by_contents)
        if outside or not stacks or selection.part == "model":
            yield Scope(everything, 0, layers)
        elif len(stacks) > 1:
            total = sum(self.layers_of_stack.values())
            yield Scope(everything, layers, total, rank=_facts()["rank"]["all_layers"])

    def _by_stack(self, selection: Selection) -> dict[str, dict[Contents, list[LayerKind]]]:
        """Return the kinds of layers with the tensors of a name, by their stack and the tensors."""
        kinds: Sequence[LayerKind] = self.kinds
        if selection.part == "layer" and self.mixing:
            # What lies between two stages is numbered too, but it is not a layer.
            kinds = [kind for kind in kinds if kind.stack in self.mixing]
        stacks: dict[str, dict[Contents, list[LayerKind]]] = {}
        for kind in kinds:
            contents = _covered(kind.contents, selection)
            if contents:
                stacks.setdefault(kind.stack, {}).setdefault(contents, []).append(kind)
        return stacks

    def _of_stack(
        self, stack: str, kinds_by_contents: Mapping[Contents, Sequence[LayerKind]]
    ) -> Iterator[Scope]:
        """Yield the tensors of a name in one layer of a stack, and in all of its layers."""
        rank, total = _facts()["rank"], self.layers_of_stack[stack]
        for contents, kinds in kinds_by_contents.items():
            which = ""
            if len(kinds_by_contents) > 1:
                which = _ranges(kinds)
            yield Scope(contents, 1, total, stack, which)
        layers = _layer_count(kinds_by_contents)
        if layers > 1:
            everything = _all_layers(kinds_by_contents)
            yield Scope(everything, layers, total, stack, rank=rank["all_layers"] + rank["stack"])


def _covered(contents: Contents, selection: Selection) -> Contents:
    return tuple((tensor, count) for tensor, count in contents if selection.covers(tensor))


def _layer_count(kinds_by_contents: Mapping[Contents, Sequence[LayerKind]]) -> int:
    return sum(map(_number_of_layers, chain.from_iterable(kinds_by_contents.values())))


def _number_of_layers(kind: LayerKind) -> int:
    return len(kind.layers)


def _all_layers(kinds_by_contents: Mapping[Contents, Sequence[LayerKind]]) -> Contents:
    """Return the tensors of all layers together, each once with its number of places."""
    counts: dict[PartTensor, int] = {}
    for contents, kinds in kinds_by_contents.items():
        layers = sum(map(_number_of_layers, kinds))
        for tensor, count in contents:
            counts[tensor] = counts.get(tensor, 0) + count * layers
    return tuple(counts.items())


def _ranges(kinds: Iterable[LayerKind]) -> str:
    """Write the numbers of layers, neighbours as a range: ``"0, 3–60"``.

    The number of a layer in a stage follows that of the stage: ``"2.0–2.5"``.
    """
    ranges: list[list[tuple[int, ...]]] = []
    for place in sorted(chain.from_iterable(kind.layers for kind in kinds)):
        before = (*place[:-1], place[-1] - 1)
        if ranges and ranges[-1][-1] == before:
            ranges[-1][1:] = [place]
        else:
            ranges.append([place])
    texts = ("–".join(map(_numbered, ends)) for ends in ranges)
    return ", ".join(texts)


def _numbered(place: tuple[int, ...]) -> str:
    return ".".join(map(str, place))


# Variants: without biases, the active part, the share of a head or an expert


class Variant(NamedTuple):
    """A way of counting tensors: those that remain, and how the name says so."""

    contents: Contents
    without: tuple[str, ...] = ()
    only: str = ""
    per: str = ""
    tied: bool = False
    rank: float = 0.0


_LEAVES_OUT: Mapping[str, Callable[[PartTensor], bool]] = {
    "biases": _of_kinds(("bias",)),
    "norms": _of_kinds(("norm",)),
    "attention.relative_position": _of_roles(("attention.relative_position",)),
}
_MODEL_LEAVES_OUT: Mapping[str, Callable[[PartTensor], bool]] = {
    **_LEAVES_OUT,
    "embeddings": _of_roles(("embedding",)),
    "embedding.token": _of_roles(("embedding.token",)),
    "embedding.position": _of_roles(("embedding.position",)),
    "pooler": _of_roles(("pooler",)),
    "heads": _of_roles(("head",)),
}


def _variants(selection: Selection, scope: Scope) -> Iterator[Variant]:
    """Yield the ways of counting a name's tensors."""
    rank = _facts()["rank"]
    own = tuple((tensor, count) for tensor, count in scope.contents if not tensor.tied)
    if own:
        yield Variant(own)
    if selection.is_plain:
        return
    if len(own) < len(scope.contents):
        yield Variant(scope.contents, tied=True, rank=rank["tied"])
    yield from _omissions(selection, own)
    if any(tensor.is_expert for tensor, _ in own):
        yield Variant(own, only="active", rank=rank["active"])
    if scope.layers == 1:
        yield from _shares_of_units(selection, own)


def _omissions(selection: Selection, contents: Contents) -> Iterator[Variant]:
    """Yield a name's tensors without biases, without norms, and those alone."""
    rank = _facts()["rank"]
    leaves_out = _LEAVES_OUT
    if selection.part == "model":
        leaves_out = _MODEL_LEAVES_OUT
    for names in _sets_of(leaves_out):
        kept = contents
        for name in names:
            kept = _without(kept, leaves_out[name])
        is_weight = names == ("biases",) and len({tensor.at for tensor, _ in kept}) == 1
        if is_weight:
            yield Variant(kept, only="weight", rank=rank["weight"])
        elif kept:
            yield Variant(kept, names, rank=rank["without"] * len(names))
    if selection.part not in ("layer", "model"):
        yield from _biases_apart(contents)


def _without(contents: Contents, is_left_out: Callable[[PartTensor], bool]) -> Contents:
    """Return the tensors that remain; none if none is left out."""
    kept = tuple(item for item in contents if not is_left_out(item[0]))
    if len(kept) == len(contents):
        return ()
    return kept


def _biases_apart(contents: Contents) -> Iterator[Variant]:
    """Yield the biases of a name's tensors alone, and the scales of a norm with biases."""
    rank = _facts()["rank"]
    biases = tuple(item for item in contents if item[0].name.endswith("bias"))
    is_norm = all(tensor.kind == "norm" for tensor, _ in contents)
    if not biases or len(biases) == len(contents):
        return
    if is_norm:
        scales = tuple(item for item in contents if item not in biases)
        yield Variant(scales, only="weight", rank=rank["weight"])
    else:
        biases = tuple(item for item in biases if item[0].kind == "bias")
    yield Variant(biases, only="bias", rank=rank["bias"])


def _sets_of(leaves_out: Iterable[str]) -> Iterator[tuple[str, ...]]:
    yield from ((name,) for name in leaves_out)
    yield from combinations(_LEAVES_OUT, 2)


def _shares_of_units(selection: Selection, contents: Contents) -> Iterator[Variant]:
    """Yield the share of one head and of one expert."""
    rank = _facts()["rank"]
    experts = tuple(item for item in contents if item[0].is_expert)
    if experts and len(experts) == len(contents):
        yield Variant(experts, per="expert", rank=rank["expert"])
    divided = tuple(item for item in contents if item[0].heads)
    if selection.part in _DIVIDED_AMONG_HEADS or selection.part.startswith(_DIVIDED_ROLES):
        matrices = tuple(item for item in divided if item[0].kind == "matrix")
        yield Variant(divided, per="head", rank=rank["head"])
        if matrices and len(matrices) < len(divided):
            without = rank["head"] + rank["without"]
            yield Variant(matrices, ("biases",), per="head", rank=without)


_DIVIDED_AMONG_HEADS = ("attention", "qkv", "key_value")
_DIVIDED_ROLES = ("attention.", "cross_attention")


def _number(variant: Variant) -> int:
    """Return the number of parameters that a variant counts."""
    if variant.only == "active":
        return sum(tensor.active_in(count) for tensor, count in variant.contents)
    if variant.per == "expert":
        return sum(tensor.of_one_expert(count) for tensor, count in variant.contents)
    if variant.per == "head":
        return sum(tensor.elements // tensor.heads for tensor, _ in variant.contents)
    return sum(tensor.elements * count for tensor, count in variant.contents)


def _tensor_count(contents: Contents) -> int:
    return sum({tensor.at: count for tensor, count in contents}.values())


def _merged(names: Iterable[PartName]) -> Iterator[PartName]:
    """Yield the names; those that differ in the stack alone, and have one number, become one."""
    alike: dict[PartName, list[PartName]] = {}
    for name in names:
        key = name._replace(stack="", parameters=0, tensors=0, of_layers=0)
        alike.setdefault(key, []).append(name)
    for group in alike.values():
        if len({name.parameters for name in group}) == 1:
            yield group[0]._replace(stack="")
        else:
            yield from group


# Words


def texts_of(names: Sequence[PartName], lang: str = "en") -> str:
    """Return parts that differ only in their role in words: "query, key or value weight …".

    Example:
        >>> query = PartName("attention.query", 589824, 1, 1, 12, only="weight")
        >>> texts_of((query, query._replace(part="attention.key")))
        'attention query or attention key weight of one layer'
    """
    texts = data.read_toml(f"words/parts.{lang}.toml")
    first = names[0]
    labels = list(dict.fromkeys(_part_label(name, texts, lang) for name in names))
    part = labels[-1]
    if len(labels) > 1:
        part = texts["or"].format(others=texts["comma"].join(labels[:-1]), last=part)
    is_whole_expert = first.per == "expert" and first.part in _EXPERTS
    only = first.only
    if first.tensors > 1:
        only = f"{only}_many"
    for key in (only, first.per):
        if key in texts["share"] and not is_whole_expert:
            part = texts["share"][key].format(part=part)
    values = {
        "part": part,
        "count": units.count(first.layers),
        "layers": first.which,
        "stack": _stack_label(first.stack, texts),
    }
    text: str = texts[_scope_key(first)].format(**values)
    if first.only == "active":
        text = texts["active"].format(part=text)
    if first.without:
        missing = texts["and"].join(_missing_label(name, texts, lang) for name in first.without)
        text = texts["leaves_out"].format(part=text, missing=missing)
    if first.tied:
        text = texts["tied"].format(part=text)
    return _BESIDE_LATIN.sub(" ", text)


_EXPERTS = ("expert", "experts")
_BESIDE_LATIN = re.compile(
    r"(?<=[A-Za-z0-9`])(?=[\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])(?=[A-Za-z0-9`])"
)


def _part_label(name: PartName, texts: Mapping[str, Any], lang: str) -> str:
    if name.part == "module":
        path: str = name.path
        if name.layers:
            path = path.rpartition("}")[2].strip(".")
        return str(texts["module"].format(path=path))
    if name.per == "expert" and name.part in _EXPERTS:
        return str(texts["share"]["one"])
    group = _facts()["group"].get(name.part)
    if group:
        return str(group["part"][lang])
    return str(texts["part"].get(name.part) or label(name.part, lang))


def _missing_label(name: str, texts: Mapping[str, Any], lang: str) -> str:
    return str(texts["without"].get(name) or label(name, lang))


def _scope_key(name: PartName) -> str:
    """Return the key of the sentence for where a part lies."""
    if not name.layers and name.of_layers and name.part not in ("model", "module"):
        return "everywhere"
    if not name.layers or name.per:
        return "whole"
    prefix = ""
    if name.part == "layer":
        prefix = "layer_"
    if name.layers > 1:
        key = "all"
        if name.layers < name.of_layers:
            key = "some"
    elif name.which:
        key = "kind"
        if name.which.isdigit():
            key = "numbered"
    else:
        key = "one"
    if name.stack:
        key += "_of_stack"
    return prefix + key


def _stack_label(stack: str, texts: Mapping[str, Any]) -> str:
    """Return the name of a stack: a known word in its path, or the path."""
    for piece in stack.split("."):
        if piece in texts["stack"]:
            known: str = texts["stack"][piece]
            return known
    return stack
