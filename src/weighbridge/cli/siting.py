"""The command that builds the site: site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.cli.commands import Command
from weighbridge.cli.options import JSON, Option

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable

_DESCRIPTION = (
    "Write a static site that runs weighbridge in the browser, under Pyodide: any model by name, "
    "checkpoints and articles dropped on the page. Nothing is uploaded. Pyodide's files come from "
    "the npm package pyodide, which `npm ci` in web/ of a clone installs"
)


def _site_options() -> Iterable[Addable]:
    output = Option("-o", "--output", metavar="FOLDER", required=True, help="the site's folder")
    pyodide = Option(
        "--pyodide",
        metavar="FOLDER",
        help="the folder of the npm package pyodide; by default web/node_modules/pyodide or "
        "node_modules/pyodide, of this folder or the clone",
    )
    return (output, pyodide, JSON.but(help="write JSON: the files and their bytes"))


def _site(options: argparse.Namespace) -> Answer:
    from weighbridge.site.build import build_site

    return build_site(options.output, options.pyodide)


COMMANDS = {"site": Command(_site_options, _site, description=_DESCRIPTION)}
