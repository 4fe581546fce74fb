"""The addresses of models' pages, as they are pasted from a browser, and what they stand for.

``https://huggingface.co/org/name/blob/main/config.json`` is a page about a file, not the file. What
is read in its place is ``hf://org/name@main/config.json``, or the address of the file itself where
only the website has it. The websites are in ``facts/pages.toml``.
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
_FILES = ("resolve", "raw")  # behind a repository: the address of a file itself, and no page

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


class Page(NamedTuple):
    """What a page is about: a repository, its revision, and a path in it; empty for all of it.

    ``files`` is the address of a file of that website, with names in braces; it is empty where the
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
        """Whether it means the model as it is now: no other revision, and no part of it."""
        return self.is_default and self.name in ("", CONFIG)

    @property
    def config_address(self) -> str:
        """The address of the config that it means."""
        name, suffix = os.path.splitext(self.name)
        if suffix == ".json":
            return self.address(self.name)
        if suffix and self.name:  # another file: what lies beside it
            name = os.path.dirname(name)
        return self.address(f"{name}/{CONFIG}".lstrip("/"))

    @property
    def checkpoint_address(self) -> str:
        """The address of the checkpoint that it means.

        Raises:
            CheckpointError: the website does not say which files there are.
        """
        folder, name = os.path.split(self.name)
        if name in (CONFIG, "README.md"):
            name = ""
        path = f"{folder}/{name}".strip("/")
        if self.files and not os.path.splitext(name)[1]:
            raise NO_LISTING.broken(self.where)
        return self.address(path)

    def address(self, path: str) -> str:
        """Return the address of a path in the repository, or of all of it."""
        names = {"repository": self.repository, "file": quote(path)}
        if self.files:
            return self.files.format(**names, revision=quote(self.revision, safe=""))
        revision = ""
        if not self.is_default:
            revision = f"@{quote(self.revision, safe='')}"
        return f"hf://{self.repository}{revision}/{path}".rstrip("/")


def page_at(address: str) -> Page | None:
    """Return what the page at an address is about; None where that is the address of no page.

    The address may lack its ``https://``.

    Raises:
        CheckpointError: it is a page of such a website, but not that of a model.

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
    """Return the address of the checkpoint that a page's address means; any other path as it is.

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
    """Return whether a path begins as a web address does, with or without ``https://``."""
    host, slash, _ = path.partition("/")
    return path.lower().startswith(("http://", "https://")) or bool(slash and host.strip("."))


def _page(site: dict[str, Any], path: Sequence[str], where: str) -> Page | None:
    """Return the page at a path of a website; None where that is the address of a file."""
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
    return Page(where, "/".join(repository), revision, name, site["files"], is_default)
