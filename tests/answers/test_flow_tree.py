"""The steps of a model in order, compared with PyTorch's hooks and with the tree of tensors."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.algebra.expr import names_in, parse
from weighbridge.answers.flow_tree import RESIDUAL, FlowRow, FlowRun, FlowTree
from weighbridge.answers.tree import tree
from weighbridge.blueprint.flows import MODULE, flow_families
from weighbridge.cli import main
from weighbridge.errors import ModelError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SMALL = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "vocab_size": 101}

EXPERTS = {
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 3,
}


def flow_of(model: Any, class_name: str | None = None, **fields: Any) -> FlowTree:
    return tree(model, class_name, fields=fields).flow()


def calls(rows: Iterable[FlowRow | FlowRun], at: dict[str, int]) -> Iterator[str]:
    """Yield the path of every module that is called, in order, with the number of its layer."""
    for row in rows:
        if isinstance(row, FlowRun):
            for turn in row.turns or (0,):
                yield from calls(row.rows, {**at, row.letter: turn})
            continue
        if row.step.kind == MODULE:
            yield numbered(row.path, at)
        yield from calls(row.rows, at)


def numbered(path: str, at: dict[str, int]) -> str:
    for letter, turn in at.items():
        path = path.replace(f"{{{letter}}}", str(turn))
    return path


def every_row(rows: Iterable[FlowRow | FlowRun]) -> Iterator[FlowRow]:
    for row in rows:
        if isinstance(row, FlowRow):
            yield row
        yield from every_row(row.rows)


# An oracle of its own: hooks on the modules that transformers builds


@pytest.mark.parametrize(
    ("family", "class_name", "config_name", "fields"),
    [
        ("bert", "BertModel", "BertConfig", SMALL),
        ("llama", "LlamaModel", "LlamaConfig", SMALL),
        (
            "deepseek_v3",
            "DeepseekV3Model",
            "DeepseekV3Config",
            {**SMALL, **EXPERTS, "first_k_dense_replace": 1, "q_lora_rank": None},
        ),
    ],
)
def test_modules_are_called_in_the_order_of_pytorch(
    family: str, class_name: str, config_name: str, fields: dict[str, Any]
) -> None:
    import torch
    import transformers

    config = getattr(transformers, config_name)(**fields, attn_implementation="eager")
    model = getattr(transformers, class_name)(config).eval()
    ran: list[str] = []
    for path, module in model.named_modules():
        if path and not isinstance(module, torch.nn.Dropout):
            module.register_forward_pre_hook(lambda *_, path=path: ran.append(path))
    model(torch.ones(1, 4, dtype=torch.long), use_cache=False)
    assert [*calls(flow_of(family, class_name, **fields).rows, {})] == ran


# The tree of tensors


@pytest.mark.parametrize("family", flow_families())
def test_a_step_is_open_only_if_the_config_lacks_a_field(family: str) -> None:
    flow = tree(family).flow()
    assert flow.rows
    weighing = flow.weighing
    known = flow.flow.names(weighing.model.fields, weighing.model.given)
    for row in every_row(flow.rows):
        if row.when:
            missing = names_in(parse(row.when)) - known.keys()
            assert {name for name in missing if len(name) > 1}


def test_a_field_that_is_given_decides() -> None:
    types = ["sliding_attention", "full_attention", "full_attention"]
    fields = {"num_hidden_layers": 3, "layer_types": types}
    flow = flow_of("gemma3_text", **fields)
    assert not any(row.when for row in every_row(flow.rows))
    runs = [row.turns for row in flow.rows if isinstance(row, FlowRun)]
    assert runs == [(0,), (1, 2)]
    assert "marked `if`" in flow_of("gemma3_text").text()


@pytest.mark.parametrize("family", ["bert", "llama", "mixtral", "deepseek_v3", "gpt2", "t5"])
def test_the_shapes_are_those_of_the_weighing(family: str) -> None:
    flow = flow_of(family, tree(family).weighing.model.blueprint.base_class)
    shapes = Counter(
        (numbered(row_path, at), tensor.name, tensor.shape)
        for row_path, at, row in placed(flow.rows, {})
        for tensor in row.tensors
    )
    rows = flow.weighing.ledger.rows
    known = {(*row.name.rpartition(".")[::2], tuple(row.shape)) for row in rows}
    assert shapes
    assert set(shapes) <= known


def placed(
    rows: Iterable[FlowRow | FlowRun], at: dict[str, int]
) -> Iterator[tuple[str, dict[str, int], FlowRow]]:
    for row in rows:
        if isinstance(row, FlowRun):
            for turn in row.turns or (0,):
                yield from placed(row.rows, {**at, row.letter: turn})
        else:
            yield row.path, at, row
            yield from placed(row.rows, at)


def test_layers_that_do_otherwise_are_runs_of_their_own() -> None:
    runs = [row for row in flow_of("deepseek_v3").rows if isinstance(row, FlowRun)]
    assert [run.turns for run in runs] == [(0, 1, 2), tuple(range(3, 61))]
    assert " for i in 3-60:" in flow_of("deepseek_v3").text()


def test_a_layer_of_llama_has_two_residual_sums() -> None:
    (run,) = [row for row in flow_of("llama").rows if isinstance(row, FlowRun)]
    layer = run.rows[0]
    residuals = [row.step.text for row in layer.rows if row.meets == RESIDUAL]
    assert residuals == ["v2 = hidden_states + v1", "v5 = v2 + v4"]


def test_a_sum_of_embeddings_is_no_residual() -> None:
    text = flow_of("bert").text()
    assert "v3 = v1 + v2  # sum" in text
    assert text.count("# residual sum") == 2


def test_the_steps_of_a_norm_are_printed_once() -> None:
    text = flow_of("llama").text()
    assert text.count("= rsqrt(") == 1
    assert text.count("v4 = self.weight * v3") == 1
    assert text.count("# LlamaRMSNorm weight [4096]") == 3


# Forms and refusals


def test_the_command_writes_all_forms(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["tree", "bert-base-chinese", "--flow"]
    assert main([*command, "--depth", "2", "--lang", "zh"]) == 0
    text = capsys.readouterr().out
    assert "v2 = encoder(v0, v1)  # BertEncoder\n    对 0-11 中的每个 i：" in text
    assert "attention(hidden" in text
    assert "query(" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert main([*command, "--markdown"]) == 0
    assert "```" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    assert '"meets": "residual"' in capsys.readouterr().out


def test_depth_0_has_only_the_steps_of_the_model() -> None:
    described = flow_of("bert").to_dict(depth=0)
    assert all("steps" not in step for step in described["steps"])
    with pytest.raises(UsageError, match="the depth must be 0 or more"):
        flow_of("bert").text(depth=-1)


def test_a_task_class_says_that_its_head_is_not_recorded() -> None:
    text = " ".join(flow_of("bert", "BertForMaskedLM").text().split())
    assert "BertModel, the base class of BertForMaskedLM, is recorded" in text


def test_a_family_without_a_flow_is_refused_with_those_that_have_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tree", "rwkv", "--flow"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("weighbridge: there is no flow for the family rwkv.")
    assert ", bert, " in line


def test_a_config_that_was_not_recorded_is_refused() -> None:
    with pytest.raises(ModelError, match="is not recorded for this value"):
        flow_of("bert", is_decoder=True, add_cross_attention=True)
