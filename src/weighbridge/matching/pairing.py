"""Pairs the stored tensors of a checkpoint with the expected ones.

`MATCHERS` lists the ways to pair them, in the order in which they are tried: each is a function
that pairs what it can of the tensors that those before it left unpaired. To add a way, write such a
function and add it to the list.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.blueprint.paths import is_under, joined_path
from weighbridge.blueprint.roles import role_of
from weighbridge.blueprint.schema import MOST_PLACES, families, load
from weighbridge.ledger.rows import Row

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Container,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from weighbridge.blueprint.schema import Blueprint, Template
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.readers import StoredCheckpoint
    from weighbridge.readers.header import Packed


class Expected(NamedTuple):
    """The tensors and buffers that a checkpoint must have, by name: a class's, or another file's.

    ``paths`` maps old paths to current ones. ``prefix`` is the class's own prefix, and ``prefixes``
    are those of the family's classes. ``format`` is the format of the other checkpoint; it is empty
    for a class.
    """

    rows: dict[str, Row]
    buffers: dict[str, Row]
    paths: Mapping[str, str] = {}
    prefix: str = ""
    prefixes: frozenset[str] = frozenset()
    format: str = ""

    @property
    def parameters(self) -> int:
        """The unique parameters of its rows."""
        return sum(row.parameters for row in self.rows.values())

    @property
    def needed(self) -> int:
        """The number of tensors that must be stored: all except the tied ones."""
        return sum(not row.tied_to for row in self.rows.values())


class Match(NamedTuple):
    """The expected name of a stored tensor, its renamed part, and whether its prefix differs."""

    name: str
    rename: tuple[str, ...] = ()
    shifted: bool = False


class Regrouped(NamedTuple):
    """Expected tensors, by name, and stored ones that hold the same parameters in other pieces."""

    names: tuple[str, ...]
    rows: tuple[Row, ...]


_NO_WEIGHTS = ("I64", "I32", "BOOL")


class Pairs(NamedTuple):
    """The expected tensors and the stored ones, paired by the expected names.

    ``held`` are the paired tensors, and ``by_role`` the expected names of those that were paired by
    role. ``extra`` are stored tensors without a counterpart. ``aside`` are stored tensors that need
    none: scales beside packed weights, constants, the state of an optimizer. ``matches`` holds the
    counterpart of each name in the checkpoint or its index.
    """

    expected: dict[str, Row]
    buffers: dict[str, Row]
    held: dict[str, Row]
    regrouped: tuple[Regrouped, ...]
    by_role: frozenset[str]
    extra: tuple[Row, ...]
    aside: tuple[Row, ...]
    found: StoredCheckpoint
    stored: dict[str, Row]
    matches: dict[str, Match]
    prefix: str

    def shape(self, row: Row) -> tuple[int, ...] | None:
        """Return the unpacked shape of a tensor; None if the header states only the elements."""
        packed = self.found.packed.get(row.name)
        if packed:
            return packed.shape
        return row.shape


def of_ledger(ledger: Ledger) -> Expected:
    """Return the tensors and buffers that a checkpoint of a class must have."""
    names = names_of(ledger.blueprint, ledger.class_name)
    rows = {row.name: row for row in ledger.rows}
    buffers = {row.name: row for row in ledger.buffers()}
    return names._replace(rows=rows, buffers=buffers)


def names_of(blueprint: Blueprint, class_name: str) -> Expected:
    """Return how files of a class name tensors, whatever its config is."""
    return Expected(
        {},
        {},
        blueprint.renamed(class_name),
        blueprint.prefix(class_name),
        frozenset(blueprint.prefix(name) for name in blueprint.class_names) - {""},
    )


def of_checkpoint(found: StoredCheckpoint) -> Expected:
    """Return the tensors and buffers that another checkpoint must have to match this one."""
    naming = _naming(found)
    rows: dict[str, Row] = {}
    buffers: dict[str, Row] = {}
    for stored_row in found.rows:
        if _is_aside(stored_row, naming):
            continue
        row = _under_own_name(stored_row, found, naming)
        if _is_buffer(row) and stored_row.name not in found.packed:
            buffers[row.name] = row
        else:
            rows[row.name] = row
    return Expected(rows, buffers, format=found.format)


def _under_own_name(row: Row, found: StoredCheckpoint, naming: Mapping[str, Any] | None) -> Row:
    """Return a stored tensor under the reference's name, in its unpacked shape."""
    name, tied_to = _own(row.name, found, naming), row.tied_to
    if tied_to:
        tied_to = _own(tied_to, found, naming)
    shape = _unpacked_shape(row, found)
    return row._replace(name=name, shape=shape, role=role_of(name), tied_to=tied_to or None)


