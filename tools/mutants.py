"""Measures how much of a room its own tests check: mutmut plants one fault at a time.

``python tools/mutants.py ledger`` mutates the functions of ``src/weighbridge/ledger``. For each
fault, it runs the room's own tests that reach the function: ``tests/ledger`` and the examples in
the room's docstrings. ``guessing/unknowns`` is a single module, with its single test file. The tool
prints each fault that no test notices, and exits with 1 if

- fewer than 90% of the faults are noticed (a test notices a fault if it fails or takes too long),
- a fault that is not noticed is not listed, with a reason, in ``tools/mutants.toml``, or
- all faults were tried, and a listed one was noticed or is no longer planted.

``--every N`` tries only each Nth fault, ``--match PATTERN`` only faults with matching names.
``--again`` tries the faults that were not noticed before and those of changed functions, and keeps
the other results: for use while writing tests.

mutmut does not mutate the tables of a module or decorated functions (properties, cached functions).
Tests listed as slow in ``tools/mutants.toml`` are not run: a fault that only they notice counts as
not noticed.

The copies of the sources with the faults, and the results, are in ``build/mutants``.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).resolve().parent.parent
WORKSPACES = ROOT / "build" / "mutants"
LISTS = ROOT / "tools" / "mutants.toml"
LEAST_NOTICED = 90  # percent
NOTICED = {"killed", "timeout", "segfault"}
# conftest.py of the root is left out: it parses all sources once per fault, only to skip tests.
CONFIG = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["{sources}"]
pytest_add_cli_args_test_selection = {selection}
pytest_add_cli_args = {arguments}
timeout_multiplier = 2
timeout_constant = 10
track_dependencies = false
use_git_change_detection = false
"""
ARGUMENTS = [
    *("-o", "addopts=--import-mode=importlib"),
    *("-p", "mutants_plugin"),
    *("-p", "no:cacheprovider"),
    *("-p", "no:unraisableexception"),  # it spends seconds per fault on garbage collection
]
# Records the functions that are called, with their modules.
TRACING = """
import sys
calls = set()
def see(frame, *_):
    calls.add(f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}")
sys.setprofile(see)
"""


class Survivor(NamedTuple):
    """A fault that no test notices: the module, the function and the changed lines."""

    module: str
    function: str
    before: str
    after: str

    def __str__(self) -> str:
        """Return the entry for the file of survivors, without the reason."""
        lines = [f"{field} = {json.dumps(value)}" for field, value in self._asdict().items()]
        return "\n".join(["[[survivor]]", *lines])


