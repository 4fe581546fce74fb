"""Holds the ledger that a model must have against what a checkpoint has, tensor by tensor. It opens no file.

A checkpoint may have the tensors that transformers saves, or those of the modules in memory where they are others, but
no mixture. Names are matched as they are, by their current name where an old one is stored, and without or with the
base class's prefix where the whole checkpoint leaves it out or has it; transformers loads what is matched so. A
difference matters if something that the class needs is not there as it must be, if something is there that it does not
need, or if the parts of a checkpoint contradict each other. All else that deserves a word is a note.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import data
from weighbridge.blueprint import is_under, joined, role_of
from weighbridge.ledger import bind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from weighbridge.blueprint import Blueprint
    from weighbridge.ledger import Ledger, Row
    from weighbridge.models import Model
    from weighbridge.readers import Found


class Kind(NamedTuple):
    """A kind of difference: whether it matters, and what the differences of one group have in common.

    A group holds one tensor of all layers, or where ``merge`` is true all tensors of a module or a layer; where
    ``listed`` is false it holds whatever is ``alike``.
    """

    matters: bool
    alike: tuple[str, ...] = ()
    merge: bool = True
    listed: bool = True


KINDS = {
    "missing": Kind(matters=True),  # not in the checkpoint
    "absent": Kind(matters=True, alike=("about",)),  # not in the checkpoint, though the index lists it
    "shape": Kind(matters=True, alike=("expected_shape", "found_shape"), merge=False),
    "dtype": Kind(matters=True, alike=("expected_dtype", "found_dtype")),  # not the dtype that was asked for
    "not_float": Kind(matters=True, alike=("found_dtype",)),  # nobody asked for a dtype, but this one is no weight's
    "extra": Kind(matters=True),  # in the checkpoint, and nothing that the class knows
    "two_names": Kind(matters=True),  # stored under its current and an old name
    "twice": Kind(matters=True, alike=("about",)),  # stored in several files
    "misplaced": Kind(matters=True, alike=("about",)),  # in another file than the index says
    "unlisted": Kind(matters=True),  # left out of the index
    "total_size": Kind(matters=True, alike=("about",), listed=False),  # the index states another sum
    "in_memory": Kind(matters=False, listed=False),  # the tensors of the modules, not those that transformers saves
    "prefix_absent": Kind(matters=False, alike=("name",), listed=False),  # all names lack the base class's prefix
    "prefix_added": Kind(matters=False, alike=("name",), listed=False),  # all names have one that the class has not
    "old_name": Kind(matters=False, alike=("about",), listed=False),
    "buffer": Kind(matters=False, alike=("expected_shape", "found_shape", "found_dtype"), merge=False),
    "buffer_shape": Kind(matters=False, alike=("expected_shape", "found_shape", "found_dtype"), merge=False),
    "tied_stored": Kind(matters=False, alike=("about",)),  # stored, and so is the tensor that it is
    "tied_alone": Kind(matters=False, alike=("about",)),  # stored only under the name of a tensor tied to it
    "stated_dtype": Kind(matters=False, alike=("expected_dtype", "found_dtype")),  # not the config's dtype
    "mixed_dtype": Kind(matters=False, alike=("expected_dtype", "found_dtype")),  # not the dtype that most have
}
"""Every kind of difference, in the order that they are told in."""


_NO_PARAMETERS = ("buffer", "buffer_shape", "tied_stored")
LACKING = ("missing", "absent")
"""The kinds that say that a checkpoint does not hold a tensor."""


class Difference(NamedTuple):
    """One thing of one tensor on which the two sides differ, or that deserves a note.

    ``name`` is the class's own name of it, ``stored_as`` the checkpoint's where that is another one. What does not
    apply is None. ``about`` is what else the kind speaks of: files, names, a dtype or numbers of bytes.
    """

    kind: str
    name: str
    stored_as: str | None = None
    role: str | None = None
    expected_shape: tuple[int, ...] | None = None
    expected_dtype: str | None = None
    found_shape: tuple[int, ...] | None = None
    found_dtype: str | None = None
    about: tuple[str | int, ...] = ()

    @property
    def matters(self) -> bool:
        """Whether the checkpoint does not hold what it should."""
        return KINDS[self.kind].matters


class Dtype(NamedTuple):
    """The dtype that a checkpoint should have: ``asked`` for by the user, or only stated by the config."""

    name: str
    asked: bool


class Comparison(NamedTuple):
    """A class's ledger held against a checkpoint: what files hold of the class, or what its modules do.

    ``held`` are the stored tensors by the class's own names, buffers among them; ``shared`` are the tied tensors that
    are not stored, with the one that each is; ``extra`` are the stored tensors that the class does not know.
    """

    ledger: Ledger
    held: dict[str, Row]
    shared: dict[str, str]
    extra: tuple[Row, ...]
    differences: tuple[Difference, ...]

    @property
    def failures(self) -> int:
        """How many of the differences matter."""
        return sum(difference.matters for difference in self.differences)

    @property
    def stored(self) -> list[Row]:
        """The stored tensors that are parameters, each counted once: no buffers, no second copy of a tied one."""
        others = {difference.name for difference in self.differences if difference.kind in _NO_PARAMETERS}
        return [*(row for name, row in self.held.items() if name not in others), *self.extra]

    @property
    def needed(self) -> int:
        """How many tensors a checkpoint of the class needs to store: all but the tied ones."""
        return sum(len(entry.indices) for entry in self.ledger.entries if not entry.tied)

    @property
    def parameters(self) -> int:
        """The elements of those that are stored."""
        return sum(row.count for row in self.stored)


def compare(ledger: Ledger, found: Found, dtype: Dtype | None = None) -> Comparison:
    """Hold a ledger against a checkpoint, tensor by tensor.

    Without a dtype, any one floating-point dtype will do.

    Example:
        >>> from weighbridge.blueprint import load
        >>> from weighbridge.readers import Found
        >>> bert = load("bert")
        >>> ledger = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2})
        >>> rows = tuple(row for row in ledger.rows if row.name != "pooler.dense.bias")
        >>> found = Found("a.gguf", "GGUF", rows, {}, ("a.gguf",), 0, {}, {}, (), None)
        >>> [(difference.kind, difference.name) for difference in compare(ledger, found).differences]
        [('missing', 'pooler.dense.bias')]
    """
    sides = _nearest(ledger, found)
    differences = (
        *_missing(sides),
        *_unlike(sides, dtype),
        *(_difference("extra", row.name, None, row) for row in sides.extra),
        *_contradictions(sides),
        *([] if sides.ledger is ledger.stored else [Difference("in_memory", ledger.class_name)]),
        *_other_names(sides),
        *_other_tensors(sides),
    )
    order = {kind: place for place, kind in enumerate(KINDS)}
    ties = {row.name: row.tied_to for row in sides.expected.values() if row.tied_to in sides.held}
    shared = {name: to for name, to in ties.items() if to and name not in sides.held}
    in_order = sorted(differences, key=lambda difference: order[difference.kind])
    return Comparison(sides.ledger, sides.held, shared, sides.extra, tuple(in_order))


class Choice(NamedTuple):
    """The class that a checkpoint was held against, and ``why``: ``"given"``, ``"named"``, ``"base"`` or ``"fits"``.

    ``failures`` says of each class that came into question how many differences would matter.
    """

    comparison: Comparison
    why: str
    failures: dict[str, int]


def choose(model: Model, found: Found, class_name: str | None = None, dtype: Dtype | None = None) -> Choice:
    """Hold a checkpoint against the class given, or else against the one with the fewest differences that matter.

    The class that the config names is taken if the checkpoint lacks a tensor of it, whatever else would fit: a lost
    head is a loss. Among equals it comes first, then the base class, then the others in order. Those come into question
    if the checkpoint holds something of what they add to the base class.

    Raises:
        ModelError: the family has no such class.
    """
    base, named = model.blueprint.base_class, named_class(model)

    def held(names: Iterable[str]) -> dict[str, Comparison]:
        return {name: compare(bind(model.blueprint, name, model.fields), found, dtype) for name in names}

    candidates = held([class_name] if class_name else dict.fromkeys((named or base, base)))
    if not class_name and all(candidate.failures for candidate in candidates.values()):
        candidates |= held(name for name in _with_heads(model.blueprint, found) if name not in candidates)
    failures = {name: candidate.failures for name, candidate in candidates.items()}
    best = min(failures, key=lambda name: failures[name])
    if named in candidates and any(found.kind in LACKING for found in candidates[named].differences):
        best = named
    why = "given" if class_name else {base: "base", named: "named"}.get(best, "fits")
    return Choice(candidates[best], why, failures)


def _with_heads(blueprint: Blueprint, found: Found) -> Iterator[str]:
    for name in blueprint.class_names:
        prefix, paths = blueprint.prefix(name), blueprint.renamed(name)
        stored = {_renamed(row.name, paths)[0] for row in found.rows}
        if any(
            template.name in stored and not template.name.startswith(prefix)
            for as_stored in (True, False)
            for template in blueprint.templates(name, stored=as_stored)
        ):
            yield name


def named_class(model: Model) -> str | None:
    """Return the class that the config names, if it names one that the blueprint has."""
    named = model.config.get("architectures")
    return model.named_class if isinstance(named, list) and named[:1] == [model.named_class] else None


# Whose name is whose


class _Match(NamedTuple):
    """A stored name's counterpart: the class's own name, and what leads from one to the other."""

    name: str
    rename: tuple[str, ...] = ()
    shifted: bool = False


class _Sides(NamedTuple):
    """Both sides by the class's own names, and what each name in the checkpoint or its index stands for."""

    ledger: Ledger
    expected: dict[str, Row]
    buffers: dict[str, Row]
    held: dict[str, Row]
    extra: tuple[Row, ...]
    found: Found
    stored: dict[str, Row]
    matches: dict[str, _Match]
    prefix: str


