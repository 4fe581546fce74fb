"""Holds what is expected against what a checkpoint has, tensor by tensor. It opens no file.

What is expected is the ledger of a model's class, or another checkpoint. A checkpoint may have the
tensors that transformers saves, or those of the modules in memory where they are others, but no
mixture. A difference matters if something that is needed is not there as it must be, if something
is there that is not needed, or if the parts of a checkpoint contradict each other. All else that
deserves a word is a note.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.blueprint.roles import role_of
from weighbridge.ledger.ledger import bind
from weighbridge.matching.pairing import (
    has_own_names,
    is_turned,
    of_checkpoint,
    of_ledger,
    pair,
    renamed,
)
from weighbridge.units import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Row
    from weighbridge.matching.pairing import Expected, Pairs
    from weighbridge.models.find import Model
    from weighbridge.readers import Found


class Kind(NamedTuple):
    """A kind of difference: whether it matters, and what the differences of one group have in common.

    A group holds one tensor of all layers, or where ``merge`` is true all tensors of a module or a
    layer; where ``listed`` is false it holds whatever is ``alike``.
    """

    matters: bool
    alike: tuple[str, ...] = ()
    merge: bool = True
    listed: bool = True


KINDS = {
    "missing": Kind(matters=True),  # not in the checkpoint
    "absent": Kind(
        matters=True, alike=("about",)
    ),  # not in the checkpoint, though the index lists it
    "shape": Kind(matters=True, alike=("expected_shape", "found_shape"), merge=False),
    "dtype": Kind(
        matters=True, alike=("expected_dtype", "found_dtype")
    ),  # not the dtype that was asked for
    "not_float": Kind(
        matters=True, alike=("found_dtype",)
    ),  # nobody asked for a dtype, but this one is no weight's
    "extra": Kind(matters=True),  # in the checkpoint, and nothing that the class knows
    "renamed": Kind(
        matters=True, alike=("about",), listed=False
    ),  # for the same and in its shape, under another name
    "two_names": Kind(matters=True),  # stored under its current and an old name
    "twice": Kind(matters=True, alike=("about",)),  # stored in several files
    "misplaced": Kind(matters=True, alike=("about",)),  # in another file than the index says
    "unlisted": Kind(matters=True),  # left out of the index
    "total_size": Kind(
        matters=True, alike=("about",), listed=False
    ),  # the index states another sum
    "in_memory": Kind(
        matters=False, listed=False
    ),  # the tensors of the modules, not those that transformers saves
    "prefix_absent": Kind(
        matters=False, alike=("name",), listed=False
    ),  # all names lack the base class's prefix
    "prefix_added": Kind(
        matters=False, alike=("name",), listed=False
    ),  # all names have one that the class has not
    "old_name": Kind(matters=False, alike=("about",), listed=False),
    "other_names": Kind(
        matters=False, alike=("about",), listed=False
    ),  # under names of the format, known by roles
    "transposed": Kind(matters=False, listed=False),
    "reshaped": Kind(
        matters=False, alike=("expected_shape", "found_shape"), merge=False
    ),  # as many elements
    "regrouped": Kind(
        matters=False, alike=("about",)
    ),  # the same parameters in more or fewer tensors
    "aside": Kind(matters=False, alike=("about",), listed=False),  # neither weights nor buffers
    "buffer": Kind(
        matters=False, alike=("expected_shape", "found_shape", "found_dtype"), merge=False
    ),
    "buffer_shape": Kind(
        matters=False, alike=("expected_shape", "found_shape", "found_dtype"), merge=False
    ),
    "tied_stored": Kind(matters=False, alike=("about",)),  # stored, and so is the tensor that it is
    "tied_alone": Kind(
        matters=False, alike=("about",)
    ),  # stored only under the name of a tensor tied to it
    "quantised": Kind(
        matters=False, alike=("found_dtype",), listed=False
    ),  # packed, or stored in blocks
    "stated_dtype": Kind(
        matters=False, alike=("expected_dtype", "found_dtype")
    ),  # not the config's dtype
    "mixed_dtype": Kind(
        matters=False, alike=("expected_dtype", "found_dtype")
    ),  # not the dtype that most have
    "changed_dtype": Kind(
        matters=False, alike=("expected_dtype", "found_dtype"), listed=False
    ),  # of two checkpoints
}
"""Every kind of difference, in the order that they are told in."""


_NO_PARAMETERS = ("buffer", "buffer_shape", "tied_stored")
LACKING = ("missing", "absent")
"""The kinds that say that a checkpoint does not hold a tensor."""


class Difference(NamedTuple):
    """One thing of one tensor on which the two pairs differ, or that deserves a note.

    ``name`` is the class's own name of it, ``stored_as`` the checkpoint's where that is another
    one. What does not apply is None. ``about`` is what else the kind speaks of: files, names, a
    dtype or numbers of bytes.
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
    """What is expected held against a checkpoint: what files hold of a class, or what its modules do.

    ``ledger`` is the class's, or None where another checkpoint is expected. In ``pairs`` both pairs
    are matched; ``shared`` are the tied tensors that are not stored, with the one that each is.
    """

    expected: Expected
    pairs: Pairs
    ledger: Ledger | None
    shared: dict[str, str]
    differences: tuple[Difference, ...]

    @property
    def failures(self) -> int:
        """How many of the differences matter."""
        return sum(difference.matters for difference in self.differences)

    @property
    def held(self) -> dict[str, Row]:
        """The stored tensors by the expected names, buffers among them."""
        return self.pairs.held

    @property
    def stored(self) -> list[Row]:
        """The stored tensors that are parameters, each counted once: no buffers, no second copy of a tied one."""
        others = {
            difference.name for difference in self.differences if difference.kind in _NO_PARAMETERS
        }
        regrouped = [row for each in self.pairs.regrouped for row in each.rows]
        return [
            *(row for name, row in self.held.items() if name not in others),
            *regrouped,
            *self.pairs.extra,
        ]

    @property
    def parameters(self) -> int:
        """The parameters of those that are stored."""
        return sum(row.parameters for row in self.stored)