def _is_buffer(row: Row) -> bool:
    has_no_parameters = row.count > 0 and not row.parameters and not row.tied_to
    return row.dtype in _NO_WEIGHTS or has_no_parameters


def _unpacked_shape(row: Row, found: StoredCheckpoint) -> tuple[int, ...]:
    """Return a tensor's unpacked shape as far as the header states it.

    A packed weight of which only the elements are known gets them as its only dim.
    """
    packed = found.packed.get(row.name)
    if packed and packed.shape is not None:
        return packed.shape
    if packed and packed.elements is not None:
        return (packed.elements,)
    return row.shape


def has_only_elements(row: Row) -> bool:
    """Return whether a tensor of a checkpoint is a packed weight of unknown shape."""
    return row.shape == (row.parameters,) and row.count != row.parameters


def has_own_names(form: str) -> bool:
    """Return whether a format has other names for tensors than the reference.

    Example:
        >>> has_own_names("GGUF"), has_own_names("safetensors")
        (True, False)
    """
    return form in data.read_toml("facts/namings.toml")


# Pairing, with one matcher after the other


class _Pairing:
    """The state of a pairing: what is paired, what is still unpaired, and how names compare.

    ``own_names`` are the stored names, spelled as the reference spells them.
    """

    def __init__(self, expected: Expected, found: StoredCheckpoint) -> None:
        self.expected, self.found = expected, found
        self.naming = _naming(found)
        self.known = {**expected.rows, **expected.buffers}
        self.aside = tuple(
            row for row in found.rows if _is_aside(row, self.naming) and row.name not in self.known
        )
        names_aside = {row.name for row in self.aside}
        self.stored = {row.name: row for row in found.rows if row.name not in names_aside}
        names = (*self.stored, *found.absent)
        self.own_names = {name: _own(name, found, self.naming) for name in names}
        self.matches = {name: Match(self.own_names[name]) for name in names}
        self.prefix = ""
        self.held: dict[str, Row] = {}
        self.by_role = set[str]()
        self.regrouped: list[Regrouped] = []
        self.missing = [row for row in expected.rows.values() if not row.tied_to]
        self.unpaired = list(self.stored.values())

    @property
    def has_other_names(self) -> bool:
        """Whether names cannot be expected to match: one side's format has names of its own."""
        return self.naming is not None or has_own_names(self.expected.format)

    def remove(self, expected_names: Container[str], stored_names: Container[str]) -> None:
        """Take tensors out of those that are still unpaired."""
        self.missing = [row for row in self.missing if row.name not in expected_names]
        self.unpaired = [row for row in self.unpaired if row.name not in stored_names]


