"""`weighbridge cost`: the numbers of a run from recorded operations, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chinese import english_in

import weighbridge as wb
from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.answers.cost import GROUPINGS, cost
from weighbridge.answers.cost_formula import RUN_LETTERS
from weighbridge.answers.recorded import recorded
from weighbridge.blueprint import operations, schema
from weighbridge.blueprint.operations import Operation, Operations, available, check_operations
from weighbridge.cli import main
from weighbridge.costs import costs
from weighbridge.costs.attribution import Attribution
from weighbridge.costs.profiles import PROFILES
from weighbridge.errors import ModelError, UsageError
from weighbridge.render.messages import error_message
from weighbridge.render.table import COLUMNS, width

LLAMA = "meta-llama/Llama-3.1-8B"
TINY = {
    "hidden_size": 24,
    "head_dim": 8,
    "intermediate_size": 40,
    "num_attention_heads": 6,
    "num_hidden_layers": 2,
    "num_key_value_heads": 3,
    "vocab_size": 60,
}
SAVED = {"cuda-eager": 40847843340, "cuda-math": 33868521484, "cuda-flash": 14281122572}


@pytest.mark.parametrize("profile", SAVED)
def test_llama_in_training(profile: str) -> None:
    found = wb.cost(LLAMA, batch=1, sequence=2048, train=True, profile=profile)
    assert found.forward_matmul_flops == 32938104193024
    assert found.backward_matmul_flops == 2 * 32938104193024
    assert found.saved_for_backward_bytes == SAVED[profile]
    assert found.checkpointed_bytes == 1654693900
    assert found.recomputed_flops == 23089744183296
    assert found.weight_bytes == wb.weigh(LLAMA).bytes
    assert found.cache_bytes is None
    assert found.step_matmul_flops is None
    assert not found.notes


def test_a_step_after_a_context() -> None:
    found = wb.cost(LLAMA, past=4095, decode=True)
    assert found.cache_bytes == 536870912
    heads, head_dim, layers = 32, 128, 32
    of_attention = 2 * 2 * heads * head_dim * 4096 * layers
    assert found.figures["step_attention_flops"] == of_attention
    embeddings = 128256 * 4096
    norms = 4096 * (2 * layers + 1)
    multiplied = found.found.weighing.parameters - embeddings - norms
    assert found.step_matmul_flops == of_attention + 2 * multiplied
    assert found.forward_matmul_flops is None
    assert found.moved_bytes == found.figures["step_moved_bytes"]
    assert found.moved_bytes
    assert found.arithmetic_intensity == pytest.approx(found.step_matmul_flops / found.moved_bytes)


def test_a_sequence_and_a_step_are_both_counted() -> None:
    both = wb.cost(LLAMA, sequence=2048, past=4095, decode=True)
    assert both.forward_matmul_flops == 32938104193024
    assert both.step_matmul_flops == wb.cost(LLAMA, past=4095, decode=True).step_matmul_flops
    assert both.cache_bytes == 536870912


def test_a_forward_pass_fills_the_cache() -> None:
    assert wb.cost(LLAMA, sequence=4096).cache_bytes == 536870912


def test_bytes_moved_are_both_factors_and_the_result() -> None:
    found = cost("llama", fields=TINY, batch=2, sequence=5, dtype="bf16", profile="cuda-eager")
    tokens, hidden, inner, heads, head, key_heads = 10, 24, 40, 6, 8, 3

    def product(rows: int, between: int, columns: int) -> int:
        return rows * between + between * columns + rows * columns

    layer = product(tokens, hidden, heads * head) + product(tokens, heads * head, hidden)
    layer += 2 * product(tokens, hidden, key_heads * head)
    layer += 2 * heads * (product(5, head, 5) + product(5, 5, head))
    layer += 2 * product(tokens, hidden, inner) + product(tokens, inner, hidden)
    assert found.moved_bytes == 2 * (2 * layer + product(tokens, hidden, 60))


def test_grouped_products_move_every_expert_that_is_used() -> None:
    mixtral = {"num_local_experts": 5, "hidden_size": 24, "intermediate_size": 40}
    ledger = wb.weigh("mixtral", "MixtralForCausalLM", fields=mixtral).ledger
    modules = Attribution(ledger)
    (path,) = {
        entry.template.name.rpartition(".")[0] for entry in ledger.entries if len(entry.shape) == 3
    }
    assert modules.has_stacks
    layers = ((0,), (1,))
    up = Operation(path, (1, 14, 24, 80), "", layers)
    assert modules.elements_of_others(up) == 4 * 24 * 80 * 2
    few = Operation(path, (1, 3, 24, 80), "", layers)
    assert modules.elements_of_others(few) == 2 * 24 * 80 * 2
    gradient = Operation(path, (1, 80, 14, 24), "", layers)
    assert modules.elements_of_others(gradient) == 4 * 24 * 80 * 2
    assert modules.elements_of_others(up._replace(shape=(5, 3, 24, 80))) == 0
    assert modules.elements_of_others(up._replace(path="lm_head")) == 0
    assert not Attribution(wb.weigh("llama").ledger).has_stacks


@pytest.mark.parametrize("by", GROUPINGS)
def test_groups_add_up_to_the_totals(by: str) -> None:
    found = cost("llama", fields=TINY, batch=2, sequence=5, train=True, dtype="bf16")
    groups = found.groups(by)
    if by == "operation":
        of_kinds = [group for group in groups if group.name.startswith("forward ")]
        assert sum(group.figures["flops"] for group in of_kinds) == found.forward_matmul_flops
        assert sum(group.figures["moved_bytes"] for group in of_kinds) == found.moved_bytes
        return
    assert set(groups[0].figures) == {name for group in groups for name in group.figures}
    for name in groups[0].figures:
        assert sum(group.figures[name] for group in groups) == found.figures[name]


def test_components_are_those_of_the_tensors_below() -> None:
    found = cost("llama", fields=TINY, batch=2, sequence=5, train=True, dtype="bf16")
    by_name = {group.name: group.figures for group in found.groups("component")}
    attention = by_name["attention"]["forward_matmul_flops"]
    weights = wb.weigh("llama", "LlamaForCausalLM", fields=TINY).by("component")
    of_heads = found.figures["forward_attention_flops"]
    assert of_heads == 2 * (2 * 2 * 6) * (5 * 8 * 5) * 2  # products, in each head; FLOPs, layers
    assert attention == 2 * 10 * weights["attention"] + of_heads
    assert by_name["ffn"]["forward_matmul_flops"] == 2 * 10 * weights["ffn"]
    assert by_name["layer_inputs"]["checkpointed_bytes"] == 2 * 2 * 5 * 24 * 2
    assert "other" not in by_name


def test_layers_are_named_as_weigh_names_them() -> None:
    names = {group.name for group in cost("llama", fields=TINY, train=True).groups("layer")}
    weighed = set(wb.weigh("llama", "LlamaForCausalLM", fields=TINY).by("layer"))
    assert names == weighed | {"outputs"}


def test_an_encoder_has_no_cache() -> None:
    found = cost("bert-base-chinese", batch=4, train=True, profile="cpu-eager")
    assert found.saved_for_backward_bytes == 457_823_232
    assert found.forward_matmul_flops
    assert found.backward_matmul_flops == 2 * found.forward_matmul_flops
    assert cost("bert").cache_bytes is None


@pytest.mark.parametrize("model", ["bert-base-chinese", "roberta-base"])
def test_encoders_have_checkpointing_and_the_kernels_of_cuda(model: str) -> None:
    found = [
        cost(model, train=True, batch=4, profile=profile, dtype="bf16")
        for profile in ("cuda-eager", "cuda-math", "cuda-flash")
    ]
    eager, math, flash = (of_profile.saved_for_backward_bytes or 0 for of_profile in found)
    assert min(eager, math) > flash > 0
    for of_profile in found:
        assert of_profile.notes == []
        assert (of_profile.recomputed_flops or 0) < (of_profile.forward_matmul_flops or 0)
        assert 0 < (of_profile.checkpointed_bytes or 0) < flash


def test_flash_attention_needs_a_short_dtype() -> None:
    found = cost("llama", dtype="f32", class_name="LlamaForCausalLM")
    assert found.run.profile == "cuda-math"
    assert found.notes == ["the kernels of cuda-flash take no F32; those of cuda-math are taken"]
    half = cost(LLAMA, train=True, dtype="f16")
    assert half.figures == cost(LLAMA, train=True).figures
    assert half.run.dtype == "F16"


def test_a_family_without_a_class_in_its_config_has_the_recorded_one() -> None:
    found = cost("llama", dtype="bf16")
    assert found.found.class_name == "LlamaForCausalLM"
    assert found.notes == ["the class is LlamaForCausalLM, whose operations were recorded"]


def test_a_config_that_names_the_recorded_class_has_it() -> None:
    albert = {"model_type": "albert", "architectures": ["AlbertForMaskedLM"]}
    found = cost(albert)
    assert found.found.class_name == "AlbertForMaskedLM"
    assert "the class is AlbertForMaskedLM, whose operations were recorded" in found.notes
    with pytest.raises(ModelError, match="no operations for the class AlbertModel"):
        cost({**albert, "architectures": ["AlbertForMultipleChoice"]})


def test_a_size_of_a_module_that_the_class_lacks_is_free() -> None:
    wide = {"model_type": "vit", "hidden_size": 1024, "num_attention_heads": 16}
    of_another_pooler = {**wide, "pooler_output_size": 768}
    names = {"class_name": "ViTForImageClassification", "profile": "cuda-eager"}
    assert cost(of_another_pooler, **names).figures == cost(wide, **names).figures


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_each_letter_of_a_run_has_a_meaning(lang: str) -> None:
    words = data.read_toml(f"words/cost.{lang}.toml")
    assert all(words[f"letter_{field}"] for field in RUN_LETTERS)
    run: dict[str, Any] = {"costs": True, "class_name": "T5ForConditionalGeneration", "lang": lang}
    (row,) = [line for line in str(wb.explain("t5", **run)).splitlines() if " target " in line]
    assert words["letter_target"] in row


def test_a_last_layer_that_the_class_makes_another_is_refused() -> None:
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    gemma: dict[str, Any] = {
        "model_type": "gemma4_text",
        "num_hidden_layers": 3,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 4,
        "final_logit_softcapping": 30.0,
        "hidden_size_per_layer_input": 0,
    }
    with pytest.raises(ModelError) as caught:
        cost({**gemma, "layer_types": types})
    assert "recorded only with layer_types[2] = 'full_attention'" in str(caught.value)
    assert "(layer_types[2] = 'sliding_attention')" in str(caught.value)
    assert cost({**gemma, "layer_types": [*types[:2], "full_attention"]}).forward_matmul_flops > 0


def raw_without(profiles: list[str]) -> Operations:
    raw = data.read_toml("operations/llama.toml")
    return Operations({**raw, "proof": {**raw["proof"], "profiles": profiles}})


def test_a_profile_that_was_not_recorded_has_the_nearest_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operations, "load_operations", lambda _: raw_without(["cuda-eager"]))
    found = cost(LLAMA)
    assert found.run.profile == "cuda-eager"
    assert found.notes == [
        "llama has no operations recorded with cuda-flash; those of cuda-eager are taken"
    ]
    monkeypatch.setattr(operations, "load_operations", lambda _: raw_without(["cuda-flash"]))
    with pytest.raises(ModelError, match="llama are not recorded for these kernels"):
        cost(LLAMA, profile="cpu")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"batch": 0}, "--batch must be a positive integer (batch = 0)."),
        ({"batch": True}, "--batch must be a positive integer (batch = true)."),
        ({"sequence": -3}, "--seq must be a positive integer (seq = -3)."),
        ({"past": 0, "decode": True}, "--past must be a positive integer (past = 0)."),
        ({"decode": True}, "--decode needs --past. Add --past with"),
        ({"past": 9}, "--past needs --decode. Add --decode, or drop --past."),
        ({"profile": "tpu"}, "there is no such profile (profile = 'tpu'). Use one of cpu, cpu-e"),
        (
            {"profile": "cuda-flash", "dtype": "f32"},
            "the kernels of cuda-flash take no F32 (profile = 'cuda-flash', dtype = 'F32').",
        ),
        ({"dtype": "fp8"}, "operations are not recorded in this dtype (dtype = 'F8_E4M3')."),
        ({"dtype": "float5"}, "no such dtype (dtype = 'float5')."),
    ],
)
def test_an_impossible_run_is_refused(question: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        cost(LLAMA, **question)
    assert message in str(error.value)


def test_a_sequence_beyond_learned_positions_is_refused() -> None:
    with pytest.raises(UsageError, match="longer than the positions of the model"):
        cost("bert-base-chinese", sequence=513)
    assert cost("bert-base-chinese", sequence=512).forward_matmul_flops == 96_637_943_808


GPT2: dict[str, Any] = {
    "format": 2,
    "family": "gpt2",
    "source": "a test",
    "kernels": "none",
    "class": "GPT2LMHeadModel",
    "proof": {"by": "a test", "against": "nothing", "runs": 0, "profiles": ["cuda-eager"]},
    "fields": {"n_embd": 768},
    "held": {},
    "forward": {"lm_head": ["1 batch*sequence n_embd 7"]},
    "backward": {},
    "saved": {},
    "step": {"lm_head": ["1 batch n_embd 7"]},
    "stepped": {"cache.keys": ["compute batch*(past+1)*n_embd"]},
}


def test_a_step_beyond_learned_positions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_operations(GPT2)
    monkeypatch.setattr(operations, "available", lambda: ["gpt2"])
    monkeypatch.setattr(operations, "load_operations", lambda _: Operations(GPT2))
    assert cost("gpt2", past=1023, decode=True).step_matmul_flops == 2 * 768 * 7
    with pytest.raises(UsageError, match=r"\(past = 1024, .* = 1024\)\. Give --past 1023 or less"):
        cost("gpt2", past=1024, decode=True)
    assert wb.cache("gpt2", context=1024).cache_bytes == 1024 * 768 * 4
    with pytest.raises(UsageError, match=r"Give --context 1024 or less"):
        wb.cache("gpt2", context=1025)


def test_the_text_tower_has_learned_positions_too() -> None:
    expected = r"seq = 65, text_config\.max_position_embeddings = 64\)\. Give --seq 64 or less"
    with pytest.raises(UsageError, match=expected):
        wb.cost("siglip", sequence=65)
    assert wb.cost("siglip", sequence=64).forward_matmul_flops


def test_several_choices_are_a_note() -> None:
    assert "each sequence is given with 2 choices" in cost("bert", "BertForMultipleChoice").notes
    assert "choices" not in "".join(cost("bert").notes)


def test_what_was_not_recorded_is_refused() -> None:
    families = len([name for name in operations.available() if "." not in name])
    with pytest.raises(ModelError) as error:
        cost("dbrx")
    assert str(error.value) == (
        "there are no operations for the family dbrx. `weighbridge derive dbrx --operations` "
        f"records them; {families} families have operations."
    )
    with pytest.raises(ModelError, match=r"for the class LlamaModel\. Use --class LlamaForC"):
        cost(LLAMA, "LlamaModel")
    with pytest.raises(ModelError, match="bert has no class 'BertForNothing'"):
        cost("bert", "BertForNothing")
    with pytest.raises(ModelError, match=r"llama were recorded only with hidden_act = 'silu' \(h"):
        cost(LLAMA, fields={"hidden_act": "relu"})
    with pytest.raises(ModelError, match="BertModel has no step with a cache"):
        cost("bert", past=9, decode=True)


UNRECORDED = data.read_toml("facts/unrecorded.toml")


@pytest.mark.parametrize("reason", UNRECORDED)
def test_the_reason_is_in_the_message(reason: str) -> None:
    for family in UNRECORDED[reason]:
        assert family not in available()
    with pytest.raises(ModelError) as error:
        recorded(UNRECORDED[reason][0])
    assert error.value.hint == f"{reason}; `weighbridge measure` runs the class itself"
    assert not english_in(error_message(error.value, "zh"))


def test_a_reason_is_stated_once() -> None:
    families = [family for unrecorded in UNRECORDED.values() for family in unrecorded]
    assert len(families) == len(set(families))
    assert set(families) <= set(schema.families())


def test_a_config_that_names_a_class_does_not_get_another() -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}
    with pytest.raises(ModelError, match="there are no operations for the class LlamaModel"):
        recorded(config)


NUMBERS = (
    "forward_matmul_flops",
    "backward_matmul_flops",
    "saved_for_backward_bytes",
    "checkpointed_bytes",
    "recomputed_flops",
    "cache_bytes",
    "weight_bytes",
    "moved_bytes",
)


def test_json_has_plain_integers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", LLAMA, "--seq", "2048", "--train", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [type(report[name]) for name in NUMBERS if name != "cache_bytes"] == [int] * 7
    assert report["cache_bytes"] is None
    assert report["run"] == {
        "batch": 1,
        "sequence": 2048,
        "target": None,
        "past": None,
        "profile": "cuda-flash",
        "dtype": "BF16",
        "training": True,
        "images": None,
        "patches": None,
        "decode": False,
    }
    assert main(["cost", LLAMA, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [name for name in NUMBERS if report[name] is None] == list(NUMBERS[1:5])
    assert report["run"]["sequence"] == 128


def test_csv_has_a_row_for_each_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", LLAMA, "--by", "layer", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["layer"] for row in rows][:2] == ["model.layers.0", "model.layers.1"]
    total = sum(int(row["forward_matmul_flops"]) for row in rows)
    assert total == cost(LLAMA).forward_matmul_flops


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("by", GROUPINGS)
def test_every_line_fits_in_80_columns(lang: str, by: str) -> None:
    large: dict[str, Any] = {"batch": 64, "sequence": 131072, "past": 131072, "decode": True}
    text = cost(LLAMA, **large, train=True).text(lang, by=by, formula=True)
    assert max(map(width, text.splitlines())) <= COLUMNS
    if lang == "zh":
        assert english_in(text) == []


def test_other_formats_have_the_same_numbers() -> None:
    found = cost(LLAMA, sequence=2048)
    for written in (found.text(), found.markdown(), found.html(), found.latex(), found.text("zh")):
        assert "32,938,104,193,024" in written


def test_formulas_have_the_letters_of_the_model_and_of_the_run() -> None:
    formulas = cost(LLAMA, sequence=2048).to_dict(formula=True)["formulas"]
    assert formulas["forward_matmul_flops"]["letters"] == (
        "L·(4b·s·A·D·H + 4b·s·A_kv·D·H + 4b·s²·A·D + 6b·s·H·F) + 2b·s·V·H"
    )
    assert formulas["cache_bytes"] == {
        "letters": "4b·s·L·A_kv·D",
        "fields": "4 * batch * sequence * num_hidden_layers * num_key_value_heads * head_dim",
    }
    step = cost(LLAMA, past=99, decode=True).to_dict(formula=True)["formulas"]
    assert step["cache_bytes"]["letters"] == "L·(4b·p·A_kv·D + 4b·A_kv·D)"
    assert "s = 2,048 tokens in each sequence" in cost(LLAMA, sequence=2048).text(formula=True)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("model", ["llama", "bert", "roberta", "distilbert"])
def test_formulas_in_fields_have_the_values_of_the_figures(model: str, profile: str) -> None:
    run: dict[str, Any] = {"batch": 3, "sequence": 7, "train": True, "dtype": "bf16"}
    if model == "llama":
        run |= {"past": 5, "decode": True}
    found = cost(model, **run, profile=profile)
    formulas = found.to_dict(formula=True)["formulas"]
    assert len(formulas) >= 5
    for name, formula in formulas.items():
        assert evaluate(parse(formula["fields"]), found.names) == found.figures[name]


def test_csv_has_no_formulas() -> None:
    with pytest.raises(UsageError, match="--csv and --formula exclude each other"):
        cost(LLAMA).csv(formula=True)


def test_a_formula_that_differs_from_its_figure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "matmul_flops", lambda _: 1)
    with pytest.raises(wb.WeighbridgeError, match="and the sum of its operations differ"):
        cost(LLAMA).to_dict(formula=True)


def test_both_languages_have_the_same_words() -> None:
    english, chinese = (data.read_toml(f"words/cost.{lang}.toml") for lang in ("en", "zh"))
    assert english.keys() == chinese.keys()


def test_profiles_are_those_that_are_recorded() -> None:
    assert set(data.read_toml("operations/llama.toml")["proof"]["profiles"]) == set(PROFILES)


def test_a_share_of_a_head_is_one_of_those_recorded() -> None:
    saved = {
        dim: wb.cost(
            "minimax_m2", fields={"rotary_dim": dim, "head_dim": 128}, sequence=9, train=True
        ).saved_for_backward_bytes
        for dim in (64, 128)
    }
    cos_and_sin = 2 * 9 * 64 * 4
    assert saved[128] - saved[64] == cos_and_sin
    with pytest.raises(ModelError, match=r"only with partial_rotary_factor = 1\.0 / 0\.5 \(par"):
        wb.cost("minimax_m2", fields={"rotary_dim": 32, "head_dim": 128}, sequence=9)


UNSET = {"deepseek_v2": {"num_experts_per_tok": 6}}
"""Fields without which the reference cannot run a family, and that it leaves null."""
FILED = data.read_toml("facts/running.toml")["released"]
RELEASED = {
    "deberta-v2": FILED["deberta-v2"],
    "gemma4_text": {**FILED["gemma4_text"], "num_global_key_value_heads": 2},
    "qwen3_moe": {"norm_topk_prob": True},
}
"""Fields with which a family was recorded, and that its default config does not have."""

ODD = {"glm4_moe": {"head_dim": 128}}
"""Families whose default config turns an odd part of a head, and what released configs have."""


@pytest.mark.parametrize("family", [name for name in available() if "." not in name])
def test_every_family_has_a_cost_by_default(family: str) -> None:
    needed = UNSET.get(family, {})
    if needed:
        expected = f"of {family} need a value of {', '.join(needed)}. The config must give it"
        with pytest.raises(ModelError, match=expected):
            wb.cost(family, sequence=64)
    if family in RELEASED:
        needed = RELEASED[family]
        with pytest.raises(ModelError, match=f"of {family} were recorded only with"):
            wb.cost(family, sequence=64)
    if family in ODD:
        with pytest.raises(ModelError, match="an even part of a head that rotary embeddings turn"):
            _ = wb.cost(family, sequence=64, train=True).figures
        needed = ODD[family]
    figures = wb.cost(family, fields=needed, sequence=64, train=True).figures
    assert figures["forward_matmul_flops"]
    assert figures["saved_for_backward_bytes"]


@pytest.mark.parametrize(
    ("family", "stated", "expected"),
    [
        ("t5", {"is_gated_act": True}, "is_gated_act = false"),
        ("mamba", {"intermediate_size": 1}, "intermediate_size = 1536"),
        ("cohere", {"head_dim": 96}, "head_dim = 128"),
        ("gpt_neox", {"head_dim": 32}, "head_dim = 96"),
        ("mixtral", {"head_dim": 64}, "head_dim = 128"),
        ("starcoder2", {"head_dim": 64}, "head_dim = 128"),
    ],
)
def test_what_the_config_class_computes_may_be_stated_as_it_is_alone(
    family: str, stated: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ModelError, match=rf"of {family} were recorded only with {expected} \("):
        wb.cost(family, fields=stated)
    name, _, value = expected.partition(" = ")
    same = {name: False if value == "false" else int(value)}
    assert wb.cost(family, fields=same).figures == wb.cost(family).figures


def test_flags_that_no_run_drew_are_refused() -> None:
    for family, fields in {
        "falcon": {"multi_query": False},
        "beit": {"drop_path_rate": 0.0},
        "dinov2": {"drop_path_rate": 0.1},
        "bart": {"decoder_layerdrop": 0.1},
        "mt5": {"dense_act_fn": "gelu"},
    }.items():
        name = next(iter(fields))
        with pytest.raises(ModelError, match=f"of {family} were recorded only with {name}"):
            wb.cost(family, fields=fields)


def test_the_width_of_a_head_of_a_scan_follows_from_their_number() -> None:
    for family, wide in {"falcon_h1": 1024 // 64, "bamba": 2 * 4096 // 64}.items():
        left_out = wb.cost(family, fields={"mamba_n_heads": 64}, sequence=9, train=True)
        stated = wb.cost(
            family, fields={"mamba_n_heads": 64, "mamba_d_head": wide}, sequence=9, train=True
        )
        usual = wb.cost(family, sequence=9, train=True)
        assert left_out.figures == stated.figures != usual.figures


def test_one_query_head_is_refused_where_one_key_head_is() -> None:
    with pytest.raises(ModelError, match=r"several heads \(.*num_attention_heads = 1\)"):
        _ = wb.cost("falcon", fields={"num_attention_heads": 1}, sequence=9, train=True).figures


@pytest.mark.parametrize(
    ("family", "fields", "expected"),
    [
        ("mistral", {"sliding_window": 1}, r"a sliding_window of 2 or more \(sliding_window = 1\)"),
        ("bamba", {"mamba_n_heads": 1, "mamba_d_head": 8192}, "a mamba_n_heads of 2 or more"),
        ("phi3", {"num_attention_heads": 40}, "hidden_size % num_attention_heads == 0"),
        ("mixtral", {"num_attention_heads": 40}, "hidden_size % num_attention_heads == 0"),
        ("llava", {"text_config.hidden_size": 32}, r".* even width \(text_config.head_dim = 1\)"),
        ("llama", {"head_dim": 65}, r"heads of an even width \(head_dim = 65\)"),
        ("llama", {"hidden_size": 96, "num_attention_heads": 32}, r".* width \(head_dim = 3\)"),
        ("deepseek_v3", {"qk_rope_head_dim": 33}, r".* width \(qk_rope_head_dim = 33\)"),
    ],
)
def test_sizes_that_no_run_had_are_refused(
    family: str, fields: dict[str, Any], expected: str
) -> None:
    message = rf"operations of {family} were recorded only with {expected}"
    for ask in (wb.cost, partial(wb.cache, context=64)):
        with pytest.raises(ModelError, match=message):
            _ = ask(family, fields=fields).to_dict()


@pytest.mark.parametrize(
    ("family", "field", "value"),
    [
        ("olmo", "clip_qkv", 8.0),
        ("olmoe", "clip_qkv", 8.0),
        ("olmoe", "sliding_window", 64),
        ("gemma3_text", "final_logit_softcapping", 30.0),
        ("granitemoehybrid", "position_embedding_type", "rope"),
        ("qwen3_moe", "use_sliding_window", True),
        ("smollm3", "use_sliding_window", True),
        ("gemma2", "attn_logit_softcapping", None),
        ("gemma2", "final_logit_softcapping", None),
    ],
)
def test_a_value_in_place_of_null_is_refused(family: str, field: str, value: Any) -> None:
    with pytest.raises(
        ModelError, match=rf"operations of {family} were recorded only with {field}"
    ):
        _ = wb.cost(family, fields={field: value}, sequence=9).figures


@pytest.mark.parametrize("family", ["gemma3_text", "qwen2", "smollm3"])
def test_a_type_of_layer_that_no_run_had_is_refused(family: str) -> None:
    fields = {"layer_types": ["full_attention", "chunked_attention"], "num_hidden_layers": 2}
    message = rf"{family} were recorded only with layer_types = .*full.* \(layer_types = 'chunked_a"
    for ask in (wb.cost, partial(wb.cache, context=64)):
        with pytest.raises(ModelError, match=message):
            _ = ask(family, fields=fields).to_dict()


def test_layers_of_lfm2_are_convolutions_where_the_config_says_so() -> None:
    attends = (2, 5, 8, 10, 12, 14)
    types = ["full_attention" if layer in attends else "conv" for layer in range(16)]
    sizes = {"hidden_size": 2048, "num_hidden_layers": 16, "num_key_value_heads": 8}
    fields = {**sizes, "layer_types": types}
    assert wb.weigh("lfm2", "Lfm2ForCausalLM", fields=fields).parameters == 1170340608  # LFM2-1.2B
    of_attention, of_convolutions = 2 * 6 * 8 * 64 * 4096, 10 * 2048 * 3
    found = wb.cost("lfm2", fields=fields, past=4095, decode=True, dtype="bf16")
    assert found.cache_bytes == 2 * (of_attention + of_convolutions)


@pytest.mark.parametrize(
    ("family", "fields", "shown"),
    [
        ("llama", {"head_dim": 20}, "head_dim = 20"),
        ("gpt_neox", {"num_attention_heads": 2}, "num_attention_heads = 2"),
        ("t5", {"d_kv": 12}, "d_kv = 12"),
        ("vit", {"num_attention_heads": 64}, "head_dim = 12"),
    ],
)
def test_heads_that_flash_attention_pads_or_leaves_have_other_kernels(
    family: str, fields: dict[str, Any], shown: str
) -> None:
    run: dict[str, Any] = {"fields": fields, "train": True, "dtype": "bf16"}
    with pytest.raises(ModelError, match=f"flash attention pads heads .*{shown}"):
        _ = wb.cost(family, **run, profile="cuda-flash").figures
    found = wb.cost(family, **run)
    assert found.notes[-1].endswith("as they are; those of cuda-math are taken")
    assert found.figures == wb.cost(family, **run, profile="cuda-math").figures
    forward = wb.cost(family, fields=fields, dtype="bf16")
    assert forward.run.profile == "cuda-flash"
    assert forward.forward_matmul_flops == found.forward_matmul_flops


def test_flash_attention_with_heads_of_one_width_is_refused_where_it_saves() -> None:
    alike = {"v_head_dim": 192}  # 128 + 64
    for profile, dtype in (("cuda-eager", "bf16"), ("cuda-math", "f32")):
        cost = wb.cost(
            "deepseek_v3", fields=alike, sequence=9, train=True, profile=profile, dtype=dtype
        )
        assert cost.figures["saved_for_backward_bytes"] > 0
    flash = partial(wb.cost, "deepseek_v3", fields=alike, sequence=9, dtype="bf16")
    assert flash().figures["forward_matmul_flops"] > 0
    with pytest.raises(ModelError, match="heads of values that are not as wide as heads of keys"):
        _ = flash(train=True, profile="cuda-flash").figures
    assert flash(train=True).figures == flash(train=True, profile="cuda-math").figures


@pytest.mark.parametrize(
    ("family", "field"),
    [
        ("gpt2", "n_head"),
        ("gpt_neox", "num_attention_heads"),
        ("modernbert", "num_attention_heads"),
        ("t5", "num_heads"),
        ("whisper", "decoder_attention_heads"),
    ],
)
def test_one_head_is_refused_where_runs_with_one_differ(family: str, field: str) -> None:
    cost = partial(wb.cost, family, fields={field: 1}, sequence=9)
    assert cost().figures["forward_matmul_flops"] > 0
    with pytest.raises(ModelError, match=rf"only with several heads \(.*{field} = 1\)"):
        _ = cost(train=True).figures
    bert = wb.cost("bert", fields={"num_attention_heads": 1}, sequence=9, train=True)
    assert bert.figures["saved_for_backward_bytes"] > 0


@pytest.mark.parametrize(
    ("family", "class_name"),
    [("bert", "BertForSequenceClassification"), ("vit", "ViTForImageClassification")],
)
def test_one_label_is_refused_where_its_loss_is_another(family: str, class_name: str) -> None:
    cost = partial(wb.cost, family, fields={"num_labels": 1}, batch=3)
    assert cost(class_name).figures["forward_matmul_flops"] > 0
    with pytest.raises(ModelError, match=f"what {class_name} saves .* only with several labels"):
        _ = cost(class_name, train=True).figures


@pytest.mark.parametrize(("stated", "notes"), [(True, 1), (False, 0)])
def test_checkpointing_that_a_config_turns_on_is_noted(stated: bool, notes: int) -> None:
    cost = wb.cost("llama", fields={"gradient_checkpointing": stated}, sequence=9, train=True)
    assert sum("gradient checkpointing on" in note for note in cost.notes) == notes


def test_labels_that_a_class_does_not_read_may_be_one() -> None:
    cost = wb.cost("bert", "BertForMaskedLM", fields={"num_labels": 1}, sequence=9, train=True)
    assert cost.figures["saved_for_backward_bytes"] > 0


def test_heads_that_no_rotary_embedding_turns_may_be_odd() -> None:
    wide = {"hidden_size": 9 * 32, "num_attention_heads": 32}
    answer = wb.cost(
        "granitemoehybrid", fields=wide, sequence=9, profile="cuda-flash", dtype="bf16"
    )
    assert answer.figures["forward_matmul_flops"] > 0


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("llama", {"sliding_window": 64}),
        ("gpt2", {"attention_chunk_size": 64}),
        ("olmoe", {"layer_types": ["sliding_attention"] * 16}),
        ("qwen3_moe", {"norm_topk_prob": True, "attention_chunk_size": 64}),
        ("llava", {"text_config": {"sliding_window": 64}}),
    ],
)
def test_a_window_that_only_the_cache_knows_is_refused(family: str, fields: dict[str, Any]) -> None:
    config = {"model_type": family, **fields}
    assert wb.weigh(config).text()
    with pytest.raises(ModelError, match="which transformers' cache reads of any config"):
        wb.cost(config)


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("llama", {"sliding_window": None}),
        ("qwen3", {"sliding_window": 64}),  # without use_sliding_window it is not kept
        ("smollm3", {"sliding_window": 64}),
        ("bert", {"sliding_window": 64}),  # it has no cache
    ],
)
def test_a_window_without_effect_changes_nothing(family: str, fields: dict[str, Any]) -> None:
    usual, stated = (wb.cost(family, fields=each, sequence=128) for each in ({}, fields))
    assert stated.figures == usual.figures


def test_an_odd_part_of_a_head_is_refused_only_for_a_backward_pass() -> None:
    # phi turns half of its heads: 13 of 26 numbers.
    fields = {"hidden_size": 26 * 32}
    assert wb.cost("phi", fields=fields, sequence=9).figures["forward_matmul_flops"]
    with pytest.raises(ModelError, match=r"even part of a head .* \(head_dim = 26, "):
        _ = wb.cost("phi", fields=fields, sequence=9, train=True).figures


def test_falcon_with_many_key_heads_keeps_all_of_them() -> None:
    # The class copies each key head for its queries before it stores it: 2 x 64 heads of 64.
    wide = wb.cost("tiiuae/falcon-40b", sequence=192, dtype="bf16")
    heads, width, layers = 128, 64, 60
    assert wide.cache_bytes == 2 * layers * heads * width * 192 * 2


def test_embeddings_as_wide_as_the_model_are_not_projected() -> None:
    apart, equal = (
        wb.cost(
            "electra", "ElectraForMaskedLM", fields={"embedding_size": width, "hidden_size": 256}
        )
        for width in (128, 256)
    )
    projection = "electra.embeddings_project"
    assert projection in {product.path for product in apart.operations["forward"]}
    assert projection not in {product.path for product in equal.operations["forward"]}


def test_a_decoder_has_learned_positions_too() -> None:
    with pytest.raises(UsageError, match="target = 449, max_target_positions = 448"):
        wb.cost("whisper", sequence=10, target=449)
    with pytest.raises(UsageError, match="context = 449, max_target_positions = 448"):
        wb.cache("whisper", context=449)


def test_images_of_a_class_that_reads_none_are_refused() -> None:
    message = r"BertModel reads no images among its tokens \(images = 1\)\. Drop --images"
    with pytest.raises(UsageError, match=message):
        cost("bert-base-chinese", images=1)


ONE_KEY_HEAD = {**TINY, "num_key_value_heads": 1}


@pytest.mark.parametrize(
    "words",
    [
        ["cost", "llama", "--seq", "8", "--train"],
        ["formula", "llama", "--of", "saved"],
        ["train", "llama", "--on", "8xH100", "--batch", "8", "--seq", "64"],
    ],
)
def test_what_one_key_head_saves_is_refused_where_it_is_not_proved(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(operations.load_operations("llama").proof, "single")
    given = [f"{name}={value}" for name, value in ONE_KEY_HEAD.items()]
    assert main([*words, *(word for one in given for word in ("--set", one))]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "was recorded only with several heads (num_key_value_heads = 1)" in err


def test_attention_to_both_sides_is_answered_for_images_and_refused_for_texts() -> None:
    """As Gemma 4 states it, whose text model has the mask of images from another class."""
    path = Path(__file__).parents[1] / "data" / "real" / "google__gemma-4-26B-A4B.json"
    config = json.loads(path.read_text(encoding="utf-8"))["text_config"]
    assert config["use_bidirectional_attention"] == "vision"
    of_images, of_none = (
        wb.cost({**config, "use_bidirectional_attention": value}, sequence=9, train=True).figures
        for value in ("vision", None)
    )
    assert of_images == of_none
    with pytest.raises(ModelError, match="use_bidirectional_attention = 'all'"):
        wb.cost({**config, "use_bidirectional_attention": "all"}, sequence=9)


def test_one_key_head_in_a_sub_config_is_refused_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(operations.load_operations("llava").proof, "single")
    words = ["cost", "llava", "--seq", "8", "--train", "--set", "text_config.num_key_value_heads=1"]
    assert main(words) == 2
    assert "several heads (text_config.num_key_value_heads = 1)" in capsys.readouterr().err


def test_the_rest_of_a_run_with_one_key_head_is_the_same_expression() -> None:
    many, one = (cost("llama", sequence=8, fields=fields) for fields in (TINY, ONE_KEY_HEAD))
    fewer = 2 * TINY["num_hidden_layers"] * 2 * 8 * TINY["hidden_size"] * 2 * TINY["head_dim"]
    assert many.forward_matmul_flops - one.forward_matmul_flops == fewer
    assert cost("llama", sequence=8, train=True, fields={**ONE_KEY_HEAD, "num_attention_heads": 1})


@pytest.mark.parametrize("batch", [1, 2])
def test_one_key_head_is_repeated_as_a_view_for_one_sequence_only(batch: int) -> None:
    run: dict[str, Any] = {"sequence": 8, "batch": batch, "train": True}
    run |= {"profile": "cuda-eager", "dtype": "BF16"}
    many, one = (cost("llama", fields=fields, **run) for fields in (TINY, ONE_KEY_HEAD))
    heads, head = TINY["num_attention_heads"], TINY["head_dim"]
    kept = 2 * TINY["num_hidden_layers"] * 8 * head * 2  # of one head: keys and values in BF16
    saved = [found.figures["saved_for_backward_bytes"] or 0 for found in (many, one)]
    assert saved[0] - saved[1] == (kept * (heads - 1) if batch == 1 else 0)


def test_operations_of_another_library_are_not_to_be_derived() -> None:
    config = {"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {}}
    with pytest.raises(ModelError, match="recorded for families of transformers"):
        wb.cost(config)


@pytest.mark.parametrize("place", ["", "text_config."])
def test_more_tokens_than_a_config_has_positions_are_noted(place: str) -> None:
    config = {"model_type": "qwen3", "max_position_embeddings": 40960}
    if place:
        config = {"model_type": "llava", "text_config": {**config, "model_type": "llama"}}
    notes = {
        tokens: (
            wb.cost(config, sequence=tokens).notes,
            wb.cost(config, decode=True, past=tokens - 1).notes,
            wb.cache(config, context=tokens).notes,
            wb.serve(config, on="H100", context=tokens).notes,
        )
        for tokens in (40960, 40961)
    }
    beyond = "40,961 tokens are more than the model's positions: max_position_embeddings is 40,960"
    assert not any("positions" in note for each in notes[40960] for note in each)
    assert all(each[-1] == beyond for each in notes[40961])


@pytest.mark.parametrize(
    "scaled",
    [
        {"rope_scaling": {"type": "yarn", "factor": 4.0}},
        {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
        {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}},
    ],
)
def test_nothing_is_said_of_positions_that_a_config_scales(scaled: dict[str, Any]) -> None:
    config = {"model_type": "qwen3", "max_position_embeddings": 40960}
    for said, others in ((True, {}), (True, {"rope_scaling": None}), (False, scaled)):
        notes = wb.cache({**config, **others}, context=40961).notes
        assert any("positions" in note for note in notes) is said


def test_the_text_model_inside_is_asked_for_by_its_class() -> None:
    with pytest.raises(ModelError, match="Add --class Gemma3ForCausalLM for those of its text"):
        wb.cost("google/gemma-3-4b-it")
    inside = {"model_type": "qwen3", "num_hidden_layers": 2}
    with pytest.raises(ModelError, match="Add --class Qwen3ForCausalLM for those of its text"):
        wb.cost({"model_type": "llava_next", "text_config": inside})
    of_text = wb.cost("google/gemma-3-4b-it", "Gemma3ForCausalLM", sequence=64)
    assert of_text.to_dict()["forward_matmul_flops"] > 0


def test_a_field_that_a_config_class_reads_and_does_not_name_is_refused() -> None:
    config = {"model_type": "gemma3_text", "sliding_window_pattern": 6}
    assert wb.cost(config).run.sequence
    with pytest.raises(ModelError, match="only with sliding_window_pattern = 6 "):
        wb.cost({**config, "sliding_window_pattern": 3})
