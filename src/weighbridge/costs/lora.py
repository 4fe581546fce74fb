"""The tensors of a LoRA adapter before it is made, its file, and the memory of its training.

The names and shapes are those that peft 0.21.2 gives them; `facts/adapters.toml` has their forms.
"""

from __future__ import annotations

import json
from math import prod

from weighbridge import data
from weighbridge.costs.lora_targets import (
    CONVOLUTIONS,
    Chosen,
    choose_targets,
    input_embedding,
    is_named,
    modules_of,
    task_modules,
    text_head,
    tied_modules,
)
from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.ledger.adapter_forms import adapter_form, wrapper
from weighbridge.ledger.rows import Row
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.costs.lora_settings import LoraSettings
    from weighbridge.costs.lora_targets import BaseModule
    from weighbridge.ledger.ledger import Ledger

_ADAPTED, _SAVED, _BIAS, _COPY = "adapted", "saved", "bias", "copy"
_STEP_BYTES = 4  # AdamW counts the steps of each parameter in one float32
_MOMENTS = 2  # of AdamW, in the dtype of the parameter
_DTYPES_KEPT = ("F64",)  # an adapter of any other dtype is made in float32
_UPCAST = "F32"
_MATRIX, _STACK = 2, 3  # dims


class LoraTensor(NamedTuple):
    """A tensor of an adapter: as its file holds it, and what it means for the training.

    ``module`` is the path in the base model, ``target`` the name that stands for it in a summary.
    ``part`` is ``"adapted"`` for the matrices and magnitudes of a module, ``"saved"`` for a module
    that is trained whole, ``"bias"``, or ``"copy"`` for a tensor of the base that is not trained.
    ``row.parameters`` are those that it trains. ``is_new`` says whether the model gets them.
    """

    row: Row
    module: str
    target: str
    part: str
    rank: int | None
    is_new: bool


class LoraAdapter(NamedTuple):
    """An adapter before it is made.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.costs.lora_settings import parse_lora
        >>> from weighbridge.ledger.ledger import bind
        >>> bert = load("bert")
        >>> ledger = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2})
        >>> adapter = lora_tensors(ledger, parse_lora("r=8,targets=q,v"))
        >>> adapter.trainable_parameters, adapter.tensors[0].row.shape
        (294912, (8, 768))
    """

    tensors: tuple[LoraTensor, ...]
    chosen: Chosen
    dtype: str
    base_parameters: int
    unmatched: tuple[str, ...]

    @property
    def trainable_parameters(self) -> int:
        """The parameters that are trained."""
        return sum(tensor.row.parameters for tensor in self.tensors)

    @property
    def all_parameters(self) -> int:
        """The parameters of the model with the adapter."""
        return self.base_parameters + sum(
            tensor.row.parameters for tensor in self.tensors if tensor.is_new
        )

    @property
    def file_bytes(self) -> int:
        """The bytes of `adapter_model.safetensors`, with its header."""
        return safetensors_bytes([tensor.row for tensor in self.tensors])

    @property
    def trained(self) -> list[LoraTensor]:
        """The tensors that are trained, each once."""
        return [tensor for tensor in self.tensors if tensor.row.parameters]

    @property
    def parameter_bytes(self) -> int:
        """The bytes of what is trained; its gradients take as many."""
        return sum(tensor.row.bytes for tensor in self.trained)

    @property
    def optimizer_bytes(self) -> int:
        """The bytes of AdamW's two moments and of its counts of steps."""
        return _MOMENTS * self.parameter_bytes + _STEP_BYTES * len(self.trained)

    @property
    def training_bytes(self) -> int:
        """The bytes of what is trained, of its gradients, and of the optimizer."""
        return 2 * self.parameter_bytes + self.optimizer_bytes


def lora_tensors(ledger: Ledger, settings: LoraSettings) -> LoraAdapter:
    """Return the adapter that the settings make for a class, from its tensors alone.

    Raises:
        UsageError: the settings select nothing, or something that peft does not adapt.
    """
    modules = modules_of(ledger)
    chosen = choose_targets(ledger, modules, settings)
    maker = _Maker(ledger, modules, chosen, settings)
    tensors: dict[str, LoraTensor] = {}
    for tensor in maker.tensors():
        tensors.setdefault(tensor.row.name, tensor)
    saved = [name for name in settings.saved if name not in maker.saved_names]
    ranks = [
        pattern
        for pattern, _ in settings.rank_pattern
        if not any(chosen.rank_of(path, 0) for path in maker.adapted_paths)
    ]
    return LoraAdapter(
        tuple(tensors.values()),
        chosen,
        maker.dtype,
        ledger.parameters,
        (*chosen.unmatched, *saved, *ranks),
    )


