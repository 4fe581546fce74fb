"""Holds predictions against what others measured.

The measurements are in ``tests/data``: ``megatron.tsv``, ``costs_measured.tsv``,
``serving_latency.tsv``. Nothing is fitted to them. ``tools/measured_page.py`` has the tables of
``docs/measured-by-others.md``.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import weighbridge as wb
from weighbridge.answers.serve import serve
from weighbridge.answers.train import train
from weighbridge.costs.activations import Held as SavedBytes
from weighbridge.costs.megatron import MegatronShape, activations, kept_bytes, padded_vocabulary
from weighbridge.costs.optimizers import optimizer_called, precision_called
from weighbridge.costs.parallel import ParallelDivision, ParallelPlan, Rank
from weighbridge.costs.training import TrainingStep, rank_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from weighbridge.answers.serve import Serving
    from weighbridge.answers.train import TrainingFit

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
NEAR, CLOSE, ROUGH = 0.02, 0.05, 0.12
_DEVICES = {"a100": "A100", "h100": "H100", "gb200": "GB200"}
_CLASSES = {
    "gpt2": "GPT2LMHeadModel",
    "EleutherAI/pythia-160m": "GPTNeoXForCausalLM",
    "bigcode/starcoder2-7b": "Starcoder2ForCausalLM",
    "meta-llama/Llama-3.1-8B": "LlamaForCausalLM",
}
_WORDS = 50257  # of GPT-2's vocabulary, which tests without another tokenizer read


class Held(NamedTuple):
    """A prediction and what was measured; ``reason`` says why there is no prediction."""

    name: str
    where: str
    quantity: str
    predicted: float
    measured: float
    reason: str = ""

    @property
    def ratio(self) -> float:
        """The prediction as a part of what was measured."""
        return self.predicted / self.measured

    @property
    def off(self) -> float:
        """How far the prediction is off, as a part of what was measured."""
        return abs(self.ratio - 1)


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a table in ``tests/data``."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


# Megatron-LM


def megatron() -> list[Held]:
    """Return all rows of Megatron-LM's tests: what stays between steps, and the most."""
    found = []
    for row in table("megatron.tsv"):
        name, where = row["case"], row["golden"]
        kept, most = float(row["kept"]), float(row["most"])
        reason = _not_predicted(row)
        if reason:
            found += [
                Held(name, where, "kept", 0, kept, reason),
                Held(name, where, "most", 0, most, reason),
            ]
            continue
        predicted = _kept_of(row)
        found.append(Held(name, where, "kept", predicted, kept))
        reason = _no_most(row)
        tops = [predicted + _activations_of(row, fused) for fused in _kernels(row)]
        if reason:
            nearest = min(tops, key=lambda top: abs(top - most))
            found.append(Held(name, where, "most, nearest kernel", nearest, most))
        top = 0 if reason else tops[0]
        found.append(Held(name, where, "most", top, most, reason))
    return found


def _not_predicted(row: dict[str, str]) -> str:
    """Return why a row is not predicted, or nothing."""
    for is_so, reason in (
        (not row["case"].startswith("gpt/"), "not a GPT"),
        ("grpo" in row["case"] or row["perform-rl-step"], "reinforcement learning"),
        (row["export-kd-cfg"], "a teacher is held beside the model"),
        (row["num-experts"], "experts"),
        (row["multi-latent-attention"], "latent attention"),
        (row["fp8-format"], "weights are kept in FP8 beside 16 bits"),
        (row["use-megatron-fsdp"] or row["use-torch-fsdp2"], "another FSDP"),
        (
            row["decoder-first-pipeline-num-layers"]
            or row["account-for-embedding-in-pipeline-split"],
            "stages of different sizes are chosen by hand",
        ),
        (row["hidden-size"] == "6144", "the number of devices is not in the recipes"),
        (_instances(row) not in (1, _copies(row)), "optimizer divided over a part of the copies"),
    ):
        if is_so:
            return reason
    return ""


def _no_most(row: dict[str, str]) -> str:
    if row["transformer-impl"] == "local" or row["attention-backend"]:
        return ""
    return "the kernel of attention is not stated"


