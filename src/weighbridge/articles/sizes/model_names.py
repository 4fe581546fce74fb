"""Finds the names of models in a line: "BERT-Base", "Llama 2 7B", "BertModel", "the large model".

A name begins with the first word of a family or of a released model, and goes on with words and
numbers that tell releases apart. Two names agree if one only adds words to the other.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.text import terms
from weighbridge.blueprint.schema import families
from weighbridge.models.catalogue import full_names
from weighbridge.models.names import normal_form

if TYPE_CHECKING:
    from collections.abc import Mapping

_ORIGINAL = "transformer"
_MOST_WORDS = 10_000  # that are kept
MOST_TAILS = 6  # words that follow the first of a name; no published name has more
_WORD = re.compile(r"(?<![A-Za-z0-9_./])[A-Za-z]+")
_SLUG = re.compile(r"(?<![\w./-])\w[\w.]*(?:[-/]\w[\w.]*)+")
_PIECE = re.compile(r"[a-z]+|\d+(?:\.\d+)?")
_NUMBER = re.compile(
    r"(?P<separator>[-_ /]?)v?(?P<number>\d+(?:\.\d+)?)(?P<unit>x\d+)?(?P<of>[bm])?"
)
_CLASS = re.compile(
    r"(?<![A-Za-z0-9_])(?:TF|Flax)?(?P<stem>[A-Z][A-Za-z0-9]*?)"
    r"(?P<task>LMHeadModel|DoubleHeadsModel|For[A-Z]\w*|Model|Config|Tokenizer|Embeddings|Encoder|"
    r"Layer|Block|Attention|SelfAttention|Pooler)(?![A-Za-z0-9_])"
)
_LONGEST_NUMBER = 16  # characters: " 8x7B", "-355M"
_GOES_ON = re.compile(r"[A-Za-z0-9]")
_MODULE_PATH = re.compile(r"_|\.[a-z_]")


class ModelName(NamedTuple):
    """The name of a model in a line: its text, its columns, and its words in lower case.

    ``release`` is the full name in the catalogue, if the text spells it out, and ``class_name`` the
    class, if the text names one. A bare name is only the word for a size, such as "large".
    """

    text: str
    start: int
    end: int
    words: tuple[str, ...]
    release: str = ""
    class_name: str = ""

    @property
    def is_bare(self) -> bool:
        """Whether this is only the word for a size."""
        known = self.release or self.class_name or self.words[0] in first_words()
        return not known and self.words[0] != _ORIGINAL

    def agrees_with(self, other: ModelName) -> bool:
        """Return whether two names may mean the same model.

        Example:
            >>> base, large, bert = model_names_in("BERT-Base, BERT large, BERT")
            >>> base.agrees_with(bert), base.agrees_with(large)
            (True, False)
        """
        if not (self.is_bare or other.is_bare) and self.words[0] != other.words[0]:
            return False
        ours, theirs = _sized(self.words), _sized(other.words)
        if self.is_bare != other.is_bare:
            return (self.is_bare and ours <= theirs) or (other.is_bare and theirs <= ours)
        return ours <= theirs or theirs <= ours


def _sized(words: tuple[str, ...]) -> set[str]:
    """Return the words of a name, with the size in place of its letter: ViT-B is ViT-Base."""
    letters: Mapping[str, str] = terms.facts()["names"]["letters"]
    return {*words[:1], *(letters.get(word, word) for word in words[1:2]), *words[2:]}


def words_of(name: str) -> tuple[str, ...]:
    """Return the words and numbers of a name.

    Example:
        >>> words_of("meta-llama/Llama-3.1-8B"), words_of("BERT_BASE")
        (('llama', '3.1', '8', 'b'), ('bert', 'base'))
    """
    return tuple(_PIECE.findall(name.rpartition("/")[2].lower()))


def model_names_in(text: str) -> list[ModelName]:
    """Return the names of models in a line, in their order.

    Example:
        >>> [name.text for name in model_names_in("BERT-Base有110M, Large模型; Llama 2 7B")]
        ['BERT-Base', 'Large', 'Llama 2 7B']
        >>> model_names_in("BertForMaskedLM.from_pretrained('bert-base-chinese')")[1].release
        'google-bert/bert-base-chinese'
    """
    names = [
        *_releases(text),
        *_named_classes(text),
        *_spelled(text),
        *_bare(text),
        *_originals(text),
    ]
    names.sort(key=lambda name: (name.start, name.start - name.end))
    apart: list[ModelName] = []
    for name in names:
        if not apart or name.start >= apart[-1].end:
            apart.append(name)
    return apart


def bare_name(text: str) -> ModelName | None:
    """Return the name that a cell of a table is, if it is only a size: "Large", "7B"."""
    words = words_of(text)
    is_count = re.fullmatch(r"\s*\d+(?:\.\d+)?\s?[BM]\s*", text) is not None
    if is_count or (len(words) == 1 and words[0] in terms.facts()["names"]["sizes"]):
        return ModelName(text.strip(), 0, len(text), words)
    return None


# The ways to write a name


def _releases(text: str) -> list[ModelName]:
    """Return the names that the catalogue spells in the same way: bert-base-chinese."""
    names, known = [], catalogue_names()
    for match in _SLUG.finditer(text):
        slug = match[0].rstrip(".")
        release = known.get(slug.lower(), "")
        if release:
            end = match.start() + len(slug)
            names.append(ModelName(slug, match.start(), end, words_of(slug), release))
    return names


def _named_classes(text: str) -> list[ModelName]:
    names = []
    for match in _CLASS.finditer(text):
        family = family_of_form(match["stem"].lower())
        if family:
            class_name = ""
            if match["task"].endswith("Model") or match["task"].startswith("For"):
                class_name = match[0].removeprefix("TF").removeprefix("Flax")
            place = (match.start(), match.end())
            names.append(ModelName(match[0], *place, words_of(family), "", class_name))
    return names


def _spelled(text: str) -> list[ModelName]:
    names = []
    for match in _WORD.finditer(text):
        words = _beginning(match[0])
        if not words:
            continue
        end = _end_of_name(text, match.end(), words[0])
        lacks_number = words[0] in terms.facts()["names"]["numbered"] and end == match.end()
        if not lacks_number and not _MODULE_PATH.match(text, end):
            name = text[match.start() : end]
            following = _PIECE.findall(text[match.end() : end].lower())
            names.append(ModelName(name, match.start(), end, (*words, *following)))
    return names


def _bare(text: str) -> list[ModelName]:
    names = []
    for match in _bare_pattern().finditer(text):
        word = match["word"]
        names.append(ModelName(word, match.start(), match.end("word"), (word.lower(),)))
    return names


def _originals(text: str) -> list[ModelName]:
    """Return the mentions of the first Transformer, which has no release."""
    matches = _original_pattern().finditer(text)
    return [ModelName(match[0], *match.span(), (_ORIGINAL,)) for match in matches]


@lru_cache(maxsize=_MOST_WORDS)
def _beginning(word: str) -> tuple[str, ...]:
    """Return the words that a word begins a name with; BERTBASE has two."""
    lower = word.lower()
    if lower in first_words():
        if _is_meant(word, lower):
            return (lower,)
        return ()
    for size in terms.facts()["names"]["sizes"]:
        first = lower.removesuffix(size)
        if first != lower and first in first_words() and _is_meant(word, first):
            return (first, size)
    return ()


def _is_meant(word: str, lower: str) -> bool:
    """Return whether a word with these capitals is a name, not an ordinary word."""
    facts = terms.facts()["names"]
    if lower in facts["acronyms"]:
        return sum(map(str.isupper, word)) > 1
    return lower not in facts["ordinary"] or word != lower


def _end_of_name(text: str, end: int, first: str) -> int:
    """Return where a name ends that begins before a column."""
    for _ in range(MOST_TAILS):
        following = _word_tail(text, end) or _number_tail(text, end, first)
        if not following:
            break
        end = following
    return end


def _word_tail(text: str, at: int) -> int:
    match = _tail_pattern().match(text, at)
    if match is None:
        return 0
    needs_hyphen = _tails().get(match["word"].lower(), True)
    if needs_hyphen and match["separator"] not in tuple("-_/"):
        return 0
    return match.end()


def _number_tail(text: str, at: int, first: str) -> int:
    """Return the end of a number that belongs to a name: "Llama 2 7B", but not "BERT 12 layers"."""
    match = _NUMBER.match(text[at : at + _LONGEST_NUMBER].lower())
    if match is None or _GOES_ON.match(text, at + match.end()):
        return 0
    number = match["number"]
    if match["of"]:
        is_known = number in _known_words()[first]
    elif match["separator"] == " ":
        is_known = f"{first} {number}" in _pairs()
    elif match["separator"] in tuple("-_"):
        is_known = True
    else:
        is_known = number in _known_words()[first] or not text[at + match.end() :][:1].isalpha()
    if not is_known:
        return 0
    return at + match.end()


# The vocabulary


@cache
def first_words() -> frozenset[str]:
    """Return the words with which names of models begin."""
    facts = terms.facts()["names"]
    firsts = {*_known_words(), *facts["more"]}
    return frozenset(firsts.difference(facts["never"]).union(facts["numbered"]))


@cache
def catalogue_names() -> Mapping[str, str]:
    """Return the full name of each released model by all its names, in lower case."""
    return full_names()


@cache
def _known_words() -> Mapping[str, set[str]]:
    """Return all words and numbers of the names that begin with each word."""
    known: dict[str, set[str]] = {word: set() for word in terms.facts()["names"]["more"]}
    for name in (*families(), *catalogue_names(), *terms.facts()["names"]["released"]):
        words = words_of(name)
        known.setdefault(words[0], set()).update(words[1:])
    return known


@cache
def _pairs() -> frozenset[str]:
    """Return the first two words of each name that goes on with a number."""
    pairs = set()
    for name in (*families(), *catalogue_names(), *terms.facts()["names"]["released"]):
        words = words_of(name)
        if len(words) > 1 and words[1][0].isdecimal():
            pairs.add(f"{words[0]} {words[1]}")
    return frozenset(pairs)


def family_of_form(name: str) -> str:
    """Return the family with a name without separators; "" if there is none.

    Example:
        >>> family_of_form("xlmroberta"), family_of_form("bart"), family_of_form("gpt3")
        ('xlm-roberta', 'bart', '')
    """
    return _families_by_form().get(name, "")


@cache
def _families_by_form() -> Mapping[str, str]:
    return {normal_form(family): family for family in families()}


@cache
def _tails() -> Mapping[str, bool]:
    """Return the words that continue a name, and whether each needs a hyphen before it."""
    facts = terms.facts()["names"]
    tails = dict.fromkeys(facts["hyphened"], True)
    return {**tails, **dict.fromkeys((*facts["sizes"], *facts["going_on"]), False)}


@cache
def _tail_pattern() -> re.Pattern[str]:
    words = "|".join(sorted(_tails(), key=len, reverse=True))
    return re.compile(
        rf"(?P<separator>[-_ /]?)(?P<word>{words}|(?<=-)[a-z])(?![A-Za-z])", re.IGNORECASE
    )


@cache
def _bare_pattern() -> re.Pattern[str]:
    facts = terms.facts()["names"]
    sizes = "|".join(sorted(facts["sizes"], key=len, reverse=True))
    versions = "|".join(facts["versions"])
    return re.compile(
        rf"(?<![A-Za-z])(?P<word>{sizes})(?=[ -]?(?:{versions})|\s?[:：(（])", re.IGNORECASE
    )


@cache
def _original_pattern() -> re.Pattern[str]:
    phrases = [re.escape(phrase) for phrase in terms.facts()["names"]["originals"]]
    words = "|".join(phrases).replace(r"\ ", r"[\s-]?")
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE)
