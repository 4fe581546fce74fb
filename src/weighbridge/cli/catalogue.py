"""Commands that list what weighbridge knows: models, families."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.cli.commands import Command
from weighbridge.cli.options import JSON, PART

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable


def _models_options() -> Iterable[Addable]:
    return (PART, JSON.but(help="write JSON: the config, parameters and source of each"))


def _models(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.models import ReleasedModels

    return ReleasedModels(options.part)


def _families_options() -> Iterable[Addable]:
    return (PART, JSON.but(help="write JSON: the classes, source, configs and holes of each"))


def _families(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.families import Families

    return Families(options.part)


COMMANDS = {
    "models": Command(_models_options, _models),
    "families": Command(_families_options, _families),
}