def _kernels(row: dict[str, str]) -> tuple[bool, ...]:
    """Return whether attention may be fused, or not, or either if that is not stated."""
    if row["transformer-impl"] == "local":
        return (False,)
    given = row["attention-backend"]
    return (given == "flash",) if given else (True, False)


def _number(row: dict[str, str], name: str, otherwise: int = 1) -> int:
    return int(row[name] or otherwise)


def _instances(row: dict[str, str]) -> int:
    return _number(row, "num-distributed-optimizer-instances")


def _copies(row: dict[str, str]) -> int:
    parts = _number(row, "tensor-model-parallel-size") * _number(
        row, "pipeline-model-parallel-size"
    )
    return int(row["world"]) // parts


def _plan(row: dict[str, str]) -> ParallelPlan:
    tensor = _number(row, "tensor-model-parallel-size")
    stages = _number(row, "pipeline-model-parallel-size")
    context = _number(row, "context-parallel-size")
    per_piece = row["num-layers-per-virtual-pipeline-stage"]
    chunks = _number(row, "num-virtual-stages-per-pipeline-rank")
    if per_piece and stages > 1:
        chunks = int(row["num-layers"]) // stages // int(per_piece)
    is_divided = row["use-distributed-optimizer"] and _instances(row) == 1
    return ParallelPlan(
        tensor,
        stages,
        context,
        data=int(row["world"]) // (tensor * stages * context),
        zero=int(bool(is_divided)),
        schedule="interleaved" if chunks > 1 else "1f1b",
        chunks=chunks,
        sequence_parallel=bool(row["sequence-parallel"]) and tensor > 1,
    )


def _shape(row: dict[str, str]) -> MegatronShape:
    hidden, heads = int(row["hidden-size"]), int(row["num-attention-heads"])
    gated = bool(row["swiglu"])
    # megatron/training/arguments.py: 4 h, or two thirds of it if there is a gate.
    inner = 4 * hidden * 2 // 3 // 64 * 64 if gated else 4 * hidden
    return MegatronShape(
        int(row["num-layers"]),
        hidden,
        heads,
        _number(row, "num-query-groups", heads),
        _number(row, "ffn-hidden-size", inner),
        padded_vocabulary(
            _number(row, "vocab-size", _WORDS), _number(row, "tensor-model-parallel-size")
        ),
        int(row["seq-length"]),
        int(row["micro-batch-size"]),
        gated=gated,
        dropout=row["hidden-dropout"] not in ("0", "0.0"),
    )


def _device(row: dict[str, str]) -> str:
    return next((name for key, name in _DEVICES.items() if key in row["golden"]), "A100")


def _config(row: dict[str, str], shape: MegatronShape) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """Return a model with the same tensors, and its fields.

    LayerNorm's biases are missing where there is a gate; they are a thousandth of the parameters.
    """
    tied = not row["untie-embeddings-and-output-weights"]
    general = {
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "intermediate_size": shape.feed_forward,
        "vocab_size": shape.vocabulary,
        "tie_word_embeddings": tied,
    }
    if shape.gated or shape.grouped_heads != shape.heads:
        has_bias = not row["disable-bias-linear"]
        grouped = {
            "num_key_value_heads": shape.grouped_heads,
            "head_dim": shape.hidden // shape.heads,
        }
        if shape.gated:
            biases = {"attention_bias": has_bias, "mlp_bias": has_bias}
            return "meta-llama/Llama-3.1-8B", tuple({**general, **grouped, **biases}.items())
        return "bigcode/starcoder2-7b", tuple({**general, **grouped}.items())
    if row["position-embedding-type"] == "rope":
        return "EleutherAI/pythia-160m", tuple(general.items())
    sizes = {"n_embd": shape.hidden, "n_head": shape.heads, "n_layer": shape.layers}
    more = {"n_positions": shape.sequence, "vocab_size": shape.vocabulary}
    return "gpt2", tuple({**sizes, **more, "tie_word_embeddings": tied}.items())


@cache
def _division(model: str, fields: tuple[tuple[str, Any], ...]) -> ParallelDivision:
    return ParallelDivision(wb.weigh(model, _CLASSES[model], fields=dict(fields)).ledger)


