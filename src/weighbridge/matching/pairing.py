"""Pairs the tensors of a checkpoint with those that are expected: whose name is whose.

Names are matched as they are; by their current name where an old one is stored; without or with a
prefix where the whole checkpoint leaves it out or has it; packed weights by the name that they
stand for. What is left is matched by what it is for and where it stands: tensors that some fuse and
others keep apart, and, in a format with names of its own, any.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.blueprint.paths import is_under, joined
from weighbridge.blueprint.roles import role_of
from weighbridge.blueprint.schema import MOST_PLACES, families, load
from weighbridge.ledger.rows import Row

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from weighbridge.blueprint.schema import Blueprint, Template
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.readers import Found


class Expected(NamedTuple):
    """What a checkpoint is held against: a class's tensors and buffers, or those of another checkpoint.

    ``paths`` are old paths and the current ones; ``prefix`` is the class's own, and ``prefixes``
    are those of others. Another checkpoint has a ``format``.
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
        """How many tensors need to be stored: all but the tied ones."""
        return sum(not row.tied_to for row in self.rows.values())


class Match(NamedTuple):
    """A stored name's counterpart: the expected name, and what leads from one to the other."""

    name: str
    rename: tuple[str, ...] = ()
    shifted: bool = False


class Regrouped(NamedTuple):
    """Tensors of one place that hold the same parameters in other pieces: the expected names, and what is stored."""

    names: tuple[str, ...]
    rows: tuple[Row, ...]


_NO_WEIGHTS = ("I64", "I32", "BOOL")


class Pairs(NamedTuple):
    """Both sides by the expected names, and what each name in the checkpoint or its index stands for.

    ``by_role`` are the expected names of those that are matched by what they are for; ``aside`` are
    the stored tensors that are held against nothing: what stands beside packed weights, constants,
    what only training needs.
    """

    expected: dict[str, Row]
    buffers: dict[str, Row]
    held: dict[str, Row]
    regrouped: tuple[Regrouped, ...]
    by_role: frozenset[str]
    extra: tuple[Row, ...]
    aside: tuple[Row, ...]
    found: Found
    stored: dict[str, Row]
    matches: dict[str, Match]
    prefix: str

    def shape(self, row: Row) -> tuple[int, ...] | None:
        """Return the shape of what a stored tensor stands for; None where its header tells only the elements."""
        packed = self.found.packed.get(row.name)
        return packed.shape if packed else row.shape


def of_ledger(ledger: Ledger) -> Expected:
    """Return what a checkpoint of a class must have."""
    rows, buffers = ledger.rows, ledger.buffers()
    names = names_of(ledger.blueprint, ledger.class_name)
    return names._replace(
        rows={row.name: row for row in rows}, buffers={row.name: row for row in buffers}
    )


def names_of(blueprint: Blueprint, class_name: str) -> Expected:
    """Return how files of a class name tensors, whatever its config is."""
    return Expected(
        {},
        {},
        blueprint.renamed(class_name),
        blueprint.prefix(class_name),
        frozenset(blueprint.prefix(name) for name in blueprint.class_names) - {""},
    )


def of_checkpoint(found: Found) -> Expected:
    """Return what another checkpoint must have to hold the same: its tensors by the names that they stand for."""
    naming = _naming(found)
    rows: dict[str, Row] = {}
    buffers: dict[str, Row] = {}
    for row in found.rows:
        if not _is_aside(row, naming):
            name, packed = _own(row.name, found, naming), found.packed.get(row.name)
            shape = packed.shape if packed and packed.shape is not None else row.shape
            tied_to = _own(row.tied_to, found, naming) if row.tied_to else None
            is_buffer = row.dtype in _NO_WEIGHTS or (
                row.count and not row.parameters and not tied_to
            )
            of_kind = buffers if is_buffer else rows
            of_kind[name] = row._replace(
                name=name, shape=shape, role=role_of(name), tied_to=tied_to
            )
    return Expected(rows, buffers, format=found.format)


def has_own_names(form: str) -> bool:
    """Whether a format has other names for tensors than the reference.

    Example:
        >>> has_own_names("GGUF"), has_own_names("safetensors")
        (True, False)
    """
    return form in data.read_toml("facts/namings.toml")


