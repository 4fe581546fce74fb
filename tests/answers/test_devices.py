"""The list of accelerators: as tables, in full, and in Chinese."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from chinese import english_in

from weighbridge import data
from weighbridge.answers.devices import devices
from weighbridge.cli.program import main
from weighbridge.costs.devices import known_devices
from weighbridge.errors import UsageError
from weighbridge.render.table import width

if TYPE_CHECKING:
    from pathlib import Path

OWN = "[Mine]\nmemory_bytes = 8_589_934_592\nbandwidth = 1e11\npeaks = { F16 = 1e13 }\n"
LONG_ADDRESS = "https://"


@pytest.mark.parametrize("lang", data.LANGUAGES)
def test_the_table_of_all_fits_a_terminal(lang: str) -> None:
    lines = devices().text(lang).splitlines()
    assert sum(line.split()[0] in known_devices() for line in lines if line) == len(known_devices())
    assert max(map(width, lines)) <= 80


def test_a_row_has_the_figures_of_its_device() -> None:
    (line,) = (line for line in devices().text().splitlines() if line.startswith("B200 "))
    assert line.split() == [
        "B200",
        "180",
        "GiB",
        "7.70",
        "TB/s",
        "2250",
        "4500",
        "9000",
        "900",
        "GB/s",
        "8",
    ]
    (line,) = (line for line in devices().text().splitlines() if line.startswith("V100-16GB "))
    assert line.split() == ["V100-16GB", "16.0", "GiB", "900", "GB/s", "125", "150", "GB/s", "8"]


def test_a_device_in_full_has_its_sources_and_what_is_disputed() -> None:
    text = devices("b200").text()
    assert "B200 · NVIDIA B200 SXM 180GB" in text
    assert "193,273,528,320 B, 180 GiB" in text
    assert "Other memory: 206,158,430,208 B, 192 GiB" in text
    for place, source in enumerate(known_devices()["B200"].sources, 1):
        assert f"[{place}]" in text
        assert source in text


@pytest.mark.parametrize("lang", data.LANGUAGES)
def test_every_device_in_full_fits_a_terminal_except_long_addresses(lang: str) -> None:
    for line in devices(*known_devices()).text(lang).splitlines():
        assert width(line) <= 80 or LONG_ADDRESS in line


def test_every_sentence_of_the_facts_has_chinese_and_nothing_else_has() -> None:
    sentences = set()
    for device in known_devices().values():
        sentences |= {*device.notes, *(other.why for other in device.disputed if other.why)}
    for lang in data.LANGUAGES[1:]:
        assert sentences == data.read_toml(f"words/devices.{lang}.toml")["facts"].keys()


def test_an_answer_in_chinese_has_no_english() -> None:
    labels = {device.label for device in known_devices().values()}
    text = devices(*known_devices()).text("zh")
    for label in labels:
        text = text.replace(label, "§")
    assert english_in(text) == []


def test_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "h100", "rtx 4090", "--json"]) == 0
    h100, rtx4090 = json.loads(capsys.readouterr().out)
    assert h100["memory_bytes"] == 80 * 2**30
    assert h100["peaks"]["BF16"] == 989.4e12
    assert sum("peaks" in facts for facts in h100["sources"].values()) == 1
    first = rtx4090["disputed"][0]
    assert (first["field"], first["value"]) == ("peaks.BF16", 330e12)


def test_own_devices_come_first_and_take_the_place_of_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN + OWN.replace("Mine", "H100"))
    found = devices(file=path).devices
    assert [device.name for device in found[:2]] == ["Mine", "H100"]
    assert found[1].memory_bytes == 2**33
    assert len(found) == len(known_devices()) + 1
    assert devices("mine", "h100", "l4", file=path).records()[1]["memory_bytes"] == 2**33
    assert "Mine · Mine" in devices("mine", file=path).text()


def test_a_device_asked_for_twice_is_shown_once() -> None:
    assert len(devices("H100", "h100-sxm").devices) == 1


def test_a_wrong_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "a100"]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("\n") == 1
    with pytest.raises(UsageError, match="several devices have this name"):
        devices("a100")
