"""The matrix products that an operator computes: one rule for each operator that multiplies.

A product has four numbers: ``batch`` matrices ``rows`` × ``inner``, times as many ``inner`` ×
``columns``. A convolution is such a product: each position of its output is a row, and the groups
are the batch. An operator that multiplies and has no rule is an error, never a zero.
"""

from __future__ import annotations

import re
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from weighbridge.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Factors = tuple[int, int, int, int]
    """Batch, rows, inner and columns."""
    Rule = Callable[..., list[Factors]]

_ATEN = torch.ops.aten

# Operators whose names look like those of products. Each needs a rule in `RULES`.
_MULTIPLIES = re.compile(
    r"(^|_)(mm|mv|bmm|dot|vdot|ger|outer|matmul|einsum|linear|bilinear|trilinear|lstm|gru|rnn|"
    r"cdist|fft|linalg|tensordot|chain_matmul|kron)(_|$)|addmm|addmv|baddbmm|addbmm|addr$|conv|"
    r"attention|grouped_mm|scaled_mm|int_mm"
)
_ONLY_NAMED_SO = {"linalg_vector_norm", "linalg_norm"}
_KNOWN_NAMESPACES = {"aten", "prim", "prims", "profiler", "autograd", "inductor", "debugprims"}


def _of_two(left: torch.Tensor, right: torch.Tensor) -> list[Factors]:
    batch = left.shape[0] if left.dim() == 3 else 1
    return [(batch, left.shape[-2], left.shape[-1], right.shape[-1])]


def _added(_: Any, left: torch.Tensor, right: torch.Tensor, **__: Any) -> list[Factors]:
    return _of_two(left, right)


def _of_vector(matrix: torch.Tensor, _: torch.Tensor) -> list[Factors]:
    return [(1, matrix.shape[0], matrix.shape[1], 1)]


def _of_vectors(vector: torch.Tensor, _: torch.Tensor) -> list[Factors]:
    return [(1, 1, vector.shape[0], 1)]


def _grouped(left: torch.Tensor, right: torch.Tensor, *_: Any, **__: Any) -> list[Factors]:
    """Each row is multiplied by the matrix of its group, or each group's rows by its columns."""
    return [(1, left.shape[-2], left.shape[-1], right.shape[-1])]


def _grouped_backward(
    left: torch.Tensor, _weight: torch.Tensor, _: torch.Tensor, gradient: torch.Tensor
) -> list[Factors]:
    rows, inner = left.shape
    columns = gradient.shape[-1]
    return [(1, rows, columns, inner), (1, inner, rows, columns)]


def _convolved(  # noqa: PLR0913, PLR0917  # the operator's own signature
    given: torch.Tensor,
    weight: torch.Tensor,
    _bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,  # noqa: FBT001
    _output_padding: Any,
    groups: int,
    *_: Any,
) -> list[Factors]:
    positions: Sequence[int] = given.shape[2:]
    if not transposed:
        positions = _positions(given.shape[2:], weight.shape[2:], stride, padding, dilation)
    return [_convolution(given.shape[0], positions, weight, groups, transposed=transposed)]


