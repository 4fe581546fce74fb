"""A config that a draft gets wrong is narrowed to the changes that matter."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from weighbridge.derive.generalize.generalize import generalize
from weighbridge.derive.probing.narrowing import narrow
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.state import begin


@dataclass
class TwoFlagsConfig:
    width: int = 16
    layers: int = 2
    norm: bool = False
    gated: bool = False
    wide: bool = False


class TwoFlags(nn.Module):
    """Has a gate only with two flags; a third one and the sizes have nothing to do with it."""

    def __init__(self, config: TwoFlagsConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.width, 2 * config.width if config.wide else config.width)
        self.layers = nn.ModuleList(nn.Linear(config.width, 1) for _ in range(config.layers))
        if config.norm:
            self.norm = nn.LayerNorm(config.width)
        if config.norm and config.gated:
            self.gate = nn.Linear(config.width, 1)


def test_only_the_changes_that_matter_are_left() -> None:
    exploration = begin(
        OwnSubject(f"{__name__}:TwoFlags", f"{__name__}:TwoFlagsConfig"), "TwoFlags"
    )
    known: list[dict[str, object]] = [
        {},
        {"width": 24},
        {"layers": 3},
        {"norm": True},
        {"gated": True},
        {"wide": True},
    ]
    with quick_building():
        for changes in known:
            seen = exploration.try_out(changes)
            assert seen is not None
            exploration.keep(seen)
        draft = generalize(exploration.probes)
        wrong = exploration.try_out(
            {"width": 40, "norm": True, "layers": 3, "gated": True, "wide": True}
        )
        assert wrong is not None
        assert not draft.gives(wrong)
        first, smallest, *beside = narrow(exploration, draft, wrong)
    assert first is wrong
    assert smallest.changes == {"norm": True, "gated": True}
    assert [probe.changes for probe in beside] == [{"gated": True}, {"norm": True}]
    assert "gate.weight" in smallest.tensors
    assert not draft.gives(smallest)
    assert all(map(draft.gives, beside))
