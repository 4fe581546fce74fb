"""Writes a JSON Schema of what each command prints with ``--json``, learned from what it prints.

``python tools/schemas.py`` runs the command lines of ``tools/schemas.toml`` and writes
``docs/reference/schemas/COMMAND.json``; ``--check`` compares instead, and the exit status is 1 if
a command prints something else than its schema says. Those of the data files, ``blueprint.json``,
``operations.json`` and ``flow.json``, are learned from all files that are shipped.

Some commands need files: ``{made}`` is a folder with a small BERT of each class, and ``texts.csv``.

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
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.cli import main as run
from weighbridge.cli.output import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "docs" / "reference" / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
HOME = "https://github.com/weighbridge/weighbridge/blob/main/docs/reference/schemas"
DATA = ROOT / "src" / "weighbridge" / "data"
TEXTS = ("a truck", "a truck is", "is weighed", "a", "truck", "is is", "a a a", "weighed a")
_MADE = "{made}"
SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class Shape(NamedTuple):
    """What cannot be told from values: keys that are data, and lists that hold their own kind.

    Args:
        maps: the keys whose value is a table from names to values; "" is the whole.
        nested: the keys of lists whose items hold the same list again, such as a tree's modules.
        free: the keys whose value is anything, such as a config.
    """

    maps: frozenset[str] = frozenset()
    nested: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()


def learned(values: Sequence[Any], shape: Shape | None = None) -> dict[str, Any]:
    """Return the narrowest schema, of the kinds this tool knows, that all values fit.

    >>> learned([{"a": 1, "b": [0.5, 2]}, {"a": None}])["required"]
    ['a']
    >>> learned([[], [3]])
    {'type': 'array', 'items': {'type': 'integer'}}
    """
    shape = shape or Shape()
    tables = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    scalars = sorted({SCALARS[type(value)] for value in values if type(value) in SCALARS})
    if "number" in scalars and "integer" in scalars:
        scalars.remove("integer")
    kinds = [*scalars, *(["object"] if tables else []), *(["array"] if lists else [])]
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
    if tables:
        schema |= _record(tables, shape)
    if lists:
        schema["items"] = learned([item for items in lists for item in items], shape)
    return schema


def _record(tables: Sequence[Mapping[str, Any]], shape: Shape) -> dict[str, Any]:
    keys = list(dict.fromkeys(key for table in tables for key in table))
    properties = {
        key: _of_key(key, [table[key] for table in tables if key in table], shape) for key in keys
    }
    required = [key for key in keys if all(key in table for table in tables)]
    return {"properties": properties, "required": required}


def _of_key(key: str, values: Sequence[Any], shape: Shape) -> dict[str, Any]:
    if key in shape.free:
        return {}
    if key in shape.nested:
        kinds = learned([[] if isinstance(value, list) else value for value in values], shape)
        return {**kinds, "items": {"$ref": f"#/$defs/{key}"}}
    tables = [value for value in values if isinstance(value, dict)]
    if key not in shape.maps or not tables:
        return learned(values, shape)
    kinds = learned([None if isinstance(value, dict) else value for value in values], shape)
    others = [kind for kind in _listed(kinds["type"]) if kind != "null" or None in values]
    below = learned([inner for table in tables for inner in table.values()], shape)
    types = [*others, "object"] if others else "object"
    return {**kinds, "type": types, "additionalProperties": below}


def _listed(kinds: str | list[str]) -> list[str]:
    return [kinds] if isinstance(kinds, str) else kinds


def items_of(value: Any, key: str) -> Iterator[Any]:
    """Yield the items of each list under a key, at any depth.

    >>> list(items_of({"modules": [{"modules": [{"name": "a"}]}]}, "modules"))
    [{'modules': [{'name': 'a'}]}, {'name': 'a'}]
    """
    inner = value.items() if isinstance(value, dict) else ()
    for name, below in inner:
        if name == key and isinstance(below, list):
            yield from below
        yield from items_of(below, key)
    if isinstance(value, list):
        for below in value:
            yield from items_of(below, key)


def schema_of(values: Sequence[Any], shape: Shape) -> dict[str, Any]:
    """Return a whole schema of values, with a definition of each list that holds its own kind."""
    schema = _of_key("", values, shape)
    if shape.nested:
        schema["$defs"] = {
            key: learned(list(items_of(values, key)), shape) for key in sorted(shape.nested)
        }
    return schema


@cache
def made() -> Path:
    """Return a folder with what some commands need: small BERTs, and texts with labels."""
    import small_bert  # noqa: PLC0415  # it imports torch

    from weighbridge.torch.bert import CLASSES  # noqa: PLC0415

    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for class_name in CLASSES:
        small_bert.write(folder / class_name, class_name)
    rows = [f"{text},{'xy'[len(text) % 2]}" for text in TEXTS]
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    return folder


def printed(line: str) -> Any:
    """Return what a command line prints as JSON.

    Raises:
        SystemExit: the command line failed; the message has what it wrote to stderr.
    """
    if _MADE in line:
        line = line.replace(_MADE, made().as_posix())
    words = shlex.split(line)
    form = ["--format", "json"] if words[0] == "formula" else ["--json"]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([*words, *form])
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
        shape = Shape(*(frozenset(entry.get(kind, ())) for kind in Shape._fields))
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