def _states(row: dict[str, str], plan: ParallelPlan, shape: MegatronShape) -> int:
    """Return the bytes of the states on the last rank, which is the one that logs."""
    precision = precision_called("megatron-fp16" if row["fp16"] else "megatron")
    optimizer, nothing = optimizer_called("adamw-fused"), SavedBytes({0: 0}, 0, 0)
    step = TrainingStep(plan, precision, optimizer, 1, nothing, 0, nothing)
    last = Rank(plan.tensor - 1, plan.copies - 1, plan.pipeline - 1)
    return sum(rank_memory(_division(*_config(row, shape)), step, last).states.values())


def _kept_of(row: dict[str, str]) -> float:
    plan, shape = _plan(row), _shape(row)
    return _states(row, plan, shape) + kept_bytes(
        shape,
        plan,
        plan.pipeline - 1,
        _device(row),
        engine=row["transformer-impl"] != "local",
        deterministic=bool(row["cublas"]),
        image=row["image"],
    )


def _activations_of(row: dict[str, str], fused: bool) -> int:  # noqa: FBT001  # of one kernel
    plan, shape = _plan(row), _shape(row)._replace(fused=fused)
    micro_batches = _number(row, "global-batch-size") // (shape.micro_batch * plan.data)
    again = row["recompute-granularity"] == "full"
    return activations(
        shape,
        plan,
        plan.pipeline - 1,
        micro_batches,
        again=again,
        group=_number(row, "microbatch-group-size-per-virtual-pipeline-stage", 0) or None,
        deferred=_number(row, "wgrad-deferral-limit", 0),
    )


# PyTorch's FSDP, and peft


def of_torch() -> list[Held]:
    """Return the peaks of torchtitan and of peft's LoRA."""
    found = []
    for row in table("costs_measured.tsv"):
        if row["kind"] == "train-memory":
            found.append(_of_torchtitan(row))
        if row["kind"] == "lora-memory":
            found.append(_of_lora(row))
    return found


def _of_torchtitan(row: dict[str, str]) -> Held:
    """Return the peak of Llama-3.1-70B by FSDP over 32 and tensor parallel over 8."""
    fit = train(
        f"meta-llama/{row['model']}",
        on="256xH100",
        batch=32 * 16,
        micro_batch=16,
        sequence=8192,
        tp=8,
        zero=3,
        sequence_parallel=True,
        precision="fsdp",
        checkpointing="full",
        optimizer="adamw-fused",
    )
    name = f"{row['model']}, {row['setup']}"
    return Held(name, row["device"], "peak", fit.peak_bytes, float(row["value"]) * 2**30)


def _of_lora(row: dict[str, str]) -> Held:
    """Return the peak of LoRA on 4 sequences of 768 tokens at most, as peft compares methods."""
    measured = re.search(r"lora--(\S+)-rank(\d+)(?:-(\S+))?\.json", row["setup"])
    is_lora = row["setup"].startswith("LORA")
    if not is_lora or not measured:
        return Held(row["setup"], row["device"], "peak", 0, float(row["value"]), "another method")
    rank, more = measured[2], measured[3] or ""
    targets = "gate,up,down" if "mlp" in more else "q,v"
    setting = f"r={rank},targets={targets}" + (",method=dora" if "dora" in more else "")
    peak = train(
        row["model"], on="1xL40S", batch=4, sequence=768, precision="bf16", lora=setting
    ).peak_bytes
    return Held(f"{row['model']}, {setting}", row["device"], "peak", peak, float(row["value"]))


# The cache of vLLM


