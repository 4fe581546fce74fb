"""Derive blueprints of timm's classes, and hold every architecture of theirs against timm itself.

Run it in an environment with timm (tools/timm_models.toml has the versions and the classes):

``derive NAME…``     writes blueprints of the list to a folder
``architectures``    writes data/facts/timm.toml: the class of each architecture, and the arguments
                     that it gives the class; or writes it again for those that begin with a name
``examples``         writes tests/data/timm.json: configs as timm writes them, with their true
                     counts, for the tests; and timm_names.json, with those of its models by name

An architecture is listed if the blueprint of its class gives the names, shapes and ties of all
parameters that timm builds from a config that names it: at its own settings and at others. What an
architecture gives its class and no file can state, such as a norm with another epsilon, is left out
if the shapes are the same without it; the others are not listed.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import logging
import subprocess
import sys
import tempfile
import tomllib
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from diffusers_classes import shapes_hash, total
from third_parties import Shapes, first_difference, prepare_imports, shapes_of

from weighbridge.answers.weigh import weigh
from weighbridge.blueprint import law, schema
from weighbridge.errors import WeighbridgeError
from weighbridge.models import timm_configs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torch import nn

LISTED = Path(__file__).with_suffix(".toml")
DATA = Path(__file__).parents[1] / "src/weighbridge/data"
SHIPPED = DATA / "blueprints/timm"
FACTS = DATA / "facts/timm.toml"
EXAMPLES = Path(__file__).parents[1] / "tests/data/timm.json"
NAMED = EXAMPLES.with_name("timm_names.json")
LIMIT_SECONDS = 600

NOT_ARGUMENTS = (timm_configs.NAME, timm_configs.PRETRAINED)
"""Fields of a config that a class is not given."""


# What an architecture gives its class


class _Called(Exception):  # noqa: N818  # it carries a call, not an error
    """The class that an architecture would have called, and the arguments."""


def call_of(architecture: str, **pretrained: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class that an architecture calls, and the arguments, for weights like these."""
    import timm  # noqa: PLC0415

    with _calls_caught():
        try:
            timm.create_model(architecture, pretrained_cfg=pretrained)
        except _Called as called:
            kind, arguments = called.args
            return kind, arguments
    raise ValueError(f"{architecture} calls no class through timm's builder")


@contextlib.contextmanager
def _calls_caught() -> Iterator[None]:
    """Let timm's builder raise what it would call, in every module that has it."""
    from timm.models import _builder  # noqa: PLC0415

    name, build = "build_model_with_cfg", _builder.build_model_with_cfg

    def caught(kind: Any, *words: Any, **options: Any) -> Any:
        def raising(**arguments: Any) -> None:
            raise _Called(kind, arguments)

        return build(raising, *words, **options)

    modules = [module for path, module in [*sys.modules.items()] if path.startswith("timm.")]
    with contextlib.ExitStack() as stack:
        for module in modules:
            if getattr(module, name, None) is build:
                stack.enter_context(mock.patch.object(module, name, caught))
        yield


def entry_of(architecture: str) -> dict[str, Any]:
    """Return the class of an architecture, and the arguments that do not follow from a config.

    Those that follow differ between weights for other classes and images.
    """
    some = {"num_classes": 3, "input_size": (1, 96, 96), "fixed_input_size": True}
    others = {"num_classes": 5, "input_size": (2, 160, 160), "fixed_input_size": True}
    (kind, first), (_, second) = (call_of(architecture, **cfg) for cfg in (some, others))
    arguments = {name: first[name] for name in first if first[name] == second[name]}
    return {"class": kind.__name__, "arguments": arguments}


def weights_of(architecture: str) -> dict[str, dict[str, Any]]:
    """Return what the weights of an architecture were made for, by tag, timm's own choice first.

    What a config assumes is left out. An architecture without weights has one tag, which is empty.
    """
    from timm.models import get_pretrained_cfg, list_pretrained  # noqa: PLC0415

    chosen = get_pretrained_cfg(architecture)
    tags = [name.partition(".")[2] for name in list_pretrained(f"{architecture}.*")]
    tags.sort(key=(chosen.tag if chosen else "").__ne__)
    weights = {}
    for tag in tags or [""]:
        cfg = get_pretrained_cfg(f"{architecture}.{tag}" if tag else architecture)
        stated = {name: getattr(cfg, name) for name in _KEPT} if cfg else {}
        weights[tag] = {
            name: as_data(value) for name, value in stated.items() if value != _ASSUMED[name]
        }
    return weights


def as_data(value: Any) -> Any:
    """Return an argument as a config states it: code by its address, or as text."""
    if isinstance(value, list | tuple):
        return [as_data(item) for item in value]
    if isinstance(value, dict):
        return {name: as_data(item) for name, item in value.items()}
    if isinstance(value, type) or inspect.isfunction(value):
        return f"{value.__module__}:{value.__qualname__}"
    return value if value is None or isinstance(value, str | int | float) else str(value)


