"""Derive modules of other packages, and hold each against settings that derivation did not draw.

Run ``python tools/third_parties.py`` in an environment that has the packages, or name some modules
of ``third_parties.toml``. ``--prepare FOLDER`` makes such an environment over the present one.
Each module is derived in a process of its own with a time limit. It is exact if its blueprint has
the names, shapes and ties of every parameter at all settings; refused if no blueprint was written,
or if the blueprint refuses a setting. The exit status is 1 if a module is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
import warnings
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import nn

LISTED = Path(__file__).with_name("third_parties.toml")
LIMIT_SECONDS = 240
HOLDING_SECONDS = 240  # for building the settings, after a derivation
_LONGEST_REASON = 200  # characters
_OWN_MODELS = Path(__file__).parents[1] / "tests" / "support"
# The wheel of torchvision on PyPI needs CUDA's libraries. Building its models needs no operator,
# but importing it needs that these exist.
_OPERATORS = ("nms", "qnms")
_OPERANDS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

Shapes = dict[str, tuple[tuple[int, ...], str | None]]


class ThirdParty(NamedTuple):
    """A module: its address, what its derivation is given, and the settings to hold it against."""

    name: str
    package: str
    address: str
    config: str | None
    given: Mapping[str, Any]
    settings: Sequence[Mapping[str, Any]]


class Outcome(NamedTuple):
    """What came of a module: ``exact``, ``wrong`` or ``refused``, the reason, and the seconds."""

    name: str
    kind: str
    settings: int = 0
    holes: int = 0
    reason: str = ""
    seconds: float = 0


def listed(path: Path = LISTED) -> list[ThirdParty]:
    """Return the modules of the list."""
    modules = []
    for raw in tomllib.loads(path.read_text())["module"]:
        settings = [
            {
                field: None if value == "null" else value
                for field, value in zip(raw["fields"], row, strict=True)
            }
            for row in raw["settings"]
        ]
        given = {
            name: None if value == "null" else value for name, value in raw.get("given", {}).items()
        }
        modules.append(
            ThirdParty(
                raw["name"], raw["package"], raw["address"], raw.get("config"), given, settings
            )
        )
    return modules


# The modules as their own code builds them


def built(address: str, config: str | None, values: Mapping[str, Any]) -> nn.Module:
    """Build a module as its users do, without the code of this package.

    It is built on the meta device if its code can be. A value that is an address is called with the
    values under its name: ``layer = "torch.nn:GRU"`` with ``layer.input_size = 8``.
    """
    import torch  # noqa: PLC0415

    for device in ("meta", "cpu"):
        with torch.device(device), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(NotImplementedError):  # the meta device has no values
                return _called(_at(address), config, values)
    raise ValueError(f"{address} cannot be built with {values}")


def _called(kind: Any, config: str | None, values: Mapping[str, Any]) -> nn.Module:
    arguments = _arguments(kind if config is None else _at(config), values)
    if config is not None:
        return kind(_at(config)(**arguments))  # type: ignore[no-any-return]
    return kind(**arguments)  # type: ignore[no-any-return]


def _arguments(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call: tuples for lists, and the objects that have dotted names."""
    import typing  # noqa: PLC0415

    arguments: dict[str, Any] = {}
    below: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        first, _, rest = name.partition(".")
        if rest:
            below.setdefault(first, {})[rest] = value
        else:
            arguments[name] = tuple(value) if isinstance(value, list) else value
    for name, inner in below.items():
        made = arguments.get(name)
        inner_kind = typing.get_type_hints(kind.__init__)[name] if made is None else _at(made)
        arguments[name] = inner_kind(**_arguments(inner_kind, inner))
    return arguments


def _at(address: str) -> Any:
    module, _, name = address.partition(":")
    return getattr(importlib.import_module(module), name)


def shapes_of(module: nn.Module) -> Shapes:
    """Return the shape of each parameter of a module, and the name that it is tied to."""
    first_names: dict[int, str] = {}
    shapes: Shapes = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        first = first_names.setdefault(id(parameter), name)
        shapes[name] = (tuple(parameter.shape), None if first == name else first)
    return shapes


# One module, in a process of its own


def outcome_of(party: ThirdParty, limit_seconds: float) -> Outcome:
    """Derive a module, and hold its blueprint against the module at all settings."""
    from weighbridge.derive.running.runs import Task, run_tasks  # noqa: PLC0415

    prepare_imports()
    task = Task(party.address, party.config, dict(party.given), "third_party")
    (done,) = run_tasks([task], 1, limit_seconds)
    if done.error is not None:
        reason = " ".join(str(done.error).split())
        return Outcome(party.name, "refused", reason=reason, seconds=done.seconds)
    if not done.exact:
        reason = f"not proved: {next(iter(done.holes), '')}"
        return Outcome(party.name, "refused", reason=reason, seconds=done.seconds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "third_party.toml")
        path.write_text(done.text)
        return _held(party, path)._replace(holes=len(done.holes), seconds=done.seconds)


def _held(party: ThirdParty, path: Path) -> Outcome:
    """Hold a blueprint against a module at all settings; a difference outweighs a refusal."""
    refusal = ""
    for at, setting in enumerate(party.settings):
        expected = shapes_of(built(party.address, party.config, {**party.given, **setting}))
        try:
            weighed = weighed_shapes(path, party, setting)
        except Exception as error:  # a refusal, or a fault that counts as one
            refusal = refusal or f"setting {at}: {' '.join(str(error).split())}"
            continue
        if difference := first_difference(expected, weighed):
            return Outcome(party.name, "wrong", at, reason=f"{difference} with {setting}")
    if refusal:
        return Outcome(party.name, "refused", reason=refusal)
    return Outcome(party.name, "exact", len(party.settings))


