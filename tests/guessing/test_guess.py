"""Guesses for checkpoints without a config, compared with the configs they were made from.

`--seed` draws other families and other configs.
"""

from __future__ import annotations

import io
import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest
import wheels
from checkpoints import GGUF, LLAMA, as_gguf, write

from weighbridge import guess, verify
from weighbridge.blueprint import schema as blueprint
from weighbridge.cli import main
from weighbridge.errors import CheckpointError, ModelError, WeighbridgeError
from weighbridge.guessing import candidates
from weighbridge.guessing import guess as guessing
from weighbridge.ledger import ledger
from weighbridge.ledger.rows import Row
from weighbridge.matching.comparison import compare_tensors
from weighbridge.matching.pairing import translated
from weighbridge.models import find as models
from weighbridge.readers import StoredCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from weighbridge.blueprint.schema import Blueprint

HELD = 130  # families
MOST_TENSORS = 2_000  # of a random checkpoint


# Checkpoints of random configs


def nested(changes: dict[str, Any], of: Blueprint) -> dict[str, Any]:
    """Return changes by dotted path as a nested config."""
    config: dict[str, Any] = {"model_type": of.family}
    for path, value in changes.items():
        *above, name = path.split(".")
        here = config
        for depth in range(len(above)):
            kind = of.configs.get(".".join(above[: depth + 1]))
            here = here.setdefault(above[depth], {"model_type": kind} if kind else {})
        here[name] = value
    return config