class Target(NamedTuple):
    """The code to mutate: a room (``ledger``) or a module of a room (``guessing/unknowns``)."""

    name: str

    @property
    def sources(self) -> list[Path]:
        """Return the files to mutate, relative to the root."""
        path = Path("src", "weighbridge", self.name)
        if (ROOT / path).is_dir():
            return sorted(file.relative_to(ROOT) for file in (ROOT / path).rglob("*.py"))
        return [path.with_suffix(".py")]

    @property
    def modules(self) -> list[str]:
        """Return the modules to mutate."""
        names = [".".join(file.with_suffix("").parts[1:]) for file in self.sources]
        return [name.removesuffix(".__init__") for name in names]

    @property
    def tests(self) -> str:
        """Return the folder or the file of tests, relative to the root."""
        path = Path("tests", self.name)
        if (ROOT / path).is_dir():
            return path.as_posix()
        return path.with_name(f"test_{path.name}.py").as_posix()

    @property
    def selection(self) -> list[str]:
        """Return the tests to run: those of the room, and its examples."""
        return [self.tests, "tests/test_examples.py"]

    @property
    def arguments(self) -> list[str]:
        """Return the options of pytest."""
        return [*ARGUMENTS, "-k", _without_slow()]

    @property
    def workspace(self) -> Path:
        """Return the folder that mutmut works in."""
        return WORKSPACES / self.name.replace("/", "-")

    def prepare(self) -> None:
        """Create the folder that mutmut works in, with links to the sources and a configuration."""
        self.workspace.mkdir(parents=True, exist_ok=True)
        for name in ("src", "tests"):
            if not (self.workspace / name).is_symlink():
                (self.workspace / name).symlink_to(ROOT / name)
        # mutmut copies changed sources, but not data, and does not remove deleted tests.
        for copies in ("src/weighbridge/data", "tests"):
            shutil.rmtree(self.workspace / "mutants" / copies, ignore_errors=True)
        (self.workspace / "mutants" / "tests").mkdir(parents=True)
        examples = self.workspace / "mutants" / "tests" / "test_examples.py"
        examples.write_text(
            "import mutants_plugin\n\n"
            f"test_example = mutants_plugin.examples({[str(file) for file in self.sources]})\n",
            encoding="utf-8",
        )
        pattern = f"src/weighbridge/{self.name}"
        if len(self.sources) > 1:
            pattern += "/*"
        else:
            pattern += ".py"
        config = CONFIG.format(
            sources=pattern,
            selection=json.dumps(self.selection),
            arguments=json.dumps(self.arguments),
        )
        pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        (self.workspace / "pyproject.toml").write_text(pyproject + config, encoding="utf-8")

    def mutants(self) -> list[str]:
        """Return the names of all faults, in the order of the sources."""
        names: list[str] = []
        for file in self.sources:
            mutated = mutate_file_contents(str(file), (ROOT / file).read_text(encoding="utf-8"))
            names += [get_mutant_name(file, name) for name in mutated.mutant_names]
        return names

    def statuses(self) -> dict[str, str]:
        """Return the result of each fault that was tried, now or before."""
        statuses: dict[str, str] = {}
        for file in self.sources:
            results = self.workspace / "mutants" / f"{file}.meta"
            if results.is_file():
                codes = json.loads(results.read_text(encoding="utf-8"))["exit_code_by_key"]
                statuses |= {name: status_by_exit_code[code] for name, code in codes.items()}
        return {name: status for name, status in statuses.items() if status != "not checked"}

    def forget_survivors(self) -> None:
        """Make mutmut try the faults again that were not noticed."""
        for results in self.workspace.rglob("*.meta"):
            contents = json.loads(results.read_text(encoding="utf-8"))
            codes = contents["exit_code_by_key"]
            for name, code in codes.items():
                if status_by_exit_code[code] not in NOTICED:
                    codes[name] = None
            results.write_text(json.dumps(contents), encoding="utf-8")

    def run(self, names: list[str]) -> None:
        """Try these faults, one after another; without names, all faults not tried yet."""
        variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "tools"),
            "MUTATED_MODULES": " ".join(self.modules),
        }
        command = ["mutmut", "run", "--max-children", "1", *names]
        subprocess.run(command, cwd=self.workspace, env=variables, check=True)

    def called_at_import(self) -> set[str]:
        """Return the functions that importing the modules calls, as mutmut names them."""
        imports = "".join(f"import {module}\n" for module in self.modules)
        code = f"{TRACING}{imports}sys.setprofile(None)\nprint(*calls, sep=chr(10))"
        variables = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-c", code]
        calls = subprocess.check_output(command, env=variables, text=True).split()
        return {_mangled(*call.split(":")) for call in calls}

    def run_at_import(self, names: list[str]) -> None:
        """Try faults in functions that run at import, each in its own process.

        mutmut forks after the import, so a fault would not affect the tables built at import.
        """
        for file in self.sources:
            results = self.workspace / "mutants" / f"{file}.meta"
            if not results.is_file():
                continue
            contents = json.loads(results.read_text(encoding="utf-8"))
            codes = contents["exit_code_by_key"]
            for name in names:
                if name in codes and status_by_exit_code[codes[name]] not in NOTICED:
                    tests = ["-m", "pytest", "-x", "-q", *self.arguments, *self.selection]
                    # a fault that makes the import fail counts as noticed
                    codes[name] = int(self.fresh(tests, name).returncode != 0)
            results.write_text(json.dumps(contents), encoding="utf-8")

    def fresh(self, command: list[str], mutant: str) -> subprocess.CompletedProcess[str]:
        """Run Python on the copies, with the fault active from the start."""
        copies = self.workspace / "mutants"
        paths = [copies / "src", ROOT / "tools"]
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "MUTANT_UNDER_TEST": mutant,
        }
        return subprocess.run(
            [sys.executable, *command],
            cwd=copies,
            env=variables,
            check=False,
            capture_output=True,
            text=True,
        )

    def survivor(self, name: str) -> Survivor:
        """Return the changed lines of a fault."""
        module, _, mutant = name.rpartition(".")
        path = Path("src", *module.split(".")).with_suffix(".py")
        diff = get_diff_for_mutant(name, path=path).splitlines()[2:]
        return Survivor(
            "/".join(path.parts[2:]),
            mutant.rpartition("__mutmut_")[0][2:].replace("ǁ", "."),
            _changed(diff, "-"),
            _changed(diff, "+"),
        )


