"""The tool that derives a model repository and holds it against settings of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import remote_code

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

CODE = """
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


class SmallConfig(PretrainedConfig):
    model_type = "small-remote"

    def __init__(self, width=8, layers=2, bias=True, **kwargs):
        self.width, self.layers, self.bias = width, layers, bias
        super().__init__(**kwargs)


class SmallModel(PreTrainedModel):
    config_class = SmallConfig

    def __init__(self, config):
        super().__init__(config)
        self.blocks = nn.ModuleList(
            nn.Linear(config.width, 2 * config.width, bias=config.bias)
            for _ in range(config.layers)
        )
        self.post_init()

    def _init_weights(self, module):
        pass
"""
CONFIG = {
    "model_type": "small-remote",
    "architectures": ["SmallModel"],
    "auto_map": {"AutoConfig": "small.SmallConfig", "AutoModel": "small.SmallModel"},
    "width": 24,
    "layers": 3,
    "bias": False,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    repository = tmp_path / "small"
    repository.mkdir()
    (repository / "small.py").write_text(CODE)
    (repository / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.setattr("sys.path", [*remote_code.sys.path])
    for name in ("repository", "repository.small"):
        monkeypatch.delitem(remote_code.sys.modules, name, raising=False)
    return repository


def test_a_repository_is_exact(folder: Path) -> None:
    outcome = remote_code.outcome_of(folder)
    assert (outcome.name, outcome.kind, outcome.settings) == ("small", "exact", 20)
    assert outcome.seconds > 0


def test_a_difference_is_wrong(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = remote_code.built

    def one_layer_more(package: str, config: dict[str, Any]) -> Any:
        return build(package, {**config, "layers": config["layers"] + (config["width"] > 24)})

    monkeypatch.setattr(remote_code, "built", one_layer_more)
    outcome = remote_code.outcome_of(folder)
    assert outcome.kind == "wrong"
    assert outcome.reason.startswith("blocks.")


def test_a_folder_whose_code_fails_is_refused(folder: Path) -> None:
    (folder / "small.py").write_text("import no_such_package\n" + CODE)
    outcome = remote_code.outcome_of(folder)
    assert outcome.kind == "refused"
    assert "no_such_package" in outcome.reason
