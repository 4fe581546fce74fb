"""Adapters before they are made, held against those that peft makes of tiny models."""

from __future__ import annotations

import gc
import json
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import weighbridge as wb
from weighbridge import data
from weighbridge.answers.lora import lora_saved
from weighbridge.costs.adapting import Adapting
from weighbridge.costs.lora import LoraAdapter, lora_tensors
from weighbridge.costs.lora_settings import lora_settings

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

DECODER = {
    "vocab_size": 56,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}
ENCODER = {name: DECODER[name] for name in DECODER if name != "num_key_value_heads"}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 10}


class Tiny(NamedTuple):
    """A class of transformers, and the fields of its tiny config."""

    class_name: str
    fields: dict[str, Any]

    def build(self) -> Any:
        built = getattr(transformers, self.class_name)
        return built(built.config_class(**self.fields))


MODELS = {
    "llama": Tiny("LlamaForCausalLM", DECODER),
    "llama tied": Tiny("LlamaForCausalLM", {**DECODER, "tie_word_embeddings": True}),
    "llama biases": Tiny("LlamaForCausalLM", {**DECODER, "attention_bias": True, "mlp_bias": True}),
    "llama classifier": Tiny("LlamaForSequenceClassification", DECODER),
    "mistral": Tiny("MistralForCausalLM", {**DECODER, "head_dim": 4}),
    "mixtral": Tiny("MixtralForCausalLM", {**DECODER, "num_local_experts": 3}),
    "qwen2": Tiny("Qwen2ForCausalLM", DECODER),
    "qwen2_moe": Tiny("Qwen2MoeForCausalLM", {**DECODER, **EXPERTS}),
    "qwen3_moe": Tiny("Qwen3MoeForCausalLM", {**DECODER, **EXPERTS, "head_dim": 4}),
    "gpt_oss": Tiny("GptOssForCausalLM", {**DECODER, "num_local_experts": 4, "head_dim": 4}),
    "gemma2": Tiny("Gemma2ForCausalLM", {**DECODER, "head_dim": 4}),
    "gpt2": Tiny("GPT2LMHeadModel", {"vocab_size": 56, "n_embd": 24, "n_layer": 3, "n_head": 3}),
    "bert": Tiny("BertForMaskedLM", ENCODER),
    "bert classifier": Tiny("BertForSequenceClassification", ENCODER),
    "bert base": Tiny("BertModel", ENCODER),
    "roberta": Tiny("RobertaForSequenceClassification", ENCODER),
    "t5": Tiny(
        "T5ForConditionalGeneration",
        {"vocab_size": 56, "d_model": 24, "d_kv": 4, "d_ff": 40, "num_layers": 2, "num_heads": 6},
    ),
    "bart": Tiny(
        "BartForConditionalGeneration",
        {
            "vocab_size": 56,
            "d_model": 24,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 3,
            "decoder_attention_heads": 3,
            "encoder_ffn_dim": 40,
            "decoder_ffn_dim": 40,
            "max_position_embeddings": 40,
        },
    ),
    "bloom": Tiny(
        "BloomForCausalLM", {"vocab_size": 56, "hidden_size": 24, "n_layer": 2, "n_head": 3}
    ),
    "falcon": Tiny(
        "FalconForCausalLM",
        {"vocab_size": 56, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3},
    ),
    "phi3": Tiny("Phi3ForCausalLM", DECODER),
    "opt": Tiny(
        "OPTForCausalLM",
        {
            "vocab_size": 56,
            "hidden_size": 24,
            "ffn_dim": 40,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "word_embed_proj_dim": 24,
            "max_position_embeddings": 40,
        },
    ),
    "gpt_neox": Tiny("GPTNeoXForCausalLM", ENCODER),
    "vit": Tiny(
        "ViTForImageClassification",
        {
            "hidden_size": 24,
            "intermediate_size": 40,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "image_size": 8,
            "patch_size": 4,
        },
    ),
    "whisper": Tiny(
        "WhisperForConditionalGeneration",
        {
            "vocab_size": 56,
            "d_model": 24,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 3,
            "decoder_attention_heads": 3,
            "num_mel_bins": 8,
            "encoder_ffn_dim": 40,
            "decoder_ffn_dim": 40,
            "max_source_positions": 20,
            "max_target_positions": 20,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
    ),
}

# The names of settings here and in peft, where they differ.
IN_PEFT = {
    "targets": "target_modules",
    "save": "modules_to_save",
    "parameters": "target_parameters",
    "exclude": "exclude_modules",
    "layers": "layers_to_transform",
    "ties": "ensure_weight_tying",
}


def config_of(settings: dict[str, Any]) -> Any:
    """Return peft's config with the same settings."""
    given = {IN_PEFT.get(name, name): value for name, value in settings.items()}
    given["use_dora"] = given.pop("method", "lora") == "dora"
    for name in ("target_modules", "exclude_modules"):
        if isinstance(given.get(name), str):
            given[name] = given[name].removeprefix("re:")
    return peft.LoraConfig(**given)


def ours(tiny: Tiny, config: Any, **settings: Any) -> LoraAdapter:
    weighing = wb.weigh(config, tiny.class_name)
    return lora_tensors(weighing.ledger, lora_settings(**settings))


def stored(folder: Path) -> tuple[int, dict[str, tuple[str, tuple[int, ...]]]]:
    """Return the bytes of an adapter's file, and the dtype and shape of each of its tensors."""
    content = (folder / "adapter_model.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    header.pop("__metadata__")
    return len(content), {
        name: (tensor["dtype"], tuple(tensor["shape"])) for name, tensor in header.items()
    }


def check(name: str, folder: Path, *, dtype: str = "float32", **settings: Any) -> None:
    """Check that peft makes what we say: parameters, and the file to the last byte."""
    tiny = MODELS[name]
    built = tiny.build().to(getattr(torch, dtype))
    config = {**built.config.to_dict(), "dtype": dtype}
    adapter = ours(tiny, config, **settings)
    made = peft.get_peft_model(built, config_of(settings))
    made.save_pretrained(folder)
    file_bytes, tensors = stored(folder)
    expected = {tensor.row.name: (tensor.row.dtype, tensor.row.shape) for tensor in adapter.tensors}
    assert expected == tensors
    counts = (adapter.trainable_parameters, adapter.all_parameters)
    assert counts == made.get_nb_trainable_parameters()
    assert adapter.file_bytes == file_bytes
    saved = lora_saved(folder, config, tiny.class_name)
    assert saved.differences == []
    assert (saved.trainable_parameters, saved.all_parameters) == counts


PLAIN = {
    "defaults": {},
    "DoRA": {"r": 3, "method": "dora", "targets": "all-linear"},
    "all-linear": {"r": 5, "targets": "all-linear"},
    "biases": {"targets": "all-linear", "bias": "all"},
    "biases of adapted modules": {"targets": "all-linear", "bias": "lora_only"},
}
WITHOUT_DEFAULTS = {
    *("qwen2_moe", "qwen3_moe", "gpt_oss", "phi3", "vit", "whisper", "mixtral"),
}


@pytest.mark.sampled("src/weighbridge/torch", "src/weighbridge/costs")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (name, settings)
        for name in MODELS
        for settings in PLAIN
        if settings != "defaults" or name not in WITHOUT_DEFAULTS
    ],
)
def test_families(name: str, settings: str, tmp_path: Path) -> None:
    given: dict[str, Any] = dict(PLAIN[settings])
    if name in ("mixtral", "qwen3_moe") and given.get("method") == "dora":
        given["targets"] = ("q_proj", "o_proj")  # the experts are parameters
    check(name, tmp_path, **given)


