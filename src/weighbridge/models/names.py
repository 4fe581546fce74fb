"""Finds the released models that a name may mean, if it is not in the catalogue.

Names are compared in a normal form, without case, separators and words that say nothing about the
model.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import chain

from weighbridge import data
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any

_WORD = re.compile(r"[^\W\d_]+|\d+")
_LONGEST_NAME = 200  # characters; no model has a longer name, and comparison takes quadratic time
_CLOSE = 0.75  # similarity of two names in difflib: one or two letters are wrong
_MOST_CLOSE = 3  # names similar to a wrong one; others are similar by chance


class Matches(NamedTuple):
    """The models that a name may mean, the most plausible first.

    ``is_meant``: the first is certainly meant. ``begins``: their names begin with the name;
    otherwise they are similar to it. ``is_exact``: the first has the same name in another spelling.
    """

    models: tuple[str, ...]
    is_meant: bool = False
    begins: bool = False
    is_exact: bool = False


def search(
    name: str, full_names: Mapping[str, str], entry_of: Callable[[str], Mapping[str, Any]]
) -> Matches:
    """Return the models that a name may mean.

    ``full_names`` maps each spelling of each model to the model's full name; ``entry_of`` returns
    the catalogue's entry of a model.

    Example:
        >>> spellings = {"Meta-Llama-3-8B": "meta-llama/Meta-Llama-3-8B"}
        >>> search("llama3 8b", spellings, lambda _: {})
        Matches(models=('meta-llama/Meta-Llama-3-8B',), is_meant=True, begins=True, is_exact=True)
    """
    name = name[:_LONGEST_NAME]
    wanted = normal_form(name)
    if not _words(name):
        return Matches(())
    forms = _forms(full_names)
    same = _models(forms[wanted]) if wanted in forms else ()
    if same:
        contents = [_content(entry_of(model)) for model in same]
        is_meant = all(content == contents[0] for content in contents)
        return Matches(same, is_meant, begins=True, is_exact=True)
    begun = _begun(wanted, name, forms)
    if not begun:
        return Matches(_resembling(name, forms))
    likely = [model for model in begun if not _is_other(model, wanted, name)]
    base_releases = {_without_variants(model) for model in likely}
    has_base = len(likely) == 1 or any(not _is_variant(model, name) for model in likely)
    if len(base_releases) == 1 and has_base and _completes(wanted, set(likely), full_names):
        return Matches(_models([*likely, *begun]), is_meant=True, begins=True)
    return Matches(begun, begins=True)


def normal_form(name: str) -> str:
    """Return a name without anything that may differ for the same model.

    A point between two numbers stays, so that 2.5 and 25 differ.

    Example:
        >>> normal_form("Meta-Llama-3.1 8B"), normal_form("qwen2.5_7b"), normal_form("org/GPT-2")
        ('llama3.1.8b', 'qwen2.5.7b', 'org/gpt2')
    """
    organisation, slash, rest = name.rpartition("/")
    return "".join(_words(organisation)) + slash + _joined(_words_that_matter(rest))


def _joined(words: Iterable[str]) -> str:
    joined = ""
    for word in words:
        if joined[-1:].isdecimal() and word.isdecimal():
            joined += "."
        joined += word
    return joined


def _words(name: str) -> list[str]:
    return _WORD.findall(name.lower())


def _words_that_matter(name: str) -> list[str]:
    """Return the words of a name without its organisation and words that say nothing."""
    facts, words = data.read_toml("facts/names.toml"), _words(name)
    while len(words) > 1 and words[0] in facts["prefixes"]:
        del words[0]
    while len(words) > 1 and words[-1] in facts["suffixes"]:
        del words[-1]
    return words


def _forms(full_names: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the models of each normal form, with and without the organisation."""
    forms: dict[str, list[str]] = {}
    for spelling, full_name in full_names.items():
        for form in {normal_form(spelling), normal_form(spelling.rpartition("/")[2])}:
            forms.setdefault(form, []).append(full_name)
    return forms


def _models(models: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(models))


