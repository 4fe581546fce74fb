"""The types that llama.cpp's quantiser chooses for the tensors of a GGUF file, and their bytes.

The rules are those of `facts/gguf_types.toml`, which names their source.
"""

from __future__ import annotations

from collections import Counter
from functools import cache, cached_property
from math import prod

from weighbridge import data, units
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.errors import UsageError, nearest
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from weighbridge.algebra.expr import Tree

FULL = "F32"
"""The type of tensors that are never quantised, such as norms and biases."""

_MATRIX = 2  # dims
_STACKED = 3  # dims of the matrices of several experts
_FACTS = "facts/gguf_types.toml"
_START_BYTES = 4 + 4 + 8 + 8  # the magic, the version, and the numbers of tensors and keys
_INFO_BYTES = 8 + 4 + 4 + 8  # the length of a name, the number of dims, the type and the offset
_SIZE_BYTES = 8


class GgufTensor(NamedTuple):
    """A tensor of a GGUF file: its name there, its shape, outermost first, and its component."""

    name: str
    shape: tuple[int, ...]
    component: str = ""

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def dims(self) -> int:
        """The number of dims without those of size 1 on the outside, as ggml counts them."""
        for at, size in enumerate(self.shape):
            if size > 1:
                return len(self.shape) - at
        return 1

    @property
    def layer(self) -> int:
        """The number of its layer; -1 if it is in none."""
        if not self.name.startswith("blk."):
            return -1
        return int(self.name.split(".")[1])


class TypedTensor(NamedTuple):
    """A tensor with the type that is chosen for it.

    ``instead_of`` is the type that does not fit its rows, if another was taken for that reason.
    """

    tensor: GgufTensor
    type: str
    instead_of: str | None = None

    @property
    def bytes(self) -> int:
        """The bytes of its data, without padding."""
        return units.stored_bytes(self.tensor.elements, self.type)


def scheme_called(name: str) -> str | None:
    """Return the scheme with a name, as `llama-quantize` spells it; None if there is none.

    Example:
        >>> scheme_called("q4_k_m"), scheme_called("Q4_K"), scheme_called("awq")
        ('Q4_K_M', 'Q4_K_M', None)
    """
    facts, upper = data.read_toml(_FACTS), name.upper()
    upper = facts["aliases"].get(upper, upper)
    return upper if upper in facts["schemes"] else None


def schemes() -> list[str]:
    """Return the names of all schemes, in lower case, the largest first.

    Example:
        >>> schemes()[:4]
        ['f32', 'f16', 'bf16', 'q8_0']
    """
    return [name.lower() for name in data.read_toml(_FACTS)["schemes"]]


def needs_importance(scheme: str) -> bool:
    """Return whether a scheme cannot be made without an importance matrix.

    Example:
        >>> needs_importance("IQ2_XS"), needs_importance("Q2_K")
        (True, False)
    """
    return scheme in data.read_toml(_FACTS)["imatrix"]


def choose_types(
    tensors: Iterable[GgufTensor],
    scheme: str,
    architecture: str,
    *,
    imatrix: bool | None = None,
) -> list[TypedTensor]:
    """Return the tensors in the order of the file, each with the type that llama.cpp chooses.

    Args:
        tensors: all tensors of the file.
        scheme: the name of a scheme, such as ``"Q4_K_M"``.
        architecture: ``general.architecture`` of the file, such as ``"llama"``.
        imatrix: whether the quantiser has an importance matrix; by default only if it must.

    Raises:
        UsageError: there is no such scheme, or llama.cpp has no type for the rows of a tensor.

    Example:
        >>> down = GgufTensor("blk.0.ffn_down.weight", (4096, 11008))
        >>> norm = GgufTensor("output_norm.weight", (4096,))
        >>> [typed.type for typed in choose_types([down, norm], "Q4_K_M", "llama")]
        ['F32', 'Q6_K']
    """
    known = scheme_called(scheme)
    if known is None:
        near = nearest(schemes(), scheme.lower()) or schemes()
        raise UsageError(
            "there is no such scheme", values={"to": scheme}, hint=f"use one of {', '.join(near)}"
        )
    if imatrix is None:
        imatrix = needs_importance(known)
    ordered = sorted(tensors, key=_place_in_file)
    return list(_Quantiser(ordered, known, architecture, imatrix=imatrix).chosen())


def _place_in_file(tensor: GgufTensor) -> tuple[int, bytes]:
    """Return what the order of the file goes by: `weight_name_comparer` of llama-model-loader.h."""
    return tensor.layer, tensor.name.encode()


