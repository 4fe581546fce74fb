"""Flat lists over stages: the stage and the block of a module follow from its index."""

from __future__ import annotations

from weighbridge.algebra.rewrite import compiled
from weighbridge.derive.generalize.places import Observation
from weighbridge.derive.generalize.stages import find_stages
from weighbridge.derive.probing.symbolic import SymbolicTrace

DEPTHS = ("name", "depths")
SIZE = ("[]", DEPTHS, ("loop", "stages"))


def observation(depths):
    return Observation({"depths": depths, "scale": 1.5}, {}, {}, SymbolicTrace())


def test_the_stage_and_the_block_of_each_module_are_found_and_written():
    stages = find_stages("blocks", {(0, ()): 6}, [SIZE], [observation([1, 3, 2])])
    pairs = []
    for index in range(6):
        values = stages.values((0, (index,)))
        fields = {"depths": [1, 3, 2], "@0": index}
        written = [compiled(stages.written(tree))(fields) for tree in (stages.stage, stages.block)]
        assert written == [values[stages.stage[1]], values[stages.block[1]]]
        pairs.append(tuple(written))
    assert pairs == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    assert stages.total == ("sum", DEPTHS)


def test_the_size_of_a_stage_may_be_computed():
    size = ("ceil", ("*", ("name", "scale"), SIZE))
    fields = observation([1, 3, 2])
    stages = find_stages("blocks", {(0, ()): 10}, [SIZE, size], [fields])
    assert compiled(stages.total)(fields.fields) == 2 + 5 + 3
    assert stages.starts == [[0, 2, 7, 10]]


def test_a_list_with_another_length_has_no_stages():
    assert find_stages("blocks", {(0, ()): 5}, [SIZE], [observation([1, 3, 2])]) is None
    assert find_stages("blocks", {(0, ()): 3}, [SIZE], [observation([3])]) is None
