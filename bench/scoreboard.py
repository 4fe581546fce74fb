"""Holds every counter that can be installed against the truth, on one basket of models.

``python bench/scoreboard.py --set-up FOLDER [COUNTER…]`` makes the environments in which they run:
one with PyTorch and transformers, and one for each counter that sees that one's packages.
``python bench/scoreboard.py FOLDER JSON [COUNTER…]`` counts, all or those that are named, and
writes the answers into the file; what it has of other counters stays. ``truth`` is one of them, and
the first: it also writes the checkpoints that some counters read. Run it with the Python in which
weighbridge is installed. ``scoreboard.toml`` has the models and the counters,
``tools/scored.py`` writes the page from the file.

The truth is the module that transformers builds on the meta device: its tensors, each once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _basket import Model, basket, written
from _pairs import machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HERE = Path(__file__).parent
LISTED = HERE / "scoreboard.toml"
BASE = "base"
WHOLE = slice(None)
TRUTH = "truth"
_VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"


# The environments


def python_of(folder: Path, name: str) -> Path:
    """Return the Python of an environment."""
    return folder / name.replace(" ", "-") / "bin" / "python"


def set_up(given: dict[str, Any], folder: Path, names: Sequence[str]) -> None:
    """Make the environments of counters, and the one that all of them see, where there are none."""
    _environment(folder, BASE, given[BASE]["install"], ())
    for name in names:
        counter = given["counters"][name]
        if "install" in counter or "install_alone" in counter:
            seen = () if counter.get("apart") else (BASE,)
            _environment(folder, name, counter.get("install", ()), seen)
            alone = counter.get("install_alone", ())
            _install(folder, name, *(("--no-deps", *alone) if alone else ()))


def _environment(folder: Path, name: str, packages: Iterable[str], seen: Iterable[str]) -> None:
    python = python_of(folder, name)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
        for other in seen:
            text = f"{_packages_of(folder, other)}\n"
            (_packages_of(folder, name) / "seen.pth").write_text(text, encoding="utf-8")
    for package in packages:  # one after the other: nothing may bring another torch
        _install(folder, name, package)


def _install(folder: Path, name: str, *words: str) -> None:
    if words:
        command = [python_of(folder, name), "-m", "pip", "install", "--quiet", *words]
        print(*command)
        subprocess.run(command, check=True)


def _packages_of(folder: Path, name: str) -> Path:
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    command = [python_of(folder, name), "-c", asked]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


# Counting


def runs_in(folder: Path, name: str, package: str) -> Path:
    """Return the Python that a counter runs in: its own, that of the base, or this one."""
    if package == "weighbridge":
        return Path(sys.executable)
    own = python_of(folder, name)
    return own if own.exists() else python_of(folder, BASE)


def answers_of(name: str, python: Path, folders: Sequence[Path], limit: float) -> dict[str, Any]:
    """Let a counter count every model; return its answers by folder, and what importing it took."""
    command = [python, HERE / "_counters.py", name, str(limit), *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.splitlines() or [""])[-1]
        raise SystemExit(f"{name} did not run: {last}. --set-up installs what it needs")
    first, *lines = (json.loads(line) for line in done.stdout.splitlines())
    answers = {}
    for line in lines:
        folder = Path(line.pop("folder")).name
        answers[folder] = {key: _rounded(value) for key, value in line.items()}
    return {"import_seconds": _rounded(first["import_seconds"]), "answers": answers}


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) and not value.is_integer() else value


def version_of(python: Path, package: str) -> str:
    """Return the version of a package in an environment."""
    if package == "weighbridge":
        from weighbridge import __version__  # noqa: PLC0415

        return __version__
    command = [python, "-c", _VERSION, package]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def count(
    given: dict[str, Any], folder: Path, file: Path, names: Sequence[str], part: slice
) -> None:
    """Let counters count a part of the basket, and write what they say beside what the file has."""
    models = basket(given["models"])[part]
    folders = written(models, folder / "basket")
    limit = given["limit_seconds"]
    for name in names:
        counter = given["counters"].get(name, {"package": "transformers"})
        python = runs_in(folder, counter.get("environment", name), counter["package"])
        said = answers_of(name, python, folders, limit)
        answers = {model.name: said["answers"][model.folder] for model in models}
        found: dict[str, Any] = {"base": {}, "models": [], "counters": {}}
        if file.exists():  # another run may have written meanwhile
            found = json.loads(file.read_text(encoding="utf-8"))
        if name == TRUTH:
            found |= {"base": versions(python, given[BASE]["install"])}
            found["models"] = [about(model, answers[model.name]) for model in models]
        else:
            if part != WHOLE:
                answers = found["counters"].get(name, {"answers": {}})["answers"] | answers
            said |= {"answers": answers, "version": version_of(python, counter["package"])}
            said["measured"] = f"{machine()}, {datetime.now(UTC):%Y-%m-%d}"
            found["counters"][name] = said
        write(file, found, given["counters"])
        print(name, "has counted", file=sys.stderr)


def about(model: Model, truth: dict[str, Any]) -> dict[str, Any]:
    """Return what the file has of a model.

    Raises:
        SystemExit: there is no truth.
    """
    if "refused" in truth:
        raise SystemExit(f"transformers does not build {model.name}: {truth['refused']}")
    kept = {key: value for key, value in truth.items() if key not in {"seconds", "mib"}}
    return {"model": model.name, "kind": model.kind, "source": model.source, "truth": kept}


def versions(python: Path, pinned: Sequence[str]) -> dict[str, str]:
    """Return the versions that are installed, of packages that are pinned."""
    packages = (package.partition("==")[0] for package in pinned)
    return {package: version_of(python, package) for package in packages}


def write(file: Path, found: dict[str, Any], order: Iterable[str]) -> None:
    """Write all answers, a line for each model, with the counters in the order of the list."""
    order = [name for name in order if name in found["counters"]]
    lines = {
        "base": json.dumps(found["base"]),
        "models": _lines(found["models"], "[]"),
        "counters": "{"
        + ",".join(_counter(name, found["counters"][name]) for name in order)
        + "\n}",
    }
    text = ",\n".join(f"{json.dumps(key)}: {value}" for key, value in lines.items())
    file.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def _lines(items: Iterable[Any], ends: str) -> str:
    return ends[0] + "\n" + ",\n".join(json.dumps(item) for item in items) + "\n" + ends[1]


def _counter(name: str, said: dict[str, Any]) -> str:
    answers = [
        f"{json.dumps(model)}: {json.dumps(answer)}"
        for model, answer in sorted(said["answers"].items())
    ]
    about = {key: value for key, value in said.items() if key != "answers"}
    text = json.dumps(about)[:-1] + ', "answers": {\n' + ",\n".join(answers) + "\n}}"
    return f"\n{json.dumps(name)}: {text}"


def main() -> None:
    """Set up environments, or count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--set-up", action="store_true", help="make the environments, and end")
    parser.add_argument("--list", type=Path, default=LISTED, help="another list of models")
    parser.add_argument("--part", metavar="I/N", help="count one of N parts of the basket")
    parser.add_argument("folder", type=Path, help="where the environments are")
    parser.add_argument("names", nargs="*", metavar="JSON COUNTER", help="the file, and counters")
    words = parser.parse_args()
    given = tomllib.loads(words.list.read_text(encoding="utf-8"))
    folder, names, file = words.folder.absolute(), words.names, None
    if not words.set_up:
        if not names:
            parser.error("name the JSON file that the answers go to")
        file, names = Path(names[0]), names[1:]
    known = [TRUTH, *given["counters"]]
    for name in names:
        if name not in known:
            parser.error(f"no counter is called {name!r}; there are {', '.join(known)}")
    if file is None:
        set_up(given, folder, names or known[1:])
    else:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        first, _, parts = (words.part or "1/1").partition("/")
        part = slice(int(first) - 1, None, int(parts)) if words.part else WHOLE
        count(given, folder, file, names or known, part)


if __name__ == "__main__":
    main()
