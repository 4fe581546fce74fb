"""The tensors of a GGUF file, from those of a checkpoint: `facts/gguf_names.toml`."""

from __future__ import annotations

from weighbridge import data
from weighbridge.blueprint.roles import component_of
from weighbridge.costs.gguf import GgufTensor
from weighbridge.errors import ModelError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.models.find import is_generative

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Entry
    from weighbridge.models.find import Model

_FACTS = "facts/gguf_names.toml"
_ENDINGS = (".weight", ".bias")
_LAYER, _EXPERT = "{i}", "{j}"
_ROTATED = "constant"
_MATRIX = 2  # dims
_EMBEDDING = "token_embd.weight"


class GgufFile(NamedTuple):
    """The tensors of a GGUF file, and its ``general.architecture``.

    ``elsewhere`` is the number of parameters that another file holds, such as an image encoder's.
    """

    architecture: str
    tensors: list[GgufTensor]
    elsewhere: int = 0


def converted_class(model: Model, class_name: str | None = None) -> str:
    """Return the class that is converted: by default the config's, or the one that generates text.

    Example:
        >>> from weighbridge.models.find import find
        >>> converted_class(find("gpt2"))
        'GPT2LMHeadModel'
    """
    if class_name is not None:
        return model.class_called(class_name)
    if is_generative(model.default_class):
        return model.default_class
    for known in model.blueprint.class_names:
        if known.endswith(("ForCausalLM", "LMHeadModel")):
            return known
    return model.default_class


def gguf_file(model: Model, ledger: Ledger) -> GgufFile:
    """Return the tensors that llama.cpp's conversion writes for a class.

    Raises:
        ModelError: its family, or one of its tensors, has no known name in GGUF.

    Example:
        >>> from weighbridge.ledger.ledger import bind
        >>> from weighbridge.models.find import find
        >>> model = find("meta-llama/Llama-3.1-8B")
        >>> file = gguf_file(model, bind(model.blueprint, "LlamaForCausalLM", model.fields))
        >>> file.architecture, len(file.tensors), file.tensors[1][:2]
        ('llama', 292, ('blk.0.attn_q.weight', (4096, 4096)))
    """
    facts, family = data.read_toml(_FACTS), model.blueprint.family
    architecture = facts["families"].get(family)
    if architecture is None:
        known = ", ".join(sorted(facts["families"]))
        raise ModelError(
            f"the names of {family}'s tensors in GGUF are not known",
            where=model.where,
            hint=f"use a model of {known}; or another value of --to, such as awq",
        )
    converter = _Converter(facts, architecture, ledger.class_name, model.where)
    tensors, elsewhere = list[GgufTensor](), 0
    for entry in ledger.stored.entries:
        if entry.template.name.startswith(tuple(facts["other_files"])):
            elsewhere += entry.parameters
        elif not entry.tied:
            tensors += converter.tensors(entry)
    tensors += _rotary_tensors(model, facts)
    return GgufFile(architecture, tensors, elsewhere)


class _Converter:
    """Converts the tensors of one architecture."""

    def __init__(
        self, facts: Mapping[str, Any], architecture: str, class_name: str, where: str
    ) -> None:
        own = facts["architectures"].get(architecture, {})
        self.names = {**facts["names"], **own.get("names", {})}
        self.transposed, self.halved = own.get("transposed", ()), own.get("halved", {})
        self.rows: int | None = own.get("rows")
        self.prefixes = sorted(facts["prefixes"], key=len, reverse=True)
        self.architecture, self.class_name, self.where = architecture, class_name, where

    def tensors(self, entry: Entry) -> Iterator[GgufTensor]:
        """Yield the tensors that hold an entry, in each of its layers."""
        path, ending = self._path_and_ending(entry)
        component = component_of(entry.template.role)
        for name, shape in self._parts(path, ending, entry.shape):
            for place, experts in _layers_and_experts(entry):
                of_layer = name
                if place is not None:
                    of_layer = name.replace(_LAYER, str(place))
                whole = (experts, *shape) if experts else shape
                yield GgufTensor(of_layer, whole, component)

    def _path_and_ending(self, entry: Entry) -> tuple[str, str]:
        """Return the path in GGUF, with ``{i}`` for the layer, and its ending."""
        path, ending = entry.template.name, ""
        for known in _ENDINGS:
            if path.endswith(known):
                path, ending = path.removesuffix(known), known
        for number, index in enumerate(entry.template.repeat):
            path = path.replace(f"{{{index}}}", (_LAYER, _EXPERT)[min(number, 1)])
        found = self.names.get(self._bare(path))
        if found is None:
            raise ModelError(
                f"the name of {entry.template.name} in GGUF is not known",
                where=self.where,
                values={"architecture": self.architecture, "class": self.class_name},
                hint="use the class that generates text, or another value of --to, such as awq",
            )
        if found.endswith(_ENDINGS):
            found, _, ending = found.rpartition(".")
            ending = f".{ending}"
        return found, ending or ".weight"

    def _bare(self, path: str) -> str:
        """Return a path without the beginning that stands for the model in its class."""
        for prefix in self.prefixes:
            if path.startswith(prefix):
                return path.removeprefix(prefix)
        return path

    def _parts(
        self, path: str, ending: str, shape: tuple[int, ...]
    ) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the names and shapes of the tensors that a tensor becomes."""
        if ending == ".weight" and path in self.transposed:
            shape = (*shape[:-2], shape[-1], shape[-2])
        if path + ending == _EMBEDDING and self.rows is not None:
            shape = (min(shape[0], self.rows), *shape[1:])
        if len(shape) == _MATRIX and shape[0] == 1:
            shape = shape[1:]
        halves = self.halved.get(path)
        if halves is None:
            yield path + ending, shape
            return
        at = -1  # a bias has only outputs
        if ending == ".weight":
            at = -2
        half = list(shape)
        half[at] //= len(halves)
        for name in halves:
            yield name + ending, tuple(half)


def _layers_and_experts(entry: Entry) -> Iterator[tuple[int | None, int]]:
    """Yield each layer of an entry, None outside of layers, with the experts in it, or 0."""
    if not entry.template.repeat:
        yield None, 0
        return
    has_experts = len(entry.template.repeat) > 1
    for layer, inside in entry.indices.items():
        yield layer, len(inside) if has_experts else 0


def _rotary_tensors(model: Model, facts: Mapping[str, Any]) -> Iterator[GgufTensor]:
    """Yield the tensors for the scaling of rotary positions that the config asks for."""
    for name in facts["rope"].get(_rope_type(model, facts), ()):
        yield GgufTensor(name, (_head_size(model) // 2,), _ROTATED)


def _rope_type(model: Model, facts: Mapping[str, Any]) -> str:
    """Return the kind of scaling of rotary positions; empty if there is none."""
    for field in ("rope_parameters", "rope_scaling"):
        stated = model.config.get(field)
        if stated is not None and hasattr(stated, "keys"):
            return str(stated.get("rope_type", stated.get("type", ""))).lower()
    if model.entry is not None:
        for kind, names in facts["released"].items():
            if kind != "source" and model.where.startswith(tuple(names)):
                return str(kind)
    return ""


def _head_size(model: Model) -> int:
    """Return the size of an attention head."""
    head: int | None = model.fields.get("head_dim")
    if head is None:
        head = model.fields["hidden_size"] // model.fields["num_attention_heads"]
    return head
