"""Accelerators: memory, bandwidth, peaks and links of each, from `facts/devices.toml`.

Memory is in bytes, bandwidths in bytes per second, and peaks in FLOP/s without sparsity; a
multiply-add is two FLOPs. ``link`` is one direction of what connects a device to the others of its
node, and ``network`` one direction of what connects it to other nodes.
"""

from __future__ import annotations

import os
from functools import cache

from weighbridge import data
from weighbridge.errors import UsageError, either, nearest, printable, shorten
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.nesting import parse_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

PEAK_DTYPES = ("F32", "TF32", "F16", "BF16", "F8", "F4", "I8")
"""The dtypes that a peak may be known for."""

FIGURES = ("memory_bytes", "usable_bytes", "bandwidth", "link", "network", "node")
"""The facts that are one positive integer each."""

MOST_DEVICES = 1_000_000


class Disputed(NamedTuple):
    """What another source says of a fact; ``why`` explains it, if that is known.

    ``field`` is the name of a fact, or ``peaks.`` and a dtype.
    """

    field: str
    value: float
    source: str
    why: str = ""


class Device(NamedTuple):
    """An accelerator. What is not known is None, or missing from ``peaks``.

    ``memory_bytes`` is the memory on the board, in bytes; ``usable_bytes`` what the driver reports
    as its total. ``bandwidth`` is that of this memory, in bytes per second. ``peaks`` are in FLOP/s
    (I8 in operations per second), without sparsity, by dtype. ``link`` and ``network`` are in bytes
    per second for each direction. ``node`` is the number of devices in a usual node. ``sources``
    are addresses, and ``stated`` says which facts each of them states.
    """

    name: str
    label: str
    memory_bytes: int
    usable_bytes: int | None
    bandwidth: int
    peaks: Mapping[str, float]
    link: int | None
    network: int | None
    node: int
    released: str
    sources: tuple[str, ...]
    disputed: tuple[Disputed, ...] = ()
    stated: Mapping[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def fact(self, field: str) -> Any:
        """Return a fact by the name that `Disputed` and ``stated`` have for it; None if unknown.

        Example:
            >>> device_called("L4").fact("peaks.BF16")
            121000000000000.0
        """
        name, _, dtype = field.partition(".")
        if dtype:
            return self.peaks.get(dtype)
        return getattr(self, name)


class Devices(NamedTuple):
    """Some devices that are all alike."""

    number: int
    device: Device


@cache
def known_devices() -> Mapping[str, Device]:
    """Return the devices that weighbridge knows, by name.

    Example:
        >>> known_devices()["H100"].label
        'NVIDIA H100 SXM5 80GB'
    """
    table = data.read_toml("facts/devices.toml")
    return {name: _device(name, entry, "facts/devices.toml") for name, entry in table.items()}


def device_called(name: str, own: Mapping[str, Device] | None = None) -> Device:
    """Return the device with a name, in capitals or not, or one of its other names.

    Args:
        name: such as ``"H100"``, ``"a100 80gb"`` or ``"RTX 4090"``.
        own: the devices of a file, from `read_device_file`; they come before the known ones.

    Raises:
        UsageError: there is no such device, or the name may be that of several.

    Example:
        >>> device_called("nvidia h100-sxm").name
        'H100'
    """
    for devices in (own or {}, known_devices()):
        found = _with_name(devices, _key(name))
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                "several devices have this name",
                values={"device": name},
                hint=f"use one of {', '.join(device.name for device in found)}",
            )
    raise UsageError(
        "there is no such device", values={"device": name}, hint=_near_misses(name, own or {})
    )


def _with_name(devices: Mapping[str, Device], wanted: str) -> list[Device]:
    """Return the devices with a name; one whose main name it is comes alone."""
    exact = [device for device in devices.values() if _key(device.name) == wanted]
    return exact or [device for device in devices.values() if wanted in _keys_of(device)]


def _near_misses(name: str, own: Mapping[str, Device]) -> str:
    by_key: dict[str, str] = {}
    for device in (*own.values(), *known_devices().values()):
        for key in _keys_of(device):
            by_key.setdefault(key, device.name)
    wanted = _key(name)
    near = [by_key[key] for key in nearest(by_key, wanted)]
    near += [known for key, known in by_key.items() if wanted and key.startswith(wanted)]
    if near:
        return f"did you mean {either(tuple(dict.fromkeys(near))[:_MOST_NEAR])}?"
    return "`weighbridge devices` lists them; --device-file adds your own"


