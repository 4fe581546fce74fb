"""The command about many checkpoints: scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.cli.commands import Command
from weighbridge.cli.options import JSON, MARKDOWN, OneOf, Option
from weighbridge.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable


_CHECK = (
    Option(
        "--check",
        action="store_true",
        help="write no table: say of each checkpoint whether it is what the config.json beside "
        "it says; exit status 1 if one is not",
    ),
    Option(
        "--badge",
        metavar="FILE",
        help="with --check, write a badge: .svg, or .json for a shields.io endpoint",
    ),
)


def _scan_options() -> Iterable[Addable]:
    from weighbridge.fleet.scan import ENGINES

    return (
        Option(
            "paths",
            metavar="PATH",
            nargs="*",
            help="a folder, which is searched with all folders in it, a checkpoint, a pattern in "
            "quotes, or an address (s3://…, needs weighbridge[remote])",
        ),
        Option(
            "--list",
            dest="list",
            metavar="FILE",
            help="read more paths from a file, one a line; - for stdin",
        ),
        Option(
            "-o",
            "--output",
            dest="output",
            metavar="FOLDER",
            help="the folder of Parquet files to write, such as fleet.parquet; what it holds "
            "already is not read again",
        ),
        Option(
            "--workers", type=int, metavar="N", default=1, help="processes that read; by default 1"
        ),
        Option(
            "--engine",
            choices=ENGINES,
            default=ENGINES[0],
            help="where to read: on this machine, or on Spark",
        ),
        Option(
            "--master",
            metavar="URL",
            default="",
            help="the master of Spark, if spark-submit does not set it",
        ),
        Option("--compact", action="store_true", help="join the Parquet files into one in the end"),
        Option(
            "--prune",
            action="store_true",
            help="drop the rows of files that are gone, and old rows",
        ),
        Option("--summary", metavar="FOLDER", help="summarize the result of a scan"),
        *_CHECK,
        OneOf((JSON, MARKDOWN)),
    )


def _scan(options: argparse.Namespace) -> Answer:
    if options.summary:
        from weighbridge.fleet.summary import summarize

        if options.paths or options.list or options.output or options.check or options.badge:
            raise UsageError(
                "--summary reads a result, and scans nothing", hint="drop the paths, or --summary"
            )
        return summarize(options.summary)
    from weighbridge.cli.output import progress
    from weighbridge.fleet.scan import ScanSettings, scan

    paths = [*options.paths, *_paths_in_list(options.list)]
    if not paths:
        raise UsageError("there is nothing to scan", hint="give a folder, or --list FILE")
    if options.check or options.badge:
        return _check(paths, options)
    if not options.output:
        what = "scan writes a folder of Parquet files, and needs its name"
        hint = "give -o FOLDER for one that need not exist, or --check, which writes nothing"
        raise UsageError(what, hint=hint)
    settings = ScanSettings(
        options.workers, options.engine, options.master, options.compact, options.prune
    )
    return scan(
        paths,
        options.output,
        settings,
        lambda read: progress(f"{read:,} checkpoints", options.lang),
    )


def _check(paths: list[str], options: argparse.Namespace) -> Answer:
    from weighbridge.fleet.checking import check_checkpoints

    if options.output or not options.check:
        raise UsageError(
            "--check writes no table, and --badge needs --check", hint="drop -o, or add --check"
        )
    checked = check_checkpoints(paths)
    if options.badge:
        checked.write_badge(options.badge)
    return checked


def _paths_in_list(file: str | None) -> list[str]:
    """Return the paths in a file, one a line."""
    if not file:
        return []
    import sys
    from pathlib import Path

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(
            f"cannot be read: {reason}",
            where=file,
            hint="give a text file with a path on each line",
        ) from None
    return [line.strip() for line in text.splitlines() if line.strip()]


COMMANDS = {"scan": Command(_scan_options, _scan)}