def compare(ledger: Ledger, found: Found, dtype: Dtype | None = None) -> Comparison:
    """Hold a ledger against a checkpoint, tensor by tensor.

    Without a dtype, any one floating-point dtype will do.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.readers import Found
        >>> bert = load("bert")
        >>> ledger = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2})
        >>> rows = tuple(row for row in ledger.rows if row.name != "pooler.dense.bias")
        >>> found = Found("a.pt", "PyTorch", rows, {}, ("a.pt",), 0, {}, {}, (), None)
        >>> [(difference.kind, difference.name) for difference in compare(ledger, found).differences]
        [('missing', 'pooler.dense.bias')]
    """
    ledgers = (
        [ledger.stored]
        if has_own_names(found.format)
        else list(dict.fromkeys((ledger.stored, ledger)))
    )
    pairs = [pair(of_ledger(each), found) for each in ledgers]
    best = max(range(len(pairs)), key=lambda at: len(pairs[at].held))
    in_memory = (
        [] if ledgers[best] is ledger.stored else [Difference("in_memory", ledger.class_name)]
    )
    return _compared(of_ledger(ledgers[best]), pairs[best], ledgers[best], dtype, in_memory)


def compare_checkpoints(before: Found, after: Found, dtype: Dtype | None = None) -> Comparison:
    """Hold one checkpoint against another: what a conversion, a training or a quantisation changed.

    A dtype that changed is a note, as packing is, unless one is asked for.
    """
    expected = of_checkpoint(before)
    return _compared(expected, pair(expected, after), None, dtype, [])


def _compared(
    expected: Expected,
    pairs: Pairs,
    ledger: Ledger | None,
    dtype: Dtype | None,
    notes: list[Difference],
) -> Comparison:
    differences = (
        *_missing(pairs),
        *_unlike(pairs, dtype, changed=ledger is None),
        *(_difference("extra", row.name, None, row) for row in pairs.extra),
        *_contradictions(pairs),
        *notes,
        *_other_names(pairs, expected),
        *_other_tensors(pairs, changed=ledger is None),
    )
    order = {kind: place for place, kind in enumerate(KINDS)}
    ties = {row.name: row.tied_to for row in expected.rows.values() if row.tied_to in pairs.held}
    shared = {name: to for name, to in ties.items() if to and name not in pairs.held}
    in_order = sorted(differences, key=lambda difference: order[difference.kind])
    return Comparison(expected, pairs, ledger, shared, tuple(in_order))


class Choice(NamedTuple):
    """The class that a checkpoint was held against, and ``why``: ``"given"``, ``"named"``, ``"base"`` or ``"fits"``.

    ``failures`` says of each class that came into question how many differences would matter.
    """

    comparison: Comparison
    class_name: str
    why: str
    failures: dict[str, int]


