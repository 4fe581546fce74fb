"""Reduces a config that differs to the few fields that make it differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attacking import verdicts
from attacking.trees import copied, leaves, replace, without

if TYPE_CHECKING:
    from collections.abc import Callable

    from attacking.trees import Config, Path

    IsWrong = Callable[[Config], bool]

MOST_TRIALS = 150
_SMALL = (1, 2, 3, 4, 8, 16, 32, 64)


class _Trials:
    """Counts the configs that were tried, up to a limit."""

    def __init__(self, is_wrong: IsWrong, most: int) -> None:
        self._is_wrong = is_wrong
        self._left = most

    def succeed(self, config: Config) -> bool:
        """Whether a smaller config is still wrong; False once the trials are used up."""
        if self._left <= 0:
            return False
        self._left -= 1
        return self._is_wrong(config)


def shrunk(config: Config, is_wrong: IsWrong, most_trials: int = MOST_TRIALS) -> Config:
    """Return a config that is still wrong, with as few fields and as small values as possible."""
    trials = _Trials(is_wrong, most_trials)
    smaller = _fewer_fields(_with_number_of_labels(config, trials), trials)
    return _smaller_values(smaller, trials)


def _with_number_of_labels(config: Config, trials: _Trials) -> Config:
    """Replace the names of labels by their number."""
    names = config.get("id2label")
    if not isinstance(names, dict):
        return copied(config)
    shorter = without(config, {("id2label",), ("label2id",)}) | {"num_labels": len(names)}
    if trials.succeed(shorter):
        return shorter
    return copied(config)


def _fewer_fields(config: Config, trials: _Trials) -> Config:
    """Remove fields: first half of them at once, then ever fewer."""
    paths = _removable(config)
    size = len(paths)
    while size >= 1 and paths:
        for begin in range(0, len(paths), size):
            fewer = without(config, set(paths[begin : begin + size]))
            if fewer != config and trials.succeed(fewer):
                config = fewer
        paths = _removable(config)
        if size == 1:
            return config
        size = min(size // 2, max(len(paths), 1))
    return config


def _removable(config: Config) -> list[Path]:
    """Return the fields to remove. A sub-config's model type goes last: it decides the others."""
    paths = [path for path, _ in leaves(config) if path != ("model_type",)]
    return sorted(paths, key=lambda path: path[-1] == "model_type")


def _smaller_values(config: Config, trials: _Trials) -> Config:
    for path, value in list(leaves(config)):
        for smaller in _simpler(value):
            candidate = copied(config)
            replace(candidate, path, smaller)
            if trials.succeed(candidate):
                config = candidate
                break
    return config


def _simpler(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        return [small for small in _SMALL if small < value]
    if isinstance(value, list):
        return [value[:length] for length in range(1, len(value))]
    return []


def differs(class_name: str, scale: verdicts.Scale) -> IsWrong:
    """Return whether a config is counted wrongly for a class."""
    return lambda config: scale.judged(config, class_name).outcome == verdicts.WRONG
