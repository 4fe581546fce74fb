"""A LoRA adapter before it is made: what it trains, its file, and the memory of its training."""

from __future__ import annotations

import os
from functools import cached_property

from weighbridge import data, units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.weigh import weigh
from weighbridge.costs.costs import weight_bytes
from weighbridge.costs.lora import lora_tensors
from weighbridge.costs.lora_config import class_adapted, settings_in
from weighbridge.costs.lora_settings import DEFAULT_RANK, lora_settings
from weighbridge.costs.quantization import (
    Quantization,
    UncoveredError,
    elements_bytes,
    stored_elements,
    weights_of,
)
from weighbridge.errors import ConfigError, ModelError, UnknownNameError, UsageError, printable
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.models.find import find
from weighbridge.models.quantization import quantization_of
from weighbridge.readers.adapter import CONFIG
from weighbridge.readers.stores import read_object
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
    from weighbridge.readers import StoredCheckpoint

NF4 = {
    "quant_method": "bitsandbytes",
    "load_in_4bit": True,
    "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_use_double_quant": True,
}
"""The settings of QLoRA's base, for transformers' BitsAndBytesConfig."""

FILE = "adapter_model.safetensors"
_GIVE_BASE = "`weighbridge lora BASE --config ADAPTER` counts it on a base model of your choice"
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


def lora_saved(
    adapter: str | os.PathLike[str],
    base: Described | None = None,
    class_name: str | None = None,
    *,
    dtype: str | None = None,
    qlora: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> Lora:
    """Return an adapter that peft has saved, with its base model.

    The settings are those of its ``adapter_config.json``. If ``adapter_model.safetensors`` is
    there, its header is held against them.

    Args:
        adapter: the folder of the adapter, or its ``adapter_config.json``.
        base: the base model, as for `weigh`; by default the one that the config names.
        class_name: as for `weigh`; by default the class that peft builds for the adapter's task.
        dtype: as for `lora`.
        qlora: as for `lora`.
        fields: fields of the base model's config to replace.

    Raises:
        ModelError: it is no adapter of LoRA, its config has a setting whose tensors are not known,
            or there is no such base model.
        ConfigError: a config cannot be read.
        CheckpointError: the adapter's file cannot be read.
    """
    path = os.fspath(adapter)
    place = path if path.endswith(".json") else os.path.join(path, CONFIG)
    config = read_object(place)
    settings = settings_in(config, place)
    if dtype is not None:
        settings = settings._replace(dtype=units.dtype(dtype))
    named = _base_named(config, place) if base is None else base
    if class_name is None:
        found = find(named, fields)
        names, usual = found.blueprint.class_names, found.default_class
        class_name = class_adapted(config, names, usual)
    weighing = weigh(named, class_name, fields=fields)
    return Lora(weighing, settings, qlora=qlora, file=_file_in(os.path.dirname(place)))


def _file_in(folder: str) -> StoredCheckpoint | None:
    """Return what the header of an adapter's file says; None if there is none."""
    from weighbridge import readers  # noqa: PLC0415  # most adapters are not made yet

    path = os.path.join(folder, FILE)
    return readers.read(path) if os.path.isfile(path) else None


def _base_named(config: Mapping[str, Any], place: str) -> str:
    """Return the base model that an adapter's config names: a name, or a local path."""
    named = config.get("base_model_name_or_path")
    what = "the adapter's config names no base model that can be weighed"
    if not isinstance(named, str) or named in ("", "-") or "://" in named:
        raise ModelError(what, where=place, values={"base": named}, hint=_GIVE_BASE)
    try:
        find(named)
    except (UnknownNameError, ConfigError) as error:
        if isinstance(error, ConfigError) and os.path.exists(named):
            raise
        raise ModelError(what, where=place, values={"base": named}, hint=_GIVE_BASE) from None
    return named


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


class UnlikeTensor(NamedTuple):
    """A tensor with another shape in an adapter's file than its config makes; None: it lacks it."""

    name: str
    expected_shape: tuple[int, ...] | None
    found_shape: tuple[int, ...] | None


class Lora(TabularAnswer):
    """What `lora` and `lora_saved` return. The latter has the adapter's ``file``, if there is one.

    Example:
        >>> adapter = lora("gpt2", "GPT2LMHeadModel", r=4, method="dora")
        >>> [(group.name, group.modules, group.parameters) for group in adapter.groups()]
        [('c_attn', 12, 175104)]
        >>> adapter.to_dict()["target_modules"]
        ['c_attn']
    """

    groupings = ("target", "module", "tensor")

    def __init__(
        self,
        weighing: Weighing,
        settings: LoraSettings,
        *,
        qlora: bool = False,
        file: StoredCheckpoint | None = None,
    ) -> None:
        self.weighing, self.settings, self.qlora, self.file = weighing, settings, qlora, file
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
        if self.differences:
            count = len(self.differences)
            notes.append(f"tensors of {FILE} differ from those that its config makes: {count}")
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

    @cached_property
    def differences(self) -> list[UnlikeTensor]:
        """The tensors in which the adapter's file differs from what its config makes."""
        if self.file is None:
            return []
        made = {tensor.row.name: tensor.row.shape for tensor in self.adapter.tensors}
        held = {row.name: row.shape for row in self.file.rows}
        return [
            UnlikeTensor(name, made.get(name), held.get(name))
            for name in {**made, **held}
            if made.get(name) != held.get(name)
        ]

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
            "file": self._file_compared(),
            "notes": self.notes,
            "evidence": {"source": _source()},
        }

    def _file_compared(self) -> dict[str, Any] | None:
        if self.file is None:
            return None
        differences = [difference._asdict() for difference in self.differences]
        tensors = len(self.file.rows)
        return {"path": self.file.path, "tensors": tensors, "differences": differences}

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
        self.data_table(by)  # refuses another grouping
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
        if self.file is not None:
            sentences.append(self._comparison(texts))
        sentences.append(Aside(texts["evidence"].format(source=_source())))
        return sentences

    def _comparison(self, texts: Mapping[str, str]) -> str:
        """Return whether the adapter's file holds what its config makes."""
        if not self.differences:
            tensors = units.count(len(self.adapter.tensors))
            return texts["held"].format(file=FILE, tensors=tensors)
        first = self.differences[0]
        expected, found = (
            texts["absent"] if shape is None else "×".join(map(units.count, shape))
            for shape in first[1:]
        )
        return texts["differs"].format(
            file=FILE,
            differences=units.count(len(self.differences)),
            name=printable(first.name),
            expected=expected,
            found=found,
        )

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
