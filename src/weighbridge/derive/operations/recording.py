"""Records one run of a module: its matrix products, and the tensors that it saves for backward.

The module itself runs, on real kernels. Everything is recorded with the innermost module in which
it happened; in the backward pass this is the module whose forward pass created the graph node that
runs.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from weighbridge.derive.operations.products import products_of
from weighbridge.derive.probing.known_results import dispatched, with_zeros, zeros
from weighbridge.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn
    from torch.utils.hooks import RemovableHandle


class Matmul(NamedTuple):
    """``batch`` matrices ``rows`` × ``inner``, times ``batch`` matrices ``inner`` × ``columns``."""

    path: str
    batch: int
    rows: int
    inner: int
    columns: int


class Saved(NamedTuple):
    """A tensor that is saved for the backward pass, with the dims of its storage.

    If the storage holds more than the tensor, it has one dim: its number of elements.
    """

    path: str
    dtype: str
    dims: tuple[int, ...]
    bytes: int


class Recording(NamedTuple):
    """The operations of one run.

    ``recomputed`` are the products of the forward pass that the backward pass computes again.
    """

    forward: list[Matmul]
    backward: list[Matmul]
    saved: list[Saved]
    recomputed: list[Matmul]

    @property
    def saved_bytes(self) -> int:
        """The bytes that are saved for backward, each storage once."""
        return sum(tensor.bytes for tensor in self.saved)


class Recorder:
    """Records the run of a module.

    Its parameters and buffers do not count as saved tensors; its inputs do. ``computes`` is false
    where values do not matter, on the CPU: numbers are then zeros, which takes little time.

    Example:
        >>> linear, given = torch.nn.Sequential(torch.nn.Linear(3, 4)), torch.ones(2, 3)
        >>> recorder = Recorder(linear)
        >>> with recorder.running():
        ...     loss = (linear(given) ** 2).sum()
        >>> with recorder.returning():
        ...     loss.backward()
        >>> recorder.recording.forward, [tensor.dims for tensor in recorder.recording.saved]
        ([Matmul(path='0', batch=1, rows=2, inner=3, columns=4)], [(2, 3), (2, 4)])
        >>> recorder.recording.backward
        [Matmul(path='0', batch=1, rows=4, inner=2, columns=3)]
    """

    def __init__(self, module: nn.Module, *, computes: bool = True) -> None:
        self.module, self._computes = module, computes
        self.recording = Recording([], [], [], [])
        self._stack = [""]
        self._passed: list[tuple[int, str]] = [(0, "")]
        held = [*module.parameters(), *module.buffers()]
        self._storages = {
            tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in held
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record the forward pass, and the computation of the loss after it."""
        with (
            self._followed(),
            _Products(lambda: (self.recording.forward, self._stack[-1]), computes=self._computes),
            torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack),
        ):
            yield

    @contextmanager
    def returning(self) -> Iterator[None]:
        """Record the backward pass, and what it computes again of the forward pass."""
        with self._followed(), _Products(self._in_backward, computes=self._computes):
            yield

    def _in_backward(self) -> tuple[list[Matmul], str]:
        if len(self._stack) > 1:  # a module of the forward pass runs again
            return self.recording.recomputed, self._stack[-1]
        return self.recording.backward, self._owner()

    @contextmanager
    def _followed(self) -> Iterator[None]:
        """Follow which module is running."""
        hooks: list[RemovableHandle] = []
        for name, part in self.module.named_modules():
            hooks += self._follow(name, part)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _follow(self, name: str, part: nn.Module) -> list[RemovableHandle]:
        def enter(*_: Any) -> None:
            self._go([*self._stack, name])

        def leave(*_: Any) -> None:
            self._go(self._stack[:-1])

        # A checkpointed module stops early by an exception when it runs again.
        return [
            part.register_forward_pre_hook(enter),
            part.register_forward_hook(leave, always_call=True),
        ]

    def _go(self, stack: list[str]) -> None:
        self._stack = stack
        number = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]
        self._passed.append((number, stack[-1]))

    def _owner(self) -> str:
        """Return the module that created the graph node that is running."""
        node = torch._C._current_autograd_node()
        if node is None:
            return ""
        at = bisect_right(self._passed, node._sequence_nr(), key=lambda passed: passed[0])
        return self._passed[at - 1][1]

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = storage
            storage_bytes, element_bytes = storage.nbytes(), tensor.element_size()
            dims = tuple(tensor.shape) or (1,)
            if tensor.nbytes != storage_bytes:
                dims = (storage_bytes // element_bytes,)
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.recording.saved.append(Saved(self._stack[-1], dtype, dims, storage_bytes))
        # A node that saves its own output would keep itself alive, and its graph with it.
        return tensor.detach()


def _unpack(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


class _Products(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """Records every matrix product, in a list and with a module that it asks for."""

    def __init__(self, place: Callable[[], tuple[list[Matmul], str]], *, computes: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._place, self._computes = place, computes

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, and what keeps the compiler off takes time at each operator."""
        return False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        products = products_of(function.overloadpacket, args, kwargs)
        if products:
            matmuls, path = self._place()
            matmuls += [Matmul(path, *factors) for factors in products]
        if function in _OF_MATRICES and args[0].device.type == "cpu":
            return _on_the_cpu(function, args, kwargs or {}, computes=self._computes)
        returned = dispatched if self._computes else with_zeros
        return returned(function, args, kwargs or {})


_OF_MATRICES = {getattr(torch.ops.aten, name).default for name in ("mm", "bmm", "addmm", "baddbmm")}


def _on_the_cpu(product: Any, args: Any, kwargs: Any, *, computes: bool) -> torch.Tensor:
    """Return a product of matrices as the CPU computes it, or zeros; in BF16, rounded from F32.

    Many CPUs have no instructions for BF16, and take many times as long for it. What is kept is
    decided by autograd, which comes before.
    """
    *_, left, right = args
    if not computes:
        result = zeros((*left.shape[:-1], right.shape[-1]), left.dtype)
    elif left.dtype == torch.bfloat16:
        result = product(*(factor.float() for factor in args), **kwargs).bfloat16()
    else:
        result = product(*args, **kwargs)
    return result


def record(module: nn.Module, inputs: dict[str, torch.Tensor]) -> Recording:
    """Run a module forward, then backward from its loss or the sum of its outputs; record both.

    Raises:
        ModelError: the module returns nothing that can be differentiated.
    """
    recorder = Recorder(module)
    with recorder.running():
        loss = loss_of(module(**inputs))
    with recorder.returning():
        loss.backward()  # type: ignore[no-untyped-call]
    module.zero_grad(set_to_none=True)
    return recorder.recording


def loss_of(outputs: Any) -> torch.Tensor:
    """Return the tensor to differentiate: the loss if there is one, else the sum of all outputs.

    Raises:
        ModelError: there is no tensor that can be differentiated.
    """
    loss = outputs.get("loss") if hasattr(outputs, "get") else getattr(outputs, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    summed = [output.sum() for output in _tensors_in(outputs) if output.requires_grad]
    if not summed:
        raise ModelError(
            "returns nothing that can be differentiated",
            hint="give it labels, or use a class whose outputs have gradients",
        )
    return sum(summed[1:], summed[0])


def _tensors_in(outputs: Any) -> list[torch.Tensor]:
    """Return the tensors in a module's outputs."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    if hasattr(outputs, "values"):
        outputs = outputs.values()
    elif not isinstance(outputs, list | tuple):
        outputs = vars(outputs).values()
    return [output for output in outputs if isinstance(output, torch.Tensor)]