def _content(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the family, class and parameters of an entry, equal for equal releases."""
    return entry.get("family"), entry.get("class"), entry.get("parameters")


def _continues(form: str, wanted: str) -> bool:
    """Whether a form begins with another that does not end inside a number."""
    rest = form.removeprefix(wanted)
    return rest != form and not (wanted[-1].isdecimal() and rest[0].isdecimal())


def _begun(wanted: str, name: str, forms: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Return the models whose names begin with a name, the most plausible first.

    A base release comes before a tuned one, the typed version before a later one, a shorter name
    before a longer one, and an organisation with many such models before one with few.
    """
    words_added: dict[str, int] = {}
    for form, models in forms.items():
        if _continues(form, wanted):
            added = len(_words(form.removeprefix(wanted)))
            words_added |= dict.fromkeys(models, added)
    makers = Counter(map(_organisation, words_added))

    def distance(model: str) -> tuple[Any, ...]:
        is_other, is_variant = _is_other(model, wanted, name), _is_variant(model, name)
        is_inside_word = not set(_words(name)) <= set(_words(model))  # clipseg is not clip
        releases = -makers[_organisation(model)]
        return is_variant, is_other, is_inside_word, words_added[model], releases

    return tuple(sorted(words_added, key=distance))


def _completes(wanted: str, models: Collection[str], full_names: Mapping[str, str]) -> bool:
    """Whether models are the one that a name begins, not others with a longer name.

    whisper-large-v3-turbo is not whisper-large-v3: each word that a name leaves out must be one
    that makes no other model.
    """
    completed = {
        full_name
        for spelling, full_name in full_names.items()
        if full_name in models and _adds_nothing(spelling, wanted, full_names)
    }
    return len(completed) == len(models)


def _adds_nothing(spelling: str, wanted: str, spellings: Iterable[str]) -> bool:
    """Whether a spelling only adds words to a name that make no other model.

    A name may end inside a word, as bert-base-ch does, unless its end is a word of some model:
    clip is not short for clipseg.
    """
    for end in range(1, len(spelling)):
        if normal_form(spelling[:end]) == wanted:
            typed, added = spelling[:end], spelling[end:]
            break
    else:
        return False
    last_word = _words(typed)[-1]
    if last_word.isalpha() and added[0].isalpha():
        if any(last_word in _words(known) for known in spellings):
            return False
        added = added[len(_words(added)[0]) :]
    return _omissible(last_word.isdecimal()).fullmatch(added) is not None


@cache
def _omissible(after_number: bool) -> re.Pattern[str]:  # noqa: FBT001
    """Return the pattern of what names leave out at their ends."""
    facts = data.read_toml("facts/names.toml")
    words = "|".join([*facts["suffixes"], *facts["variants"], *facts["versions"]])
    unit = facts["unit"] if after_number else ""
    return re.compile(rf"(?:{unit})?(?:[\W_]*(?:{words})(?![^\W_]))*", re.IGNORECASE)


def _organisation(model: str) -> str:
    return model.rpartition("/")[0]


def _is_other(model: str, wanted: str, name: str) -> bool:
    """Whether a model whose name begins with another is a part or a later version of it.

    A point continues a version: Kimi-K2.6 is not a Kimi-K2, but Qwen2-7B is a Qwen2.
    """
    facts, spelled = data.read_toml("facts/names.toml"), model.lower()
    if "/" not in name:
        spelled = spelled.rpartition("/")[2]
    if facts["part"] in spelled and facts["part"] not in name:
        return True
    spelled_words = list(_WORD.finditer(spelled))
    for at, word in enumerate(spelled_words[:-1]):
        begun = normal_form(spelled[: word.end()])
        if begun == wanted:
            following = spelled_words[at + 1]
            separator = spelled[word.end() : following.start()]
            return separator == "." and following[0].isdecimal()
    return False


def _is_variant(model: str, name: str) -> bool:
    """Whether a model is tuned in a way that a name does not mention."""
    variants = data.read_toml("facts/names.toml")["variants"]
    added = _whole_words(model) - _whole_words(name)
    return not added.isdisjoint(variants)


def _without_variants(model: str) -> frozenset[str]:
    """Return the words of a model's name without those for tuning."""
    return _whole_words(model).difference(data.read_toml("facts/names.toml")["variants"])


@cache
def _whole_words(name: str) -> frozenset[str]:
    """Return the words of a name, including digits."""
    return frozenset(re.split(r"[\W_]+", name.rpartition("/")[2].lower()))


def _resembling(name: str, forms: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Return the models whose names have all words of a name, or else are similar."""
    without_organisation = normal_form(name.rpartition("/")[2])
    if without_organisation in forms:
        return _models(forms[without_organisation])
    wanted = set(_words(name))
    all_models = _models(chain.from_iterable(forms.values()))
    holding = [model for model in all_models if wanted <= set(_words(model))]
    if holding:
        holding.sort(key=lambda model: (_is_variant(model, name), len(_words(model))))
        return tuple(holding)
    import difflib  # noqa: PLC0415  # only for a name that is wrong

    close = difflib.get_close_matches(normal_form(name), forms, n=_MOST_CLOSE, cutoff=_CLOSE)
    return _models(chain.from_iterable(forms[form] for form in close))
