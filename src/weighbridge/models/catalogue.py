"""The catalogue of released models: the family, the class and the config of each name.

It is long, and most answers need one entry, so single entries can be loaded. In a checkout, the
table of the entry is cut out of the TOML. A wheel has two files: the names, with a line per model
that ends with the start and length of its entry; and the entries, each marshalled separately.
"""

from __future__ import annotations

from functools import cache

from weighbridge import data
from weighbridge.blueprint import schema as blueprints
from weighbridge.errors import SeveralModelsError, UnknownNameError, nearest, shorten
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.models.names import Matches

PATH = "facts/models.toml"
"""The path of the catalogue in the data."""

_NAMES = "models.names"
_ENTRIES = "models.entries"
_MOST_SUGGESTIONS = 6  # in a longer list, users overlook the name that they meant


def released() -> dict[str, dict[str, Any]]:
    """Return the catalogue: the family, class, config, parameters and source of each model.

    ``parameters`` counts the class if it is generative, otherwise the base class;
    ``base_parameters`` counts the base class, if that differs. ``released_parameters`` counts the
    checkpoint, if transformers counts differently, and ``released_reason`` says why. ``how`` is the
    form of the config in the source: ``"verbatim"``, ``"copy"``, ``"reconstructed"`` or
    ``"default"``. The dict is a copy: changing it changes no answer.

    Example:
        >>> released()["google-bert/bert-base-chinese"]["parameters"]
        102267648
    """
    if data.is_compiled():
        return {name: _compiled_entry(place) for name, _, place in _compiled_names()}
    from copy import deepcopy  # noqa: PLC0415

    return deepcopy(data.read_toml(PATH))


def full_names() -> dict[str, str]:
    """Return the full name of each model by all its names, in lower case.

    The names are the full name, the name without the organisation, and the aliases.

    Example:
        >>> full_names()["bert-base-chinese"]
        'google-bert/bert-base-chinese'
    """
    listed = _table_names()
    if data.is_compiled():
        listed = _compiled_names()
    return {name: full_name for full_name, names, _ in listed for name in names}


def entry_of(name: str) -> tuple[str, dict[str, Any]] | None:
    """Return the full name and entry of the model with a name in `full_names`, in any case.

    Example:
        >>> entry_of("BERT-base-chinese")[0]
        'google-bert/bert-base-chinese'
    """
    if '"' in name or name.split() != [name]:  # these characters end a stored name
        return None
    if data.is_compiled():
        return _find_compiled(name.lower())
    return _find_table(name.lower())


@cache
def releases_by_family() -> Mapping[str, list[dict[str, Any]]]:
    """Return the entries of all released models by their family. They are shared.

    The number of a family's releases shows how much it is used, and decides between families if
    nothing else does.

    Example:
        >>> len(releases_by_family()["bert"]) > 50
        True
    """
    families: dict[str, list[dict[str, Any]]] = {}
    for entry in released().values():
        families.setdefault(entry["family"], []).append(entry)
    return families


