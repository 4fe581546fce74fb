"""The types of GGUF tensors: held against snapshots of llama.cpp, gguf-py, and releases."""

from __future__ import annotations

import csv
import hashlib
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import weighbridge as wb
from weighbridge import data, units
from weighbridge.answers.quantize import QuantizedGguf
from weighbridge.costs.gguf import GgufTensor, choose_types, file_bytes, infos_bytes, schemes
from weighbridge.ledger.ledger import bind
from weighbridge.models.find import find
from weighbridge.models.gguf_names import converted_class, gguf_file
from weighbridge.readers import read

DATA = Path(__file__).parents[1] / "data"
NAMES = data.read_toml("facts/gguf_names.toml")
FACTS = data.read_toml("facts/gguf_types.toml")
TINY: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 352,  # no multiple of 256, so that types are replaced
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 320,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
}


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of the test data."""
    with (DATA / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def fields(text: str) -> dict[str, Any]:
    """Return the config fields that a row sets."""
    if not text:
        return {}
    name, _, value = text.partition("=")
    assert value == "false"
    return {name: False}


def quantized(row: dict[str, str]) -> QuantizedGguf:
    found = wb.quantize(row["model"], row["to"], fields=fields(row["fields"]))
    assert isinstance(found, QuantizedGguf)
    return found


# Sizes


def test_the_blocks_are_those_of_gguf() -> None:
    for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        assert units.DTYPES[kind.name] == (elements, size)
    assert {*FACTS["schemes"].values()} <= {kind.name for kind in gguf.GGML_QUANT_SIZES}


def test_a_scheme_has_a_number_in_gguf() -> None:
    known = {kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in gguf.LlamaFileType}
    assert {*FACTS["schemes"]} <= known


def test_rules_name_only_schemes_types_and_categories_that_exist() -> None:
    names = {*FACTS["schemes"], *FACTS["groups"]}
    types = {kind.name for kind in gguf.GGML_QUANT_SIZES}
    for category, texts in FACTS["rules"].items():
        assert category == "any" or category in FACTS["categories"]
        for text in texts:
            head, _, _ = text.partition(" if ")
            kind, _, listed = head.partition(" for ")
            assert kind in types
            assert {*listed.split()} <= names


# Names


@pytest.mark.parametrize("family", NAMES["families"])
def test_names_are_those_of_gguf(family: str) -> None:
    model, architecture = find(family), NAMES["families"][family]
    ledger = bind(model.blueprint, converted_class(model), model.fields)
    kind = next(known for known, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    mapped = gguf.get_tensor_name_map(kind, 99)
    known = {gguf.TENSOR_NAMES[tensor] for tensor in gguf.MODEL_TENSORS[kind]}
    for tensor in gguf_file(model, ledger).tensors:
        path = tensor.name.removesuffix(".weight").removesuffix(".bias")
        assert path.replace(f".{tensor.layer}.", ".{bid}.", 1) in known
    converted = {tensor.name for tensor in gguf_file(model, ledger).tensors}
    for entry in ledger.stored.entries:
        name = entry.template.name
        if entry.tied or "experts" in name or name.endswith("sinks") or "vision" in name:
            continue
        for index in entry.template.repeat:
            name = name.replace(f"{{{index}}}", "0")
        name = name.replace("language_model.model.", "model.")
        found = mapped.get_name(name, try_suffixes=(".weight", ".bias"))
        if "multi_modal" not in name:
            assert found in converted, name


def test_experts_of_a_layer_are_one_tensor() -> None:
    model = find("mixtral")
    tensors = gguf_file(model, bind(model.blueprint, converted_class(model), model.fields)).tensors
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    assert shapes["blk.3.ffn_down_exps.weight"] == (8, 4096, 14336)
    assert shapes["blk.3.ffn_gate_inp.weight"] == (8, 4096)
    assert len(shapes) == len(tensors) == 32 * 10 + 3


def test_a_padded_vocabulary_is_cut() -> None:
    found = {t.name: t.shape for t in wb.quantize("google/gemma-3-4b-it", "q8_0").tensors}
    assert wb.weigh("google/gemma-3-4b-it").model.fields["text_config.vocab_size"] == 262_208
    assert found["token_embd.weight"] == (262_144, 2560)  # n_vocab of llama.cpp's snapshot


@pytest.mark.parametrize("name", sorted({row["model"] for row in rows("gguf_releases.tsv")}))
def test_no_parameter_is_lost_on_the_way(name: str) -> None:
    found = wb.quantize(name, "q8_0")
    assert isinstance(found, QuantizedGguf)
    rotary = sum(t.parameters for t in found.tensors if t.name.startswith("rope_"))
    cut = 0
    if found.architecture == "gemma3":
        (embedding,) = [t for t in found.tensors if t.name == "token_embd.weight"]
        cut = found.weighing.parameters - (found.parameters - rotary) - found.elsewhere
        assert embedding.shape[0] == 262_144
        assert cut % embedding.shape[1] == 0
    assert found.parameters - rotary + found.elsewhere + cut == found.weighing.parameters


# Types


@pytest.mark.parametrize(
    "row", rows("gguf_snapshots.tsv"), ids=lambda r: f"{r['snapshot']}-{r['scheme']}"
)
def test_types_are_those_of_a_snapshot_of_llama_cpp(row: dict[str, str]) -> None:
    model = find(row["model"], fields(row["fields"]))
    file = gguf_file(model, bind(model.blueprint, converted_class(model), model.fields))
    typed = choose_types(file.tensors, row["scheme"], file.architecture, imatrix=False)
    others = {
        found.tensor.name: found.type
        for found in typed
        if found.type not in (row["usual"], "F32") or row["scheme"] == "F32"
    }
    others = {name: kind for name, kind in others.items() if kind != row["usual"]}
    counts = " ".join(
        f"{kind}:{number}" for kind, number in sorted(Counter(others.values()).items())
    )
    assert counts == row["others"]
    lines = "\n".join(sorted(f"{name} {kind}" for name, kind in others.items()))
    assert hashlib.sha256(lines.encode()).hexdigest()[:16] == row["digest"]


def test_a_row_that_no_type_divides_is_refused_or_f16() -> None:
    odd = [GgufTensor("blk.0.attn_q.weight", (64, 40))]
    assert choose_types(odd, "Q4_K_M", "llama")[0][1:] == ("F16", "Q4_K")
    with pytest.raises(wb.WeighbridgeError, match="no other type"):
        choose_types(odd, "Q4_0", "llama")


def test_the_order_is_by_layer_and_then_by_name() -> None:
    names = [
        "token_embd.weight",
        "blk.10.attn_q.weight",
        "blk.2.attn_v.weight",
        "blk.2.attn_q.weight",
    ]
    typed = choose_types([GgufTensor(name, (256, 256)) for name in names], "Q8_0", "llama")
    assert [found.tensor.name for found in typed] == [names[0], names[3], names[2], names[1]]


# Whole files


def stored(shape: tuple[int, ...], kind: str) -> tuple[np.ndarray[Any, Any], Any]:
    """Return a random tensor in a type, quantised by gguf where it can, and the type."""
    wanted = gguf.GGMLQuantizationType[kind]
    values = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    try:
        return gguf.quants.quantize(values, wanted), wanted
    except NotImplementedError:
        return np.zeros(gguf.quant_shape_to_byte_shape(shape, wanted), np.uint8), wanted


@pytest.mark.parametrize(
    "scheme", ["f32", "f16", "bf16", "q8_0", "q5_1", "q4_0", "q4_k_m", "q3_k_l", "iq4_xs"]
)
@pytest.mark.parametrize("tied", [True, False])
def test_a_file_of_gguf_has_these_bytes(scheme: str, tied: bool, tmp_path: Path) -> None:
    found = wb.quantize({**TINY, "tie_word_embeddings": tied}, scheme)
    assert isinstance(found, QuantizedGguf)
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(8)
    writer.add_token_list([f"word {number}" for number in range(320)])
    for tensor in found.tensors:
        values, kind = stored(tensor.shape, tensor.type)
        writer.add_tensor(tensor.name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reader = gguf.GGUFReader(path)
    key_values = sum(
        part.nbytes
        for name, field in reader.fields.items()
        if not name.startswith("GGUF.")
        for part in field.parts
    )
    assert file_bytes(found._typed, key_values) == path.stat().st_size
    header = read(path)
    assert header.header_bytes - key_values == infos_bytes(found._typed)
    assert {row.name: (row.shape, row.dtype) for row in header.rows} == {
        tensor.name: (tensor.shape, tensor.type) for tensor in found.tensors
    }
    assert sum(row.bytes for row in header.rows) == found.tensor_bytes


def size_text(size: int, like: str) -> str:
    """Write a number of bytes as llama.cpp does."""
    unit = like.rsplit(maxsplit=1)[-1]
    return f"{size / 2 ** {'MiB': 20, 'GiB': 30}[unit]:.2f} {unit}"


def published(row: dict[str, str], found: QuantizedGguf) -> list[bool]:
    """Return for each figure of a row whether it is the same."""
    same = []
    if row["types"]:
        counts = Counter(tensor.type for tensor in found.tensors)
        same.append(row["types"] == " ".join(f"{name}:{counts[name]}" for name in sorted(counts)))
    if row["size"]:
        same.append(size_text(found.tensor_bytes, row["size"]) == row["size"])
    if row["bits_per_weight"]:
        decimals = len(row["bits_per_weight"].partition(".")[2])
        same.append(f"{found.bits_per_weight:.{decimals}f}" == row["bits_per_weight"])
    if row["file_bytes"]:
        least, most = found.key_values_about
        same.append(least <= int(row["file_bytes"]) - found.file_bytes <= most)
    return same


@pytest.mark.parametrize(
    "row",
    rows("gguf_releases.tsv"),
    ids=lambda row: f"{row['model']}-{row['to']}-{row['when']}",
)
def test_a_release_has_these_types_and_bytes(row: dict[str, str]) -> None:
    same = published(row, quantized(row))
    assert same
    assert all(same) == (not row["differs"])


def test_files_of_one_release_have_key_values_of_one_size() -> None:
    headers: dict[str, set[int]] = {}
    for row in rows("gguf_releases.tsv"):
        if row["file_bytes"] and not row["differs"]:
            rest = int(row["file_bytes"]) - sum(
                -(-tensor.bytes // 32) * 32 for tensor in quantized(row).tensors
            )
            assert rest % 32 == 0
            headers.setdefault(row["source"], set()).add(rest)
    assert all(len(sizes) == 1 for sizes in headers.values())
    # The log of a loader gives the first byte of the data of this one.
    assert headers["https://huggingface.co/TheBloke/Mistral-7B-Instruct-v0.2-GGUF"] == {735_520}


def test_phi_3_differs_in_the_fused_queries_only() -> None:
    (row,) = [row for row in rows("gguf_releases.tsv") if "attn_qkv" in row["differs"]]
    counts = Counter(t.type for t in quantized(row).tensors if "attn_qkv" not in t.name)
    counts["Q5_K"] += 32
    assert " ".join(f"{name}:{counts[name]}" for name in sorted(counts)) == row["types"]


@pytest.mark.parametrize("scheme", schemes())
def test_every_scheme_has_an_answer_for_experts_and_for_none(scheme: str) -> None:
    for model, imatrix in itertools.product(("llama", "mixtral"), (True, False)):
        found = wb.quantize(model, scheme, imatrix=imatrix)
        assert found.tensor_bytes == sum(tensor.bytes for tensor in found.tensors)
        assert sum(group.bytes for group in found.by("type")) == found.tensor_bytes
        assert sum(group.bytes for group in found.by("component")) == found.tensor_bytes
