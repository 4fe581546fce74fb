"""Checks a blueprint against the reference: both must give the same tensors."""

from __future__ import annotations

import random
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.derive.probing.earlier_probes import probe_once
from weighbridge.derive.probing.probe import quick_building
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger.ledger import bind
from weighbridge.models import find as models

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Subject
    from weighbridge.ledger.ledger import Ledger

_PROVED_IN_FILES = 5  # configs of a class on which the contents of files are compared too
_MOST_STORED = 3000  # tensors of the largest file that is compared; larger ones take too long
_CHANCES = (0.4, 0.2, 0.1, 0.05)  # chances that a random config changes a field, used in turn
_NULL_CHANCE = 0.5  # chance that a nullable field becomes null when it is changed


class Mismatch(NamedTuple):
    """A config, as changes by dotted path, on which a class differs from its blueprint.

    ``part`` says where they differ: in the ``"tensors"``, only in ``"files"``, or only in
    ``"buffers"``, which ``names`` then lists.
    """

    changes: Mapping[str, Any]
    what: str
    part: str = "tensors"
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The mismatch as a sentence."""
        changes = ", ".join(f"{name} = {value!r}" for name, value in self.changes.items())
        return f"{self.what}, with {changes or 'the default config'}"


class ProofResult(NamedTuple):
    """On how many configs a class was checked against the reference, and where it differed."""

    class_name: str
    configs: int
    mismatches: list[Mismatch]
    agreed: list[Mapping[str, Any]]
    """The configs on which it did not differ."""


_EMPTY_MODEL = Mismatch({}, "a tensor of size 0", "nothing")


def prove_class(
    blueprint: Blueprint,
    subject: Subject,
    class_name: str,
    configs: Iterable[Mapping[str, Any]],
    most: int = 25,
) -> ProofResult:
    """Check a class against the reference on configs, given as changes by dotted path.

    The names and shapes of all parameters, all ties, the total and all known buffers must agree;
    on the first few configs, the contents of files too. A config that the reference refuses does
    not count.

    Args:
        blueprint: the blueprint to prove.
        subject: the reference.
        class_name: the class to build.
        configs: the configs to try, in order.
        most: how many configs to build.
    """
    count = 0
    mismatches: list[Mismatch] = []
    agreed: list[Mapping[str, Any]] = []
    with quick_building():
        for changes in configs:
            if count == most:
                break
            try:
                probe = probe_once(subject, class_name, changes, labels=False)
            except Exception:  # noqa: S112  # whatever the code raises is its way to refuse
                continue
            in_files = count < _PROVED_IN_FILES
            all_mismatches = _mismatches(blueprint, subject, probe, class_name, in_files=in_files)
            mismatch = next(all_mismatches, None)
            if mismatch is _EMPTY_MODEL:
                continue
            count += 1
            if mismatch is not None:
                mismatches.append(mismatch)
            else:
                agreed.append(changes)
    return ProofResult(class_name, count, mismatches, agreed)


def agreeing(
    blueprint: Blueprint, subject: Subject, class_name: str, probes: Iterable[Probe]
) -> int:
    """Return the number of configs, already built, on which a class agrees with the reference."""
    count = 0
    for probe in probes:
        differences = _mismatches(blueprint, subject, probe, class_name, in_files=False)
        count += next(differences, None) is None
    return count


def _mismatches(
    blueprint: Blueprint, subject: Subject, probe: Probe, class_name: str, *, in_files: bool
) -> Iterator[Mismatch]:
    """Yield where the class differs on one config, the most serious mismatch first."""
    config = {"model_type": subject.family, **subject.nested(probe.changes)}
    try:
        fields = models.bound(config, blueprint, "the config").fields
        ledger = bind(blueprint, class_name, fields)
    except WeighbridgeError as error:
        if any(0 in tensor.shape for tensor in probe.tensors.values()):
            yield _EMPTY_MODEL  # a tensor of size 0 is refused on purpose
        else:
            yield Mismatch(probe.changes, str(error))
        return
    expected = {row.name: (row.shape, row.tied_to) for row in ledger.rows}
    built = {name: (tensor.shape, tensor.tied_to) for name, tensor in probe.tensors.items()}
    if difference := _first_difference(expected, built):
        yield Mismatch(probe.changes, difference)
        return
    total = sum(prod(shape) for shape, tied_to in built.values() if tied_to is None)
    if ledger.parameters != total:
        yield Mismatch(probe.changes, f"{total} parameters, not {ledger.parameters}")
    yield from _mismatches_of_buffers(ledger, probe)
    if in_files and ledger.stored is not ledger and ledger.stored.tensors <= _MOST_STORED:
        yield from _mismatches_in_files(ledger, probe, subject)


def _first_difference(
    expected: Mapping[str, object], built: Mapping[str, object], where: str = ""
) -> str | None:
    """Return how the first tensor that is not built as expected differs, as a sentence."""
    for name in {**expected, **built}:
        if expected.get(name) != built.get(name):
            return _difference(f"{name}{where}", expected.get(name), built.get(name))
    return None


def _difference(name: str, expected: object, built: object) -> str:
    if built is None:
        return f"{name} is missing (expected {expected})"
    if expected is None:
        return f"{name} is {built}, which was not expected"
    return f"{name} is {built}, not {expected}"


def _mismatches_of_buffers(ledger: Ledger, probe: Probe) -> Iterator[Mismatch]:
    built = {name: tensor.shape for name, tensor in probe.buffers.items()}
    known = _known_buffers(ledger)
    wrong = tuple(name for name, shape in known.items() if built.get(name) != shape)
    if wrong:
        first = wrong[0]
        what = _difference(f"the buffer {first}", known[first], built.get(first))
        yield Mismatch(probe.changes, what, "buffers", wrong)


def _mismatches_in_files(ledger: Ledger, probe: Probe, subject: Subject) -> Iterator[Mismatch]:
    """Yield where files do not hold the parameters and the known buffers as expected."""
    try:
        files = subject.in_files(ledger.class_name, probe.changes)
    except Exception:  # the reference cannot revert its conversion: nothing to compare
        return
    known = {*probe.tensors, *_known_buffers(ledger)}
    built = {}
    if files:
        for name, tensor in files.tensors.items():
            if known.issuperset(tensor.of):
                built[name] = tensor.shape
    buffers = _known_buffers(ledger.stored).items()
    expected = {row.name: row.shape for row in ledger.stored.rows}
    expected |= {name: shape for name, shape in buffers if name in built}
    if difference := _first_difference(expected, built, " in files"):
        yield Mismatch(probe.changes, difference, "files")


def _known_buffers(ledger: Ledger) -> dict[str, tuple[int, ...]]:
    try:
        return {row.name: row.shape for row in ledger.buffers()}
    except WeighbridgeError:  # buffers without an expression are not checked
        return {}


def draws(blueprint: Blueprint, seed: str, tries: int) -> Iterator[dict[str, Any]]:
    """Yield random small configs inside a blueprint's region, as changes by dotted path."""
    dice = random.Random(f"{blueprint.family} {seed}")  # noqa: S311
    for turn in range(tries):
        changes = dict(_random_changes(blueprint, dice, _CHANCES[turn % len(_CHANCES)]))
        config = {"model_type": blueprint.family, **_nested(changes, blueprint)}
        try:
            models.bound(config, blueprint, "a random config")
        except WeighbridgeError:
            continue
        yield changes


