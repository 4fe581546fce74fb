"""Any input: one line on stderr, exit status 2, nothing on stdout, and little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
from permissions import forbid

from weighbridge.models.config import LONGEST_CONFIG

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20

# Starts the process from a small one, because a new process inherits the peak memory of its parent.
# It may reserve at most 400 MiB; after a minute it counts as hanging.
LAUNCHER = """
import os, resource, subprocess, sys, threading
resource.setrlimit(resource.RLIMIT_AS, (400 * 2**20, 400 * 2**20))
child = subprocess.Popen([sys.executable, "-m", "weighbridge", "weigh", *sys.argv[2:]])
stop = threading.Timer(60, child.kill)
stop.start()
_, status, usage = os.wait4(child.pid, 0)
child.returncode = os.waitstatus_to_exitcode(status)
stop.cancel()
print(child.returncode, usage.ru_maxrss * 1024, file=open(sys.argv[1], "w"))
"""


class Ended(NamedTuple):
    status: int
    stdout: str
    stderr: str
    peak_bytes: int


def weigh(folder: Path, *arguments: str | bytes, stdin: bytes = b"") -> Ended:
    """Run ``weighbridge weigh`` in another process, in this folder, and measure its memory."""
    launch = [sys.executable, "-c", LAUNCHER, str(folder / "ended"), *arguments]
    done = subprocess.run(launch, cwd=folder, input=stdin, capture_output=True, check=True)
    status, peak_bytes = map(int, (folder / "ended").read_text().split())
    return Ended(status, done.stdout.decode(), done.stderr.decode(), peak_bytes)


def assert_refused(ended: Ended, message: str) -> None:
    assert ended.status == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("weighbridge: ")
    assert ended.stderr.endswith("\n")
    assert ended.stderr[:-1].isprintable(), "one line of printable characters"
    assert len(ended.stderr) < 1000
    assert message in ended.stderr
    assert "Traceback (most" not in ended.stderr
    assert ended.peak_bytes < 100 * MIB


def config(**fields: object) -> bytes:
    return json.dumps({"model_type": "bert", **fields}).encode()


SIZE = "hidden_size must be an integer from 1 to 2147483647"
BAD = {
    "negative": (config(hidden_size=-768), f"{SIZE} (hidden_size = -768)"),
    "zero": (config(hidden_size=0), f"{SIZE} (hidden_size = 0)"),
    "NaN": (config(hidden_size=float("nan")), f"{SIZE} (hidden_size = nan)"),
    "infinity": (config(hidden_size=float("inf")), f"{SIZE} (hidden_size = inf)"),
    "a float": (config(hidden_size=768.0), f"{SIZE} (hidden_size = 768.0)"),
    "text": (config(hidden_size="768"), f"{SIZE} (hidden_size = '768')"),
    "a bool": (config(hidden_size=True), f"{SIZE} (hidden_size = true)"),
    "null": (config(hidden_size=None), f"{SIZE} (hidden_size = null)"),
    "a list for a size": (config(hidden_size=[768]), f"{SIZE} (hidden_size = a list of 1)"),
    "10**30": (config(hidden_size=10**30), SIZE),
    "10**4000": (config(hidden_size=10**4000), f"{SIZE} (hidden_size = an integer of 13288 bits)"),
    "10**9 layers": (
        config(num_hidden_layers=10**9),
        "num_hidden_layers must be an integer from 1 to 10000",
    ),
    "heads that do not divide": (
        config(num_attention_heads=7),
        "a model of type bert needs hidden_size % num_attention_heads == 0",
    ),
    "text for a switch": (config(is_decoder="no"), "is_decoder must be true or false"),
    "a padding token past the end": (
        config(vocab_size=5, pad_token_id=5),
        "a model of type bert needs pad_token_id < vocab_size",
    ),
    "another family": (config(model_type="gpt\n9"), "no blueprint for the model_type"),
    "a family that is a list": (config(model_type=["bert"]), "no blueprint for the model_type"),
    "a list": (b"[1, 2]", "is not a JSON object (found = a list of 2)"),
    "{}": (b"{}", "names no model_type"),
    "not JSON": (b"hidden_size = 768", "is not JSON"),
    "JSON cut short": (config()[:-1], "is not JSON"),
    "two objects": (config() * 2, "is not JSON"),
    "an empty file": (b"", "is not JSON"),
    "binary junk": (bytes(range(256)) * 64, "is not UTF-8 text"),
    "UTF-16": (config().decode().encode("utf-16"), "is not UTF-8 text"),
    "NUL bytes": (b"\0" * 1000, "is not JSON"),
    "200,000 nested brackets": (b"[" * 200_000, "is nested too deeply"),
    "200,000 nested lists": (
        b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        "is nested too deeply",
    ),
    "200,000 nested objects": (b'{"a": ' * 200_000, "is nested too deeply"),
    "an integer of 5000 digits": (
        b'{"model_type": "bert", "hidden_size": ' + b"9" * 5000 + b"}",
        "too many digits",
    ),
    "17 MiB": (b'{"a": "' + b"x" * (17 * MIB) + b'"}', f"is longer than {LONGEST_CONFIG} bytes"),
    "17 MiB of nothing": (b"\0" * (17 * MIB), f"is longer than {LONGEST_CONFIG} bytes"),
    "a field twice": (
        b'{"model_type": "bert", "hidden_size": 8, "hidden_size": 9}',
        "gives 'hidden_size' twice",
    ),
    "a field name of half a million characters": (
        b'{"' + b"x" * (MIB // 2) + b'": 1, "' + b"x" * (MIB // 2) + b'": 2}',
        "twice",
    ),
    "lines in a value": (
        config(is_decoder="no\nTraceback\n\x1b[31m"),
        "is_decoder must be true or false",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    text, message = BAD[name]
    (tmp_path / "config.json").write_bytes(text)
    assert_refused(weigh(tmp_path, "config.json"), message)


@pytest.mark.parametrize("name", ["zero", "not JSON", "an empty file", "binary junk", "17 MiB"])
def test_a_bad_config_on_standard_input_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    text, message = BAD[name]
    assert_refused(weigh(tmp_path, "-", stdin=text), message)


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    assert_refused(weigh(tmp_path, "config.json"), "config.json: is not a regular file")
    assert_refused(weigh(tmp_path, "."), "config.json: is not a regular file")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/stdin"])
def test_a_device_is_not_read(device: str, tmp_path: Path) -> None:
    assert_refused(weigh(tmp_path, device), f"{device}: is not a regular file")


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    assert_refused(
        weigh(tmp_path, "./model"), "config.json: cannot be read: No such file or directory"
    )


def test_a_config_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model" / "config.json").mkdir(parents=True)
    assert_refused(weigh(tmp_path, "model"), "model/config.json: is not a regular file")


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to("config.json")
    assert_refused(weigh(tmp_path, "config.json"), "config.json: cannot be read: ")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(config())
    forbid(tmp_path / "config.json")
    assert_refused(weigh(tmp_path, "config.json"), "config.json: cannot be read: Permission denied")


@pytest.mark.parametrize(
    "path", ["missing.json", "./" + "x" * 300, "./" + "x/" * 5000, "./\n.json", "./\udcff.json"]
)
def test_a_path_that_cannot_be_opened_is_refused(path: str, tmp_path: Path) -> None:
    assert_refused(weigh(tmp_path, os.fsencode(path)), "cannot be read: ")


@pytest.mark.parametrize(
    "name", ["", "no-such-model", "x" * 100_000, "\x1b[31m", "a\nb", os.fsdecode(b"\xff")]
)
def test_an_empty_name_is_refused(name: str, tmp_path: Path) -> None:
    assert_refused(weigh(tmp_path, os.fsencode(name)), "no model, family or file has this name")


def test_the_largest_model_that_is_answered_stays_small(tmp_path: Path) -> None:
    largest = {
        "num_hidden_layers": 10_000,
        "hidden_size": 2**31 - 1,
        "num_attention_heads": 1,
        "vocab_size": 2**31 - 1,
    }
    (tmp_path / "config.json").write_bytes(config(**largest))
    ended = weigh(tmp_path, "config.json")
    assert ended.status == 0
    assert ended.stderr == ""
    assert ended.peak_bytes < 100 * MIB


@pytest.mark.parametrize("many", ["[],", "{},", '{"":0},', "1e9,", '"ab",'])
def test_the_longest_config_that_is_read_stays_small(many: str, tmp_path: Path) -> None:
    """A few bytes of JSON become many in Python, so the length of the file is limited."""
    begun, ended_by = b'{"model_type": "bert", "colours": [', b"0]}"
    times = (LONGEST_CONFIG - len(begun) - len(ended_by)) // len(many)
    (tmp_path / "config.json").write_bytes(begun + many.encode() * times + ended_by)
    ended = weigh(tmp_path, "config.json")
    assert ended.status == 0
    assert ended.stderr.startswith(
        "weighbridge: note: config.json: ignored fields, with no known effect: colours = a list "
    )
    assert ended.peak_bytes < 100 * MIB


@pytest.mark.parametrize("many", ['"":0,', '"{}":0,'])
def test_a_config_of_many_fields_stays_small(many: str, tmp_path: Path) -> None:
    fields, length, number = [], 0, 0
    while length < LONGEST_CONFIG - 100:
        fields.append(many.format(number))
        length, number = length + len(fields[-1]), number + 1
    (tmp_path / "config.json").write_text('{"model_type": "bert", ' + "".join(fields)[:-1] + "}")
    ended = weigh(tmp_path, "config.json")
    assert ended.status == 0
    assert ended.peak_bytes < 100 * MIB
