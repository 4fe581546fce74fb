"""The package works from a zip file: on Spark's workers, and in the browser."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import weighbridge
from weighbridge.site.archive import package_zip

PACKAGE = Path(weighbridge.__file__).parent
TINY = PACKAGE.parents[1] / "tests" / "hostile" / "sound.safetensors"

# Runs each command line of its arguments, and prints where the package was imported from.
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import weighbridge.cli
print(weighbridge.__file__.startswith(sys.argv[1]), file=sys.stderr)
for line in sys.argv[2:]:
    print(weighbridge.cli.main(line.split()))
"""
LINES = (
    "weigh bert-base-chinese",
    "weigh llama",
    "weigh bert-base-chines",
    "explain bert --lang zh",
    "cost bert-base-uncased",
    "families deepseek_v3",
    "models --lang zh",
    "completion bash",
    f"inspect {TINY}",
    f"guess {TINY}",
)


@pytest.fixture(scope="module", params=["a checkout", "a wheel"])
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package in a zip file, without or with compiled tables."""
    path = tmp_path_factory.mktemp("zip") / "weighbridge.zip"
    if request.param == "a wheel":
        path.write_bytes(package_zip())
        return path
    with zipfile.ZipFile(path, "w") as file:
        for source in sorted(PACKAGE.rglob("*")):
            if source.suffix != ".pyc":
                file.write(source, source.relative_to(PACKAGE.parent))
    return path


def run(place: Path | str, lines: tuple[str, ...] = LINES) -> tuple[str, str]:
    """Return what the command lines print with the package at a place, on stdout and stderr."""
    command = [sys.executable, "-I", "-c", SCRIPT, str(place), *lines]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout, ran.stderr


@pytest.fixture(scope="module")
def expected() -> tuple[str, str]:
    """Return what the command lines print with the package in its folder."""
    return run(PACKAGE.parent)


def test_the_answers_are_the_same_from_a_zip_file(archive: Path, expected: tuple[str, str]) -> None:
    out, messages = run(archive)
    assert messages == expected[1]
    assert messages.startswith("True\n")
    assert out == expected[0]


def test_the_path_of_the_zip_file_may_have_a_dot_in_it(archive: Path) -> None:
    """Spark's workers have the folder of the files that they were sent as `FOLDER/.`."""
    lines = (f"inspect {TINY}",)
    assert run(f"{archive.parent}/./{archive.name}", lines) == run(archive, lines)
