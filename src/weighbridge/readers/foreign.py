"""Recognises files and folders of formats without a reader, and explains what to do with them.

`FORMATS` has an entry for each: it is recognised by what it contains, and otherwise by its suffix.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.readers.rules import Rule, without_secrets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class ForeignFormat(NamedTuple):
    """A format without a reader: its name, what to do instead, and how it is recognised.

    ``marks`` are bytes at an offset, ``words`` are bytes near the start, ``members`` are endings of
    the names in a zip archive, and ``files`` are names in a folder; any one is enough.
    """

    name: str
    hint: str
    suffixes: tuple[str, ...] = ()
    marks: tuple[tuple[int, bytes], ...] = ()
    words: tuple[bytes, ...] = ()
    members: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


_SOURCE = "give the checkpoint that it was converted from"

FORMATS = (
    ForeignFormat(
        "a program of torch.export",
        "save the weights: torch.save(torch.export.load(PATH).state_dict, 'weights.pt')",
        (".pt2",),
        members=("archive_format", "serialized_exported_program.json", "models/model.json"),
    ),
    ForeignFormat("a program of ExecuTorch", _SOURCE, (".pte",), ((4, b"ET12"),)),
    ForeignFormat("a TensorFlow Lite model", _SOURCE, (".tflite",), ((4, b"TFL3"),)),
    ForeignFormat(
        "an OpenVINO model, whose tensors are described in its .xml and stored in its .bin",
        _SOURCE,
        words=(b"<net ",),
    ),
    ForeignFormat(
        "a Core ML model",
        _SOURCE,
        (".mlmodel", ".mlpackage", ".mlmodelc"),
        files=("com.apple.CoreML", "coremldata.bin"),
    ),
    ForeignFormat(
        "an Orbax checkpoint",
        "restore it with orbax, and save its arrays: numpy.savez('weights.npz', **arrays)",
        files=("_CHECKPOINT_METADATA", "manifest.ocdbt", "ocdbt.process_0"),
    ),
    ForeignFormat(
        "a Paddle checkpoint",
        "load it with paddle, and save its arrays: numpy.savez('weights.npz', **arrays)",
        (".pdparams", ".pdiparams"),
    ),
)

FOREIGN_FORMAT = Rule("foreign-format", "this is {name}, which cannot be read so far", "")

START_BYTES = 256
"""The number of bytes at the start of a file in which its marks and words are."""

SUFFIXES = tuple(suffix for form in FORMATS for suffix in form.suffixes)
"""The suffixes of formats without a reader."""


def check_readable(
    path: str,
    start: bytes = b"",
    members: Collection[str] = (),
    files: Iterable[str] = (),
) -> None:
    """Refuse a file or a folder of a format without a reader.

    Args:
        path: the file or folder.
        start: the first bytes of the file.
        members: the names in it, if it is a zip archive.
        files: the names in it, if it is a folder.

    Raises:
        CheckpointError: this is such a format, which the message names; the rule is
            ``foreign-format``.

    Example:
        >>> check_readable("a.bin", bytes(4) + b"TFL3")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        weighbridge.errors.CheckpointError: a.bin: foreign-format: this is a TensorFlow Lite ...
    """
    plain = without_secrets(path).rstrip("/")
    for form in FORMATS:
        is_named = plain.endswith(form.suffixes) if form.suffixes else False
        if is_named or _is_of(form, start, members, (*files, os.path.basename(plain))):
            raise _refusal(form).broken(path)


def check_bare_data(path: str) -> None:
    """Refuse the data of an OpenVINO model, ``NAME.bin`` beside ``NAME.xml``, which has no header.

    Raises:
        CheckpointError: this is such a file.
    """
    stem, suffix = os.path.splitext(path)
    if suffix == ".bin" and os.path.isfile(f"{stem}.xml"):
        raise _refusal(next(form for form in FORMATS if "OpenVINO" in form.name)).broken(path)


def _is_of(
    form: ForeignFormat, start: bytes, members: Collection[str], files: Iterable[str]
) -> bool:
    """Return whether the content is that of a format."""
    if any(start[at : at + len(mark)] == mark for at, mark in form.marks):
        return True
    if any(word in start for word in form.words) or set(form.files) & set(files):
        return True
    return bool(form.members) and any(name.endswith(form.members) for name in members)


def _refusal(form: ForeignFormat) -> Rule:
    return FOREIGN_FORMAT._replace(what=FOREIGN_FORMAT.what.format(name=form.name), hint=form.hint)
