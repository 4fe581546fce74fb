"""Adapters, as PEFT has written them, and their base models."""

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import Tensors, write

import weighbridge as wb
from weighbridge.answers.adapter import Fitting
from weighbridge.errors import CheckpointError

ADAPTERS = Path(__file__).parents[1] / "data" / "adapters"
FILES = {path.stem: path for path in sorted(ADAPTERS.glob("*.json"))}
LORA = {name for name in FILES if name.startswith(("lora", "dora", "loha"))}


def saved(name: str, folder: Path, changes: Tensors | None = None) -> dict[str, Any]:
    """Write an adapter again, with holes in place of numbers, and the config of its base."""
    stored: dict[str, Any] = json.loads(FILES[name].read_text())
    tensors = {key: (dtype, tuple(shape)) for key, (dtype, shape) in stored["tensors"].items()}
    (folder / "adapter").mkdir()
    write(folder / "adapter" / "adapter_model.safetensors", {**tensors, **(changes or {})})
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(stored["adapter_config"]))
    (folder / "config.json").write_text(json.dumps(stored["config"]))
    return stored


def fitting(base: Path, adapter: Path) -> Fitting:
    answer = wb.verify(base, adapter)
    assert isinstance(answer, Fitting)
    return answer


@pytest.mark.parametrize("name", FILES)
def test_an_adapter_trains_what_peft_counts(name: str, tmp_path: Path) -> None:
    stored = saved(name, tmp_path)
    inspection = wb.inspect(tmp_path / "adapter")
    assert inspection.adapter is not None
    assert inspection.adapter.trainable == stored["trainable"]
    kind = stored["adapter_config"]["peft_type"]
    assert inspection.adapter.kind == ("DORA" if name == "dora" else kind)
    assert "not a whole model" in " ".join(inspection.text().split())


@pytest.mark.parametrize("name", FILES)
def test_an_adapter_fits_its_base(name: str, tmp_path: Path) -> None:
    saved(name, tmp_path)
    answer = fitting(tmp_path / "config.json", tmp_path / "adapter")
    assert answer.status == 0, answer.text()
    kinds = {misfit.kind for misfit in answer.differences}
    assert kinds == ({"unchecked"} if name == "prompt" else set())


@pytest.mark.parametrize("name", sorted(LORA - {"lora-experts"}))
def test_an_adapter_does_not_fit_a_base_of_other_sizes(name: str, tmp_path: Path) -> None:
    stored = saved(name, tmp_path)
    other = dict(stored["config"])
    for field in ("hidden_size", "n_embd", "intermediate_size", "vocab_size"):
        if field in other:
            other[field] *= 2
    (tmp_path / "config.json").write_text(json.dumps(other))
    answer = fitting(tmp_path / "config.json", tmp_path / "adapter")
    assert answer.status == 1
    assert {misfit.kind for misfit in answer.differences} == {"shape"}
    assert "does not fit its base" in " ".join(answer.text().split())


def test_what_inspect_says_about_an_adapter(tmp_path: Path) -> None:
    saved("lora-embedding", tmp_path)
    adapter = wb.inspect(tmp_path / "adapter").adapter
    assert adapter is not None
    assert adapter.ranks == (4, 8)
    assert adapter.targets == ("embed_tokens", "q_proj")
    assert adapter.saved == ("lm_head",)


def test_an_adapter_is_held_against_a_checkpoint(tmp_path: Path) -> None:
    saved("lora", tmp_path)
    base = {
        "model.layers.0.self_attn.q_proj.weight": ("F32", (64, 64)),
        "model.layers.0.self_attn.v_proj.weight": ("F32", (32, 64)),
    }
    path = write(tmp_path / "base.safetensors", base)
    assert fitting(path, tmp_path / "adapter").status == 0
    base["model.layers.0.self_attn.v_proj.weight"] = ("F32", (64, 64))
    write(path, base)
    [misfit] = fitting(path, tmp_path / "adapter").differences
    assert (misfit.kind, misfit.expected_shape, misfit.found_shape) == ("shape", (64, 4), (32, 4))
    del base["model.layers.0.self_attn.v_proj.weight"]
    write(path, base)
    kinds = [misfit.kind for misfit in fitting(path, tmp_path / "adapter").differences]
    assert kinds == ["no_base", "no_base"]


