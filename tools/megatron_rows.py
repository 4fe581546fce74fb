"""Writes what Megatron-LM's functional tests measured, with the settings of each test.

Run it as ``python tools/megatron_rows.py GOLDEN REPOSITORY > tests/data/megatron.tsv``: GOLDEN is a
table of their golden values (case, golden, mem_allocated_bytes_last, mem_max_allocated_bytes),
REPOSITORY a clone of https://github.com/NVIDIA/Megatron-LM, whose HEAD is read. Needs PyYAML.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CASES = "tests/functional_tests/test_cases"
ARGUMENTS = [
    "num-layers",
    "hidden-size",
    "ffn-hidden-size",
    "num-attention-heads",
    "num-query-groups",
    "seq-length",
    "micro-batch-size",
    "global-batch-size",
    "tensor-model-parallel-size",
    "pipeline-model-parallel-size",
    "context-parallel-size",
    "num-layers-per-virtual-pipeline-stage",
    "num-virtual-stages-per-pipeline-rank",
    "sequence-parallel",
    "use-distributed-optimizer",
    "num-distributed-optimizer-instances",
    "recompute-granularity",
    "bf16",
    "fp16",
    "fp8-format",
    "attention-backend",
    "transformer-impl",
    "swiglu",
    "untie-embeddings-and-output-weights",
    "position-embedding-type",
    "disable-bias-linear",
    "hidden-dropout",
    "attention-dropout",
    "tokenizer-type",
    "vocab-size",
    "num-experts",
    "expert-model-parallel-size",
    "multi-latent-attention",
    "use-megatron-fsdp",
    "use-torch-fsdp2",
    "decoder-first-pipeline-num-layers",
    "account-for-embedding-in-pipeline-split",
    "microbatch-group-size-per-virtual-pipeline-stage",
    "wgrad-deferral-limit",
    "cross-entropy-loss-fusion",
    "export-kd-cfg",
    "perform-rl-step",
]
_WORLDS = {True: 4, False: 8}  # recipes/gb200/*-1node.yaml has 4 devices, all others 8


def main(golden: str, repository: str) -> None:
    """Write the table."""
    writer = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
    writer.writerow(("case", "golden", "kept", "most", "world", "image", "cublas", *ARGUMENTS))
    with Path(golden).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            config = _config(repository, row["case"])
            arguments = config.get("MODEL_ARGS") or {}
            given = [_word(arguments.get(f"--{name}")) for name in ARGUMENTS]
            cublas = (config.get("ENV_VARS") or {}).get("CUBLAS_WORKSPACE_CONFIG", "")
            world = _WORLDS["1node" in row["case"]]
            memory = (row["mem_allocated_bytes_last"], row["mem_max_allocated_bytes"])
            image = image_of(repository, row["case"], row["golden"])
            writer.writerow((row["case"], row["golden"], *memory, world, image, cublas, *given))


def image_of(repository: str, case: str, golden: str) -> str:
    """Return the image of PyTorch that a file of golden values was measured in, such as "26.04".

    It is that of the commit since which the file has the same memory.
    """
    path = f"{CASES}/{case}/golden_values_{golden}.json"
    commits = _git(repository, "log", "--format=%H", "HEAD", "--", path).split()
    measured = commits[0]
    for commit in commits[1:]:
        if _memory(repository, commit, path) != _memory(repository, measured, path):
            break
        measured = commit
    kind = "lts" if golden.startswith("lts") else "dev"
    name = _git(repository, "show", f"{measured}:docker/.ngc_version.{kind}")
    return name.strip().rpartition(":")[2].removesuffix("-py3")


def _memory(repository: str, commit: str, path: str) -> dict[str, Any]:
    golden = json.loads(_git(repository, "show", f"{commit}:{path}") or "{}")
    return {name: _steps(value) for name, value in golden.items() if name.startswith("mem-")}


def _steps(value: dict[str, Any]) -> Any:
    """Return what was measured at each step, without the limits of the test."""
    return value.get("values", value)


def _git(repository: str, *words: str) -> str:
    run = ["git", "-C", repository, *words]
    return subprocess.run(run, capture_output=True, check=False, text=True).stdout


def _config(repository: str, case: str) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415  # only this script needs it

    where = f"HEAD:{CASES}/{case}/model_config.yaml"
    text = subprocess.run(
        ["git", "-C", repository, "show", where], capture_output=True, check=True, text=True
    ).stdout
    config: dict[str, Any] = yaml.safe_load(text)
    return config


def _word(value: object) -> str:
    if value is None or value is False:
        return ""
    return str(value).lower() if value is True else str(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