SPECIAL: dict[str, tuple[str, dict[str, Any]]] = {
    "rank pattern": (
        "llama",
        {"targets": ["q_proj", "down_proj"], "rank_pattern": {"down_proj": 12}},
    ),
    "rank pattern of a layer": (
        "llama",
        {"targets": ["q_proj"], "r": 4, "rank_pattern": {r"layers\.1\.self_attn\.q_proj": 7}},
    ),
    "a pattern": ("llama", {"targets": r"re:.*layers\.[02]\.(mlp|self_attn)\.(up|v)_proj"}),
    "layers": ("llama", {"targets": ["q_proj", "up_proj"], "layers": [0, 2]}),
    "layers of gpt2": ("gpt2", {"targets": ["c_attn"], "layers": [1]}),
    "excluded": (
        "llama",
        {"targets": ["q_proj", "v_proj"], "exclude": ["layers.1.self_attn.q_proj"]},
    ),
    "excluded by a pattern": ("llama", {"targets": ["q_proj"], "exclude": r"re:.*layers\.1\..*"}),
    "a head": ("llama", {"targets": ["q_proj", "lm_head"]}),
    "an embedding": ("llama", {"targets": ["q_proj", "embed_tokens"]}),
    "an embedding in DoRA": ("llama", {"targets": ["embed_tokens"], "method": "dora"}),
    "both": ("llama", {"targets": ["embed_tokens", "lm_head"]}),
    "both tied": ("llama tied", {"targets": ["embed_tokens", "lm_head"]}),
    "both kept tied": ("llama tied", {"targets": ["embed_tokens", "lm_head"], "ties": True}),
    "an embedding kept tied": ("llama tied", {"targets": ["q_proj", "embed_tokens"], "ties": True}),
    "a head kept tied": ("llama tied", {"targets": ["q_proj", "lm_head"], "ties": True}),
    "an embedding kept tied by a pattern": (
        "llama tied",
        {"targets": r"re:(.*q_proj|embed_tokens)", "ties": True},
    ),
    "an embedding by a pattern": ("llama", {"targets": r"re:.*(embed_tokens|q_proj)"}),
    "an embedding of gpt2": ("gpt2", {"targets": ["wte", "c_attn"]}),
    "positions of gpt2": ("gpt2", {"targets": ["wpe"]}),
    "the embedding of t5": ("t5", {"targets": ["shared", "q"]}),
    "embeddings of bart": ("bart", {"targets": ["embed_tokens", "q_proj"]}),
    "positions of opt": ("opt", {"targets": ["embed_positions", "q_proj"]}),
    "saved": ("llama", {"targets": ["q_proj"], "save": ["lm_head"]}),
    "saved embedding": ("llama", {"targets": ["q_proj"], "save": ["embed_tokens"]}),
    "saved tied": ("llama tied", {"targets": ["q_proj"], "save": ["embed_tokens", "lm_head"]}),
    "saved kept tied": (
        "llama tied",
        {"targets": ["q_proj"], "save": ["embed_tokens"], "ties": True},
    ),
    "saved head kept tied": (
        "llama tied",
        {"targets": ["q_proj"], "save": ["lm_head"], "ties": True},
    ),
    "saved with biases": ("bert classifier", {"save": ["classifier"], "bias": "all"}),
    "saved block with biases": ("roberta", {"save": ["classifier"], "bias": "all"}),
    "saved among targets": ("bert classifier", {"targets": ["dense"], "save": ["pooler"]}),
    "saved layer": ("bert", {"targets": ["query"], "save": ["layer.1.output"]}),
    "a task": ("llama classifier", {"targets": "all-linear", "task_type": "SEQ_CLS"}),
    "a task of bert": ("bert classifier", {"targets": "all-linear", "task_type": "SEQ_CLS"}),
    "a task of roberta": ("roberta", {"targets": "all-linear", "task_type": "SEQ_CLS"}),
    "tied biases": ("bert", {"targets": ["decoder", "query"], "bias": "lora_only"}),
    "patches": ("vit", {"targets": ["projection", "query"]}),
    "patches in DoRA": ("vit", {"targets": ["projection"], "method": "dora"}),
    "convolutions": ("whisper", {"targets": ["conv1", "conv2"]}),
    "convolutions in DoRA": ("whisper", {"targets": ["conv1"], "method": "dora"}),
    "experts": (
        "mixtral",
        {"targets": [], "parameters": ["experts.gate_up_proj", "experts.down_proj"]},
    ),
    "one stack of experts": (
        "mixtral",
        {"targets": ["q_proj"], "parameters": ["experts.down_proj"]},
    ),
    "old names of experts": ("mixtral", {"targets": ["w1", "w2", "w3", "q_proj"]}),
    "old names of qwen3": ("qwen3_moe", {"targets": ["gate_proj", "up_proj", "down_proj"], "r": 2}),
    "old names by a pattern": ("qwen3_moe", {"targets": r"re:.*\.(q_proj|gate_proj|up_proj)"}),
    "the router": ("mixtral", {"targets": ["mlp.gate", "v_proj"]}),
    "experts of qwen2": (
        "qwen2_moe",
        {"targets": ["gate_proj"], "parameters": ["experts.down_proj"]},
    ),
    "experts with inputs first": (
        "gpt_oss",
        {"targets": ["q_proj"], "parameters": ["experts.gate_up_proj", "experts.down_proj"]},
    ),
    "biases of experts": ("gpt_oss", {"targets": ["q_proj"], "parameters": ["gate_up_proj_bias"]}),
    "weights as parameters": ("llama", {"targets": [], "parameters": ["q_proj.weight"]}),
}