class _Maker:
    """Makes the tensors of an adapter."""

    def __init__(
        self,
        ledger: Ledger,
        modules: Mapping[str, BaseModule],
        chosen: Chosen,
        settings: LoraSettings,
    ) -> None:
        self.modules, self.chosen, self.settings = modules, chosen, settings
        self.dtype = settings.dtype or adapter_dtype(ledger.dtype)
        self.inside = dict.fromkeys(module.path for module in chosen.modules)
        self.wrappers: dict[str, list[str]] = {}
        for module, last in chosen.parameters:
            self.wrappers.setdefault(module.path, []).append(last)
        self.saved_names: set[str] = set()
        self.saved_modules: dict[str, BaseModule] = {}
        self.ties: set[str] = set()
        self.trained_biases: set[str] = set()
        self._find_saved()

    @property
    def adapted_paths(self) -> list[str]:
        """The paths of the modules and parameters that are adapted."""
        parameters = [f"{module.path}.{last}" for module, last in self.chosen.parameters]
        return [*self.inside, *parameters]

    def _find_saved(self) -> None:
        """Find the modules that are trained whole, and those that share the copy of another."""
        names = [*self.settings.saved, *task_modules(self.settings.task_type)]
        embedding = input_embedding(self.modules)
        tied = tied_modules(self.modules, embedding) if self.settings.ties else []
        last_names = data.read_toml("facts/lora.toml")["embeddings"]
        if tied and embedding and any(name.rpartition(".")[2] in last_names for name in names):
            names.append(embedding.path)
            self.ties = {module.path for module in tied}
        for path, module in self.modules.items():
            matched = [name for name in names if path.endswith(name)]
            if matched or path in self.ties:
                self.saved_names.update(matched)
                self.saved_modules[path] = module

    def tensors(self) -> Iterator[LoraTensor]:
        """Yield all tensors, some of them twice."""
        for module in self.chosen.modules:
            yield from self._of_module(module)
        for module, last in self.chosen.parameters:
            yield from self._of_parameter(module, last)
        yield from self._saved()
        yield from self._biases()
        yield from self._embeddings()

    def _made(
        self, name: str, shape: tuple[int, ...], owner: tuple[str, str], rank: int
    ) -> LoraTensor:
        count = prod(shape)
        row = Row(wrapper() + name, shape, self.dtype, "adapter", (), count, count)
        return LoraTensor(row, *owner, _ADAPTED, rank, is_new=True)

    def _of_module(self, module: BaseModule) -> Iterator[LoraTensor]:
        weight = module.rows["weight"].shape
        if module.kind in ("Conv1D", "Embedding"):
            weight = weight[::-1]
        rank = self.chosen.rank_of(module.path, self.settings.rank)
        owner = (module.path, module.path.rpartition(".")[2])
        if module.kind in CONVOLUTIONS:
            _check_groups(module)
        endings = (".lora_A.weight", ".lora_B.weight")
        if module.kind == "Embedding":
            endings = (".lora_embedding_A", ".lora_embedding_B")
            weight = weight[::-1]
        sizes = {"weight": weight, "first": rank, "last": rank, "joined": rank}
        for ending in endings:
            shapes = adapter_form(ending).shapes_for(sizes)
            shape = next(shape for shape in shapes if len(shape) == len(weight))
            yield self._made(module.path + ending, shape, owner, rank)
        if self.settings.is_dora:
            ending = ".lora_magnitude_vector"
            if module.kind == "Embedding":
                sizes["weight"] = weight[::-1]
            dims = len(weight) if module.kind in CONVOLUTIONS else 1
            shapes = adapter_form(ending).shapes_for(sizes)
            shape = next(shape for shape in shapes if len(shape) == dims)
            yield self._made(module.path + ending, shape, owner, rank)

    def _of_parameter(self, module: BaseModule, last: str) -> Iterator[LoraTensor]:
        """Yield the tensors of one parameter; of several in a module, each wraps the one before."""
        weight = module.rows[last].shape
        rank = self.chosen.rank_of(f"{module.path}.{last}", self.settings.rank)
        if not _MATRIX <= len(weight) <= _STACK:
            raise UsageError(
                "only parameters of two or three dims can be adapted",
                values={"parameter": f"{module.path}.{last}", "shape": list(weight)},
                hint="leave it out",
            )
        wrapped = self.wrappers[module.path]
        depth = len(wrapped) - 1 - wrapped.index(last)
        path = module.path + ".base_layer" * depth
        end = module.path.rpartition(".")[2]
        is_stack = len(weight) == _STACK
        inputs_first = module.class_name in data.read_toml("facts/lora.toml")["inputs_first"]
        experts = weight[0] if is_stack else 1
        sizes = {"weight": weight, "first": rank * experts, "last": rank * experts}
        for ending in (".lora_A.weight", ".lora_B.weight"):
            shapes = list(adapter_form(ending, of_parameter=is_stack).shapes_for(sizes))
            shape = shapes[int(is_stack and inputs_first)]
            yield self._made(path + ending, shape, (f"{module.path}.{last}", f"{end}.{last}"), rank)

    def _saved(self) -> Iterator[LoraTensor]:
        """Yield the tensors of modules that are trained whole: copies of those of the base."""
        for path in self.saved_modules:
            for row in self._below(path):
                is_trained = path not in self.ties
                yield self._copied(row, row.name, path, _SAVED, is_trained=is_trained, is_new=True)

    def _below(self, path: str) -> Iterator[Row]:
        for inner, module in self.modules.items():
            if inner == path or inner.startswith(f"{path}."):
                yield from module.rows.values()

    def _copied(
        self, row: Row, name: str, path: str, part: str, *, is_trained: bool, is_new: bool
    ) -> LoraTensor:
        parameters = row.count if is_trained else 0
        copied = Row(wrapper() + name, row.shape, row.dtype, row.role, (), row.count, parameters)
        target = path.rpartition(".")[2]
        if part == _BIAS:
            target = _BIAS
        return LoraTensor(copied, path, target, part, None, is_new)

    def _is_saved(self, path: str) -> bool:
        return any(path == saved or path.startswith(f"{saved}.") for saved in self.saved_modules)

    def _biases(self) -> Iterator[LoraTensor]:
        if self.settings.bias == "none":
            return
        for path, module in self.modules.items():
            row = module.rows.get("bias")
            if row is None:
                continue
            is_adapted = path in self.inside
            if self._is_saved(path):
                yield from self._biases_of_saved(row, path)
            elif is_adapted:
                yield self._bias(row, f"{path}.base_layer.bias", path)
            elif self.settings.bias == "all":
                yield self._bias(row, row.name, path)

    def _bias(self, row: Row, name: str, path: str) -> LoraTensor:
        shared = row.tied_to or row.name
        is_trained = shared not in self.trained_biases
        self.trained_biases.add(shared)
        return self._copied(row, name, path, _BIAS, is_trained=is_trained, is_new=False)

    def _biases_of_saved(self, row: Row, path: str) -> Iterator[LoraTensor]:
        """Yield the biases of a module that is trained whole, which peft stores three times."""
        if self.settings.bias != "all":
            return
        top = next(
            saved for saved in self.saved_modules if path == saved or path.startswith(f"{saved}.")
        )
        rest = row.name.removeprefix(f"{top}.")
        for inside in ("original_module", "modules_to_save.default"):
            name = f"{top}.{inside}.{rest}"
            if rest == "bias":
                name = name.replace(".default.bias", ".bias")
            yield self._copied(row, name, path, _COPY, is_trained=False, is_new=False)

    def _embeddings(self) -> Iterator[LoraTensor]:
        """Yield the whole layers of embeddings that peft stores beside their adapters."""
        names = data.read_toml("facts/lora.toml")["embeddings"]
        selected = self.chosen.names
        if isinstance(selected, str):
            of_embeddings = (path for path in self.modules if path.rpartition(".")[2] in names)
            is_stored = any(is_named(path, selected) for path in of_embeddings)
        else:
            is_stored = not set(selected).isdisjoint(names)
        if not is_stored:
            return
        for module in (input_embedding(self.modules), text_head(self.modules)):
            if module and module.path in self.inside:
                for last, row in module.rows.items():
                    name = f"{module.path}.base_layer.{last}"
                    yield self._copied(
                        row, name, module.path, _COPY, is_trained=False, is_new=False
                    )


