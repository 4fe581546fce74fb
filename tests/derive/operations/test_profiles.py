"""The kernels of CUDA on the meta device, against what an H200 kept with torch 2.11."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from weighbridge.costs.profiles import PROFILES
from weighbridge.derive.operations.profiles import kernels_of
from weighbridge.derive.operations.workload import Workload
from weighbridge.torch import measure

HEADS = [(2, 4, 37, 64)] * 3
LATENT = [(2, 4, 37, 192), (2, 4, 37, 192), (2, 4, 37, 128)]
FLASH = ["torch.bfloat16 37888"] * 4 + ["torch.float32 1184", "torch.uint64 16", "torch.uint64 8"]
SEEDS = ["torch.int64 8", "torch.int64 8"]
STATISTICS = "torch.float32 2048"  # of 37 positions, as of 64
EXPERTS, ROWS = 3, 5


def saved_by(profile: str, run: Any) -> list[str]:
    """Return the dtype and the bytes of each storage that a run keeps."""
    saved: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage._cdata] = (storage, f"{tensor.dtype} {storage.nbytes()}")
        return tensor

    with (
        kernels_of(PROFILES[profile]),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        run()
    return sorted(text for _, text in saved.values())


def attention(
    profile: str, shapes: list[tuple[int, ...]], mask: torch.Tensor | None, dropout: float
) -> list[str]:
    query, key, value = (
        torch.ones(shape, device="meta", dtype=torch.bfloat16, requires_grad=True)
        for shape in shapes
    )
    return saved_by(
        profile, lambda: functional.scaled_dot_product_attention(query, key, value, mask, dropout)
    )


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_flash_attention_keeps_what_the_device_kept(dropout: float) -> None:
    assert attention("cuda-flash", HEADS, None, dropout) == FLASH


@pytest.mark.parametrize(
    ("shapes", "mask", "kept"),
    [
        (HEADS, torch.bool, ["torch.bfloat16 37888"] * 4 + ["torch.bfloat16 5920"]),
        (HEADS, torch.bfloat16, ["torch.bfloat16 37888"] * 4 + ["torch.bfloat16 5920"]),
        (LATENT, None, ["torch.bfloat16 113664"] * 2 + ["torch.bfloat16 75776"] * 2),
    ],
)
def test_the_memory_efficient_kernel_keeps_what_the_device_kept(
    shapes: list[tuple[int, ...]], mask: torch.dtype | None, kept: list[str]
) -> None:
    given = None if mask is None else torch.ones(2, 1, 37, 37, device="meta", dtype=mask)
    assert attention("cuda-flash", shapes, given, 0.1) == sorted([*kept, STATISTICS, *SEEDS])


def test_a_mask_of_whole_rows_is_not_padded() -> None:
    shapes = [(2, 4, 64, 64)] * 3
    mask = torch.ones(1, 1, 64, 64, device="meta", dtype=torch.bfloat16)
    assert "torch.bfloat16 8192" in attention("cuda-flash", shapes, mask, 0.0)


def test_key_heads_that_are_repeated_silently_are_left_to_the_mathematical_form() -> None:
    shapes = [(1, 71, 37, 64), (1, 1, 37, 64), (1, 1, 37, 64)]
    mask = torch.ones(1, 1, 37, 37, device="meta", dtype=torch.bool)
    kept = attention("cuda-flash", shapes, mask, 0.0)
    assert f"torch.float32 {71 * 37 * 37 * 4}" in kept


@pytest.mark.parametrize("profile", ["cuda-math", "cuda-eager"])
def test_dropped_scores_leave_a_byte_each(profile: str) -> None:
    kept = attention(profile, [(2, 4, 64, 12)] * 3, None, 0.1)
    assert kept == [
        "torch.bool 32768",
        *["torch.float32 131072"] * 2,
        *["torch.float32 24576"] * 3,
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_of_groups_keep_where_each_group_ends(dtype: torch.dtype) -> None:
    from transformers.integrations import moe

    rows = torch.ones(ROWS, 8, device="meta", dtype=dtype, requires_grad=True)
    weights = torch.ones(EXPERTS, 8, 16, device="meta", dtype=dtype, requires_grad=True)
    ends = torch.ones(EXPERTS, device="meta", dtype=torch.int32)
    kept = saved_by("cuda-eager", lambda: moe._grouped_mm(rows, weights, offs=ends))
    assert f"torch.int32 {EXPERTS * 4}" in kept
    assert len(kept) == 3


@pytest.mark.parametrize(("dtype", "is_flash"), [("BF16", True), ("F32", False)])
def test_measuring_on_cuda_leaves_no_choice_of_kernels(dtype: str, *, is_flash: bool) -> None:
    run = Workload("LlamaForCausalLM", {}, 1, 8, attention="sdpa", dtype=dtype, device="cuda")
    with measure._kernels(run):
        assert torch.backends.cuda.flash_sdp_enabled() is is_flash
        assert torch.backends.cuda.math_sdp_enabled()
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    with measure._kernels(run._replace(attention="eager")):
        assert torch.backends.cuda.cudnn_sdp_enabled()