def _match_names(pairing: _Pairing) -> None:
    """Pair tensors by name, by the current name if it is an old one, and despite other prefixes."""
    known, own_names = pairing.known, pairing.own_names
    anywhere = pairing.naming is not None
    drop, add = shift(pairing.expected, known, own_names.values(), anywhere=anywhere)
    paths = pairing.expected.paths
    if not any(match(name, known, paths, (drop, add)).name in known for name in own_names.values()):
        drop, add = _module_around(pairing.expected, known, own_names.values())
    pairing.prefix = drop or add
    for name, bare in own_names.items():
        pairing.matches[name] = match(bare, known, paths, (drop, add))
    # A tensor under its current name goes before one under an old name of the same tensor.
    for row in sorted(pairing.unpaired, key=lambda row: row.name not in known):
        expected_name = pairing.matches[row.name].name
        if expected_name in known:
            pairing.held.setdefault(expected_name, row)
    matched = {name for name in pairing.stored if pairing.matches[name].name in known}
    pairing.remove(pairing.held, matched)
    pairing.unpaired = [
        row._replace(role=role_of(own_names[row.name].removeprefix(drop)))
        for row in pairing.unpaired
    ]


def _match_roles(pairing: _Pairing) -> None:
    """Pair tensors with the same role in the same place, if both sides have equally many.

    This is for two checkpoints, or for formats with their own names; a checkpoint of a class has
    the names of the class.
    """
    if not pairing.expected.format and pairing.naming is None:
        return
    must_be_alike = not pairing.has_other_names
    counterparts = dict(_one_by_one(pairing.missing, pairing.unpaired, alike=must_be_alike))
    for expected_name, row in counterparts.items():
        pairing.held[expected_name] = pairing.stored[row.name]
        pairing.by_role.add(expected_name)
        pairing.matches[row.name] = Match(expected_name)
    pairing.remove(counterparts, {row.name for row in counterparts.values()})


def _match_groups(pairing: _Pairing) -> None:
    """Pair groups of tensors with the same role, place and total number of elements."""
    _regroup(pairing, _same_role)


def _match_fused_groups(pairing: _Pairing) -> None:
    """Pair groups of tensors that some models fuse, such as queries, keys and values."""
    _regroup(pairing, _fused_role)


MATCHERS: Sequence[Callable[[_Pairing], None]] = (
    _match_names,
    _match_roles,
    _match_groups,
    _match_fused_groups,
)
"""The ways to pair tensors, in the order in which they are tried."""


def pair(expected: Expected, found: StoredCheckpoint) -> Pairs:
    """Pair the tensors of a checkpoint with those that are expected."""
    pairing = _Pairing(expected, found)
    for matcher in MATCHERS:
        matcher(pairing)
    return Pairs(
        expected=expected.rows,
        buffers=expected.buffers,
        held=pairing.held,
        regrouped=tuple(pairing.regrouped),
        by_role=frozenset(pairing.by_role),
        extra=tuple(pairing.stored[row.name] for row in pairing.unpaired),
        aside=pairing.aside,
        found=found,
        stored=pairing.stored,
        matches=pairing.matches,
        prefix=pairing.prefix,
    )


# Tensors of an unknown model


def translated(found: StoredCheckpoint) -> StoredCheckpoint:
    """Return a checkpoint with the reference's names and shapes, as far as they can be inferred.

    Packed tensors get their unpacked shapes, and what is not a weight is left out. Names that a
    format has kept from the module are spelled as the reference spells them, without the path of a
    module around the model. GGUF's names become those of the family that the metadata states, by
    role and layer.
    """
    naming = _naming(found)
    if naming is None and not found.packed:
        return _bare(found)
    stored = [row for row in found.rows if not _is_aside(row, naming)]
    rows = [_unpacked(row, found, naming) for row in stored]
    stated = stated_families(found)
    if stated:
        return found._replace(rows=tuple(_as_in([load(family) for family in stated], rows)))
    if naming is not None:
        rows = _without_path(rows)
    packed = {
        row.name: _translated(found.packed[was.name], row)
        for was, row in zip(stored, rows, strict=True)
        if was.name in found.packed
    }
    return found._replace(rows=tuple(rows), packed=packed, called={}, unwrapped={})


