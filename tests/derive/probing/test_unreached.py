"""Code that no config ran: lines that could decide a tensor are reported with their methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from weighbridge.derive.derivation import derive
from weighbridge.derive.learning import learn_class
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.unreached import Runs, UnreachedLine

torch.set_num_threads(1)


@dataclass
class BranchesConfig:
    width: int = 8
    depth: int = 2
    gated: bool = False
    mode: str = "one"
    level: int = 0


class Inner(nn.Module):
    def __init__(self, config: BranchesConfig, at: int) -> None:
        super().__init__()
        self.mix = nn.Linear(config.width, config.width)
        if at == 5:
            self.sixth = nn.Linear(config.width, 1)


class Outer(nn.Module):
    def __init__(self, config: BranchesConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Inner(config, at) for at in range(config.depth))
        self.width = config.width
        if config.gated:
            self.gate = nn.Linear(config.width, 1)
            if config.mode == "two":
                self.two = nn.Linear(
                    config.width,
                    2,
                )
            elif config.level > 3:
                self.level = config.level + 1
                self.name = "high"
                print("a high level")
        else:
            self.plain = nn.Linear(1, config.width)
        if config.level == 1:
            self.later(config)
        hidden = config.width * 2 if config.mode == "three" else 1
        self.head = nn.Linear(config.width, hidden)
        if config.mode == "four":
            raise ValueError("no such mode")

    def later(self, config: BranchesConfig) -> None:
        if config.mode == "five":
            self.five = nn.Linear(config.width, 5)


class Deep(nn.Module):
    """Has a part that exists only if several fields have other values together."""

    def __init__(self, config: BranchesConfig) -> None:
        super().__init__()
        self.mix = nn.Linear(config.width, config.width)
        if config.gated and config.mode == "two":
            self.wide = nn.Linear(config.width, 2)
            if config.level > 900:
                self.deep = nn.Linear(config.width, 1)


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.never = nn.Linear(1, 1)


class Hidden(nn.Module):
    """Has a part that is switched on only by a text which the code does not contain."""

    def __init__(self, width: int = 8, code: str = "abc") -> None:
        super().__init__()
        self.mix = nn.Linear(width, width)
        if sum(map(ord, code)) == 7777:
            self.secret = nn.Linear(width, 1)


def subject() -> OwnSubject:
    return OwnSubject(f"{__name__}:Outer", f"{__name__}:BranchesConfig")


def missed(*configs: dict[str, Any]) -> list[UnreachedLine]:
    """Return the lines that these configs miss."""
    with quick_building():
        return Runs(subject()).never_run("Outer", configs)


SIXTH = "Inner.__init__: `self.sixth = nn.Linear(config.width, 1)`"
GATE = "Outer.__init__: `self.gate = nn.Linear(config.width, 1)`"
TWO = "Outer.__init__: `self.two = nn.Linear(`"
LEVEL = "Outer.__init__: `self.level = config.level + 1`"
PRINT = 'Outer.__init__: `print("a high level")`'
PLAIN = "Outer.__init__: `self.plain = nn.Linear(1, config.width)`"
LATER = "Outer.__init__: `self.later(config)`"


@pytest.mark.parametrize(
    ("configs", "left"),
    [
        ([{}], [SIXTH, GATE, TWO, LEVEL, PRINT, LATER]),
        ([{"gated": True}], [SIXTH, TWO, LEVEL, PRINT, PLAIN, LATER]),
        ([{}, {"gated": True}], [SIXTH, TWO, LEVEL, PRINT, LATER]),
        ([{"gated": True, "mode": "two"}, {"level": 1}], [SIXTH, LEVEL, PRINT]),
        ([{"gated": True, "level": 4}, {"depth": 6}], [TWO, LATER]),
        ([{"gated": True, "mode": "four"}], [SIXTH, TWO, LEVEL, PRINT, PLAIN, LATER]),
    ],
)
def test_a_line_that_no_config_ran_is_reported_with_its_method_and_text(
    configs: list[dict[str, Any]], left: list[str]
) -> None:
    assert [str(line).removeprefix("test_unreached.py: ") for line in missed(*configs)] == left


def test_a_line_is_reported_with_its_place_and_the_conditions_around_it() -> None:
    lines = {str(line).partition(": ")[2]: line for line in missed({"width": 4})}
    two = lines[TWO]
    with open(__file__, encoding="utf-8") as file:
        assert (
            file.read().split("\n")[two.number - 1].strip() == two.text == "self.two = nn.Linear("
        )
    assert two.file == __file__
    assert two.tests == ("config.gated", "config.mode == 'two'")
    assert lines[SIXTH].tests == ("at == 5",)
    assert two.near == {"width": 4}, "a config that runs the method"


def test_a_line_that_ran_is_not_reported_and_a_config_runs_once() -> None:
    looked_at = []

    class Watched(OwnSubject):
        def probe(self, class_name: str, changes: Any, *, labels: bool = True) -> Any:
            looked_at.append(dict(changes))
            return super().probe(class_name, changes, labels=labels)

    runs = Runs(Watched(f"{__name__}:Outer", f"{__name__}:BranchesConfig"))
    with quick_building():
        first = runs.never_run("Outer", [{"gated": True, "mode": "two"}])
        then = runs.never_run("Outer", [{"mode": "two", "gated": True}, {"level": 1}])
        last = runs.never_run("Outer", [])
    assert looked_at == [{"gated": True, "mode": "two"}, {"level": 1}]
    assert [line.text for line in first if line not in then] == [
        "self.plain = nn.Linear(1, config.width)",
        "self.later(config)",
    ]
    assert last == then


def test_lines_that_cannot_decide_a_tensor_are_not_reported() -> None:
    texts = [line.text for line in missed({})]
    assert not [text for text in texts if "name" in text], "it is a constant"
    assert not [text for text in texts if "raise" in text]
    assert not [text for text in texts if "never" in text], "nothing uses its class"
    assert not [text for text in texts if "five" in text], "it is not a constructor"


def test_tracing_ends_where_it_began() -> None:
    import sys

    before = sys.gettrace()
    missed({"mode": "four"})
    assert sys.gettrace() is before


def test_exploring_aims_at_lines_that_did_not_run() -> None:
    found = learn_class(OwnSubject(f"{__name__}:Deep", f"{__name__}:BranchesConfig"), "Deep")
    assert (found.missed, found.holes) == ([], [])
    assert any("deep.weight" in probe.tensors for probe in found.probes)


def test_a_line_that_cannot_be_reached_is_reported() -> None:
    subject = OwnSubject(f"{__name__}:Hidden")
    line = "test_unreached.py: Hidden.__init__: `self.secret = nn.Linear(width, 1)`"
    assert learn_class(subject, "Hidden").missed == [line]
    derived = derive(subject)
    assert (derived.exact, derived.holes) == (True, [f"{line} is guarded"])
    assert "self.secret" in derived.text