_MOST_NEAR = 4


def _keys_of(device: Device) -> Iterator[str]:
    for name in (device.name, device.label, *device.aliases):
        yield _key(name)


def _key(name: str) -> str:
    """Return a name without capitals, spaces and punctuation, and without its maker."""
    words = name.lower().replace("-", " ").replace("_", " ").split()
    return "".join(word for word in words if word not in _MAKERS)


_MAKERS = frozenset(
    {"nvidia", "geforce", "tesla", "amd", "instinct", "intel", "habana", "google", "cloud"}
    | {"aws", "amazon", "apple", "huawei", "gpu"}
)


def devices_on(text: str, file: str | os.PathLike[str] | None = None) -> Devices:
    """Read a number of devices: ``"2xH100"``, ``"H100"`` or ``"8×A100-80GB"``.

    Args:
        text: the number, ``x`` or ``×``, and a name as for `device_called`.
        file: a file of one's own devices.

    Raises:
        UsageError: the text has another form, the number is not from 1 to 1,000,000, or there is no
            such device.

    Example:
        >>> number, device = devices_on("2xH100")
        >>> number, device.name, devices_on("l4").number
        (2, 'H100', 1)
    """
    own = read_device_file(file) if file is not None else {}
    number, name = _split(text)
    if number < 1 or number > MOST_DEVICES:
        raise UsageError(
            "the number of devices is not from 1 to 1,000,000",
            values={"on": text},
            hint="write it as 2xH100",
        )
    if not name:
        raise UsageError("no device is named", values={"on": text}, hint="write it as 2xH100")
    return Devices(number, device_called(name, own))


def _split(text: str) -> tuple[int, str]:
    """Return the number before an x, and the rest; 1 and the whole if there is none."""
    text = text.strip()
    digits = text[: len(text) - len(text.lstrip("0123456789-"))]
    rest = text[len(digits) :].lstrip()
    if digits.removeprefix("-").isdecimal() and rest[:1] in {"x", "X", "×", "*"}:
        # More digits than any allowed number has are not worth reading.
        number = int(digits) if len(digits) <= _MOST_DIGITS else MOST_DEVICES + 1
        return number, rest[1:].strip()
    return 1, text


_MOST_DIGITS = 20


def read_device_file(path: str | os.PathLike[str]) -> dict[str, Device]:
    """Read a TOML file of one's own devices, in the format of `facts/devices.toml`.

    A table for each device, with ``memory_bytes``, ``bandwidth`` and ``peaks``; the other keys may
    be left out.

    Raises:
        UsageError: the file cannot be read, or breaks the format.
    """
    where = printable(str(path))
    try:
        table = parse_toml(_text_of(path, where))
    except UnicodeDecodeError:
        raise UsageError("is not UTF-8 text", where=where) from None
    except RecursionError:
        raise UsageError("is nested too deeply", where=where) from None
    except ValueError as error:  # among them an integer of too many digits
        raise UsageError(f"is not TOML: {shorten(str(error), str, 100)}", where=where) from None
    if not table:
        raise UsageError("names no device", where=where, hint=_FORMAT_HINT)
    return {name: _device(name, entry, where) for name, entry in table.items()}


