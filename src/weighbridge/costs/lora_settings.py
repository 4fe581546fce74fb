"""The settings of a LoRA adapter, which mean what they mean in peft's `LoraConfig`."""

from __future__ import annotations

from weighbridge import data, units
from weighbridge.errors import UsageError, either, nearest
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

METHODS = ("lora", "dora")
BIASES = ("none", "all", "lora_only")
ALL_LINEAR = "all-linear"
PATTERN = "re:"
"""What begins a pattern among targets, which is a regular expression for whole paths."""

DEFAULT_RANK = 8
LARGEST_RANK = 2**20
_MOST_LAYERS = 100_000


class LoraSettings(NamedTuple):
    """The settings of an adapter.

    ``targets`` are the last pieces of the names of modules, short names, `ALL_LINEAR`, or a pattern
    that begins with `PATTERN`; without any, peft's own for the model type. ``parameters`` are
    peft's `target_parameters`, ``saved`` its `modules_to_save`, ``layers`` its
    `layers_to_transform`, ``ties`` its `ensure_weight_tying`. ``dtype`` is that of the adapter.
    """

    rank: int = DEFAULT_RANK
    targets: tuple[str, ...] | str | None = None
    method: str = METHODS[0]
    rank_pattern: tuple[tuple[str, int], ...] = ()
    layers: tuple[int, ...] = ()
    bias: str = BIASES[0]
    saved: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    excluded: tuple[str, ...] | str = ()
    task_type: str = ""
    ties: bool = False
    dtype: str | None = None

    @property
    def is_dora(self) -> bool:
        """Whether each adapted module has magnitudes too."""
        return self.method == "dora"


def lora_settings(  # noqa: PLR0913  # each is a setting of its own for the user
    *,
    r: int = DEFAULT_RANK,
    targets: str | Iterable[str] | None = None,
    method: str = METHODS[0],
    rank_pattern: Mapping[str, int] | None = None,
    layers: str | int | Iterable[int] | None = None,
    bias: str = BIASES[0],
    save: str | Iterable[str] = (),
    parameters: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    task_type: str | None = None,
    ties: bool = False,
    dtype: str | None = None,
) -> LoraSettings:
    """Return the settings of an adapter, checked.

    Args:
        r: the rank.
        targets: names of modules as peft takes them, separated by commas or as a list; short names
            (q, k, v, o, gate, up, down); ``"all-linear"``; or ``"re:"`` and a regular expression.
        method: ``"lora"`` or ``"dora"``.
        rank_pattern: other ranks, by a pattern for the end of a module's path.
        layers: the layers to adapt, as ``"0,2,4-7"`` or as a list.
        bias: the biases to train: ``"none"``, ``"all"``, or those of adapted modules,
            ``"lora_only"``.
        save: modules that are trained and stored whole.
        parameters: parameters of modules that are no Linear, such as ``"experts.down_proj"``.
        exclude: modules that are not adapted, as for ``targets``.
        task_type: the task as peft names it, such as ``"SEQ_CLS"``, which trains the classifier.
        ties: whether a tied embedding and head stay tied.
        dtype: the dtype of the adapter; by default float32, also if the model has a shorter one.

    Raises:
        UsageError: a setting is none of these, or two contradict each other.

    Example:
        >>> lora_settings(r=16, targets="q,v").targets
        ('q', 'v')
    """
    _check_rank("r", r)
    ranks = rank_pattern or {}
    if not hasattr(ranks, "items"):
        raise UsageError(
            "ranks of some modules are a mapping",
            values={"rank_pattern": ranks},
            hint='for example {"down_proj": 32}',
        )
    for pattern, rank in ranks.items():
        _check_rank(pattern, rank)
    settings = LoraSettings(
        rank=r,
        targets=None if targets is None else _names_or_pattern(targets),
        method=_one_of("method", str(method).lower(), METHODS),
        rank_pattern=tuple(ranks.items()),
        layers=_layers(layers),
        bias=_one_of("bias", bias, BIASES),
        saved=_names_in(save),
        parameters=_names_in(parameters),
        excluded=_names_or_pattern(exclude),
        task_type=_task(task_type),
        ties=ties,
        dtype=None if dtype is None else units.dtype(dtype),
    )
    _check_together(settings)
    return settings


def _check_rank(name: str, rank: object) -> None:
    if type(rank) is not int or not 1 <= rank <= LARGEST_RANK:
        raise UsageError(
            "a rank is a positive integer",
            values={name: rank},
            hint=f"give 1 to {LARGEST_RANK:,}",
        )


def _check_together(settings: LoraSettings) -> None:
    if settings.layers and isinstance(settings.targets, str):
        raise UsageError(
            "layers go with the names of modules only",
            values={"targets": settings.targets},
            hint="list the names of the modules, or put the layers into the pattern",
        )
    if settings.parameters:
        check_parameters(settings, settings.parameters)


def check_parameters(settings: LoraSettings, names: Iterable[str]) -> None:
    """Refuse single parameters in DoRA.

    Raises:
        UsageError: it is DoRA.
    """
    if settings.is_dora:
        raise UsageError(
            "DoRA does not adapt single parameters",
            values={"parameters": ",".join(names)},
            hint="use lora, or drop the parameters",
        )