def choose(
    model: Model, found: Found, class_name: str | None = None, dtype: Dtype | None = None
) -> Choice:
    """Hold a checkpoint against the class given, or else against the one with the fewest differences that matter.

    The class that the config names is taken if the checkpoint lacks a tensor of it, whatever else
    would fit: a lost head is a loss. Among equals it comes first, then the base class, then the
    others in order. Those come into question if the checkpoint holds something of what they add to
    the base class.

    Raises:
        ModelError: the family has no such class.
    """
    base, named = model.blueprint.base_class, named_class(model)

    def held(names: Iterable[str]) -> dict[str, Comparison]:
        return {
            name: compare(bind(model.blueprint, name, model.fields), found, dtype) for name in names
        }

    candidates = held([class_name] if class_name else dict.fromkeys((named or base, base)))
    if not class_name and all(candidate.failures for candidate in candidates.values()):
        candidates |= held(
            name for name in _with_heads(model.blueprint, found) if name not in candidates
        )
    failures = {name: candidate.failures for name, candidate in candidates.items()}
    best = min(failures, key=lambda name: failures[name])
    if named in candidates and any(
        found.kind in LACKING for found in candidates[named].differences
    ):
        best = named
    why = "given" if class_name else {base: "base", named: "named"}.get(best, "fits")
    return Choice(candidates[best], best, why, failures)


def _with_heads(blueprint: Blueprint, found: Found) -> Iterator[str]:
    for name in blueprint.class_names:
        prefix, paths = blueprint.prefix(name), blueprint.renamed(name)
        stored = {renamed(row.name, paths)[0] for row in found.rows}
        if any(
            template.name in stored and not template.name.startswith(prefix)
            for as_stored in (True, False)
            for template in blueprint.templates(name, stored=as_stored)
        ):
            yield name


def named_class(model: Model) -> str | None:
    """Return the class that the config names, if it names one that the blueprint has."""
    named = model.config.get("architectures")
    return (
        model.named_class if isinstance(named, list) and named[:1] == [model.named_class] else None
    )


# What there is to say of the two pairs


def _difference(
    kind: str, name: str, expected: Row | None, found: Row | None, *about: str | int
) -> Difference:
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


def _missing(pairs: Pairs) -> Iterator[Difference]:
    """Yield what is not stored.

    A tied tensor need not be, and it may stand in for the one that it is.
    """
    absent = {pairs.matches[name].name for name in pairs.found.absent}
    ties = {
        row.tied_to: name
        for name, row in pairs.expected.items()
        if row.tied_to and name in pairs.held
    }
    elsewhere = {name for each in pairs.regrouped for name in each.names}
    for name, row in pairs.expected.items():
        if name in pairs.held or name in absent or name in elsewhere or row.tied_to:
            continue
        if name in ties:
            yield _difference("tied_alone", name, row, pairs.held[ties[name]], ties[name])
        else:
            yield _difference("missing", name, row, None)


def _unlike(pairs: Pairs, dtype: Dtype | None, *, changed: bool) -> Iterator[Difference]:
    """Yield what is stored in another shape or dtype."""
    both = [(row, pairs.held[name]) for name, row in pairs.expected.items() if name in pairs.held]
    for row, found in both:
        if kind := _unlike_shape(row, found, pairs):
            yield _difference(kind, row.name, row, found)._replace(found_shape=pairs.shape(found))
    both += [(pairs.expected[each.names[0]], row) for each in pairs.regrouped for row in each.rows]
    plain = [found.dtype for _, found in both if not _is_quantised(found, pairs)]
    most = Counter(plain).most_common(1)
    wanted = dtype or (Dtype(most[0][0], asked=False) if most and not changed else None)
    for row, found in both:
        if kind := _unlike_dtype(row, found, pairs, wanted, of_config=dtype is not None):
            expected = {"changed_dtype": row.dtype, "not_float": None, "quantised": None}
            difference = _difference(kind, row.name, row, found)
            packed = pairs.found.packed.get(found.name)
            yield difference._replace(
                expected_dtype=expected.get(kind, wanted.name if wanted else None),
                found_dtype=packed.packing if packed else found.dtype,
            )


def _unlike_shape(row: Row, found: Row, pairs: Pairs) -> str | None:
    """Return the kind of difference between two shapes.

    A format with names of its own may turn or fold a tensor.
    """
    shape = pairs.shape(found)
    if shape == row.shape or (shape is None and found.parameters == prod(row.shape)):
        return None
    if shape is None or not (row.name in pairs.by_role or is_turned(found, pairs.found)):
        return "shape"
    return (
        "transposed"
        if shape == row.shape[::-1]
        else "reshaped"
        if prod(shape) == prod(row.shape)
        else "shape"
    )


def _is_quantised(found: Row, pairs: Pairs) -> bool:
    return found.dtype in BLOCKS or found.name in pairs.found.packed


