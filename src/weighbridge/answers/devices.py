"""Accelerators with their memory, peaks and links: `weighbridge devices`."""

from __future__ import annotations

from weighbridge import data, units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.costs.devices import (
    PEAK_DTYPES,
    device_called,
    known_devices,
    read_device_file,
)
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.document import Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.answers.data_table import DataTable
    from weighbridge.costs.devices import Device, Disputed
    from weighbridge.render.document import Block


def devices(*names: str, file: str | os.PathLike[str] | None = None) -> DeviceList:
    """List accelerators: all that are known, or those with some names and all facts about them.

    Args:
        names: such as ``"H100"``, ``"a100 80gb"`` or ``"tpu v5e"``.
        file: a TOML file of one's own devices, in the format of `facts/devices.toml`. They come
            first, and a known one with the same name is left out.

    Raises:
        UsageError: there is no such device, its name may be that of several, or the file cannot be
            read or breaks the format.

    Example:
        >>> h100 = devices("H100").devices[0]
        >>> h100.memory_bytes, h100.bandwidth, h100.peaks["BF16"]
        (85899345920, 3350000000000, 989400000000000.0)
    """
    own = read_device_file(file) if file is not None else {}
    if names:
        found = {device.name: device for device in (device_called(name, own) for name in names)}
    else:
        found = own | {name: known for name, known in known_devices().items() if name not in own}
    return DeviceList(found.values(), is_in_full=bool(names))


class DeviceList(TabularAnswer):
    """What `devices` returns; ``is_in_full`` asks for all facts about each, with their sources.

    Example:
        >>> print(devices("RTX 4090").text().splitlines()[0])
        RTX4090 · NVIDIA GeForce RTX 4090
    """

    groupings = ("device",)

    def __init__(self, devices: Iterable[Device], *, is_in_full: bool = False) -> None:
        self.devices, self.is_in_full = list(devices), is_in_full

    def to_dict(self) -> list[dict[str, Any]]:
        """Return all facts about each device, ready for JSON."""
        return [_as_dict(device) for device in self.devices]

    def document(self, lang: str = "en") -> Document:
        """Return a table of the devices, or all facts about each."""
        texts = _device_words(lang)
        if not self.is_in_full:
            notes = Notes((texts["peaks_are"], texts["more"]))
            return Document((_overview(self.devices, texts), notes), lang)
        blocks: list[Block] = []
        for device in self.devices:
            blocks += _in_full(device, texts, lang)
        return Document(tuple(blocks), lang)

    def _data_table(self, by: str) -> DataTable:
        from weighbridge.answers.data_table import (  # noqa: PLC0415  # a terminal does without
            INTEGER,
            NUMBER,
            Column,
            DataTable,
        )

        columns = [Column(by), Column("label"), Column("released")]
        columns += [Column(name, INTEGER) for name in ("memory_bytes", "bandwidth", "node")]
        columns += [Column(name, NUMBER) for name in ("usable", "link", "network")]
        columns += [Column(f"peak_{dtype}_tflop_per_s", NUMBER) for dtype in PEAK_DTYPES]
        rows = []
        for device in self.devices:
            texts = (device.name, device.label, device.released)
            integers = (device.memory_bytes, device.bandwidth, device.node)
            numbers = (device.usable_bytes, device.link, device.network)
            peaks = tuple(_in_tera(device.peaks.get(dtype)) for dtype in PEAK_DTYPES)
            rows.append((*texts, *integers, *numbers, *peaks))
        return DataTable(tuple(columns), rows)


def _in_tera(peak: float | None) -> float | None:
    return None if peak is None else round(peak / 1e12, 6)


def _as_dict(device: Device) -> dict[str, Any]:
    as_dict = device._asdict()
    del as_dict["stated"]
    return {
        **as_dict,
        "peaks": dict(device.peaks),
        "sources": {source: list(facts) for source, facts in device.stated.items()},
        "disputed": [disputed._asdict() for disputed in device.disputed],
        "notes": list(device.notes),
        "aliases": list(device.aliases),
    }


# The table of all devices