def test_an_adapter_fits_a_base_that_is_packed(tmp_path: Path) -> None:
    saved("lora", tmp_path)
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, outputs in (("q_proj", 64), ("v_proj", 32)):
        base = f"model.layers.0.self_attn.{name}.weight"
        tensors[base] = ("U8", (outputs * 32, 1))
        tensors[f"{base}.absmax"] = ("F32", (outputs,))
        tensors[f"{base}.quant_map"] = ("F32", (16,))
    path = write(tmp_path / "base.safetensors", tensors)
    assert fitting(path, tmp_path / "adapter").status == 0
    tensors["model.layers.0.self_attn.v_proj.weight"] = ("U8", (64 * 32, 1))
    write(path, tensors)
    [misfit] = fitting(path, tmp_path / "adapter").differences
    assert (misfit.kind, misfit.of) == ("shape", "model.layers.0.self_attn.v_proj.weight")


V_PROJ = "base_model.model.model.layers.0.self_attn.v_proj"


def test_an_adapter_of_a_kind_that_is_not_known_is_said_to_be_unchecked(tmp_path: Path) -> None:
    saved("prompt", tmp_path)
    answer = fitting(tmp_path / "config.json", tmp_path / "adapter")
    assert "is not known: none of its tensors could be checked" in " ".join(answer.text().split())


def test_the_report_of_an_adapter_has_every_form(tmp_path: Path) -> None:
    saved("lora", tmp_path, {f"{V_PROJ}.lora_B.weight": ("F32", (33, 4))})
    answer = fitting(tmp_path / "config.json", tmp_path / "adapter")
    assert "[32, 4]" in answer.text(evidence=True)
    assert "适配器与基座不符" in answer.text("zh")
    [row] = answer.records()
    assert (row["difference"], row["expected_shape"], row["matters"]) == ("shape", [32, 4], True)
    assert answer.csv().splitlines()[1].startswith("shape,base_model.model.")
    stated = answer.to_dict()
    assert (stated["status"], stated["adapter"]["ranks"]) == (1, [4])
    assert [misfit["kind"] for misfit in stated["differences"]] == ["shape"]


def test_both_halves_of_a_pair_have_one_rank(tmp_path: Path) -> None:
    saved("lora", tmp_path, {f"{V_PROJ}.lora_B.weight": ("F32", (32, 5))})
    [misfit] = fitting(tmp_path / "config.json", tmp_path / "adapter").differences
    assert (misfit.kind, misfit.expected_shape, misfit.found_shape) == ("shape", (32, 4), (32, 5))


def test_half_of_a_pair_is_not_enough(tmp_path: Path) -> None:
    changes = {f"{V_PROJ.replace('v_proj', 'k_proj')}.lora_B.weight": ("F32", (32, 4))}
    saved("lora", tmp_path, changes)
    [misfit] = fitting(tmp_path / "config.json", tmp_path / "adapter").differences
    assert misfit.kind == "half"


def test_a_base_is_refused_as_it_is_for_an_adapter_without_weights(tmp_path: Path) -> None:
    saved("lora", tmp_path)
    with pytest.raises(CheckpointError, match="is a PEFT adapter"):
        wb.guess(tmp_path / "adapter")


def test_a_config_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    saved("lora", tmp_path)
    (tmp_path / "adapter" / "adapter_config.json").write_text("{")
    with pytest.raises(CheckpointError, match="json: the text must be valid JSON"):
        wb.inspect(tmp_path / "adapter")


@pytest.mark.parametrize(
    "tensors",
    [
        {"pooler.dense.bias": ("F32", (2,))},
        {f"base_model.model.up.{layer}.base_layer.weight": ("F32", (2, 2)) for layer in range(8)},
        {
            **{f"layers.{layer}.weight": ("F32", (2, 2)) for layer in range(8)},
            "layers.0.lora_A.weight": ("F32", (2, 2)),
        },
    ],
)
def test_a_whole_model_is_no_adapter(tensors: Tensors, tmp_path: Path) -> None:
    assert wb.inspect(write(tmp_path / "model.safetensors", tensors)).adapter is None


def test_a_large_adapter_is_held_against_its_base_in_time(tmp_path: Path) -> None:
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for layer in range(3_000):
        for half in "AB":
            tensors[f"base_model.model.up.{layer}.lora_{half}.weight"] = ("F32", (2, 2))
    adapter = write(tmp_path / "adapter_model.safetensors", tensors)
    base = write(tmp_path / "base.safetensors", {"up.0.weight": ("F32", (2, 2))})
    assert len(fitting(base, adapter).differences) == 2 * 2_999
