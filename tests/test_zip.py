"""The package works from a zip file: on Spark's workers, and in the browser."""

from __future__ import annotations

import io
import lzma
import marshal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import weighbridge
from weighbridge import data
from weighbridge.models.compiled import compiled_tables
from weighbridge.site.archive import package_zip

_DATA = "weighbridge/data/"
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


@pytest.fixture(scope="module", params=["a checkout", "a wheel", "the site"])
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package in a zip file: without compiled tables, with them, and in blocks."""
    path = tmp_path_factory.mktemp("zip") / "weighbridge.zip"
    if request.param != "a checkout":
        path.write_bytes(package_zip(for_site=request.param == "the site"))
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


def test_each_table_of_a_family_is_in_a_block_of_the_sites_archive() -> None:
    """Unpacked, all of them take 12 MB, and a browser keeps what it has taken."""
    with zipfile.ZipFile(io.BytesIO(package_zip(for_site=True))) as archive:
        files = {name.removeprefix(_DATA): archive.read(name) for name in archive.namelist()}
    compiled = {f"{data.COMPILED}/{path}": content for path, content in compiled_tables()}
    of_families = {path for path in compiled if data.table_family(path)}
    assert len(of_families) > 1000
    assert not of_families & set(files)
    inside = f"{data.COMPILED}/{data.BLOCKS}"
    first = marshal.loads(files[f"{inside}/first"])  # noqa: S302  # made a moment ago
    found: dict[str, bytes] = {}
    for number, family in enumerate(first):
        unpacked = lzma.decompress(files[f"{inside}/{number}.xz"], memlimit=4 << 20)
        assert len(unpacked) < 2 << 20
        block = marshal.loads(unpacked)  # noqa: S302  # made a moment ago
        assert min(map(data.table_family, block)) == family
        found |= block
    assert found == {path: compiled[path] for path in of_families}
    assert sum(map(len, files.values())) < 8_000_000
