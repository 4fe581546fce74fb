"""`derive.probing.strategies`: the base that exploring starts from."""

import pytest

from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.reference import FamilySubject
from weighbridge.derive.probing.state import begin
from weighbridge.derive.probing.strategies import shrink


@pytest.mark.parametrize("family", ["zoedepth", "chmv2"])
def test_the_stages_of_the_default_backbone_keep_its_number_of_layers(family: str) -> None:
    """The default has 24 layers; a backbone that a config gives has 12, too few for its stages."""
    subject = FamilySubject(family)
    exploration = begin(subject, subject.base_class)
    exploration.knobs = {knob.path: knob for knob in subject.knobs({})}
    with quick_building():
        shrink(exploration)
    base = exploration.findings.base
    assert base["backbone_config.out_features"] == ["stage6", "stage12", "stage18", "stage24"]
    assert base["backbone_config.num_hidden_layers"] == 24
