"""`weighbridge cache`: the bytes of a cache by kind of layer, and as the context grows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from chinese import english_in

import weighbridge as wb
from weighbridge import data
from weighbridge.answers.cost_formula import FormulaWriter
from weighbridge.answers.recorded import recorded
from weighbridge.blueprint import operations
from weighbridge.blueprint.operations import Operations, check_operations
from weighbridge.cli import main
from weighbridge.errors import ModelError, UsageError
from weighbridge.render.table import COLUMNS, width

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = "meta-llama/Llama-3.1-8B"
PER_TOKEN = 2 * 32 * 8 * 128 * 2  # keys and values, layers, heads, their size, bytes


def test_llama() -> None:
    found = wb.cache(LLAMA, context=4096)
    assert found.cache_bytes == 536870912
    assert found.bytes_per_token == found.average_bytes_per_token == PER_TOKEN == 131072
    (group,) = found.groups
    assert group == ("keys_and_values", "", 32, 536870912, 131072)


def test_a_batch_and_a_dtype_scale_it() -> None:
    found = wb.cache(LLAMA, context=1000, batch=16, dtype="fp8")
    assert found.cache_bytes == 1000 * 16 * PER_TOKEN // 2
    assert found.bytes_per_token == PER_TOKEN // 2
    assert wb.cache(LLAMA, context=1, dtype="f32").cache_bytes == 2 * PER_TOKEN


def test_growth_is_shown_at_powers_of_two_and_at_the_context() -> None:
    growth = wb.cache(LLAMA, context=5000).growth
    assert [context for context, _ in growth] == [1024, 2048, 4096, 5000]
    assert [held // context for context, held in growth] == [PER_TOKEN] * 4
    assert [context for context, _ in wb.cache(LLAMA, context=1024).growth] == [1024]
    assert [context for context, _ in wb.cache(LLAMA, context=3).growth] == [3]


MAMBA2: dict[str, Any] = {  # state-spaces/mamba2-2.7b
    "model_type": "mamba2",
    "architectures": ["Mamba2ForCausalLM"],
    "hidden_size": 2560,
    "num_hidden_layers": 64,
    "num_heads": 80,
    "n_groups": 1,
    "vocab_size": 50288,
    "dtype": "bfloat16",
}


@pytest.mark.parametrize("context", [1, 3, 256, 257, 131_072])
def test_the_states_of_mamba2_take_as_much_at_any_length(context: int) -> None:
    found = wb.cache(MAMBA2, context=context)
    assert (found.cache_bytes, found.bytes_per_token) == (170_524_672, 0)
    inner, state, kernel = 2 * 2560, 128, 4
    assert [(group.name, group.bytes) for group in found.groups] == [
        ("conv_states", 64 * (inner + 2 * state) * kernel * 2),
        ("recurrent_states", 64 * inner * state * 4),
    ]


BAMBA: dict[str, Any] = {  # ibm-ai-platform/Bamba-9B-v1
    "model_type": "bamba",
    "architectures": ["BambaForCausalLM"],
    "attn_layer_indices": [9, 18, 27],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "mamba_n_heads": 128,
    "mamba_d_state": 128,
    "dtype": "bfloat16",
}
FALCON_H1: dict[str, Any] = {  # tiiuae/Falcon-H1-7B-Instruct
    "model_type": "falcon_h1",
    "architectures": ["FalconH1ForCausalLM"],
    "hidden_size": 3072,
    "num_hidden_layers": 44,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_d_ssm": 3072,
    "mamba_n_heads": 24,
    "mamba_d_head": 128,
    "mamba_d_state": 256,
    "dtype": "bfloat16",
}


@pytest.mark.parametrize("context", [1, 256, 257, 131_072])
@pytest.mark.parametrize(
    ("model", "attending", "scans", "inner"), [(BAMBA, 3, 29, 8192), (FALCON_H1, 44, 44, 3072)]
)
def test_of_attention_and_scans_only_keys_and_values_grow(
    model: dict[str, Any], attending: int, scans: int, inner: int, context: int
) -> None:
    found = wb.cache(model, context=context)
    kept_of_a_token = attending * 2 * model["num_key_value_heads"] * 128 * 2
    assert {group.name: group.bytes for group in found.groups} == {
        "keys_and_values": context * kept_of_a_token,
        "conv_states": scans * (inner + 2 * model["mamba_d_state"]) * 4 * 2,
        "recurrent_states": scans * inner * model["mamba_d_state"] * 4,
    }
    assert found.bytes_per_token == kept_of_a_token


@pytest.mark.parametrize("context", [1, 131_072])
def test_one_layer_in_eight_of_jamba_keeps_keys_and_values(context: int) -> None:
    """The defaults are the sizes of ai21labs/Jamba-v0.1."""
    jamba = {"model_type": "jamba", "architectures": ["JambaForCausalLM"], "dtype": "bfloat16"}
    found = wb.cache(jamba, context=context)
    assert found.bytes_per_token == 4 * 2 * 8 * 128 * 2
    assert {group.name: group.bytes for group in found.groups} == {
        "keys_and_values": context * 4 * 2 * 8 * 128 * 2,
        "conv_states": 28 * 8192 * 4 * 2,
        "recurrent_states": 28 * 8192 * 16 * 4,
    }


HYBRID: dict[str, Any] = {
    "format": 2,
    "family": "gemma2",
    "source": "a test",
    "kernels": "none",
    "class": "Gemma2ForCausalLM",
    "proof": {"by": "a test", "against": "nothing", "runs": 0, "profiles": ["cuda-eager"]},
    "fields": {
        "num_hidden_layers": 4,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "held": {},
    "repeat": {"i": "num_hidden_layers"},
    "forward": {},
    "backward": {},
    "saved": {},
}
FULL, SLIDING = ('layer_types[i] == "full_attention"', 'layer_types[i] == "sliding_attention"')
OF_FULL = f"compute batch*(past+1)*num_key_value_heads*head_dim if {FULL}"
OF_SLIDING = f"compute batch*min(past+1,sliding_window)*num_key_value_heads*head_dim if {SLIDING}"
HYBRID["stepped"] = {
    "cache.{i}.keys": [OF_FULL, OF_SLIDING],
    "cache.{i}.values": [OF_FULL, OF_SLIDING],
    "cache.{i}.conv_states": [f"F32 batch*7 if {SLIDING}"],
}


@pytest.fixture
def hybrid(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Put operations of a model with two types of layers in place; return its config."""
    check_operations(HYBRID)
    monkeypatch.setattr(operations, "available", lambda: ["gemma2"])
    monkeypatch.setattr(operations, "load_operations", lambda _: Operations(HYBRID))
    return {
        "model_type": "gemma2",
        "num_hidden_layers": 4,
        "layer_types": HYBRID["fields"]["layer_types"],
    }


