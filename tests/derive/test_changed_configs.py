"""Configs changed the way people change them: the shipped blueprints count what transformers does.

Each line of the data has a config, a class, and the parameters that transformers 5.23.0 builds.
`refused` marks a config that a guard refuses, although transformers accepts it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weighbridge
from weighbridge.errors import ConfigError

LINES = (Path(__file__).parents[1] / "data" / "changed_configs.jsonl").read_text(encoding="utf-8")
CASES = [json.loads(line) for line in LINES.splitlines()]


def _name(case: dict[str, Any]) -> str:
    fields = {name: value for name, value in case["config"].items() if name != "model_type"}
    return f"{case['class']}-{json.dumps(fields)}"


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_changed_config_is_counted_as_transformers_builds_it(case: dict[str, Any]) -> None:
    if case.get("refused"):
        with pytest.raises(ConfigError):
            weighbridge.weigh(case["config"], case["class"])
    else:
        assert weighbridge.weigh(case["config"], case["class"]).parameters == case["parameters"]