# Held against timm


def configs_of(architecture: str) -> Iterator[dict[str, Any]]:
    """Yield configs that name an architecture: as timm has it, and for other weights."""
    from timm.models import get_pretrained_cfg  # noqa: PLC0415

    cfg = get_pretrained_cfg(architecture)
    own = {} if cfg is None else {name: getattr(cfg, name) for name in _KEPT}
    yield {"architecture": architecture, "pretrained_cfg": own}
    yield {"architecture": architecture, "pretrained_cfg": own, "num_classes": 7}
    _, height, width = own.get("input_size", (3, 224, 224))
    other = {**own, "input_size": (1, 2 * height, 2 * width), "num_classes": 0}
    yield {"architecture": architecture, "pretrained_cfg": other}


_ASSUMED = {"num_classes": 1000, "input_size": (3, 224, 224), "fixed_input_size": False}
"""What a config assumes that does not say what its weights were made for."""
_KEPT = tuple(_ASSUMED)


def built(config: Mapping[str, Any]) -> nn.Module:
    """Build what timm builds from a folder with this config."""
    import timm  # noqa: PLC0415
    import torch  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Path(folder, "config.json").write_text(json.dumps(config))
        with torch.device("meta"):
            model: nn.Module = timm.create_model(f"local-dir:{folder}")
    return model


def listed_entry(architecture: str) -> dict[str, Any] | str:
    """Return the entry of an architecture whose count is timm's, or why there is none.

    As few arguments as possible are left out, of those that the blueprint refuses.
    """
    try:
        entry = entry_of(architecture)
    except Exception as error:  # whatever timm raises
        return f"calls no class: {error}"
    if entry["class"] not in classes():
        return f"no blueprint of {entry['class']}"
    cases = list(cases_of(architecture))
    arguments = {name: as_data(value) for name, value in entry["arguments"].items()}
    waiting: list[frozenset[str]] = [frozenset()]
    reason, tried = "", set[frozenset[str]]()
    while waiting:
        left_out = waiting.pop(0)
        tried.add(left_out)
        kept = {name: value for name, value in arguments.items() if name not in left_out}
        try:
            found = {**entry, **_with_nulls_apart(kept)}
            reason = difference(architecture, found, cases)
        except WeighbridgeError as error:
            reason = f"{error.what} {dict(error.values)}"
            more = (left_out | {name} for name in arguments if name in error.values)
            waiting += [names for names in more if names not in (*tried, *waiting)]
        if not reason:
            return found
    return reason