def test_layers_of_each_type_are_a_group(hybrid: dict[str, Any]) -> None:
    found = wb.cache(hybrid, context=10_000, dtype="bf16")
    of_token = 2 * 2 * 4 * 256 * 2  # keys and values, layers, heads, their size, bytes
    assert [tuple(group) for group in found.groups] == [
        ("keys_and_values", "full_attention", 2, 10_000 * of_token, of_token),
        ("keys_and_values", "sliding_attention", 2, 4096 * of_token, 0),
        ("conv_states", "sliding_attention", 2, 2 * 7 * 4, 0),
    ]
    assert found.bytes_per_token == of_token
    assert found.average_bytes_per_token > of_token
    assert wb.cache(hybrid, context=100, dtype="bf16").bytes_per_token == 2 * of_token


def test_states_in_a_dtype_of_their_own_stay_in_it(hybrid: dict[str, Any]) -> None:
    short, long = (wb.cache(hybrid, context=9, dtype=dtype) for dtype in ("fp8", "bf16"))
    states = [cache.groups[-1].bytes for cache in (short, long)]
    assert states == [56, 56]
    assert short.groups[0].bytes * 2 == long.groups[0].bytes
    assert "the others keep" in short.text()
    full = {"model_type": "gemma2", "num_hidden_layers": 1, "layer_types": ["full_attention"]}
    assert "the others keep" not in wb.cache(full, context=9).text()


