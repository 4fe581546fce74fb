"""The rules that every config must satisfy."""

from __future__ import annotations

from hard_to_explore import explored

from weighbridge.derive.probing.explore import explore_configs
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.requirements import requirements
from weighbridge.derive.probing.state import begin
from weighbridge.derive.write import expression


def test_answers_that_no_probe_changes_are_required_if_other_answers_are_refused() -> None:
    exploration = explored("Choices")
    with quick_building():
        required = [expression(tree) for tree in requirements(exploration, {"wide", "gated"})]
        without = [expression(tree) for tree in requirements(exploration, {"wide"})]
    assert required == ["width % heads == 0", "kv == null or heads % kv == 0", "wide or not gated"]
    assert without == required[:-1], "a rule on an unneeded field is not required"
    asked = {expression(tree) for probe in exploration.probes for tree in probe.trace.asked}
    assert "near > layers" in asked, "it has both answers"
    assert {"near > vocab", "near > 9 * vocab"} <= asked, (
        "the answer is always the same, but the other one is not refused"
    )


def test_a_list_whose_length_is_the_number_of_dims_keeps_its_length() -> None:
    subject = OwnSubject("own_models.kernels:Kernels", "own_models.kernels:KernelsConfig")
    exploration = begin(subject, "Kernels", 0)
    with quick_building():
        explore_configs(exploration)
        rules = requirements(exploration, {"width", "kernel", "stages"})
        unneeded = requirements(exploration, {"width", "stages"})
    assert [expression(tree) for tree in rules] == ["len(kernel) == 2"]
    assert unneeded == []
