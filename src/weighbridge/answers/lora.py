"""A LoRA adapter before it is made: what it trains, its file, and the memory of its training."""

from __future__ import annotations

from functools import cached_property

from weighbridge import data, units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.weigh import weigh
from weighbridge.costs.costs import weight_bytes
from weighbridge.costs.lora import lora_tensors
from weighbridge.costs.lora_settings import DEFAULT_RANK, lora_settings
from weighbridge.costs.quantization import (
    Quantization,
    UncoveredError,
    elements_bytes,
    stored_elements,
    weights_of,
)
from weighbridge.errors import ModelError, UsageError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.models.quantization import quantization_of
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from weighbridge.answers.data_table import DataTable
    from weighbridge.answers.weigh import Weighing
    from weighbridge.costs.lora import LoraAdapter, LoraTensor
    from weighbridge.costs.lora_settings import LoraSettings
    from weighbridge.models.find import Described

NF4 = {
    "quant_method": "bitsandbytes",
    "load_in_4bit": True,
    "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_use_double_quant": True,
}
"""The settings of QLoRA's base, for transformers' BitsAndBytesConfig."""

_MOST_MEANINGS = 8  # names of modules that a note lists for a short name


def lora(  # noqa: PLR0913  # each is a word of its own for the user
    model: Described,
    class_name: str | None = None,
    *,
    r: int = DEFAULT_RANK,
    targets: str | Iterable[str] | None = None,
    method: str = "lora",
    rank_pattern: Mapping[str, int] | None = None,
    layers: str | int | Iterable[int] | None = None,
    bias: str = "none",
    save: str | Iterable[str] = (),
    parameters: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    task_type: str | None = None,
    ties: bool = False,
    dtype: str | None = None,
    qlora: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> Lora:
    """Say what an adapter of LoRA or DoRA trains, what its file takes, and what training holds.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`.
        r: the rank.
        targets: names of modules as peft takes them, separated by commas or as a list; short names
            (q, k, v, o, gate, up, down); ``"all-linear"``; or ``"re:"`` and a regular expression
            for whole paths. By default those of peft for the model type.
        method: ``"lora"`` or ``"dora"``.
        rank_pattern: other ranks, by a pattern for the end of a module's path.
        layers: the layers to adapt, as ``"0,2,4-7"`` or as a list; by default all.
        bias: the biases that are trained: ``"none"``, ``"all"`` or ``"lora_only"``.
        save: modules that are trained and stored whole.
        parameters: single parameters to adapt, such as ``"experts.down_proj"``.
        exclude: modules that are not adapted, as for ``targets``.
        task_type: peft's name of the task, such as ``"SEQ_CLS"``, which trains the classifier.
        ties: whether a tied embedding and head stay tied.
        dtype: the dtype of the adapter; by default float32, as peft has it for a shorter model.
        qlora: whether the weights of the model are in NF4 with double quantization.
        fields: config fields to replace.

    Raises:
        UsageError: a setting is wrong, or selects nothing, or something that peft does not adapt.
        ModelError: there is no such model, or no rule for its weights in NF4.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> adapter = lora("meta-llama/Llama-3.1-8B", r=16, targets="q,v")
        >>> adapter.trainable_parameters, adapter.adapter_bytes
        (6815744, 27280152)
    """
    settings = lora_settings(
        r=r,
        targets=targets,
        method=method,
        rank_pattern=rank_pattern,
        layers=layers,
        bias=bias,
        save=save,
        parameters=parameters,
        exclude=exclude,
        task_type=task_type,
        ties=ties,
        dtype=dtype,
    )
    weighing = weigh(model, class_name, fields=fields)
    return Lora(weighing, settings, qlora=qlora)


class LoraGroup(NamedTuple):
    """The tensors of an adapter for one target, or for one module.

    ``parameters`` are those that are trained, ``bytes`` those of the tensors in the file. ``rank``
    lists the ranks.
    """

    name: str
    modules: int
    rank: list[int]
    tensors: int
    parameters: int
    bytes: int


class Lora(TabularAnswer):
    """What `lora` returns.

    Example:
        >>> adapter = lora("gpt2", "GPT2LMHeadModel", r=4, method="dora")
        >>> [(group.name, group.modules, group.parameters) for group in adapter.groups()]
        [('c_attn', 12, 175104)]
        >>> adapter.to_dict()["target_modules"]
        ['c_attn']
    """

    groupings = ("target", "module", "tensor")

    def __init__(self, weighing: Weighing, settings: LoraSettings, *, qlora: bool = False) -> None:
        self.weighing, self.settings, self.qlora = weighing, settings, qlora
        self.adapter: LoraAdapter = lora_tensors(weighing.ledger, settings)
        self.base_bytes: int = self._base_bytes()
        """The bytes of the weights of the model, which are not trained."""

    def _base_bytes(self) -> int:
        ledger = self.weighing.ledger
        if not self.qlora:
            return self.weighing.bytes or weight_bytes(ledger.rows)
        quantization = quantization_of({"quantization_config": NF4})
        if not isinstance(quantization, Quantization):
            raise ModelError("there is no rule for weights in NF4", hint="drop --qlora")
        if self.weighing.model.config.get("quantization_config"):
            raise UsageError(
                "the weights of the model are quantised already",
                where=self.weighing.model.where,
                hint="drop --qlora",
            )
        try:
            weights = weights_of(ledger, quantization)
            return elements_bytes(stored_elements(weights, quantization, ledger.dtype))
        except UncoveredError as error:
            raise ModelError(str(error), hint="drop --qlora") from None

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read, and on what the settings select."""
        notes = list(self.weighing.notes)
        chosen = self.adapter.chosen
        for name in chosen.fused:
            whole = ", ".join(chosen.meanings[name])
            notes.append(f"{name} has no module of its own here; {whole} is adapted")
        notes += [f"{name} selects nothing" for name in self.adapter.unmatched]
        return notes

    @property
    def trainable_parameters(self) -> int:
        """The parameters that are trained."""
        return self.adapter.trainable_parameters

    @property
    def all_parameters(self) -> int:
        """The parameters of the model with the adapter."""
        return self.adapter.all_parameters

    @property
    def trainable_share(self) -> float:
        """The share of the parameters that is trained."""
        return units.fraction(self.trainable_parameters, self.all_parameters)

    @property
    def adapter_bytes(self) -> int:
        """The bytes of `adapter_model.safetensors`, with its header."""
        return self.adapter.file_bytes

    @cached_property
    def memory(self) -> dict[str, int]:
        """The bytes that training holds, without activations."""
        adapter = self.adapter
        return {
            "base_bytes": self.base_bytes,
            "parameter_bytes": adapter.parameter_bytes,
            "gradient_bytes": adapter.parameter_bytes,
            "optimizer_bytes": adapter.optimizer_bytes,
        }

    def groups(self, by: str = "target") -> list[LoraGroup]:
        """Return the tensors in groups, by target or by module."""
        grouped: dict[str, list[LoraTensor]] = {}
        for tensor in self.adapter.tensors:
            name = tensor.target if by == "target" else tensor.module
            grouped.setdefault(name, []).append(tensor)
        return [_lora_group(name, tensors) for name, tensors in grouped.items()]

    def to_dict(self, by: str = "target") -> dict[str, Any]:
        """Return everything, ready for JSON; ``by`` says what the groups are."""
        chosen = self.adapter.chosen
        names = chosen.told
        return {
            "model": self.weighing.model.where,
            "family": self.weighing.model.blueprint.family,
            "class": self.weighing.class_name,
            "method": self.settings.method,
            "r": self.settings.rank,
            "target_modules": names if isinstance(names, str) else list(names),
            "target_parameters": list(chosen.parameter_names),
            "rank_pattern": dict(chosen.rank_pattern),
            "short_names": {name: list(full) for name, full in chosen.meanings.items()},
            "bias": self.settings.bias,
            "modules_to_save": list(self.settings.saved),
            "dtype": self.adapter.dtype,
            "trainable_parameters": self.trainable_parameters,
            "all_parameters": self.all_parameters,
            "trainable_share": self.trainable_share,
            "adapter_bytes": self.adapter_bytes,
            "qlora": self.qlora,
            **self.memory,
            "training_bytes": sum(self.memory.values()),
            "by": by,
            "groups": self.records(by),
            "modules": self._modules(),
            "notes": self.notes,
            "evidence": {"source": _source()},
        }

    def _modules(self) -> list[dict[str, Any]]:
        modules: dict[str, list[dict[str, Any]]] = {}
        for tensor in self.adapter.tensors:
            row = tensor.row
            held = {"name": row.name, "shape": list(row.shape), "dtype": row.dtype}
            described = {**held, "trained": row.parameters, "bytes": row.bytes}
            modules.setdefault(tensor.module, []).append(described)
        return [{"module": module, "tensors": tensors} for module, tensors in modules.items()]

    def document(self, lang: str = "en", by: str = "target") -> Document:
        """Return the totals, and the tensors of the adapter by target, module or one by one."""
        texts = {**words(lang), **data.read_toml(f"words/lora.{lang}.toml")}
        heading = texts["heading"].format(
            model=self.weighing.model.where,
            class_name=self.weighing.class_name,
            method=texts[self.settings.method],
            rank=units.count(self.settings.rank),
            dtype=self.adapter.dtype,
        )
        title = Together((Title(heading, wraps=True), self._totals(texts)))
        table = self._tensors(texts) if by == "tensor" else self._groups(by, texts)
        return Document((title, table, Notes(tuple(self._sentences(texts)))), lang)

    def _totals(self, texts: Mapping[str, str]) -> Table:
        share = f"{units.fixed(100 * self.trainable_share, 4)}%"
        rows = [
            (texts["trainable"], units.count(self.trainable_parameters), share),
            (texts["all"], units.count(self.all_parameters), units.short(self.all_parameters)),
        ]
        sizes = {"adapter_bytes": self.adapter_bytes, **self.memory}
        for name, size in sizes.items():
            rows.append((texts[self._row_name(name)], units.count(size), units.size(size)))
        total = sum(self.memory.values())
        rows.append((texts["training_bytes"], units.count(total), units.size(total)))
        header = (texts["quantity"], texts["exact"], texts["short"])
        return Table(header, tuple(rows), "<>>", 1)

    def _row_name(self, name: str) -> str:
        if name == "base_bytes" and self.qlora:
            return "base_bytes_in_nf4"
        return name

    def _groups(self, by: str, texts: Mapping[str, str]) -> Table:
        groups = self.groups(by)
        rows, shares = [], []
        for group in groups:
            name = texts["biases"] if group.name == "bias" and by == "target" else group.name
            rank = texts["comma"].join(map(units.count, group.rank)) or texts["no_rank"]
            numbers = (units.count(group.modules), rank, units.count(group.parameters))
            rows.append((name, *numbers, units.size(group.bytes)))
            shares.append(units.fraction(group.parameters, self.trainable_parameters))
        tensors_bytes = sum(group.bytes for group in groups)
        total = (units.count(self.trainable_parameters), units.size(tensors_bytes))
        rows.append((texts["total"], "", "", *total))
        header = (
            *(texts[by], texts["modules"], texts["rank"]),
            *(texts["parameters"], texts["in_file"]),
        )
        return Table(header, tuple(rows), "<>>>>", 1, tuple(shares), 3)

    def _tensors(self, texts: Mapping[str, str]) -> Table:
        rows = []
        for tensor in self.adapter.tensors:
            shape = "×".join(map(str, tensor.row.shape))
            rows.append((tensor.row.name, shape, units.count(tensor.row.parameters)))
        rows.append((texts["total"], "", units.count(self.trainable_parameters)))
        header = (texts["tensor"], texts["shape"], texts["parameters"])
        return Table(header, tuple(rows), "<<>", 1)

    def _sentences(self, texts: Mapping[str, str]) -> list[str]:
        """Return what the targets mean, and what the numbers count."""
        sentences = []
        meanings = self.adapter.chosen.meanings
        if meanings:
            pairs = [
                texts["meaning"].format(
                    name=name, modules=texts["comma"].join(full[:_MOST_MEANINGS])
                )
                for name, full in meanings.items()
            ]
            sentences.append(texts["meanings"].format(pairs=texts["semicolon"].join(pairs)))
        base_dtype = self.weighing.ledger.dtype
        if self.settings.dtype is None and base_dtype != self.adapter.dtype:
            sentences.append(texts["upcast"].format(dtype=self.adapter.dtype, base=base_dtype))
        sentences += [texts["adamw"], texts["activations"]]
        if self.qlora:
            sentences.append(texts["nf4"].format(base=base_dtype))
            if units.DTYPE_BITS[base_dtype] < units.DTYPE_BITS["F32"]:
                sentences.append(texts["kbit"])
        sentences.append(Aside(texts["evidence"].format(source=_source())))
        return sentences

    def _data_table(self, by: str) -> DataTable:
        from weighbridge.answers.data_table import (  # noqa: PLC0415  # a terminal does without
            INTEGER,
            Column,
            DataTable,
        )

        rows: list[tuple[Any, ...]] = []
        if by == "tensor":
            for tensor in self.adapter.tensors:
                row = tensor.row
                names = (row.name, tensor.module, tensor.target)
                rows.append((*names, row.dtype, list(row.shape), row.parameters, row.bytes))
            texts = [Column(name) for name in ("tensor", "module", "target", "dtype")]
            shape = Column("shape", INTEGER, joined_by="x")
            numbers = (Column("parameters", INTEGER), Column("bytes", INTEGER))
            return DataTable((*texts, shape, *numbers), rows)
        rows += self.groups(by)
        columns = (
            *(Column(by), Column("modules", INTEGER), Column("rank", INTEGER, joined_by=" ")),
            *(Column(name, INTEGER) for name in ("tensors", "parameters", "bytes")),
        )
        return DataTable(columns, rows)


def _lora_group(name: str, tensors: list[LoraTensor]) -> LoraGroup:
    return LoraGroup(
        name,
        len({tensor.module for tensor in tensors}),
        sorted({tensor.rank for tensor in tensors if tensor.rank is not None}),
        len(tensors),
        sum(tensor.row.parameters for tensor in tensors),
        sum(tensor.row.bytes for tensor in tensors),
    )


def _source() -> str:
    source: str = data.read_toml("facts/lora.toml")["version"]
    return source
