"""A model in memory is weighed: a config of transformers, its model, any module of torch."""

from __future__ import annotations

import subprocess
import sys
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertModel, LlamaConfig, LlamaForCausalLM

import weighbridge as wb
from weighbridge.errors import ModelError, UsageError, WeighbridgeError

BERT: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 48,
}
LLAMA = {**BERT, "num_key_value_heads": 1}


class Net(nn.Module):
    """A module of no family: a tie, a buffer, a scalar, a list."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.norm = nn.BatchNorm1d(width)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.head = nn.Linear(width, 10, bias=False)
        self.head.weight = self.embedding.weight


def total(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_a_config_object_is_a_config() -> None:
    weighing = wb.weigh(BertConfig(**BERT))
    assert weighing.parameters == wb.weigh({"model_type": "bert", **BERT}).parameters
    assert (weighing.class_name, weighing.notes) == ("BertModel", [])
    named = LlamaConfig(**LLAMA, architectures=["LlamaForCausalLM"])
    assert wb.weigh(named).class_name == "LlamaForCausalLM"


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (BertModel, BertConfig(**BERT)),
        (BertForMaskedLM, BertConfig(**BERT)),
        (LlamaForCausalLM, LlamaConfig(**LLAMA)),
    ],
)
def test_a_model_of_transformers_is_weighed_as_its_own_class(kind: Any, config: Any) -> None:
    with torch.device("meta"):
        model = kind(config)
    weighing = wb.weigh(model)
    assert (weighing.class_name, weighing.parameters) == (kind.__name__, total(model))
    assert weighing.evidence["config"]["origin"] == "memory"
    assert str(weighing.formula()) != str(weighing.parameters)


def test_a_changed_model_is_weighed_with_its_changes() -> None:
    model = BertModel(BertConfig(**BERT))
    model.adapter = nn.Linear(24, 4)
    weighing = wb.weigh(model)
    assert weighing.parameters == total(model)
    assert weighing.evidence["config"]["origin"] == "module"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_any_module_is_weighed_by_its_own_tensors(device: str) -> None:
    with torch.device(device):
        module = Net()
    weighing = wb.weigh(module)
    assert (weighing.class_name, weighing.parameters) == ("Net", total(module))
    rows = {row.name: row for row in weighing.rows}
    assert rows.keys() == {name for name, _ in module.named_parameters(remove_duplicate=False)}
    assert rows["head.weight"].tied_to == "embedding.weight"
    assert rows["blocks.2.weight"].shape == (8, 8)
    assert "Counted on the module in memory" in " ".join(weighing.text().split())
    assert "held against" not in weighing.text()


def test_the_bytes_of_a_module_are_in_its_own_dtype() -> None:
    assert wb.weigh(Net().to(torch.bfloat16)).bytes == 2 * total(Net())
    assert wb.weigh(Net()).bytes == 4 * total(Net())
    assert wb.weigh(Net(), dtype="int8").bytes == total(Net())


def test_a_module_without_parameters_weighs_nothing() -> None:
    assert wb.weigh(nn.ReLU()).parameters == 0


def test_every_question_takes_a_model_in_memory(tmp_path: Path) -> None:
    config, model, module = BertConfig(**BERT), BertModel(BertConfig(**BERT)), Net()
    for described in (config, model):
        assert "BertModel" in wb.explain(described).text()
        assert wb.tree(described).to_dict()
    assert "embedding" in wb.tree(module).text()
    assert wb.verify(config, model).status == 0
    assert wb.verify(model, model).status == 0
    parameters = total(model)
    assert wb.reconcile(config, parameters).status == 0
    assert wb.reconcile(model, parameters).status == 0
    assert wb.weigh(tmp_path.joinpath("config.json").parent / write_config(tmp_path)).parameters


def write_config(folder: Path) -> str:
    BertConfig(**BERT).save_pretrained(folder)
    return "config.json"


def test_a_module_without_a_blueprint_is_not_explained() -> None:
    with pytest.raises(ModelError, match="no blueprint counts this module") as caught:
        wb.explain(Net())
    assert "weighbridge derive" in str(caught.value)


def test_a_module_has_no_fields_to_set() -> None:
    with pytest.raises(WeighbridgeError, match="has no field width"):
        wb.weigh(Net(), fields={"width": 3})


def test_a_name_with_a_brace_is_refused() -> None:
    with pytest.raises(UsageError, match="has a brace"):
        wb.weigh(nn.ModuleDict({"{a}": nn.Linear(2, 2)}))


@pytest.mark.parametrize("model", [3, None, object(), [1], BertConfig, Net, Path])
def test_anything_else_is_refused_in_words(model: Any) -> None:
    with pytest.raises(UsageError, match=r"weigh\(\) takes a name, a path, a config or a torch"):
        wb.weigh(model)


def test_a_class_is_not_a_module() -> None:
    for question in (wb.inspect, lambda kind: wb.verify(kind, kind)):
        with pytest.raises(WeighbridgeError):
            question(Net)


def test_a_mapping_with_more_than_a_mapping_stays_a_mapping() -> None:
    class Fields(UserDict[str, Any]):
        def to_dict(self) -> dict[str, Any]:
            return dict(self)

    assert wb.weigh(Fields(model_type="bert", **BERT)).class_name == "BertModel"


def test_torch_is_not_imported_for_it() -> None:
    script = (
        "import sys, weighbridge as wb\n"
        "class Config:\n"
        "    model_type = 'bert'\n"
        "    def to_dict(self): return {'model_type': 'bert', 'vocab_size': 99}\n"
        "print(wb.weigh(Config()).parameters, 'torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    parameters = wb.weigh("bert", fields={"vocab_size": 99}).parameters
    assert done.stdout.split() == [str(parameters), "False"]
