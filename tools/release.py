"""Checks what must hold of a release: one version everywhere, a small wheel, a quick start.

``python tools/release.py --wheel FOLDER`` checks the wheel in FOLDER; with ``--tag v1.2.3`` the tag
must name the version, and nothing may be unreleased. The limits are ``[tool.weighbridge.limits]``
of pyproject.toml. A start is measured by the modules that it imports beyond those of an empty
Python: no busy machine changes that. Prints the figures, and a line on stderr for each fault; the
exit status is then 1.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import weighbridge

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^## (Unreleased|(\d+\.\d+\.\d+) - \d{4}-\d{2}-\d{2})$", re.MULTILINE)
MIB = 2**20


def sections(changelog: str) -> list[str]:
    r"""Return what the changelog's sections are called: versions, or Unreleased.

    >>> sections("# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-01-31\n")
    ['Unreleased', '0.1.0']
    """
    return [version or "Unreleased" for _, version in SECTION.findall(changelog)]


def disagreements(version: str, changelog: str, tag: str = "") -> Iterator[str]:
    r"""Yield a line for each place that says another version.

    >>> list(disagreements("1.0.0", "## 1.0.0 - 2026-12-01\n", tag="v1.0.0"))
    []
    >>> list(disagreements("1.0.0", "## 0.9.0 - 2026-12-01\n"))
    ['CHANGELOG.md begins with 0.9.0, the package is 1.0.0']
    """
    written = sections(changelog)
    if not written:
        yield "CHANGELOG.md has neither an Unreleased section nor a dated one"
    elif written[0] not in {"Unreleased", version}:
        yield f"CHANGELOG.md begins with {written[0]}, the package is {version}"
    if tag and tag != f"v{version}":
        yield f"the tag is {tag}, the package is {version}"
    if tag and "Unreleased" in written:
        yield "CHANGELOG.md has unreleased changes: date the section"


def wheel_faults(version: str, folder: Path, most: float) -> Iterator[str]:
    """Yield a line if a folder has no wheel, one of another version, or one over ``most`` MiB."""
    wheels = sorted(folder.glob("weighbridge-*.whl"))
    if not wheels:
        yield f"{folder} has no wheel of weighbridge"
    for wheel in wheels:
        built, size = wheel.name.split("-")[1], wheel.stat().st_size / MIB
        print(f"{wheel.name}: {size:.1f} MiB, at most {most}")
        if built != version:
            yield f"{wheel.name} has the version {built}, the package is {version}"
        if size > most:
            yield f"{wheel.name} takes {size:.1f} MiB, more than {most}"


def modules_at_start() -> int:
    """Return how many modules weighing a model by name imports beyond those of an empty Python."""
    return _imported("-m", "weighbridge", "bert-base-chinese") - _imported("-c", "pass")


def _imported(*command: str) -> int:
    timed = [sys.executable, "-X", "importtime", *command]
    return len(subprocess.run(timed, capture_output=True, check=True).stderr.splitlines())


def start_faults(modules: int, most: int) -> Iterator[str]:
    """Yield a line if a start imports more than ``most`` modules."""
    print(f"a start imports {modules} modules, at most {most}")
    if modules > most:
        yield f"a start imports {modules} modules, more than {most}"


def main() -> int:
    """Print the figures and the faults; return 1 if there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tag", default="", help="the tag of a release, v1.2.3")
    parser.add_argument("--wheel", type=Path, metavar="FOLDER", help="the folder of a built wheel")
    chosen = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    limits = project["tool"]["weighbridge"]["limits"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    faults = list(disagreements(weighbridge.__version__, changelog, chosen.tag))
    faults += start_faults(modules_at_start(), limits["modules_at_start"])
    if chosen.wheel:
        faults += wheel_faults(weighbridge.__version__, chosen.wheel, limits["wheel_mib"])
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
