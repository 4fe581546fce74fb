"""Building quickly gives what torch gives, and refuses what torch refuses."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from weighbridge.derive.probing.earlier_probes import probe_once
from weighbridge.derive.probing.probe import quick_building, take

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weighbridge.derive.probing.probe import Probe


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.size = 3
        self.later: Any = None
        self.later = nn.Linear(3, 2, bias=False)
        self.shared = self.later
        self.scale = nn.Parameter(torch.ones(3))
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("steps", torch.zeros(2, dtype=torch.int64), persistent=False)
        self.register_buffer("angles", torch.zeros(5), persistent=False)
        self.layers = nn.ModuleList([nn.LayerNorm(3)])


def contents(module: nn.Module) -> list[Any]:
    """Return the attributes of all modules in their order, with tensors as shapes."""
    return [
        (path, list(vars(part)), list(part._modules), list(part._buffers), part.training)
        for path, part in module.named_modules(remove_duplicate=False)
    ] + [(name, tensor.shape) for name, tensor in module.named_parameters(remove_duplicate=False)]


def test_a_module_is_what_torch_builds() -> None:
    usual = contents(Nested())
    with quick_building():
        assert contents(Nested()) == usual


def test_a_probe_lists_what_torch_lists() -> None:
    module = Nested()
    probe = take(lambda: module, {}, {}, labels=False)
    named = dict(module.named_parameters(remove_duplicate=False))
    assert {name: tensor.shape for name, tensor in probe.tensors.items()} == {
        name: tuple(tensor.shape) for name, tensor in named.items()
    }
    assert probe.tensors["shared.weight"].tied_to == "later.weight"
    assert list(probe.buffers) == ["mean", "steps"]
    assert list(probe.modules) == [name for name, _ in module.named_modules(remove_duplicate=False)]
    assert probe.lengths == {"layers": 1}


@pytest.mark.parametrize(
    "assign",
    [
        lambda module: setattr(module, "scale", 3),
        lambda module: setattr(module, "later", "a text"),
        lambda module: setattr(module, "mean", 3),
        lambda module: setattr(module, "forward", nn.Parameter(torch.ones(1))),
        lambda module: setattr(module, "a.b", nn.Parameter(torch.ones(1))),
        lambda module: setattr(nn.Module.__new__(nn.Module), "part", nn.Module()),
    ],
)
def test_what_torch_refuses_is_refused(assign: Callable[[nn.Module], None]) -> None:
    with pytest.raises(Exception) as usual:  # noqa: PT011
        assign(Nested())
    with quick_building(), pytest.raises(type(usual.value)):
        assign(Nested())


class Counting:
    """A subject that counts its runs, and refuses negative sizes."""

    def __init__(self) -> None:
        self.runs = 0

    def probe(self, class_name: str, changes: Mapping[str, Any], *, labels: bool = True) -> Probe:
        self.runs += 1
        if changes["size"] < 0:
            raise ValueError("negative")
        return take(lambda: nn.Linear(changes["size"], 2), changes, changes, labels=labels)


def test_the_same_config_is_run_once() -> None:
    subject: Any = Counting()
    first = probe_once(subject, "Linear", {"size": 3})
    again = probe_once(subject, "Linear", {"size": 3})
    assert (subject.runs, again) == (1, first)
    for differing in ({"size": True}, {"size": 4}):
        probe_once(subject, "Linear", differing)
    probe_once(subject, "Linear", {"size": 3}, labels=False)
    probe_once(subject, "Other", {"size": 3})
    assert subject.runs == 5


def test_a_refused_config_is_refused_again() -> None:
    subject: Any = Counting()
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            probe_once(subject, "Linear", {"size": -1})
    assert subject.runs == 1


def test_a_probed_module_is_freed_at_once() -> None:
    modules = [Nested()]
    reference = weakref.ref(modules[0])
    gc.disable()
    try:
        take(modules.pop, {}, {}, labels=False)
        assert reference() is None
    finally:
        gc.enable()


def test_a_block_inside_another_one_ends_neither() -> None:
    usual = nn.Linear.reset_parameters, nn.Module.__init__
    with quick_building():
        quick = nn.Linear.reset_parameters, nn.Module.__init__
        with quick_building():
            assert (nn.Linear.reset_parameters, nn.Module.__init__) == quick != usual
        assert (nn.Linear.reset_parameters, nn.Module.__init__) == quick
    assert (nn.Linear.reset_parameters, nn.Module.__init__) == usual
