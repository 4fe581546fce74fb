"""The encoding of a file is found out where it is certain, and named by the user elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.errors import UsageError
from weighbridge.torch.tables.encodings import decode

CHINESE = "评论内容,情感倾向\n房间很干净，服务态度也好！,正面\n设施太旧了，不会再来。,负面\n"
PLAIN = "text,label\nwell,1\nbad,0\n"


@pytest.mark.parametrize("text", [CHINESE, PLAIN, CHINESE.replace("\n", "\r\n")])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "utf-16-le", "utf-16-be", "utf-32-le"])
def test_an_encoding_is_found_out(text: str, mark: str, encoding: str) -> None:
    if (mark and encoding == "gb18030") or (not mark and encoding == "utf-32-le"):
        return  # no editor writes such a file
    found = decode((mark + text).encode(encoding))
    assert found.text == text
    assert found.has_mark == bool(mark)
    assert found.encoding == ("utf-8" if text == PLAIN and encoding == "gb18030" else encoding)


OTHERS = {
    "cp1252": "Le café était très élégant, déjà vu à l'hôtel; où êtes-vous? Garçon naïf",
    "big5": "這部電影非常好看，房間很乾淨，服務態度很好。沒有什麼問題",
    "shift_jis": "この映画はとても面白かったです。部屋は綺麗で、スタッフも親切でした。",
    "euc_jp": "この映画はとても面白かったです。部屋は綺麗で、スタッフも親切でした。",
    "euc_kr": "이 영화는 정말 재미있었습니다. 방은 깨끗하고 직원들은 친절했습니다.",
    "cp1251": "Этот фильм был очень хорош, комната чистая",
    "koi8_r": "Этот фильм был очень хорош, комната чистая",
}


@pytest.mark.parametrize("encoding", OTHERS)
def test_other_encodings_are_not_taken_for_chinese_and_can_be_named(encoding: str) -> None:
    raw = OTHERS[encoding].encode(encoding)
    guessed = decode(raw)
    assert guessed.encoding == "utf-8"
    assert any("\udc80" <= letter <= "\udcff" for letter in guessed.text), "its texts are refused"
    assert decode(raw, encoding).text == OTHERS[encoding]


def test_a_broken_line_does_not_change_the_encoding() -> None:
    for encoding in ("utf-8", "gb18030"):
        raw = CHINESE.encode(encoding) + b"\xff\n"
        assert decode(raw) == (f"{CHINESE}\udcff\n", encoding, False)
    assert decode("où été\n".encode() * 3 + b"\xe9 \n").encoding == "utf-8"
    assert decode(b"text,label\na\0b,1\nc,2\n").encoding == "utf-8"


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([None, "utf-8", "gbk", "utf-16", "big5", "ascii"]))
def test_any_bytes_are_read_or_refused(raw: bytes, encoding: str | None) -> None:
    try:
        decode(raw, encoding)
    except UsageError as error:
        assert "the file is not in this encoding" in str(error)  # noqa: PT017


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_utf8_is_read_as_it_is(text: str) -> None:
    assert decode(text.encode(), "utf-8").text == text.removeprefix("\ufeff")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gb18031", "there is no such encoding (encoding = 'gb18031'). Did you mean gb18030?"),
        ("", "there is no such encoding (encoding = ''). Use for example utf-8, gb18030,"),
        ("base64", "there is no such encoding (encoding = 'base64')"),
        ("x\0", "there is no such encoding"),
    ],
)
def test_an_unknown_encoding_is_refused(name: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        decode(b"text", name)
    assert says in str(raised.value)


def test_a_file_in_another_encoding_than_the_named_one_is_refused() -> None:
    with pytest.raises(UsageError) as raised:
        decode(b"text,label", "utf-16-le" if len(b"text,label") % 2 else "utf-32")
    assert "the file is not in this encoding (encoding = 'utf-32'" in str(raised.value)
