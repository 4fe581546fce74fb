"""The command that writes a page of a model: explore."""

from __future__ import annotations

import sys

from weighbridge.cli.commands import Command
from weighbridge.cli.options import CLASS, DTYPE, JSON, MODEL, SET, STRICT, Option, fields
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from pathlib import Path

    from weighbridge.cli.options import Addable
    from weighbridge.explorer.explore import ExplorerPage


def _explore_options() -> Iterable[Addable]:
    return (
        MODEL,
        Option("other", nargs="?", metavar="OTHER", help="a second model, shown beside the first"),
        CLASS,
        SET,
        DTYPE,
        STRICT,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="the page (.html); by default MODEL.html in this folder",
        ),
        Option("--no-open", action="store_true", help="do not open the page in a browser"),
        JSON.but(help="print what the page holds, and write no page"),
    )


def _explore(options: argparse.Namespace) -> ExplorerPage:
    from weighbridge.explorer.explore import explore

    made = explore(
        options.model,
        options.other,
        class_name=options.class_name,
        fields=fields(options.fields),
        dtype=options.dtype,
        strict=options.strict,
    )
    if options.form != "json":
        path = made.save(options.output or _default_name(made), options.lang)
        made.path = str(path)
        if not options.no_open and sys.stdout is not None and sys.stdout.isatty():
            _show(path)
    return made


def _default_name(made: ExplorerPage) -> str:
    """Return the name of a page: that of the model, without its organisation or its folder."""
    last = made.weighings[0].model.where.replace("\\", "/").rstrip("/").rpartition("/")[2]
    name = "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in last)
    return f"{name.removesuffix('.json').lstrip('.-') or 'model'}.html"


def _show(path: Path) -> None:
    import webbrowser

    webbrowser.open(path.resolve().as_uri())


COMMANDS = {"explore": Command(_explore_options, _explore)}
