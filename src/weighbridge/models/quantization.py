"""Reads the ``quantization_config`` of a config: which modules its files pack, and how."""

from __future__ import annotations

import re
from functools import cache

from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.blueprint.schema import split_dims
from weighbridge.costs.quantization import ModuleNames, PackedTensor, Packing, Quantization
from weighbridge.errors import shorten
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    Settings = Mapping[str, Any]

_FIELD = "quantization_config"
_UNKNOWN = "unknown"
_OLD_FIELDS = ("compression_config",)
_INSIDE = "text_config"
"""The sub-config of a language model, whose settings hold for the whole checkpoint."""

_MOST_WILDCARDS = 3  # in a pattern; more could take long to match
_PATTERN = re.compile(
    r"(?:[\w\-/]|\\[.d]|\.[*+]?|\\d[*+]|\[0-9\][*+]?|\((?:\?:)?[\w|.\\]+\)|[\^$])+"
)
"""The regular expressions that are matched: their time is bounded by the few wildcards."""


class UnreadQuantization(NamedTuple):
    """A quantisation whose files cannot be derived: its method, and why."""

    method: str
    reason: str


class _UnreadError(Exception):
    """The settings of a quantisation ask for something that the rules do not cover."""


def quantization_of(config: Settings) -> Quantization | UnreadQuantization | None:
    """Return how the files of a config are quantised; None if they are not.

    Example:
        >>> awq = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}
        >>> quantization = quantization_of({"quantization_config": awq})
        >>> quantization.packings[0].label, quantization.packings[0].bits
        ('AWQ', 4)
        >>> quantization_of({"quantization_config": {"quant_method": "aqlm"}}).reason
        'no rule for this method'
    """
    settings = _settings_of(config)
    if settings is None:
        stated = config.get(_FIELD)
        if stated:
            return UnreadQuantization(_UNKNOWN, f"{_FIELD} = {shorten(stated)} is no object")
        return None
    method = _method(settings)
    if "expert_dtype" in config:
        settings = {"expert_dtype": config["expert_dtype"], **settings}
    try:
        return _read(method, settings)
    except _UnreadError as error:
        return UnreadQuantization(method, str(error))


def _settings_of(config: Settings) -> Settings | None:
    """Return the settings of a config or of the language model inside."""
    for place in (config, config.get(_INSIDE)):
        for field in (_FIELD, *_OLD_FIELDS):
            settings = _as_dict(_as_dict(place).get(field))
            if settings:
                return settings
    return None


def _as_dict(value: Any) -> Settings:
    """Return a mapping as it is, and anything else as an empty one."""
    return value if hasattr(value, "keys") else {}


def _method(settings: Settings) -> str:
    """Return the method that settings name, or that they can only be from."""
    method = settings.get("quant_method")
    if isinstance(method, str) and method:
        return method.lower()
    if "load_in_4bit" in settings or "load_in_8bit" in settings:
        return "bitsandbytes"
    if _as_dict(settings.get("producer")).get("name") == "modelopt":
        return "modelopt"
    return _UNKNOWN


def _read(method: str, settings: Settings) -> Quantization:
    groups = [*_groups(settings)]
    rules = [_rule_for(method, group) for group in groups]
    first = rules[0]
    if any((rule["head"], rule["names"]) != (first["head"], first["names"]) for rule in rules):
        raise _UnreadError("its groups follow rules that do not go together")
    packings = [
        _packing(rule, {**rule.get("defaults", {}), **group})
        for rule, group in zip(rules, groups, strict=True)
    ]
    head = first["head"]
    if head == "named":
        head = "never" if settings.get(first["kept"]) is None else "as the others"
    if head == "in layers" and settings.get("lm_head"):
        raise _UnreadError(f"lm_head = {shorten(settings['lm_head'])}")
    return Quantization(
        method,
        tuple(packings),
        _kept(settings, first),
        head,
        first.get("rest", _REST),
        all(_is_exact(rule, packing) for rule, packing in zip(rules, packings, strict=True)),
    )


_REST = "BF16"
"""The dtype of tensors that are not packed, if the config states none: most releases have it."""


def _is_exact(rule: Settings, packing: Packing) -> bool:
    """Return whether files hold just the tensors of a rule."""
    exact = rule.get("exact", True)
    if isinstance(exact, str):
        return evaluate(parse(exact), packing.settings) is True
    return bool(exact)


# The rule for the settings


def _groups(settings: Settings) -> Iterator[Settings]:
    """Yield the settings of each group of modules, those for weights as if they stood above."""
    _check_alike(settings)
    groups = _as_dict(settings.get("config_groups"))
    if not groups:
        yield _normalised(settings)
        return
    for group in groups.values():
        weights = _as_dict(_as_dict(group).get("weights"))
        if not weights:
            raise _UnreadError("a group of config_groups has no weights")
        yield _normalised({**settings, **_of_group(group, weights)})


def _of_group(group: Settings, weights: Settings) -> dict[str, Any]:
    """Return the settings of a group, under the names that the rules use."""
    of_inputs = _as_dict(group.get("input_activations"))
    has_inputs = bool(of_inputs) and of_inputs.get("dynamic") in (False, "local")
    stated = {"bits": weights.get("num_bits"), "targets": group.get("targets")}
    if group.get("format"):
        stated["format"] = group["format"]
    return {**weights, **stated, "input_scales": has_inputs}


def _normalised(settings: Settings) -> dict[str, Any]:
    """Return settings without those that are null, and with texts in lower case."""
    plain = {name: value for name, value in settings.items() if value is not None}
    for name, value in plain.items():
        if isinstance(value, str):
            plain[name] = value.lower()
    if settings.get("weight_block_size", ()) is None:
        plain["weight_block_size"] = None
    return plain


