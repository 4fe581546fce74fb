"""Code that no probe reached: a blueprint refuses the configs that would run it."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch
import unreached_code
from torch import nn
from unreached_code import CONFIGS, LARGE

import weighbridge
from weighbridge.derive.derivation import Derived, derive
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from pathlib import Path

torch.set_num_threads(1)


@cache
def derived(name: str) -> Derived:
    return derive(OwnSubject(f"unreached_code:{name}", f"unreached_code:{CONFIGS[name].__name__}"))


def parameters(name: str, **fields: Any) -> int:
    """Return how many parameters a module built by hand has."""
    kind: Any = getattr(unreached_code, name)
    with torch.device("meta"):
        built: nn.Module = kind(CONFIGS[name](**fields))
    return sum(parameter.numel() for parameter in built.parameters())


@pytest.mark.parametrize(
    ("name", "rule", "line", "accepted", "refused"),
    [
        (
            "Threshold",
            f"labels * labels < {LARGE * LARGE}",
            "Threshold.__init__: `self.head = nn.Sequential(`",
            {"labels": LARGE - 1},
            {"labels": LARGE},
        ),
        (
            "Choice",
            f"labels * labels < {LARGE * LARGE}",
            "Choice.__init__: `self.after = nn.Linear(config.labels, 2) if is_large",
            {"labels": LARGE - 1},
            {"labels": LARGE},
        ),
        (
            "Return",
            f"labels * labels <= {LARGE * LARGE}",
            "Return.build_more: `self.after = nn.Linear(config.labels, 2)`",
            {"labels": LARGE},
            {"labels": LARGE + 1},
        ),
        (
            "Layers",
            f"count(i * width > {LARGE * LARGE} for i in range(depth)) == 0",
            "Layer.__init__: `self.more = nn.Linear(config.width, 1)`",
            {"width": LARGE * LARGE, "depth": 2},
            {"width": LARGE * LARGE, "depth": 3},
        ),
        (
            "Helper",
            "[fused, split] in [[false, false], [false, true], [true, false]]",
            "Helper.__init__: `self.more = nn.Linear(config.width, config.width)`",
            {"width": LARGE, "fused": True},
            {"width": LARGE, "fused": True, "split": True},
        ),
        (
            "Computed",
            f"width * width <= {LARGE * LARGE}",
            "ComputedConfig.__post_init__: `self.inner = 1`",
            {"width": LARGE},
            {"width": LARGE + 1},
        ),
        (
            "Named",
            "kind in [null]",
            "Named.__init__: `self.more = nn.Linear(config.width, config.width)`",
            {"width": LARGE},
            {"width": LARGE, "kind": "x-large"},
        ),
    ],
)
def test_a_branch_that_no_probe_took_is_guarded(
    name: str,
    rule: str,
    line: str,
    accepted: dict[str, Any],
    refused: dict[str, Any],
    tmp_path: Path,
) -> None:
    done = derived(name)
    raw = tomllib.loads(done.text)
    place = raw["guards"][rule]
    assert list(raw["guards"]) == [rule]
    assert place.startswith(f"unreached_code.py: {line}")
    untried = ["only one value of kind is covered"] if name == "Named" else []
    assert done.holes == raw["proof"]["holes"] == [*untried, f"{place} is guarded"]
    path = tmp_path / "own.toml"
    path.write_text(done.text, encoding="utf-8")
    weighed = weighbridge.weigh(path, fields=accepted).parameters
    assert weighed == parameters(name, **accepted)
    assert parameters(name, **refused) != parameters(name, **accepted)
    with pytest.raises(WeighbridgeError) as caught:
        weighbridge.weigh(path, fields=refused)
    message = str(caught.value)
    reason = f"covers only configs with {rule}, because no probe reached {place} ("
    if untried:  # that is checked before guards are
        reason = "kind was not tried with text"
    assert reason in message
    assert "Build the module and count it with weighbridge.weigh(module)" in message


@pytest.mark.parametrize("name", ["Harmless", "Forbidden"])
def test_a_branch_that_decides_no_tensor_is_not_guarded(name: str) -> None:
    raw = tomllib.loads(derived(name).text)
    assert "guards" not in raw
    assert "holes" not in raw["proof"] or raw["proof"]["holes"] == []
