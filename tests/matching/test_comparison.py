"""Checkpoints compared with each other, with live modules, and under other names."""

import json
from pathlib import Path

import pytest
import torch
import wheels
from checkpoints import (
    BERT,
    GGUF,
    LLAMA,
    MIXTRAL,
    Config,
    Stored,
    Tensors,
    as_gguf,
    as_tensorflow,
    write,
)

import weighbridge as wb
from weighbridge.answers.verify import Changes, Verification
from weighbridge.cli import main
from weighbridge.errors import UsageError
from weighbridge.guessing.guess import guess_model
from weighbridge.matching.comparison import choose
from weighbridge.matching.pairing import of_checkpoint, pair, translated
from weighbridge.models.find import find
from weighbridge.readers import read


def stored(config: Config, class_name: str | None = None, dtype: str = "F32") -> Stored:
    """Return the tensors that files of a model hold, without tied ones."""
    named = config.get("architectures")
    weighing = wb.weigh(config, class_name or (named[0] if isinstance(named, list) else None))
    return {row.name: (dtype, row.shape) for row in weighing.stored_rows if not row.tied_to}


def counts(found: Verification | Changes) -> dict[str, int]:
    """Return the number of differences of each kind."""
    return dict(found.to_dict()["counts"])


def failing(found: Verification | Changes) -> list[str]:
    return [difference.name for difference in found.differences if difference.matters]


@pytest.fixture
def against(tmp_path: Path):
    """Return a function that writes two checkpoints and compares the second with the first."""

    def run(before: Tensors, after: Tensors, **options: str):
        return wb.verify(
            write(tmp_path / "before.safetensors", before),
            write(tmp_path / "after.safetensors", after),
            **options,
        )

    return run


def test_a_checkpoint_equals_itself(against) -> None:
    found = against(stored(LLAMA), stored(LLAMA))
    assert (found.status, found.differences) == (0, ())
    assert "The checkpoints match" in found.text()


def test_changes_by_training_and_conversion_are_grouped(against) -> None:
    before, after = stored(LLAMA), stored(LLAMA, dtype="BF16")
    del after["model.layers.1.mlp.up_proj.weight"], after["model.layers.0.mlp.up_proj.weight"]
    after["lm_head.weight"] = ("BF16", (48, 64))
    after["score.weight"] = ("BF16", (2, 64))
    found = against(before, after)
    assert found.status == 1
    assert counts(found) == {"missing": 2, "shape": 1, "extra": 1, "changed_dtype": len(before) - 2}
    text = found.text()
    assert "model.layers.{0-1}.mlp.up_proj.weight" in text
    assert "[40, 64] expected, [48, 64] found" in text
    assert "F32 before, BF16 now" in text
    assert len(text.splitlines()) < 40


def test_a_requested_dtype_matters(against) -> None:
    before = stored(LLAMA)
    assert against(before, before, dtype="bf16").status == 1
    assert against(before, stored(LLAMA, dtype="BF16"), dtype="bf16").status == 0