_BY_MODULE = ("dynamic", "quantized_layers", "modules_in_block_to_quantize", "modules_to_convert")
"""Settings that give modules settings of their own."""


def _check_alike(settings: Settings) -> None:
    """Refuse settings of single modules, which are not read."""
    for name in _BY_MODULE:
        if settings.get(name):
            raise _UnreadError(f"the setting {name} is not read")


def _rule_for(method: str, settings: Settings) -> Settings:
    """Return the first rule for a method that the settings fit."""
    rules = [rule for rule in _rules() if method in rule["method"]]
    if not rules:
        raise _UnreadError("no rule for this method")
    misfits = [_misfit({**rule.get("defaults", {}), **settings}, rule) for rule in rules]
    for rule, misfit in zip(rules, misfits, strict=True):
        if not misfit:
            return rule
    raise _UnreadError(min(misfits, key=len))


def _misfit(settings: Settings, rule: Settings) -> str:
    """Return the settings that a rule is not for, with their values; empty if it fits."""
    misfits = []
    for name, values in rule.get("match", {}).items():
        value = settings.get(name)
        if not any(type(value) is type(known) and value == known for known in values):
            misfits.append(f"{name} = {shorten(value)}")
    return ", ".join(misfits)


@cache
def _rules() -> tuple[Settings, ...]:
    return tuple(data.read_toml("facts/quantizations.toml").values())


def _packing(rule: Settings, settings: Settings) -> Packing:
    bits = settings.get("bits")
    if "bits" in settings and not (type(bits) is int and 1 <= bits <= _MOST_BITS):
        raise _UnreadError(f"bits = {shorten(bits)}")
    targets = None
    modules = frozenset(rule["modules"])
    stated = settings.get("targets") or ["Linear"]
    if stated != ["Linear"]:
        targets = _listed_modules(_checked_texts(stated), rule["names"])
    return Packing(
        rule["label"],
        bits if rule.get("bits") else None,
        tuple(map(_packed_tensor, rule["tensors"])),
        settings,
        modules,
        targets,
    )


_MOST_BITS = 16


def _packed_tensor(text: str) -> PackedTensor:
    """Return a tensor of a rule: ``.scales: F16 groups outputs if …``."""
    ending, _, description = text.partition(": ")
    dtype, *dims = split_dims(description)
    when = None
    if "if" in dims:
        at = dims.index("if")
        when = parse(" ".join(dims[at + 1 :]))
        dims = dims[:at]
    return PackedTensor(ending, dtype, tuple(map(parse, dims)), when)


# Lists of modules


def _kept(settings: Settings, rule: Settings) -> ModuleNames:
    _check_lists(settings, rule)
    listed = settings.get(rule["kept"])
    always = rule.get("always_kept", [])
    if listed is None:
        return ModuleNames(ends=frozenset(always))
    return _listed_modules([*_checked_texts(listed), *always], rule["names"])


def _check_lists(settings: Settings, rule: Settings) -> None:
    """Refuse lists of texts that no rule reads: they may name modules."""
    for name, value in settings.items():
        is_list = isinstance(value, list | tuple) and any(isinstance(item, str) for item in value)
        if is_list and name not in (rule["kept"], "targets"):
            raise _UnreadError(f"the setting {shorten(name, str)} is not read")


def _checked_texts(listed: Any) -> list[str]:
    """Return a list of modules, checked to be texts."""
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise _UnreadError("a list of modules is not a list of texts")
    return list(listed)


def _listed_modules(listed: list[str], form: str) -> ModuleNames:
    """Return a list of modules in one of the forms that `facts/quantizations.toml` explains."""
    if form == "transformers":
        return _names_of_transformers(listed)
    if form == "modelopt":
        return _names_with_stars(listed)
    plain = [name for name in listed if not name.startswith(_REGULAR)]
    texts = [name.removeprefix(_REGULAR) for name in listed if name.startswith(_REGULAR)]
    return ModuleNames(exact=frozenset(plain), patterns=_regexes(texts), numbered=_numbered(listed))


_REGULAR = "re:"


def _names_of_transformers(listed: Iterable[str]) -> ModuleNames:
    plain = [name for name in listed if re.fullmatch(r"[\w.]+", name)]
    others = [name for name in listed if name not in frozenset(plain)]
    # The text of a pattern ends at a dot or at the end of the path.
    texts = [f"{name.removesuffix('.*')}(?=\\.|$)" for name in others]
    return ModuleNames(
        starts=frozenset(plain),
        ends=frozenset(plain),
        patterns=_regexes(others, texts),
        numbered=_numbered(listed),
    )


def _names_with_stars(listed: Iterable[str]) -> ModuleNames:
    plain = [name for name in listed if "*" not in name]
    texts = [re.escape(name).replace(r"\*", ".*") + "$" for name in listed if "*" in name]
    return ModuleNames(
        starts=frozenset(plain),
        patterns=_regexes(texts),
        numbered=_numbered(listed),
    )


def _regexes(texts: list[str], full: list[str] | None = None) -> tuple[re.Pattern[str], ...]:
    """Return patterns, compiled if they surely match in little time."""
    for text in texts:
        wildcards = len(re.findall(r"[*+]", text))
        if not _PATTERN.fullmatch(text) or wildcards > _MOST_WILDCARDS:
            raise _UnreadError(f"the pattern {shorten(text)} is not read")
    return tuple(re.compile(text) for text in full or texts)


def _numbered(listed: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in listed if re.search(r"\d", name))
