"""All of the package's tables in the format of a wheel: read faster than their TOML sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge import data
from weighbridge.blueprint import roles, schema
from weighbridge.models import catalogue, libraries

if TYPE_CHECKING:
    from collections.abc import Iterator


def compiled_tables() -> Iterator[tuple[str, bytes]]:
    """Yield the path inside `data.COMPILED` and the content of every compiled table.

    The package must lie in a folder. From a wheel, its own compiled tables come out again.
    """
    for path in data.toml_paths():
        if path != catalogue.PATH:  # compiled entry by entry below
            yield path, data.marshalled(data.read_toml(path))
    of_libraries = [
        f"{library}/{name}"
        for library in set(libraries.LIBRARIES.values())
        for name in schema.library_names(library)
    ]
    for family in (*schema.families(), *of_libraries):
        trees = data.marshalled(schema.parsed_expressions(family))
        yield f"{data.PREPARED}/{family}.trees", trees
    for name, content in catalogue.compiled_files().items():
        yield f"{data.PREPARED}/{name}", content
    yield f"{data.PREPARED}/roles", data.marshalled(roles.patterns_by_piece())
