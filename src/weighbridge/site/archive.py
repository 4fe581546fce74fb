"""Packs this package, and what it needs, into one zip file from which Python imports it."""

from __future__ import annotations

import io
import itertools
import lzma
import marshal
import os
import zipfile
from typing import TYPE_CHECKING

import weighbridge
from weighbridge import data
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NAME = "weighbridge"
NOT_IN_BROWSERS = ("derive", "torch", "data/pages/site")
"""Rooms that need PyTorch, which does not run in a browser, and the site's own page."""
_TABLES = tuple(
    f"{NAME}/data/{folder}/" for folder in ("blueprints", "facts", "flows", "operations", "words")
)
"""Folders of files that are compiled, of which an archive needs the names alone."""
_BLOCK_BYTES = 1 << 20
"""The tables of a block, unpacked. Larger blocks compress better, and take more memory."""
PACKING = {"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": _BLOCK_BYTES, "lc": 4, "pb": 0}
"""Unpacking takes as much memory as the window, 64 MiB in the preset; the rest suits text."""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files make the same archive, whenever it is made


def package_zip(without: Iterable[str] = (), *, for_site: bool = False) -> bytes:
    """Return a zip file of this package and of pylatexenc, with compiled tables.

    The files are sorted by suffix, because similar files that are neighbours compress better.

    Args:
        without: rooms to leave out, but for their ``__init__.py``.
        for_site: whether the zip file is to be compressed as a whole: its files are not, and the
            tables of families are in compressed blocks.

    Raises:
        WeighbridgeError: the package itself is inside a zip file.
    """
    files = package_files(without)
    if for_site:
        files = _in_blocks(files)
    content = io.BytesIO()
    method = zipfile.ZIP_STORED if for_site else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(content, "w", method) as archive:
        for name in sorted(files, key=_by_suffix):
            entry = zipfile.ZipInfo(name, _EPOCH)
            archive.writestr(entry, files[name], method)
    return content.getvalue()


def _in_blocks(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files with the tables of families in blocks, sorted by family."""
    root = f"{NAME}/data/"
    families = {name: data.table_family(name.removeprefix(root)) for name in files}
    others = {name: content for name, content in files.items() if not families[name]}
    first: list[str] = []
    blocks: list[dict[str, bytes]] = []
    in_order = sorted(filter(families.get, files), key=lambda name: (families[name], name))
    for family, tables in itertools.groupby(in_order, key=families.__getitem__):
        if not blocks or sum(map(len, blocks[-1].values())) >= _BLOCK_BYTES:
            first.append(family)
            blocks.append({})
        blocks[-1] |= {name.removeprefix(root): files[name] for name in tables}
    inside = f"{root}{data.COMPILED}/{data.BLOCKS}"
    packed = {
        f"{inside}/{number}.xz": lzma.compress(marshal.dumps(block, 4), filters=[PACKING])
        for number, block in enumerate(blocks)
    }
    return {**others, **packed, f"{inside}/first": marshal.dumps(tuple(first), 4)}


def _by_suffix(name: str) -> tuple[str, str]:
    return os.path.splitext(name)[1], name


def package_files(without: Iterable[str] = ()) -> Mapping[str, bytes]:
    """Return the files of this package and of pylatexenc by their names in the archive."""
    import pylatexenc  # noqa: PLC0415  # only to pack it

    if not os.path.isdir(data.ROOT):
        what = "the package is inside a zip file, from which no site can be built"
        raise WeighbridgeError(what, hint="install weighbridge with pip")
    rooms = tuple(f"{NAME}/{room}/" for room in without)
    files = {
        name: content
        for name, content in _files_under(_folder_of(weighbridge), NAME)
        if not name.startswith(rooms) or name in {f"{room}__init__.py" for room in rooms}
    }
    files |= dict(_files_under(_folder_of(pylatexenc), "pylatexenc"))
    if not data.is_compiled():
        from weighbridge.models.compiled import compiled_tables  # noqa: PLC0415

        inside = f"{NAME}/data/{data.COMPILED}"
        files |= {f"{inside}/{path}": content for path, content in compiled_tables()}
    compiled = [name for name in files if name.startswith(_TABLES) and name.endswith(".toml")]
    return {**files, **dict.fromkeys(compiled, b"")}


def _folder_of(package: object) -> str:
    return os.path.dirname(os.path.abspath(str(vars(package)["__file__"])))


def _files_under(folder: str, name: str) -> Iterator[tuple[str, bytes]]:
    for inside, folders, files in os.walk(folder):
        folders[:] = [folder for folder in folders if folder != "__pycache__"]
        relative = os.path.relpath(inside, folder).replace(os.sep, "/")
        prefix = name if relative == "." else f"{name}/{relative}"
        for file in files:
            with open(os.path.join(inside, file), "rb") as opened:
                yield f"{prefix}/{file}", opened.read()
