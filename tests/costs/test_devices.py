"""Accelerators: held against another collection of figures, and a user's own file of them."""

from __future__ import annotations

import contextlib
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge import data
from weighbridge.costs.devices import (
    FIGURES,
    PEAK_DTYPES,
    Device,
    device_called,
    devices_on,
    known_devices,
    read_device_file,
)
from weighbridge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = Path(__file__).parents[1] / "data" / "accelerators.tsv"
DEVICES = known_devices()
ROUNDING = 0.006  # relative: makers and tables round to two digits, such as 8.14 to 8.1
GIB = 2**30

# The columns of the table, with the fact that each states.
COLUMNS = {
    "Tensor-FP16/BF16 performance (FLOP/s)": "peaks.BF16",
    "FP8 performance (FLOP/s)": "peaks.F8",
    "TF32 (TensorFloat-32) performance (FLOP/s)": "peaks.TF32",
    "FP32 (single precision) performance (FLOP/s)": "peaks.F32",
    "INT8 performance (OP/s)": "peaks.I8",
    "Memory bandwidth (byte/s)": "bandwidth",
}
LLM_CAL = {"llm_cal_fp16_tflops": ("peaks.BF16", 1e12), "llm_cal_bw_gbps": ("bandwidth", 1e9)}
MEMORIES = {"Memory (bytes)": 1e9, "llm_cal_mem_gb": 1.0}
"""The columns of memory, with the size of one of the maker's "GB" in them."""