def test_quantising_changes_no_weight(against, tmp_path: Path) -> None:
    before, after = stored(LLAMA, dtype="BF16"), Stored()
    for name, (dtype, shape) in before.items():
        if not name.endswith("_proj.weight"):
            after[name] = (dtype, shape)
            continue
        base, (outputs, inputs) = name.removesuffix("weight"), shape
        after |= {
            f"{base}qweight": ("I32", (inputs // 8, outputs)),
            f"{base}qzeros": ("I32", (inputs // 32, outputs // 8)),
            f"{base}scales": ("F16", (inputs // 32, outputs)),
            f"{base}g_idx": ("I32", (inputs,)),
        }
    found = against(before, after)
    assert found.status == 0
    assert counts(found) == {"quantised": 14, "aside": 42}
    config = {**LLAMA, "torch_dtype": "bfloat16"}
    of_model = wb.verify(config, tmp_path / "after.safetensors")
    assert of_model.status == 0
    assert counts(of_model) == {"quantised": 14, "aside": 42}
    assert (
        of_model.to_dict()["parameters"]["found"] == wb.weigh(LLAMA, "LlamaForCausalLM").parameters
    )
    wrong = {**after, "model.layers.0.mlp.up_proj.qweight": ("I32", (7, 96))}
    assert against(before, wrong).status == 1


def fused(tensors: Tensors, parts: list[str], whole: str) -> Stored:
    """Fuse adjacent tensors into one, along their first dim."""
    done = Stored()
    for name, (dtype, shape) in tensors.items():
        part = next((part for part in parts if f".{part}." in name), None)
        if part is None:
            done[name] = (dtype, shape)
        else:
            one = name.replace(f".{part}.", f".{whole}.")
            before = done.get(one, (dtype, (0, *shape[1:])))[1]
            done[one] = (dtype, (before[0] + shape[0], *shape[1:]))
    return done


@pytest.mark.parametrize(
    ("parts", "whole", "groups"),
    [
        (["q_proj", "k_proj", "v_proj"], "qkv_proj", 2),
        (["gate_proj", "up_proj"], "gate_up_proj", 2),
    ],
)
def test_fused_tensors_match_separate_ones(
    against, tmp_path: Path, parts, whole: str, groups: int
) -> None:
    apart = stored(LLAMA)
    together = fused(apart, parts, whole)
    for before, after in ((apart, together), (together, apart)):
        found = against(before, after)
        assert found.status == 0
        assert counts(found) == {"regrouped": groups}
        assert found.comparison.parameters == wb.weigh(LLAMA, "LlamaForCausalLM").parameters
    write(tmp_path / "model.safetensors", together)
    assert wb.verify(LLAMA, tmp_path / "model.safetensors").status == 0
    short = {
        name: (dtype, (shape[0] - (whole in name), *shape[1:]))
        for name, (dtype, shape) in together.items()
    }
    assert against(apart, short).status == 1


def test_experts_in_one_tensor_are_all_experts(against, tmp_path: Path) -> None:
    each = stored(MIXTRAL)
    rows = wb.weigh(MIXTRAL, "MixtralForCausalLM").rows
    in_memory: Stored = {row.name: ("F32", row.shape) for row in rows if not row.tied_to}
    renamed = {name for name in in_memory if name.endswith(".gate.weight")}
    in_memory = {name: of for name, of in in_memory.items() if name not in renamed}
    each = {name: of for name, of in each.items() if not name.endswith(".gate.weight")}
    assert len(in_memory) < len(each)
    for before, after in ((each, in_memory), (in_memory, each)):
        found = against(before, after)
        assert found.status == 0
        assert counts(found) == {"regrouped": 4}
    each, stacked = stored(MIXTRAL), Stored()
    for name, (dtype, shape) in each.items():
        if ".experts.0." in name:
            before, _, matrix = name.partition(".experts.0.")
            called = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}[
                matrix.partition(".")[0]
            ]
            stacked[f"{before}.switch_mlp.{called}.weight"] = (
                dtype,
                (4, *shape),
            )  # as MLX has them
        elif ".experts." not in name:
            stacked[name] = (dtype, shape)
    assert against(each, stacked).status == 0
    write(tmp_path / "model.safetensors", stacked)
    assert wb.verify(MIXTRAL, tmp_path / "model.safetensors").status == 0


def test_a_tensor_under_another_name_is_reported(against, tmp_path: Path) -> None:
    before = stored(LLAMA)
    after = {
        name.replace("q_proj", "query").replace("input_layernorm", "ln_1"): of
        for name, of in before.items()
    }
    assert counts(against(before, after)) == {"renamed": 4}
    assert "q_proj, now query: 2 tensors" in against(before, after).text()
    write(tmp_path / "model.safetensors", after)
    assert counts(wb.verify(LLAMA, tmp_path / "model.safetensors")) == {"missing": 4, "extra": 4}


def test_a_tensor_of_another_shape_under_another_name_is_another(against) -> None:
    before = stored(LLAMA)
    after = {
        name.replace("0.self_attn.q_proj", "0.self_attn.query"): of for name, of in before.items()
    }
    after["model.layers.0.self_attn.query.weight"] = ("F32", (65, 64))
    assert counts(against(before, after)) == {"missing": 1, "extra": 1}


def test_buffers_are_not_a_difference(against) -> None:
    before = stored(BERT)
    with_buffer: Stored = {**before, "embeddings.position_ids": ("I64", (1, 512))}
    assert against(with_buffer, with_buffer).differences == ()
    assert against(with_buffer, before).differences == ()
    longer: Stored = {**before, "embeddings.position_ids": ("I64", (1, 514))}
    assert counts(against(with_buffer, longer)) == {"buffer_shape": 1}


def test_two_renamed_norms_are_not_confused(against) -> None:
    before = stored(LLAMA)
    after = {name.replace("layernorm", "_norm"): of for name, of in before.items()}
    found = against(before, after)
    assert found.status == 1
    assert {
        difference.stored_as for difference in found.differences if difference.kind == "renamed"
    } <= set(after)


# Live modules


def test_a_module_is_compared_with_its_checkpoint_and_its_config(tmp_path: Path) -> None:
    import transformers

    config = transformers.BertConfig(
        **{name: value for name, value in BERT.items() if name != "model_type"}
    )
    module = transformers.BertForMaskedLM(config)
    module.save_pretrained(tmp_path)
    found = wb.verify(module, tmp_path / "model.safetensors")
    assert (found.status, len(found.differences)) == (0, 0)
    assert "BertForMaskedLM is in memory" in found.text()
    of_config = wb.verify(config.to_dict(), module, "BertForMaskedLM")
    assert of_config.status == 0
    assert of_config.to_dict()["parameters"] == {
        "expected": module.num_parameters(),
        "found": module.num_parameters(),
    }
    module.bert.pooler = None
    module.bert.encoder.layer[1].output.dense = torch.nn.Linear(3072, 25)
    changed = wb.verify(module, tmp_path / "model.safetensors")
    assert {found.name for found in changed.differences if found.kind == "shape"} == {
        "bert.encoder.layer.1.output.dense.weight",
        "bert.encoder.layer.1.output.dense.bias",
    }


def test_a_module_of_a_user_is_read_too(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, dtype=torch.bfloat16))
    torch.save(module.state_dict(), tmp_path / "a.pt")
    assert wb.verify(module, tmp_path / "a.pt").status == 0
    assert wb.inspect(module).parameters == 3 * 4 + 4 + 4 * 2 + 2
    torch.save({**module.state_dict(), "0.bias": torch.zeros(5)}, tmp_path / "a.pt")
    assert counts(wb.verify(module, tmp_path / "a.pt")) == {"shape": 1}


# The names of other formats, on real files

SMOLLM2 = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
MINILM = {
    "model_type": "bert",
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
}


def released(wheel: wheels.Wheel) -> Path:
    return wheels.model(wheel) / wheel.members[0]


def test_a_gguf_file_is_its_model_under_other_names() -> None:
    found = wb.verify(SMOLLM2, released(wheels.SMOLLM2))
    assert found.status == 0
    assert counts(found) == {"other_names": 272, "quantised": 211}
    assert found.to_dict()["parameters"] == {"expected": 134_515_008, "found": 134_515_008}
    assert found.comparison.shared == {"lm_head.weight": "model.embed_tokens.weight"}
    wrong = wb.verify({**SMOLLM2, "num_key_value_heads": 9}, released(wheels.SMOLLM2))
    of_layer = {name.partition("layers.")[2].partition(".")[2] for name in failing(wrong)}
    assert of_layer == {"self_attn.k_proj.weight", "self_attn.v_proj.weight"}
    assert (
        wb.verify(
            {**SMOLLM2, "num_hidden_layers": 31}, released(wheels.SMOLLM2)
        ).comparison.failures
        == 9
    )


@pytest.mark.parametrize(("wheel", "layers"), [(wheels.MINILM_ONNX, 3), (wheels.MINILM_INT8, 6)])
def test_an_onnx_model_is_its_model_without_the_pooler(
    wheel: wheels.Wheel, layers: int, minilm: Path
) -> None:
    found = wb.verify({**MINILM, "num_hidden_layers": layers}, released(wheel))
    assert failing(found) == ["pooler.dense.weight", "pooler.dense.bias"]
    assert found.to_dict()["counts"]["transposed"] == 2 * layers
    if layers == 6:
        of_two = wb.verify(minilm / "model.safetensors", released(wheel))
        assert failing(of_two) == ["pooler.dense.bias", "pooler.dense.weight"]
        assert of_two.to_dict()["counts"]["quantised"] == 38


@pytest.mark.parametrize("family", GGUF)
def test_a_family_is_known_under_gguf_s_names(family: str, tmp_path: Path) -> None:
    architecture, config = GGUF[family]
    path = as_gguf(config, tmp_path / "a.gguf", architecture)
    found = wb.verify(config, path)
    pooler = {"pooler.dense.weight", "pooler.dense.bias"} if family == "bert" else set()
    assert set(failing(found)) <= pooler
    for name, row in found.comparison.held.items():
        assert row.name.startswith("dec.") == name.startswith("decoder."), (
            "an encoder is not a decoder"
        )
    assert (
        {"other_names"}
        <= counts(found).keys()
        <= {"other_names", "regrouped", "transposed", "aside", "missing"}
    )


def test_tensorflow_s_names_are_the_reference_s(tmp_path: Path) -> None:
    names = {
        "bert/embeddings/word_embeddings": (40, 24),
        "bert/encoder/layer_0/attention/self/query/kernel": (24, 24),
        "bert/encoder/layer_0/intermediate/dense/kernel": (24, 3072),
        "bert/encoder/layer_0/intermediate/dense/bias": (3072,),
        "bert/encoder/layer_0/output/LayerNorm/gamma": (24,),
        "bert/encoder/layer_0/output/LayerNorm/beta": (24,),
        "bert/encoder/layer_0/output/LayerNorm/beta/adam_m": (24,),
        "cls/predictions/output_bias": (40,),
        "cls/seq_relationship/output_weights": (2, 24),
        "global_step": (),
    }
    found = read(
        write(tmp_path / "a.safetensors", {name: ("F32", shape) for name, shape in names.items()})
    )
    sides = pair(
        of_checkpoint(read(write(tmp_path / "b.safetensors", stored(BERT, "BertForPreTraining")))),
        found._replace(format="TensorFlow"),
    )
    layer, current = "encoder/layer_0", "bert.encoder.layer.0"
    assert {row.name: name for name, row in sides.held.items()} == {
        "bert/embeddings/word_embeddings": "bert.embeddings.word_embeddings.weight",
        f"bert/{layer}/attention/self/query/kernel": f"{current}.attention.self.query.weight",
        f"bert/{layer}/intermediate/dense/kernel": f"{current}.intermediate.dense.weight",
        f"bert/{layer}/intermediate/dense/bias": f"{current}.intermediate.dense.bias",
        f"bert/{layer}/output/LayerNorm/gamma": f"{current}.output.LayerNorm.weight",
        f"bert/{layer}/output/LayerNorm/beta": f"{current}.output.LayerNorm.bias",
        "cls/predictions/output_bias": "cls.predictions.bias",
        "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    }
    assert [row.name for row in sides.aside] == [
        "bert/encoder/layer_0/output/LayerNorm/beta/adam_m",
        "global_step",
    ]
    assert sides.extra == ()


def test_a_tensorflow_checkpoint_is_verified_and_guessed(tmp_path: Path) -> None:
    tensors = stored({**BERT, "architectures": ["BertForPreTraining"], "intermediate_size": 48})
    renamed = dict(as_tensorflow(name, shape) for name, (_, shape) in tensors.items())
    assert "bert/encoder/layer_1/intermediate/dense/kernel" in renamed
    assert renamed["bert/encoder/layer_1/intermediate/dense/kernel"] == (24, 48)
    written = write(
        tmp_path / "a.safetensors", {name: ("F32", shape) for name, shape in renamed.items()}
    )
    found = read(written)._replace(format="TensorFlow")
    model = find({**BERT, "intermediate_size": 48})
    compared = choose(model, found, "BertForPreTraining").comparison
    assert {difference.kind for difference in compared.differences} == {"transposed"}
    best = guess_model(translated(found)).candidates[0]
    assert best.is_exact
    assert best.sure["intermediate_size"] == 48


# Options and output


def test_two_checkpoints_have_no_config(against) -> None:
    with pytest.raises(UsageError, match="two checkpoints are compared"):
        against(stored(LLAMA), stored(LLAMA), class_name="LlamaModel")


def test_the_command_compares_two_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, dtype in ((one, "F32"), (other, "BF16")):
        folder.mkdir()
        write(folder / "model.safetensors", stored(LLAMA, dtype=dtype))
    assert main(["verify", str(one), str(other)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert max(map(len, said.out.splitlines())) <= 80 or str(tmp_path) in said.out
    assert main(["verify", str(one), str(other), "--json", "--dtype", "f32"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["before"], report["counts"]) == (str(one), {"dtype": len(stored(LLAMA))})
    (one / "config.json").write_text(json.dumps(LLAMA))
    assert main(["verify", str(one), str(other), "--lang", "zh"]) == 0
    assert "LlamaForCausalLM" in capsys.readouterr().out, "a folder with a config is a model"
    assert main(["verify", str(one), str(tmp_path / "none.safetensors")]) == 2


def test_many_unknown_names_take_few_lines(tmp_path: Path) -> None:
    before = {f"layers.{at}.a{at % 7}.weight": ("F32", (1,)) for at in range(20_000)}
    after = {f"blocks.{at}.b{at % 5}.weight": ("F32", (1,)) for at in range(20_000)}
    found = wb.verify(
        write(tmp_path / "a.safetensors", before), write(tmp_path / "b.safetensors", after)
    )
    assert counts(found) == {"missing": 20_000, "extra": 20_000}
    assert len(found.text().splitlines()) < 100


# What older versions and Meta's own code save


META_NAMES = {
    "embed_tokens": "tok_embeddings",
    "self_attn": "attention",
    "q_proj": "wq",
    "k_proj": "wk",
    "v_proj": "wv",
    "o_proj": "wo",
    "mlp": "feed_forward",
    "gate_proj": "w1",
    "down_proj": "w2",
    "up_proj": "w3",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "lm_head": "output",
}


def as_meta(tensors: Stored) -> Stored:
    """Return a Llama's tensors under the names of Meta's own code."""
    renamed = {}
    for name, tensor in tensors.items():
        pieces = name.removeprefix("model.").split(".")
        renamed[".".join(META_NAMES.get(piece, piece) for piece in pieces)] = tensor
    return renamed


def test_stored_frequencies_of_a_llama_are_a_note(tmp_path: Path) -> None:
    tensors = stored(LLAMA)
    for layer in range(2):
        tensors[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = ("F32", (8,))
    found = wb.verify(LLAMA, write(tmp_path / "model.safetensors", tensors))
    assert (found.status, failing(found)) == (0, [])
    assert counts(found) == {"aside": 2}


def test_a_weight_beside_the_frequencies_is_still_too_many(tmp_path: Path) -> None:
    tensors = {**stored(LLAMA), "model.layers.0.self_attn.rotary_emb.scale": ("F32", (8,))}
    found = wb.verify(LLAMA, write(tmp_path / "model.safetensors", tensors))
    assert failing(found) == ["model.layers.0.self_attn.rotary_emb.scale"]


def test_a_llama_under_the_names_of_meta(tmp_path: Path) -> None:
    tensors = as_meta(stored(LLAMA)) | {"rope.freqs": ("F32", (4,))}
    assert "layers.0.attention.wq.weight" in tensors
    found = wb.verify(LLAMA, write(tmp_path / "consolidated.safetensors", tensors))
    assert (found.status, failing(found)) == (0, [])
    assert counts(found).get("aside") == 1
    assert found.class_name == "LlamaForCausalLM"


def test_a_missing_tensor_and_a_wrong_shape_are_found_under_the_names_of_meta(
    tmp_path: Path,
) -> None:
    tensors = as_meta(stored(LLAMA))
    del tensors["layers.1.ffn_norm.weight"]
    dtype, (rows, columns) = tensors["layers.1.feed_forward.w1.weight"]
    tensors["layers.1.feed_forward.w1.weight"] = (dtype, (rows + 1, columns))
    found = wb.verify(LLAMA, write(tmp_path / "consolidated.safetensors", tensors))
    assert set(failing(found)) == {
        "model.layers.1.mlp.gate_proj.weight",
        "model.layers.1.post_attention_layernorm.weight",
    }