def _unlike_dtype(
    row: Row, found: Row, pairs: Pairs, wanted: Dtype | None, *, of_config: bool
) -> str | None:
    if wanted and wanted.asked:
        return None if found.dtype == wanted.name else "dtype"
    if _is_quantised(found, pairs):
        return "quantised"
    if wanted is None:
        return None if found.dtype == row.dtype else "changed_dtype"
    if not found.dtype.startswith(("F", "BF")):
        return "not_float"
    return None if found.dtype == wanted.name else "stated_dtype" if of_config else "mixed_dtype"


def _contradictions(pairs: Pairs) -> Iterator[Difference]:
    """Yield where the files of a checkpoint contradict each other or their index."""
    found, expected = pairs.found, pairs.expected
    for name, row in pairs.stored.items():
        own = pairs.matches[name].name
        if own in pairs.held and pairs.held[own].name != name:
            yield _difference("two_names", own, expected.get(own), row, pairs.held[own].name)
    facts: list[tuple[str, str, tuple[str, ...]]] = [
        *(("twice", name, files) for name, files in found.duplicates.items()),
        *(
            ("misplaced" if name in pairs.stored else "absent", name, (file,))
            for name, file in found.absent.items()
        ),
        *(("unlisted", name, ()) for name in found.unlisted),
    ]
    for kind, name, about in facts:
        own = pairs.matches[name].name
        difference = _difference(kind, own, expected.get(own), pairs.stored.get(name), *about)
        yield difference._replace(stored_as=None if own == name else name)
    held_bytes = sum(row.bytes for row in found.rows)
    if found.stated_bytes is not None and found.stated_bytes != held_bytes:
        yield Difference(
            "total_size", "metadata.total_size", about=(found.stated_bytes, held_bytes)
        )


def _other_names(pairs: Pairs, expected: Expected) -> Iterator[Difference]:
    """Yield what is stored under another name than the class's own."""
    matched = [(pairs.matches[row.name], name, row) for name, row in pairs.held.items()]
    if any(match.shifted for match, _, _ in matched):
        added = any(name.startswith(pairs.prefix) for name in pairs.stored)
        yield Difference("prefix_added" if added else "prefix_absent", pairs.prefix)
    for match, name, row in matched:
        if match.rename:
            yield _difference("old_name", name, pairs.expected.get(name), row, *match.rename)
        elif name in pairs.by_role:
            foreign = [
                form for form in (pairs.found.format, expected.format) if has_own_names(form)
            ]
            kind, about = (
                ("other_names", foreign[:1]) if foreign else ("renamed", _run(name, row.name))
            )
            yield _difference(kind, name, pairs.expected.get(name), row, *about)
    for names, rows in pairs.regrouped:
        difference = _difference(
            "regrouped", names[0], pairs.expected[names[0]], rows[0], len(names), len(rows)
        )
        yield difference._replace(expected_shape=None, found_shape=None)
    for row in pairs.aside:
        yield Difference(
            "aside",
            row.name,
            role=row.role or None,
            about=(row.role.partition(".")[0] or "computed",),
        )


def _run(name: str, other: str) -> tuple[str, str]:
    """Return the pieces in which two names differ.

    Example:
        >>> _run("layers.0.moe.gate.weight", "layers.0.mlp.gate.weight")
        ('moe', 'mlp')
    """
    ours, theirs = name.split("."), other.split(".")
    while ours and theirs and ours[0] == theirs[0]:
        ours, theirs = ours[1:], theirs[1:]
    while ours and theirs and ours[-1] == theirs[-1]:
        ours, theirs = ours[:-1], theirs[:-1]
    return ".".join(ours), ".".join(theirs)


def _other_tensors(pairs: Pairs, *, changed: bool) -> Iterator[Difference]:
    """Yield what is stored, and need not be."""
    for name, row in pairs.held.items():
        expected = pairs.expected.get(name)
        if name in pairs.buffers:
            kind = "buffer" if row.shape == pairs.buffers[name].shape else "buffer_shape"
            if not (changed and kind == "buffer"):  # that both have
                yield _difference(kind, name, pairs.buffers[name], row)
        elif (
            expected and expected.tied_to in pairs.held and not row.tied_to
        ):  # which only some formats tell
            yield _difference("tied_stored", name, expected, row, str(expected.tied_to))


# Groups, so that a person can read them


class Group(NamedTuple):
    """Differences of one kind that one line can tell, of tensors that stand in the same ``place``.

    ``place`` is a path with the layers in braces: ``encoder.layer.{3-7}``. It is a tensor's whole
    name where the group holds a single one of each layer, and empty where the kind is not listed by
    name. The first ``each`` of the differences are those of the first layer.
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
