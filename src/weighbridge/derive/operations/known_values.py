"""The values of small tensors on the meta device, where code asks for them.

The meta device computes no values. Some code asks for those of its inputs: how many patches an
image has, whether a mask masks anything, which tokens stand for an image. So what follows from
known numbers alone, neither from weights nor from chance, is computed on the CPU besides, and such
a question is answered from there. Nothing that autograd sees is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ATEN = torch.ops.aten
_RANDOM = torch.Tag.nondeterministic_seeded
_EMPTY = "empty"  # in the name of a function whose result has no values yet
_MOST_ELEMENTS = 1 << 20  # of a tensor whose values are followed


class _UnknownValueError(Exception):
    """A tensor on the meta device has no known value."""


class KnownValues(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """Computes known numbers on the CPU, too, and answers for the meta device what they are.

    Example:
        >>> with KnownValues():
        ...     tokens = torch.tensor([3, 5, 3]).to("meta")
        ...     bool((tokens == 5).any()), tokens.nonzero().shape
        (True, torch.Size([3, 1]))
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._values: dict[tuple[Any, ...], torch.Tensor] = {}
        self._kept: dict[int, Any] = {}  # storages, so that no other one gets their address

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        rule = _ANSWERS.get(function.overloadpacket)
        if rule is not None and _is_on_meta(args[0]):
            try:
                return rule(self, function, args, kwargs)
            except _UnknownValueError:  # the meta device says what it cannot do
                return function(*args, **kwargs)
        results = function(*args, **kwargs)
        tensors = [result for result in _tensors_in(results) if _is_on_meta(result)]
        if tensors:
            self._follow(function, args, kwargs, results)
        return results

    def _follow(self, function: Any, args: Any, kwargs: Any, results: Any) -> None:
        """Compute on the CPU what a function did, if all its inputs are known."""
        known = None
        if _has_values(function) and _are_small(results):
            try:
                known = self._computed(function, args, kwargs)
            except _UnknownValueError:
                known = None
        pairs = zip(_tensors_in(results), _tensors_in(known), strict=False)
        if known is not None:
            for result, value in pairs:
                self.learn(result, value)
        elif function._schema.is_mutable:
            for result in _tensors_in(results):
                self._forget(result)

    def _computed(self, function: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map_only(torch.Tensor, self.value, (args, kwargs))
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        with torch.no_grad():
            return function(*args, **kwargs)

    def value(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the value of a tensor, on the CPU.

        Raises:
            _UnknownValueError: it is not known.
        """
        if not _is_on_meta(tensor):
            return tensor
        if _place_of(tensor) not in self._values:
            raise _UnknownValueError
        return self._values[_place_of(tensor)]

    def learn(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Keep the value of a tensor on the meta device."""
        storage = tensor.untyped_storage()
        self._kept[storage._cdata] = storage
        self._values[_place_of(tensor)] = value

    def _forget(self, tensor: torch.Tensor) -> None:
        """Forget the values of a storage that something unknown was written to."""
        changed = tensor.untyped_storage()._cdata
        if changed in self._kept:
            self._values = {
                place: value for place, value in self._values.items() if place[0] != changed
            }

    def like(self, value: torch.Tensor) -> torch.Tensor:
        """Return a tensor on the meta device that is known to have this value."""
        tensor = torch.empty_like(value, device="meta")
        self.learn(tensor, value)
        return tensor


def _scalar(known: KnownValues, function: Any, args: Any, _: Any) -> Any:
    return function(known.value(args[0]))


def _copied(known: KnownValues, function: Any, args: Any, kwargs: Any) -> Any:
    device = kwargs.get("device")
    if device is None or device.type == "meta":
        copied = function(*args, **kwargs)
        known._follow(function, args, kwargs, copied)
        return copied
    return function(known.value(args[0]), **kwargs)


def _indices(known: KnownValues, function: Any, args: Any, _: Any) -> torch.Tensor:
    """Indices, of which the values say how many there are."""
    return known.like(function(known.value(args[0])))


def _indexed(known: KnownValues, function: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """What masks select, by the indices where they are true."""
    given, indices, *rest = args
    plain: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype != torch.bool:
            plain.append(index)
        else:
            plain += [known.like(at) for at in known.value(index).nonzero(as_tuple=True)]
    indexed: torch.Tensor = function(given, plain, *rest, **kwargs)
    known._follow(function, (given, plain, *rest), kwargs, indexed)
    return indexed


def _selected(known: KnownValues, _: Any, args: Any, __: Any) -> torch.Tensor:
    """As many elements as a mask selects, whatever their values are."""
    given, mask = args
    chosen = torch.ones(given.shape, dtype=torch.bool) & known.value(mask)
    selected: torch.Tensor = given.new_empty((int(chosen.sum()),))
    return selected


_ANSWERS: dict[Any, Callable[..., Any]] = {
    _ATEN._local_scalar_dense: _scalar,
    _ATEN._to_copy: _copied,
    _ATEN.nonzero: _indices,
    _ATEN.repeat_interleave: _indices,
    _ATEN.index: _indexed,
    _ATEN.index_put_: _indexed,
    _ATEN.masked_select: _selected,
}
"""What is answered from known values, by function."""


def _place_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return what identifies a tensor: autograd hands out other objects for the same one."""
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype


def _is_on_meta(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "meta"


def _has_values(function: Any) -> bool:
    """Whether what a function returns follows from its inputs."""
    return _RANDOM not in function.tags and _EMPTY not in function.__name__


def _are_small(values: Any) -> bool:
    return all(value.numel() <= _MOST_ELEMENTS for value in _tensors_in(values))


def _tensors_in(values: Any) -> Iterator[torch.Tensor]:
    for value in tree_flatten(values)[0]:
        if isinstance(value, torch.Tensor):
            yield value