def _check_groups(module: BaseModule) -> None:
    """Refuse a convolution in groups, whose number the shape of its weight does not say."""
    weight = module.rows["weight"].shape
    if weight[1] == 1 and weight[0] > 1:
        raise UsageError(
            "a convolution in groups cannot be adapted here",
            values={"module": module.path, "shape": list(weight)},
            hint="leave it out of the targets",
        )


def adapter_dtype(dtype: str) -> str:
    """Return the dtype of an adapter for a model in a dtype, with peft's autocast_adapter_dtype.

    Example:
        >>> adapter_dtype("BF16"), adapter_dtype("F64")
        ('F32', 'F64')
    """
    if dtype in _DTYPES_KEPT:
        return dtype
    return _UPCAST


def safetensors_bytes(rows: Iterable[Row]) -> int:
    """Return the bytes of a safetensors file with these tensors, as its library writes it.

    Wider dtypes come first, then names in order. The header is padded to 8 bytes.
    Source: safetensors 0.8.0, tensor.rs, `prepare`.

    Example:
        >>> safetensors_bytes([Row("a", (2, 3), "F32", "", (), 6, 6)])
        120
    """
    ordered = sorted(rows, key=lambda row: (-DTYPE_BITS[row.dtype], row.dtype, row.name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for row in ordered:
        start, end = end, end + row.bytes
        header[row.name] = {
            "dtype": row.dtype,
            "shape": list(row.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    padded = -(-len(text) // 8) * 8
    return 8 + padded + end
