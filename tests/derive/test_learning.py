"""Fields that no expression follows are held at their defaults together."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from weighbridge.derive.generalize.generalize import generalize, leaves_unknown
from weighbridge.derive.learning import learn_class
from weighbridge.derive.probing.explore import explore_configs
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.state import begin


@dataclass
class HalvedConfig:
    flag: bool = False
    width: int = 16
    size: int = 32
    window: int = 64
    depth: int = 2


class Halved(nn.Module):
    """Has layers for each halving of two sizes, which no expression gives."""

    def __init__(self, config: HalvedConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(config.width, config.width) for _ in range(config.depth)
        )
        if config.flag:
            self.norm = nn.LayerNorm(config.width)
        self.down = nn.ModuleList()
        size = config.size
        while size > 4:
            self.down.append(nn.Linear(config.width, 1))
            size //= 2
        self.up = nn.ModuleList()
        window = config.window
        while window > 4:
            self.up.append(nn.Linear(1, config.width))
            window //= 2


def test_what_is_held_is_as_little_as_possible() -> None:
    subject = OwnSubject(f"{__name__}:Halved", f"{__name__}:HalvedConfig")
    learned = learn_class(subject, "Halved")
    assert not learned.holes
    assert learned.exploration.findings.pinned == {"size": 32, "window": 64}


def test_what_leaves_a_part_unknown_is_told_without_the_whole_draft() -> None:
    subject = OwnSubject(f"{__name__}:Halved", f"{__name__}:HalvedConfig")
    exploration = begin(subject, "Halved")
    with quick_building():
        explore_configs(exploration)
    told = {}
    for held in ((), ("size",), ("window",), ("size", "window"), ("flag", "depth")):
        probes = exploration.without_all(held)
        told[held] = leaves_unknown(probes)
        assert told[held] == bool(generalize(probes).unknown), held
    assert [held for held, is_unknown in told.items() if not is_unknown] == [("size", "window")]


class Zipped(nn.Module):
    """Has a layer between each two widths, and none if there is one width."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32)) -> None:
        super().__init__()
        neighbours = zip(widths, widths[1:], strict=False)  # noqa: RUF007  # as people write it
        self.layers = nn.ModuleList(nn.Linear(one, other) for one, other in neighbours)


def test_a_list_that_is_counted_as_empty_needs_no_condition() -> None:
    exploration = begin(OwnSubject(f"{__name__}:Zipped"), "Zipped")
    lists = ([8, 16, 32], [8], [5, 7], [4, 9, 6, 11], [12], [3, 8, 7, 5, 6])
    probes = [exploration.try_out({"widths": widths}) for widths in lists]
    draft = generalize([probe for probe in probes if probe is not None])
    assert (len(probes), draft.unknown, draft.conditions) == (len(lists), [], {})
