"""Reads the sizes that an article states, and the models that they belong to.

A size is a whole number beside the name of a config field: "隐藏层维度768", "12 layers", "H = 768",
a cell of a table, the shape of a printed module. `words` knows the names, `tables`,
`shapes`, `statements` and `letters` find the numbers, and `scopes` their models.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.sizes.letters import (
    defined_letters,
    field_of_letter,
    glued_sizes,
    letter_sizes,
)
from weighbridge.articles.sizes.model_names import ModelName, model_names_in
from weighbridge.articles.sizes.scopes import article_model, with_models
from weighbridge.articles.sizes.statements import sizes_on_line
from weighbridge.articles.sizes.tables import stacked_sizes, table_sizes
from weighbridge.articles.sizes.words import NAME_WEIGHT, SizeCandidate, elected
from weighbridge.articles.text.lines import Stretch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weighbridge.articles.text.lines import ArticleLine

LONGEST_LINE = 20_000  # characters; a longer line is not prose, and takes long to read
_BOLD = re.compile(r"(?<![\w)])\*\*(?=\S)([^*]{1,200})(?<=\S)\*\*(?![\w(])")
_NUMBER_OF = re.compile(r"\|([A-Za-z])\|(?=\s*=)")  # |V| = 30522
_MARKS = str.maketrans("`$", "  ")  # of code and of formulas; every character keeps its column
_LEAST_SURE = 2  # the weight of a size that is not only in weak words
_LETTER_WEIGHT = 3  # less than a name's: a letter has several meanings


class StatedSize(NamedTuple):
    """A size that an article states.

    ``model`` is the name of the model that it belongs to, "" if none is named; ``own`` is whether
    that is the model of the article. ``letter`` is the letter that it is a value of, or "".
    """

    field: str
    value: int
    at: Stretch
    model: str
    own: bool
    letter: str


class Sizes(NamedTuple):
    """All sizes that an article states.

    ``fields`` are those of its own model. ``of_model`` has those of each model that it names.
    ``letters`` are the config fields of its letters, and ``values`` the numbers of its letters.
    ``own_name`` is the name of its model, if it names one, and ``names`` are all names in it.
    ``doubtful`` are the fields that it states only in words that often mean something else.
    """

    fields: dict[str, int]
    found: tuple[StatedSize, ...]
    letters: dict[str, str]
    values: dict[str, Fraction]
    of_model: dict[str, dict[str, int]]
    own_name: ModelName | None
    names: tuple[ModelName, ...]
    doubtful: frozenset[str]


def stated_sizes(lines: Sequence[ArticleLine]) -> Sizes:
    """Return the sizes that an article states.

    Example:
        >>> from weighbridge.articles.text.lines import ArticleLine
        >>> text = "BERT base 的隐藏层维度768、12 层; BERT Large (H=1024, L=24)"
        >>> sizes = stated_sizes([ArticleLine(1, text)])
        >>> sizes.fields, sizes.of_model["BERT Large"]
        ({'hidden_size': 768, 'num_hidden_layers': 12},
        {'hidden_size': 1024, 'num_hidden_layers': 24})
    """
    readable = _without_marks(lines)
    letters = defined_letters(line.text for line in readable)
    names = {line.number: model_names_in(line.text) for line in readable}
    candidates = with_models(readable, names, _candidates(readable, letters))
    own_name = article_model(readable, names, candidates)
    owned = [candidate for candidate in candidates if _is_own(candidate, own_name)]
    fields = elected(owned)
    stated = _stated(candidates, owned, fields)
    values = _letter_values(owned, letters, fields)
    for candidate in owned:
        if candidate.letter:
            letters.setdefault(candidate.letter, candidate.field)
    all_names = tuple(chain.from_iterable(names[line.number] for line in readable))
    of_model = _by_model(candidates)
    sure = {candidate.field for candidate in owned if candidate.weight >= _LEAST_SURE}
    doubtful = frozenset(fields.keys() - sure)
    return Sizes(fields, stated, letters, values, of_model, own_name, all_names, doubtful)


def _without_marks(lines: Iterable[ArticleLine]) -> list[ArticleLine]:
    """Return the lines that are not too long, with spaces for marks of code and of formulas."""
    readable = []
    for line in lines:
        if len(line.text) <= LONGEST_LINE:
            text = _BOLD.sub(r"  \1  ", line.text).translate(_MARKS)
            text = _NUMBER_OF.sub(r" \1 ", text)
            readable.append(line._replace(text=text))
    return readable


def _is_own(candidate: SizeCandidate, own_name: ModelName | None) -> bool:
    """Return whether a size is one of the article's own model, not of another or only supposed."""
    if candidate.is_supposed:
        return False
    return not (candidate.model and own_name) or candidate.model.agrees_with(own_name)