def rows() -> Iterator[tuple[str, dict[str, str]]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            yield row["chip"], row


CHIPS = dict(rows())


def stated(row: dict[str, str]) -> Iterator[tuple[str, float]]:
    """Yield each figure of a row, by the name of the fact, in our units."""
    for column, field in COLUMNS.items():
        if row[column]:
            yield field, float(row[column])
    for column, (field, unit) in LLM_CAL.items():
        if row[column]:
            yield field, float(row[column]) * unit
    for column, gigabyte in MEMORIES.items():
        if row[column]:
            # Both write the maker's number of GB, which are 2^30 bytes.
            yield "memory_bytes", float(row[column]) / gigabyte * GIB


def is_same(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= ROUNDING * theirs


def ours_of(device: Device, field: str) -> float | None:
    """Return our figure; V100, P100 and T4 have no BF16, and their column has the F16."""
    if field == "peaks.BF16" and "BF16" not in device.peaks:
        field = "peaks.F16"
    found: float | None = device.fact(field)
    return found


@pytest.mark.parametrize("chip", CHIPS)
def test_every_figure_of_the_table_is_ours_or_disputed(chip: str) -> None:
    device = device_called(chip)
    for field, theirs in stated(CHIPS[chip]):
        ours = ours_of(device, field)
        disputed = [other.value for other in device.disputed if other.field == field]
        known = [ours, *disputed] if ours is not None else disputed
        assert any(is_same(figure, theirs) for figure in known), (field, ours, theirs, disputed)


def test_the_table_is_not_empty_and_mostly_agrees() -> None:
    agreeing = disputed = 0
    for chip, row in CHIPS.items():
        device = device_called(chip)
        for field, theirs in stated(row):
            ours = ours_of(device, field)
            agrees = ours is not None and is_same(ours, theirs)
            agreeing, disputed = agreeing + agrees, disputed + (not agrees)
    assert len(CHIPS) == 32
    assert (agreeing, disputed) == (AGREEING, DISPUTED)


AGREEING, DISPUTED = 195, 22  # of the figures of the table


@pytest.mark.parametrize("chip", CHIPS)
def test_a_device_came_out_when_the_table_says(chip: str) -> None:
    assert device_called(chip).released == CHIPS[chip]["Release date"]


# What every entry must be


@pytest.mark.parametrize("name", DEVICES)
def test_every_fact_has_a_source_or_a_note(name: str) -> None:
    device = DEVICES[name]
    assert device.sources
    assert all(source.startswith("https://") for source in device.sources)
    stated_facts = {fact for facts in device.stated.values() for fact in facts}
    fields = {field for field in FIGURES if device.fact(field) is not None}
    fields |= {f"peaks.{dtype}" for dtype in device.peaks}
    for field in fields - {"node", "link"}:
        assert {field, field.partition(".")[0]} & stated_facts, field
    # The links of ordinary cards and the size of ordinary servers are in no data sheet.
    assert "link" in stated_facts or device.link is None or noted(device, "PCIe")
    assert "node" in stated_facts or noted(device, "in a node", "make a node")


def noted(device: Device, *words: str) -> bool:
    return any(word in note for word in words for note in device.notes)


@pytest.mark.parametrize("name", DEVICES)
def test_the_facts_named_by_sources_and_disputes_exist(name: str) -> None:
    device = DEVICES[name]
    known = {*FIGURES, "peaks", *(f"peaks.{dtype}" for dtype in PEAK_DTYPES)}
    for facts in device.stated.values():
        assert facts
        assert known.issuperset(facts)
        assert all(device.fact(fact) is not None for fact in facts)
    for other in device.disputed:
        assert other.field in known - {"peaks"}
        assert other.source.startswith("https://")
        assert device.fact(other.field) != other.value
        assert other.why or device.fact(other.field) is not None


@pytest.mark.parametrize("name", DEVICES)
def test_figures_are_in_proportion(name: str) -> None:
    """A figure with sparsity, or in another unit, is out of proportion to its neighbours."""
    device = DEVICES[name]
    half = device.peaks.get("BF16", device.peaks.get("F16"))
    assert half
    assert (device.memory_bytes / GIB).is_integer()
    assert 8 * GIB <= (device.usable_bytes or device.memory_bytes) <= device.memory_bytes
    assert device.memory_bytes * 0.9 < (device.usable_bytes or device.memory_bytes)
    assert 5 < half / device.bandwidth < 650  # FLOP for each byte read
    assert device.peaks.get("F16", half) == half
    narrower = {"TF32": (0.25, 1), "F8": (1, 4), "I8": (0.05, 4.01), "F4": (2, 8.01)}
    for dtype, (least, most) in narrower.items():
        assert least <= device.peaks.get(dtype, least * half) / half <= most, dtype
    if device.link:
        assert 0.01 < device.link / device.bandwidth < 0.5
    if device.network:
        assert device.network < (device.link or 0)
    assert device.released[:2] == "20"
    assert len(device.released) == len("2024-01-01")


def test_at_least_45_devices_and_those_asked_for() -> None:
    assert len(DEVICES) == 65
    asked = (
        "P100, V100 16GB, V100 32GB, T4, A10, A10G, A16, A30, A40, A100 SXM 40GB, A100 SXM 80GB, "
        "A100 40GB PCIe, A100 80GB PCIe, RTX 3090, RTX 4080, RTX 4090, RTX 5090, RTX A6000, "
        "RTX 6000 Ada, RTX PRO 6000 Blackwell, L4, L40, L40S, H100 SXM, H100 PCIe, H100 NVL, H200, "
        "H800, H20, GH200, B100, B200, GB200, B300, GB300, MI210, MI250X, MI300X, MI300A, MI325X, "
        "MI350X, MI355X, Gaudi2, Gaudi3, TPU v2, TPU v3, TPU v4, TPU v5e, TPU v5p, TPU v6e, "
        "TPU v7, Trainium1, Trainium2, Inferentia2, Ascend 910B, M2 Ultra, M3 Ultra, M4 Max"
    )
    assert len({device_called(name).name for name in asked.split(", ")}) == len(asked.split(", "))


# What is known otherwise: two devices of which nvidia-smi and a specification say the same


def test_a_gigabyte_of_memory_is_binary() -> None:
    assert DEVICES["A100-80GB"].usable_bytes == 81_920 * 2**20 == 80 * GIB
    assert DEVICES["H100"].usable_bytes == 81_559 * 2**20 == 85_520_809_984


def test_peaks_are_products_of_units_and_clocks() -> None:
    """NVIDIA's white papers give SMs, boost clocks, and FLOPs for each SM and clock."""
    h100 = 132 * 1_830e6 * 4096  # SMs, Hz, dense FP16 FLOPs of the matrix units of an SM
    assert DEVICES["H100"].peaks["BF16"] == pytest.approx(h100, rel=1e-3)
    a100 = 108 * 1_410e6 * 2048
    assert DEVICES["A100-80GB"].peaks["BF16"] == pytest.approx(a100, rel=1e-3)
    rtx4090 = 128 * 2_520e6 * 512  # with FP32 accumulation
    assert DEVICES["RTX4090"].peaks["BF16"] == pytest.approx(rtx4090, rel=1e-3)
    mi300x = 304 * 2_100e6 * 2048
    assert DEVICES["MI300X"].peaks["BF16"] == pytest.approx(mi300x, rel=1e-3)


BUSES = {  # bits, and Gb/s for each
    "RTX3090": (384, 19.5),
    "RTX4080": (256, 22.4),
    "RTX4090": (384, 21),
    "RTX5090": (512, 28),
    "RTXA6000": (384, 16),
    "RTX6000-Ada": (384, 20),
    "RTXPRO6000": (512, 28),
    "A10": (384, 12.5),
    "A40": (384, 14.5),
    "L4": (192, 12.5),
    "L20": (384, 18),
    "L40": (384, 18),
    "L40S": (384, 18),
    "H100": (5120, 5.238),  # nvidia-smi: 2,619 MHz, two transfers a clock
    "MI300X": (8192, 5.2),
    "MI250X": (8192, 3.2),
}


@pytest.mark.parametrize("name", BUSES)
def test_bandwidths_are_products_of_widths_and_rates(name: str) -> None:
    bits, rate = BUSES[name]
    assert DEVICES[name].bandwidth == pytest.approx(bits / 8 * rate * 1e9, rel=ROUNDING)


def test_the_bandwidth_of_a_b200_is_that_of_the_bus_that_the_driver_reports() -> None:
    assert DEVICES["B200"].bandwidth == pytest.approx(7680 / 8 * 3996e6 * 2, rel=5e-3)


# What was measured: no device does more than its peak

MEASURED = Path(__file__).parents[1] / "data" / "serving_latency.tsv"
LEAST_PARAMETERS = {  # active for each token; names and config cards round them
    "EleutherAI/gpt-j-6b": 6.0e9,
    "meta-llama/Llama-2-7b-hf": 6.7e9,
    "meta-llama/Llama-2-70b-hf": 68.9e9,
    "tiiuae/falcon-180B": 179e9,
    "meta-llama/Llama-3.1-8B-Instruct": 8.0e9,
    "meta-llama/Llama-3.3-70B-Instruct": 70.5e9,
    "meta-llama/Llama-3.1-405B-Instruct": 405e9,
    "Qwen/Qwen3-235B-A22B": 21e9,
    "Qwen/Qwen3-30B-A3B": 3e9,
    "mistralai/Mistral-7B-v0.1": 7.2e9,
    "mistralai/Mixtral-8x7B-v0.1": 12.8e9,
    "openai/gpt-oss-20b": 3.6e9,
    "openai/gpt-oss-120b": 5.1e9,
}
MULTIPLIED = 0.85  # of the parameters at least: embeddings and most rows of the head are not


def measured() -> list[dict[str, str]]:
    with MEASURED.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def share_of_peak(row: dict[str, str]) -> float:
    """Return the part of the peak that a measurement needs for the products alone."""
    device, inputs = device_called(row["device"]), int(row["input_tokens"])
    flops_per_token = 2 * MULTIPLIED * LEAST_PARAMETERS[row["model"]]
    peak = device.peaks[row["dtype"]] * int(row["devices"])
    value = float(row["value"])
    if row["unit"] == "ms":
        return inputs * flops_per_token / (value / 1000) / peak
    per_second = value * (int(row["devices"]) if "for each" in row["unit"] else 1)
    outputs = int(row["output_tokens"])
    return per_second * (inputs + outputs) / outputs * flops_per_token / peak


def test_no_measurement_is_faster_than_the_peak() -> None:
    shares = [share_of_peak(row) for row in measured()]
    assert len(shares) == 392
    assert max(shares) < 1
    assert max(shares) > 0.5  # else the test could not tell a peak with sparsity


def test_no_first_token_comes_before_the_weights_are_read() -> None:
    width = {"F16": 2, "F8": 1, "F4": 0.5}
    times = []
    for row in measured():
        if row["unit"] == "ms":
            device, number = device_called(row["device"]), int(row["devices"])
            weights = MULTIPLIED * LEAST_PARAMETERS[row["model"]] * width[row["dtype"]]
            times.append(weights / (device.bandwidth * number) / (float(row["value"]) / 1000))
    assert len(times) == 62
    assert 0.3 < max(times) < 1


# Names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h100", "H100"),
        ("h100-sxm", "H100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("a100-80gb", "A100-80GB"),
        ("a100 80gb", "A100-80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("4090", "RTX4090"),
        ("rtx4090", "RTX4090"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("l4", "L4"),
        ("mi300x", "MI300X"),
        ("AMD Instinct MI300X", "MI300X"),
        ("tpu v5e", "TPUv5e"),
        ("TPU-v5p", "TPUv5p"),
        ("Trillium", "TPUv6e"),
    ],
)
def test_a_device_has_many_names(name: str, expected: str) -> None:
    assert device_called(name).name == expected


@pytest.mark.parametrize("name", DEVICES)
def test_every_main_name_and_label_means_its_device(name: str) -> None:
    assert device_called(name) is DEVICES[name]
    assert device_called(DEVICES[name].label) is DEVICES[name]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("A100", "Use one of A100-40GB, A100-80GB"),
        ("v100", "Use one of V100-16GB, V100-32GB"),
        ("h10", "H100"),
        ("mi300", "MI300X"),
        ("RTX 4091", "RTX4090"),
        ("", "`weighbridge devices` lists them"),
        ("nvidia", "`weighbridge devices` lists them"),
        ("no such card", "`weighbridge devices` lists them"),
    ],
)
def test_another_name_is_refused_with_near_misses(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        device_called(name)
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "number", "name"),
    [
        ("2xH100", 2, "H100"),
        ("H100", 1, "H100"),
        ("8×A100-80GB", 8, "A100-80GB"),
        ("8 x a100 80gb", 8, "A100-80GB"),
        ("16X l4", 16, "L4"),
        ("4*4090", 4, "RTX4090"),
        ("4090", 1, "RTX4090"),
        ("1000000xTPU v5e", 1_000_000, "TPUv5e"),
        ("003xB200", 3, "B200"),
    ],
)
def test_a_number_of_devices(text: str, number: int, name: str) -> None:
    found = devices_on(text)
    assert (found.number, found.device.name) == (number, name)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0xH100", "not from 1 to 1,000,000"),
        ("-1xH100", "not from 1 to 1,000,000"),
        ("1000001xH100", "not from 1 to 1,000,000"),
        (f"{'9' * 5000}xH100", "not from 1 to 1,000,000"),
        ("2x", "no device is named"),
        ("", "no device is named"),
        ("  ", "no device is named"),
        ("xH100", "no such device"),
        ("2.5xH100", "no such device"),
        ("--2xH100", "no such device"),
        ("2xx H100", "no such device"),
        ("2", "no such device"),
    ],
)
def test_another_number_of_devices_is_refused(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        devices_on(text)


@given(st.text(max_size=30))
def test_any_text_is_devices_or_our_own_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert devices_on(text).number >= 1


# A file of one's own devices

SOUND = """
[MyCard]
memory_bytes = 17_179_869_184
bandwidth = 5e11
peaks = { BF16 = 1e14, F32 = 20_000_000_000_000 }
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "own.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_of_own_devices(tmp_path: Path) -> None:
    path = written(tmp_path, SOUND)
    own = read_device_file(path)
    mine = own["MyCard"]
    assert mine.label == mine.name == "MyCard"
    assert (mine.memory_bytes, mine.usable_bytes, mine.bandwidth) == (16 * GIB, None, 500 * 10**9)
    assert type(mine.bandwidth) is int
    assert mine.peaks == {"F32": 2e13, "BF16": 1e14}
    assert (mine.link, mine.network, mine.node, mine.sources) == (None, None, 1, ())
    assert device_called("my card", own) is mine
    assert devices_on("3x my-card", path) == (3, mine)
    assert device_called("h100", own).name == "H100"
    with pytest.raises(UsageError, match="did you mean MyCard"):
        raise_plain(lambda: device_called("mycart", own))


def raise_plain(call: Any) -> None:
    """Raise an error whose text has the hint as the code writes it."""
    try:
        call()
    except UsageError as error:
        raise UsageError(error.hint) from None


def test_an_own_device_takes_the_place_of_a_known_one(tmp_path: Path) -> None:
    own = read_device_file(written(tmp_path, SOUND.replace("MyCard", "h100")))
    assert device_called("H100", own).memory_bytes == 16 * GIB


def test_our_own_facts_are_such_a_file() -> None:
    path = Path(data.ROOT) / "facts" / "devices.toml"
    if path.exists():  # a wheel may hold it compiled only
        assert read_device_file(path) == DEVICES


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("bandwidth = 5e11", "", ["lacks a key", "MyCard", "bandwidth"]),
        ("memory_bytes = 17_179_869_184", "", ["lacks a key", "MyCard", "memory_bytes"]),
        ("peaks = {", "peaks_ = {", ["unknown key", "MyCard", "peaks_", "Use one of peaks"]),
        ("bandwidth", "bandwith", ["unknown key", "MyCard", "bandwith", "Use one of bandwidth"]),
        ("BF16 =", "BF15 =", ["unknown key", "MyCard", "BF15", "Use one of BF16"]),
        ("5e11", "0", ["not a positive number", "MyCard", "bandwidth = 0"]),
        ("5e11", "-1", ["not a positive number", "MyCard", "bandwidth = -1"]),
        ("5e11", "inf", ["not a positive number", "MyCard", "bandwidth = inf"]),
        ("5e11", "nan", ["not a positive number", "MyCard", "bandwidth = nan"]),
        ("5e11", "true", ["not a positive number", "MyCard", "bandwidth = true"]),
        ("5e11", "'fast'", ["not a positive number", "MyCard", "bandwidth = 'fast'"]),
        ("5e11", "[1]", ["not a positive number", "MyCard", "a list of 1"]),
        ("5e11", "2.5", ["not a whole number", "MyCard", "bandwidth = 2.5"]),
        ("5e11", "9" * 5000, ["is not TOML"]),
        ("1e14", "-1e14", ["not a positive number", "MyCard", "peaks.BF16"]),
        ("1e14", "2024-01-01", ["not a positive number", "MyCard", "peaks.BF16"]),
        ("{ BF16 = 1e14, F32 = 20_000_000_000_000 }", "{}", ["lacks peaks", "MyCard", "BF16"]),
        ("{ BF16 = 1e14, F32 = 20_000_000_000_000 }", "3", ["lacks peaks", "MyCard"]),
        ("[MyCard]", "MyCard = 3\n[Other]", ["not a table", "MyCard"]),
        ("[MyCard]", "[MyCard]\nlabel = 3", ["not a text", "MyCard", "label = 3"]),
        ("[MyCard]", "[MyCard]\nreleased = 2024-01-01", ["not a text", "released"]),
        ("[MyCard]", "[MyCard]\naliases = 'x'", ["not a list of texts", "aliases"]),
        ("[MyCard]", "[MyCard]\naliases = [1]", ["not a list of texts", "aliases"]),
        ("[MyCard]", "[MyCard]\nsources = 3", ["not a list of texts", "sources"]),
        ("[MyCard]", "[MyCard]\nsources = {a = 3}", ["not a list of texts", "a = 3"]),
        ("[MyCard]", "[MyCard]\ndisputed = 3", ["not a list of tables", "disputed = 3"]),
        ("[MyCard]", "[MyCard]\ndisputed = [3]", ["needs field, value and source"]),
        ("[MyCard]", "[MyCard]\ndisputed = [{field='link'}]", ["needs field, value and source"]),
        ("[MyCard]", "[MyCard]\nnode = 0", ["not a positive number", "node = 0"]),
        ("[MyCard]", "[MyCard", ["is not TOML"]),
    ],
)
def test_a_wrong_file_is_refused_with_the_file_and_the_key(
    old: str, new: str, said: list[str], tmp_path: Path
) -> None:
    assert old in SOUND
    path = written(tmp_path, SOUND.replace(old, new, 1))
    with pytest.raises(UsageError) as refused:
        read_device_file(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: ")
    for piece in said:
        assert piece in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "names no device"),
        (b"\xff", "is not UTF-8 text"),
        (b"a = " + b"[" * 20_000, "is nested too deeply|is not TOML"),
        (b".".join([b"a"] * 70) + b" = 1", "is nested too deeply"),
        (b"#" * 1_000_001, "is too long"),
    ],
)
def test_a_file_that_is_none_is_refused(content: bytes, what: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=what):
        read_device_file(written(tmp_path, content))


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a regular file"):
        read_device_file(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_device_file(tmp_path / "missing.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        devices_on("H100", "a\0b")
