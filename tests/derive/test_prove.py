"""Proving a blueprint against its module: all differences are found, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch
from made_up import blueprint as made_up
from torch import nn

from weighbridge.blueprint.schema import Blueprint
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.reversal import Files, InFile
from weighbridge.derive.prove import Mismatch, draws, prove_class
from weighbridge.models import find as models

if TYPE_CHECKING:
    from collections.abc import Mapping

torch.set_num_threads(1)


@dataclass
class TinyConfig:
    width: int = 6
    depth: int = 2
    bias: bool = True
    vocab: int = 10
    extra: int = 1


class Tiny(nn.Module):
    """Has layers, a tied head, a part that may have size 0, and buffers."""

    table: torch.Tensor

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        if config.width % 2:
            raise ValueError("width must be even")
        self.embed = nn.Embedding(config.vocab, config.width)
        self.layers = nn.ModuleList(
            nn.Linear(config.width, 4, bias=config.bias) for _ in range(config.depth)
        )
        self.extra = nn.Parameter(torch.empty(config.extra, config.width))
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.empty(config.width, 3))
        self.register_buffer("ids", torch.empty(config.vocab, dtype=torch.int64))


RIGHT: dict[str, Any] = made_up(
    "tiny",
    defaults={"width": 6, "depth": 2, "bias": True, "vocab": 10, "extra": 1},
    require=["width % 2 == 0"],
    repeat={"i": "depth"},
    tensors={
        "extra": "extra width",
        "embed.weight": "vocab width",
        "layers.{i}.weight": "4 width",
        "layers.{i}.bias": "4",
        "head.weight": "vocab width",
    },
    when={"layers.{i}.bias": "bias"},
    ties={"head.weight": "embed.weight"},
    buffers={"table": "F32 width 3", "ids": "I64 vocab"},
) | {"class": "Tiny"}

CONFIGS: list[dict[str, Any]] = [
    {},
    {"depth": 3},
    {"bias": False},
    {"width": 8, "vocab": 5},
    {"width": 4},
]


def changed(kind: str, of: Mapping[str, str | None], like: Mapping[str, Any] = RIGHT) -> Blueprint:
    """Return the right blueprint with other entries in one table; None removes an entry."""
    return Blueprint(
        {
            **like,
            kind: {name: text for name, text in {**like[kind], **of}.items() if text is not None},
        }
    )


def subject() -> OwnSubject:
    return OwnSubject(f"{__name__}:Tiny", f"{__name__}:TinyConfig")


def differences(blueprint: Blueprint, *configs: dict[str, Any]) -> list[Mismatch]:
    return prove_class(blueprint, subject(), "Tiny", configs or CONFIGS).mismatches


def test_a_right_blueprint_does_not_differ() -> None:
    assert prove_class(Blueprint(RIGHT), subject(), "Tiny", CONFIGS) == ("Tiny", 5, [], [*CONFIGS])


@pytest.mark.parametrize(
    ("wrong", "what", "on"),
    [
        (
            changed("tensors", {"embed.weight": "9 width"}),
            "embed.weight is ((10, 6), None), not ((9, 6), None)",
            5,
        ),
        (
            changed("tensors", {"extra": "6 extra"}),
            "extra is ((1, 6), None), not ((6, 1), None)",
            5,
        ),
        (
            changed("tensors", {"extra": "extra 6"}),
            "extra is ((1, 8), None), not ((1, 6), None)",
            2,
        ),
        (
            changed("tensors", {"extra": "extra*width"}),
            "extra is ((1, 6), None), not ((6,), None)",
            5,
        ),
        (
            changed("tensors", {"extra": None}),
            "extra is ((1, 6), None), which was not expected",
            5,
        ),
        (changed("tensors", {"more": "width"}), "more is missing (expected ((6,), None))", 5),
        (
            changed("when", {"layers.{i}.bias": None}),
            "layers.0.bias is missing (expected ((4,), None))",
            1,
        ),
        (
            changed("when", {"layers.{i}.bias": "bias and i > 0"}),
            "layers.0.bias is ((4,), None), which was not expected",
            4,
        ),
        (
            changed("repeat", {"i": "depth+1"}),
            "layers.2.weight is missing (expected ((4, 6), None))",
            5,
        ),
        (
            changed("repeat", {"i": "2"}),
            "layers.2.weight is ((4, 6), None), which was not expected",
            1,
        ),
        (
            changed("ties", {"head.weight": None}),
            "head.weight is ((10, 6), 'embed.weight'), not ((10, 6), None)",
            5,
        ),
        (
            changed("ties", {"head.weight": "embed.weight if bias"}),
            "head.weight is ((10, 6), 'embed.weight'), not",
            1,
        ),
        (
            changed("ties", {"extra": "embed.weight"}),
            "extra is ((1, 6), None), not ((1, 6), 'embed.weight')",
            5,
        ),
    ],
)
def test_a_wrong_entry_for_a_tensor_is_found(wrong: Blueprint, what: str, on: int) -> None:
    found = differences(wrong)
    assert found[0].what.startswith(what)
    assert len(found) == on
    assert {(each.part, each.names) for each in found} == {("tensors", ())}


def test_a_difference_names_the_config_that_shows_it() -> None:
    (found,) = differences(changed("repeat", {"i": "2"}))
    assert found.changes == {"depth": 3}
    assert found.text == (
        "layers.2.weight is ((4, 6), None), which was not expected, with depth = 3"
    )
    assert differences(changed("tensors", {"extra": None}))[0].text.endswith(
        "with the default config"
    )


@pytest.mark.parametrize(
    ("wrong", "what", "names", "on"),
    [
        (
            changed("buffers", {"table": "F32 width 4"}),
            "the buffer table is (6, 3), not (6, 4)",
            ("table",),
            5,
        ),
        (changed("buffers", {"ids": "I64 10"}), "the buffer ids is (5,), not (10,)", ("ids",), 1),
        (
            changed("buffers", {"none": "I64 vocab"}),
            "the buffer none is missing (expected (10,))",
            ("none",),
            5,
        ),
        (
            changed("buffers", {"table": "F32 3", "ids": "I64 vocab vocab"}),
            "the buffer table is (6, 3), not (3,)",
            ("table", "ids"),
            5,
        ),
    ],
)
def test_wrong_entries_for_buffers_are_found_with_their_names(
    wrong: Blueprint, what: str, names: tuple[str, ...], on: int
) -> None:
    found = differences(wrong)
    assert [
        (each.part, each.what if each.changes == found[0].changes else what) for each in found
    ] == [("buffers", what)] * on
    assert {each.names for each in found} == {names}


def test_a_buffer_that_is_not_in_the_blueprint_is_not_a_difference() -> None:
    assert differences(changed("buffers", {"table": None, "ids": None})) == []


def test_a_wrong_tensor_goes_before_a_wrong_buffer() -> None:
    wrong = changed("tensors", {"extra": None}, {**RIGHT, "buffers": {"table": "F32 1"}})
    assert [each.part for each in differences(wrong, {})] == ["tensors"]


def test_a_config_that_only_the_reference_accepts_is_a_difference() -> None:
    (found,) = differences(
        Blueprint({**RIGHT, "require": ["width % 4 == 2"]}), {"width": 8}, {"width": 10}
    )
    assert found.changes == {"width": 8}
    assert "a model of type tiny needs width % 4 == 2" in found.what


def test_a_refused_config_with_a_tensor_of_size_0_is_not_a_difference() -> None:
    empty = {"extra": 0}
    assert differences(Blueprint(RIGHT), empty) == []
    assert differences(Blueprint({**RIGHT, "zero": ["extra"]}), empty) == []
    assert prove_class(
        Blueprint(RIGHT), subject(), "Tiny", [empty, {}, empty, {"depth": 3}], most=2
    ) == (
        "Tiny",
        2,
        [],
        [{}, {"depth": 3}],
    )
    (found,) = differences(
        changed("tensors", {"extra": "extra+1 width"}, {**RIGHT, "zero": ["extra"]}), empty
    )
    assert found.what == "extra is ((0, 6), None), not ((1, 6), None)"


def test_a_config_that_the_reference_refuses_is_not_counted() -> None:
    assert (
        prove_class(Blueprint(RIGHT), subject(), "Tiny", [{"width": 7}, {"width": 8}]).configs == 1
    )


def test_no_more_configs_are_built_than_asked_for() -> None:
    wrong = changed("tensors", {"extra": None})
    found = prove_class(
        wrong, subject(), "Tiny", ({"width": 2 * at} for at in range(1, 100)), most=3
    )
    assert (found.configs, [each.changes["width"] for each in found.mismatches]) == (3, [2, 4, 6])


# The contents of files


class InFiles(OwnSubject):
    """Writes the head under another name."""

    seen = 0

    def in_files(self, class_name: str, changes: Any) -> Any:
        self.seen += 1
        probe = self.probe(class_name, changes, labels=False)
        names = {
            name: "lm_head" if name == "extra" else name
            for name in (*probe.tensors, "table", "none")
        }
        shapes = {name: tensor.shape for name, tensor in {**probe.tensors, **probe.buffers}.items()}
        return Files({names[of]: InFile(shapes.get(of, ()), (of,)) for of in names}, {})


STORED = {**RIGHT, "stored": {"extra": ["lm_head: extra width"]}}


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (STORED, None),
        (
            {**STORED, "stored": {"extra": ["lm_head: width extra"]}},
            "lm_head in files is (1, 6), not (6, 1)",
        ),
        (
            {**STORED, "stored": {"extra": ["head: extra width"]}},
            "head in files is missing (expected (1, 6))",
        ),
        ({**STORED, "buffers": {}}, None),
    ],
)
def test_the_contents_of_files_are_compared_if_the_blueprint_has_them(
    raw: dict[str, Any], what: str | None
) -> None:
    of = InFiles(f"{__name__}:Tiny", f"{__name__}:TinyConfig")
    found = prove_class(Blueprint(raw), of, "Tiny", [{}]).mismatches
    assert [(each.part, each.what) for each in found] == ([] if what is None else [("files", what)])


def test_the_contents_of_files_are_compared_on_a_few_configs_only() -> None:
    of = InFiles(f"{__name__}:Tiny", f"{__name__}:TinyConfig")
    prove_class(Blueprint(STORED), of, "Tiny", [{"width": 2 * at} for at in range(1, 12)])
    assert of.seen == 5
    prove_class(Blueprint(RIGHT), of, "Tiny", [{}])
    assert of.seen == 5, "files hold what the module does"


# Random configs

REGION: dict[str, Any] = made_up(
    "region",
    defaults={
        "width": 8,
        "depth": 6,
        "on": False,
        "kind": "a",
        "kinds": ["x", "y", "x"],
        "maybe": 4,
        "sub.size": 4,
    },
    values={"kind": ["a", "b"], "kinds": ["x", "y", "z"]},
    nullable=["maybe"],
    configs={"sub": "small"},
    require=["width % sub.size == 0"],
    repeat={"i": "depth"},
    tensors={
        "layers.{i}.w": "width sub.size",
        "on": "(width if on else 2)",
        "kind": '(2 if kind == "a" else 3)',
        "kinds": '(2 if "x" in kinds else 1)',
        "maybe": "(2 if maybe == null else maybe)",
    },
)


def test_random_configs_stay_in_the_region() -> None:
    blueprint = Blueprint(REGION)
    drawn = list(draws(blueprint, "seed", 400))
    assert 200 < len(drawn) < 400, "some break a requirement"
    seen: dict[str, set[Any]] = {}
    for changes in drawn:
        for name, value in changes.items():
            seen.setdefault(name, set()).add(tuple(value) if isinstance(value, list) else value)
        config = {name: value for name, value in changes.items() if name != "sub.size"}
        inside = (
            {"sub": {"model_type": "small", "size": changes["sub.size"]}}
            if "sub.size" in changes
            else {}
        )
        fields = models.bound({**config, **inside}, blueprint, "drawn").fields
        assert fields["width"] % fields["sub.size"] == 0
        assert {**fields, **{name: fields[name] for name in changes}} == fields
    assert seen.keys() == REGION["defaults"].keys()
    assert seen["depth"] == {2, 3, 4, 5}, "of a small model"
    assert seen["kind"] - {"a"} == {"b"}
    assert seen["on"] == {True}
    assert {len(kinds) for kinds in seen["kinds"]} == {3}
    assert {letter for kinds in seen["kinds"] for letter in kinds} == {"x", "y", "z"}
    assert None in seen["maybe"]
    assert {1, 2, 5, 8, 12} >= seen["maybe"] - {None}


def test_the_same_seed_draws_the_same() -> None:
    one, again, other = (
        list(draws(Blueprint(REGION), seed, 40)) for seed in ("one", "one", "other")
    )
    assert one == again != other


def test_a_short_model_is_not_made_longer() -> None:
    short = Blueprint({**REGION, "defaults": {**REGION["defaults"], "depth": 1}})
    assert {changes["depth"] for changes in draws(short, "seed", 20)} == {1}