def needs_more_bits(i: int, layers: int) -> bool:
    """Return whether a layer is among those that get more bits: `use_more_bits` of llama.cpp.

    Example:
        >>> [i for i in range(16) if needs_more_bits(i, 16)]
        [0, 1, 4, 7, 10, 13, 14, 15]
    """
    eighth, period = layers // 8, 3
    is_outer = i < eighth or i >= 7 * layers // 8
    return is_outer or (i - eighth) % period == period - 1


class _Rule(NamedTuple):
    """A type, the schemes that it is for, all if there are none, and its condition."""

    type: str
    schemes: frozenset[str]
    condition: Tree | None


@cache
def _rules() -> dict[str, tuple[_Rule, ...]]:
    """Return the rules by category."""
    facts = data.read_toml(_FACTS)
    return {
        category: tuple(_rule(text, facts["groups"]) for text in texts)
        for category, texts in facts["rules"].items()
    }


def _rule(text: str, groups: Mapping[str, Sequence[str]]) -> _Rule:
    """Return a rule, given its text: ``TYPE for SCHEMES if CONDITION``."""
    head, _, condition = text.partition(" if ")
    name, _, listed = head.partition(" for ")
    names: list[str] = []
    for scheme in listed.split():
        names += groups.get(scheme, [scheme])
    return _Rule(name, frozenset(names), parse(condition) if condition else None)


class _Quantiser:
    """Chooses a type for each of the tensors of a file, in their order."""

    def __init__(
        self, tensors: Sequence[GgufTensor], scheme: str, architecture: str, *, imatrix: bool
    ) -> None:
        facts = data.read_toml(_FACTS)
        self.facts, self.tensors, self.scheme = facts, tensors, scheme
        self.usual: str = facts["schemes"][scheme]
        self.before = Counter[str]()
        names = frozenset(tensor.name for tensor in tensors)
        self.is_tied = names.isdisjoint(facts["categories"]["output"])
        layers = 1 + max((tensor.layer for tensor in tensors), default=-1)
        gqa, self.experts = _query_heads_per_key(tensors), _experts(tensors)
        self.names = {
            "layers": layers,
            "gqa": gqa,
            "experts": self.experts,
            "usual": self.usual,
            "block": units.DTYPES[self.usual].elements,
            "imatrix": imatrix,
            "falcon": architecture == "falcon",
        }
        self.is_large = _is_large(facts["large"].get(architecture), layers, gqa)

    def chosen(self) -> Iterator[TypedTensor]:
        """Yield each tensor with its type."""
        for tensor in self.tensors:
            if not _allows_quantisation(tensor, self.facts["kept"]):
                yield TypedTensor(tensor, FULL)
            elif self.usual in self.facts["plain"]:
                yield TypedTensor(tensor, self.usual)
            else:
                yield self._fitting(tensor, self._wanted(tensor))

    def _wanted(self, tensor: GgufTensor) -> str:
        """Return the type of a tensor whatever the length of its rows."""
        category = self._category(tensor.name)
        order = self.before[category]
        self.before[category] += 1
        i = tensor.layer if self.experts > 1 else order
        layers = self.names["layers"]
        if category == "attn_v":  # its thirds are counted over the tensors of its kind
            i, layers = order, self._values
        names = {
            **self.names,
            "i": i,
            "order": order,
            "more_bits": needs_more_bits(i, layers),
            "columns": tensor.shape[-1],
            "stacked": len(tensor.shape) >= _STACKED and tensor.shape[-_STACKED] > 1,
        }
        return self._raised(category, self._ruled(category, names))

    @cached_property
    def _values(self) -> int:
        """The number of tensors of values (n_attention_wv)."""
        return sum(self._category(tensor.name) == "attn_v" for tensor in self.tensors)

    def _category(self, name: str) -> str:
        """Return the category of a tensor by its name; empty if it has none."""
        categories: dict[str, list[str]] = self.facts["categories"]
        if name in categories["output"]:
            return "output"
        if name in categories["token_embd"]:
            return "output" if self.is_tied else "token_embd"
        for category, pieces in categories.items():
            if category not in ("output", "token_embd") and any(piece in name for piece in pieces):
                return category
        return ""

    def _ruled(self, category: str, names: Mapping[str, Any]) -> str:
        rules = _rules().get(category, ())
        if category != "output":
            rules = (*_rules()["any"], *rules)
        for rule in rules:
            is_for = not rule.schemes or self.scheme in rule.schemes
            if is_for and (rule.condition is None or evaluate(rule.condition, names) is True):
                return rule.type
        return self.usual

    def _raised(self, category: str, wanted: str) -> str:
        raised = self.facts["raised"].get(category)
        if raised is None or not self.is_large or wanted not in raised["of"]:
            return wanted
        if self.scheme in self.facts["groups"][raised["not_for"]]:
            return wanted
        return str(raised["to"])

    def _fitting(self, tensor: GgufTensor, wanted: str) -> TypedTensor:
        """Return a tensor with a type whose blocks divide its rows."""
        columns, fallbacks = tensor.shape[-1], self.facts["fallbacks"]
        if columns % units.DTYPES[wanted].elements == 0:
            return TypedTensor(tensor, wanted)
        found = fallbacks.get(wanted)
        if found is None:
            raise UsageError(
                f"llama.cpp has no other type for rows that {wanted} does not divide",
                values={"tensor": tensor.name, "columns": columns},
                hint="use another scheme",
            )
        if columns % units.DTYPES[found].elements:
            found = fallbacks["last"]
        return TypedTensor(tensor, found, wanted)


