"""The furniture of a page: numbers that are not about the model, and the end of the article."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import data
from weighbridge.articles.text.lines import BOILERPLATE, NumberVerdict, Stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.articles.text.lines import ArticleLine

    _Span = tuple[int, int]

NUMBER = re.compile(r"\d+(?:[,_]\d{3}(?!\d))*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_LONE = re.compile(r"[\s•·*\-–—|]*\d{1,4}(?:\.\d)?\s?[kKwW万]?\+?\s*")
"""A number alone on its line that may count readers. A count of parameters has more digits."""
_LONG_NUMBER = re.compile(r"\d{40,}")
_LEADING = re.compile(r"[\s#*]*(\d{1,4})(?=\s*$|\s+(?![xX×*·/^+=\-−]\s?\d)[^\W\d]|\s+[\"'#@(\[{}])")
_SHORTEST_COUNT = 2  # lines that begin with 1, 2: the headings of an article
_LONGEST_HEADING = 48  # characters
_SHORTEST_CODE = 3  # adjacent lines that begin with 1, 2, 3: the line numbers of code
_PIECE = re.compile(r"\{([a-z]+)\}")
_FEWEST_ON_TOPIC = 2  # lines on the topic before the end of an article
_LONGEST_LINE = 20_000  # characters that are read of a line


class _PagePatterns(NamedTuple):
    """The patterns of `facts/furniture.toml`, compiled."""

    furniture: tuple[tuple[str, tuple[re.Pattern[str], ...]], ...]
    button: re.Pattern[str]
    hard: re.Pattern[str]
    soft: re.Pattern[str]
    topic: tuple[re.Pattern[str], ...]
    number: re.Pattern[str]
    calculation: re.Pattern[str]
    total: re.Pattern[str]


def furniture(lines: Sequence[ArticleLine]) -> list[NumberVerdict]:
    """Return a verdict for each number that is not about the model, in the order of the text.

    A number is a run of digits with its separators; a date has three. Calculations and sizes are
    not looked for: where a number belongs to one, that verdict takes precedence over this one.
    """
    end = end_of_article(lines)
    beside_button = _beside_buttons(lines)
    leading = _counting(lines)
    verdicts = []
    for line in lines:
        if line.number > end:
            reasons = _everywhere(line, "site")
        elif line.number in beside_button:
            reasons = _everywhere(line, "likes")
        else:
            reasons = _reasons(line.text[:_LONGEST_LINE], leading.get(line.number))
        for (start, stop), reason in sorted(reasons.items()):
            at = Stretch(line.number, start, stop)
            verdicts.append(NumberVerdict(at, line.text[start:stop], BOILERPLATE, reason, {}))
    return verdicts


def end_of_article(lines: Sequence[ArticleLine]) -> int:
    """Return the number of the article's last line; 0 if there are no lines.

    The lines after it are the site's: buttons, comments, the titles of other articles.
    """
    patterns = _patterns()
    texts = [line.text[:_LONGEST_LINE] for line in lines]
    topical = [position for position, text in enumerate(texts) if _topics(text)]
    end = _first_fitting(patterns.hard, texts, _last(texts, _is_calculation))
    if len([position for position in topical if position < end]) < _FEWEST_ON_TOPIC:
        end = len(texts)
    topical = [position for position in topical if position < end]
    middle = topical[len(topical) // 2] if topical else end
    end = _first_fitting(patterns.soft, texts[:end], max(middle, _last(texts[:end], _is_evidence)))
    end = _last(texts[:end], _is_of_article)
    return lines[end - 1].number if end else 0


def _first_fitting(pattern: re.Pattern[str], texts: Sequence[str], start: int) -> int:
    """Return the position of the first text from ``start`` that fits; otherwise their number."""
    for position in range(start, len(texts)):
        if pattern.search(texts[position]):
            return position
    return len(texts)


def _last(texts: Sequence[str], is_wanted: Callable[[str], bool]) -> int:
    """Return how many texts there are up to the last one that is wanted."""
    for position in range(len(texts), 0, -1):
        if is_wanted(texts[position - 1]):
            return position
    return 0


_COUNT = re.compile(r"\d{1,3}(?:,\d{3}){2,}|\d\s?[MG]i?B(?![A-Za-z])")
"""A number of parameters or of bytes, which a site has no use for."""


def _is_of_article(text: str) -> bool:
    """Whether a line has an equality, a count, or words for parts of models."""
    return _is_equality(text) or bool(_COUNT.search(text)) or _topics(text) > 0


def _is_calculation(text: str) -> bool:
    """Whether a line has a calculation, or nothing but a large number: perhaps a last total."""
    patterns = _patterns()
    return bool(patterns.calculation.search(text) or patterns.total.search(text))


_EQUALITY = re.compile(r"[\w)\]][ ]*[=≈][ ]*[\w(-]|[=≈][ ]*\d|\d[ ]*[-+*/×·][ ]*\d")


def _is_equality(text: str) -> bool:
    """Whether a line states an equality or has a calculation."""
    return _is_calculation(text) or bool(_EQUALITY.search(text))


def _is_evidence(text: str) -> bool:
    """Whether a line, even after a word of the site, belongs to an article about a model."""
    patterns = _patterns()
    if _is_calculation(text):
        return True
    return bool(patterns.number.search(text) and _topics(text) > 1) and not (
        patterns.soft.search(text)
    )


def _topics(text: str) -> int:
    return sum(pattern.search(text) is not None for pattern in _patterns().topic)


def _is_lone(text: str) -> bool:
    return _LONE.fullmatch(text) is not None


def _beside_buttons(lines: Iterable[ArticleLine]) -> set[int]:
    """Return the lines with nothing but a number that counts readers.

    They stand beside a button, such as `Like`, or beside another such line, or before the first
    line about a model.
    """
    shown = [line for line in lines if line.text.strip()]
    begin = next((at for at, line in enumerate(shown) if _topics(line.text[:_LONGEST_LINE])), 0)
    beside: set[int] = set()
    for ordered in (list(enumerate(shown)), list(enumerate(shown))[::-1]):
        after_button = False
        for position, line in ordered:
            is_lone = _is_lone(line.text)
            if is_lone and (after_button or position < begin):
                beside.add(line.number)
            elif not is_lone:
                after_button = _patterns().button.fullmatch(line.text) is not None
    return beside


def _counting(lines: Iterable[ArticleLine]) -> Mapping[int, _Span]:
    """Return where lines begin with a number that counts them: 1, 2, 3 before headings or code."""
    headings: dict[int, _Span] = {}
    code: dict[int, _Span] = {}
    run: dict[int, _Span] = {}
    expected = 1
    for line, value, span in _leading_numbers(lines):
        if value == len(headings) + 1 and len(line.text) <= _LONGEST_HEADING:
            headings[line.number] = span
        if value != expected:
            run = {}
        if run or value in (0, 1):
            run[line.number] = span
        if len(run) >= _SHORTEST_CODE:
            code |= run
        expected = value + 1
    return code | headings if len(headings) >= _SHORTEST_COUNT else code


def _leading_numbers(lines: Iterable[ArticleLine]) -> Iterator[tuple[ArticleLine, int, _Span]]:
    """Yield each line that is not blank, with its first number; -2 if it begins with none."""
    for line in lines:
        if match := _LEADING.match(line.text):
            yield line, int(match[1]), match.span(1)
        elif line.text.strip():
            yield line, -2, (0, 0)


def _everywhere(line: ArticleLine, reason: str) -> dict[_Span, str]:
    """Return all numbers of a line, with the same reason."""
    return dict.fromkeys((match.span() for match in NUMBER.finditer(line.text)), reason)


def _reasons(text: str, leading: _Span | None) -> dict[_Span, str]:
    """Return the numbers of a line that are furniture, each with its reason."""
    numbers = [match.span() for match in NUMBER.finditer(text)]
    reasons = {leading: "numbering"} if leading in numbers else {}
    for reason, stretches in _stretches(text) if numbers else ():
        for start, stop in stretches:
            first = bisect_left(numbers, (start, start))
            after = bisect_left(numbers, (stop, stop))
            for number in numbers[first:after]:
                if number[1] <= stop:
                    reasons.setdefault(number, reason)
    return reasons


def _stretches(text: str) -> Iterator[tuple[str, list[_Span]]]:
    """Yield each reason with the stretches of a line that fit one of its patterns.

    Numbers longer than any of furniture are hidden from the patterns, of which some would take a
    time that grows with the square of their digits.
    """
    text = _LONG_NUMBER.sub(lambda number: "\0" * len(number[0]), text)
    for reason, patterns in _patterns().furniture:
        for pattern in patterns:
            yield reason, [match.span() for match in pattern.finditer(text)]


@cache
def _patterns() -> _PagePatterns:
    table = data.read_toml("facts/furniture.toml")
    pieces = table["pieces"]

    def compiled(text: str) -> re.Pattern[str]:
        filled = _PIECE.sub(lambda match: pieces[match[1]], text)
        return re.compile(filled, re.IGNORECASE)

    groups, end = table["furniture"], table["end"]
    return _PagePatterns(
        tuple((group["reason"], tuple(map(compiled, group["patterns"]))) for group in groups),
        compiled(rf"\W*{table['button']['words']}\W*"),
        compiled("|".join(end["hard"])),
        compiled("|".join(end["soft"])),
        tuple(map(compiled, end["topic"])),
        compiled(end["number"]),
        compiled(end["calculation"]),
        compiled(end["total"]),
    )