def _one_of(name: str, value: object, choices: Sequence[str]) -> str:
    if value not in choices:
        raise UsageError(
            f"there is no such {name}", values={name: value}, hint=f"use {either(choices)}"
        )
    return str(value)


def _task(name: str | None) -> str:
    if not name:
        return ""
    return _one_of(
        "task_type", str(name).upper(), tuple(data.read_toml("facts/lora.toml")["tasks"])
    )


def _names_in(given: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        given = given.split(",")
    given = _items_of(given, str, "names of modules are texts, or a list of texts")
    return tuple(dict.fromkeys(name for name in map(str.strip, given) if name))


def _names_or_pattern(given: str | Iterable[str]) -> tuple[str, ...] | str:
    """Return names, `ALL_LINEAR`, or a pattern with its beginning."""
    if isinstance(given, str):
        if given.lower() == ALL_LINEAR:
            return ALL_LINEAR
        if given.startswith(PATTERN):
            return given
    names = _names_in(given)
    if names == (ALL_LINEAR,):
        return ALL_LINEAR
    return names


def _items_of(given: Any, kind: Any, message: str) -> list[Any]:
    """Return a list of values of a kind; refuse anything else."""
    if hasattr(given, "__iter__"):
        items = list(given)
        if all(isinstance(item, kind) for item in items):
            return items
    raise UsageError(message, values={"found": given}, hint="for example q_proj, or 0,2,4-7")


def _layers(given: str | int | Iterable[int] | None) -> tuple[int, ...]:
    if given is None:
        return ()
    if isinstance(given, int):
        given = (given,)
    if isinstance(given, str):
        given = given.split(",")  # type: ignore[assignment]  # numbers as texts
    pieces = _items_of(given, (int, str), "layers are numbers from 0, or ranges of them")
    layers: list[int] = []
    for piece in pieces:
        first, dash, last = str(piece).strip().partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(
            end.isascii() and end.isdigit() and len(end) < len(str(_MOST_LAYERS)) for end in ends
        ):
            raise UsageError(
                "layers are numbers from 0, or ranges of them",
                values={"layers": piece},
                hint="for example 0,2,4-7",
            )
        layers += range(int(ends[0]), int(ends[1]) + 1)
    return tuple(dict.fromkeys(layers))


# The settings as one text: r=16,targets=q,v

_LISTS = ("targets", "layers", "save", "parameters", "exclude", "rank_pattern")
_TEXTS = ("method", "bias", "task_type", "dtype")
KEYS = ("r", *_TEXTS, *_LISTS, "ties")


def parse_lora(text: str) -> LoraSettings:
    """Read the settings of an adapter from one text; each list goes on until the next name.

    Raises:
        UsageError: a name or a value is not understood.

    Example:
        >>> settings = parse_lora("r=16,targets=q,v,method=dora")
        >>> settings.rank, settings.targets, settings.method
        (16, ('q', 'v'), 'dora')
    """
    values: dict[str, str] = {}
    key = ""
    for piece in text.split(","):
        name, equals, value = piece.partition("=")
        if equals and name.strip() in KEYS:
            key = name.strip()
            if key in values:
                raise UsageError(
                    f"{key} is given twice", values={"lora": text}, hint="keep one of the two"
                )
            values[key] = value
        elif key in _LISTS:
            values[key] += f",{piece}"
        else:
            raise _unread(text, name.strip())
    return lora_settings(**_typed(values))


def _unread(text: str, name: str) -> UsageError:
    near = nearest(KEYS, name)
    hint = "write it as in r=16,targets=q,v"
    if near:
        hint = f"did you mean {either(near)}?"
    return UsageError(
        "a setting of LoRA is not understood", values={"lora": text, "piece": name}, hint=hint
    )


def _typed(values: Mapping[str, str]) -> dict[str, Any]:
    """Return settings with the types that `lora_settings` takes."""
    typed: dict[str, Any] = dict(values)
    if "r" in values:
        typed["r"] = whole_number("r", values["r"])
    if "ties" in values:
        typed["ties"] = _one_of("ties", values["ties"].lower(), ("true", "false")) == "true"
    if "rank_pattern" in values:
        typed["rank_pattern"] = rank_pattern(values["rank_pattern"].split(","), ":")
    return typed


def whole_number(name: str, text: str) -> int:
    """Read a rank.

    Raises:
        UsageError: it is not a positive integer.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_RANK))):
        _check_rank(name, text)
    return int(text)


def rank_pattern(texts: Iterable[str], between: str = "=") -> dict[str, int]:
    """Read ranks by pattern, each as ``PATTERN=RANK``.

    Raises:
        UsageError: one is not written so.

    Example:
        >>> rank_pattern(["down_proj=32"])
        {'down_proj': 32}
    """
    ranks: dict[str, int] = {}
    for text in texts:
        pattern, found, rank = text.rpartition(between)
        if not found or not pattern:
            raise UsageError(
                "a rank of some modules has a pattern and a number",
                values={"rank_pattern": text},
                hint=f"for example down_proj{between}32",
            )
        ranks[pattern] = whole_number(pattern, rank)
    return ranks