def _text_of(path: str | os.PathLike[str], where: str) -> str:
    """Return the text of a file, which may not be endless."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise UsageError("is not a regular file", where=where)
        with open(path, "rb") as file:
            raw = file.read(_LONGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot be read: {reason}", where=where) from None
    if len(raw) > _LONGEST_FILE:
        raise UsageError("is too long for a file of devices", where=where)
    return raw.decode()


_LONGEST_FILE = 1_000_000  # bytes; our own has a tenth
_FORMAT_HINT = "give each device a table with memory_bytes, bandwidth and peaks"
_REQUIRED = ("memory_bytes", "bandwidth", "peaks")
_TEXTS = ("label", "released")
_LISTS = ("aliases", "notes")
_KEYS = (*FIGURES, "peaks", *_TEXTS, *_LISTS, "sources", "disputed")


def _device(name: str, entry: Any, where: str) -> Device:
    """Return a device of a file, all of whose keys are checked."""
    if not isinstance(entry, dict):
        raise UsageError(
            "a device is not a table", where=where, values={name: entry}, hint=_FORMAT_HINT
        )
    _check_keys(entry, _KEYS, where, name)
    for key in _REQUIRED:
        if key not in entry:
            raise UsageError(
                "a device lacks a key",
                where=where,
                values={"device": name, "key": key},
                hint=_FORMAT_HINT,
            )
    figures = {key: _whole_number(entry, key, where, name) for key in FIGURES}
    texts = {key: _text(entry, key, where, name) for key in _TEXTS}
    stated = _facts_by_source(entry.get("sources", {}), where, name)
    return Device(
        name=name,
        label=texts["label"] or name,
        memory_bytes=figures["memory_bytes"] or 0,
        usable_bytes=figures["usable_bytes"],
        bandwidth=figures["bandwidth"] or 0,
        peaks=_peaks(entry["peaks"], where, name),
        link=figures["link"],
        network=figures["network"],
        node=figures["node"] or 1,
        released=texts["released"],
        sources=tuple(stated),
        disputed=_disputed(entry.get("disputed", []), where, name),
        stated=stated,
        notes=_text_list(entry, "notes", where, name),
        aliases=_text_list(entry, "aliases", where, name),
    )


def _check_keys(entry: Mapping[str, Any], known: tuple[str, ...], where: str, name: str) -> None:
    for key in entry:
        if key not in known:
            raise UsageError(
                "a device has an unknown key",
                where=where,
                values={"device": name, "key": key},
                hint=f"use one of {', '.join(nearest(known, key) or known)}",
            )


def _whole_number(entry: Mapping[str, Any], key: str, where: str, name: str) -> int | None:
    if key not in entry:
        return None
    value = _positive(entry[key], key, where, name)
    if value != int(value):
        raise _figure_error("is not a whole number", entry[key], key, where, name)
    return int(value)


def _positive(value: Any, key: str, where: str, name: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < _TOO_LARGE:
        raise _figure_error("is not a positive number", value, key, where, name)
    number: float = value
    return number


_TOO_LARGE = 1e30  # neither infinite nor a slip of many digits


def _figure_error(what: str, value: Any, key: str, where: str, name: str) -> UsageError:
    return UsageError(f"a figure {what}", where=where, values={"device": name, key: value})


def _text(entry: Mapping[str, Any], key: str, where: str, name: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise UsageError("a value is not a text", where=where, values={"device": name, key: value})
    return value


def _text_list(entry: Mapping[str, Any], key: str, where: str, name: str) -> tuple[str, ...]:
    values = entry.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise UsageError(
            "a value is not a list of texts", where=where, values={"device": name, key: values}
        )
    return tuple(values)


def _peaks(table: Any, where: str, name: str) -> dict[str, float]:
    if not isinstance(table, dict) or not table:
        raise UsageError(
            "a device lacks peaks",
            where=where,
            values={"device": name, "peaks": table},
            hint=f"give FLOP/s for some of {', '.join(PEAK_DTYPES)}",
        )
    _check_keys(table, PEAK_DTYPES, where, name)
    return {
        dtype: float(_positive(table[dtype], f"peaks.{dtype}", where, name))
        for dtype in PEAK_DTYPES
        if dtype in table
    }


def _facts_by_source(table: Any, where: str, name: str) -> dict[str, tuple[str, ...]]:
    """Return the facts that each source states; a plain list of sources states no certain ones."""
    if isinstance(table, list):
        table = {str(source): [] for source in table}
    if not isinstance(table, dict):
        raise UsageError(
            "a value is not a list of texts", where=where, values={"device": name, "sources": table}
        )
    return {source: _text_list(table, source, where, name) for source in table}


def _disputed(entries: Any, where: str, name: str) -> tuple[Disputed, ...]:
    if not isinstance(entries, list):
        raise UsageError(
            "a value is not a list of tables",
            where=where,
            values={"device": name, "disputed": entries},
        )
    found = []
    for entry in entries:
        if not isinstance(entry, dict) or not {"field", "value", "source"} <= entry.keys():
            raise UsageError(
                "what is disputed needs field, value and source",
                where=where,
                values={"device": name, "disputed": entry},
            )
        _check_keys(entry, Disputed._fields, where, name)
        value = _positive(entry["value"], "value", where, name)
        texts = {key: _text(entry, key, where, name) for key in ("field", "source", "why")}
        found.append(Disputed(value=value, **texts))
    return tuple(found)
