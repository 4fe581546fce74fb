"""The letter and the meaning of each size, from the table `facts/symbols.toml`."""

from __future__ import annotations

from functools import cache
from itertools import chain
from types import MappingProxyType

from weighbridge import data
from weighbridge.data import LANGUAGES
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.blueprint.schema import Blueprint


class Symbol(NamedTuple):
    """The letter of a size, its rank among the factors of a term, and its meaning by language."""

    letter: str
    rank: int
    meaning: dict[str, str]


@cache
def size_symbols() -> dict[str, Symbol]:
    """Return the symbol of each config field that has one."""
    symbol_by_field: dict[str, Symbol] = {}
    lines = data.read_toml("facts/symbols.toml")["symbols"].splitlines()
    for rank, line in enumerate(lines):
        letter, *meanings, fields = (cell.strip() for cell in line.split("|"))
        symbol = Symbol(letter, rank, dict(zip(LANGUAGES, meanings, strict=True)))
        symbol_by_field.update(dict.fromkeys(fields.split(), symbol))
    return symbol_by_field


@cache
def letters_of(blueprint: Blueprint) -> Mapping[str, str]:
    """Return the letters of all numbers that the formulas of a family may contain.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> letters_of(load("bert"))["hidden_size"]
        'H'
    """
    numbers = [
        field for field in blueprint.fields if blueprint.kinds[field] in (int, float, type(None))
    ]
    indices = set(chain.from_iterable(map(_loop_indices, blueprint.dims)))
    return MappingProxyType(letters(numbers, indices.union(blueprint.repeat, blueprint.fields)))


def _loop_indices(dim: str) -> list[str]:
    return [piece.partition(" in ")[0] for piece in dim.split(" for ")[1:]]


def letters(fields: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return different letters for a model's fields, in the order of the factors of a term.

    If two fields of sub-configs share a letter, each gets an index from its sub-config's name. A
    field is left out if it has no letter, or if its letter is ``taken`` or belongs to another.

    Example:
        >>> letters(["hidden_size", "vocab_size", "unheard_of"])
        {'vocab_size': 'V', 'hidden_size': 'H'}
        >>> letters(["text_config.hidden_size", "vision_config.hidden_size"])
        {'text_config.hidden_size': 'H_t', 'vision_config.hidden_size': 'H_v'}
        >>> letters(["vision_config.patch_size"])
        {'vision_config.patch_size': 'p'}
    """
    fields_by_letter = _fields_by_letter(fields)
    free = fields_by_letter.keys() - {*taken}
    used = {*fields_by_letter, *taken}
    letter_by_field: dict[str, str] = {}
    for letter, sharing in fields_by_letter.items():
        main = _main_field(sharing)
        for field in sharing:
            candidates = [letter] if field == main and letter in free else []
            candidates += [indexed for indexed in _indexed(letter, field) if indexed not in used]
            if candidates:
                letter_by_field[field] = candidates[0]
                used.add(candidates[0])
    return letter_by_field


def _fields_by_letter(fields: Iterable[str]) -> dict[str, list[str]]:
    """Return the fields that share each letter, by the rank of their symbols."""
    known = size_symbols()
    ranked = sorted((known[_last(field)].rank, field) for field in fields if _last(field) in known)
    sharing: dict[str, list[str]] = {}
    for _, field in ranked:
        sharing.setdefault(known[_last(field)].letter, []).append(field)
    return sharing


def _main_field(sharing: Sequence[str]) -> str | None:
    """Return the field whose letter needs no index: the top-level one, or the only one."""
    if len(sharing) == 1:
        return sharing[0]
    return next((field for field in sharing if "." not in field), None)


def _indexed(letter: str, field: str) -> Iterator[str]:
    """Yield the letter with longer and longer prefixes of the sub-config's name: H_v, then H_vi."""
    name = field.rpartition(".")[0].replace("_config", "").replace(".", "").replace("_", "")
    stem = letter if "_" in letter else f"{letter}_"
    yield from (stem + name[:end] for end in range(1, len(name) + 1))


def meaning_of(field: str, lang: str) -> str:
    """Return the meaning of a config field, in a language.

    Example:
        >>> meaning_of("hidden_size", "en"), meaning_of("vision_config.hidden_size", "en")
        ('hidden size', 'hidden size (vision_config)')
    """
    config, _, last = field.rpartition(".")
    symbol = size_symbols().get(last)
    if symbol is None:
        return field
    meaning = symbol.meaning[lang]
    return f"{meaning} ({config})" if config else meaning


def _last(field: str) -> str:
    return field.rpartition(".")[2]
