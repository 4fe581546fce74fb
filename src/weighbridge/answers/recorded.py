"""The operations recorded for a model, or the reason why there are none that hold for it."""

from __future__ import annotations

import itertools

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.answers.weigh import Weighing, weighed
from weighbridge.blueprint import operations
from weighbridge.blueprint.operations import ROTATED
from weighbridge.blueprint.schema import LARGEST_SIZE
from weighbridge.costs.profiles import OF_FORMAT_1
from weighbridge.errors import ExpressionError, ModelError, UsageError, shorten
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.models.find import find

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.operations import Operation, Operations, OperationTemplate
    from weighbridge.blueprint.schema import Blueprint, Template
    from weighbridge.models.find import Described, Model

_LARGE = 1_000_000_000  # parameters
_RELEASED = ("catalogue", "file", "stdin")
"""The origins of configs of models that have files."""


class RecordedModel(NamedTuple):
    """A model with the operations of its class, and a note on how the class was chosen."""

    weighing: Weighing
    known: Operations
    choice: tuple[str, ...]
    """The note on the class, if neither the user nor the config named it."""
    usual_names: dict[str, Any]
    """The values of the names in expressions, for the usual run."""

    @property
    def class_name(self) -> str:
        """The class whose operations these are."""
        return self.weighing.class_name

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how the config was read, on the class, and on a dtype that nothing states."""
        return (*self.weighing.notes, *self.choice, *self._on_dtype())

    def _on_dtype(self) -> Iterator[str]:
        weighing = self.weighing
        is_wide = weighing.dtype_is == "assumed" and weighing.files.quantization is None
        if is_wide and weighing.model.origin in _RELEASED and weighing.parameters >= _LARGE:
            taken = f"the config states no dtype, and {weighing.ledger.dtype} is taken"
            yield f"{taken}; another may be named with --dtype, or --weights and --cache"

    @property
    def profiles(self) -> list[str]:
        """The profiles that the operations were recorded with."""
        return list(self.known.proof.get("profiles", OF_FORMAT_1))

    @property
    def computed(self) -> dict[str, Tree]:
        """The expressions of the fields that the config leaves to be computed from others."""
        given, computed = _fields(self.weighing.model), self.known.computed
        own = {name: computed[name] for name in computed if given.get(name) is None}
        return {**self.weighing.model.computed, **own}

    @property
    def evidence(self) -> dict[str, Any]:
        """The source of the operations, and how they were checked."""
        known = self.known
        return {"source": known.source, "kernels": known.kernels, "runs": known.proof["runs"]}

    def has(self, kind: str) -> bool:
        """Whether the class has operations of a kind."""
        return bool(self.known.entries(self.class_name, kind))

    def uses(self, name: str) -> bool:
        """Whether the products of the class depend on a name."""
        return name in self.known.names_in_dims(self.class_name, "forward")

    def names(self, **run: Any) -> dict[str, Any]:
        """Return the values of the names in expressions for a run."""
        return {**self.usual_names, **run}

    def entries(self, kind: str) -> tuple[OperationTemplate, ...]:
        """Return the operations of a kind, not yet bound to a run.

        Raises:
            ModelError: they were not recorded for such a config.
        """
        self.known.check_sizes(self.class_name, kind, self.names())
        return self.known.entries(self.class_name, kind)

    def fits_flash(self) -> bool:
        """Whether flash attention takes the heads of the class as they are."""
        names = self.names()
        return all(evaluate(rule, names) for rule in self.known.flash_rules(self.class_name))

    def bind(self, kind: str, names: Mapping[str, Any]) -> list[Operation]:
        """Return the operations of a kind in a run."""
        return self.known.bind(self.class_name, kind, names)


def recorded(
    model: Described,
    class_name: str | None = None,
    *,
    fields: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    strict: bool = False,
) -> RecordedModel:
    """Return a model with its operations; the arguments are those of `weigh`.

    If the default class was not recorded, it is the class that was, unless the user or the config
    names yet another.

    Raises:
        ModelError: there is no such model, or its operations were not recorded, or with other
            values of some fields only.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> recorded("llama").class_name, recorded("albert").profiles
        ('LlamaForCausalLM', ['cuda-eager', 'cpu', 'cpu-eager', 'cuda-math', 'cuda-flash'])
    """
    found = find(model, fields, strict=strict, class_name=class_name)
    family, choice = found.blueprint.family, tuple[str, ...]()
    if family not in operations.available():
        raise ModelError(
            f"there are no operations for the family {shorten(family, str)}",
            hint=_hint(found),
        )
    if parts := found.blueprint.composed:
        raise ModelError(
            f"the operations of {family} were recorded only with its usual parts",
            values=parts,
            hint="`weighbridge measure` runs the class itself",
        )
    known = operations.load_operations(family)
    chosen = found.class_called(class_name or found.default_class)
    if chosen in found.blueprint.class_names and chosen not in known.class_names:
        is_another_stated = class_name or (
            found.config.get("architectures") and found.named_class != known.base_class
        )
        if is_another_stated or known.base_class not in found.blueprint.class_names:
            hint = f"use --class {' or '.join(known.class_names)}, whose operations are recorded"
            raise ModelError(f"there are no operations for the class {chosen}", hint=hint)
        choice = (f"the class is {known.base_class}, whose operations were recorded",)
        chosen = known.base_class
    weighing = weighed(found, chosen, dtype=dtype, strict=strict)
    given = _fields(found)
    _check_held(given, known)
    names = known.names(given)
    _check_computed(weighing, known, names)
    _check_read_by_caches(weighing, known)
    least = {**names, **_LEAST_RUN}
    _check_values(weighing, known, least)
    _check_modules(weighing, known, least)
    return RecordedModel(weighing, known, choice, names)


def _hint(model: Model) -> str:
    """Return what to do where a family has no operations, or why it has none."""
    from weighbridge.models.classes import text_family  # noqa: PLC0415  # to explain an error

    blueprint = model.blueprint
    family = blueprint.family
    inside = text_family(model.config, blueprint)
    if inside is not None and inside in operations.available():
        of_text = operations.load_operations(inside).base_class
        return f"add --class {of_text} for those of its text model"
    for reason, unrecorded in data.read_toml("facts/unrecorded.toml").items():
        if family in unrecorded:
            return f"{reason}; `weighbridge measure` runs the class itself"
    families = [name for name in operations.available() if "." not in name]
    if not blueprint.is_of_transformers:
        recorded_of = "operations are recorded for families of transformers"
        return f"{recorded_of}; {len(families)} of them have some"
    return (
        f"`weighbridge derive {family} --operations` records them; "
        f"{len(families)} families have operations"
    )


def _check_held(given: Mapping[str, Any], known: Operations) -> None:
    """Refuse a config with a value that no recording had."""
    unheld = known.unheld(given)
    if unheld:
        held = ", ".join(f"{name} = {_either(known.recorded(name))}" for name in unheld)
        raise ModelError(
            f"the operations of {known.family} were recorded only with {held}",
            values=unheld,
            hint="`weighbridge measure` runs the class itself",
        )


def _check_computed(weighing: Weighing, known: Operations, names: Mapping[str, Any]) -> None:
    """Refuse a config that states another value of a field than what recordings computed for it."""
    model = weighing.model
    names = {**names, **model.fields}
    for name, tree in _computed_in_recordings(model.blueprint, known).items():
        stated = model.given.get(name)
        if stated is None:
            continue
        computed = evaluate(tree, names)
        if stated != computed and not _is_of_other_classes(name, weighing):
            shown, recorded_with, given = _where_they_differ(name, computed, stated)
            raise ModelError(
                f"the operations of {known.family} were recorded only with {shown} = "
                f"{shorten(recorded_with)}",
                values={shown: given},
                hint="`weighbridge measure` runs the class itself",
            )


def _where_they_differ(name: str, computed: Any, stated: Any) -> tuple[str, Any, Any]:
    """Return a field with its values, or the first item that differs in lists of one length.

    Example:
        >>> _where_they_differ("layer_types", ["full", "full"], ["full", "sliding"])
        ('layer_types[1]', 'full', 'sliding')
    """
    if isinstance(computed, list) and isinstance(stated, list) and len(computed) == len(stated):
        at = next(at for at, item in enumerate(computed) if item != stated[at])
        return f"{name}[{at}]", computed[at], stated[at]
    return name, computed, stated


def _is_of_other_classes(name: str, weighing: Weighing) -> bool:
    """Whether a field is the size of tensors, but of none that this class has."""
    blueprint = weighing.model.blueprint
    own = blueprint.templates(weighing.class_name)
    dims = (parse(dim) for template in own for dim in template.dims)
    conditions = (tree for template in own for tree in template.conditions)
    used = itertools.chain.from_iterable(map(names_in, itertools.chain(dims, conditions)))
    return name in blueprint.sizes and name not in used


def _check_read_by_caches(weighing: Weighing, known: Operations) -> None:
    """Refuse a config with a window for its cache, in a family that knows of none."""
    blueprint = weighing.model.blueprint
    if not known.entries(weighing.class_name, "prefilled"):
        return
    own = {*known.fields, *known.held, *known.computed, *blueprint.fields, *blueprint.inert}
    for name, value in weighing.model.given.items():
        if name.rpartition(".")[2] in READ_BY_CACHES and value is not None and name not in own:
            raise ModelError(
                f"the operations of {known.family} were recorded without {name}, which is no field "
                "of the family, but which transformers' cache reads of any config",
                values={name: value},
                hint="take it out of the config, or set it to null",
            )


def _computed_in_recordings(blueprint: Blueprint, known: Operations) -> dict[str, Tree]:
    """Return what operations leave to other fields: these follow from what they name."""
    named, decided = {*known.fields, *known.computed}, {*known.fields, *known.held}
    computed = {
        name: tree
        for name, tree in blueprint.computed.items()
        if name not in named and decided.issuperset(sources := [*names_in(tree)]) and sources
    }
    return {**computed, **known.tied}


def _either(values: Iterable[Any]) -> str:
    return " / ".join(map(_held_text, values))


def _held_text(value: Any) -> str:
    return f"[{', '.join(map(shorten, value))}]" if isinstance(value, list) else shorten(value)


def _check_values(weighing: Weighing, known: Operations, names: Mapping[str, Any]) -> None:
    """Refuse a config that leaves null what every run needs, such as the experts of a token."""
    if not any(names[name] is None for name in _needed(known, weighing.class_name, names)):
        return
    try:
        known.bind(weighing.class_name, "forward", names)
    except ExpressionError as error:
        null = [name for name, value in error.values.items() if value is None]
        if not null:
            raise
        raise ModelError(
            f"the operations of {known.family} need a value of {', '.join(null)}",
            hint="the config must give it",
        ) from None


def _needed(known: Operations, class_name: str, names: Mapping[str, Any]) -> Iterable[str]:
    """Return the names with a value, or null, that products depend on."""
    return known.names_in_dims(class_name, "forward").intersection(names)


def _check_modules(weighing: Weighing, known: Operations, names: Mapping[str, Any]) -> None:
    """Refuse a config without a module whose products were recorded."""
    present = {_owner_of(entry.template) for entry in weighing.ledger.entries}
    blueprint = weighing.model.blueprint
    absent = set(map(_owner_of, blueprint.templates(weighing.class_name))) - present
    recorded_there = {entry.path for entry in known.entries(weighing.class_name, "forward")}
    if not absent & recorded_there:
        return
    for product in known.bind(weighing.class_name, "forward", names):
        if product.path in absent:
            raise ModelError(
                f"the operations of {known.family} were recorded only with {product.path}",
                hint="`weighbridge measure` runs the class itself",
            )


def _owner_of(template: Template) -> str:
    return template.name.rpartition(".")[0]


_LEAST_RUN = {"batch": 1, "sequence": 2, "target": 2, "past": 1}


def _fields(model: Model) -> dict[str, Any]:
    return {**_rotated(model.given), **model.as_read}


def _rotated(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the share of a head that rotary embeddings turn, by its path, where a config says it.

    Example:
        >>> _rotated({"text_config.rotary_pct": 0.25, "rotary_dim": 16, "head_dim": 64})
        {'text_config.partial_rotary_factor': 0.25, 'partial_rotary_factor': 0.25}
    """
    shares = {}
    for saying in ("rotary_pct", "rotary_dim", "rope_scaling", "rope_parameters"):
        for path, value in given.items():
            above, dot, name = path.rpartition(".")
            if name != saying:
                continue
            if name == "rotary_pct":
                shares[f"{above}{dot}{ROTATED}"] = value
            elif name == "rotary_dim" and given.get(f"{above}{dot}head_dim"):
                shares[f"{above}{dot}{ROTATED}"] = value / given[f"{above}{dot}head_dim"]
            elif hasattr(value, "keys") and ROTATED in value:
                shares[f"{above}{dot}{ROTATED}"] = value[ROTATED]
    return shares