def caches() -> list[Held]:
    """Return the tokens for which engines said they have room."""
    found = []
    for row in table("costs_measured.tsv"):
        if row["kind"] != "serve-kv":
            continue
        memory = re.search(r"at ([\d.]+) (GiB)", row["quantity"])
        parts = re.search(r"TP(\d)", row["setup"])
        tensor = int(parts[1]) if parts else 1
        name, value = f"{row['model']}, {row['setup']}", float(row["value"])
        if "SGLang" in row["setup"]:
            memory = re.search(r"V (8.23) (GB)", row["quantity"])
        if memory is None:
            found.append(Held(name, row["device"], "tokens", 0, value, "its bytes are not stated"))
            continue
        pair = 2 if "SGLang" in row["setup"] else 1  # keys and values apart, in GiB
        fit = serve(
            f"Qwen/{row['model'].removesuffix('-FP8')}",
            on=f"{tensor}xH100",
            context=4096,
            tp=tensor,
            engine="plain" if pair > 1 else "vllm",
            cache_memory=f"{pair * float(memory[1])}GiB",
        )
        found.append(Held(name, row["device"], "tokens", fit.cache_tokens, value))
    return found


# Bounds on time, which nothing beats


def bounds() -> list[Held]:
    """Return bounds on time with what was measured; the ratio is at most 1 if a bound holds."""
    readers: dict[str, Callable[[dict[str, str]], Held]] = {
        "serve-throughput": _of_full_load,
        "serve-latency": _of_latency,
        "train-mfu": _of_training,
        "train-time": _of_training,
        "train-throughput": _of_training,
    }
    rows = table("costs_measured.tsv")
    return [
        *(_of_service(row) for row in table("serving_latency.tsv")),
        *(readers[row["kind"]](row) for row in rows if row["kind"] in readers),
    ]


def _of_service(row: dict[str, str]) -> Held:
    name = f"{row['model']}, {row['input_tokens']} in, {row['output_tokens']} out"
    where = f"{row['devices']}x{row['device']}, {row['dtype']}"
    value = float(row["value"])
    reason = not_served(row)
    if reason:
        return Held(name, where, row["unit"], 0, value, reason)
    on, inputs, dtype = f"{row['devices']}x{row['device']}", int(row["input_tokens"]), row["dtype"]
    if row["unit"] == "ms":
        fit = service(row["model"], on, inputs, 1, dtype)
        return Held(name, where, "s", fit.prefill_bound.seconds, value / 1000)
    rate = value * (int(row["devices"]) if "for each" in row["unit"] else 1)
    batch = int(row["batch"]) if row["batch"] else None
    seconds = _least_seconds(row["model"], on, inputs, int(row["output_tokens"]), batch, dtype)
    return Held(name, where, "s for each token", seconds, 1 / rate)


def not_served(row: dict[str, str]) -> str:
    """Return why `serve` says nothing about a row of `serving_latency.tsv`, or nothing."""
    if row["model"].startswith("EleutherAI"):
        return "no operations recorded"
    if row["model"].startswith("tiiuae") and row["dtype"] == "F8":
        return "its matrices are not packed in FP8"
    return ""


@cache
def service(model: str, on: str, context: int, batch: int, dtype: str) -> Serving:
    """Return a service as engines measure it: a cache in FP8 if products are in 8 bits or less."""
    return _first_service(model, on, dtype).at(context, batch)


@cache
def _first_service(model: str, on: str, dtype: str) -> Serving:
    eight_or_less = dtype in ("F8", "F4")
    words = {"F8": "fp8", "F4": "nvfp4", "F16": "f16", "BF16": "bf16"}
    return serve(
        model,
        on=on,
        context=2,
        weights=words[dtype],
        cache="fp8" if eight_or_less else "bf16",
    )


def _least_seconds(
    model: str, on: str, inputs: int, outputs: int, batch: int | None, dtype: str
) -> float:
    """Return the least seconds for each token that is given out.

    Prompts and tokens of other sequences may be computed at once, so compute and memory are each
    summed, and the larger counts. Every token is as cheap as the first.
    """
    number = batch or max(1, service(model, on, inputs, 1, dtype).largest_batch)
    step = service(model, on, inputs, number, dtype).step_bound
    prompt = service(model, on, inputs, 1, dtype).prefill_bound
    compute = step.compute / number + prompt.compute / outputs
    return max(compute, (step.memory or 0) / number)