@pytest.mark.parametrize("case", SPECIAL)
def test_settings(case: str, tmp_path: Path) -> None:
    name, settings = SPECIAL[case]
    check(name, tmp_path, **settings)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_dtypes(dtype: str, tmp_path: Path) -> None:
    check("qwen2", tmp_path, dtype=dtype, targets=["q_proj"], bias="lora_only", save=["lm_head"])


def test_a_dtype_that_is_asked_for(tmp_path: Path) -> None:
    tiny = MODELS["llama"]
    built = tiny.build().to(torch.bfloat16)
    config = {**built.config.to_dict(), "dtype": "bfloat16"}
    made = peft.get_peft_model(built, config_of({}), autocast_adapter_dtype=False)
    made.save_pretrained(tmp_path)
    assert ours(tiny, config, dtype="bf16").file_bytes == stored(tmp_path)[0]


def test_the_memory_of_a_training() -> None:
    tiny = MODELS["bert classifier"]
    built = tiny.build()
    adapter = ours(tiny, built.config.to_dict(), task_type="SEQ_CLS", method="dora")
    made = peft.get_peft_model(built, config_of({"task_type": "SEQ_CLS", "method": "dora"}))
    trained = [parameter for parameter in made.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained)
    made(
        torch.zeros((2, 5), dtype=torch.int64), labels=torch.zeros(2, dtype=torch.int64)
    ).loss.backward()
    optimizer.step()
    states = [state for held in optimizer.state.values() for state in held.values()]
    assert adapter.parameter_bytes == sum(parameter.nbytes for parameter in trained)
    assert adapter.parameter_bytes == sum(parameter.grad.nbytes for parameter in trained)
    assert adapter.optimizer_bytes == sum(state.nbytes for state in states)


