"""Derive blueprints of diffusers' models, and hold each against settings drawn at random.

Run it in an environment with diffusers (tools/diffusers_classes.toml has the version):

``derive NAME…``   writes blueprints of the list, or of other classes by their names, to a folder
``prove NAME…``    builds each class at settings that are changed at random, and compares the names,
                   shapes and ties of all parameters with those of the blueprint
``examples``       writes tests/data/diffusers.json: settings with their true counts, for the tests

A setting changes one to four arguments of the constructor, of any kind, from the class's defaults
or from a published config. A setting that the class itself refuses is left out. At every other one
the blueprint must be exact, or refuse. The exit status is 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import inspect
import json
import logging
import random
import re
import subprocess
import sys
import time
import tomllib
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from third_parties import Shapes, first_difference, shapes_of

from weighbridge.blueprint import law, schema
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import nn

LISTED = Path(__file__).with_suffix(".toml")
SHIPPED = Path(__file__).parents[1] / "src/weighbridge/data/blueprints/diffusers"
EXAMPLES = Path(__file__).parents[1] / "tests/data/diffusers.json"
SETTINGS = 24
LIMIT_SECONDS = 120
_TRIES = 400  # settings that are drawn for a class, of which it may refuse most
_EXAMPLES_EACH = 3
_LARGEST = 40_000_000_000  # parameters of a setting; larger ones take long to build

_ACTIVATIONS = ("silu", "gelu", "relu", "swiglu", "gelu-approximate", "geglu", "mish")
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
_COMPARED = re.compile(r"""(?:==|!=|in [\[(])\s*["']([\w-]+)["']""")


class Outcome(NamedTuple):
    """What came of a blueprint: the numbers of settings, and the first one that is wrong."""

    name: str
    exact: int
    refused: int
    wrong: str = ""
    reasons: Mapping[str, int] = {}


# The classes


def class_called(name: str) -> Any:
    """Return a class of diffusers; a name of a blueprint may have an ending."""
    import diffusers  # noqa: PLC0415

    return getattr(diffusers, name.partition("-")[0])


def defaults_of(kind: Any) -> dict[str, Any]:
    """Return the defaults of the arguments of a class; None for one without a default."""
    parameters = [*inspect.signature(kind.__init__).parameters.values()][1:]
    named = [
        each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    return {each.name: None if each.default is each.empty else each.default for each in named}


def built(kind: Any, changes: Mapping[str, Any]) -> nn.Module:
    """Build a class on the meta device, from a config as a file has it."""
    return _on_meta(lambda: kind.from_config({**changes}))


def written_config(module: Any) -> dict[str, Any]:
    """Return the config.json that the library writes for a module."""
    config: dict[str, Any] = json.loads(module.to_json_string())
    return config


# Settings


def settings(name: str, published: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the settings of a class: its defaults, the published ones, then changed ones."""
    kind, dice = class_called(name), random.Random(name)  # noqa: S311
    starts = [{}, *map(dict, published)]
    yield from starts
    texts = _texts_of(kind)
    defaults = defaults_of(kind)
    for _ in range(_TRIES):
        start = dice.choice(starts)
        values = {**defaults, **start}
        changed = dice.sample(sorted(values), min(len(values), dice.choice((1, 1, 2, 3, 4))))
        new = {field: _changed(values[field], dice, texts) for field in changed}
        yield {**start, **new}


def _changed(value: Any, dice: random.Random, texts: Sequence[str]) -> Any:
    """Return another value for one argument, mostly of the same kind."""
    if dice.random() < 0.08:  # another kind
        return dice.choice((None, True, False, 2, [2, 2], 0.5, *texts[:3]))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return dice.choice((value * 2, max(1, value // 2), value + 1, *_SIZES))
    if isinstance(value, float):
        return dice.choice((0.0, 1.0, value * 2, 3.5))
    if isinstance(value, str):
        return dice.choice(texts)
    if isinstance(value, list | tuple) and value:
        return _changed_list(list(value), dice, texts)
    if isinstance(value, dict):
        return {}
    return dice.choice((None, True, 1, 8, 32, *texts[:4], [1, 2, 4, 4]))


def _changed_list(items: list[Any], dice: random.Random, texts: Sequence[str]) -> list[Any]:
    """Return a list with an item more or less, another order, or other items."""
    kinds: tuple[Callable[[], list[Any]], ...] = (
        lambda: [*items, items[-1]],
        lambda: items[:-1],
        lambda: items[::-1],
        lambda: dice.sample(items, len(items)),
        lambda: [dice.choice(items)] * len(items),
        lambda: [item * 2 if type(item) is int else item for item in items],
        lambda: [item // 2 if type(item) is int else item for item in items],
    )
    if dice.random() < 0.3:
        place = dice.randrange(len(items))
        return [*items[:place], _changed(items[place], dice, texts), *items[place + 1 :]]
    return dice.choice(kinds)()


def _texts_of(kind: Any) -> list[str]:
    """Return texts that the code of a class compares with, and activations."""
    source = inspect.getsource(sys.modules[kind.__module__])
    return [*_ACTIVATIONS, *sorted(set(_COMPARED.findall(source)))]


# Proof


def prove(name: str, path: Path | None, published: Sequence[Mapping[str, Any]]) -> Outcome:
    """Hold a blueprint against its class; ``path`` is its file, by default the shipped ones."""
    kind, counts, reasons = class_called(name), Counter[str](), Counter[str]()
    until = time.monotonic() + LIMIT_SECONDS
    for setting in settings(name, published):
        if sum(counts.values()) >= SETTINGS or time.monotonic() > until:
            break
        try:
            module = built(kind, setting)
        except Exception:  # noqa: S112  # the class refuses it
            continue
        if sum(parameter.numel() for parameter in module.parameters()) > _LARGEST:
            continue
        config = written_config(module)
        try:
            difference = first_difference(shapes_of(module), weighed_shapes(config, path))
        except WeighbridgeError as error:
            counts["refused"] += 1
            reasons[error.what] += 1
            continue
        if difference:
            wrong = f"{difference} with {setting}"
            return Outcome(name, counts["exact"], counts["refused"], wrong, reasons)
        counts["exact"] += 1
    return Outcome(name, counts["exact"], counts["refused"], "", reasons)


def weighed_shapes(config: Mapping[str, Any], path: Path | None) -> Shapes:
    """Return the shapes of a config as weighbridge gives them."""
    from weighbridge.answers.weigh import weigh  # noqa: PLC0415

    rows = weigh(dict(config), blueprint=path).rows
    return {row.name: (tuple(row.shape), row.tied_to) for row in rows}


def shapes_hash(shapes: Shapes) -> str:
    """Return a hash of the names, shapes and ties.

    Example:
        >>> shapes_hash({"a": ((2, 3), None)})
        '0be72e9e2ec62d6b'
    """
    lines = sorted(f"{name} {list(shape)} {tied}" for name, (shape, tied) in shapes.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


# Derivation


def derive(name: str, about: Mapping[str, Any], folder: Path, limit_seconds: float) -> str:
    """Derive a blueprint to a folder; return why it failed, or nothing."""
    address = about.get("through", f"diffusers:{name.partition('-')[0]}")
    path = folder / f"{name}.toml"
    words = [sys.executable, "-m", "weighbridge", "derive", address, "--output", str(path)]
    words += ["--limit", str(limit_seconds)]
    for field, value in about.get("given", {}).items():
        words += ["--set", f"{field}={json.dumps(value)}"]
    path.unlink(missing_ok=True)
    ended = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    if not path.exists():
        lines = [line for line in ended.stderr.splitlines() if line.startswith("weighbridge: ")]
        return (lines or ended.stderr.splitlines() or ["no answer"])[-1]
    path.write_text(as_shipped(path.read_text(), name, about))
    law.read_blueprint(str(path))
    return ""


def as_shipped(text: str, name: str, about: Mapping[str, Any]) -> str:
    """Return a derived blueprint with the class as its family.

    Derivation takes what it is given for defaults. A config that leaves such a field out means the
    class's own default, so the blueprint must not be used for it. The same holds for what a
    function gives the class; the blueprint is held at it.
    """
    import diffusers  # noqa: PLC0415

    from weighbridge.derive.toml_text import blueprint_text  # noqa: PLC0415

    raw, class_name = tomllib.loads(text), name.partition("-")[0]
    raw |= {"family": class_name, "class": class_name, "source": f"diffusers:{class_name}"}
    against = f"diffusers {diffusers.__version__} under {raw['proof']['against'].split()[-2]} "
    raw["proof"]["against"] = against + raw["proof"]["against"].split()[-1]
    raw["proof"]["by"] = f"python tools/diffusers_classes.py derive {name}"
    stated = set(about.get("given", {}))
    if "through" in about:
        stated |= _hold(raw, about)
    stated &= {*raw["defaults"], *raw.get("computed", {})}
    if stated:
        raw["stated"] = sorted(stated)
    return blueprint_text(raw, class_name)


def _hold(raw: dict[str, Any], about: Mapping[str, Any]) -> set[str]:
    """Hold a blueprint at what a function gives its class; return what is no default of it."""
    from weighbridge.algebra.expr import source  # noqa: PLC0415

    module, _, name = about["through"].partition(":")
    function = getattr(__import__(module), name)
    built_config = written_config(_on_meta(lambda: function(**about.get("given", {}))))
    own = defaults_of(class_called(raw["class"]))
    stated = set()
    for field in own.keys() - inspect.signature(function).parameters.keys():
        value = built_config[field]
        if value is None:
            raw.setdefault("computed", {})[field] = "null"
            raw["nullable"] = sorted({*raw.get("nullable", ()), field})
        else:
            raw["defaults"][field] = value
        raw.setdefault("require", []).append(f"{field} == {source(('value', value))}")
        if value != json.loads(json.dumps(own[field])):
            stated.add(field)
    for field, parameter in inspect.signature(function).parameters.items():
        if json.dumps(parameter.default) != json.dumps(own[field]):
            stated.add(field)
    raw["require"].sort()
    return stated


def _on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    import torch  # noqa: PLC0415

    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


# All


def listed() -> dict[str, dict[str, Any]]:
    """Return what the list says about each blueprint: what it is given, and published configs."""
    table: dict[str, dict[str, Any]] = tomllib.loads(LISTED.read_text())["blueprints"]
    return table


def examples() -> list[dict[str, Any]]:
    """Return settings of each shipped class with their true counts.

    Published ones are as the library writes them, the others without the class's defaults.
    """
    found: list[dict[str, Any]] = []
    for name in schema.library_names("diffusers"):
        published = listed().get(name, {}).get("published", [])
        kept = 0
        for setting in settings(name, published):
            if kept == _EXAMPLES_EACH + len(published):
                break
            with contextlib.suppress(Exception):
                module = built(class_called(name), setting)
                weighed_shapes(written_config(module), None)  # a refused one is no example
                config = {"_class_name": class_called(name).__name__, **setting}
                if setting in published:
                    config = written_config(module)
                shapes = shapes_of(module)
                numbers = {"parameters": total(shapes), "hash": shapes_hash(shapes)}
                found.append({"config": config, **numbers})
                kept += 1
    return found


def total(shapes: Shapes) -> int:
    """Return the number of parameters; tied ones count once."""
    total = 0
    for shape, tied_to in shapes.values():
        size = 1
        for length in shape:
            size *= length
        total += 0 if tied_to else size
    return total


def main() -> int:
    """Print what came of each class that is asked for."""
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("action", choices=("derive", "prove", "examples"))
    parser.add_argument("names", nargs="*", help="names of blueprints; all by default")
    parser.add_argument("--folder", type=Path, help="of blueprints, instead of the shipped ones")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="seconds a derivation")
    options = parser.parse_args()
    if options.action == "examples":
        lines = ",\n".join(json.dumps(example) for example in examples())
        EXAMPLES.write_text(f"[\n{lines}\n]\n")
        return 0
    folder = options.folder or SHIPPED
    failures, totals = 0, Counter[str]()
    for name in options.names or sorted(path.stem for path in folder.glob("*.toml")):
        about = listed().get(name, {})
        if options.action == "derive":
            failure = derive(name, about, folder, options.limit)
            print(f"{name}: {failure or 'derived'}", flush=True)
            continue
        path = folder / f"{name}.toml" if options.folder else None
        outcome = prove(name, path, about.get("published", []))
        failures += bool(outcome.wrong)
        totals.update(exact=outcome.exact, refused=outcome.refused, wrong=bool(outcome.wrong))
        print(json.dumps(outcome._asdict()), flush=True)
    if totals:
        print(json.dumps(totals))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
