"""The processes of a run: one, or all that ``torchrun`` or ``accelerate launch`` started."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, distributed

from weighbridge.errors import UsageError, WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_Of = TypeVar("_Of")
_WAIT = timedelta(minutes=10)  # for a process that neither responds nor ends
_NAMES = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class Processes:
    """This process among the processes of the run: ``rank`` of ``count``, on a ``device``.

    Raises:
        UsageError: environment variables are missing, or there is no such device.
    """

    def __init__(self, device: str = "auto") -> None:
        self.count = _environment_number("WORLD_SIZE", 1)
        self.rank, local = 0, 0
        if self.count > 1:
            missing = [name for name in _NAMES if name not in os.environ]
            if missing:
                values = {"WORLD_SIZE": self.count, "missing": ", ".join(missing)}
                raise UsageError(
                    "environment variables of the process are missing",
                    values=values,
                    hint="start it with torchrun",
                )
            self.rank, local = _environment_number("RANK", 0), _environment_number("LOCAL_RANK", 0)
        self.device = _device(device, local)
        if self.count > 1:
            self._join()

    def _join(self) -> None:
        backend = "nccl" if self.device.type == "cuda" else "gloo"
        try:
            distributed.init_process_group(backend, timeout=_WAIT)
        except (RuntimeError, ValueError) as error:
            raise UsageError(
                "the processes cannot connect to each other", values={"reason": str(error)}
            ) from None

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files and the messages."""
        return self.rank == 0

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in one message.

        Raises:
            WeighbridgeError: another process is gone.
        """
        if self.count == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _speaking():
            distributed.all_reduce(flat)
        pieces = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, piece in zip(tensors, pieces, strict=True):
            tensor.copy_(piece.view_as(tensor))

    def together(self, what: Callable[[], _Of]) -> _Of:
        """Call a function in every process, and continue only if all calls succeeded.

        Raises:
            WeighbridgeError: in the first process: the error of the first call that failed.
            SystemExit: in the other processes, so that the error is reported once.
        """
        if self.count == 1:
            return what()
        found, error = None, None
        try:
            found = what()
        except WeighbridgeError as raised:
            error = raised
        errors: list[WeighbridgeError | None] = [None] * self.count
        with _speaking():
            distributed.all_gather_object(errors, error)
        failed = next((error for error in errors if error is not None), None)
        if failed is None:
            return found  # type: ignore[return-value]  # there was no error
        if self.is_first:
            raise failed
        raise SystemExit(2)

    def broadcast(self, value: _Of) -> _Of:
        """Return the first process's value in every process."""
        if self.count == 1:
            return value
        values = [value]
        with _speaking():
            distributed.broadcast_object_list(values, src=0)
        return values[0]

    def close(self) -> None:
        """Leave the process group."""
        if self.count > 1 and distributed.is_initialized():
            distributed.destroy_process_group()


@contextmanager
def _speaking() -> Iterator[None]:
    """Turn a failed message into an error: the other process has ended or hangs."""
    try:
        yield
    except RuntimeError:
        raise WeighbridgeError(
            "another process of this run has ended", hint="look at its output"
        ) from None


def _environment_number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isascii() or not text.isdigit():
        raise UsageError(
            "an environment variable is not a number",
            values={name: text},
            hint="start it with torchrun",
        )
    return int(text)


def _device(named: str, local: int) -> torch.device:
    if named == "auto":
        named = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(f"cuda:{local}" if named == "cuda" else named)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        values = {"device": named, "reason": str(error).partition("\n")[0]}
        raise UsageError(
            "there is no such device here", values=values, hint="use --device cpu"
        ) from None
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device