def test_the_facts_are_those_of_peft() -> None:
    from peft.utils import constants
    from peft.utils import transformers_weight_conversion as conversion

    facts = data.read_toml("facts/lora.toml")
    mapping = constants.TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
    assert facts["default_targets"] == {
        family: f"re:{targets}" if isinstance(targets, str) else targets
        for family, targets in mapping.items()
    }
    assert facts["embeddings"] == constants.EMBEDDING_LAYER_NAMES
    assert facts["classifiers"] == constants.SEQ_CLS_HEAD_NAMES
    assert {*facts["tasks"]} == {task.value for task in peft.TaskType}
    families = dict[str, str]()
    for known, expert in facts["experts"].items():
        families |= dict.fromkeys(expert["families"], known)
        assert expert["names"] == conversion._MOE_TARGET_MODULE_MAPPING[known]
        assert expert["fused"] == conversion._MOE_FUSED_TARGETS[known]
    assert families == {
        family: known
        for family, known in conversion._MODEL_TO_CONVERSION_PATTERN.items()
        if known in conversion._MOE_TARGET_MODULE_MAPPING
    }


# Classes whose output head or linear modules have unusual names or classes.
UNUSUAL = {
    "dia": "DiaForConditionalGeneration",
    "deepseek_vl_hybrid": "DeepseekVLHybridForConditionalGeneration",
    "nemotron_asr_streaming": "NemotronAsrStreamingForRNNT",
    "electra": "ElectraForMaskedLM",
    "xlm": "XLMWithLMHeadModel",
    "siglip2_vision_model": "Siglip2VisionModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "phimoe": "PhimoeForCausalLM",
}


