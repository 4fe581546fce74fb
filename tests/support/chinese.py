"""Finds English in Chinese text; while tests run, every error must have a translation.

It looks at errors as they are made, whichever test makes them, so that no list of messages has to
be kept. A test that makes one without a translation, or with half of one, fails.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import weighbridge
from weighbridge.data import LANGUAGES
from weighbridge.errors import WeighbridgeError
from weighbridge.render import messages
from weighbridge.render.messages import translation

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|\[[^\]]*\]")
NAMES = re.compile(r"\S*[._/:=@{}\\×·+*^0-9-]\S*")
"""Words with marks that ordinary words lack: names of tensors, fields, paths, formulas."""

WORDS = re.compile(r"[A-Za-z][a-z']+(?: [a-z][a-z']*){2,}")
LEFT_AS_THEY_ARE = re.compile(r"weighbridge|pip install|from transformers|for \w+ in|in range")


def english_in(text: str) -> list[str]:
    """Return the runs of English words in a text, except in code and names."""
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    prose = NAMES.sub(" § ", QUOTED.sub(" § ", prose))
    return [run for run in WORDS.findall(prose) if not LEFT_AS_THEY_ARE.match(run)]


PACKAGE = str(Path(weighbridge.__file__).parent)
MOST_CHECKED = 20  # texts of one line of code, or of one rule: a fuzzer makes thousands

checked: Counter[tuple[str, int, str]] = Counter()
untranslated: list[str] = []
make_error = WeighbridgeError.__init__


def make_and_check(error: WeighbridgeError, *arguments: Any, **named: Any) -> None:
    """Make an error, and note what it says that has no translation."""
    make_error(error, *arguments, **named)
    caller = sys._getframe(1)
    rule, colon, _ = error.what.partition(": ")
    line = caller.f_code.co_filename, caller.f_lineno, rule if colon else ""
    checked[line] += 1
    if line[0].startswith(PACKAGE) and checked[line] <= MOST_CHECKED:
        untranslated.extend(f"{Path(line[0]).name}:{line[1]}: {text}" for text in missing(error))


def missing(error: WeighbridgeError) -> Iterator[str]:
    """Yield the texts of an error that some language lacks."""
    names = (name for name in error.values if isinstance(name, str) and " " in name)
    for text in filter(None, (error.what, error.hint, *names)):
        for lang in LANGUAGES[1:]:
            translated = translation(text, lang)
            if translated is None:
                yield f"no {lang}: {text}"
            elif english_in(without_foreign_words(text, translated, lang)):
                yield f"half in {lang}: {text}: {translated}"


FOREIGN = {"reason", "rule"}
"""Values of messages that are no words of ours: what another library says, and expressions."""


def without_foreign_words(text: str, translated: str, lang: str) -> str:
    """Return a translation without the words that are not the package's own."""
    while text:
        for template in messages._templates(lang):
            values = template.values_in(text) or {}
            for name in FOREIGN & values.keys():
                translated = translated.replace(values[name].rstrip("."), "")
        text = text.partition(": ")[2]
    return translated


def pytest_configure() -> None:
    """Watch the making of errors."""
    WeighbridgeError.__init__ = make_and_check  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Fail a test that made an error without a translation."""
    untranslated.clear()
    result = yield
    if untranslated:
        listing = "\n".join(dict.fromkeys(untranslated))
        pytest.fail(f"add it to data/words/messages:\n{listing}", pytrace=False)
    return result
