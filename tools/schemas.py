"""Writes a JSON Schema of what each command prints with ``--json``, learned from what it prints.

``python tools/schemas.py`` runs the command lines of ``tools/schemas.toml`` and writes
``docs/reference/schemas/COMMAND.json``; ``--check`` compares instead, and the exit status is 1 if
a command prints something else than its schema says. Those of the data files, ``blueprint.json``,
``operations.json`` and ``flow.json``, are learned from all files that are shipped.

Some commands need files: ``{made}`` is a folder with a small BERT of each class, and ``texts.csv``;
``{site}`` is one with files that have the names of Pyodide's, which `site` copies as they are;
``{timm}`` is one with a config of timm.

A key that all outputs have is required; one that some have is not. A key that is new in an output
changes the schema, so that nothing is added or lost unseen. Adding a key keeps the version of a
schema. Whoever renames or removes one, or changes its type, raises the version: that of
commands, which is in their output too, is `weighbridge.cli.output.SCHEMA_VERSION`; those of files
are in `schemas.toml`.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import io
import json
import shlex
import shutil
import sys
import tempfile
import tomllib
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.cli import main as run
from weighbridge.cli.output import SCHEMA_VERSION
from weighbridge.site.build import PYODIDE, PYODIDE_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "docs" / "reference" / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
HOME = "https://github.com/weighbridge/weighbridge/blob/main/docs/reference/schemas"
DATA = ROOT / "src" / "weighbridge" / "data"
TEXTS = ("a truck", "a truck is", "is weighed", "a", "truck", "is is", "a a a", "weighed a")
SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class Shape(NamedTuple):
    """What cannot be told from values, by place.

    A place is a key, or the end of a path of keys with dots: ``run.checks``. ``[]`` are the items
    of a list, ``{}`` the values of a table whose keys are data. "" is the whole.

    Args:
        maps: the places of tables from names to values.
        free: the places where anything may be, such as a config.
        records: the places of lists that are records, with the names of their items, which are keys
            of places then; items after the named ones are alike.
        defined: the names of what may hold its own kind, such as a tree's modules, with its places;
            a place in a definition begins with its name.
    """

    maps: Sequence[str] = ()
    free: Sequence[str] = ()
    records: Mapping[str, Sequence[str]] = MappingProxyType({})
    defined: Mapping[str, Sequence[str]] = MappingProxyType({})

    def names_at(self, path: str) -> Sequence[str]:
        """Return the names of the items of a list that is a record, else none."""
        places = [place for place in self.records if _is_at(path, [place])]
        return self.records[max(places, key=len)] if places else ()

    def definition_at(self, path: str) -> str | None:
        """Return the name of what is defined once and stands at a path."""
        return next((name for name in self.defined if _is_at(path, self.defined[name])), None)


def _is_at(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.endswith(f".{place}") for place in places)


def learned(values: Sequence[Any], shape: Shape | None = None, path: str = "") -> dict[str, Any]:
    """Return the narrowest schema, of the kinds this tool knows, that all values at a path fit.

    >>> learned([{"a": 1, "b": [0.5, 2]}, {"a": None}])["required"]
    ['a']
    >>> learned([[], [3]])
    {'type': 'array', 'items': {'type': 'integer'}}
    """
    shape = shape or Shape()
    if _is_at(path, shape.free):
        return {}
    if name := shape.definition_at(path):
        return {"$ref": f"#/$defs/{name}"}
    return _written_out(values, shape, path)


def _written_out(values: Sequence[Any], shape: Shape, path: str) -> dict[str, Any]:
    """Return a schema of values that is no reference, whatever is defined at the path."""
    tables = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    scalars = sorted({SCALARS[type(value)] for value in values if type(value) in SCALARS})
    if "number" in scalars and "integer" in scalars:
        scalars.remove("integer")
    kinds = [*scalars, *(["object"] if tables else []), *(["array"] if lists else [])]
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
    if tables and _is_at(path, shape.maps):
        below = [inner for table in tables for inner in table.values()]
        schema["additionalProperties"] = learned(below, shape, f"{path}{{}}")
    elif tables:
        schema |= _of_keys(tables, shape, path)
    if lists:
        schema |= _of_items(lists, shape, path)
    return schema


def _of_keys(tables: Sequence[Mapping[str, Any]], shape: Shape, path: str) -> dict[str, Any]:
    keys = list(dict.fromkeys(key for table in tables for key in table))
    properties = {
        key: learned([table[key] for table in tables if key in table], shape, f"{path}.{key}")
        for key in keys
    }
    required = [key for key in keys if all(key in table for table in tables)]
    return {"properties": properties, "required": required}


def _of_items(lists: Sequence[Sequence[Any]], shape: Shape, path: str) -> dict[str, Any]:
    names = shape.names_at(path)
    places = [
        {
            "title": name,
            **learned([items[at] for items in lists if at < len(items)], shape, f"{path}.{name}"),
        }
        for at, name in enumerate(names)
    ]
    least = min(len(names), *map(len, lists))
    schema: dict[str, Any] = {"prefixItems": places, "minItems": least} if names else {}
    others = [item for items in lists for item in items[len(names) :]]
    if others or not names:
        schema["items"] = learned(others, shape, f"{path}[]")
    return schema


def _below(value: Any, shape: Shape, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each key's or item's path and value."""
    if isinstance(value, dict):
        is_map = _is_at(path, shape.maps)
        for key, inner in value.items():
            yield (f"{path}{{}}" if is_map else f"{path}.{key}"), inner
    if isinstance(value, list):
        names = shape.names_at(path)
        for at, inner in enumerate(value):
            yield (f"{path}.{names[at]}" if at < len(names) else f"{path}[]"), inner


