"""A cache: the bytes of keys, values and states, by kind of layer, as the context grows."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from weighbridge import data, units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.recorded import (
    beyond_positions,
    check_positions,
    check_size,
    recorded,
    recorded_dtype,
)
from weighbridge.blueprint.operations import COMPUTE
from weighbridge.blueprint.paths import is_index
from weighbridge.costs import costs
from weighbridge.costs.profiles import PROFILES, USUAL, nearest_profile
from weighbridge.errors import ModelError, UsageError
from weighbridge.files import write_whole
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.answers.data_table import DataTable
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.blueprint.operations import Operation
    from weighbridge.models.find import Described

_FIRST_CONTEXT = 1024  # the smallest of the contexts that show the growth
_KEYS_AND_VALUES = {"keys": "keys_and_values", "values": "keys_and_values"}
_LAYER_TYPES = "layer_types"


def cache(  # noqa: PLR0913  # each is a word of its own for the user
    model: Described,
    class_name: str | None = None,
    *,
    context: int,
    sequence: int | None = None,
    batch: int = 1,
    dtype: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Cache:
    """Compute what the cache of a model takes: keys and values, and the states of other layers.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`; its operations must be recorded.
        context: the tokens in the cache, for each sequence.
        sequence: the tokens that the encoder of an encoder-decoder reads; by default as many.
        batch: the sequences in a batch.
        dtype: the dtype of the cache, such as ``"fp8"``; by default the dtype of the model. States
            that the model keeps in a dtype of their own stay in it.
        fields: config fields to replace.

    Raises:
        UsageError: a size is not positive, or there is no such dtype.
        ModelError: there is no such model, or no operations are recorded that hold for it, or it
            has no cache.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> llama = cache("meta-llama/Llama-3.1-8B", context=4096)
        >>> llama.cache_bytes, llama.bytes_per_token
        (536870912, 131072)
    """
    check_size("context", context)
    check_size("batch", batch)
    if sequence is not None:
        check_size("seq", sequence)
    found = with_cache(model, class_name, fields=fields)
    check_positions(found, "context", context)
    if sequence is not None and not found.uses("target"):
        raise UsageError(
            f"{found.class_name} has no encoder beside its decoder",
            values={"seq": sequence},
            hint="drop --seq",
        )
    return Cache(found, context, batch, dtype_of_cache(found, dtype), sequence)


def with_cache(
    model: Described,
    class_name: str | None = None,
    *,
    fields: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> RecordedModel:
    """Return a model with its operations; the arguments are those of `weigh`.

    Raises:
        ModelError, ConfigError: as for `recorded`, or it has no cache.
    """
    found = recorded(model, class_name, fields=fields, strict=strict)
    if not found.has("stepped"):
        raise ModelError(
            f"{found.class_name} has no cache in its operations",
            hint="use a class that generates text",
        )
    return found


def dtype_of_cache(found: RecordedModel, name: str | None) -> str:
    """Return the dtype with a name, by default that of the model.

    Raises:
        UsageError: there is no such dtype.
    """
    if name is None:
        return found.weighing.ledger.dtype
    return units.dtype(name)


class CacheGroup(NamedTuple):
    """What layers of one kind keep in a cache.

    ``name`` is what they keep, ``kind`` the type of the layers if the config lists types,
    ``layers`` their number. ``bytes_per_token`` is what one more token of one sequence adds.
    """

    name: str
    kind: str
    layers: int
    bytes: int
    bytes_per_token: int


class Cache(TabularAnswer):
    """What `cache` returns.

    Example:
        >>> llama = cache("meta-llama/Llama-3.1-8B", context=8192, dtype="fp8")
        >>> [(group.name, group.layers, group.bytes) for group in llama.groups]
        [('keys_and_values', 32, 536870912)]
        >>> llama.growth[-1]
        (8192, 536870912)
    """

    groupings = ("kind", "context")

    def __init__(
        self,
        found: RecordedModel,
        context: int,
        batch: int,
        dtype: str,
        sequence: int | None = None,
    ) -> None:
        self.found, self.context, self.batch, self.dtype = found, context, batch, dtype
        self.sequence = sequence or context

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read, and on its positions."""
        return [*self.found.notes, *beyond_positions(self.found, self.context)]

    def _held(self, context: int, batch: int) -> list[Operation]:
        """Return what the cache holds with a number of tokens: those before a step, and its own."""
        return self.found.bind("stepped", self.names(context, batch))

    def names(self, context: int, batch: int) -> dict[str, Any]:
        """Return the values of the names of expressions for a number of tokens."""
        profile = nearest_profile(USUAL, self.found.profiles, "BF16") or self.found.profiles[0]
        of_model = recorded_dtype(self.found.weighing.ledger.dtype)
        run = {"batch": batch, "sequence": self.sequence, "past": context - 1, "training": False}
        return self.found.names(**run, dtype=of_model, **PROFILES[profile].names)

    def _size(self, held: list[Operation]) -> int:
        """Return the bytes of tensors; those in the dtype of the model have that of the cache."""
        return costs.saved_for_backward_bytes(held, self.dtype)

    @property
    def cache_bytes(self) -> int:
        """The bytes of the whole cache, of all sequences."""
        return sum(group.bytes for group in self.groups)

    @property
    def bytes_per_token(self) -> int:
        """The bytes that one more token of one sequence adds after this context."""
        return sum(group.bytes_per_token for group in self.groups)

    @property
    def average_bytes_per_token(self) -> float:
        """The bytes of the whole cache for each of its tokens."""
        return self.cache_bytes / (self.context * self.batch)

    @cached_property
    def groups(self) -> list[CacheGroup]:
        """The cache by what layers keep and by their type, in the order of the file."""
        now, before, after = (
            self._grouped(self._held(context, batch))
            for context, batch in (
                (self.context, self.batch),
                (self.context, 1),
                (self.context + 1, 1),
            )
        )
        groups = []
        for (name, kind), held in now.items():
            layers = {place[:1] for tensor in held for place in tensor.places}
            grown = self._size(after.get((name, kind), [])) - self._size(before[name, kind])
            groups.append(CacheGroup(name, kind, len(layers), self._size(held), grown))
        return groups

    def _grouped(self, held: list[Operation]) -> dict[tuple[str, str], list[Operation]]:
        grouped: dict[tuple[str, str], list[Operation]] = {}
        for tensor in held:
            name = _kept_in(tensor.path)
            for kind, part in self._by_kind(tensor):
                grouped.setdefault((name, kind), []).append(part)
        return grouped

    def _by_kind(self, tensor: Operation) -> Iterator[tuple[str, Operation]]:
        """Yield the parts of a tensor of a cache by the type of their layers."""
        places: dict[str, list[tuple[int, ...]]] = {}
        for place in tensor.places:
            kind = ""
            if place and place[0] < len(self._layer_types):
                kind = self._layer_types[place[0]]
            places.setdefault(kind, []).append(place)
        for kind, inside in places.items():
            yield kind, tensor._replace(places=tuple(inside))

    @cached_property
    def _layer_types(self) -> tuple[str, ...]:
        """The type of each layer, if conditions on the cache depend on a list of types."""
        for name, value in self.found.names().items():
            if name.rpartition(".")[2] == _LAYER_TYPES and isinstance(value, list | tuple):
                return tuple(map(str, value))
        return ()

    @cached_property
    def growth(self) -> list[tuple[int, int]]:
        """The bytes of the cache at each doubling from 1,024 tokens, and at this context."""
        contexts, size = [], _FIRST_CONTEXT
        while size < self.context:
            contexts.append(size)
            size *= 2
        contexts.append(self.context)
        return [(size, self._size(self._held(size, self.batch))) for size in contexts]

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "model": self.found.weighing.model.where,
            "family": self.found.known.family,
            "class": self.found.class_name,
            "context": self.context,
            "batch": self.batch,
            "dtype": self.dtype,
            "cache_bytes": self.cache_bytes,
            "bytes_per_token": self.bytes_per_token,
            "average_bytes_per_token": self.average_bytes_per_token,
            "groups": [group._asdict() for group in self.groups],
            "growth": [{"context": size, "bytes": held} for size, held in self.growth],
            "notes": self.notes,
            "evidence": self.found.evidence,
        }

    def document(self, lang: str = "en") -> Document:
        """Return the cache by kind, and its growth with the context, as tables."""
        texts = _cache_words(lang)
        header = (texts["kept"], texts["layers"], texts["bytes"], texts["short"], texts["growing"])
        rows = []
        for group in self.groups:
            numbers = (group.layers, group.bytes)
            cells = (*map(units.count, numbers), units.size(group.bytes))
            rows.append((_kept_title(group, texts), *cells, units.count(group.bytes_per_token)))
        total = (units.count(self.cache_bytes), units.size(self.cache_bytes))
        per_token = units.count(self.bytes_per_token)
        rows.append((texts["total"], "", *total, per_token))
        kinds = Table(header, tuple(rows), "<>>>>", 1)
        notes = [
            texts["per_token"].format(average=units.count(round(self.average_bytes_per_token)))
        ]
        if self._has_own_dtypes:
            notes.append(texts["own_dtypes"].format(dtype=self.dtype))
        notes.append(Aside(texts["evidence"].format(**self.found.evidence)))
        title = Together((Title(self._heading(texts)), kinds))
        return Document((title, self._growth_table(texts), Notes(tuple(notes))), lang)

    @property
    def _has_own_dtypes(self) -> bool:
        dtypes = {tensor.dtype for tensor in self._held(self.context, 1)}
        return any(dtype != COMPUTE and "F" in dtype for dtype in dtypes)

    def _heading(self, texts: Mapping[str, str]) -> str:
        return texts["heading"].format(
            model=self.found.weighing.model.where,
            class_name=self.found.class_name,
            batch=units.count(self.batch),
            context=units.count(self.context),
            dtype=self.dtype,
        )

    def _growth_table(self, texts: Mapping[str, str]) -> Table:
        rows, most = [], max(held for _, held in self.growth)
        shares = tuple(units.fraction(held, most) for _, held in self.growth)
        for size, held in self.growth:
            rows.append((units.count(size), units.count(held), units.size(held)))
        header = (texts["context"], texts["bytes"], texts["short"])
        return Table(header, tuple(rows), ">>>", 0, shares, len(header) - 1)

    def _data_table(self, by: str) -> DataTable:
        from weighbridge.answers.data_table import (  # noqa: PLC0415  # a terminal does without
            INTEGER,
            TEXT,
            Column,
            DataTable,
        )

        if by == "context":
            by_context = (Column("context", INTEGER), Column("bytes", INTEGER))
            return DataTable(by_context, list(self.growth))
        texts = ("name", "kind")
        types = {name: TEXT if name in texts else INTEGER for name in CacheGroup._fields}
        columns = tuple(Column(name, type_name) for name, type_name in types.items())
        return DataTable(columns, [tuple(group) for group in self.groups])

    def svg(self, lang: str | None = None) -> str:
        """Return the growth of the cache as a picture, an SVG file.

        Example:
            >>> cache("meta-llama/Llama-3.1-8B", context=4096).svg()[:4]
            '<svg'
        """
        from weighbridge.render.growth import picture  # noqa: PLC0415  # text does without

        texts = _cache_words(lang or self.lang)
        bars = [(units.count(size), held, units.size(held)) for size, held in self.growth]
        return picture(self._heading(texts), texts["picture"], bars)

    def save(self, file: str | os.PathLike[str], lang: str | None = None) -> Path:
        """Write the picture of its growth to a file, and return the path.

        Raises:
            UsageError: the file does not end in .svg, or cannot be written.
        """
        path = Path(file)
        if path.suffix.lower() != ".svg":
            raise UsageError(
                "a picture of a cache is an SVG file",
                where=str(path),
                values={"ending": path.suffix},
                hint="give a name that ends in .svg",
            )
        write_whole(path, self.svg(lang))
        return path


def _kept_in(path: str) -> str:
    """Return what a tensor of a cache holds, by the last name in its path.

    Example:
        >>> _kept_in("cache.{i}.keys"), _kept_in("cache.{i}.conv_states.0")
        ('keys_and_values', 'conv_states')
    """
    pieces = [piece for piece in path.split(".") if not is_index(piece) and not piece.isdigit()]
    return _KEYS_AND_VALUES.get(pieces[-1], pieces[-1].strip("_"))


def _kept_title(group: CacheGroup, texts: Mapping[str, str]) -> str:
    """Name what a group keeps, and the type of its layers."""
    name = texts.get(group.name, group.name.replace("_", " "))
    if not group.kind:
        return name
    kind = texts.get(group.kind, group.kind.replace("_", " "))
    return texts["of_kind"].format(name=name, kind=kind)


def _cache_words(lang: str) -> dict[str, str]:
    """Return the words of a cache in a language, including those of all tables."""
    return {**words(lang), **data.read_toml(f"words/cache.{lang}.toml")}
