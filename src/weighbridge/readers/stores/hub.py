"""Reads files on the Hugging Face Hub with its own library, and so with its cache and token."""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from weighbridge.readers.rules import Rule
from weighbridge.readers.stores.remote import Remote, RemoteFolder, Store, imported
from weighbridge.readers.stores.web import (
    FORBIDDEN,
    NOT_FOUND,
    TIMEOUT_SECONDS,
    WebFile,
    by_status,
    lost,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

HUB_ID = Rule(
    "hub-id",
    "an address on the Hub must be hf://org/name, or hf://org/name@revision/file",
    "check its spelling",
)
OFFLINE = Rule(
    "offline",
    "HF_HUB_OFFLINE is set, and the cache does not have the file",
    "unset HF_HUB_OFFLINE, or download the file first",
)
PRIVATE = Rule(
    "404-not-found",
    "there is no such repository, or it is private",
    "check its name, or log in to the Hub",
)


class _OnHub(NamedTuple):
    """An address on the Hub: a repository, its revision, and a path in it, empty for all files."""

    repository: str
    revision: str | None
    name: str


def _on_hub(path: str) -> _OnHub:
    """Parse an address.

    Example:
        >>> _on_hub("hf://org/name@main/onnx/model.onnx")
        _OnHub(repository='org/name', revision='main', name='onnx/model.onnx')
        >>> _on_hub("hf://gpt2")
        _OnHub(repository='gpt2', revision=None, name='')
    """
    parts = re.fullmatch(r"hf://([\w.-]+(?:/[\w.-]+)?)(?:@([^/]+))?(?:/(.*))?", path)
    if not parts or any(piece in ("", ".", "..") for piece in parts[1].split("/")):
        raise HUB_ID.broken(path)
    return _OnHub(parts[1], unquote(parts[2]) if parts[2] else None, (parts[3] or "").strip("/"))


def _hub_folder(path: str) -> RemoteFolder | str:
    """Return the files in a repository or one of its folders, or the address of a file.

    The answer is fixed to the current commit. If the Hub cannot be asked, it is a path in the
    cache.
    """
    at = _on_hub(path)
    imported("huggingface_hub", path)
    if import_module("huggingface_hub.constants").HF_HUB_OFFLINE:
        if cached := _cached(at, path):
            return cached
        raise OFFLINE.broken(path)
    try:
        info = _asked(at, path)
    except import_module("httpx2").TransportError as error:
        if cached := _cached(at, path):
            return cached
        raise lost(error, path, tries=1) from None
    names = [sibling.rfilename for sibling in info.siblings or ()]
    if at.name in names:
        return f"hf://{at.repository}@{info.sha}/{at.name}"
    below = f"{at.name}/" if at.name else ""
    inside = [name.removeprefix(below) for name in names if name.startswith(below)]
    if not inside:
        raise NOT_FOUND.broken(path, file=at.name)
    folder = f"hf://{at.repository}@{info.sha}/{below}".rstrip("/")
    return RemoteFolder(folder, sorted(name for name in inside if "/" not in name))


def _asked(at: _OnHub, path: str) -> Any:
    """Return the Hub's information about a repository."""
    hub, errors = imported("huggingface_hub", path), import_module("huggingface_hub.errors")
    try:
        return hub.HfApi().model_info(at.repository, revision=at.revision, timeout=TIMEOUT_SECONDS)
    except errors.GatedRepoError:
        raise FORBIDDEN.broken(path, repository=at.repository) from None
    except errors.RevisionNotFoundError:
        raise NOT_FOUND.broken(path, revision=at.revision) from None
    except errors.RepositoryNotFoundError:
        raise PRIVATE.broken(path, repository=at.repository) from None
    except errors.HFValidationError as error:
        raise HUB_ID.broken(path, reason=str(error)) from None
    except errors.HfHubHTTPError as error:
        raise by_status(getattr(error.response, "status_code", 0), path) from None


def _cached(at: _OnHub, path: str) -> str | None:
    """Return the path of a repository or file in the cache, if it is there."""
    hub, errors = imported("huggingface_hub", path), import_module("huggingface_hub.errors")
    try:
        folder = hub.snapshot_download(at.repository, revision=at.revision, local_files_only=True)
    except (errors.LocalEntryNotFoundError, errors.HFValidationError, OSError):
        return None
    return f"{folder}/{at.name}" if at.name else str(folder)


def download(path: str, patterns: Sequence[str]) -> str:
    """Download the files of a repository that match a pattern into the Hub's cache.

    Return their folder. If the Hub cannot be asked, return the folder that is in the cache.

    Raises:
        CheckpointError: the address is invalid, nothing is there, or it cannot be downloaded.
    """
    at, hub = _on_hub(path), imported("huggingface_hub", path)
    errors = import_module("huggingface_hub.errors")
    if import_module("huggingface_hub.constants").HF_HUB_OFFLINE:
        return _cached(at, path) or _not_cached(path)
    _silence()
    try:
        info = _asked(at, path)
        names = [sibling.rfilename for sibling in info.siblings or ()]
        wanted = [name for name in names if _matches_any(name, at.name, patterns)]
        downloads = [(name, info.sha) for name in wanted]
        # The second download, by the name of the revision, records its commit in the cache.
        downloads += [(name, at.revision) for name in wanted[:1]]
        for name, revision in downloads:
            hub.hf_hub_download(
                at.repository, name, revision=revision, etag_timeout=TIMEOUT_SECONDS
            )
    except errors.HfHubHTTPError as error:
        raise by_status(getattr(error.response, "status_code", 0), path) from None
    except (import_module("httpx2").TransportError, errors.LocalEntryNotFoundError) as error:
        if cached := _cached(at, path):
            return cached
        raise lost(error, path, tries=1) from None
    return _cached(at._replace(revision=info.sha), path) or _nothing(at, path)


def _silence() -> None:
    """Keep the Hub's library from printing: this module reports errors, and only once."""
    utils = import_module("huggingface_hub.utils")
    utils.logging.set_verbosity_error()
    if sys.stderr is None or not sys.stderr.isatty():
        utils.disable_progress_bars()


def _matches_any(name: str, folder: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, f"{folder}/{pattern}".lstrip("/")) for pattern in patterns)


def _not_cached(path: str) -> str:
    raise OFFLINE.broken(path)


def _nothing(at: _OnHub, path: str) -> str:
    raise NOT_FOUND.broken(path, file=at.name or "config.json")


def _open_hub(path: str) -> Any:
    """Open a file of a repository, in the cache or else on the Hub."""
    hub, at = imported("huggingface_hub", path), _on_hub(path)
    cached = hub.try_to_load_from_cache(at.repository, at.name, revision=at.revision)
    if isinstance(cached, str):
        return open(cached, "rb", buffering=0)
    if import_module("huggingface_hub.constants").HF_HUB_OFFLINE:
        raise OFFLINE.broken(path)
    url = hub.hf_hub_url(at.repository, at.name, revision=at.revision)
    headers = import_module("huggingface_hub.utils").build_hf_headers(library_name="weighbridge")
    return Remote(path, WebFile(hub.get_session(), url, path, headers).fetch)


STORE = Store(_open_hub, _hub_folder, lambda path: [path])
