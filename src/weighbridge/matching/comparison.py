"""Compares a checkpoint with what is expected, tensor by tensor. It opens no file.

What is expected is the ledger of a model's class, or another checkpoint. A checkpoint may hold the
tensors that transformers saves or, where they differ, those of the modules in memory, but no
mixture. A difference matters if a needed tensor is missing or wrong, if a tensor is not needed, or
if the parts of a checkpoint contradict each other. All other differences are notes.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.blueprint.roles import role_of
from weighbridge.ledger.ledger import bind
from weighbridge.matching.pairing import (
    has_only_elements,
    has_own_names,
    is_turned,
    of_checkpoint,
    of_ledger,
    own_name,
    pair,
    renamed,
)
from weighbridge.readers.wrappers import named_wrappers
from weighbridge.units import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Row
    from weighbridge.matching.pairing import Expected, Pairs
    from weighbridge.models.find import Model
    from weighbridge.readers import StoredCheckpoint


class Kind(NamedTuple):
    """A kind of difference: whether it matters, and in which fields the members of a group agree.

    A group holds one tensor of all layers or, where ``merge`` is true, all tensors of a module or a
    layer. Where ``listed`` is false, it holds all differences that agree in the fields ``alike``.
    """

    matters: bool
    alike: tuple[str, ...] = ()
    merge: bool = True
    listed: bool = True


_SHAPES = ("expected_shape", "found_shape")
_DTYPES = ("expected_dtype", "found_dtype")
_BUFFER = ("expected_shape", "found_shape", "found_dtype")

KINDS = {
    # Not in the checkpoint.
    "missing": Kind(matters=True),
    # Not in the checkpoint, though the index lists it.
    "absent": Kind(matters=True, alike=("about",)),
    "shape": Kind(matters=True, alike=_SHAPES, merge=False),
    # Not the dtype that was asked for.
    "dtype": Kind(matters=True, alike=_DTYPES),
    # No dtype was asked for, but this one is not a weight's.
    "not_float": Kind(matters=True, alike=("found_dtype",)),
    # In the checkpoint, but not in the class.
    "extra": Kind(matters=True),
    # The same role and shape under another name.
    "renamed": Kind(matters=True, alike=("about",), listed=False),
    # Stored under its current name and an old one.
    "two_names": Kind(matters=True),
    # Stored in several files.
    "twice": Kind(matters=True, alike=("about",)),
    # In another file than the index says.
    "misplaced": Kind(matters=True, alike=("about",)),
    # Not in the index.
    "unlisted": Kind(matters=True),
    # The index states another sum.
    "total_size": Kind(matters=True, alike=("about",), listed=False),
    # The tensors of the modules, not those that transformers saves.
    "in_memory": Kind(matters=False, listed=False),
    # In the wrappers of a trainer.
    "wrapped": Kind(matters=False, alike=("about",), listed=False),
    # All names lack the base class's prefix.
    "prefix_absent": Kind(matters=False, alike=("name",), listed=False),
    # All names have a prefix that the class does not have.
    "prefix_added": Kind(matters=False, alike=("name",), listed=False),
    "old_name": Kind(matters=False, alike=("about",), listed=False),
    # Under the names of the format, matched by role.
    "other_names": Kind(matters=False, alike=("about",), listed=False),
    "transposed": Kind(matters=False, listed=False),
    # Another shape with the same number of elements.
    "reshaped": Kind(matters=False, alike=_SHAPES, merge=False),
    # Packed, with an unknown number of bits.
    "unknown_size": Kind(matters=False, alike=("found_dtype",), listed=False),
    # The same parameters in more or fewer tensors.
    "regrouped": Kind(matters=False, alike=("about",)),
    # Neither weights nor buffers.
    "aside": Kind(matters=False, alike=("about",), listed=False),
    "buffer": Kind(matters=False, alike=_BUFFER, merge=False),
    "buffer_shape": Kind(matters=False, alike=_BUFFER, merge=False),
    # Stored, although the tensor that it is tied to is stored too.
    "tied_stored": Kind(matters=False, alike=("about",)),
    # Stored only under the name of a tensor tied to it.
    "tied_alone": Kind(matters=False, alike=("about",)),
    # Packed, or stored in blocks.
    "quantised": Kind(matters=False, alike=("found_dtype",), listed=False),
    # Not the config's dtype.
    "stated_dtype": Kind(matters=False, alike=_DTYPES),
    # Not the dtype of most tensors.
    "mixed_dtype": Kind(matters=False, alike=_DTYPES),
    # Another dtype than in the other checkpoint.
    "changed_dtype": Kind(matters=False, alike=_DTYPES, listed=False),
}
"""Every kind of difference, in the order in which they are listed."""


_NO_PARAMETERS = ("buffer", "buffer_shape", "tied_stored")
LACKING = ("missing", "absent")
"""The kinds of difference of a tensor that the checkpoint does not hold."""


class Difference(NamedTuple):
    """One difference in one tensor between what is expected and what is stored.

    ``name`` is the tensor's name in the class, and ``stored_as`` its name in the checkpoint if that
    differs. Fields that do not apply are None. ``about`` holds more details of the kind: files,
    names, a dtype or numbers of bytes.
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
        """Whether it makes the checkpoint wrong for the class."""
        return KINDS[self.kind].matters


