"""Modules as strangers write them, held against settings that share nothing with derivation.

A blueprint may refuse a setting; it must never count one wrongly.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from own_models import strangers

import weighbridge
from weighbridge.derive.derivation import derive
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SETTINGS = 80
SIZES = (4, 8, 16, 20, 33, 70)

Dice = random.Random


def _sizes(dice: Dice, most: int = 7, least: int = 0) -> list[int]:
    return [dice.choice(SIZES) for _ in range(dice.randint(least, most))]


def _as_many(dice: Dice, choices: tuple[Any, ...], items: list[Any]) -> list[Any]:
    return [dice.choice(choices) for _ in items]


def _flag(dice: Dice) -> bool:
    return dice.random() < 0.5


def _convolutions(dice: Dice) -> dict[str, Any]:
    widths = _sizes(dice)
    kernels = _as_many(dice, (1, 3, 5, 7), widths)
    return {"widths": widths, "kernels": kernels, "out": dice.randint(1, 99)}


def _windows(dice: Dice) -> dict[str, Any]:
    return {
        "image": dice.choice([32, 56, 64, 112, 200, 224, 384]),
        "patch": dice.choice([2, 4, 8]),
        "depths": [dice.randint(1, 3) for _ in range(dice.randint(1, 5))],
        "window": dice.choice([2, 4, 7, 8, 12]),
    }


# What draws a setting, and the least share of settings that are counted rather than refused.
DRAWN: dict[str, tuple[Callable[[Dice], dict[str, Any]], float]] = {
    "Perceptron": (
        lambda dice: {
            "hidden_dims": _sizes(dice),
            "norm": _flag(dice),
            "dropout": dice.choice([0.0, 0.1]),
            "input_dim": dice.randint(1, 99),
        },
        1,
    ),
    "NullByDefault": (lambda dice: {"widths": _sizes(dice)}, 1),
    "Pairs": (
        lambda dice: {
            "blocks": [[dice.choice(SIZES), dice.randint(1, 4)] for _ in range(dice.randint(1, 6))],
            "before": dice.randint(3, 90),
        },
        1,
    ),
    "FlagForEach": (
        lambda dice: {"dense": [_flag(dice) for _ in range(dice.randint(1, 6))], "width": 12},
        1,
    ),
    "KindForEach": (
        lambda dice: {"kinds": _as_many(dice, ("conv", "attn"), [0] * dice.randint(1, 6))},
        1,
    ),
    "Convolutions": (_convolutions, 0.75),
    "AutoEncoder": (
        lambda dice: {"hidden": _sizes(dice, least=1), "size": dice.randint(5, 900)},
        0,
    ),
    "Widening": (lambda dice: {"widths": _sizes(dice, least=1), "before": dice.choice(SIZES)}, 1),
    "Upwards": (
        lambda dice: {"widths": _sizes(dice, least=1), "repeats": dice.randint(1, 4)},
        1,
    ),
    "Projection": (
        lambda dice: {
            "width": dice.randint(1, 99),
            "out": dice.choice([None, 0, 24, 70]),
            "kind": dice.choice(["linear", "none"]),
            **{name: _flag(dice) for name in ("bias", "norm", "scale", "tokens", "gate")},
            "layers": dice.randint(1, 5),
        },
        1,
    ),
    "Windows": (_windows, 1),
    "Scales": (_windows, 1),
    "Mixture": (
        lambda dice: {
            "layers": dice.randint(1, 6),
            "experts": dice.randint(2, 12),
            "shared": dice.choice([None, 1, 2]),
            "first_dense": dice.randint(0, 3),
            "inner": dice.choice(SIZES),
        },
        1,
    ),
    "Branch": (
        lambda dice: {
            "width": 8 * dice.randint(1, 90),
            "heads": dice.choice([1, 2, 4, 8]),
            "layers": dice.randint(1, 6),
        },
        0.8,
    ),
}


def _shapes(name: str, setting: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        module = getattr(strangers, name)(**setting)
    return {name: tuple(of.shape) for name, of in module.named_parameters()}


@pytest.mark.sampled(
    "src/weighbridge/derive", "src/weighbridge/blueprint", "src/weighbridge/algebra"
)
@pytest.mark.parametrize("name", DRAWN)
def test_a_stranger_s_module_is_never_counted_wrongly(name: str, tmp_path: Path) -> None:
    draw, least = DRAWN[name]
    derived = derive(OwnSubject(f"own_models.strangers:{name}", None, {}))
    path = tmp_path / "stranger.toml"
    path.write_text(derived.text, encoding="utf-8")
    dice = random.Random(name)  # noqa: S311
    counted = 0
    for _ in range(SETTINGS if derived.exact else 0):
        setting = draw(dice)
        expected = _shapes(name, setting)
        try:
            rows = weighbridge.weigh(path, fields=setting).rows
        except WeighbridgeError:
            continue
        assert {row.name: row.shape for row in rows} == expected, setting
        counted += 1
    assert counted >= least * SETTINGS
