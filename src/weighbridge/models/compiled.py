"""All of the package's tables in the format of a wheel: read faster than their TOML sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge import data
from weighbridge.blueprint import evidence, roles, schema
from weighbridge.models import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLUEPRINTS = "blueprints/"


def compiled_tables() -> Iterator[tuple[str, bytes]]:
    """Yield the path inside `data.COMPILED` and the content of every compiled table.

    The package must lie in a folder. From a wheel, its own compiled tables come out again.
    """
    for path in data.toml_paths():
        if path != catalogue.PATH:  # compiled entry by entry below
            yield path, data.marshalled(data.read_toml(path))
        if path.startswith(_BLUEPRINTS):
            place = path.removeprefix(_BLUEPRINTS).removesuffix(".toml")
            trees = data.marshalled(schema.parsed_expressions(place))
            yield f"{data.PREPARED}/{place}.trees", trees
    for name, content in catalogue.compiled_files().items():
        yield f"{data.PREPARED}/{name}", content
    yield f"{data.PREPARED}/evidence", data.marshalled(evidence.read_evidence())
    yield f"{data.PREPARED}/roles", data.marshalled(roles.patterns_by_piece())