def _bare(found: StoredCheckpoint) -> StoredCheckpoint:
    """Return a checkpoint without the wrappers of trainers, and without what is not a weight."""
    if not found.unwrapped and not any(row.role for row in found.rows):
        return found
    rows = []
    for row in found.rows:
        if not _is_aside(row, None):
            tied_to = row.tied_to and own_name(row.tied_to, found)
            rows.append(row._replace(name=own_name(row.name, found), tied_to=tied_to))
    return found._replace(rows=tuple(rows), unwrapped={})


def in_module(found: StoredCheckpoint) -> StoredCheckpoint | None:
    """Return a checkpoint without the name of the module around the model.

    Return None if its names do not all begin with the same piece.

    Example:
        >>> from weighbridge.readers import StoredCheckpoint
        >>> rows = tuple(
        ...     Row(f"model.{name}", (2,), "F32", "", (), 2, 2) for name in ("up.weight", "up.bias")
        ... )
        >>> found = StoredCheckpoint("a.ckpt", "PyTorch", rows, {}, (), 0, {}, {}, (), None)
        >>> [row.name for row in in_module(found).rows]
        ['up.weight', 'up.bias']
    """
    first = {row.name.partition(".")[0] for row in found.rows}
    if len(first) != 1 or not all("." in row.name for row in found.rows):
        return None
    [module] = first
    rows = []
    for row in found.rows:
        tied_to = row.tied_to and row.tied_to.removeprefix(f"{module}.")
        rows.append(row._replace(name=row.name.removeprefix(f"{module}."), tied_to=tied_to))
    return found._replace(rows=tuple(rows), packed={}, wrappers=(*found.wrappers, module))


def _translated(packed: Packed, row: Row) -> Packed:
    if packed.shape is None:
        return packed._replace(name=row.name)
    return packed._replace(name=row.name, shape=row.shape)


def _unpacked(row: Row, found: StoredCheckpoint, naming: Mapping[str, Any] | None) -> Row:
    """Return a tensor under its own name, with its unpacked shape."""
    shape = _unpacked_shape(row, found)
    if is_turned(row, found) and len(shape) == _MATRIX:
        shape = shape[::-1]
    return row._replace(name=_own(row.name, found, naming), shape=shape, count=row.parameters)


_MATRIX = 2  # dims


def _without_path(rows: Sequence[Row]) -> list[Row]:
    """Return tensors without the pieces at the beginning that all names share."""
    paths = [row.name.split(".") for row in rows]
    shared = 0
    while rows and all(
        len(path) > shared + 1 and path[shared] == paths[0][shared] for path in paths
    ):
        shared += 1
    return [
        row._replace(name=".".join(path[shared:])) for row, path in zip(rows, paths, strict=True)
    ]


def stated_families(found: StoredCheckpoint) -> list[str]:
    """Return the known families that the metadata of a checkpoint may refer to."""
    stated = data.read_toml("facts/metadata.toml")
    name = found.metadata.get(stated["architecture"], "")
    return [family for family in stated["families"].get(name, [name]) if family in families()]


def _as_in(blueprints: Sequence[Blueprint], rows: Sequence[Row]) -> list[Row]:
    """Return tensors under the names of the class in these families that has most of them."""
    known = [row._replace(role=role_of(row.name)) for row in rows]
    renamings: list[list[Row]] = []
    for blueprint in blueprints:
        for class_name in blueprint.class_names:
            templates = blueprint.templates(class_name, stored=True)
            renamings.append(list(_as_class(known, templates)))
    return max(renamings, key=lambda rows: sum(row.role != "" for row in rows))