def test_layers_of_one_type_have_a_count_in_formulas(hybrid: dict[str, Any]) -> None:
    found = recorded(hybrid, "Gemma2ForCausalLM")
    writer = FormulaWriter(found, found.names(batch=2, past=9), "BF16")
    formula = writer.bytes_of("stepped")
    held = wb.cache(hybrid, context=10, batch=2, dtype="bf16").cache_bytes
    assert writer.value(formula) == held
    assert "n_1" in writer.lettering.text(formula)
    assert {name: writer.lettering.value(name) for name in writer.lettering.parts} == {"n_1": 2}
    assert writer.lettering.part_meaning("n_1", "en") == "full-attention layers"


def test_a_text_names_the_types_of_layers(hybrid: dict[str, Any]) -> None:
    found = wb.cache(hybrid, context=10_000)
    assert "keys and values (sliding window)" in found.text()
    assert "键与值（滑动窗口）" in found.text("zh")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_line_fits_in_80_columns(lang: str, hybrid: dict[str, Any]) -> None:
    text = wb.cache(hybrid, context=2**24, batch=512, dtype="f32").text(lang)
    assert max(map(width, text.splitlines())) <= COLUMNS
    if lang == "zh":
        assert english_in(text) == []


def test_json_and_csv(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", LLAMA, "--context", "4096", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["cache_bytes"], report["bytes_per_token"]) == (536870912, 131072)
    assert report["growth"][-1] == {"context": 4096, "bytes": 536870912}
    assert main(["cache", LLAMA, "--context", "4096", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "name,kind,layers,bytes,bytes_per_token",
        "keys_and_values,,32,536870912,131072",
    ]
    assert wb.cache(LLAMA, context=2048).records("context")[0]["bytes"] == 1024 * PER_TOKEN


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_picture_has_a_bar_for_each_context(
    lang: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cache.svg"
    words = ["cache", LLAMA, "--context", "4096", "-o", str(path), "--lang", lang]
    assert main(words) == 0
    assert capsys.readouterr().out == f"{path}\n"
    root = ET.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314  # our own file
    shapes = "{http://www.w3.org/2000/svg}"
    drawn = [bar for bar in root.iter(f"{shapes}rect") if bar.get("x")]
    bars = [float(bar.get("width", "")) for bar in drawn]
    assert [bars[-1] / bar for bar in bars] == pytest.approx([4, 2, 1], rel=1e-4)
    texts = [text.text for text in root.iter(f"{shapes}text")]
    assert {"4,096", "512 MiB"} < set(texts)
    assert float(drawn[-1].get("x", "")) + bars[-1] < float(root.get("width", ""))


def test_a_picture_in_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is an SVG file \(ending = '.png'\)"):
        wb.cache(LLAMA, context=9).save(tmp_path / "cache.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"context": 0}, "--context must be a positive integer (context = 0)."),
        ({"context": 9, "batch": -1}, "--batch must be a positive integer (batch = -1)."),
        ({"context": 9, "dtype": "float5"}, "no such dtype (dtype = 'float5')."),
    ],
)
def test_an_impossible_cache_is_refused(question: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        wb.cache(LLAMA, **question)
    assert message in str(error.value)


def test_a_class_without_a_cache_is_refused() -> None:
    with pytest.raises(ModelError, match="BertModel has no cache in its operations"):
        wb.cache("bert", context=9)


def test_both_languages_have_the_same_words() -> None:
    english, chinese = (data.read_toml(f"words/cache.{lang}.toml") for lang in ("en", "zh"))
    assert english.keys() == chinese.keys()
