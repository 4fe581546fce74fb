"""Translates the addresses of models' pages, as pasted from a browser, to those of their files.

``https://huggingface.co/org/name/blob/main/config.json`` is a page about a file, not the file.
Instead, ``hf://org/name@main/config.json`` is read or, if only the website has the file, the
address of the file. The websites are in ``facts/pages.toml``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from weighbridge import data
from weighbridge.readers.rules import Rule, without_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = "config.json"
_FILES = ("resolve", "raw")  # after a repository: the address of a file itself, not of a page

PAGE = Rule(
    "page",
    "this is not the page of a model",
    "give the address of a model's page, such as https://huggingface.co/org/name",
)
NO_LISTING = Rule(
    "page-of-a-folder",
    "this website does not list the files of a repository",
    "give the page of its checkpoint file, or of the index of its shards",
)


class ModelPage(NamedTuple):
    """The subject of a page: a repository, its revision, and a path in it, empty for all files.

    ``files`` is the address of a file on that website, with names in braces; it is empty if the
    repository is read as ``hf://``.
    """

    where: str
    repository: str
    revision: str
    name: str
    files: str
    is_default: bool

    @property
    def is_model(self) -> bool:
        """Whether the page is about the current model, not another revision or a single file."""
        return self.is_default and self.name in ("", CONFIG)

    @property
    def config_address(self) -> str:
        """The address of the model's config."""
        name, suffix = os.path.splitext(self.name)
        if suffix == ".json":
            return self.address(self.name)
        if suffix and self.name:  # another file: the config is beside it
            name = os.path.dirname(name)
        return self.address(f"{name}/{CONFIG}".lstrip("/"))

    @property
    def checkpoint_address(self) -> str:
        """The address of the model's checkpoint.

        Raises:
            CheckpointError: the website does not list its files.
        """
        folder, name = os.path.split(self.name)
        if name in (CONFIG, "README.md"):
            name = ""
        path = f"{folder}/{name}".strip("/")
        if self.files and not os.path.splitext(name)[1]:
            raise NO_LISTING.broken(self.where)
        return self.address(path)

    def address(self, path: str) -> str:
        """Return the address of a path in the repository, or of the repository."""
        names = {"repository": self.repository, "file": quote(path)}
        if self.files:
            return self.files.format(**names, revision=quote(self.revision, safe=""))
        revision = ""
        if not self.is_default:
            revision = f"@{quote(self.revision, safe='')}"
        return f"hf://{self.repository}{revision}/{path}".rstrip("/")


def page_at(address: str) -> ModelPage | None:
    """Return the subject of the page at an address; None if the address is not that of a page.

    The address may lack its ``https://``.

    Raises:
        CheckpointError: the page is on such a website, but is not that of a model.

    Example:
        >>> page = page_at("https://huggingface.co/org/name/tree/main?show=1#files")
        >>> page.repository, page.checkpoint_address, page.config_address
        ('org/name', 'hf://org/name', 'hf://org/name/config.json')
        >>> page_at("https://example.org/org/name"), page_at("hf://org/name")
        (None, None)
    """
    if "://" not in address:
        address = f"https://{address}"
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return None
    for site in data.read_toml("facts/pages.toml").values():
        if host in site["hosts"] and parts.scheme.lower() in ("http", "https"):
            path = [unquote(piece) for piece in parts.path.split("/") if piece]
            return _page(site, path, without_secrets(address))
    return None


def checkpoint_at(path: str) -> str:
    """Return the address of the checkpoint for the address of a page; return other paths unchanged.

    Example:
        >>> checkpoint_at("https://huggingface.co/org/name/blob/v1/model.safetensors")
        'hf://org/name@v1/model.safetensors'
        >>> checkpoint_at("model.safetensors")
        'model.safetensors'
    """
    page = None
    if may_be_page(path) and not os.path.lexists(path):
        page = page_at(path)
    if page is None:
        return path
    return page.checkpoint_address


def may_be_page(path: str) -> bool:
    """Return whether a path begins like a web address, with or without ``https://``."""
    host, slash, _ = path.partition("/")
    return path.lower().startswith(("http://", "https://")) or bool(slash and host.strip("."))


def _page(site: dict[str, Any], path: Sequence[str], where: str) -> ModelPage | None:
    """Return the page at a path of a website; None if this is the address of a file."""
    prefix = [piece for piece in (site["models"],) if piece]
    if list(path[: len(prefix)]) != prefix or not path[len(prefix) :]:
        raise PAGE.broken(where)
    path = path[len(prefix) :]
    repository, rest = path[:2], path[2:]
    if path[0] in site["others"] or any(piece.strip(".") != piece for piece in repository):
        raise PAGE.broken(where)
    if rest and rest[0] in _FILES:
        return None
    revision, name = site["revision"], ""
    for view in site["views"]:
        words = view.split("/")
        if list(rest[: len(words)]) == words and rest[len(words) :]:
            revision, *names = rest[len(words) :]
            name = "/".join(names)
    is_default = revision == site["revision"]
    return ModelPage(where, "/".join(repository), revision, name, site["files"], is_default)
