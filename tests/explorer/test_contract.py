"""The contract: what a page computes with gives what weighbridge says."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import explored
import pytest

import weighbridge as wb
from weighbridge.algebra.expr import evaluate
from weighbridge.blueprint.operations import load_operations
from weighbridge.errors import WeighbridgeError
from weighbridge.explorer.contract import CHECKS, contract
from weighbridge.explorer.running import RUNS, run_of_page
from weighbridge.explorer.settings import Bench, explicit_config, following_fields
from weighbridge.explorer.trees import TreeTable
from weighbridge.models.find import find

if TYPE_CHECKING:
    from typing import Any

WEB = Path(__file__).parents[2] / "web"
FAMILIES = ("bert", "llama", "mixtral", "deepseek_v3", "qwen3_next", "t5", "vit", "llava", "blip-2")
FLOWS = (
    *FAMILIES[:-1],
    "albert",
    "bloom",
    "deberta-v2",
    "esm",
    "lfm2",
    "modernbert",
    "resnet",
    "sew",
    "swin",
    "whisper",
)
RECORDED = ("bert", "llama", "deepseek_v3", "gpt_oss", "t5", "mamba", "llava", "qwen3_vl")
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (WEB / "node_modules/esbuild").is_dir(),
    reason="the page's script needs node, and `npm ci` in web/",
)


REAL = Path(__file__).parents[1] / "data" / "real"


def test_each_real_config_can_be_given_explicitly() -> None:
    counted = 0
    for path in REAL.glob("*.json"):
        try:
            model = find(str(path))
        except WeighbridgeError:  # it has no blueprint
            continue
        explicit = find(explicit_config(model))
        assert explicit.fields == model.fields, path.name
        counted += 1
    assert counted > 50


def run_node(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["node", str(WEB / "tests" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@needs_node
def test_the_page_gives_the_totals_of_python_at_random_settings(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    explored.main(["settings", *FAMILIES, "--count", "8", "-o", str(cases)])
    done = run_node("equal.mjs", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[0])
    assert found["families"] == len(FAMILIES)
    assert found["same"] > 8 * len(FAMILIES)


OF_LIBRARIES: tuple[dict[str, Any], ...] = (
    {"architecture": "convnext_atto", "pretrained_cfg": {}},
    {
        "architecture": "vit_tiny_patch16_224",
        "model_args": {"depth": 3},
        "pretrained_cfg": {"num_classes": 7},
    },
    {"architecture": "mixer_b16_224", "pretrained_cfg": {}},
    {"_class_name": "FluxTransformer2DModel", "num_layers": 3},
    {"_class_name": "AutoencoderKL"},
)


@needs_node
def test_the_page_gives_the_totals_of_models_of_libraries(tmp_path: Path) -> None:
    cases = [case for config in OF_LIBRARIES for case in explored.settings_of(config, 8, "page")]
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join(map(json.dumps, cases)))
    done = run_node("equal.mjs", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[0])
    assert found["families"] == len(OF_LIBRARIES)
    assert found["same"] > 6 * len(OF_LIBRARIES)


@pytest.mark.parametrize("config", OF_LIBRARIES, ids=str)
def test_the_config_that_a_page_saves_is_one_of_its_library(config: dict[str, Any]) -> None:
    weighing = wb.weigh(config)
    saved = contract(weighing)["config"]
    assert "model_type" not in saved
    again = find(saved)
    assert again.fields == weighing.model.fields


@needs_node
def test_the_page_gives_the_figures_of_runs(tmp_path: Path) -> None:
    runs = tmp_path / "runs.jsonl"
    explored.main(["runs", *RECORDED, "-o", str(runs)])
    done = run_node("runs.mjs", str(runs))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[0])
    assert found["classes"] >= len(RECORDED)
    assert found["runs"] == found["classes"] * RUNS
    assert found["unrecorded"] == 0


@needs_node
@pytest.mark.parametrize("figure", ["forward", "none loss", "full backward", "cache", "serving"])
def test_a_run_that_is_computed_otherwise_is_noticed(tmp_path: Path, figure: str) -> None:
    (made,) = explored.contracts_of_runs(["gpt_oss"])
    made["run"]["checks"][1][2][figure] += "0"
    runs = tmp_path / "runs.jsonl"
    runs.write_text(json.dumps(made))
    done = run_node("runs.mjs", str(runs))
    assert done.returncode == 1
    assert json.loads(done.stdout.splitlines()[0])["differ"] == 1


def test_a_class_without_operations_says_why() -> None:
    made = contract(wb.weigh("llama", "LlamaModel"))
    assert "run" not in made
    assert "LlamaForCausalLM" in made["unrecorded"]["en"]
    assert "LlamaForCausalLM" in made["unrecorded"]["zh"]


@pytest.mark.parametrize(
    ("model", "tokens", "side"),
    [("llava", 576, None), ("qwen2_vl", 16 * 16, 448), ("qwen3_vl", 14 * 14, 448)],
)
def test_a_page_knows_the_tokens_of_an_image(model: str, tokens: int, side: int | None) -> None:
    weighing = wb.weigh(model, load_operations(model).base_class)
    numbered: dict[int, Any] = {}

    class Table(TreeTable):
        def number(self, tree: Any) -> int:
            number = super().number(tree)
            numbered[number] = tree
            return number

    run = run_of_page(weighing, Bench(weighing), Table())["run"]
    assert evaluate(numbered[run["image"]], weighing.ledger.fields) == tokens
    assert run.get("image_side") == side


def test_a_run_is_of_the_config_that_was_given() -> None:
    config = {"model_type": "llama", "num_key_value_heads": 8, "attention_dropout": 0.5}
    given = contract(wb.weigh(config, "LlamaForCausalLM"))["run"]
    usual = contract(wb.weigh("llama", "LlamaForCausalLM"))["run"]
    assert given["constants"]["attention_dropout"] == ["f", 0.5]
    assert given["checks"][0][2]["none loss"] != usual["checks"][0][2]["none loss"]


@needs_node
def test_a_page_that_counts_otherwise_is_noticed(tmp_path: Path) -> None:
    (case, *_) = explored.settings_of("bert", 2, "7")
    case["contract"]["checks"][1][1] += "0"
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps(case))
    done = run_node("equal.mjs", str(cases))
    assert done.returncode == 1
    assert json.loads(done.stdout.splitlines()[0])["unchecked"] == 1


@needs_node
def test_the_page_selects_the_steps_that_tree_prints(tmp_path: Path) -> None:
    cases = tmp_path / "flows.jsonl"
    explored.main(["flows", *FLOWS, "--count", "3", "-o", str(cases)])
    done = run_node("flows.mjs", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[0])
    assert found["families"] == len(FLOWS)
    assert found["same"] > 2 * len(FLOWS)


FAULTS = [
    ("GAP = 14", "GAP = -14"),  # boxes beside one another overlap
    ("y += tall;", "y += tall / 2;"),  # rows overlap
    ("- (plan.left + plan.right) * LANE", ""),  # no room for lanes
    ("one.low < high && low < one.high)) lane++", "false)) lane++"),
    ('`${times} · ${explorer.word("flow_repeated")}`', "times"),  # repeated, and not said
    (" || which", ""),  # a frame without a title
    ("isTurns(only) && !only.letter", "false"),  # a frame in a frame for what is repeated
    ('row.kind === "f" && /mask/', 'row.kind === "m" && /norm/'),  # norms have no box
]


@pytest.mark.sampled(
    "web", "src/weighbridge/explorer", "src/weighbridge/data/flows", "src/weighbridge/ledger"
)
@needs_node
def test_no_box_overlaps_and_every_module_has_one(tmp_path: Path) -> None:
    cases = tmp_path / "flows.jsonl"
    explored.main(["flows", *FLOWS, "--count", "1", "-o", str(cases)])
    done = run_node("drawn.mjs", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[0])["pictures"] == 3 * len(FLOWS)
    noticed = [run_node("drawn.mjs", str(cases), *fault).returncode for fault in FAULTS]
    assert noticed == [1] * len(FAULTS)


@needs_node
def test_a_step_that_differs_is_noticed(tmp_path: Path) -> None:
    (case,) = explored.flows_of("mixtral", 1, "7")
    case["cases"][0][1][0]["tensors"][0]["shape"][0] += 1
    cases = tmp_path / "flows.jsonl"
    cases.write_text(json.dumps(case))
    done = run_node("flows.mjs", str(cases))
    assert done.returncode == 1
    assert json.loads(done.stdout.splitlines()[0])["differ"] == 1


def test_a_family_without_a_flow_has_none() -> None:
    assert contract(wb.weigh("blip-2"))["flow"] is None


@pytest.mark.sampled("web", "src/weighbridge/explorer")
@needs_node
def test_the_page_evaluates_random_expressions_as_python_does_and_notices_faults(
    tmp_path: Path,
) -> None:
    cases = tmp_path / "trees.json"
    explored.main(["trees", "--count", "20000", "-o", str(cases)])
    done = run_node("trees.mjs", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_node("mutants.mjs", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_node
def test_the_built_script_is_what_its_sources_give() -> None:
    done = subprocess.run(
        ["node", str(WEB / "build.mjs"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("family", [*FAMILIES, "nemotron_h_omni", "gpt2"])
def test_an_explicit_config_describes_the_same_model(family: str) -> None:
    model = find(family)
    explicit = find(explicit_config(model))
    assert explicit.fields == model.fields
    assert following_fields(explicit) == following_fields(model)


def test_a_spelled_list_follows_where_it_is_what_it_would_follow_to() -> None:
    kinds = list(wb.weigh("qwen3_next").model.fields["layer_types"])
    assert "layer_types" in following_fields(
        find({"model_type": "qwen3_next", "layer_types": kinds})
    )
    other = {"model_type": "qwen3_next", "layer_types": kinds[::-1]}
    assert "layer_types" not in following_fields(find(other))


def test_a_tree_of_true_is_not_one_of_1() -> None:
    table = TreeTable()
    assert table.number(("value", 1)) != table.number(("value", True))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_contract_holds_what_weigh_says(family: str) -> None:
    weighing = wb.weigh(family)
    made: dict[str, Any] = contract(weighing)
    assert made["held"]["parameters"] == str(weighing.parameters)
    assert len(made["checks"]) == CHECKS
    assert json.loads(json.dumps(made)) == made
    assert {tensor["name"] for tensor in made["tensors"]} == {
        template.name for template in weighing.ledger.blueprint.templates(weighing.class_name)
    }


def test_a_module_without_a_blueprint_is_refused_with_a_way_out() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(WeighbridgeError, match="no sizes to turn"):
        wb.explore(torch.nn.Linear(2, 3))


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("model", ["bert-base-chinese", "deepseek_v3", "llava"])
def test_the_paragraphs_are_those_of_the_derivation(model: str, lang: str) -> None:
    made = contract(wb.weigh(model))
    article = "".join(wb.explain(model).text(lang).split())
    spoken = made["why"][lang]
    assert set(spoken) <= set(made["formulas"])
    assert {"attention", "ffn"} <= set(spoken)
    for paragraphs in spoken.values():
        for piece in (piece for paragraph in paragraphs for piece in paragraph):
            if isinstance(piece, str):
                assert "".join(piece.split()) in article
            elif piece[0] == "math":
                assert made["trees"][piece[1]] is not None


def test_what_a_training_step_needs_of_sizes_is_in_the_contract() -> None:
    made = contract(wb.weigh("llama", "LlamaForCausalLM"))["run"]
    assert [text for text, _ in made["trained"]] == ["head_dim % 8 == 0", "head_dim <= 256"]
    assert not made["training"]["scores"]
    made = contract(wb.weigh("mixtral", "MixtralForCausalLM"))["run"]
    assert [text for text, _ in made["rules"]] == ["hidden_size % num_attention_heads == 0"]


def test_a_step_that_no_command_gives_is_not_in_the_contract() -> None:
    made = contract(wb.weigh("llama", "LlamaForCausalLM", fields={"head_dim": 20}))["run"]
    ((_, _, figures), *_) = made["checks"]
    assert set(figures) == {"forward", "cache", "serving"}


def test_commands_set_what_the_page_was_made_with() -> None:
    fields = {"num_hidden_layers": 4, "hidden_act": "silu", "head_dim": None}
    made = contract(wb.weigh("llama", "LlamaForCausalLM", fields=fields))
    assert made["set"] == {"num_hidden_layers": "4", "hidden_act": "'\"silu\"'", "head_dim": "null"}
    assert contract(wb.weigh("llama"))["set"] == {}