def _of_full_load(row: dict[str, str]) -> Held:
    lengths = re.search(r"ISL/OSL (\d+)/(\d+) \S+ TP(\d) FP(\d)", row["setup"])
    if lengths is None:
        raise ValueError(row["setup"])
    inputs, outputs, devices, bits = map(int, lengths.groups())
    on = f"{devices}x{row['device']}"
    model, dtype = f"meta-llama/{row['model']}", f"F{bits}"
    seconds = _least_seconds(model, on, inputs, outputs, None, dtype)
    name = f"{row['model']}, {inputs} in, {outputs} out"
    return Held(name, f"{on}, {dtype}", "s for each token", seconds, 1 / float(row["value"]))


def _of_latency(row: dict[str, str]) -> Held:
    given = re.search(r"ISL(\d+) OSL(\d+) batch(\d+) TP(\d)", row["setup"])
    if given is None:
        raise ValueError(row["setup"])
    inputs, _, batch, devices = given.groups()
    dtype = dtype_of(row["setup"])
    device = row["device"].partition("_")[0].upper()
    on = f"{devices}x{device}"
    name = f"{row['model']}, {row['setup']}"
    seconds = float(row["value"]) / 1000
    if dtype == "F4" and device != "B200":
        return Held(name, on, "s", 0, seconds, "its products are in another dtype than its weights")
    model = row["model"].removesuffix("-Instruct")
    if row["quantity"] == "TTFT":
        bound = service(model, on, int(inputs), 1, dtype).prefill_bound
    else:
        bound = service(model, on, int(inputs), int(batch), dtype).step_bound
    return Held(name, f"{on}, {dtype}, {row['quantity']}", "s", bound.seconds, seconds)


def _of_training(row: dict[str, str]) -> Held:
    name = f"{row['model']}, {row['setup']}"
    reason = _not_trained(row)
    if reason:
        return Held(name, row["device"], "s", 0, float(row["value"]), reason)
    fit, seconds = trained(row)
    return Held(name, row["device"], "s", fit.bound.seconds, seconds)


def _not_trained(row: dict[str, str]) -> str:
    """Return why the time of a training is not predicted, or nothing."""
    if row["kind"] == "train-throughput" or "fp8" in row["setup"]:
        return "training in FP8 is not predicted"
    return ""


def trained(row: dict[str, str]) -> tuple[TrainingFit, float]:
    """Return a training whose time was measured, and the seconds of a step."""
    if row["model"].startswith("MPT"):
        return _of_mpt(row)
    return _of_share(row) if row["kind"] == "train-mfu" else _of_step(row)


def trainings() -> list[tuple[dict[str, str], TrainingFit, float]]:
    """Return all trainings whose time was measured and is predicted."""
    rows = table("costs_measured.tsv")
    kinds = ("train-mfu", "train-time")
    some = [row for row in rows if row["kind"] in kinds and not _not_trained(row)]
    return [(row, *trained(row)) for row in some]


_MPT = {
    "125m": (768, 12, 12),
    "1b": (2048, 24, 16),
    "3b": (2560, 32, 20),
    "7b": (4096, 32, 32),
    "13b": (5120, 40, 40),
    "30b": (7168, 48, 56),
}
"""Width, layers and heads (llm-foundry, scripts/train/yamls/pretrain)."""
_MPT_DEVICES = {"h100_80gb": "H100", "a100_80gb": "A100-80GB", "a100_40gb": "A100-40GB"}
_MPT_SETUP = re.compile(
    r"seq(\d+) gpus(\d+) microbatch(\d+) accum\d+ gbs(\d+) \S+ (\S+) actckpt=(\w+)"
)