class ExpectedDtype(NamedTuple):
    """The dtype of a checkpoint, ``asked`` for by the user or stated by the config."""

    name: str
    asked: bool


class Comparison(NamedTuple):
    """The result of a comparison.

    ``ledger`` is that of the class, or None where another checkpoint is expected. ``shared`` maps
    the tied tensors that are not stored to the stored ones that they are tied to.
    """

    expected: Expected
    pairs: Pairs
    ledger: Ledger | None
    shared: dict[str, str]
    differences: tuple[Difference, ...]

    @property
    def failures(self) -> int:
        """The number of differences that matter."""
        return sum(difference.matters for difference in self.differences)

    @property
    def held(self) -> dict[str, Row]:
        """The stored tensors by the expected names, buffers included."""
        return self.pairs.held

    @property
    def stored(self) -> list[Row]:
        """The stored parameters, each once: no buffers, no second copy of a tied tensor."""
        not_parameters = {
            difference.name for difference in self.differences if difference.kind in _NO_PARAMETERS
        }
        rows = [row for name, row in self.held.items() if name not in not_parameters]
        for regrouped in self.pairs.regrouped:
            rows += regrouped.rows
        rows += self.pairs.extra
        return rows

    @property
    def parameters(self) -> int:
        """The number of stored parameters."""
        return sum(row.parameters for row in self.stored)


def compare_tensors(
    ledger: Ledger, found: StoredCheckpoint, dtype: ExpectedDtype | None = None
) -> Comparison:
    """Compare a checkpoint with a ledger, tensor by tensor.

    Without a dtype, all tensors must have the same floating-point dtype, whichever it is.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.readers import StoredCheckpoint
        >>> bert = load("bert")
        >>> ledger = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2})
        >>> rows = tuple(row for row in ledger.rows if row.name != "pooler.dense.bias")
        >>> found = StoredCheckpoint("a.pt", "PyTorch", rows, {}, ("a.pt",), 0, {}, {}, (), None)
        >>> [difference] = compare_tensors(ledger, found).differences
        >>> difference.kind, difference.name
        ('missing', 'pooler.dense.bias')
    """
    stored = ledger.stored
    ledgers = [stored]
    if not has_own_names(found.format) and ledger != stored:
        ledgers.append(ledger)
    pairings = [pair(of_ledger(candidate), found) for candidate in ledgers]
    best = max(range(len(pairings)), key=lambda at: len(pairings[at].held))
    notes: list[Difference] = []
    if best > 0:
        notes.append(Difference("in_memory", ledger.class_name))
    return _compared(of_ledger(ledgers[best]), pairings[best], ledgers[best], dtype, notes)