def pair(expected: Expected, found: Found) -> Pairs:
    """Return which stored tensor is which of those that are expected."""
    naming = _naming(found)
    known = {**expected.rows, **expected.buffers}
    aside = tuple(row for row in found.rows if _is_aside(row, naming) and row.name not in known)
    left_aside = {row.name for row in aside}
    stored = {row.name: row for row in found.rows if row.name not in left_aside}
    own = {name: _own(name, found, naming) for name in (*stored, *found.absent)}
    drop, add = shift(expected, known, own.values(), anywhere=naming is not None)
    matches = {name: match(own[name], known, expected.paths, (drop, add)) for name in own}
    held: dict[str, Row] = {}
    for row in sorted(
        stored.values(), key=lambda row: row.name not in known
    ):  # a current name goes before an old one
        if matches[row.name].name in known:
            held.setdefault(matches[row.name].name, row)
    extra = {row.name: row for row in stored.values() if matches[row.name].name not in known}
    missing = [row for name, row in expected.rows.items() if name not in held and not row.tied_to]
    loose = [row._replace(role=role_of(own[row.name].removeprefix(drop))) for row in extra.values()]
    by_role = frozenset[str]()
    if expected.format or naming is not None:
        alone = dict(
            _one_by_one(missing, loose, alike=naming is None and not has_own_names(expected.format))
        )
        held |= {name: stored[row.name] for name, row in alone.items()}
        by_role = frozenset(alone)
        taken = {row.name for row in alone.values()}
        missing = [row for row in missing if row.name not in by_role]
        loose = [row for row in loose if row.name not in taken]
        matches |= {row.name: Match(name) for name, row in alone.items()}
    regrouped = tuple(_regrouped(missing, loose))
    gone = {row.name for row in held.values()} | {
        row.name for each in regrouped for row in each.rows
    }
    return Pairs(
        expected=expected.rows,
        buffers=expected.buffers,
        held=held,
        regrouped=regrouped,
        by_role=by_role,
        extra=tuple(row for name, row in extra.items() if name not in gone),
        aside=aside,
        found=found,
        stored=stored,
        matches=matches,
        prefix=drop or add,
    )


# Of no known model


def translated(found: Found) -> Found:
    """Return a checkpoint with its tensors as the reference names and shapes them, as far as it can be told.

    What is packed stands in its own shape, and what is no weight is left out. A format that has
    kept the names of the module is spelled as the reference spells them, without the path of a
    module around the model. GGUF's names are those of the family that its metadata state: a tensor
    is the one that is for the same, in the same layer.
    """
    naming = _naming(found)
    if naming is None and not found.packed:
        return found
    stored = [row for row in found.rows if not _is_aside(row, naming)]
    rows = [_unpacked(row, found, naming) for row in stored]
    stated = stated_families(found)
    if stated:
        return found._replace(rows=tuple(_as_in([load(family) for family in stated], rows)))
    rows = _without_path(rows) if naming is not None else rows
    packed = {
        row.name: found.packed[was.name]._replace(name=row.name, shape=row.shape)
        for was, row in zip(stored, rows, strict=True)
        if was.name in found.packed
    }
    return found._replace(rows=tuple(rows), packed=packed, called={})


def _unpacked(row: Row, found: Found, naming: Mapping[str, Any] | None) -> Row:
    packed, name = found.packed.get(row.name), _own(row.name, found, naming)
    shape = packed.shape if packed and packed.shape is not None else row.shape
    turned = shape[::-1] if is_turned(row, found) and len(shape) == _MATRIX else shape
    return row._replace(name=name, shape=turned, count=row.parameters)


_MATRIX = 2  # dims


def _without_path(rows: Sequence[Row]) -> list[Row]:
    """Return tensors without the pieces that all their names begin with."""
    pieces = [row.name.split(".") for row in rows]
    shared = 0
    while rows and all(
        len(path) > shared + 1 and path[shared] == pieces[0][shared] for path in pieces
    ):
        shared += 1
    return [
        row._replace(name=".".join(path[shared:])) for row, path in zip(rows, pieces, strict=True)
    ]


def stated_families(found: Found) -> list[str]:
    """Return the families that the metadata of a checkpoint may mean, as far as they are known."""
    stated = data.read_toml("facts/metadata.toml")
    name = found.metadata.get(stated["architecture"], "")
    return [family for family in stated["families"].get(name, [name]) if family in families()]


def _as_in(blueprints: Sequence[Blueprint], rows: Sequence[Row]) -> list[Row]:
    """Return tensors under the names that a family's class has for the same: of the class that has most of them."""
    known = [row._replace(role=role_of(row.name)) for row in rows]
    named = [
        list(_named(known, blueprint.templates(name, stored=stored)))
        for blueprint in blueprints
        for name in blueprint.class_names
        for stored in dict.fromkeys((True, blueprint.is_stored_otherwise(name)))
    ]
    return max(named, key=lambda rows: sum(row.role != "" for row in rows))