def _nearest(ledger: Ledger, found: Found) -> _Sides:
    """Return both sides with what files hold of the class, or with its modules, if more of the names are theirs."""
    sides = [_sides(each, found) for each in dict.fromkeys((ledger.stored, ledger))]
    return max(sides, key=lambda each: len(each.held))


def _sides(ledger: Ledger, found: Found) -> _Sides:
    expected = {row.name: row for row in ledger.rows}
    buffers = {row.name: row for row in ledger.buffers()}
    known, stored = {*expected, *buffers}, {row.name: row for row in found.rows}
    paths = ledger.blueprint.renamed(ledger.class_name)
    drop, add = _shift(ledger, known, stored, paths)
    matches = {name: _match(name, known, paths, (drop, add)) for name in (*stored, *found.absent)}
    held: dict[str, Row] = {}
    for row in sorted(found.rows, key=lambda row: row.name not in known):  # a current name goes before an old one
        if matches[row.name].name in known:
            held.setdefault(matches[row.name].name, row)
    extra = tuple(row for row in found.rows if matches[row.name].name not in known)
    return _Sides(ledger, expected, buffers, held, extra, found, stored, matches, drop or add)


def _shift(
    ledger: Ledger, known: Collection[str], stored: Collection[str], paths: Mapping[str, str]
) -> tuple[str, str]:
    """Return the prefix to take off all names, and the one to put before them, so that they are the class's own.

    The class's prefix is put before them if no name has it. One of another class is taken off where the class has none
    and no name is its own as it stands.
    """
    blueprint = ledger.blueprint
    own = blueprint.prefix(ledger.class_name)
    if own:
        return "", "" if any(name.startswith(own) for name in stored) else own
    prefixes = {blueprint.prefix(name) for name in blueprint.class_names} - {""}
    worn = [prefix for prefix in sorted(prefixes) if any(name.startswith(prefix) for name in stored)]
    as_it_stands = any(name in known or _renamed(name, paths)[0] in known for name in stored) if worn else True
    return "" if as_it_stands else worn[0], ""


