"""Chooses the configs that show how a class is built: runs the strategies in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.derive.probing.chance import sample
from weighbridge.derive.probing.strategies import (
    change_lengths,
    exchange_items,
    retry_known,
    shrink,
    turn_each,
    turn_groups,
    turn_pairs,
    used_first,
    used_newly,
)
from weighbridge.derive.probing.trouble import MOST_PLACES_AFTER, flip_answers, rouse_quiet

if TYPE_CHECKING:
    from weighbridge.derive.probing.state import Exploration

RANDOM_CONFIGS = 8  # a first look at how fields interact; more are drawn to test drafts
RANDOM_CONFIGS_AFTER = 3  # fewer for a class that shares its config with an explored class


def explore_configs(exploration: Exploration, earlier: Exploration | None = None) -> None:
    """Learn about a class; after another class with the same config, only what is new."""
    if earlier is None:
        _explore_all(exploration)
    else:
        _explore_rest(exploration, earlier)


def _explore_all(exploration: Exploration) -> None:
    _take_knobs(exploration)
    shrink(exploration)
    _take_knobs(exploration)
    turn_groups(exploration)
    turn_each(exploration, used_first(exploration))
    flip_answers(exploration)
    exchange_items(exploration)
    change_lengths(exploration)
    turn_pairs(exploration, exploration.findings.active)
    _keep_random(exploration, RANDOM_CONFIGS)
    rouse_quiet(exploration)
    flip_answers(exploration)


def _explore_rest(exploration: Exploration, earlier: Exploration) -> None:
    retry_known(exploration, earlier)
    _take_knobs(exploration)
    turn_each(exploration, used_newly(exploration, earlier))
    flip_answers(exploration)
    turn_pairs(exploration, exploration.findings.active - earlier.findings.active)
    _keep_random(exploration, RANDOM_CONFIGS_AFTER)
    rouse_quiet(exploration, MOST_PLACES_AFTER)


def _take_knobs(exploration: Exploration) -> None:
    """Set the knobs to those of the base, or of the start if there is no base yet."""
    changes = exploration.findings.base or exploration.start
    exploration.knobs = {knob.path: knob for knob in exploration.subject.knobs(changes)}


def _keep_random(exploration: Exploration, count: int) -> None:
    for _ in range(count):
        probe = sample(exploration)
        if probe is not None:
            exploration.keep(probe)
