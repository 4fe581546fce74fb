"""Commands that check publications: reconcile, conventions, audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.cli.commands import Command
from weighbridge.cli.options import (
    BLUEPRINT,
    FAMILY,
    FORMAT,
    JSON,
    MARKDOWN,
    SET,
    OneOf,
    Option,
    fields,
)
from weighbridge.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable


def _reconcile_options() -> Iterable[Addable]:
    words = Option(
        "words",
        nargs="*",
        metavar="[MODEL] NUMBER",
        help="a published number (108808704, 110M, 1.1亿, 418MiB), after the model: a name, a "
        "path, an address or a family; without a model, the whole catalogue is searched",
    )
    table = Option(
        "--table",
        metavar="FILE",
        help="find one way of counting that fits all rows of a CSV file with a header line",
    )
    blueprint = BLUEPRINT.but(help="use this blueprint instead of a shipped one")
    json = JSON.but(help="write JSON, with every way and part that fits")
    return (words, table, FAMILY, SET, blueprint, OneOf((json, MARKDOWN)))


def _reconcile(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.reconcile import reconcile
    from weighbridge.answers.reconcile_table import reconcile_table

    if (options.table is None) == (not options.words) or len(options.words) > 2:
        raise UsageError(
            "reconcile takes a number, and optionally a model before it",
            values={"found": " ".join(options.words)},
            hint="type weighbridge reconcile MODEL NUMBER, or NUMBER alone, or --table FILE",
        )
    if options.table is not None:
        return reconcile_table(options.table, options.family)
    model, number = [None, *options.words][-2:]
    return reconcile(model, number, fields=fields(options.fields), blueprint=options.blueprint)


def _conventions_options() -> Iterable[Addable]:
    return (JSON,)


def _conventions(_: argparse.Namespace) -> Answer:
    from weighbridge.answers.conventions import Conventions

    return Conventions()


def _audit_options() -> Iterable[Addable]:
    article = Option(
        "article",
        metavar="ARTICLE",
        help="a text, Markdown or HTML file, the address of a page (https://…), or - for stdin",
    )
    json = JSON.but(help="write JSON, with a verdict for every number")
    form = FORMAT.but(
        choices=("text", "markdown", "html"),
        help="the format of the report; Markdown and HTML mark every number of the article",
    )
    return (article, OneOf((json, form)))


def _audit(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.audit import audit

    return audit(options.article)


COMMANDS = {
    "reconcile": Command(_reconcile_options, _reconcile),
    "conventions": Command(_conventions_options, _conventions),
    "audit": Command(_audit_options, _audit),
}