READ_BY_CACHES = ("layer_types", "sliding_window", "attention_chunk_size", "kv_sharing_modes")
"""What `DynamicCache` of transformers 5.23.0 reads of any config (`get_layer_types_and_kwargs`)."""

_POSITIONS = ("max_position_embeddings", "max_target_positions", "n_positions", "n_ctx")
"""The fields that say how many positions are learned."""


def check_positions(found: RecordedModel, option: str, tokens: int, after: int = 0) -> None:
    """Refuse more tokens, with some ``after`` them, than a model has learned positions for.

    Raises:
        UsageError: there are more.

    Example:
        >>> check_positions(recorded("bert"), "seq", 513)
        Traceback (most recent call last):
        weighbridge.errors.UsageError: the sequence is longer than the positions of the model
        (seq = 513, max_position_embeddings = 512). Give --seq 512 or less.
    """
    for name, most in learned_positions(found).items():
        if tokens + after > most:
            raise UsageError(
                "the sequence is longer than the positions of the model",
                values={option: tokens, name: most},
                hint=f"give --{option} {most - after} or less",
            )


def beyond_positions(found: RecordedModel, tokens: int) -> list[str]:
    """Return a note if there are more tokens than the positions that a config says it has.

    Positions that are not learned can be computed for any number of tokens. A config that scales
    them may state those before or after, so nothing is said of it.

    Example:
        >>> qwen = recorded({"model_type": "qwen3", "max_position_embeddings": 40960})
        >>> beyond_positions(qwen, 100_000)
        ["100,000 tokens are more than the model's positions: max_position_embeddings is 40,960"]
        >>> beyond_positions(qwen, 4096), beyond_positions(recorded("qwen3"), 100_000)
        ([], [])
    """
    given = found.weighing.model.given
    for path in ("", "text_config."):
        most = given.get(f"{path}{_POSITIONS[0]}")
        if type(most) is int and tokens > most and not _are_scaled(given, path):
            above = f"{tokens:,} tokens are more than the model's positions"
            return [f"{above}: max_position_embeddings is {most:,}"]
    return []