def _mangled(module: str, function: str) -> str:
    name = function.partition(".<locals>")[0]
    if "." in name:
        return f"{module}.xǁ{name.replace('.', 'ǁ')}"
    return f"{module}.x_{name}"


def _without_slow() -> str:
    names = tomllib.loads(LISTS.read_text(encoding="utf-8"))["slow"]
    return " and ".join(f"not {name}" for name in names)


def _changed(diff: list[str], sign: str) -> str:
    return " ".join(line[1:].strip() for line in diff if line.startswith(sign))


def listed(target: Target) -> dict[Survivor, str]:
    """Return the listed faults of a target, which need not be noticed, with the reasons."""
    entries = tomllib.loads(LISTS.read_text(encoding="utf-8")).get("survivor", [])
    modules = {file.relative_to("src/weighbridge").as_posix() for file in target.sources}
    return {
        Survivor(*(entry[field] for field in Survivor._fields)): entry["reason"]
        for entry in entries
        if entry["module"] in modules
    }


def chosen(target: Target, options: argparse.Namespace) -> list[str]:
    """Return the names of the requested faults."""
    names = target.mutants()
    if options.match:
        names = [name for name in names if fnmatch.fnmatch(name, f"*{options.match}*")]
    return names[:: options.every]


def main(arguments: list[str] | None = None) -> int:
    """Try the faults of a room or module, print what survives, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", help="a room or a module of a room: ledger, guessing/unknowns")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--match", metavar="PATTERN")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args(arguments)
    target = Target(options.target)
    is_all = options.every == 1 and not options.match
    if options.again:
        target.forget_survivors()
    elif is_all:
        shutil.rmtree(target.workspace, ignore_errors=True)
    target.prepare()
    os.chdir(target.workspace)  # mutmut looks for its files below the working directory
    names = chosen(target, options)
    called = target.called_at_import()
    at_import = [name for name in names if name.rpartition("__mutmut_")[0] in called]
    others = (
        sorted({*names}.difference(at_import)) or at_import[:1]
    )  # without names, mutmut runs all
    target.run([] if options.again and is_all else others)
    target.run_at_import(at_import)
    return report(target, names, is_all=is_all)


def report(target: Target, names: list[str], *, is_all: bool) -> int:
    """Print how many faults were noticed and which were not; return the exit status."""
    statuses = target.statuses()
    surviving = [target.survivor(name) for name in names if statuses.get(name) not in NOTICED]
    reasons = listed(target)
    unlisted = [survivor for survivor in surviving if survivor not in reasons]
    outdated = set(reasons).difference(surviving) if is_all else set()
    for survivor in unlisted:
        print(f"\n{survivor}")
    for survivor in sorted(outdated):
        print(f"\n# listed in {LISTS.name}, but it does not survive\n{survivor}")
    noticed = len(names) - len(surviving)
    percent = 100 * noticed / max(len(names), 1)
    print(
        f"\n{target.name}: {len(names)} faults, {noticed} noticed ({percent:.1f}%), "
        f"{len(surviving)} not, {len(unlisted)} of these not listed in {LISTS.name}"
    )
    return int(percent < LEAST_NOTICED or bool(unlisted) or bool(outdated))


if __name__ == "__main__":
    sys.exit(main())