def _of_mpt(row: dict[str, str]) -> tuple[TrainingFit, float]:
    """Return MPT in llm-foundry, as GPT-2 of the same sizes, whose matrices are the same.

    Utilisation is by 6 FLOPs for each parameter and token, and attention without a mask
    (llm-foundry, scripts/train/benchmarking/collect_results.py).
    """
    width, layers, heads = _MPT[row["model"].removeprefix("MPT-")]
    given = _MPT_SETUP.search(row["setup"])
    if given is None:
        raise ValueError(row["setup"])
    sequence, devices, micro_batch, batch = map(int, given.groups()[:4])
    sizes = {"n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": sequence}
    fit = train(
        "gpt2",
        fields={**sizes, "vocab_size": 50368},
        on=f"{devices}x{_MPT_DEVICES[row['device']]}",
        batch=batch,
        micro_batch=micro_batch,
        sequence=sequence,
        zero=3 if given[5] == "FULL_SHARD" else 2,
        checkpointing="full" if given[6] == "True" else "none",
        precision="fsdp",
    )
    of_token = 6 * fit.found.weighing.parameters + 12 * layers * width * sequence
    peak = fit.devices.device.peaks["BF16"] * devices
    return fit, of_token * sequence * batch / (float(row["value"]) / 100 * peak)


def _of_share(row: dict[str, str]) -> tuple[TrainingFit, float]:
    given = re.search(r"gpus(\d+) TP(\d+) CP(\d+) PP(\d+)", row["setup"])
    if given is None:
        raise ValueError(row["setup"])
    devices, tensor, context, stages = map(int, given.groups())
    sequence = 8192 * context  # 131,072 with context parallelism over 16
    fit = train(
        f"meta-llama/{row['model']}",
        on=f"{devices}xH100",
        batch=2**24 // sequence,
        micro_batch=1,
        sequence=sequence,
        tp=tensor,
        cp=context,
        pp=stages,
        schedule="interleaved",
        chunks=7,  # as many as 126 layers on 16 stages allow
        sequence_parallel=True,
    )
    peak = fit.devices.device.peaks["BF16"]
    needed = fit.model_flops_utilisation * fit.bound.seconds * peak  # of a device
    return fit, needed / (float(row["value"]) * 1e12)


def dtype_of(setup: str) -> str:
    """Return the dtype of the weights in a setting such as "trtllm  fp8 ISL1024 …"."""
    bits = re.search(r"\b(fp\d)\b", setup)
    return {"fp8": "F8", "fp4": "F4"}[bits[1]] if bits else "BF16"


_GPT = {"22B": (48, 6144, 64), "530B": (105, 20480, 128)}


def _of_step(row: dict[str, str]) -> tuple[TrainingFit, float]:
    layers, hidden, heads = _GPT[row["model"].rpartition(" ")[2]]
    nodes = re.search(r"nodes (\d+)", row["setup"])
    stages = 1 if row["model"].endswith("22B") else 35
    is_interleaved = stages > 1 and not nodes
    batch = {1: 4, 35: 1920 if nodes else 280}[stages]
    is_selective = "selective" in row["setup"]
    fit = train(
        "gpt2",
        fields={
            "n_layer": layers,
            "n_embd": hidden,
            "n_head": heads,
            "n_positions": 2048,
            "vocab_size": 51200,
        },
        on=f"{int(nodes[1]) * 8 if nodes else 8 * stages}xA100-80GB",
        batch=batch,
        micro_batch=4 if stages == 1 else 1,
        sequence=2048,
        tp=8,
        pp=stages,
        schedule="interleaved" if is_interleaved else "1f1b",
        chunks=3 if is_interleaved else 1,
        sequence_parallel=is_selective,  # the baselines have neither
        checkpointing="selective" if is_selective else "full",
    )
    return fit, float(row["value"])


# Summaries


class Summary(NamedTuple):
    """How far some predictions are off: shares of them, the median, and the 90th percentile."""

    number: int
    near: float
    close: float
    rough: float
    median: float
    p90: float
    most: float


def summary(rows: Iterable[Held]) -> Summary:
    """Return how far predictions are off; rows without one are left out."""
    off = sorted(row.off for row in rows if not row.reason)
    near, close, rough = (
        sum(one <= limit for one in off) / len(off) for limit in (NEAR, CLOSE, ROUGH)
    )
    return Summary(
        len(off),
        near,
        close,
        rough,
        median(off),
        off[min(len(off) - 1, int(0.9 * len(off)))],
        off[-1],
    )


# All of it


def outcomes() -> tuple[list[Held], dict[str, Sequence[Held]]]:
    """Return everything that was held against a prediction."""
    return megatron(), {"torch": of_torch(), "caches": caches(), "bounds": bounds()}
