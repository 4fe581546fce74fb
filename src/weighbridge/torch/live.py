"""Track the memory that tensors take while code runs, operator by operator."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable


class Live(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """A dispatch mode that tracks live storages from operator to operator, and their peak.

    Memory that an operator uses internally while it runs is not seen.

    Example:
        >>> with Live([]) as live:
        ...     for _ in range(3):
        ...         made = torch.ones(1000)
        ...         del made
        >>> live.peak_bytes, live.bytes
        (4000, 0)
    """

    def __init__(self, held: list[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = self.peak_bytes = 0
        self._alive: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._see(held)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operator, and record the tensors that it made."""
        made = function(*args, **(kwargs or {}))
        self._see([leaf for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor)])
        return made

    def _see(self, tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key, taken = storage._cdata, storage.nbytes()
            if key not in self._alive:
                self.bytes += taken
                self.peak_bytes = max(self.peak_bytes, self.bytes)
                self._alive[key] = weakref.ref(storage, self._ends(key, taken))

    def _ends(self, key: int, taken: int) -> Callable[[object], None]:
        return lambda _: self._gone(key, taken)

    def _gone(self, key: int, taken: int) -> None:
        if self._alive.pop(key, None) is not None:
            self.bytes -= taken
