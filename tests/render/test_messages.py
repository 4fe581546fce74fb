"""Messages are translated by their text, whatever values it contains."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge import data
from weighbridge.errors import CheckpointError, ConfigError
from weighbridge.render import messages

if TYPE_CHECKING:
    from collections.abc import Iterator

LANGUAGES = data.LANGUAGES[1:]
PLACES = re.compile(r"\{(\w+)\}")


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace the messages of the package by a few others."""
    known = {
        "holds {count} items": "有 {count} 项",
        "holds {count} items, but {most} at most are allowed": "有 {count} 项，最多 {most} 项",
        "a list of {size}": "长度为 {size} 的列表",
        "write it again": "请重新写入",
        "write it; then read it": "写入后读取",
        "found": "实际为",
        "--{option} is no size, but {value}": "--{option} 不是大小，而是 {value}",
        "{key} must be text": "{key} 必须是文本",
    }
    monkeypatch.setattr(messages, "_messages", lambda _: known)
    messages._templates.cache_clear()
    yield
    messages._templates.cache_clear()


@pytest.mark.usefixtures("catalogue")
def test_values_move_to_where_the_translation_has_them() -> None:
    assert messages.in_language("holds 3 items", "zh") == "有 3 项"
    long = "holds 9 items, but 3 at most are allowed"
    assert messages.in_language(long, "zh") == "有 9 项，最多 3 项"


@pytest.mark.usefixtures("catalogue")
def test_the_name_of_an_option_stays_whatever_it_means_elsewhere() -> None:
    text = "--found is no size, but found"
    assert messages.in_language(text, "zh") == "--found 不是大小，而是 实际为"


@pytest.mark.usefixtures("catalogue")
def test_a_key_stays_whatever_it_means_elsewhere_and_its_place_is_none_of_it() -> None:
    assert messages.in_language("found must be text", "zh") == "found 必须是文本"
    assert messages.in_language("types: found must be text", "zh") == "types：found 必须是文本"


@pytest.mark.usefixtures("catalogue")
def test_an_error_is_translated_part_by_part() -> None:
    error = CheckpointError(
        "items: holds 3 items", where="a.bin", values={"found": [1, 2]}, hint="write it again"
    )
    expected = "a.bin：items：有 3 项（实际为 = 长度为 2 的列表）。请重新写入。"
    assert messages.error_message(error, "zh") == expected
    assert messages.error_message(error, "en") == str(error)


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize("text", ["", "holds", "unknown text", "holds x items too many", "a; b"])
def test_untranslated_text_stays(text: str) -> None:
    assert messages.translation(text, "zh") is None
    assert messages.in_language(text, "zh") == text


@pytest.mark.usefixtures("catalogue")
def test_texts_that_are_joined_are_translated_one_by_one() -> None:
    assert messages.in_language("write it again; holds 1 items", "zh") == "请重新写入；有 1 项"
    text = "write it again; write it; then read it; holds 1 items"
    assert messages.in_language(text, "zh") == "请重新写入；写入后读取；有 1 项"


@pytest.mark.usefixtures("catalogue")
@given(st.text())
def test_any_value_comes_through(value: str) -> None:
    assert (
        messages.in_language(f"holds {value} items", "zh")
        in (
            f"有 {value} 项",
            f"有 {messages.in_language(value, 'zh')} 项",
        )
        or "but" in value
    )


def test_a_value_that_looks_like_a_message_of_ours_is_safe() -> None:
    error = ConfigError("is not UTF-8 text", where="{config}.json", values={"{0}": "{x}"})
    assert "{config}.json" in messages.error_message(error, "zh")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_translation_has_the_values_of_its_message(lang: str) -> None:
    for english, translated in messages._messages(lang).items():
        assert sorted(set(PLACES.findall(english))) == sorted(set(PLACES.findall(translated))), (
            english
        )
        assert translated, english


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_message_is_translated_twice_in_two_ways(lang: str) -> None:
    known: dict[str, str] = {}
    for room in data.names("words/messages", f".{lang}.toml"):
        for english, translated in data.read_toml(f"words/messages/{room}.{lang}.toml").items():
            assert known.setdefault(english, translated) == translated, english


def test_a_message_ends_as_it_does_in_the_code() -> None:
    for lang in LANGUAGES:
        for english, translated in messages._messages(lang).items():
            assert not english.endswith("."), english
            assert not translated.endswith("。"), english


LISTS = [
    ("did you mean BertModel?", "是不是 BertModel？"),
    ("did you mean a, b?", "是不是 a、b？"),
    ("did you mean a, b or c?", "是不是 a、b 或 c？"),
    ("it has a, b and 4 more", "它有 a、b 等，另有 4 个"),
    ("use one of text, latex", "可用：text、latex"),
]


@pytest.mark.parametrize(("english", "chinese"), LISTS)
def test_a_list_is_written_with_the_language_s_own_commas(english: str, chinese: str) -> None:
    assert messages.in_language(english, "zh") == chinese
