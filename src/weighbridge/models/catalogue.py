"""The catalogue of released models: the family, the class and the config of each name."""

from __future__ import annotations

from weighbridge import data
from weighbridge.blueprint import schema as blueprints
from weighbridge.errors import ModelError, nearest, shorten
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_CATALOGUE = "facts/models.toml"
_MOST_SUGGESTIONS = 6  # a longer list hides the name that the user meant


def released() -> dict[str, dict[str, Any]]:
    """Return the catalogue: the family, class, config, parameters and source of each model.

    The parameters are those of the base class. The dict is a copy: changing it changes no answer.

    Example:
        >>> released()["google-bert/bert-base-chinese"]["parameters"]
        102267648
    """
    from copy import deepcopy  # noqa: PLC0415

    return deepcopy(data.read_toml(_CATALOGUE))


def look_up(name: str) -> tuple[str, dict[str, Any]]:
    """Return the full name and the entry of a released model.

    A model is found by its full name, its name without the organisation, an alias, or the beginning
    of any of these that no other model shares.

    Raises:
        ModelError: no model has this name, or several begin with it.
    """
    entry = _entry_alone(name)
    if entry:
        return entry
    catalogue = data.read_toml(_CATALOGUE)
    full_names = {
        alias.lower(): full_name
        for full_name in catalogue
        for alias in _aliases(full_name, catalogue[full_name])
    }
    matches = _matches(full_names, name.lower())
    if len(matches) == 1:
        return matches[0], catalogue[matches[0]]
    raise _not_found(name, matches, full_names)


def _entry_alone(name: str) -> tuple[str, dict[str, Any]] | None:
    """Return the entry of a name as the catalogue spells it, and parse nothing but its table.

    The catalogue is long, and each table in it begins with the model's name on a line of its own.
    """
    if data.is_compiled():  # all of it is read as quickly
        return None
    text = data.read_text(_CATALOGUE)
    header = f'["{name}"]\n'
    if "/" not in name:
        header = f'/{name}"]\n'
    at = text.find(header)
    start = text.rfind("\n", 0, at) + 1
    # Another line than a table's first may end as a header does.
    if not name or at < 0 or "\n" in name or text[start] != "[":
        return None
    import tomllib  # noqa: PLC0415

    end = text.find("\n\n", start) + 1 or None
    ((full_name, entry),) = tomllib.loads(text[start:end]).items()
    return full_name, entry


def _aliases(full_name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    yield full_name
    yield full_name.rpartition("/")[2]
    yield from entry.get("aliases", ())


def _matches(full_names: Mapping[str, str], name: str) -> list[str]:
    """Return the model that has a name, or the models with a name that begins so."""
    if name in full_names:
        return [full_names[name]]
    if not name:
        return []
    matches = {full_name for alias, full_name in full_names.items() if alias.startswith(name)}
    return sorted(sorted(matches), key=len)


def _not_found(name: str, matches: list[str], full_names: Mapping[str, str]) -> ModelError:
    what = "no model, family or file is named so"
    if matches:
        what = "several models begin so"
    near = (
        matches[:_MOST_SUGGESTIONS]
        or nearest(full_names, name)
        or nearest(blueprints.families(), name)
    )
    hint = "`weighbridge models` lists the names; a config.json can be given by its path"
    if near:
        suggestions = ", ".join(dict.fromkeys(full_names.get(alias, alias) for alias in near))
        more = ""
        if len(matches) > len(near):
            more = f" or one of {len(matches) - len(near)} more"
        hint = f"did you mean {suggestions}{more}?"
    return ModelError(what, where=shorten(name), hint=hint)