def compare_checkpoints(
    before: StoredCheckpoint, after: StoredCheckpoint, dtype: ExpectedDtype | None = None
) -> Comparison:
    """Compare two checkpoints: find what conversion, training or quantisation has changed.

    Another dtype or packing is a note, unless a dtype is asked for.
    """
    expected = of_checkpoint(before)
    return _compared(expected, pair(expected, after), None, dtype, [])


def _compared(
    expected: Expected,
    pairs: Pairs,
    ledger: Ledger | None,
    dtype: ExpectedDtype | None,
    notes: list[Difference],
) -> Comparison:
    differences = (
        *_missing(pairs),
        *_other_shapes(pairs),
        *_other_dtypes(pairs, dtype, changed=ledger is None),
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
    """The class that a checkpoint is compared with, and why.

    ``why`` is ``"given"`` by the user, ``"named"`` by the config, ``"base"`` or ``"fits"``.
    ``failures`` holds the number of differences that matter for each class that was tried.
    """

    comparison: Comparison
    class_name: str
    why: str
    failures: dict[str, int]


def choose(
    model: Model,
    found: StoredCheckpoint,
    class_name: str | None = None,
    dtype: ExpectedDtype | None = None,
) -> Choice:
    """Compare a checkpoint with the given class, or with the one that differs least.

    If the checkpoint lacks a tensor of the class that the config names, that class is taken even if
    another one fits: a missing head is a loss. Of classes that fit equally well, the class in the
    config comes first, then the base class, then the others in order. The others are tried if the
    checkpoint has a tensor that they add to the base class.

    Raises:
        ModelError: the family has no such class.
    """
    base, named = model.blueprint.base_class, named_class(model)

    def compare_with(name: str) -> Comparison:
        return compare_tensors(bind(model.blueprint, name, model.fields), found, dtype)

    if class_name:
        comparison = compare_with(class_name)
        return Choice(comparison, class_name, "given", {class_name: comparison.failures})
    comparisons = {name: compare_with(name) for name in dict.fromkeys((named or base, base))}
    if all(comparison.failures for comparison in comparisons.values()):
        for name in _with_heads(model.blueprint, found):
            if name not in comparisons:
                comparisons[name] = compare_with(name)
    failures = {name: comparison.failures for name, comparison in comparisons.items()}
    best = min(failures, key=lambda name: failures[name])
    if named and any(difference.kind in LACKING for difference in comparisons[named].differences):
        best = named
    why = {base: "base", named: "named"}.get(best, "fits")
    return Choice(comparisons[best], best, why, failures)


def _with_heads(blueprint: Blueprint, found: StoredCheckpoint) -> Iterator[str]:
    """Yield the classes that add a tensor to the base class which the checkpoint holds."""
    for name in blueprint.class_names:
        paths = blueprint.renamed(name)
        stored_names = {renamed(own_name(row.name, found), paths)[0] for row in found.rows}
        if not stored_names.isdisjoint(_names_of_heads(blueprint, name)):
            yield name


def _names_of_heads(blueprint: Blueprint, class_name: str) -> Iterator[str]:
    prefix = blueprint.prefix(class_name)
    for as_stored in (True, False):
        for template in blueprint.templates(class_name, stored=as_stored):
            if not template.name.startswith(prefix):
                yield template.name


def named_class(model: Model) -> str | None:
    """Return the class that the config names, if the blueprint has it."""
    architectures = model.config.get("architectures")
    if isinstance(architectures, list) and architectures[:1] == [model.named_class]:
        return model.named_class
    return None


# Differences between the expected tensors and the stored ones


def _difference(
    kind: str, name: str, expected: Row | None, found: Row | None, *about: str | int
) -> Difference:
    if expected:
        difference = Difference(kind, name, role=expected.role, about=about)
        difference = difference._replace(expected_shape=expected.shape)
    else:
        difference = Difference(kind, name, role=role_of(name), about=about)
    if found:
        difference = difference._replace(found_shape=found.shape, found_dtype=found.dtype)
    if found and found.name != name:
        difference = difference._replace(stored_as=found.name)
    return difference


def _missing(pairs: Pairs) -> Iterator[Difference]:
    """Yield the tensors that are not stored.

    A tied tensor need not be stored, and it may stand in for the one that it is tied to.
    """
    absent = {pairs.matches[name].name for name in pairs.found.absent}
    ties: dict[str, str] = {}
    for name, row in pairs.expected.items():
        if row.tied_to and name in pairs.held:
            ties[row.tied_to] = name
    stored = {*pairs.held, *absent}
    for regrouped in pairs.regrouped:
        stored.update(regrouped.names)
    for name, row in pairs.expected.items():
        if name in stored or row.tied_to:
            continue
        if name in ties:
            yield _difference("tied_alone", name, row, pairs.held[ties[name]], ties[name])
        else:
            yield _difference("missing", name, row, None)


def _other_shapes(pairs: Pairs) -> Iterator[Difference]:
    """Yield the tensors that are stored in another shape."""
    for name, row in pairs.expected.items():
        found = pairs.held.get(name)
        if found and (kind := _unlike_shape(row, found, pairs)):
            yield _difference(kind, name, row, found)._replace(found_shape=pairs.shape(found))


def _other_dtypes(
    pairs: Pairs, dtype: ExpectedDtype | None, *, changed: bool
) -> Iterator[Difference]:
    """Yield the tensors that are stored in another dtype.

    If no dtype is expected, it is that of most tensors or, if a checkpoint has ``changed``, that of
    the same tensor before.
    """
    both = [(row, pairs.held[name]) for name, row in pairs.expected.items() if name in pairs.held]
    for regrouped in pairs.regrouped:
        both += [(pairs.expected[regrouped.names[0]], row) for row in regrouped.rows]
    wanted = dtype
    if wanted is None and not changed:
        wanted = _most_frequent_dtype(pairs, [found for _, found in both])
    for row, found in both:
        kind = _unlike_dtype(row, found, pairs, wanted, of_config=dtype is not None)
        if kind is None:
            continue
        difference = _difference(kind, row.name, row, found)
        packed = pairs.found.packed.get(found.name)
        if packed:
            difference = difference._replace(found_dtype=packed.packing)
        yield difference._replace(expected_dtype=_expected_dtype(kind, row, wanted))


def _most_frequent_dtype(pairs: Pairs, rows: Iterable[Row]) -> ExpectedDtype | None:
    counts = Counter(row.dtype for row in rows if not _is_quantised(row, pairs))
    for dtype, _ in counts.most_common(1):
        return ExpectedDtype(dtype, asked=False)
    return None


def _expected_dtype(kind: str, row: Row, wanted: ExpectedDtype | None) -> str | None:
    if kind == "changed_dtype":
        return row.dtype
    if wanted is None or kind in ("not_float", "quantised"):
        return None
    return wanted.name


def _unlike_shape(row: Row, found: Row, pairs: Pairs) -> str | None:
    """Return the kind of difference between two shapes.

    A format with its own names may transpose or fold a tensor.
    """
    shape = pairs.shape(found)
    if shape == row.shape or (shape is None and found.parameters == prod(row.shape)):
        return None
    if has_only_elements(row) and found.parameters == row.parameters:
        return None
    if found.name in pairs.found.packed and pairs.found.packed[found.name].elements is None:
        return "unknown_size"
    if shape is None or not (row.name in pairs.by_role or is_turned(found, pairs.found)):
        return "shape"
    if shape == row.shape[::-1]:
        return "transposed"
    if prod(shape) == prod(row.shape):
        return "reshaped"
    return "shape"


def _is_quantised(found: Row, pairs: Pairs) -> bool:
    return found.dtype in BLOCKS or found.name in pairs.found.packed


def _unlike_dtype(
    row: Row, found: Row, pairs: Pairs, wanted: ExpectedDtype | None, *, of_config: bool
) -> str | None:
    """Return the kind of difference between two dtypes."""
    kind = _kind_of_dtype(found, pairs, wanted, of_config=of_config)
    if kind in ("not_float", "quantised"):
        return kind
    expected_dtype = row.dtype
    if wanted:
        expected_dtype = wanted.name
    if found.dtype == expected_dtype:
        return None
    return kind


def _kind_of_dtype(
    found: Row, pairs: Pairs, wanted: ExpectedDtype | None, *, of_config: bool
) -> str:
    if wanted and wanted.asked:
        return "dtype"
    if _is_quantised(found, pairs):
        return "quantised"
    if wanted is None:
        return "changed_dtype"
    if not found.dtype.startswith(("F", "BF")):
        return "not_float"
    if of_config:
        return "stated_dtype"
    return "mixed_dtype"


def _contradictions(pairs: Pairs) -> Iterator[Difference]:
    """Yield where the files of a checkpoint contradict each other or their index."""
    found = pairs.found
    for name, row in pairs.stored.items():
        expected_name = pairs.matches[name].name
        held = pairs.held.get(expected_name)
        if held and held.name != name:
            expected_row = pairs.expected.get(expected_name)
            yield _difference("two_names", expected_name, expected_row, row, held.name)
    for name, files in found.duplicates.items():
        yield _of_stored("twice", name, pairs, *files)
    for name, file in found.absent.items():
        if name in pairs.stored:
            yield _of_stored("misplaced", name, pairs, file)
        else:
            yield _of_stored("absent", name, pairs, file)
    for name in found.unlisted:
        yield _of_stored("unlisted", name, pairs)
    held_bytes = sum(row.bytes for row in found.rows)
    if found.stated_bytes is not None and found.stated_bytes != held_bytes:
        sizes = (found.stated_bytes, held_bytes)
        yield Difference("total_size", "metadata.total_size", about=sizes)


def _of_stored(kind: str, name: str, pairs: Pairs, *about: str) -> Difference:
    """Return a difference in a tensor with this name in the checkpoint or its index."""
    expected_name = pairs.matches[name].name
    expected_row = pairs.expected.get(expected_name)
    difference = _difference(kind, expected_name, expected_row, pairs.stored.get(name), *about)
    if expected_name == name:
        return difference._replace(stored_as=None)
    return difference._replace(stored_as=name)


def _other_names(pairs: Pairs, expected: Expected) -> Iterator[Difference]:
    """Yield the tensors that are stored under another name than the class's own."""
    matches = {name: pairs.matches[row.name] for name, row in pairs.held.items()}
    if pairs.found.wrappers:
        wrapped = ".".join(pairs.found.wrappers)
        yield Difference("wrapped", wrapped, about=tuple(named_wrappers(pairs.found.wrappers)))
    if any(match.shifted for match in matches.values()):
        yield _other_prefix(pairs)
    formats = [pairs.found.format, expected.format]
    foreign_formats = [form for form in formats if has_own_names(form)]
    for name, row in pairs.held.items():
        expected_row, rename = pairs.expected.get(name), matches[name].rename
        if rename:
            yield _difference("old_name", name, expected_row, row, *rename)
        elif name in pairs.by_role and foreign_formats:
            yield _difference("other_names", name, expected_row, row, foreign_formats[0])
        elif name in pairs.by_role:
            yield _difference("renamed", name, expected_row, row, *_run(name, row.name))
    yield from _regrouped(pairs)
    for row in pairs.aside:
        about = row.role.partition(".")[0] or "computed"
        yield Difference("aside", row.name, role=row.role or None, about=(about,))


def _other_prefix(pairs: Pairs) -> Difference:
    own_names = [own_name(name, pairs.found) for name in pairs.stored]
    if any(name.startswith(pairs.prefix) for name in own_names):
        return Difference("prefix_added", pairs.prefix)
    return Difference("prefix_absent", pairs.prefix)


def _regrouped(pairs: Pairs) -> Iterator[Difference]:
    """Yield a difference for each group of tensors that is stored in more or fewer pieces."""
    for names, rows in pairs.regrouped:
        expected_row = pairs.expected[names[0]]
        difference = _difference(
            "regrouped", names[0], expected_row, rows[0], len(names), len(rows)
        )
        yield difference._replace(expected_shape=None, found_shape=None)


def _run(name: str, other: str) -> tuple[str, str]:
    """Return the parts in which two names differ.

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
    """Yield the stored tensors that need not be stored."""
    for name, row in pairs.held.items():
        expected = pairs.expected.get(name)
        if name in pairs.buffers:
            buffer = pairs.buffers[name]
            if row.shape != buffer.shape:
                yield _difference("buffer_shape", name, buffer, row)
            elif not changed:  # two checkpoints may both have it
                yield _difference("buffer", name, buffer, row)
        # Only some formats state ties; there, a tied row is not a second copy.
        elif expected and expected.tied_to in pairs.held and not row.tied_to:
            yield _difference("tied_stored", name, expected, row, str(expected.tied_to))


# Groups of differences, for people to read


class Group(NamedTuple):
    """Differences of one kind in the same ``place``, for one line.

    ``place`` is a path with the layers in braces: ``encoder.layer.{3-7}``. It is a tensor's whole
    name where the group holds one tensor of each layer, and empty where the kind is not listed by
    name. The first ``each`` of the differences are those of the first layer.
    """

    kind: str
    place: str
    differences: tuple[Difference, ...]
    each: int


def group(differences: Iterable[Difference]) -> list[Group]:
    """Return differences in groups: one tensor of many layers, or the tensors of a module.

    Example:
        >>> names = [f"encoder.layer.{layer}.output.dense.weight" for layer in (0, 1, 2, 5)]
        >>> [group.place for group in group(Difference("missing", name) for name in names)]
        ['encoder.layer.{0-2,5}.output.dense.weight']
    """
    by_tensor: dict[tuple[object, ...], list[Difference]] = {}
    for difference in differences:
        kind = KINDS[difference.kind]
        alike = tuple(getattr(difference, field) for field in kind.alike)
        pattern = ""
        if kind.listed:
            pattern = _pattern(difference.name)
        by_tensor.setdefault((difference.kind, alike, pattern), []).append(difference)
    by_place: dict[object, list[list[Difference]]] = {}
    for key, members in by_tensor.items():
        kind = KINDS[members[0].kind]
        place = key
        if kind.merge and kind.listed:
            indices = tuple(_indices(member.name) for member in members)
            place = (*key[:2], _stem(str(key[2])), indices)
        by_place.setdefault(place, []).append(members)
    return [_group(tensors) for tensors in by_place.values()]


def _group(tensors: list[list[Difference]]) -> Group:
    members: list[Difference] = []
    for layer in zip(*tensors, strict=True):
        members += layer
    kind, place = members[0].kind, _pattern(members[0].name)
    if not KINDS[kind].listed:
        return Group(kind, "", tuple(members), len(members))
    if len(tensors) > 1:
        place = _stem(place)
    for numbers in zip(*(_indices(member.name) for member in members), strict=True):
        place = place.replace("*", ranges(numbers), 1)
    return Group(kind, place, tuple(members), len(tensors))


def ranges(numbers: Iterable[int]) -> str:
    """Write integers in braces, runs as ranges; a single one has no braces.

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
    if len(runs) == 1 and runs[0][0] == runs[0][1]:
        return str(runs[0][0])
    return f"{{{','.join(_range(first, last) for first, last in runs)}}}"


def _range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}"


def _pattern(name: str) -> str:
    """Return a name with ``*`` in place of each index."""
    pieces = name.split(".")
    for at, piece in enumerate(pieces):
        if _is_index(piece):
            pieces[at] = "*"
    return ".".join(pieces)


def _indices(name: str) -> tuple[int, ...]:
    return tuple(int(piece) for piece in name.split(".") if _is_index(piece))


_LONGEST_INDEX = 9  # digits: a longer number is not a layer's


def _is_index(piece: str) -> bool:
    return piece.isascii() and piece.isdigit() and len(piece) <= _LONGEST_INDEX


def _stem(pattern: str) -> str:
    """Return the path down to the layer's index; without one, the path of the tensor's module."""
    before, index, _ = pattern.partition("*")
    if index:
        return before + index
    return pattern.rpartition(".")[0]