def _with_nulls_apart(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments, and the names of those that are null, which TOML cannot state."""
    nulls = [name for name, value in arguments.items() if value is None]
    stated = {name: value for name, value in arguments.items() if value is not None}
    return {"arguments": stated, **({"null": nulls} if nulls else {})}


def cases_of(architecture: str) -> Iterator[tuple[dict[str, Any], Shapes]]:
    """Yield configs that name an architecture, with the shapes that timm builds."""
    for config in configs_of(architecture):
        with contextlib.suppress(Exception):  # timm refuses it
            yield config, shapes_of(built(config))


def difference(
    architecture: str, entry: Mapping[str, Any], cases: Iterable[tuple[Mapping[str, Any], Shapes]]
) -> str:
    """Return where the count of an architecture with this entry is not timm's; empty if it is.

    Raises:
        WeighbridgeError: the blueprint refuses what timm builds.
    """
    with mock.patch.object(timm_configs, "architectures", return_value={architecture: entry}):
        for config, expected in cases:
            rows = weigh(json.loads(json.dumps(config))).rows
            weighed: Shapes = {row.name: (tuple(row.shape), row.tied_to) for row in rows}
            if found := first_difference(expected, weighed):
                return found
    return ""


def classes() -> set[str]:
    """Return the classes that have a blueprint."""
    return {name.partition("-")[0] for name in schema.library_names("timm")}


# Files


def derive(name: str, folder: Path, limit_seconds: float) -> str:
    """Derive a blueprint to a folder; return why it failed, or nothing."""
    about, path = listed()[name], folder / f"{name}.toml"
    words = [sys.executable, __file__, "cli", "derive", about["address"], "--output", str(path)]
    words += ["--limit", str(limit_seconds)]
    for field, value in about.get("given", {}).items():
        words += ["--set", f"{field}={value if isinstance(value, str) else json.dumps(value)}"]
    path.unlink(missing_ok=True)
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if not path.exists():
        lines = [line for line in ended.stderr.splitlines() if line.startswith("weighbridge: ")]
        return (lines or ended.stderr.splitlines() or ["no answer"])[-1]
    path.write_text(as_shipped(path.read_text(), name))
    law.read_blueprint(str(path))
    return ""


def as_shipped(text: str, name: str) -> str:
    """Return a derived blueprint with the class as its family.

    A config that leaves out what the derivation was given means the class's own default.
    """
    import timm  # noqa: PLC0415

    from weighbridge.derive.toml_text import blueprint_text  # noqa: PLC0415

    raw, class_name = tomllib.loads(text), name.partition("-")[0]
    raw |= {"family": class_name, "class": class_name}
    raw["inert"] = sorted({*raw["inert"], *NOT_ARGUMENTS})
    torch = " ".join(raw["proof"]["against"].split()[-2:])
    raw["proof"]["against"] = f"timm {timm.__version__} under {torch}"
    raw["proof"]["by"] = f"python tools/timm_models.py derive {name}"
    given = {*listed()[name].get("given", {})} & {*raw["defaults"], *raw.get("computed", {})}
    if given:
        raw["stated"] = sorted(given)
    return blueprint_text(raw, class_name)


def listed() -> dict[str, dict[str, Any]]:
    """Return what the list says about each blueprint: an address, and what it is given."""
    table: dict[str, dict[str, Any]] = tomllib.loads(LISTED.read_text())["blueprints"]
    return table


def architectures(starts: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return the entry of each architecture whose count is timm's; say why others have none.

    If ``starts`` are given, architectures with names that begin otherwise are as they are listed.
    """
    import timm  # noqa: PLC0415

    found = dict(timm_configs.architectures()) if starts else {}
    for name in timm.list_models():
        if not name.startswith(tuple(starts) or ""):
            continue
        entry = listed_entry(name)
        found.pop(name, None)
        if isinstance(entry, dict):
            found[name] = entry
        elif not entry.startswith("no blueprint"):
            print(f"{name}: {entry}", flush=True)
    return dict(sorted(found.items()))


def facts_text(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of data/facts/timm.toml."""
    import timm  # noqa: PLC0415

    from weighbridge.derive.toml_text import value_text  # noqa: PLC0415

    about = f"The architectures of timm {timm.__version__}: the class that each calls"
    lines = [
        f"# {about}, and the arguments that it gives.",
        "# Those of `null` are null. `weights` has what the weights of each tag were made for.",
        "# `python tools/timm_models.py architectures` writes this file; do not edit it.",
        "",
        "[architectures]",
    ]
    lines += [f"{name} = {value_text(entry)}" for name, entry in found.items()]
    lines += ["", "[weights]"]
    lines += [f"{name} = {value_text(weights_of(name))}" for name in found]
    return "\n".join(lines) + "\n"


def examples() -> list[dict[str, Any]]:
    """Return configs of every architecture with their true counts; some are as timm writes them."""
    found: list[dict[str, Any]] = []
    written = Counter[str]()
    for architecture, entry in timm_configs.architectures().items():
        written[entry["class"]] += 1
        for config, shapes in cases_of(architecture):
            numbers = {"parameters": total(shapes), "hash": shapes_hash(shapes)}
            found.append({"config": config, **numbers})
            if written[entry["class"]] <= _WRITTEN:
                found.append({"config": as_written(config), **numbers})
    return found


def named_examples() -> Iterator[tuple[str, list[Any]]]:
    """Yield the name of each model of timm, with its true count and a hash of its shapes."""
    import timm  # noqa: PLC0415
    import torch  # noqa: PLC0415

    for architecture in timm_configs.architectures():
        for tag in weights_of(architecture):
            name = f"{architecture}.{tag}".removesuffix(".")
            with torch.device("meta"):
                shapes = shapes_of(timm.create_model(name))
            yield name, [total(shapes), shapes_hash(shapes)]


def as_written(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config.json that timm writes for what it builds from a config."""
    from timm.models._hub import save_config_for_hf  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.json")
        save_config_for_hf(built(config), str(path))
        written: dict[str, Any] = json.loads(path.read_text())
    return written


_WRITTEN = 2  # architectures of each class, as timm writes their configs


def main() -> int:
    """Do what is asked for, and print what came of it."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    prepare_imports()
    if sys.argv[1:2] == ["cli"]:  # the command line, where timm can be imported
        from weighbridge.cli import main as command_line  # noqa: PLC0415

        return command_line(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("action", choices=("derive", "architectures", "examples"))
    parser.add_argument("names", nargs="*", help="of blueprints, or how architectures begin")
    parser.add_argument("--folder", type=Path, default=SHIPPED, help="of the derived blueprints")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="seconds a derivation")
    options = parser.parse_args()
    if options.action == "examples":
        lines = ",\n".join(json.dumps(example) for example in examples())
        EXAMPLES.write_text(f"[\n{lines}\n]\n")
        lines = ",\n".join(json.dumps({name: true})[1:-1] for name, true in named_examples())
        NAMED.write_text(f"{{\n{lines}\n}}\n")
    elif options.action == "architectures":
        FACTS.write_text(facts_text(architectures(options.names)))
    else:
        for name in options.names or listed():
            failure = derive(name, options.folder, options.limit)
            print(f"{name}: {failure or 'derived'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