def _named(rows: Sequence[Row], templates: Sequence[Template]) -> Iterator[Row]:
    """Yield tensors under the names of templates, each of which has as many for the same as there are templates.

    One that is for nothing that the templates are for keeps its name, and its role is empty.
    """
    wanted: dict[tuple[str, str, bool], list[Template]] = {}
    sides = _places([*rows, *(_first(template) for template in templates)])
    for template in templates:
        if template.tie is None or template.tie.when is not None:
            place = sides[_first(template).name]
            wanted.setdefault((template.role, place.ending, place.in_decoder), []).append(template)
    for key, of_place in _by_place(rows, _itself).items():
        place, role = key
        found = wanted.get((role, place.ending, place.in_decoder), [])
        if len(found) != len(of_place):
            yield from (row._replace(role="") for row in of_place)
            continue
        for row, template in zip(of_place, found, strict=True):
            yield from _in_places(row, template, place.layer)


def _first(template: Template) -> Row:
    return Row(re.sub(r"\{\w+\}", "0", template.name), (), "", template.role, (), 0, 0)


def _in_places(row: Row, template: Template, layer: int | None) -> Iterator[Row]:
    """Yield a tensor under a template's name: one for each expert, where the template has one for each."""
    indices = list(template.repeat)
    name = (
        template.name
        if layer is None or not indices
        else template.name.replace(f"{{{indices.pop(0)}}}", str(layer))
    )
    if not indices:
        yield row._replace(name=name)
    elif (
        len(indices) == 1
        and row.role.startswith("expert")
        and row.shape
        and 0 < row.shape[0] <= MOST_PLACES
    ):
        for expert in range(row.shape[0]):
            count = row.count // row.shape[0]
            named = name.replace(f"{{{indices[0]}}}", str(expert))
            yield row._replace(name=named, shape=row.shape[1:], count=count, parameters=count)
    else:
        yield row._replace(role="")


# By name


def shift(
    expected: Expected, known: Container[str], stored: Collection[str], *, anywhere: bool
) -> tuple[str, str]:
    """Return the prefix to take off all names, and the one to put before them, so that they are the expected ones.

    The expected prefix is put before them if no name has it. One of another class is taken off
    where none is expected and no name is known as it stands; where names may be ``anywhere``, so is
    the path of a module around the model.
    """
    as_it_stands = any(
        name in known or renamed(name, expected.paths)[0] in known for name in stored
    )
    if anywhere and not as_it_stands:
        return next(_around(expected.rows, stored), ""), ""
    if expected.prefix:
        return "", "" if any(
            name.startswith(expected.prefix) for name in stored
        ) else expected.prefix
    worn = [
        prefix
        for prefix in sorted(expected.prefixes)
        if any(name.startswith(prefix) for name in stored)
    ]
    return "" if as_it_stands or not worn else worn[0], ""


def _around(known: Container[str], stored: Iterable[str]) -> Iterator[str]:
    """Yield what stands before a known name at the end of a stored one."""
    for name in stored:
        at = name.find(".")
        while at >= 0:
            if name[at + 1 :] in known:
                yield name[: at + 1]
            at = name.find(".", at + 1)


def match(
    name: str, known: Container[str], paths: Mapping[str, str], shifted_by: tuple[str, str]
) -> Match:
    """Return what a stored name is called now, where that is one of those that are ``known``."""
    drop, add = shifted_by
    for here, rename in ((name, ()), renamed(name, paths)):
        shifted = add + here.removeprefix(drop)
        if here in known or shifted in known:
            return Match(here if here in known else shifted, rename, here not in known)
    return Match(name)