@pytest.mark.parametrize("family", UNUSUAL)
def test_all_linear_modules_of_unusual_classes(family: str) -> None:
    built = getattr(transformers, UNUSUAL[family])
    config = built.config_class()
    if family == "phimoe":
        config.num_hidden_layers = 2
    with torch.device("meta"):
        model = built(config)
    weighing = wb.weigh(config.to_dict(), UNUSUAL[family])
    assert weighing.parameters == sum(parameter.numel() for parameter in model.parameters())
    settings = {"r": 2, "bias": "lora_only"}
    adapter = lora_tensors(weighing.ledger, lora_settings(targets="all-linear", **settings))
    linear = peft.LoraConfig(target_modules="all-linear", **settings)
    made = peft.get_peft_model(model, linear, low_cpu_mem_usage=True)
    held = peft.get_peft_model_state_dict(made, save_embedding_layers=False)
    shapes = {tensor.row.name: tensor.row.shape for tensor in adapter.tensors}
    assert shapes == {name: tuple(tensor.shape) for name, tensor in held.items()}
    counts = (adapter.trainable_parameters, adapter.all_parameters)
    assert counts == made.get_nb_trainable_parameters()


class Kept:
    """A tensor that a graph saves; it dies with the graph."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


@pytest.mark.parametrize("is_dora", [False, True])
def test_an_adapter_saves_what_peft_s_saves(*, is_dora: bool) -> None:
    tokens, width, widths = 20, 64, {"query": 48, "value": 16}
    model = torch.nn.ModuleDict(
        {name: torch.nn.Linear(width, out, bias=False) for name, out in widths.items()}
    )
    model.forward = lambda states: [model[name](states) for name in widths]
    config = peft.LoraConfig(r=4, target_modules=list(widths), use_dora=is_dora)
    adapted = peft.get_peft_model(model.to(torch.bfloat16), config)
    graph: weakref.WeakSet[Kept] = weakref.WeakSet()

    def saved(tensor: Any) -> Kept:
        kept = Kept(tensor)
        graph.add(kept)
        return kept

    states = torch.randn(tokens, width, dtype=torch.bfloat16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(saved, lambda kept: kept.tensor):
        given = adapted(states)
    gc.collect()
    parameters = {one.untyped_storage().data_ptr() for one in adapted.parameters()}
    storages = {kept.tensor.untyped_storage().data_ptr(): kept.tensor for kept in graph}
    theirs = sum(
        tensor.untyped_storage().nbytes()
        for place, tensor in storages.items()
        if place not in parameters
    )
    inputs = tuple((name, width, 4) for name in widths)
    magnitudes = tuple(widths.items()) if is_dora else ()
    ours = Adapting((), "F32", 16, inputs, frozenset(), magnitudes)
    assert sum(ours.added_bytes(tokens, "BF16").values()) == theirs
    assert len(given) == len(widths)