def by_definition(value: Any, shape: Shape, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of all that is defined, at any depth.

    >>> trees = Shape(defined={"modules": ["modules[]"]})
    >>> list(by_definition({"modules": [{"modules": [{"name": "a"}]}]}, trees))
    [('modules', {'modules': [{'name': 'a'}]}), ('modules', {'name': 'a'})]
    """
    if _is_at(path, shape.free):
        return
    name = shape.definition_at(path)
    if name:
        yield name, value
        path = f".{name}"
    for inner_path, inner in _below(value, shape, path):
        yield from by_definition(inner, shape, inner_path)


def schema_of(values: Sequence[Any], shape: Shape) -> dict[str, Any]:
    """Return a whole schema of values, with a definition of each kind that may hold itself."""
    schema = learned(values, shape)
    if shape.defined:
        found: dict[str, list[Any]] = {name: [] for name in sorted(shape.defined)}
        for value in values:
            for name, inner in by_definition(value, shape):
                found[name].append(inner)
        schema["$defs"] = {
            name: _written_out(inner, shape, f".{name}") for name, inner in found.items()
        }
    return schema


@cache
def made() -> Path:
    """Return a folder with what some commands need: small BERTs, and texts with labels."""
    import small_bert  # noqa: PLC0415  # it imports torch

    from weighbridge.torch.bert import CLASSES  # noqa: PLC0415

    folder = _folder_until_exit()
    for class_name in CLASSES:
        small_bert.write(folder / class_name, class_name)
    rows = [f"{text},{'xy'[len(text) % 2]}" for text in TEXTS]
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    return folder


@cache
def pyodide() -> Path:
    """Return a folder with a ``pyodide`` of empty files, of the release that `site` asks for."""
    folder = _folder_until_exit()
    (folder / "pyodide").mkdir()
    for name in PYODIDE_FILES:
        (folder / "pyodide" / name).touch()
    package = json.dumps({"version": f"{PYODIDE}.0"})
    (folder / "pyodide" / "package.json").write_text(package, encoding="utf-8")
    return folder


@cache
def timm() -> Path:
    """Return a folder with a config as timm writes it."""
    folder = _folder_until_exit()
    config = {"architecture": "convnext_atto", "pretrained_cfg": {}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def _folder_until_exit() -> Path:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_FOLDERS = {"{made}": made, "{site}": pyodide, "{timm}": timm}


def printed(line: str) -> Any:
    """Return what a command line prints as JSON.

    Raises:
        SystemExit: the command line failed; the message has what it wrote to stderr.
    """
    for mark, folder in _FOLDERS.items():
        if mark in line:
            line = line.replace(mark, folder().as_posix())
    words = shlex.split(line)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([*words, "--json"])
    if status not in {0, 1}:
        raise SystemExit(f"weighbridge {line}: exit status {status}: {err.getvalue()}")
    return json.loads(out.getvalue())


def schemas(names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the schema of each command or data file, all of them without names."""
    wanted = set(names)
    known = tomllib.loads((ROOT / "tools" / "schemas.toml").read_text(encoding="utf-8"))
    for name, entry in known.items():
        if wanted and name not in wanted:
            continue
        values = [printed(line) for line in entry.get("runs", ())]
        for folder in entry.get("files", ()):
            files = sorted((DATA / folder).glob("*.toml"))
            values += [tomllib.loads(file.read_text(encoding="utf-8")) for file in files]
        title = entry.get("title", f"What `weighbridge {name} --json` prints")
        head = {"$schema": DRAFT, "$id": f"{HOME}/{name}.json", "title": title}
        version = {"version": entry.get("version", SCHEMA_VERSION)}
        shape = Shape(**{kind: entry[kind] for kind in Shape._fields if kind in entry})
        yield name, {**head, **version, **schema_of(values, shape)}


def main() -> int:
    """Write the schemas, or compare them; return 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="commands or data files; all if left out")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    chosen = parser.parse_args()
    differing = []
    for name, schema in schemas(chosen.names):
        text = json.dumps(schema, indent=2) + "\n"
        path = SCHEMAS / f"{name}.json"
        if not chosen.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            differing.append(name)
    for name in differing:
        print(f"{name}: prints something else than its schema says", file=sys.stderr)
    if differing:
        print("run tools/schemas.py, and read what changed", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
