"""The letter of each size, and what it counts: the table of `facts/symbols.toml`."""

from __future__ import annotations

import re
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import data
from weighbridge.data import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.blueprint.schema import Blueprint


class Symbol(NamedTuple):
    """The letter of a size, its place among the factors of a term, and what it counts, by language."""

    letter: str
    rank: int
    meaning: dict[str, str]


@cache
def symbols() -> dict[str, Symbol]:
    """Return the symbol of each config field that has one."""
    found = {}
    for rank, line in enumerate(data.read_toml("facts/symbols.toml")["symbols"].splitlines()):
        letter, *meanings, fields = (cell.strip() for cell in line.split("|"))
        symbol = Symbol(letter, rank, dict(zip(LANGUAGES, meanings, strict=True)))
        found.update(dict.fromkeys(fields.split(), symbol))
    return found


@cache
def letters_of(blueprint: Blueprint) -> Mapping[str, str]:
    """Return the letters of every number that a family's formulas may have: the one table of all that is written.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> letters_of(load("bert"))["hidden_size"]
        'H'
    """
    numbers = [
        field for field in blueprint.fields if blueprint.kinds[field] in (int, float, type(None))
    ]
    indices = {index for dim in blueprint.dims for index in re.findall(r" for (\w+) in ", dim)}
    return MappingProxyType(letters(numbers, indices.union(blueprint.repeat, blueprint.fields)))


def letters(fields: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return the letters of a model's fields, no two alike, in the order that a term's factors stand in.

    Of two fields of sub-configs that share a letter, each gets an index from its sub-config's name.
    A field without a letter, or whose letter another one has or is ``taken``, is left out.

    Example:
        >>> letters(["hidden_size", "vocab_size", "unheard_of"])
        {'vocab_size': 'V', 'hidden_size': 'H'}
        >>> letters(["text_config.hidden_size", "vision_config.hidden_size", "vision_config.patch_size"])
        {'text_config.hidden_size': 'H_t', 'vision_config.hidden_size': 'H_v', 'vision_config.patch_size': 'p'}
    """
    known, sharing = symbols(), dict[str, list[str]]()
    with_symbol = sorted(
        (known[_last(field)].rank, field) for field in fields if _last(field) in known
    )
    for _, field in with_symbol:
        sharing.setdefault(known[_last(field)].letter, []).append(field)
    found, free, taken = dict[str, str](), sharing.keys() - {*taken}, {*sharing, *taken}
    for letter, alike in sharing.items():
        plain = next(
            (field for field in alike if "." not in field), alike[0] if len(alike) == 1 else None
        )
        for field in alike:
            own = (
                letter
                if field == plain and letter in free
                else next((name for name in _indexed(letter, field) if name not in taken), None)
            )
            if own:
                found[field] = own
                taken.add(own)
    return found


def _indexed(letter: str, field: str) -> Iterator[str]:
    """Yield the letter with ever more of the sub-config's name as an index: H_v, H_vi, H_vis."""
    name = field.rpartition(".")[0].replace("_config", "").replace(".", "").replace("_", "")
    stem = letter if "_" in letter else f"{letter}_"
    yield from (stem + name[:end] for end in range(1, len(name) + 1))


def meaning_of(field: str, lang: str) -> str:
    """Return what a config field counts, in a language.

    Example:
        >>> meaning_of("hidden_size", "en"), meaning_of("vision_config.hidden_size", "en")
        ('hidden size', 'hidden size (vision_config)')
    """
    config, _, last = field.rpartition(".")
    symbol = symbols().get(last)
    if symbol is None:
        return field
    return f"{symbol.meaning[lang]} ({config})" if config else symbol.meaning[lang]


def _last(field: str) -> str:
    return field.rpartition(".")[2]
