"""Each line of docs/reference/modules.md: its class is derived, and held against what torch builds.

The classes are built by hand from the same settings; no code of derivation takes part in that.
"""

from __future__ import annotations

import importlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
import understood

import weighbridge
from weighbridge.derive.derivation import derive
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from torch import nn

torch.set_num_threads(1)

_IMPORTS = """
import copy, dataclasses, enum, math, os, random
from collections import OrderedDict
import numpy as np
import torch
from torch import nn
"""
_LINES = [
    (kind, number)
    for kind in ("understood", "kept", "refused")
    for number in range(len(understood.lines(kind)))
]


class Written:
    """The class of a line in a module of its own, which a test derives."""

    def __init__(self, line: dict[str, Any], name: str, folder: Path) -> None:
        self.line, self.name, self.folder = line, name, folder
        (folder / f"{name}.py").write_text(_IMPORTS + line["code"], encoding="utf-8")
        self.module: ModuleType = importlib.import_module(name)

    def blueprint(self, **fields: Any) -> Path | None:
        """Return the file of the blueprint derived with these fields; None if there is none."""
        try:
            found = derive(OwnSubject(f"{self.name}:Net", None, fields))
        except WeighbridgeError:
            return None
        if not found.exact:
            return None
        path = self.folder / f"{self.name}.toml"
        path.write_text(found.text, encoding="utf-8")
        return path

    def built(self, setting: dict[str, Any]) -> nn.Module:
        """Build the class as its users do."""
        arguments = {name: _as_argument(value) for name, value in setting.items()}
        if hasattr(self.module, "Config"):
            return self.module.Net(self.module.Config(**arguments))  # type: ignore[no-any-return]
        return self.module.Net(**arguments)  # type: ignore[no-any-return]


def _as_argument(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_as_argument, value))
    is_address = isinstance(value, str) and re.fullmatch(r"[\w.]+:\w+", value)
    if is_address:
        module, name = value.split(":")
        return getattr(importlib.import_module(module), name)
    return value


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    named = module.named_parameters(remove_duplicate=False)
    return {name: tuple(parameter.shape) for name, parameter in named}


def _weighed(path: Path, setting: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {row.name: row.shape for row in weighbridge.weigh(path, fields=setting).rows}


@pytest.fixture
def written(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Written:
    kind, number = request.param
    monkeypatch.syspath_prepend(tmp_path)
    return Written(understood.lines(kind)[number], f"line_{kind}_{number}", tmp_path)


def _name(line: tuple[str, int]) -> str:
    kind, number = line
    return f"{kind}: {understood.lines(kind)[number]['says']}"


@pytest.mark.sampled(
    "src/weighbridge/derive", "src/weighbridge/blueprint", "src/weighbridge/algebra"
)
@pytest.mark.parametrize("written", _LINES, ids=_name, indirect=True)
def test_each_line_of_the_page_holds(written: Written) -> None:
    line = written.line
    assert line["example"] in line["code"]
    path = written.blueprint()
    if path is None:
        assert "refused" in line, "code that is understood has a blueprint"
        assert not line["held"]
        return
    for setting in ({}, *line["held"]):
        assert _weighed(path, setting) == _shapes(written.built(setting)), setting
    for setting in line.get("refused", ()):
        with pytest.raises(WeighbridgeError):
            _weighed(path, setting)


_GIVEN = [
    line for line in _LINES if "--set" in understood.lines(line[0])[line[1]].get("instead", "")
]


@pytest.mark.parametrize("written", _GIVEN, ids=_name, indirect=True)
def test_what_the_page_says_one_can_do_works(written: Written) -> None:
    (option,) = re.findall(r"--set '?([^`']+)", written.line["instead"])
    name, _, text = option.partition("=")
    value = text
    if text[0] in "[0123456789":
        value = json.loads(text)
    path = written.blueprint(**{name: value})
    assert path is not None
    setting = {} if isinstance(value, str) and ":" in value else {name: value}
    assert _weighed(path, setting) == _shapes(written.built({name: value}))