def _allows_quantisation(tensor: GgufTensor, kept: Mapping[str, Any]) -> bool:
    """Return whether a tensor may be quantised: `tensor_allows_quantization` of llama.cpp."""
    if tensor.dims < _MATRIX or not tensor.name.endswith(kept["ending"]):
        return False
    return not any(piece in tensor.name for piece in kept["pieces"])


def _query_heads_per_key(tensors: Iterable[GgufTensor]) -> int:
    """Return the query heads for each key head of the first layer; 0 if it has no attention."""
    rows = {
        tensor.name.removeprefix("blk.0."): tensor.shape
        for tensor in tensors
        if tensor.name.startswith("blk.0.")
    }
    if "attn_qkv.weight" in rows and "attn_output.weight" in rows:
        queries = rows["attn_output.weight"][1]
        return queries // ((rows["attn_qkv.weight"][0] - queries) // 2)
    if "attn_q.weight" in rows and "attn_k.weight" in rows:
        return rows["attn_q.weight"][0] // rows["attn_k.weight"][0]
    return 0


def _experts(tensors: Iterable[GgufTensor]) -> int:
    """Return the experts of a layer, or 0."""
    experts = (tensor.shape[0] for tensor in tensors if "_exps." in tensor.name)
    return max(experts, default=0)


def _is_large(large: Mapping[str, Any] | None, layers: int, gqa: int) -> bool:
    """Return whether llama.cpp calls a model a 70B."""
    if large is None or layers != large["layers"]:
        return False
    return gqa != 1 or not large.get("shares_keys")


# The file


def data_bytes(tensors: Iterable[TypedTensor]) -> int:
    """Return the bytes of the data of all tensors, without padding."""
    return sum(typed.bytes for typed in tensors)


def padded_bytes(tensors: Iterable[TypedTensor]) -> int:
    """Return the bytes of the data with the padding after each tensor, as llama.cpp writes it.

    Example:
        >>> padded_bytes([TypedTensor(GgufTensor("output_norm.weight", (9,)), "F32")])
        64
    """
    return sum(_aligned(typed.bytes) for typed in tensors)


def infos_bytes(tensors: Iterable[TypedTensor]) -> int:
    """Return the bytes before the data, without the key-values: the start, and names and shapes.

    Example:
        >>> infos_bytes([TypedTensor(GgufTensor("output_norm.weight", (9,)), "F32")])
        74
    """
    infos = _START_BYTES
    for typed in tensors:
        name, shape = typed.tensor.name, typed.tensor.shape
        infos += _INFO_BYTES + len(name.encode()) + _SIZE_BYTES * len(shape)
    return infos


def file_bytes(tensors: Sequence[TypedTensor], key_values_bytes: int = 0) -> int:
    """Return the bytes of a file, given those of its key-values, which only the tokenizer decides.

    Source: https://github.com/ggml-org/ggml (docs/gguf.md).

    Example:
        >>> file_bytes([TypedTensor(GgufTensor("output_norm.weight", (9,)), "F32")])
        160
    """
    return _aligned(infos_bytes(tensors) + key_values_bytes) + padded_bytes(tensors)


def _aligned(number_of_bytes: int) -> int:
    """Return a number of bytes, rounded up to the alignment of the file."""
    alignment: int = data.read_toml(_FACTS)["alignment"]
    return -(-number_of_bytes // alignment) * alignment


def key_values_about(tensors: Iterable[TypedTensor]) -> tuple[int, int]:
    """Return the least and the most bytes that key-values take, by the entries of the vocabulary.

    Example:
        >>> embedding = GgufTensor("token_embd.weight", (32_000, 4096))
        >>> key_values_about([TypedTensor(embedding, "Q4_K")])
        (704000, 1984000)
    """
    facts = data.read_toml(_FACTS)["vocabularies"]
    entries = sum(
        typed.tensor.shape[0] for typed in tensors if typed.tensor.name == "token_embd.weight"
    )
    return facts["least"] * entries, facts["most"] * entries
