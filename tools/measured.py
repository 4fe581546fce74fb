"""Holds predictions against what others measured, and writes ``docs/measured-by-others.md``.

Run it as ``python tools/measured.py``. The measurements are in ``tests/data``: ``megatron.tsv``,
``costs_measured.tsv``, ``serving_latency.tsv``. Nothing is fitted to them.
"""

from __future__ import annotations

import csv
import re
import sys
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
from weighbridge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
PAGE = ROOT / "docs" / "measured-by-others.md"
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
        top = 0 if reason else predicted + _activations_of(row)
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
        fused=row["attention-backend"] == "flash",
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
    )


def _activations_of(row: dict[str, str]) -> int:
    plan, shape = _plan(row), _shape(row)
    micro_batches = _number(row, "global-batch-size") // (shape.micro_batch * plan.data)
    again = row["recompute-granularity"] == "full"
    return activations(shape, plan, plan.pipeline - 1, micro_batches, again=again)


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
    shares = (sum(one <= limit for one in off) / len(off) for limit in (NEAR, CLOSE, ROUGH))
    return Summary(
        len(off), *shares, median(off), off[min(len(off) - 1, int(0.9 * len(off)))], off[-1]
    )