def weighed_shapes(path: Path, party: ThirdParty, setting: Mapping[str, Any]) -> Shapes:
    """Return what a blueprint says about a setting.

    A field that the blueprint does not know changes no tensor, as far as derivation saw.
    """
    from weighbridge.answers.weigh import weigh  # noqa: PLC0415

    blueprint = tomllib.loads(path.read_text())
    known = _known_fields(blueprint)
    values = {**party.given, **setting}
    fields = {name: value for name, value in values.items() if name in known}
    rows = weigh(str(path), fields=fields).ledger.rows
    return {row.name: (row.shape, row.tied_to) for row in rows}


def _known_fields(blueprint: Mapping[str, Any]) -> set[str]:
    """Return the fields that decide a tensor; a null may be among the computed ones."""
    return {
        name for table in ("defaults", "computed") for name in _dotted(blueprint.get(table, {}))
    }


def _dotted(table: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{above}{name}.")
        yield above + name


def first_difference(expected: Shapes, weighed: Shapes) -> str:
    """Return the first parameter that differs, as text; empty if none does.

    Example:
        >>> first_difference({"a": ((2,), None)}, {"a": ((3,), None)})
        'a is ((2,), None), weighed as ((3,), None)'
    """
    for name in {**expected, **weighed}:
        if expected.get(name) != weighed.get(name):
            return f"{name} is {expected.get(name)}, weighed as {weighed.get(name)}"
    return ""


def prepare_imports() -> None:
    """Make what the modules import possible: our own models, and torchvision without CUDA."""
    import torch  # noqa: PLC0415

    sys.path.append(str(_OWN_MODELS))
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]  # half imported
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in _OPERATORS:
            library.define(name + _OPERANDS)
        _KEPT.append(library)  # an operator goes with its library


_KEPT: list[Any] = []


# All modules


def run_one(party: ThirdParty, limit_seconds: float) -> Outcome:
    """Return the outcome of a module that is derived in another process."""
    command = [sys.executable, __file__, "--one", party.name, "--limit", str(limit_seconds)]
    began = time.monotonic()
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_seconds + HOLDING_SECONDS,
        )
        return Outcome(**json.loads(ended.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        reason = "building its settings took too long"
    except (IndexError, ValueError):
        reason = (ended.stderr.strip().splitlines() or ["no answer"])[-1]
    return Outcome(party.name, "refused", reason=reason, seconds=time.monotonic() - began)


def text_of(outcome: Outcome) -> str:
    """Return an outcome as a line.

    Example:
        >>> text_of(Outcome("torch LSTM", "exact", 20, 1, "", 9.31))
        'exact    20     1 hole      9.3 s  torch LSTM'
    """
    holes = "" if not outcome.holes else f"{outcome.holes} hole{'s' * (outcome.holes != 1)}"
    settings = outcome.settings or ""
    line = f"{outcome.kind:<8} {settings!s:>2} {holes:>10} {outcome.seconds:8.1f} s"
    reason = outcome.reason[:_LONGEST_REASON]
    return f"{line}  {outcome.name}" + (f": {reason}" if reason else "")


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the counts of all outcomes, and the median of the seconds.

    Example:
        >>> summary([Outcome("a", "exact", 20, 0, "", 4), Outcome("b", "refused", seconds=6)])
        '1 exact, 0 wrong, 1 refused, of 2; 5.0 s in the median'
    """
    counts = Counter(outcome.kind for outcome in outcomes)
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in ("exact", "wrong", "refused"))
    seconds = median(outcome.seconds for outcome in outcomes)
    return f"{kinds}, of {len(outcomes)}; {seconds:.1f} s in the median"


def prepare(folder: Path) -> None:
    """Make an environment with the packages of the list over the present one."""
    venv.create(folder, with_pip=True)
    site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    present = sysconfig.get_path("purelib")  # its own .pth files count: weighbridge may be in one
    Path(site, "present.pth").write_text(f"import site; site.addsitedir({present!r})\n")
    packages = tomllib.loads(LISTED.read_text())["packages"]
    pins = [f"{name}=={version}" for name, version in packages.items()]
    plain = ["--no-deps", *pins]  # what they need beside torch is listed, or present
    subprocess.run([str(folder / "bin" / "pip"), "install", *plain], check=True)


def main() -> int:
    """Print what came of each module that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="*", help="names, or parts of names; all by default")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="seconds a module")
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="make an environment")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare:
        prepare(options.prepare)
        return 0
    parties = listed()
    if options.one:
        (party,) = [party for party in parties if party.name == options.one]
        print(json.dumps(outcome_of(party, options.limit)._asdict()))
        return 0
    wanted = [
        party
        for party in parties
        if not options.modules or any(part in party.name for part in options.modules)
    ]
    outcomes = []
    for at, party in enumerate(wanted, 1):
        print(f"{at}/{len(wanted)} {party.name} …", file=sys.stderr, flush=True)
        outcomes.append(run_one(party, options.limit))
        print(text_of(outcomes[-1]), flush=True)
    print(summary(outcomes))
    return int(any(outcome.kind == "wrong" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