def _as_class(rows: Sequence[Row], templates: Sequence[Template]) -> Iterator[Row]:
    """Yield tensors under the names of templates with the same role and place, if equally many.

    A tensor whose role no template has keeps its name, and its role becomes empty.
    """
    by_position: dict[tuple[str, str, bool], list[Template]] = {}
    positions = _positions([*rows, *(_first(template) for template in templates)])
    for template in templates:
        if template.tie is None or template.tie.when is not None:
            position = positions[_first(template).name]
            key = (template.role, position.ending, position.in_decoder)
            by_position.setdefault(key, []).append(template)
    for (position, role), same_rows in _by_position(rows, _same_role).items():
        same_templates = by_position.get((role, position.ending, position.in_decoder), [])
        if len(same_templates) != len(same_rows):
            for row in same_rows:
                yield row._replace(role="")
            continue
        for row, template in zip(same_rows, same_templates, strict=True):
            yield from _expanded(row, template, position.layer)


def _first(template: Template) -> Row:
    return Row(re.sub(r"\{\w+\}", "0", template.name), (), "", template.role, (), 0, 0)


def _expanded(row: Row, template: Template, layer: int | None) -> Iterator[Row]:
    """Yield a tensor under the name of its template, split if the template has one per expert."""
    name, indices = template.name, list(template.repeat)
    if layer is not None and indices:
        name = name.replace(f"{{{indices.pop(0)}}}", str(layer))
    if not indices:
        yield row._replace(name=name)
    elif len(indices) == 1 and _holds_experts(row):
        experts = row.shape[0]
        count = row.count // experts
        for expert in range(experts):
            expert_name = name.replace(f"{{{indices[0]}}}", str(expert))
            yield row._replace(name=expert_name, shape=row.shape[1:], count=count, parameters=count)
    else:
        yield row._replace(role="")


def _holds_experts(row: Row) -> bool:
    is_expert = row.role.startswith("expert") and row.shape != ()
    return is_expert and 0 < row.shape[0] <= MOST_PLACES


# Matching names


def shift(
    expected: Expected, known: Container[str], stored: Collection[str], *, anywhere: bool
) -> tuple[str, str]:
    """Return the prefix to drop from all names, and the one to add, to get the expected names.

    The expected prefix is added if no name has it. The prefix of another class is dropped if no
    prefix is expected and no name is known unchanged. If known names may be ``anywhere``, the path
    of a module around the model is dropped too.
    """
    as_it_stands = any(
        name in known or renamed(name, expected.paths)[0] in known for name in stored
    )
    if anywhere and not as_it_stands:
        return next(_around(expected.rows, stored), ""), ""
    if expected.prefix:
        if any(name.startswith(expected.prefix) for name in stored):
            return "", ""
        return "", expected.prefix
    if as_it_stands:
        return "", ""
    for prefix in sorted(expected.prefixes):
        if any(name.startswith(prefix) for name in stored):
            return prefix, ""
    return "", ""


def _module_around(
    expected: Expected, known: Container[str], stored: Iterable[str]
) -> tuple[str, str]:
    """Return the path of a module around the model, and the prefix that is expected instead."""
    for name in stored:
        for added in dict.fromkeys(("", expected.prefix)):
            at = name.find(".")
            while at >= 0:
                if added + name[at + 1 :] in known:
                    return name[: at + 1], added
                at = name.find(".", at + 1)
    return "", ""


def _around(known: Container[str], stored: Iterable[str]) -> Iterator[str]:
    """Yield the paths before a known name at the end of a stored one."""
    for name in stored:
        at = name.find(".")
        while at >= 0:
            if name[at + 1 :] in known:
                yield name[: at + 1]
            at = name.find(".", at + 1)


def match(
    name: str, known: Container[str], paths: Mapping[str, str], shifted_by: tuple[str, str]
) -> Match:
    """Return the known name of a stored tensor: its own name, or the current one of an old name."""
    drop, add = shifted_by
    for current, rename in ((name, ()), renamed(name, paths)):
        if current in known:
            return Match(current, rename)
        shifted = add + current.removeprefix(drop)
        if shifted in known:
            return Match(shifted, rename, shifted=True)
    return Match(name)


