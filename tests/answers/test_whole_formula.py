"""The formula of a whole family, run alone, gives what `weigh` gives for any config, or refuses."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import weighbridge as wb
from weighbridge.blueprint.schema import families, load

if TYPE_CHECKING:
    from pathlib import Path

NAMED = ("bert", "deepseek_v3", "jamba", "mixtral", "qwen3_next", "t5", "llava", "glpn")
SAMPLE = 16
CHANGED = 6  # configs of a family
TOO_LONG = {"align", "efficientnet"}
RUN = """
import inspect, json, sys
assert "weighbridge" not in sys.modules
sys.modules["weighbridge"] = None
found = {}
exec(open(sys.argv[1], encoding="utf-8").read(), found)
counts = []
for changes in json.loads(sys.argv[2]):
    of_config = []
    for name in ("parameters", "active"):
        if name in found:
            takes = inspect.signature(found[name]).parameters
            given = {field: value for field, value in changes.items() if field in takes}
            try:
                of_config.append(found[name](**given))
            except ValueError:
                of_config.append(None)
    counts.append(of_config)
print(json.dumps(counts))
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"family", "seed"} <= {*metafunc.fixturenames}:
        drawn = random.Random(f"{metafunc.config.option.seed} whole")  # noqa: S311
        sampled = drawn.sample([name for name in families() if name not in TOO_LONG], SAMPLE)
        metafunc.parametrize("family", sorted({*sampled, *NAMED}))


def changes_of(family: str, drawn: random.Random) -> dict[str, Any]:
    """Draw a few flags and sizes of a family, with other values than their defaults."""
    blueprint = load(family)
    changed: dict[str, Any] = {}
    names = sorted(blueprint.fields - blueprint.computed.keys())
    for name in drawn.sample(names, min(len(names), drawn.randint(1, 4))):
        default = blueprint.at_defaults.get(name)
        if isinstance(default, bool):
            changed[name] = not default
        elif type(default) is int:
            changed[name] = drawn.choice((default + 1, 2 * default, max(default // 2, 0)))
    return changed


def test_it_is_what_weigh_gives_or_refuses(family: str, seed: str, tmp_path: Path) -> None:
    drawn = random.Random(f"{seed} {family}")  # noqa: S311
    text = wb.formula(family, whole=True).text(code="python")
    given: list[dict[str, Any]] = []
    expected: list[list[int]] = []
    for changes in [{}, *(changes_of(family, drawn) for _ in range(CHANGED))]:
        try:
            weighing = wb.weigh(family, fields=changes)
        except wb.WeighbridgeError:
            continue
        # All fields are given: a sub-config that is named has other defaults than one that is not.
        computed = weighing.model.computed
        fields = weighing.ledger.fields
        given.append({name: fields[name] for name in fields if name not in computed})
        expected.append([weighing.parameters, weighing.ledger.active])
    path = tmp_path / "whole.py"
    path.write_text(text, encoding="utf-8")
    asked = json.dumps(
        [{name.replace(".", "_"): value for name, value in fields.items()} for fields in given],
        default=dict,
    )
    command = [sys.executable, "-I", "-c", RUN, str(path), asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-2000:]
    for fields, counted, weighed in zip(given, json.loads(done.stdout), expected, strict=True):
        assert counted == weighed[: len(counted)], fields


REFUSED = [
    ("bert", {"hidden_size": 770}),
    ("bert", {"num_hidden_layers": 0}),
    ("bert", {"add_cross_attention": True}),
    ("llama", {"vocab_size": -5}),
    ("t5", {"num_heads": 0}),
]


@pytest.mark.parametrize(("family", "changes"), REFUSED)
def test_what_weigh_refuses_raises(family: str, changes: dict[str, Any]) -> None:
    with pytest.raises(wb.WeighbridgeError):
        wb.weigh(family, fields=changes)
    found: dict[str, Any] = {}
    exec(wb.formula(family, whole=True).text(code="python"), found)  # noqa: S102  # our own
    with pytest.raises(ValueError, match="holds only where"):
        found["parameters"](**changes)


def test_it_says_where_it_does_not_hold() -> None:
    found: dict[str, Any] = {}
    exec(wb.formula("bert", whole=True).text(code="python"), found)  # noqa: S102  # our own
    with pytest.raises(ValueError, match="hidden_size % num_attention_heads == 0"):
        found["parameters"](hidden_size=770)
    with pytest.raises(ValueError, match="num_hidden_layers >= 1"):
        found["parameters"](num_hidden_layers=0)


def test_the_text_and_json_have_every_case() -> None:
    whole = wb.formula("bert", whole=True)
    assert "where add_cross_attention" in whole.text()
    assert "当 add_cross_attention" in whole.text("zh")
    (always, crossed) = whole.to_dict()["parameters"]
    assert always["where"] == []
    assert crossed["where"] == ["add_cross_attention"]
    assert "is_decoder or not add_cross_attention" in whole.to_dict()["rules"]


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"code": "sql"}, "sweep --sql"),
        ({"code": "latex"}, "no such form"),
        ({"by": "component"}, "Drop --by"),
        ({"names": "letters"}, "Drop --by and --names"),
    ],
)
def test_other_choices_are_refused(choices: dict[str, str], reason: str) -> None:
    with pytest.raises(wb.WeighbridgeError, match=reason):
        wb.formula("bert", whole=True).text(**choices)


def test_only_parameters_have_a_whole_formula() -> None:
    with pytest.raises(wb.WeighbridgeError, match="Drop --whole or --of"):
        wb.formula("bert", whole=True, of="flops")


def test_a_formula_that_is_too_long_is_refused() -> None:
    with pytest.raises(wb.WeighbridgeError, match=r"AlignModel is too long to write.*sweep"):
        wb.formula("align", whole=True)