_SHOWN_PEAKS = ("F8", "F4")  # after those of 16 bits


def _overview(devices: Iterable[Device], texts: Mapping[str, str]) -> Table:
    header = ("device", "memory", "bandwidth", "half", *_SHOWN_PEAKS, "link", "node")
    rows = []
    for device in devices:
        half = device.peaks.get("BF16", device.peaks.get("F16"))
        peaks = (half, *(device.peaks.get(dtype) for dtype in _SHOWN_PEAKS))
        memory_and_bandwidth = (units.size(device.memory_bytes), _per_second(device.bandwidth))
        link_and_node = (_per_second(device.link), units.count(device.node))
        rows.append((device.name, *memory_and_bandwidth, *map(_tera, peaks), *link_and_node))
    return Table(tuple(texts[name] for name in header), tuple(rows), "<" + ">" * (len(header) - 1))


def _per_second(rate: int | None) -> str:
    return "" if rate is None else units.rate(rate, "B/s")


def _tera(peak: float | None) -> str:
    """Write a peak in TFLOP/s, without the unit."""
    return "" if peak is None else units.three_digits(peak / 1e12)


# All facts about a device


def _in_full(device: Device, texts: Mapping[str, str], lang: str) -> Iterator[Block]:
    title = texts["heading"].format(name=device.name, label=device.label)
    rows = tuple(
        (_fact_name(field, texts), _shown_value(field, device.fact(field)), _stating(field, device))
        for field in _fields(device)
    )
    header = (texts["fact"], texts["value"], texts["sources"])
    yield Together((Title(title), Table(header, rows, "<><")))
    notes = [_translated(note, texts, lang) for note in device.notes]
    notes += [_dispute(disputed, texts, lang) for disputed in device.disputed]
    if notes:
        yield Notes(tuple(notes))
    yield Notes(tuple(f"[{place}] {source}" for place, source in enumerate(device.sources, 1)))


def _fields(device: Device) -> Iterator[str]:
    """Yield the names of the known facts about a device."""
    for field in ("memory_bytes", "usable_bytes", "bandwidth"):
        if device.fact(field) is not None:
            yield field
    for dtype in device.peaks:
        yield f"peaks.{dtype}"
    for field in ("link", "network", "node", "released"):
        if device.fact(field) not in {None, ""}:
            yield field


def _fact_name(field: str, texts: Mapping[str, str]) -> str:
    name, _, dtype = field.partition(".")
    if dtype:
        return texts["peak"].format(dtype=dtype)
    return texts[name]


def _shown_value(field: str, value: Any) -> str:
    name, _, dtype = field.partition(".")
    if dtype:
        return units.rate(value, "OP/s" if dtype.startswith("I") else "FLOP/s")
    if name.endswith("bytes"):
        return f"{units.count(round(value))} B, {units.size(round(value))}"
    if name in {"bandwidth", "link", "network"}:
        return units.rate(value, "B/s")
    return units.count(value) if name == "node" else value


def _stating(field: str, device: Device) -> str:
    """Return the numbers of the sources that state a fact."""
    names = {field, field.partition(".")[0]}
    numbers = [
        f"[{place}]"
        for place, source in enumerate(device.sources, 1)
        if names.intersection(device.stated[source])
    ]
    return " ".join(numbers)


def _dispute(disputed: Disputed, texts: Mapping[str, str], lang: str) -> str:
    named = {
        "fact": _fact_name(disputed.field, texts),
        "value": _shown_value(disputed.field, disputed.value),
        "source": disputed.source,
    }
    if not disputed.why:
        return texts["disputed"].format(**named)
    return texts["disputed_why"].format(**named, why=_translated(disputed.why, texts, lang))


def _translated(sentence: str, texts: Mapping[str, Any], lang: str) -> str:
    """Return a sentence of the facts in a language; one of a user's own file stays as it is."""
    if lang == data.LANGUAGES[0]:
        return sentence
    translated: str = texts["facts"].get(sentence, sentence)
    return translated


def _device_words(lang: str) -> dict[str, Any]:
    return {**words(lang), **data.read_toml(f"words/devices.{lang}.toml")}