def _positions(
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """Return the size of a convolution's output."""
    positions = []
    for dim, length in enumerate(size):
        reach = dilation[dim % len(dilation)] * (kernel[dim] - 1) + 1
        room = length + 2 * padding[dim % len(padding)] - reach
        positions.append(room // stride[dim % len(stride)] + 1)
    return positions


def _convolution(
    batch: int, positions: Sequence[int], weight: torch.Tensor, groups: int, *, transposed: bool
) -> Factors:
    outputs, inputs = weight.shape[0] // groups, weight.shape[1] * prod(weight.shape[2:])
    if transposed:
        inputs, outputs = weight.shape[0] // groups, weight.shape[1] * prod(weight.shape[2:])
    return groups, batch * prod(positions), inputs, outputs


def _convolved_backward(  # the operator's own signature
    gradient: torch.Tensor,
    given: torch.Tensor,
    weight: torch.Tensor,
    _sizes: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,  # noqa: FBT001
    _output_padding: Any,
    groups: int,
    mask: Sequence[bool],
) -> list[Factors]:
    """The same multiplications as in the forward pass, for each gradient that is asked for."""
    positions = (given if transposed else gradient).shape[2:]
    forward = _convolution(given.shape[0], positions, weight, groups, transposed=transposed)
    batch, rows, inner, columns = forward
    factors = []
    if mask[0]:
        factors.append((batch, rows, columns, inner))
    if mask[1]:
        factors.append((batch, inner, rows, columns))
    return factors


def _attended(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any
) -> Any:
    heads = prod(query.shape[:-2])
    queries, keys = query.shape[-2], key.shape[-2]
    return [
        (heads, queries, query.shape[-1], keys),
        (heads, queries, keys, value.shape[-1]),
    ]


def _attended_backward(
    _: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *__: Any, **___: Any
) -> list[Factors]:
    """The four products of the mathematics; kernels compute the first one of the forward again."""
    heads = prod(query.shape[:-2])
    queries, keys = query.shape[-2], key.shape[-2]
    return [
        (heads, queries, value.shape[-1], keys),
        (heads, keys, queries, value.shape[-1]),
        (heads, queries, keys, query.shape[-1]),
        (heads, keys, queries, query.shape[-1]),
    ]


def _solved(matrix: torch.Tensor, given: torch.Tensor, **options: Any) -> list[Factors]:
    """A triangular system, solved row by row: each row is multiplied with those before it."""
    rows = matrix.shape[-1]
    columns = given.shape[-1 if options.get("left", True) else -2]
    return [(prod(given.shape[:-2]), rows * (rows - 1) // 2, 1, columns)]


RULES: dict[str, Rule] = {
    "mm": lambda left, right, **_: _of_two(left, right),
    "bmm": lambda left, right, **_: _of_two(left, right),
    "addmm": _added,
    "baddbmm": _added,
    "mv": _of_vector,
    "linalg_solve_triangular": _solved,
    "dot": _of_vectors,
    "_grouped_mm": _grouped,
    "grouped_mm_fallback": _grouped,
    "grouped_mm_fallback_backward": _grouped_backward,
    "convolution": _convolved,
    "convolution_backward": _convolved_backward,
    "_scaled_dot_product_flash_attention": _attended,
    "_scaled_dot_product_flash_attention_backward": _attended_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attended,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attended_backward,
    "_scaled_dot_product_efficient_attention": _attended,
    "_scaled_dot_product_efficient_attention_backward": _attended_backward,
}
"""The products of each operator, from its arguments."""


def products_of(packet: Any, arguments: Sequence[Any], keywords: Any) -> list[Factors]:
    """Return the products that an operator computes; none if it does not multiply matrices.

    Raises:
        ModelError: it multiplies, or may do so, and there is no rule for it.

    Example:
        >>> products_of(torch.ops.aten.mm, (torch.ones(2, 3), torch.ones(3, 4)), {})
        [(1, 2, 3, 4)]
        >>> products_of(torch.ops.aten.linalg_lstsq, (torch.ones(2),), {})
        Traceback (most recent call last):
        weighbridge.errors.ModelError: aten::linalg_lstsq multiplies, and has no rule.
        Write one in derive/operations/products.py.
    """
    rule = _rule_of(packet)
    return rule(*arguments, **(keywords or {})) if rule else []


@cache
def _rule_of(packet: Any) -> Rule | None:
    """Return the rule of an operator that multiplies matrices; None if it does not."""
    namespace, _, name = packet._qualified_op_name.partition("::")
    if name in RULES:
        return RULES[name]
    if namespace not in _KNOWN_NAMESPACES or (
        _MULTIPLIES.search(name) and name not in _ONLY_NAMED_SO
    ):
        raise ModelError(
            f"{namespace}::{name} multiplies, and has no rule",
            hint="write one in derive/operations/products.py",
        )
    return None