def entry_config(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of an entry, as in a config.json.

    Example:
        >>> _, entry = entry_of("bert-base-chinese")
        >>> entry_config(entry)["architectures"]
        ['BertForMaskedLM']
    """
    return {
        **entry["config"],
        **dict.fromkeys(entry.get("null", ())),
        "model_type": entry["family"],
        "architectures": [entry["class"]],
    }


def _names(full_name: str, aliases: Iterable[str]) -> list[str]:
    """Return the names of a model in lower case, each once."""
    names = (full_name, full_name.rpartition("/")[2], *aliases)
    return list(dict.fromkeys(name.lower() for name in names))


# In a wheel


def compiled_files() -> dict[str, bytes]:
    """Return the two files of the catalogue in a wheel, by name."""
    lines, entries = [""], b""
    for full_name, entry in data.read_toml(PATH).items():
        content = data.marshalled(entry)
        names = _names(full_name, entry.get("aliases", ()))
        lines.append("\t".join((full_name, *names, f"{len(entries)} {len(content)}")))
        entries += content
    return {_NAMES: data.marshalled("\n".join(lines)), _ENTRIES: entries}


def _find_compiled(name: str) -> tuple[str, dict[str, Any]] | None:
    text: str = data.read_prepared(_NAMES)
    at = text.find(f"\t{name}\t")
    if at < 0:
        return None
    line, _, _ = text[text.rfind("\n", 0, at) + 1 :].partition("\n")
    full_name, *_, place = line.split("\t")
    return full_name, _compiled_entry(place)


def _compiled_names() -> Iterator[tuple[str, list[str], str]]:
    """Yield the full name, the names in lower case and the place of each entry."""
    for line in data.read_prepared(_NAMES).splitlines()[1:]:
        full_name, *names, place = line.split("\t")
        yield full_name, names, place


def _compiled_entry(place: str) -> dict[str, Any]:
    start, length = place.split(" ")
    entry: dict[str, Any] = data.read_prepared(_ENTRIES, int(start), int(length))
    return entry


# In a checkout


def _find_table(name: str) -> tuple[str, dict[str, Any]] | None:
    text, lowered = data.read_text(PATH), _lowered()
    header, aliases = '["', "aliases = ["
    for mark, lines in ((f'"{name}"', (header, aliases)), (f'/{name}"', (header,))):
        at = lowered.find(mark)
        while at >= 0:
            line_start = lowered.rfind("\n", 0, at) + 1
            if lowered.startswith(lines, line_start):
                return _parsed_table(text, line_start)
            at = lowered.find(mark, at + 1)
    return None


@cache
def _lowered() -> str:
    return data.read_text(PATH).lower()


def _table_names() -> Iterator[tuple[str, list[str], str]]:
    """Yield the full name, the names in lower case and the text of each table."""
    for table in data.read_text(PATH).split('\n\n["')[1:]:
        full_name = table[: table.index('"')]
        _, _, aliases = table.partition("\naliases = [")
        aliases, _, _ = aliases.partition("]")
        yield full_name, _names(full_name, aliases.split('"')[1::2]), table


@cache
def _parsed_table(text: str, at: int) -> tuple[str, dict[str, Any]]:
    """Return the name and entry of the table with this line, without parsing anything else.

    The entry is shared.
    """
    import tomllib  # noqa: PLC0415  # a wheel does without

    start = text.rfind('\n["', 0, at + len('["')) + 1
    end = text.find("\n\n", start)
    if end < 0:
        end = len(text)
    ((full_name, entry),) = tomllib.loads(text[start:end]).items()
    return full_name, entry


# Looking up what a user typed


def look_up(name: str) -> tuple[str, dict[str, Any]]:
    """Return the full name and the entry of a released model.

    A model is found by its full name, its name without the organisation, or an alias, in any case
    and with any separators; also by a beginning of these that no other model has.
    The words after that beginning must not name another model, as "turbo" does.

    Raises:
        UnknownNameError: no model has this name, or several begin with it.
    """
    found = entry_of(name)
    if found:
        return found
    from weighbridge.models.names import search  # noqa: PLC0415  # most names are spelled exactly

    matches = search(name, full_names(), lambda model: look_up(model)[1])
    is_family = bool(_families_named(name)) and not matches.is_exact
    if is_family or not matches.is_meant:
        raise _not_found(name, matches)
    return look_up(matches.models[0])


def _not_found(name: str, matches: Matches) -> UnknownNameError:
    """Return the error for a name, with similar names and the other kinds of arguments."""
    families = _families_named(name)
    models = matches.models[: _MOST_SUGGESTIONS - len(families)]
    more = len(matches.models) - len(models)
    suggestions = [*families, *models]
    if not matches.begins and not families:
        suggestions += _near_families(name)
    near = ", ".join(suggestions[:_MOST_SUGGESTIONS])
    hint = f"did you mean {near}?"
    if more:
        hint = f"did you mean {near} or one of {more} more?"
    if matches.begins and len(suggestions) > 1:
        return SeveralModelsError("several models fit this name", where=shorten(name), hint=hint)
    address = "hf://org/name"
    if name.isprintable() and name.count("/") == 1 and " " not in name:
        address = f"hf://{shorten(name, str)}"
    ways = (
        f"`weighbridge {address}` (needs weighbridge[remote]), the path of a config.json, or a "
        "family with its sizes, `weighbridge llama --set hidden_size=4096`"
    )
    if suggestions:
        hint = f"{hint} Other ways: {ways}"
    else:
        hint = f"give {ways}; `weighbridge models` lists the names"
    return UnknownNameError(
        "no model, family or file has this name", where=shorten(name), hint=hint
    )


def _families_named(name: str) -> list[str]:
    """Return the family with a name in any case and with any separators, if there is one."""
    from weighbridge.models.names import normal_form  # noqa: PLC0415

    wanted = normal_form(name)
    return [family for family in blueprints.families() if normal_form(family) == wanted]


def _near_families(name: str) -> list[str]:
    """Return the families whose names differ from this one in one or two letters."""
    from weighbridge.models.names import normal_form  # noqa: PLC0415

    families = {normal_form(family): family for family in blueprints.families()}
    return [families[form] for form in nearest(families, normal_form(name))]
