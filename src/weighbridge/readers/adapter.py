"""Recognises adapters: a few trained tensors for the modules of a base model, as PEFT stores them.

`ledger.adapter_forms` has their tensors. The config beside them, `adapter_config.json`, says what
their names and shapes do not.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import CheckpointError
from weighbridge.ledger.adapter_forms import forms, wrapper
from weighbridge.readers.rules import is_remote
from weighbridge.readers.stores import read_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weighbridge.ledger.adapter_forms import TensorForm
    from weighbridge.ledger.rows import Row
    from weighbridge.readers import StoredCheckpoint

CONFIG = "adapter_config.json"
_MATRIX = 2  # dims
_LEAST_SHARE = 4  # at least one of so many tensors has the form of an adapter's


class AdapterTensor(NamedTuple):
    """A tensor of an adapter: the path of its module in the base model, and its form.

    ``form`` is None if the tensor has no known form. It is then a whole tensor of the base under
    the base's name, in ``path``, or belongs to a kind of adapter that is not known.
    """

    row: Row
    path: str
    form: TensorForm | None


class Adapter(NamedTuple):
    """An adapter: its kind, the ranks of its matrices, its modules, and its tensors.

    ``kind`` is that of PEFT, such as ``"LORA"``, but ``"DORA"`` if there are magnitudes. ``saved``
    are the modules that are trained and stored whole. ``base`` names the base model.
    """

    kind: str
    ranks: tuple[int, ...]
    modules: tuple[str, ...]
    saved: tuple[str, ...]
    base: str
    is_turned: bool
    parameters_targeted: tuple[str, ...]
    parts: tuple[AdapterTensor, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The last pieces of the names of its modules, each once."""
        return tuple(dict.fromkeys(path.rpartition(".")[2] for path in self.modules))

    @property
    def trainable(self) -> int:
        """The number of parameters that it trains; a copy of a base tensor does not count."""
        return sum(
            part.row.parameters for part in self.parts if not part.form or part.form.is_trained
        )


def adapter_in(found: StoredCheckpoint) -> Adapter | None:
    """Return the adapter that a checkpoint is; None if it is none.

    A checkpoint is an adapter if many of its tensors have a form of adapters. If only some have, or
    if the file only has an adapter's name, the ``adapter_config.json`` beside it decides.

    Raises:
        CheckpointError: the config cannot be read.

    Example:
        >>> from weighbridge.ledger.rows import Row
        >>> from weighbridge.readers import StoredCheckpoint
        >>> rows = tuple(
        ...     Row(f"base_model.model.up.lora_{name}.weight", shape, "F32", "", (), 32, 32)
        ...     for name, shape in (("A", (4, 8)), ("B", (8, 4)))
        ... )
        >>> path = "adapter_model.safetensors"
        >>> found = StoredCheckpoint(path, "safetensors", rows, {}, (), 0, {}, {}, (), None)
        >>> adapter = adapter_in(found)
        >>> adapter.kind, adapter.ranks, adapter.modules, adapter.trainable
        ('LORA', (4,), ('up',), 64)
    """
    marks = sum(row.name.endswith(_marks()) for row in found.rows)
    if not marks and not _may_be_another(found):
        return None
    config = _config_beside(found)
    if not config and marks * _LEAST_SHARE < len(found.rows):
        return None
    parts = tuple(_adapter_part(row) for row in found.rows)
    adapted = [part for part in parts if part.form]
    saved = [part.path.rpartition(".")[0] for part in parts if not part.form]
    return Adapter(
        kind=_method(config, adapted),
        ranks=tuple(sorted(_ranks(adapted))),
        modules=tuple(dict.fromkeys(part.path for part in adapted)),
        saved=tuple(dict.fromkeys(filter(None, saved))),
        base=str(config.get("base_model_name_or_path") or ""),
        is_turned=config.get("fan_in_fan_out") is True,
        parameters_targeted=_text_items(config.get("target_parameters")),
        parts=parts,
    )


def is_adapter(folder: str) -> bool:
    """Whether a folder holds an adapter that PEFT has saved, and no model of its own."""
    held = [os.path.isfile(os.path.join(folder, name)) for name in (CONFIG, "config.json")]
    return held == [True, False]


def shapes_for(
    part: AdapterTensor, weight: tuple[int, ...], joined: AdapterTensor | None
) -> list[tuple[int, ...]]:
    """Return the shapes that a tensor may have for a weight, its outputs first.

    ``joined`` is the tensor whose rank it must share.

    Example:
        >>> from weighbridge.ledger.rows import Row
        >>> name = "base_model.model.up.lora_A.weight"
        >>> shapes_for(_adapter_part(Row(name, (4, 9), "F32", "", (), 36, 36)), (16, 8), None)
        [(4, 8)]
    """
    if part.form is None:
        return [weight]
    own = part.row.shape or (0,)
    known: dict[str, Any] = {"weight": weight, "first": own[0], "last": own[-1]}
    if joined and joined.row.shape:
        known["last"] = known["joined"] = joined.row.shape[0]
    return list(part.form.shapes_for(known))


def _adapter_part(row: Row) -> AdapterTensor:
    for form in forms():
        if row.name.endswith(form.ending):
            return AdapterTensor(row, _module_path(row.name.removesuffix(form.ending)), form)
    return AdapterTensor(row, _module_path(row.name), None)


def _module_path(name: str) -> str:
    """Return the path of a module in the base model."""
    path = name.removeprefix(wrapper()).replace(".base_layer", "")
    return path.replace(".modules_to_save.default", "").replace(".original_module", "")


@cache
def _marks() -> tuple[str, ...]:
    """Return the endings of tensors that only an adapter has."""
    return tuple(form.ending for form in forms() if form.is_mark)


def _may_be_another(found: StoredCheckpoint) -> bool:
    """Return whether a file has the name of an adapter's, which has few tensors."""
    return any(os.path.basename(file).startswith("adapter_model.") for file in found.files)


def _config_beside(found: StoredCheckpoint) -> dict[str, Any]:
    """Return the config beside an adapter; empty if there is none."""
    if not found.files:
        return {}
    try:
        return read_object(os.path.join(os.path.dirname(found.files[0]), CONFIG))
    except CheckpointError as error:
        # An address may have lost the secrets that it was opened with.
        if error.rule == "missing" or is_remote(found.files[0]):
            return {}
        raise


def _method(config: Mapping[str, Any], adapted: Iterable[AdapterTensor]) -> str:
    endings = {part.form.ending for part in adapted if part.form}
    stated = config.get("peft_type")
    if ".lora_magnitude_vector" in endings:
        return "DORA"
    if isinstance(stated, str):
        return stated
    return "LORA" if any("lora" in ending for ending in endings) else "PEFT"


def _ranks(adapted: Iterable[AdapterTensor]) -> set[int]:
    return {
        part.row.shape[part.form.rank]
        for part in adapted
        if part.form and part.form.rank is not None and len(part.row.shape) >= _MATRIX
    }


def _text_items(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(text for text in value if isinstance(text, str))
