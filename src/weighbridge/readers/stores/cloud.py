"""Reads files in other stores that fsspec supports: ``s3://bucket/folder``, ``gs://`` and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from weighbridge.readers.rules import MISSING, Rule
from weighbridge.readers.stores.remote import Remote, RemoteFolder, Store, imported
from weighbridge.readers.stores.web import NO_RANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Of = TypeVar("_Of")

SCHEME = Rule(
    "scheme",
    "addresses of this kind are not supported",
    "give a path, https://, hf://org/name, or s3://…",
)
DRIVER = Rule(
    "driver",
    "fsspec needs another package for addresses of this kind",
    "install the package that the reason names",
)
GIVEN = Rule(
    "store", "the store did not return the file", "check the address and your access to it"
)


def _with_fsspec(path: str, ask: Callable[[Any, str], _Of]) -> _Of:
    """Ask the store of an address; each store raises its own kind of error."""
    fsspec = imported("fsspec", path)
    try:
        return ask(*fsspec.url_to_fs(path))
    except ImportError as error:
        raise DRIVER.broken(path, reason=str(error)) from None
    except FileNotFoundError:
        raise MISSING.broken(path) from None
    except ValueError as error:
        raise SCHEME.broken(path, reason=str(error)) from None
    except Exception as error:
        if hasattr(error, "hint"):
            raise
        raise GIVEN.broken(path, reason=f"{type(error).__name__}: {error}") from None


def _open_store(path: str) -> Remote:
    def fetch(begin: int, end: int) -> tuple[bytes, int]:
        def ask(store: Any, name: str) -> tuple[bytes, int]:
            size = store.size(name)
            if size is None:
                raise NO_RANGES.broken(path)
            return (
                store.cat_file(name, start=begin, end=min(end, size)) if size > begin else b""
            ), size

        return _with_fsspec(path, ask)

    return Remote(path, fetch)


def _store_folder(path: str) -> RemoteFolder | None:
    def ask(store: Any, name: str) -> RemoteFolder | None:
        if not store.isdir(name):
            return None
        names = [entry.rstrip("/").rpartition("/")[2] for entry in store.ls(name, detail=False)]
        return RemoteFolder(path.rstrip("/"), sorted(names))

    return _with_fsspec(path, ask)


def _store_matching(path: str) -> list[str]:
    return _with_fsspec(
        path, lambda store, name: sorted(map(store.unstrip_protocol, store.glob(name)))
    )


STORE = Store(_open_store, _store_folder, _store_matching)


def folders_below(address: str) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Yield the address of each folder below one, in order, with what the store says of each file.

    Raises:
        CheckpointError: the store cannot be reached, or is of an unknown kind.
    """

    def ask(store: Any, name: str) -> Any:
        if store.isfile(name):
            folder = name.rpartition("/")[0]
            return store, [(folder, {}, {name.rpartition("/")[2]: store.info(name)})]
        return store, store.walk(name, detail=True)

    store, walked = _with_fsspec(address, ask)
    for folder, folders, files in walked:
        if isinstance(folders, dict):
            for name in sorted(folders):
                folders[name] = folders.pop(name)  # walk goes on in this order
        yield store.unstrip_protocol(folder), {name: files[name] for name in sorted(files)}
