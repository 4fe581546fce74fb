"""Holds a blueprint against the reference: the same config, read and bound here and built there, tensor by tensor."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Difference(NamedTuple):
    """A config, as changes by dotted path, on which a class is not as its blueprint says, and how.

    ``of`` says what is otherwise: its ``"tensors"``, or only what ``"files"`` hold, or only
    ``"buffers"``, with the names of these.
    """

    changes: Mapping[str, Any]
    what: str
    of: str = "tensors"
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The difference as a sentence."""
        said = ", ".join(f"{name} = {value!r}" for name, value in self.changes.items())
        return f"{self.what}, where {said or 'a config says nothing'}"


class Held(NamedTuple):
    """What came of holding a class against the reference: how many configs it was held on, and what differed."""

    class_name: str
    configs: int
    differences: list[Difference]


def held(
    blueprint: Blueprint,
    subject: Subject,
    class_name: str,
    configs: Iterable[Mapping[str, Any]],
    most: int = 25,
) -> Held:
    """Hold a class on configs, given as changes by dotted path, until ``most`` were built; it may refuse some.

    Every parameter's name and shape, every tie and the total must agree, and every buffer that is
    known; on the first few configs, what files hold too.
    """
    count, differences = 0, []
    with quick_building():
        for changes in configs:
            if count == most:
                break
            try:
                probe = subject.probe(class_name, changes, labels=False)
            except Exception:  # noqa: S112  # a config that is refused still runs lines
                continue
            found = next(
                _differences(blueprint, subject, probe, class_name, in_files=count < _FEW), None
            )
            if found is not _NOTHING:
                count += 1
                differences += [found] if found else []
    return Held(class_name, count, differences)


_NOTHING = Difference({}, "a tensor of size 0", "nothing")
_FEW = 5
_MOST_STORED = 3000  # tensors of a file; what has more is not worth the time


def _differences(
    blueprint: Blueprint, subject: Subject, probe: Probe, class_name: str, *, in_files: bool
) -> Iterator[Difference]:
    config = {"model_type": subject.family, **subject.nested(probe.changes)}
    try:
        fields = models.bound(config, blueprint, "the config").fields
        ledger = bind(blueprint, class_name, fields)
    except WeighbridgeError as error:
        if any(0 in tensor.shape for tensor in probe.tensors.values()):
            yield _NOTHING  # built, but with nothing in it: refused with reason
            return
        yield Difference(probe.changes, str(error))
        return
    expected = {row.name: (row.shape, row.tied_to) for row in ledger.rows}
    built = {name: (tensor.shape, tensor.tied_to) for name, tensor in probe.tensors.items()}
    for name in {**expected, **built}:
        if expected.get(name) != built.get(name):
            what = f"{name} is {built.get(name, 'not there')}, not {expected.get(name, 'expected')}"
            yield Difference(probe.changes, what)
            return
    total = sum(
        _elements(tensor.shape) for tensor in probe.tensors.values() if tensor.tied_to is None
    )
    if ledger.parameters != total:
        yield Difference(probe.changes, f"{total} parameters, not {ledger.parameters}")
    yield from _differences_of_buffers(ledger, probe)
    if in_files and ledger.stored is not ledger and ledger.stored.tensors <= _MOST_STORED:
        yield from _differences_in_files(ledger, probe, subject)


def _differences_of_buffers(ledger: Ledger, probe: Probe) -> Iterator[Difference]:
    built = {name: tensor.shape for name, tensor in probe.buffers.items()}
    wrong = {name: shape for name, shape in _buffers(ledger).items() if built.get(name) != shape}
    for name, shape in wrong.items():
        what = f"the buffer {name} is {built.get(name, 'not there')}, not {shape}"
        yield Difference(probe.changes, what, "buffers", tuple(wrong))
        return


def _differences_in_files(ledger: Ledger, probe: Probe, subject: Subject) -> Iterator[Difference]:
    """Yield how what files hold of parameters, and of the buffers that are known, is not what is expected."""
    try:
        files = subject.in_files(ledger.class_name, probe.changes)
    except Exception:  # what the reference cannot turn back cannot be compared
        return
    known = {*probe.tensors, *_buffers(ledger)}
    tensors = files.tensors if files else {}
    found = {name: tensor.shape for name, tensor in tensors.items() if known.issuperset(tensor.of)}
    expected = {row.name: row.shape for row in ledger.stored.rows}
    expected |= {name: shape for name, shape in _buffers(ledger.stored).items() if name in found}
    for name in {**expected, **found}:
        if expected.get(name) != found.get(name):
            what = f"{name} is {found.get(name, 'not there')} in files, not {expected.get(name, 'expected')}"
            yield Difference(probe.changes, what, "files")
            return


def _buffers(ledger: Ledger) -> dict[str, tuple[int, ...]]:
    try:
        return {row.name: row.shape for row in ledger.buffers()}
    except WeighbridgeError:  # nothing else holds them against the reference
        return {}


def _elements(shape: Iterable[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def draws(blueprint: Blueprint, seed: str, tries: int) -> Iterator[dict[str, Any]]:
    """Yield random small configs inside a blueprint's region, as changes by dotted path."""
    dice = random.Random(f"{blueprint.family} {seed}")  # noqa: S311
    for chance in [chance for _ in range(tries) for chance in (0.4, 0.2, 0.1, 0.05)][:tries]:
        changes = dict(_drawn(blueprint, dice, chance))
        try:
            models.bound(
                {"model_type": blueprint.family, **_nested(changes, blueprint)},
                blueprint,
                "a random config",
            )
        except WeighbridgeError:
            continue
        yield changes


def _drawn(blueprint: Blueprint, dice: random.Random, chance: float) -> Iterator[tuple[str, Any]]:
    for name in sorted(blueprint.fields):
        value = blueprint.defaults.get(name)
        if name in blueprint.repeats and type(value) is int:
            yield name, dice.randint(min(value, 2), min(value, 5))
        elif dice.random() < chance:
            yield from (
                (name, other)
                for other in [_other(blueprint, name, value, dice)]
                if other is not value
            )


def _other(blueprint: Blueprint, name: str, value: Any, dice: random.Random) -> Any:
    """Return another value for a field, of the kinds that it was proved with."""
    if name in blueprint.nullable and dice.random() < 0.5:
        return None
    if isinstance(value, bool):
        return not value
    if type(value) is int:
        return max(1, dice.choice((value * 2, value // 2, value * 3, value + 1)))
    if name in blueprint.values:
        letters = blueprint.values[name]
        return (
            [dice.choice(letters) for _ in value]
            if isinstance(value, list | tuple)
            else dice.choice(letters)
        )
    return value


def _nested(changes: Mapping[str, Any], blueprint: Blueprint) -> dict[str, Any]:
    """Return changes by dotted path as a JSON file has them."""
    top: dict[str, Any] = {}
    for path, value in changes.items():
        *above, name = path.split(".")
        here = top
        for depth, piece in enumerate(above):
            kind = blueprint.configs.get(".".join(above[: depth + 1]))
            here = here.setdefault(piece, {"model_type": kind} if kind else {})
        here[name] = value
    return top