def renamed(name: str, paths: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the current name of a tensor, and the old and new part if its name is old.

    Parts that all families have renamed may be anywhere in the name; ``paths``, which are those of
    the class, only at its beginning.
    """
    dotted = f".{name}."
    renamed_parts: dict[str, str] = data.read_toml("facts/renames.toml")["names"]
    for old, new in renamed_parts.items():
        if f".{old}." in dotted:
            return renamed(dotted.replace(f".{old}.", f".{new}.")[1:-1], paths)[0], (old, new)
    for old, new in paths.items():
        if is_under(name, old):
            below = name[len(old) + 1 :]
            next_piece = ""
            if not new:
                next_piece = below.partition(".")[0]
            return joined_path(new, below), (
                joined_path(old, next_piece),
                joined_path(new, next_piece),
            )
    return name, ()


def _naming(found: StoredCheckpoint) -> Mapping[str, Any] | None:
    """Return how a checkpoint spells names; None if it spells them like the reference.

    A format has its spelling, and so has a library that is recognised by some of its names.
    """
    of_format = _naming_of_format(found)
    if of_format is not None:
        return of_format
    namings: Mapping[str, Mapping[str, Any]] = data.read_toml("facts/namings.toml")
    names = frozenset(row.name for row in found.rows)
    for naming in namings.values():
        if "recognised" in naming and names.issuperset(naming["recognised"]):
            return naming
    return None


def _naming_of_format(found: StoredCheckpoint) -> Mapping[str, Any] | None:
    return data.read_toml("facts/namings.toml").get(found.format)


def _own(name: str, found: StoredCheckpoint, naming: Mapping[str, Any] | None) -> str:
    """Return a stored tensor's name, unpacked, spelled as the reference spells names.

    Example:
        >>> from weighbridge.readers import StoredCheckpoint
        >>> found = StoredCheckpoint(
        ...     "bert_model.ckpt", "TensorFlow", (), {}, (), 0, {}, {}, (), None
        ... )
        >>> _own("bert/encoder/layer_0/output/dense/kernel", found, _naming(found))
        'bert.encoder.layer.0.output.dense.weight'
    """
    name = found.own_name(name)
    if naming is None:
        return name
    if "separator" in naming:
        name = name.replace(naming["separator"], ".")
    if naming.get("numbered"):
        name = re.sub(r"_(\d+)(?=\.)", r".\1", name)
    if name.endswith(tuple(naming.get("bare", ()))):
        name = f"{name}.weight"
    pieces = naming.get("pieces", {})
    return ".".join(pieces.get(piece, piece) for piece in name.split("."))


def own_name(name: str, found: StoredCheckpoint) -> str:
    """Return a stored tensor's name, unpacked and unwrapped, spelled as the reference spells it."""
    return _own(name, found, _naming(found))


def is_turned(row: Row, found: StoredCheckpoint) -> bool:
    """Return whether a checkpoint holds the transpose of a matrix, by its name or the graph."""
    naming = _naming_of_format(found) or {}
    last = re.split(r"[./]", row.name)[-1]
    return row.name in found.called or (
        len(row.shape) == _MATRIX and last in naming.get("turned", ())
    )


def _is_aside(row: Row, naming: Mapping[str, Any] | None) -> bool:
    """Return whether a stored tensor needs no counterpart."""
    if row.role == "constant" or row.role.startswith(("quantization.", "training.")):
        return True
    if row.name.endswith(tuple(data.read_toml("facts/renames.toml")["computed"])):
        return True
    if row.name.endswith(tuple(data.read_toml("facts/renames.toml")["computed"])):
        return True
    return naming is not None and (
        row.name in naming.get("computed", ()) or row.name.endswith(_training(naming))
    )


def _training(naming: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(naming.get("training", ()))


# Matching roles and positions


class _Position(NamedTuple):
    """A layer, a part of the model, and whether it is a weight or a bias."""

    layer: int | None
    in_decoder: bool
    ending: str


_DECODER, _ENCODER = {"decoder", "dec"}, {"encoder", "enc"}
_LONGEST_INDEX = 9  # digits: a longer number is not a layer's
_UNKNOWN = "other"  # the role of tensors that may be anything


def _positions(rows: Sequence[Row]) -> dict[str, _Position]:
    """Return the position of each tensor.

    The decoder is distinguished only if there is an encoder too.
    """
    paths = {row.name: row.name.split(".") for row in rows}
    decoding = {name for name, pieces in paths.items() if not _DECODER.isdisjoint(pieces)}
    has_encoder = any(not _ENCODER.isdisjoint(pieces) for pieces in paths.values())
    positions: dict[str, _Position] = {}
    for name, pieces in paths.items():
        ending = "weight"
        if pieces[-1].endswith("bias"):
            ending = "bias"
        positions[name] = _Position(_layer_of(pieces), has_encoder and name in decoding, ending)
    return positions


def _layer_of(pieces: Sequence[str]) -> int | None:
    for piece in pieces:
        if piece.isdecimal() and len(piece) <= _LONGEST_INDEX:
            return int(piece)
    return None


def _by_position(
    rows: Sequence[Row], group_of: Callable[[str], str]
) -> dict[tuple[_Position, str], list[Row]]:
    """Return tensors by their position and the group of their role."""
    positions = _positions(rows)
    groups: dict[tuple[_Position, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((positions[row.name], group_of(row.role)), []).append(row)
    return groups


def _same_role(role: str) -> str:
    return role


def _fused_role(role: str) -> str:
    """Return the first of the roles that are fused with this one, from `facts/fusions.toml`."""
    fused: list[list[str]] = data.read_toml("facts/fusions.toml")["together"]
    return next((roles[0] for roles in fused if role in roles), role)


def _one_by_one(
    missing: Sequence[Row], unpaired: Sequence[Row], *, alike: bool
) -> Iterator[tuple[str, Row]]:
    """Yield expected names with the tensors of the same role and position, if equally many.

    If they must be ``alike``, they must have the same shapes too.
    """
    stored_groups = _by_position(unpaired, _same_role)
    for key, expected_rows in _by_position(missing, _same_role).items():
        stored_rows = stored_groups.get(key, [])
        _, role = key
        if role == _UNKNOWN or len(expected_rows) != len(stored_rows):
            continue
        shapes_match = [row.shape for row in expected_rows] == [row.shape for row in stored_rows]
        if shapes_match or not alike:
            for expected_row, stored_row in zip(expected_rows, stored_rows, strict=True):
                yield expected_row.name, stored_row


def _regroup(pairing: _Pairing, group_of: Callable[[str], str]) -> None:
    """Pair groups of tensors with the same position and total number of elements."""
    regrouped = list(_groups_of_one_size(pairing.missing, pairing.unpaired, group_of))
    expected_names, stored_names = set[str](), set[str]()
    for group in regrouped:
        expected_names.update(group.names)
        stored_names.update(row.name for row in group.rows)
    pairing.regrouped += regrouped
    pairing.remove(expected_names, stored_names)


def _groups_of_one_size(
    missing: Sequence[Row], unpaired: Sequence[Row], group_of: Callable[[str], str]
) -> Iterator[Regrouped]:
    stored_groups = _by_position(unpaired, group_of)
    for key, expected_rows in _by_position(missing, group_of).items():
        stored_rows = stored_groups.get(key, [])
        _, group = key
        if group == _UNKNOWN or not stored_rows or _roles(expected_rows) == _roles(stored_rows):
            continue
        expected_elements = sum(prod(row.shape) for row in expected_rows)
        if expected_elements == sum(row.parameters for row in stored_rows):
            yield Regrouped(tuple(row.name for row in expected_rows), tuple(stored_rows))


def _roles(rows: Iterable[Row]) -> list[str]:
    return sorted(row.role for row in rows)