def _are_scaled(given: Mapping[str, Any], path: str) -> bool:
    """Whether a config scales its rotary positions, in some layers or in all."""
    stated: list[Any] = [given.get(f"{path}{name}") for name in ("rope_parameters", "rope_scaling")]
    tables = [table for table in stated if hasattr(table, "keys")]
    tables += [inner for table in tables for inner in table.values() if hasattr(inner, "keys")]
    kinds = [table.get("rope_type", table.get("type")) for table in tables]
    return any(kind not in (None, "default") for kind in kinds)


def learned_positions(found: RecordedModel) -> dict[str, int]:
    """Return the fields that say how many positions a model has learned, with their values.

    Example:
        >>> learned_positions(recorded("bert")), learned_positions(recorded("llama"))
        ({'max_position_embeddings': 512}, {})
    """
    ledger = found.weighing.ledger
    sizes = set[str]()
    for entry in ledger.entries:
        if entry.template.role == "embedding.position":
            sizes.update(names_in(ledger.blueprint.dims[entry.template.dims[0]]))
    learned = (name for name in ledger.fields if name.rpartition(".")[2] in _POSITIONS)
    return {name: ledger.fields[name] for name in learned if name in sizes}


def recorded_dtype(dtype: str) -> str:
    """Return the dtype of the recordings that hold for a dtype: F32, or BF16 for any shorter one.

    Example:
        >>> recorded_dtype("F32"), recorded_dtype("F16")
        ('F32', 'BF16')
    """
    if dtype == "F32":
        return dtype
    return "BF16"


def check_size(name: str, value: object) -> None:
    """Refuse a size of a run that is not a positive integer.

    Raises:
        UsageError: it is not, or it is too large.

    Example:
        >>> check_size("batch", 0)
        Traceback (most recent call last):
        weighbridge.errors.UsageError: --batch must be a positive integer (batch = 0).
        Give 1 to 2,147,483,647.
    """
    if type(value) is not int or not 1 <= value <= LARGEST_SIZE:
        raise UsageError(
            f"--{name} must be a positive integer",
            values={name: value},
            hint=f"give 1 to {LARGEST_SIZE:,}",
        )
