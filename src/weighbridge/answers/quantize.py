"""A quantised file before it is made: the type, the shape and the bytes of each of its tensors."""

from __future__ import annotations

from functools import cached_property

from weighbridge import data, units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.weigh import Weighing
from weighbridge.costs import gguf
from weighbridge.costs.packed import StoredTensor, packed_tensors
from weighbridge.costs.quantization import EXPERT, Quantization, UncoveredError
from weighbridge.errors import ModelError, UsageError, nearest
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.models.find import find
from weighbridge.models.gguf_names import converted_class, gguf_file
from weighbridge.models.quantization import quantization_of
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.answers.data_table import DataTable
    from weighbridge.models.find import Described

GROUPINGS = ("type", "component", "tensor")
_BITS = 8  # of a byte


def targets() -> list[str]:
    """Return the values of ``to``: the schemes of GGUF, and the methods of other files.

    Example:
        >>> "q4_k_m" in targets(), "awq" in targets()
        (True, True)
    """
    return [*gguf.schemes(), *data.read_toml("facts/quantization_defaults.toml")]


def quantize(
    model: Described,
    to: str,
    class_name: str | None = None,
    *,
    imatrix: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> Quantized:
    """Compute the file that quantising a model makes, tensor by tensor, without making it.

    The types in a GGUF file are those that `llama-quantize` chooses from a file in F16, BF16 or
    F32. Other methods have the settings that their tools have by default.

    Args:
        model: as for `weigh`.
        to: a scheme of GGUF, such as ``"q4_k_m"``, or a method: ``"awq"``, ``"gptq"``, ``"nf4"``,
            ``"int8"``, ``"fp8"``, ``"mxfp4"`` or ``"mlx-4bit"``.
        class_name: the class of the file; by default the one that generates text.
        imatrix: whether `llama-quantize` has an importance matrix, by which a few schemes choose.
        fields: config fields to replace.

    Raises:
        UsageError: there is no such scheme or method, or it cannot hold a tensor.
        ModelError: there is no such model, its names in GGUF are not known, or the method does not
            pack it.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> llama = quantize("meta-llama/Llama-3.1-8B", "q4_k_m")
        >>> llama.tensor_bytes, round(llama.bits_per_weight, 2)
        (4912898304, 4.89)
        >>> [(group.name, group.tensors) for group in llama.by("type")]
        [('Q4_K', 193), ('Q6_K', 33), ('F32', 66)]
        >>> quantize("meta-llama/Llama-3.1-8B", "awq").by("type")[0].name
        'AWQ, 4 bits'
    """
    found = find(model, fields, class_name=class_name)
    weighing = Weighing(found, converted_class(found, class_name))
    return _quantized(weighing, to, imatrix=imatrix)


def quantized_bytes(model: Described | Weighing, to: str, *, option: str = "to") -> int:
    """Return the bytes of the tensors of a quantised model: what its weights take in memory.

    ``option`` is what messages call ``to``.

    Raises:
        UsageError, ModelError, ConfigError: as for `quantize`.

    Example:
        >>> quantized_bytes("meta-llama/Llama-3.1-8B", "fp8")
        9082904576
    """
    if isinstance(model, Weighing):
        return _quantized(model, to, option=option).tensor_bytes
    return quantize(model, to).tensor_bytes


def _quantized(
    weighing: Weighing, to: str, *, imatrix: bool = False, option: str = "to"
) -> Quantized:
    if not isinstance(to, str):
        raise UsageError("to must be a name", values={"to": to}, hint="try to='q4_k_m'")
    scheme = gguf.scheme_called(to)
    if scheme is not None:
        return QuantizedGguf(weighing, scheme, imatrix=imatrix)
    methods, method = data.read_toml("facts/quantization_defaults.toml"), to.lower()
    if method not in methods:
        near = nearest(targets(), to) or targets()
        raise UsageError(
            "there is no such quantisation",
            values={option: to},
            hint=f"use one of {', '.join(near)}",
        )
    if imatrix:
        raise UsageError(
            f"{method} takes no importance matrix", hint="drop --imatrix, or choose a GGUF scheme"
        )
    return QuantizedFiles(weighing, method, methods[method])


class StoredGroup(NamedTuple):
    """Tensors of one type or component: their number, the parameters that they hold, their bytes.

    ``types`` are the types of a component's tensors, those with the most bytes first.
    """

    name: str
    tensors: int
    parameters: int
    bytes: int
    types: tuple[str, ...] = ()

    @property
    def bits_per_weight(self) -> float | None:
        """The bits that a parameter takes on average; None if the tensors hold none."""
        if not self.parameters:
            return None
        return self.bytes * _BITS / self.parameters


class Quantized(TabularAnswer):
    """What `quantize` returns.

    ``tensors`` are those of the file, in its order. ``csv()``, ``records()``, ``to_pandas()`` and
    ``to_arrow()`` take ``by``, one of ``"type"``, ``"component"`` and ``"tensor"``.
    """

    groupings = GROUPINGS
    file_format = ""
    architecture: str | None = None
    """``general.architecture`` of a GGUF file."""

    def __init__(self, weighing: Weighing, to: str) -> None:
        self.weighing, self.to = weighing, to

    @cached_property
    def tensors(self) -> list[StoredTensor]:
        """The tensors of the file, in its order."""
        raise NotImplementedError

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read."""
        return list(self.weighing.model.notes)

    @cached_property
    def tensor_bytes(self) -> int:
        """The bytes of the data of all tensors, without padding."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def file_bytes(self) -> int:
        """The bytes of the file, without what the tokenizer decides and what a shard adds."""
        return self.tensor_bytes

    @cached_property
    def parameters(self) -> int:
        """The parameters that the file holds."""
        return sum(tensor.parameters for tensor in self.tensors)

    @property
    def bits_per_weight(self) -> float:
        """The bits that a parameter takes on average."""
        return self.tensor_bytes * _BITS / self.parameters

    def by(self, grouping: str) -> list[StoredGroup]:
        """Return the tensors in groups, by ``"type"`` or ``"component"``; types by their bytes.

        Example:
            >>> [group.name for group in quantize("gpt2", "q8_0").by("component")][:3]
            ['final norm', 'position embedding', 'token embedding']
        """
        grouped: dict[str, list[StoredTensor]] = {}
        for tensor in self.tensors:
            name = tensor.type if grouping == "type" else label(tensor.component, "en")
            grouped.setdefault(name, []).append(tensor)
        groups = [_group(name, tensors) for name, tensors in grouped.items()]
        if grouping == "type":
            groups.sort(key=_bytes_of, reverse=True)
        return groups

    def _more(self) -> dict[str, Any]:
        """Return what only files of this format have, ready for JSON."""
        return {}

    def to_dict(
        self,
        by: str = "type",  # noqa: ARG002  # it is asked as a weighing is
    ) -> dict[str, Any]:
        """Return everything, ready for JSON, whatever the grouping of the text."""
        return {
            "model": self.weighing.model.where,
            "family": self.weighing.model.blueprint.family,
            "class": self.weighing.class_name,
            "to": self.to,
            "format": self.file_format,
            "parameters": self.parameters,
            "tensor_bytes": self.tensor_bytes,
            "file_bytes": self.file_bytes,
            **self._more(),
            "bits_per_weight": self.bits_per_weight,
            "types": [_group_dict(group) for group in self.by("type")],
            "components": [
                {**_group_dict(group), "types": list(group.types)} for group in self.by("component")
            ],
            "tensors": [{**tensor._asdict(), "bytes": tensor.bytes} for tensor in self.tensors],
            "notes": self.notes,
            "evidence": self.weighing.evidence,
        }

    def document(self, lang: str = "en", by: str = "type") -> Document:
        """Return the file as a table by ``by``, and what it leaves out."""
        texts = quantize_words(lang)
        heading = texts["heading"].format(
            model=self.weighing.model.where,
            class_name=self.weighing.class_name,
            to=self.to,
            format=self.file_format,
        )
        table = self._table_of_tensors(lang) if by == "tensor" else self._table(by, lang)
        title = Together((Title(heading, wraps=False), table))
        return Document((title, Notes(tuple(self._sentences(lang)))), lang)

    def _table(self, by: str, lang: str) -> Table:
        """Return the groups as a table, with the bits of a parameter; components with types."""
        texts, rows, shares = quantize_words(lang), [], []
        for group in (*self.by(by), _group(texts["total"], self.tensors)):
            name, second = _shown(group.name, by, lang), units.count(group.tensors)
            if by == "component":
                second = texts["and"].join(group.types)
            rows.append((name, second, *_figures(group, texts)))
            shares.append(units.fraction(group.bytes, self.tensor_bytes))
        second, align = texts["tensors"], "<>>>>>"
        if by == "component":
            second, align = texts["types"], "<<>>>>"
        header = (texts[by], second, texts["parameters"], texts["bytes"], texts["short"])
        return Table((*header, texts["bits"]), tuple(rows), align, 1, tuple(shares[:-1]), 4)

    def _table_of_tensors(self, lang: str) -> Table:
        texts = quantize_words(lang)
        rows = []
        for tensor in self.tensors:
            shape = "×".join(map(str, tensor.shape)) or "1"
            rows.append((tensor.name, tensor.type, shape, units.count(tensor.bytes)))
        rows.append((texts["total"], "", "", units.count(self.tensor_bytes)))
        header = (texts["tensor"], texts["type"], texts["shape"], texts["bytes"])
        return Table(header, tuple(rows), "<<<>", 1)

    def _sentences(self, lang: str) -> Iterator[str]:
        """Yield the notes below the table."""
        raise NotImplementedError

    def _data_table(self, by: str) -> DataTable:
        from weighbridge.answers.data_table import (  # noqa: PLC0415  # a terminal does without
            INTEGER,
            Column,
            DataTable,
        )

        numbers = (Column("parameters", INTEGER), Column("bytes", INTEGER))
        rows: list[tuple[Any, ...]] = []
        if by == "tensor":
            for tensor in self.tensors:
                sizes = (list(tensor.shape), tensor.parameters, tensor.bytes)
                rows.append((tensor.name, tensor.component, tensor.type, tensor.dtype, *sizes))
            texts = tuple(map(Column, ("tensor", "component", "type", "dtype")))
            return DataTable((*texts, Column("shape", INTEGER, joined_by="x"), *numbers), rows)
        columns = (Column(by), Column("tensors", INTEGER), *numbers)
        if by == "type":
            return DataTable(columns, [group[:4] for group in self.by(by)])
        rows = [(*group[:4], list(group.types)) for group in self.by(by)]
        return DataTable((*columns, Column("types", joined_by=" ")), rows)


class QuantizedGguf(Quantized):
    """A GGUF file, with the types that `llama-quantize` chooses.

    Example:
        >>> phi = quantize("microsoft/Phi-3-mini-4k-instruct", "q4_0")
        >>> phi.architecture, phi.file_format
        ('phi3', 'GGUF')
    """

    file_format = "GGUF"

    def __init__(self, weighing: Weighing, scheme: str, *, imatrix: bool) -> None:
        super().__init__(weighing, scheme)
        self.imatrix = imatrix or gguf.needs_importance(scheme)
        file = gguf_file(weighing.model, weighing.ledger)
        self.architecture, self.elsewhere = file.architecture, file.elsewhere
        self._typed = gguf.choose_types(
            file.tensors, scheme, file.architecture, imatrix=self.imatrix
        )

    @cached_property
    def tensors(self) -> list[StoredTensor]:
        """The tensors of the file, in its order."""
        return [_as_stored(typed) for typed in self._typed]

    @property
    def file_bytes(self) -> int:
        """The bytes of the file, without its key-values."""
        return gguf.file_bytes(self._typed)

    @property
    def key_values_about(self) -> tuple[int, int]:
        """The least and the most that the key-values may take, by the entries of the vocabulary."""
        return gguf.key_values_about(self._typed)

    @property
    def replaced(self) -> list[StoredTensor]:
        """The tensors whose rows the type of the scheme does not divide."""
        return [tensor for tensor in self.tensors if tensor.instead_of]

    def _more(self) -> dict[str, Any]:
        least, most = self.key_values_about
        return {
            "architecture": self.architecture,
            "imatrix": self.imatrix,
            "tensor_infos_bytes": gguf.infos_bytes(self._typed),
            "padding_bytes": gguf.padded_bytes(self._typed) - self.tensor_bytes,
            "key_values_about": {"least_bytes": least, "most_bytes": most},
            "parameters_in_other_files": self.elsewhere,
        }

    def _sentences(self, lang: str) -> Iterator[str]:
        texts = quantize_words(lang)
        least, most = map(units.size, self.key_values_about)
        yield texts["gguf_size"].format(
            file=units.count(self.file_bytes),
            size=units.size(self.file_bytes),
            infos=units.count(gguf.infos_bytes(self._typed)),
        )
        yield texts["key_values"].format(least=least, most=most)
        if gguf.needs_importance(self.to):
            yield texts["needs_imatrix"].format(scheme=self.to)
        for instead_of, taken, number in _replacements(self.replaced):
            yield texts["replaced"].format(
                number=units.count(number), instead_of=instead_of, taken=taken
            )
        if self.elsewhere:
            yield texts["elsewhere"].format(count=units.count(self.elsewhere))
        facts = data.read_toml("facts/gguf_types.toml")
        yield Aside(texts["rules"].format(source=facts["source"]))


class QuantizedFiles(Quantized):
    """Files of safetensors, packed by a method with its default settings.

    Example:
        >>> nf4 = quantize("Qwen/Qwen2.5-0.5B", "nf4")
        >>> nf4.file_format, nf4.is_exact
        ('safetensors', False)
    """

    file_format = "safetensors"

    def __init__(self, weighing: Weighing, method: str, facts: Mapping[str, Any]) -> None:
        super().__init__(weighing, method)
        self.settings: Mapping[str, Any] = facts["settings"]
        self.source: str = facts["source"]
        quantization = quantization_of({"quantization_config": self.settings})
        if not isinstance(quantization, Quantization):
            raise ModelError(f"the rules for {method} are not complete")
        self.quantization = quantization
        if EXPERT in facts.get("not_with", ()) and weighing.ledger.has_experts:
            raise ModelError(
                f"{method} is not known for a model with experts: {facts['reason']}",
                where=weighing.model.where,
                hint="use another value of --to",
            )

    @property
    def is_exact(self) -> bool:
        """Whether the files hold just these tensors, whatever the version of the tool."""
        return self.quantization.is_exact

    @property
    def dtype(self) -> str:
        """The dtype of the tensors that are not packed."""
        if self.weighing.dtype_is == "assumed":
            return self.quantization.rest
        return self.weighing.ledger.dtype

    @cached_property
    def tensors(self) -> list[StoredTensor]:
        """The tensors of the files, in the order of the checkpoint's templates."""
        where = self.weighing.model.where
        try:
            tensors = list(packed_tensors(self.weighing.ledger, self.quantization, self.dtype))
        except UncoveredError as error:
            raise ModelError(
                f"{self.to} cannot hold its weights: {error}",
                where=where,
                hint="use another value of --to",
            ) from None
        if all(tensor.type == tensor.dtype for tensor in tensors):
            raise ModelError(
                f"{self.to} packs none of its weights",
                where=where,
                values={"packs": ", ".join(sorted(self.quantization.packings[0].modules))},
                hint="use another value of --to",
            )
        return tensors

    def _more(self) -> dict[str, Any]:
        return {"settings": dict(self.settings), "dtype": self.dtype, "exact": self.is_exact}

    def _sentences(self, lang: str) -> Iterator[str]:
        texts = quantize_words(lang)
        groups = self.by("type")
        packed = [group for group in groups if group.name != self.dtype]
        held = sum(group.parameters for group in packed)
        settings = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        yield texts["packed"].format(
            count=units.count(held),
            share=units.share(held, self.parameters),
            settings=settings,
        )
        yield from self._kept_sentences(lang)
        yield texts["header"]
        if not self.is_exact:
            yield texts["about"]
        yield Aside(texts["defaults"].format(source=self.source))

    def _kept_sentences(self, lang: str) -> Iterator[str]:
        """Yield the components of which nothing is packed, and what is kept beside packed ones."""
        texts = quantize_words(lang)
        packed = {tensor.component for tensor in self.tensors if tensor.type != tensor.dtype}
        kept = [tensor for tensor in self.tensors if tensor.type == tensor.dtype]
        parts = dict.fromkeys(tensor.component for tensor in kept if tensor.component not in packed)
        if parts:
            names = texts["and"].join([label(component, lang) for component in parts])
            yield texts["kept"].format(parts=names, dtype=self.dtype)
        beside = sum(tensor.component in packed for tensor in kept)
        if beside:
            yield texts["beside"].format(number=units.count(beside))


def _as_stored(typed: gguf.TypedTensor) -> StoredTensor:
    tensor = typed.tensor
    return StoredTensor(
        tensor.name,
        typed.type,
        typed.type,
        tensor.shape,
        tensor.elements,
        tensor.component,
        typed.instead_of,
    )


def _group(name: str, tensors: list[StoredTensor]) -> StoredGroup:
    """Return the sums of some tensors."""
    by_type: dict[str, int] = {}
    for tensor in tensors:
        by_type[tensor.type] = by_type.get(tensor.type, 0) + tensor.bytes
    types = sorted(by_type, key=by_type.__getitem__, reverse=True)
    parameters = sum(tensor.parameters for tensor in tensors)
    return StoredGroup(name, len(tensors), parameters, sum(by_type.values()), tuple(types))


def _bytes_of(group: StoredGroup) -> int:
    return group.bytes


def _group_dict(group: StoredGroup) -> dict[str, Any]:
    """Return a group, ready for JSON."""
    held = group._asdict()
    del held["types"]
    return {**held, "bits_per_weight": group.bits_per_weight}


def _figures(group: StoredGroup, texts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the parameters, the bytes and the bits of a parameter of a group, as text."""
    bits = texts["none"]
    if group.bits_per_weight is not None:
        bits = units.fixed(group.bits_per_weight, 2)
    numbers = (units.count(group.parameters), units.count(group.bytes))
    return (*numbers, units.size(group.bytes), bits)


def _shown(name: str, by: str, lang: str) -> str:
    """Return the name of a group in a language."""
    if by == "type" or lang == "en":
        return name
    components = data.read_toml("facts/roles.toml")["components"]
    return next((known[lang] for known in components.values() if known["en"] == name), name)


def _replacements(tensors: list[StoredTensor]) -> Iterator[tuple[str, str, int]]:
    """Yield the types that do not fit, the types instead of them, and the number of tensors."""
    numbers: dict[tuple[str, str], int] = {}
    for tensor in tensors:
        pair = (tensor.instead_of or "", tensor.type)
        numbers[pair] = numbers.get(pair, 0) + 1
    for (instead_of, taken), number in numbers.items():
        yield instead_of, taken, number


def quantize_words(lang: str) -> dict[str, str]:
    """Return the words of a quantised file in a language, including those of all tables."""
    return {**words(lang), **data.read_toml(f"words/quantize.{lang}.toml")}
