"""Python's library for the browser: what is compiled, and that nothing is left out that we use."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from sites import built, needs_browser

import weighbridge
from weighbridge.site.archive import NOT_IN_BROWSERS, package_files
from weighbridge.site.library import LEFT_OUT, packed_library

SOURCES = {
    "one.py": '"""What it is."""\nimport two\nnumber = two.number + 1\n',
    "two.py": "number = 1\n",
    "pdb.py": "number = 0\n",
}
# Imports modules, none of which may import what is left out.
WITHOUT = """
import importlib, sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        file = name.replace(".", "/")
        if f"{file}.py" in left_out or f"{file}/" in left_out:
            raise RuntimeError(f"{name} is imported, and is not in the browser")

left_out = set(sys.argv[1].split())
sys.meta_path.insert(0, Refuse())
for name in sys.argv[2:]:
    importlib.import_module(name)
"""


def test_a_compiled_module_is_imported_and_a_source_too(tmp_path: Path) -> None:
    library = io.BytesIO()
    with zipfile.ZipFile(library, "w") as file:
        for name, source in SOURCES.items():
            file.writestr(name, source)
    packed = tmp_path / "library.zip"
    packed.write_bytes(packed_library(library.getvalue(), {"one.py"}))
    with zipfile.ZipFile(packed) as file:
        assert set(file.namelist()) == {"one.pyc", "two.py"}
    code = "import sys; sys.path.insert(0, sys.argv[1]); import one; print(one.number, one.__doc__)"
    command = [sys.executable, "-I", "-c", code, str(packed)]
    assert subprocess.run(command, capture_output=True, check=True).stdout.split() == [
        b"2",
        b"None",
    ]


def test_nothing_that_the_site_imports_is_left_out() -> None:
    """All modules of the archive are imported, and what they import at their head."""
    names = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in package_files(NOT_IN_BROWSERS)
        if name.startswith("weighbridge/") and name.endswith(".py")
    ]
    names = [name for name in names if not name.endswith("__main__")]
    assert len(names) > 200
    root = str(Path(weighbridge.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {root!r})\n{WITHOUT}"
    command = [sys.executable, "-c", code, " ".join(LEFT_OUT), *names]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-500:]


@pytest.mark.slow
def test_what_python_imports_while_it_starts_is_compiled(tmp_path: Path) -> None:
    needs_browser()  # and so node and Pyodide
    site = built(tmp_path / "site")
    with zipfile.ZipFile(site / "pyodide" / "python_stdlib.zip") as file:
        names = set(file.namelist())
    assert {"typing.pyc", "asyncio/events.pyc", "_pyodide/_base.pyc"} <= names
    assert not {"typing.py", "asyncio/events.py", "pdb.py"} & names
    assert "difflib.py" in names