def _match(name: str, known: Collection[str], paths: Mapping[str, str], shift: tuple[str, str]) -> _Match:
    drop, add = shift
    for here, rename in ((name, ()), _renamed(name, paths)):
        shifted = add + here.removeprefix(drop)
        if here in known or shifted in known:
            return _Match(here if here in known else shifted, rename, here not in known)
    return _Match(name)


def _renamed(name: str, paths: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the current name of a tensor, with the old run of pieces and the new one if it is an old name.

    Runs are those of all families, wherever they stand, and the ``paths`` of the class, at the beginning.
    """
    dotted = f".{name}."
    runs: dict[str, str] = data.read_toml("facts/renames.toml")["names"]
    for old, new in runs.items():
        if f".{old}." in dotted:
            return _renamed(dotted.replace(f".{old}.", f".{new}.")[1:-1], paths)[0], (old, new)
    for old, new in paths.items():
        if is_under(name, old):
            below = name[len(old) + 1 :]
            piece = "" if new else below.partition(".")[0]
            return joined(new, below), (joined(old, piece), joined(new, piece))
    return name, ()


# What there is to say of the two sides


def _difference(kind: str, name: str, expected: Row | None, found: Row | None, *about: str | int) -> Difference:
    return Difference(
        kind,
        name,
        stored_as=found.name if found and found.name != name else None,
        role=expected.role if expected else role_of(name),
        expected_shape=expected.shape if expected else None,
        found_shape=found.shape if found else None,
        found_dtype=found.dtype if found else None,
        about=about,
    )


def _missing(sides: _Sides) -> Iterator[Difference]:
    """Yield what is not stored. A tied tensor need not be, and it may stand in for the one that it is."""
    absent = {sides.matches[name].name for name in sides.found.absent}
    ties = {row.tied_to: name for name, row in sides.expected.items() if row.tied_to and name in sides.held}
    for name, row in sides.expected.items():
        if name in sides.held or name in absent or row.tied_to:
            continue
        if name in ties:
            yield _difference("tied_alone", name, row, sides.held[ties[name]], ties[name])
        else:
            yield _difference("missing", name, row, None)


def _unlike(sides: _Sides, dtype: Dtype | None) -> Iterator[Difference]:
    """Yield what is stored in another shape or dtype."""
    pairs = [(row, sides.held[name]) for name, row in sides.expected.items() if name in sides.held]
    for row, found in pairs:
        if found.shape != row.shape:
            yield _difference("shape", row.name, row, found)
    most = Counter(found.dtype for _, found in pairs).most_common(1)
    wanted = dtype or (Dtype(most[0][0], asked=False) if most else None)
    for row, found in pairs:
        if wanted and (kind := _unlike_dtype(found.dtype, wanted, of_config=dtype is not None)):
            difference = _difference(kind, row.name, row, found)
            yield difference._replace(expected_dtype=None if kind == "not_float" else wanted.name)


def _unlike_dtype(found: str, wanted: Dtype, *, of_config: bool) -> str | None:
    if wanted.asked:
        return None if found == wanted.name else "dtype"
    if not found.startswith(("F", "BF")):
        return "not_float"
    return None if found == wanted.name else "stated_dtype" if of_config else "mixed_dtype"


def _contradictions(sides: _Sides) -> Iterator[Difference]:
    """Yield where the files of a checkpoint contradict each other or their index."""
    found, expected = sides.found, sides.expected
    for name, row in sides.stored.items():
        own = sides.matches[name].name
        if own in sides.held and sides.held[own].name != name:
            yield _difference("two_names", own, expected.get(own), row, sides.held[own].name)
    facts: list[tuple[str, str, tuple[str, ...]]] = [
        *(("twice", name, files) for name, files in found.duplicates.items()),
        *(("misplaced" if name in sides.stored else "absent", name, (file,)) for name, file in found.absent.items()),
        *(("unlisted", name, ()) for name in found.unlisted),
    ]
    for kind, name, about in facts:
        own = sides.matches[name].name
        difference = _difference(kind, own, expected.get(own), sides.stored.get(name), *about)
        yield difference._replace(stored_as=None if own == name else name)
    held_bytes = sum(row.bytes for row in found.rows)
    if found.stated_bytes is not None and found.stated_bytes != held_bytes:
        yield Difference("total_size", "metadata.total_size", about=(found.stated_bytes, held_bytes))


def _other_names(sides: _Sides) -> Iterator[Difference]:
    """Yield what is stored under another name than the class's own."""
    matched = [(sides.matches[row.name], name, row) for name, row in sides.held.items()]
    if any(match.shifted for match, _, _ in matched):
        added = any(name.startswith(sides.prefix) for name in sides.stored)
        yield Difference("prefix_added" if added else "prefix_absent", sides.prefix)
    for match, name, row in matched:
        if match.rename:
            yield _difference("old_name", name, sides.expected.get(name), row, *match.rename)


def _other_tensors(sides: _Sides) -> Iterator[Difference]:
    """Yield what is stored, and need not be."""
    for name, row in sides.held.items():
        expected = sides.expected.get(name)
        if name in sides.buffers:
            kind = "buffer" if row.shape == sides.buffers[name].shape else "buffer_shape"
            yield _difference(kind, name, sides.buffers[name], row)
        elif expected and expected.tied_to in sides.held and not row.tied_to:  # which only some formats tell
            yield _difference("tied_stored", name, expected, row, str(expected.tied_to))


# Groups, so that a person can read them


class Group(NamedTuple):
    """Differences of one kind that one line can tell, of tensors that stand in the same ``place``.

    ``place`` is a path with the layers in braces: ``encoder.layer.{3-7}``. It is a tensor's whole name where the group
    holds a single one of each layer, and empty where the kind is not listed by name. The first ``each`` of the
    differences are those of the first layer.
    """

    kind: str
    place: str
    differences: tuple[Difference, ...]
    each: int


def group(differences: Iterable[Difference]) -> list[Group]:
    """Return the differences in groups: the same tensor of many layers, or the tensors of a module, in one.

    Example:
        >>> names = [f"encoder.layer.{layer}.output.dense.weight" for layer in (0, 1, 2, 5)]
        >>> [group.place for group in group(Difference("missing", name) for name in names)]
        ['encoder.layer.{0-2,5}.output.dense.weight']
    """
    by_tensor: dict[tuple[object, ...], list[Difference]] = {}
    for difference in differences:
        kind = KINDS[difference.kind]
        alike = tuple(getattr(difference, field) for field in kind.alike)
        pattern = _pattern(difference.name) if kind.listed else ""
        by_tensor.setdefault((difference.kind, alike, pattern), []).append(difference)
    by_place: dict[object, list[list[Difference]]] = {}
    for key, members in by_tensor.items():
        kind = KINDS[members[0].kind]
        indices = tuple(_indices(member.name) for member in members)
        merged = (*key[:2], _stem(str(key[2])), indices) if kind.merge and kind.listed else key
        by_place.setdefault(merged, []).append(members)
    return [_group(tensors) for tensors in by_place.values()]


def _group(tensors: list[list[Difference]]) -> Group:
    members = tuple(difference for layer in zip(*tensors, strict=True) for difference in layer)
    kind, pattern = members[0].kind, _pattern(members[0].name)
    if not KINDS[kind].listed:
        return Group(kind, "", members, len(members))
    place = pattern if len(tensors) == 1 else _stem(pattern)
    columns = zip(*(_indices(member.name) for member in members), strict=True)
    for numbers in columns:
        place = place.replace("*", ranges(numbers), 1)
    return Group(kind, place, members, len(tensors))


def ranges(numbers: Iterable[int]) -> str:
    """Write whole numbers in braces, runs as ranges; a single one stands alone.

    Example:
        >>> ranges([3, 0, 1, 2, 7]), ranges([4])
        ('{0-3,7}', '4')
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return texts[0] if len(runs) == 1 and runs[0][0] == runs[0][1] else f"{{{','.join(texts)}}}"


def _pattern(name: str) -> str:
    """Return a name with ``*`` in place of each index."""
    return ".".join("*" if _is_index(piece) else piece for piece in name.split("."))


def _indices(name: str) -> tuple[int, ...]:
    return tuple(int(piece) for piece in name.split(".") if _is_index(piece))


def _is_index(piece: str) -> bool:
    return piece.isascii() and piece.isdigit() and len(piece) < 10


def _stem(pattern: str) -> str:
    """Return the path down to the layer's index; without one, the path of the module that holds the tensor."""
    before, index, _ = pattern.partition("*")
    return before + index if index else pattern.rpartition(".")[0]