def _stated(
    candidates: Iterable[SizeCandidate],
    owned: Sequence[SizeCandidate],
    fields: Mapping[str, int],
) -> tuple[StatedSize, ...]:
    """Return the sizes, without those that the article's model has otherwise by a clear statement.

    In an article on 32 heads, "shared by 4 heads" states no size.
    """
    own = frozenset(owned)
    stated = []
    for candidate in candidates:
        is_own = candidate in own
        differs = is_own and candidate.number.value != fields[candidate.field]
        if differs and candidate.weight < NAME_WEIGHT:
            continue
        model = ""
        if candidate.model:
            model = candidate.model.text
        stretch = Stretch(candidate.line, candidate.number.start, candidate.number.end)
        size = (candidate.field, candidate.number.value, stretch)
        stated.append(StatedSize(*size, model, is_own, candidate.letter))
    return tuple(stated)


def _by_model(candidates: Iterable[SizeCandidate]) -> dict[str, dict[str, int]]:
    """Return the sizes of each model that an article names, by the first of its spellings."""
    stated: dict[tuple[str, ...], list[SizeCandidate]] = {}
    for candidate in candidates:
        if candidate.model:
            stated.setdefault(candidate.model.words, []).append(candidate)
    tables = {}
    for sizes in stated.values():
        if sizes[0].model:
            tables[sizes[0].model.text] = elected(sizes)
    return tables


def _letter_values(
    owned: Iterable[SizeCandidate], letters: Mapping[str, str], fields: Mapping[str, int]
) -> dict[str, Fraction]:
    """Return the numbers of letters: those of the fields that letters stand for, and those stated.

    A letter that the article does not define has no value if it states two.
    """
    stated: dict[str, set[int]] = {}
    for candidate in owned:
        if candidate.letter:
            stated.setdefault(candidate.letter, set()).add(candidate.number.value)
    values = {}
    for letter, field in letters.items():
        if field in fields:
            values[letter] = Fraction(fields[field])
    for letter, numbers in stated.items():
        if len(numbers) == 1 and letter not in letters:
            values[letter] = Fraction(*numbers)
    return values


def _candidates(lines: Sequence[ArticleLine], letters: Mapping[str, str]) -> list[SizeCandidate]:
    """Return the numbers that state sizes, each once, in the order of the article."""
    candidates: dict[tuple[int, int], SizeCandidate] = {}
    for size in (*table_sizes(lines, letters), *stacked_sizes(lines, letters)):
        candidates.setdefault((size.line, size.number.start), size)
    lines = [line for line in lines if any(map(str.isdecimal, line.text))]
    for line in lines:
        for size in sizes_on_line(line.text):
            candidates.setdefault((line.number, size.number.start), size._replace(line=line.number))
    _add_letters(candidates, lines, letters)
    return [candidates[place] for place in sorted(candidates)]


def _add_letters(
    candidates: dict[tuple[int, int], SizeCandidate],
    lines: Iterable[ArticleLine],
    letters: Mapping[str, str],
) -> None:
    """Add the numbers of letters; a letter's definition decides over the words around it."""
    fields = elected(candidates.values())
    for line in lines:
        for letter, number in letter_sizes(line.text, letters):
            place = (line.number, number.start)
            field = field_of_letter(letter, number.value, letters, fields)
            size = SizeCandidate(field, number, _LETTER_WEIGHT, letter, line.number)
            if field and letter not in letters:
                size = candidates.get(place, size)._replace(letter=letter)
            if field:
                candidates[place] = size
        for letter, number in glued_sizes(line.text, letters):
            if fields.get(letters[letter]) == number.value:
                place = (line.number, number.start)
                size = SizeCandidate(letters[letter], number, _LETTER_WEIGHT, letter, line.number)
                candidates.setdefault(place, size)