def _random_changes(
    blueprint: Blueprint, dice: random.Random, chance: float
) -> Iterator[tuple[str, Any]]:
    for name in sorted(blueprint.fields):
        value = blueprint.defaults.get(name)
        if name in blueprint.repeats and type(value) is int:
            yield name, dice.randint(min(value, 2), min(value, 5))
        elif dice.random() < chance:
            changed = _random_value(blueprint, name, value, dice)
            if changed is not value:
                yield name, changed


def _random_value(blueprint: Blueprint, name: str, value: Any, dice: random.Random) -> Any:
    """Return another value for a field, of a kind that the blueprint was proved with."""
    if name in blueprint.nullable and dice.random() < _NULL_CHANCE:
        return None
    if isinstance(value, bool):
        return not value
    if type(value) is int:
        return max(1, dice.choice((value * 2, value // 2, value * 3, value + 1)))
    if name in blueprint.values:
        texts = blueprint.values[name]
        if isinstance(value, list | tuple):
            return [dice.choice(texts) for _ in value]
        return dice.choice(texts)
    return value


def _nested(changes: Mapping[str, Any], blueprint: Blueprint) -> dict[str, Any]:
    """Return changes by dotted path as nested objects, as in a JSON file."""
    config: dict[str, Any] = {}
    for path, value in changes.items():
        *above, name = path.split(".")
        inner = config
        for depth, piece in enumerate(above, 1):
            inner = inner.setdefault(piece, {})
            if kind := blueprint.configs.get(".".join(above[:depth])):
                inner.setdefault("model_type", kind)
        inner[name] = value
    return config