def renamed(name: str, paths: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the current name of a tensor, with the old run of pieces and the new one if it is an old name.

    Runs are those of all families, wherever they stand, and the ``paths`` of the class, at the
    beginning.
    """
    dotted = f".{name}."
    runs: dict[str, str] = data.read_toml("facts/renames.toml")["names"]
    for old, new in runs.items():
        if f".{old}." in dotted:
            return renamed(dotted.replace(f".{old}.", f".{new}.")[1:-1], paths)[0], (old, new)
    for old, new in paths.items():
        if is_under(name, old):
            below = name[len(old) + 1 :]
            piece = "" if new else below.partition(".")[0]
            return joined(new, below), (joined(old, piece), joined(new, piece))
    return name, ()


def _naming(found: Found) -> Mapping[str, Any] | None:
    """Return how the checkpoint's format spells names; None where it is as the reference does."""
    return data.read_toml("facts/namings.toml").get(found.format)


def _own(name: str, found: Found, naming: Mapping[str, Any] | None) -> str:
    """Return the name of what a stored tensor stands for, spelled as the reference spells names.

    Example:
        >>> from weighbridge.readers import Found
        >>> found = Found("bert_model.ckpt", "TensorFlow", (), {}, (), 0, {}, {}, (), None)
        >>> _own("bert/encoder/layer_0/output/dense/kernel", found, _naming(found))
        'bert.encoder.layer.0.output.dense.weight'
    """
    name = found.called.get(name) or (found.packed[name].name if name in found.packed else name)
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


def is_turned(row: Row, found: Found) -> bool:
    """Whether a checkpoint holds the transpose of a matrix, as far as a name or the graph tells."""
    naming = _naming(found) or {}
    last = re.split(r"[./]", row.name)[-1]
    return row.name in found.called or (
        len(row.shape) == _MATRIX and last in naming.get("turned", ())
    )


def _is_aside(row: Row, naming: Mapping[str, Any] | None) -> bool:
    """Whether a stored tensor is held against nothing."""
    if row.role == "constant" or row.role.startswith("quantization."):
        return True
    return naming is not None and (
        row.name in naming.get("computed", ()) or row.name.endswith(_training(naming))
    )


def _training(naming: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(naming.get("training", ()))


# By role and place


class _Place(NamedTuple):
    """Where tensors stand that may be one another: a layer, a part of the model, among weights or biases."""

    layer: int | None
    in_decoder: bool
    ending: str


def _places(rows: Sequence[Row]) -> dict[str, _Place]:
    """Return where each tensor stands.

    An encoder and a decoder are told apart where there are both.
    """
    paths = {row.name: row.name.split(".") for row in rows}
    decoding = {name for name, pieces in paths.items() if not _DECODER.isdisjoint(pieces)}
    encoding = {name for name, pieces in paths.items() if not _ENCODER.isdisjoint(pieces)}
    both = bool(decoding and encoding)
    return {
        name: _Place(
            next((int(piece) for piece in pieces if piece.isdecimal() and len(piece) < 10), None),
            both and name in decoding,
            "bias" if pieces[-1].endswith("bias") else "weight",
        )
        for name, pieces in paths.items()
    }


_DECODER, _ENCODER = {"decoder", "dec"}, {"encoder", "enc"}


def _one_by_one(
    missing: Sequence[Row], loose: Sequence[Row], *, alike: bool
) -> Iterator[tuple[str, Row]]:
    """Yield the expected names and the tensors that are for the same in the same place: as many on either side.

    Where they must be ``alike`` they have the same shapes too.
    """
    ours, theirs = _by_place(missing, _itself), _by_place(loose, _itself)
    for key, rows in ours.items():
        others = theirs.get(key, [])
        same = [row.shape for row in rows] == [row.shape for row in others]
        if len(rows) == len(others) and key[1] != _UNKNOWN and (same or not alike):
            yield from zip((row.name for row in rows), others, strict=True)


def _regrouped(missing: Sequence[Row], loose: Sequence[Row]) -> Iterator[Regrouped]:
    """Yield the tensors that together have as many elements as others of their place that are for the same."""
    taken = set[str]()
    for together in (_itself, _fused):
        ours = _by_place([row for row in missing if row.name not in taken], together)
        theirs = _by_place([row for row in loose if row.name not in taken], together)
        for key, rows in ours.items():
            others = theirs.get(key, [])
            if key[1] == _UNKNOWN or not others or _roles(rows) == _roles(others):
                continue
            if sum(prod(row.shape) for row in rows) == sum(row.parameters for row in others):
                yield Regrouped(tuple(row.name for row in rows), tuple(others))
                taken.update(row.name for row in (*rows, *others))


def _roles(rows: Iterable[Row]) -> list[str]:
    return sorted(row.role for row in rows)


_UNKNOWN = "other"


def _by_place(rows: Sequence[Row], together: Any) -> dict[tuple[_Place, str], list[Row]]:
    places, found = _places(rows), dict[tuple[_Place, str], "list[Row]"]()
    for row in rows:
        found.setdefault((places[row.name], together(row.role)), []).append(row)
    return found


def _itself(role: str) -> str:
    return role


def _fused(role: str) -> str:
    """Return the first role of the line of `facts/fusions.toml` that this one is in, or itself."""
    lines: list[list[str]] = data.read_toml("facts/fusions.toml")["together"]
    return next((line[0] for line in lines if role in line), role)