def other(of: Blueprint, name: str, dice: random.Random) -> Any:
    """Return another value of a field, of the same type."""
    value = of.defaults[name]
    if name in of.nullable and dice.random() < 0.5:
        return None
    if isinstance(value, bool):
        return not value
    if type(value) is int:
        return max(1, dice.choice((value * 2, value // 2, value * 3, value + 1)))
    if name in of.values:
        texts = of.values[name]
        return (
            [dice.choice(texts) for _ in value] if isinstance(value, tuple) else dice.choice(texts)
        )
    if isinstance(value, tuple) and value and all(type(item) is int for item in value):
        times = dice.choice((1, 2, 3))
        return [item * times for item in value]
    return value


def drawn(of: Blueprint, dice: random.Random, chance: float) -> dict[str, Any]:
    """Return a random config with few layers and some values other than the defaults."""
    changes = {}
    for name in sorted(of.defaults):
        if name in of.repeats and type(of.defaults[name]) is int:
            changes[name] = dice.randint(min(of.defaults[name], 2), min(of.defaults[name], 5))
        elif dice.random() < chance:
            changes[name] = other(of, name, dice)
    return nested(changes, of)


def checkpoint(of: Blueprint, dice: random.Random) -> tuple[dict[str, Any], str, list[Row]]:
    """Return a random config that the blueprint accepts, a class, and the tensors in its files."""
    for chance in (0.4, 0.2, 0.1, 0.05) * 8:
        config, class_name = drawn(of, dice, chance), dice.choice(of.class_names)
        try:
            stored = ledger.bind(of, class_name, models.bound(config, of, "drawn").fields).stored
        except WeighbridgeError:
            continue
        if 0 < stored.tensors <= MOST_TENSORS:
            return config, class_name, [row for row in stored.rows if not row.tied_to]
    pytest.skip("no small config was drawn")


def found(rows: Iterable[Row], **metadata: str) -> StoredCheckpoint:
    return StoredCheckpoint(
        "a.safetensors",
        "safetensors",
        tuple(rows),
        metadata,
        ("a.safetensors",),
        0,
        {},
        {},
        (),
        None,
    )


def rows_of(config: dict[str, Any], class_name: str) -> list[Row]:
    model = models.find(config)
    rows = ledger.bind(model.blueprint, class_name, model.fields).stored_rows
    return [row for row in rows if not row.tied_to]


def best(rows: Iterable[Row], **metadata: str) -> guessing.Candidate:
    return guessing.guess_model(found(rows, **metadata)).candidates[0]


def failures(candidate: guessing.Candidate, of: StoredCheckpoint, **fields: Any) -> int:
    """Compare a checkpoint with a candidate's config again, with other values of some fields."""
    model = models.find({**candidate.config, **fields})
    return compare_tensors(
        ledger.bind(model.blueprint, candidate.class_name, model.fields), of
    ).failures


# If a rounded expression has four fields or more, the search may end before it reaches values that
# fit.
HARD = {"gemma3n_audio"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "drawn_family" in metafunc.fixturenames:
        dice = random.Random(metafunc.config.option.seed)  # noqa: S311
        families = dice.sample(sorted({*blueprint.families()} - HARD), HELD)
        metafunc.parametrize("drawn_family", sorted(families))


@pytest.mark.sampled("src/weighbridge/guessing", "src/weighbridge/matching")
@pytest.mark.slow
def test_a_checkpoint_of_a_random_config_is_found_again(drawn_family: str, seed: str) -> None:
    dice = random.Random(f"{drawn_family} {seed}")  # noqa: S311
    config, class_name, rows = checkpoint(blueprint.load(drawn_family), dice)
    guessed = guessing.guess_model(found(rows))
    assert guessed.exact, (config, class_name)
    assert all(failures(candidate, guessed.found) == 0 for candidate in guessed.exact)


# Real files


def test_minilm_is_a_bert_with_an_unknown_number_of_heads(minilm: Path) -> None:
    config = json.loads((minilm / "config.json").read_text())
    guessed = guess(minilm / "model.safetensors")
    assert (guessed.status, guessed.best.family, guessed.best.class_name) == (
        0,
        "bert",
        "BertModel",
    )
    sizes = (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "intermediate_size",
        "max_position_embeddings",
    )
    assert {name: guessed.best.sure[name] for name in sizes} == {
        name: config[name] for name in sizes
    }
    heads = guessed.best.free["num_attention_heads"]
    assert "num_attention_heads" not in guessed.best.sure
    assert config["num_attention_heads"] in (heads.value, *heads.others)
    assert verify(guessed.config, minilm / "model.safetensors").status == 0


def test_a_file_with_old_names_is_guessed_too(bert_tiny: Path) -> None:
    guessed = guess(bert_tiny / "model.safetensors")
    assert (guessed.status, guessed.best.family, guessed.best.class_name) == (
        0,
        "bert",
        "BertForMaskedLM",
    )
    assert verify(guessed.config, bert_tiny / "model.safetensors").status == 0


def test_the_config_goes_straight_into_verify(
    bert_tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(bert_tiny / "model.safetensors")
    assert main(["guess", path, "--config"]) == 0
    piped = io.TextIOWrapper(io.BytesIO(capsys.readouterr().out.encode()))
    monkeypatch.setattr("sys.stdin", piped)
    assert main(["verify", "-", path]) == 0


# Sure and free fields


BERT = {
    "model_type": "bert",
    "hidden_size": 96,
    "num_attention_heads": 4,
    "vocab_size": 50,
    "num_hidden_layers": 3,
}


def test_every_other_number_of_heads_fits_as_well() -> None:
    rows = rows_of(BERT, "BertModel")
    candidate = best(rows)
    heads = candidate.free["num_attention_heads"]
    assert sorted((heads.value, *heads.others)) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96]
    assert all(
        failures(candidate, found(rows), num_attention_heads=number) == 0 for number in heads.others
    )


def test_a_sure_field_fits_no_other_value() -> None:
    rows = rows_of(BERT, "BertModel")
    candidate = best(rows)
    assert candidate.sure["hidden_size"] == 96
    for name, value in candidate.sure.items():
        other_value = not value if isinstance(value, bool) else value * 2
        try:
            assert failures(candidate, found(rows), **{name: other_value}) > 0, name
        except WeighbridgeError:
            continue


def test_a_narrower_model_has_fewer_heads_rather_than_narrower_ones() -> None:
    heads = {
        width: best(rows_of({**BERT, "hidden_size": width}, "BertModel"))
        for width in (128, 384, 768, 1024)
    }
    values = {
        width: candidate.free["num_attention_heads"].value for width, candidate in heads.items()
    }
    assert values == {128: 2, 384: 6, 768: 12, 1024: 16}


def test_a_field_that_follows_from_a_free_one_is_free_too() -> None:
    config = {"model_type": "llama", "num_hidden_layers": 2, "num_key_value_heads": 8}
    free = best(rows_of(config, "LlamaForCausalLM")).free
    assert free["num_attention_heads"].why == "usual"
    assert (free["num_key_value_heads"].value, free["num_key_value_heads"].after) == (
        8,
        "num_attention_heads",
    )


def test_metadata_that_states_the_heads_makes_them_sure() -> None:
    stated = {
        "general.architecture": "llama",
        "llama.attention.head_count": "16",
        "llama.attention.head_count_kv": "4",
    }
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
    }
    candidate = best(rows_of(config, "LlamaForCausalLM"), **stated)
    assert (candidate.family, candidate.is_exact) == ("llama", True)
    assert (candidate.sure["num_attention_heads"], candidate.sure["head_dim"]) == (16, 256)
    assert not candidate.free


@pytest.mark.parametrize("tied", [True, False])
def test_a_head_that_is_stored_is_not_tied(tied: bool) -> None:
    config = {**BERT, "tie_word_embeddings": tied}
    candidate = best(rows_of(config, "BertForMaskedLM"))
    assert (candidate.is_exact, candidate.sure["tie_word_embeddings"]) == (True, tied)


def test_layers_of_several_kinds_are_inferred_layer_by_layer() -> None:
    kinds = [
        "full_attention",
        "linear_attention",
        "linear_attention",
        "full_attention",
        "linear_attention",
    ]
    config = {
        "model_type": "qwen3_next",
        "num_hidden_layers": 5,
        "num_experts": 3,
        "layer_types": kinds,
    }
    candidate = best(rows_of(config, "Qwen3NextForCausalLM"))
    assert (candidate.family, candidate.is_exact) == ("qwen3_next", True)
    assert list(candidate.sure["layer_types"]) == kinds


def test_families_with_the_same_tensors_are_all_named() -> None:
    guessed = guessing.guess_model(
        found(rows_of({"model_type": "llama", "num_hidden_layers": 2}, "LlamaForCausalLM"))
    )
    assert {"llama", "mistral", "cwm"} <= {candidate.family for candidate in guessed.exact}


SMALL = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
LLAMA_3 = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
RELEASES = {
    "bert": [{"class": "BertForMaskedLM", "config": SMALL | {"vocab_size": 21128}}] * 9,
    "gpt2": [{"class": "GPT2LMHeadModel", "config": {"n_embd": 1600}}] * 4,
    "llama": [{"class": "LlamaForCausalLM", "config": LLAMA_3}] * 9,
    "mistral": [{"class": "MistralForCausalLM", "config": {"vocab_size": 32768}}] * 3,
    "qwen2": [{"class": "Qwen2ForCausalLM", "config": {"vocab_size": 152064}}] * 5,
    "roberta": [{"class": "RobertaForMaskedLM", "config": {"vocab_size": 50265}}] * 3,
}


@pytest.fixture
def a_few_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a few releases in place of the catalogue."""
    for module in (guessing, candidates):
        monkeypatch.setattr(module, "releases_by_family", lambda: RELEASES)


@pytest.mark.usefixtures("a_few_releases")
@pytest.mark.parametrize(
    ("family", "class_name", "config"),
    [
        ("llama", "LlamaForCausalLM", SMALL),
        ("llama", "LlamaForCausalLM", {**SMALL, "num_key_value_heads": 2}),
        ("llama", "LlamaForCausalLM", {**SMALL, "tie_word_embeddings": True}),
        ("llama", "LlamaForCausalLM", {**LLAMA_3, "num_hidden_layers": 4}),
        ("qwen2", "Qwen2ForCausalLM", SMALL),
        ("bert", "BertModel", SMALL),
        ("bert", "BertForMaskedLM", SMALL),
        ("roberta", "RobertaForMaskedLM", SMALL),
        ("roberta", "RobertaModel", {**SMALL, "vocab_size": 50265}),
        ("gpt2", "GPT2LMHeadModel", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99}),
        ("mistral", "MistralForCausalLM", {"num_hidden_layers": 2, "vocab_size": 32768}),
    ],
)
def test_of_families_that_fit_equally_well_the_most_used_comes_first(
    family: str, class_name: str, config: dict[str, Any]
) -> None:
    candidate = best(rows_of({"model_type": family, **config}, class_name))
    assert (candidate.family, candidate.class_name) == (family, class_name)


@pytest.mark.usefixtures("a_few_releases")
def test_the_sizes_of_a_release_outweigh_the_use_of_a_family() -> None:
    usual = {"num_key_value_heads": 8, "intermediate_size": 14336}
    assert best(rows_of({"model_type": "mistral", **usual}, "MistralModel")).family == "mistral"
    assert best(rows_of({"model_type": "llama", **LLAMA_3}, "LlamaModel")).family == "llama"


@pytest.mark.parametrize(
    ("family", "class_name", "config"),
    [
        ("bert", "BertModel", SMALL),
        ("gpt2", "GPT2LMHeadModel", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99}),
        ("llama", "LlamaForCausalLM", SMALL),
        ("llama", "LlamaForCausalLM", {**SMALL, "tie_word_embeddings": True}),
        ("mistral", "MistralForCausalLM", {}),
        ("qwen2", "Qwen2ForCausalLM", SMALL),
        ("roberta", "RobertaForMaskedLM", SMALL),
    ],
)
def test_a_small_model_is_of_the_family_that_the_catalogue_has_most_of(
    family: str, class_name: str, config: dict[str, Any]
) -> None:
    candidate = best(rows_of({"model_type": family, **config}, class_name))
    assert (candidate.family, candidate.class_name) == (family, class_name)


def test_a_missing_tensor_is_reported_and_nothing_is_exact() -> None:
    rows = [
        row for row in rows_of(BERT, "BertModel") if row.name != "encoder.layer.1.output.dense.bias"
    ]
    candidate = best(rows)
    assert candidate.family == "bert"
    lost = [(difference.kind, difference.name) for difference in candidate.comparison.differences]
    assert lost == [("missing", "encoder.layer.1.output.dense.bias")]


def test_a_tensor_of_another_shape_is_outvoted() -> None:
    rows = rows_of(BERT, "BertModel")
    wide = next(
        at for at, row in enumerate(rows) if row.name == "encoder.layer.1.output.dense.bias"
    )
    rows[wide] = rows[wide]._replace(shape=(97,))
    candidate = best(rows)
    assert [difference.kind for difference in candidate.comparison.differences] == ["shape"]
    assert candidate.sure["hidden_size"] == 96


# Tensors of no family


def save(path: Path, tensors: dict[str, list[int]]) -> Path:
    """Write a safetensors file of zeros."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in tensors.items():
        size = 4
        for dim in shape:
            size *= dim
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(end))
    return path


def test_an_empty_checkpoint_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tmp_path / "a.safetensors", {})
    with pytest.raises(CheckpointError, match="holds no tensor"):
        guess(path)
    assert main(["guess", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


HOSTILE = {
    "one unknown": {"x": [1]},
    "a scalar": {"weight": []},
    "no name": {"": [1]},
    "a dot": {".": [1], "..weight": [2]},
    "stars and braces": {"encoder.layer.*.weight": [1], "encoder.layer.{i}.bias": [1]},
    "a huge index": {"encoder.layer.999999999.output.dense.bias": [1]},
    "a longer index": {f"encoder.layer.{'9' * 5000}.output.dense.bias": [1]},
    "an index far off": {
        "encoder.layer.9000.output.dense.bias": [1],
        "encoder.layer.0.output.dense.bias": [1],
    },
    "a size of 0": {"bert.embeddings.word_embeddings.weight": [0, 0]},
    "a scalar of a known name": {"bert.embeddings.word_embeddings.weight": []},
    "too many dims": {"bert.embeddings.word_embeddings.weight": [1] * 60},
    "leading zeros": {
        "encoder.layer.00.output.dense.bias": [1],
        "encoder.layer.0.output.dense.bias": [1],
    },
}


@pytest.mark.sampled("src/weighbridge/guessing", "src/weighbridge/readers")
@pytest.mark.slow
@pytest.mark.parametrize("which", HOSTILE)
def test_unknown_names_are_reported_in_words(
    which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tmp_path / "a.safetensors", HOSTILE[which])
    assert guess(path).status == 1
    assert main(["guess", str(path)]) == 1
    assert main(["guess", str(path), "--json"]) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_many_tensors_of_unknown_names_are_of_no_family() -> None:
    row = rows_of(BERT, "BertModel")[0]
    guessed = guessing.guess_model(
        found(row._replace(name=f"stuff{'x' * (at % 7)}.{at}.kernel_{at}") for at in range(100_000))
    )
    assert guessed.candidates == ()


def test_without_a_near_family_there_is_no_config(tmp_path: Path) -> None:
    guessed = guess(save(tmp_path / "a.safetensors", {"qqq": [1]}))
    assert (guessed.status, guessed.best) == (1, None)
    with pytest.raises(ModelError, match="no family has tensors of these names"):
        _ = guessed.config


# Output


def test_the_text_lists_sure_and_free_fields(bert_tiny: Path) -> None:
    text = guess(bert_tiny / "model.safetensors").text()
    sure, _, free = text.partition("not sure")
    assert "hidden_size              128" in sure
    assert "num_attention_heads" in free
    assert "num_attention_heads" not in sure
    assert "BertLMHeadModel (bert)" in free


def test_both_languages_have_the_same_figures(bert_tiny: Path) -> None:
    guessed = guess(bert_tiny / "model.safetensors")

    def figures(lang: str) -> list[str]:
        return sorted(re.findall(r"\d+", guessed.text(lang)))

    assert figures("en")
    assert figures("en") == figures("zh")


def test_json_has_everything(bert_tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guess", str(bert_tiny), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["family"], report["class"], report["status"]) == ("bert", "BertForMaskedLM", 0)
    assert report["config"]["architectures"] == ["BertForMaskedLM"]
    assert report["exact"][0] == {"family": "bert", "class": "BertForMaskedLM"}
    assert report["free"]["num_attention_heads"]["others"]


# The names of other formats


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wheel", "family"),
    [(wheels.SMOLLM2, "llama"), (wheels.MINILM_ONNX, None), (wheels.MINILM_INT8, None)],
)
def test_a_file_of_another_format_is_guessed_and_verified(
    wheel: wheels.Wheel, family: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = wheels.model(wheel) / wheel.members[0]
    guessed = guess(path)
    assert guessed.status == 0
    best = guessed.best
    assert best is not None
    assert family in (None, best.family), "the one that the metadata state comes first"
    assert main(["guess", str(path), "--config"]) == 0
    config = tmp_path / "config.json"
    config.write_text(capsys.readouterr().out)
    assert main(["verify", str(config), str(path)]) == 0


def test_the_heads_of_a_gguf_file_are_sure_and_its_sizes_true() -> None:
    best = guess(wheels.model(wheels.SMOLLM2) / wheels.SMOLLM2.members[0]).best
    assert best is not None
    sure = {
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    }
    assert sure.items() <= best.sure.items()


@pytest.mark.parametrize("family", ["llama", "mixtral", "qwen2", "qwen3", "phi3", "gemma2"])
def test_a_family_is_guessed_under_gguf_s_names(family: str, tmp_path: Path) -> None:
    architecture, config = GGUF[family]
    path = as_gguf(config, tmp_path / "a.gguf", architecture)
    guessed = guess(path)
    assert guessed.status == 0
    assert guessed.best
    assert wb_parameters(guessed.best) == wb_parameters_of(config)
    assert verify(guessed.config, path).status == 0


def wb_parameters(candidate: guessing.Candidate) -> int:
    return candidate.comparison.parameters


def wb_parameters_of(config: dict[str, Any]) -> int:
    found = models.find(config)
    return ledger.bind(found.blueprint, found.named_class, found.fields).parameters


@pytest.mark.parametrize("experts", [0, 2**40])
def test_an_impossible_number_of_experts_is_not_enumerated(experts: int) -> None:
    row = Row("blk.0.ffn_up_exps.weight", (experts, 0, 4), "F32", "", (), 0, 0)
    held = StoredCheckpoint(
        "a.gguf", "GGUF", (row,), {"general.architecture": "llama"}, (), 0, {}, {}, (), None
    )
    assert [each.name for each in translated(held).rows] == [row.name]


def test_a_quantised_checkpoint_is_guessed_by_its_unpacked_weights(tmp_path: Path) -> None:
    config = {**LLAMA, "tie_word_embeddings": False}
    stored: dict[str, tuple[str, tuple[int, ...]]] = {}
    for row in ledger.bind(
        blueprint.load("llama"), "LlamaForCausalLM", models.find(config).fields
    ).stored.rows:
        base = row.name.removesuffix("weight")
        if row.name.endswith("_proj.weight"):
            outputs, inputs = row.shape
            stored[f"{base}qweight"] = ("I32", (inputs // 8, outputs))
            stored[f"{base}qzeros"] = ("I32", (inputs // 32, outputs // 8))
            stored[f"{base}scales"] = ("F16", (inputs // 32, outputs))
        else:
            stored[row.name] = ("F16", row.shape)
    guessed = guess(write(tmp_path / "a.safetensors", stored))
    assert guessed.status == 0
    assert guessed.best
    assert guessed.best.sure["intermediate_size"] == 96
