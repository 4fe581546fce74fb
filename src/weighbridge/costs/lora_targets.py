"""What an adapter adapts: the modules of a class, and those that peft selects for its settings.

Source: peft 0.21.2, `tuners/tuners_utils.py` and `utils/transformers_weight_conversion.py`.
"""

from __future__ import annotations

import re
from functools import cache

from weighbridge import data
from weighbridge.blueprint.paths import above
from weighbridge.costs.lora_settings import ALL_LINEAR, PATTERN, check_parameters
from weighbridge.costs.weight_classes import class_with_weight
from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.ledger.rows import in_checkpoint_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from weighbridge.costs.lora_settings import LoraSettings
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Row

LINEAR = ("Linear", "Conv1D")
CONVOLUTIONS = ("Conv1d", "Conv2d", "Conv3d")


class BaseModule(NamedTuple):
    """A module of the base model: its path, its class, its kind, and its tensors.

    ``kind`` is one of the kinds that peft adapts, or empty. ``rows`` are its own parameters, by
    their last names.
    """

    path: str
    class_name: str
    kind: str
    rows: dict[str, Row]

    @property
    def role(self) -> str:
        """The role of its weight."""
        return self.rows["weight"].role


def modules_of(ledger: Ledger) -> dict[str, BaseModule]:
    """Return the modules of a class that hold tensors, by path, outer ones before inner ones."""
    classes = ledger.blueprint.modules(ledger.class_name)
    modules: dict[str, BaseModule] = {}
    rows = iter(ledger.rows)
    for entry, place in in_checkpoint_order(ledger.entries):
        row = next(rows)
        template_path, _, last = entry.template.name.rpartition(".")
        bound = entry.bound(place)
        for template in above(template_path):
            path = _with_indices(template, bound)
            if path and path not in modules:
                class_name = classes.get(template, "")
                modules[path] = BaseModule(path, class_name, kind_of(class_name), {})
        owner = row.name.rpartition(".")[0]
        if owner:
            modules[owner].rows[last] = row
    for path, module in modules.items():
        if "|" in module.class_name:
            modules[path] = _of_one_class(module)
    return modules


def _of_one_class(module: BaseModule) -> BaseModule:
    """Return a module that may have several classes with the one that its weight shows."""
    weight = module.rows.get("weight")
    if weight is None:
        return module._replace(kind="")
    class_name = class_with_weight(module.class_name, len(weight.shape))
    return module._replace(class_name=class_name, kind=kind_of(class_name))


def _with_indices(template: str, indices: Mapping[str, int]) -> str:
    for index, value in indices.items():
        template = template.replace(f"{{{index}}}", str(value))
    return template


@cache
def kind_of(class_name: str) -> str:
    """Return the kind of module that a class is to peft; empty if it cannot be adapted.

    Example:
        >>> kind_of("FalconLinear"), kind_of("LayerNorm")
        ('Linear', '')
    """
    classes = data.read_toml("facts/lora.toml")["classes"]
    kinds = (kind for kind, members in classes.items() if class_name in members)
    return next(kinds, "")


class Chosen(NamedTuple):
    """What is adapted: whole modules and single parameters, with their ranks.

    ``names`` and ``parameter_names`` are peft's `target_modules` and `target_parameters` (one text
    is a pattern), and ``told`` are the names as a `LoraConfig` takes them. ``meanings`` has the
    names that each short name stands for, ``fused`` the short names without a module of their own,
    ``unmatched`` the names that select nothing.
    """

    names: tuple[str, ...] | str
    told: tuple[str, ...] | str
    parameter_names: tuple[str, ...]
    modules: tuple[BaseModule, ...]
    parameters: tuple[tuple[BaseModule, str], ...]
    rank_pattern: tuple[tuple[str, int], ...]
    meanings: dict[str, tuple[str, ...]]
    fused: tuple[str, ...]
    unmatched: tuple[str, ...]

    def rank_of(self, path: str, rank: int) -> int:
        """Return the rank for the path of a module or parameter."""
        for pattern, other in self.rank_pattern:
            if _regex(rf"(.*\.)?({pattern})$").match(path):
                return other
        return rank


def choose_targets(
    ledger: Ledger, modules: Mapping[str, BaseModule], settings: LoraSettings
) -> Chosen:
    """Return what the settings select in a class.

    Raises:
        UsageError: nothing is selected, or a module that cannot be adapted.
    """
    asked = _Asked(ledger, modules, settings)
    told = asked.names()
    selected = told
    if asked.conversion and settings.targets is not None:
        selected = asked.converted(told)
    if selected == ALL_LINEAR:
        selected = tuple(_all_linear(modules, settings.task_type))
    tied: tuple[str, ...] = ()
    if settings.ties:
        selected, tied = _with_tied(selected, ledger, modules)
    chosen = (*_selected(modules, selected, settings), *(modules[path] for path in tied))
    parameters = tuple(_selected_parameters(modules, asked.parameters))
    if not chosen and not parameters:
        raise _nothing_selected(modules, settings)
    _check_kinds(chosen, ledger.blueprint.family)
    if parameters:
        check_parameters(settings, asked.parameters)
    return Chosen(
        selected,
        told,
        tuple(asked.parameters),
        chosen,
        parameters,
        tuple(asked.rank_pattern),
        asked.meanings,
        tuple(asked.fused),
        tuple(_unmatched(selected, told, chosen)),
    )


def default_targets(family: str) -> tuple[str, ...] | str:
    """Return what peft adapts in models of a type if it is not told.

    Raises:
        UsageError: peft has no default for it.

    Example:
        >>> default_targets("llama")
        ('q_proj', 'v_proj')
    """
    targets = data.read_toml("facts/lora.toml")["default_targets"].get(family)
    if targets is None:
        raise UsageError(
            f"peft has no default targets for the model type {family}",
            hint="give --targets, for example q,v or all-linear",
        )
    if isinstance(targets, str):
        return targets
    return tuple(targets)


# Short names


class _Asked:
    """Reads the targets of the settings: short names, and old names of experts."""

    def __init__(
        self, ledger: Ledger, modules: Mapping[str, BaseModule], settings: LoraSettings
    ) -> None:
        self.modules, self.settings = modules, settings
        self.family = ledger.blueprint.family
        self.conversion = _conversion(self.family)
        self.parameters: list[str] = [*settings.parameters]
        self.rank_pattern: list[tuple[str, int]] = [*settings.rank_pattern]
        self.meanings: dict[str, tuple[str, ...]] = {}
        self.fused: list[str] = []

    def names(self) -> tuple[str, ...] | str:
        """Return the names or the pattern of modules; those of parameters are kept apart."""
        given = self.settings.targets
        if given is None:
            given = () if self.settings.parameters else default_targets(self.family)
        if isinstance(given, str):
            return given
        names: dict[str, None] = {}
        for name in given:
            for full in self._in_full(name):
                if full != name and _is_parameter(full, self.modules):
                    self._add_parameter(full)
                else:
                    names[full] = None
        return tuple(names)

    def _add_parameter(self, name: str) -> None:
        if name not in self.parameters:
            self.parameters.append(name)

    def _in_full(self, name: str) -> tuple[str, ...]:
        """Return what a short name means; any other name is returned as it is."""
        known = data.read_toml("facts/lora.toml")["short_names"]
        if name not in known or _names_supported(name, self.modules):
            return (name,)
        meaning = self._meaning(name, known[name])
        if not meaning:
            return (name,)
        self.meanings[name] = meaning
        return meaning

    def _meaning(self, name: str, roles: Mapping[str, Any]) -> tuple[str, ...]:
        if self.conversion and name in self.conversion["short_names"]:
            return (self.conversion["short_names"][name],)
        own = _names_of_role(self.modules, roles["roles"])
        if own:
            return own
        joined = _names_of_role(self.modules, roles["fused"])
        if joined:
            self.fused.append(name)
        return joined

    def converted(self, told: tuple[str, ...] | str) -> tuple[str, ...] | str:
        """Return the names without those of experts, which become parameters with their ranks.

        A pattern is resolved to the names that it selects.
        """
        names = told
        if isinstance(names, str):
            names = _last_names(names, self.conversion, self.modules, self.settings)
            if not names:
                return told
        remaining, present = [], dict[str, list[str]]()
        for name in names:
            old = next((old for old in self.conversion["names"] if _ends_with(name, old)), None)
            if old is None:
                remaining.append(name)
                continue
            new = self.conversion["names"][old]
            self._add_parameter(new)
            present.setdefault(new, []).append(old)
        for new, needed in self.conversion["fused"].items():
            if new in present:
                _check_whole(new, present[new], needed, names)
                rank = self.settings.rank * len(needed)
                self.rank_pattern.append((rf".*\.{re.escape(new)}", rank))
        return tuple(remaining)


def _check_whole(
    new: str, present: Sequence[str], needed: Sequence[str], names: Sequence[str]
) -> None:
    """Refuse a part of what one parameter holds."""
    missing = [name for name in needed if name not in present]
    if missing:
        raise UsageError(
            f"{', '.join(present)} and {', '.join(missing)} are one parameter, {new}",
            values={"targets": ",".join(names)},
            hint=f"add {', '.join(missing)}",
        )


def _names_supported(name: str, modules: Mapping[str, BaseModule]) -> bool:
    return any(module.kind and _ends_with(path, name) for path, module in modules.items())


def _names_of_role(modules: Mapping[str, BaseModule], roles: Sequence[str]) -> tuple[str, ...]:
    """Return names that select the modules and the experts with these roles."""
    paths, of_experts = [], dict[str, None]()
    for path, module in modules.items():
        for last, row in module.rows.items():
            if row.role not in roles or last.endswith("bias"):
                continue
            if module.kind and last == "weight":
                paths.append(path)
            elif not module.kind and len(row.shape) > 2:  # all experts in one
                of_experts[f"{path.rpartition('.')[2]}.{last}"] = None
    return (*_shortest_ends(paths, modules), *of_experts)


def _shortest_ends(paths: Sequence[str], modules: Mapping[str, BaseModule]) -> tuple[str, ...]:
    """Return the shortest ends of paths that select no other module; else the paths."""
    wanted = set(paths)
    depth = max((path.count(".") for path in paths), default=0)
    for pieces in range(1, depth + 1):
        ends = tuple(dict.fromkeys(".".join(path.split(".")[-pieces:]) for path in paths))
        if any(piece.isdigit() for end in ends for piece in end.split(".")):
            break
        others = (path for path in modules if path not in wanted)
        if not any(_ends_with(path, end) for path in others for end in ends):
            return ends
    return tuple(paths)


def _is_parameter(name: str, modules: Mapping[str, BaseModule]) -> bool:
    return any(True for _ in _selected_parameters(modules, (name,))) and not any(
        _ends_with(path, name) for path in modules
    )


# Experts, whose modules transformers 5 replaced by parameters


def _conversion(family: str) -> Mapping[str, Any]:
    for conversion in data.read_toml("facts/lora.toml")["experts"].values():
        if family in conversion["families"]:
            known: Mapping[str, Any] = conversion
            return known
    return {}


def _last_names(
    selected: str,
    conversion: Mapping[str, Any],
    modules: Mapping[str, BaseModule],
    settings: LoraSettings,
) -> tuple[str, ...]:
    """Return the last pieces of the names that a pattern selects, with old names of experts."""
    if selected == ALL_LINEAR:
        lasts = [path.rpartition(".")[2] for path in _all_linear(modules, settings.task_type)]
        return tuple(dict.fromkeys((*lasts, *conversion["names"])))
    keys = [*modules]
    for path, module in modules.items():
        keys += [f"{path}.{last}" for last in module.rows]
    matched = dict.fromkeys(
        key.rpartition(".")[2] for key in keys if _is_selected(key, selected, settings)
    )
    for old, new in conversion["names"].items():
        for path, module in modules.items():
            if new in module.rows and _is_selected(f"{path}.{old}", selected, settings):
                matched[old] = None
                break
    return tuple(matched)


# Selecting


def _all_linear(modules: Mapping[str, BaseModule], task_type: str) -> Iterator[str]:
    """Yield the paths of all linear modules except an output head."""
    facts = data.read_toml("facts/lora.toml")
    head = text_head(modules)
    left_out = {head.path} if head else set()
    if not head and task_type == "SEQ_CLS":
        left_out = set(next(([name] for name in facts["classifiers"] if name in modules), ()))
    for path, module in modules.items():
        if module.kind in LINEAR and path not in left_out:
            yield path


def text_head(modules: Mapping[str, BaseModule]) -> BaseModule | None:
    """Return the output head of a model of text; None if there is none."""
    facts = data.read_toml("facts/lora.toml")
    others = tuple(facts["other_heads"])
    for path, module in modules.items():
        if module.kind not in LINEAR or "weight" not in module.rows:
            continue
        if module.role in facts["heads"] and not is_named(path, others):
            return module
    return None


def input_embedding(modules: Mapping[str, BaseModule]) -> BaseModule | None:
    """Return the embedding of the input tokens; None if there is none."""
    for module in modules.values():
        if module.kind == "Embedding" and "weight" in module.rows:
            row = module.rows["weight"]
            if row.role == "embedding.token" and row.tied_to is None:
                return module
    return None


def tied_modules(modules: Mapping[str, BaseModule], source: BaseModule | None) -> list[BaseModule]:
    """Return the modules whose weight is that of another one."""
    if source is None:
        return []
    name = source.rows["weight"].name
    return [
        module
        for module in modules.values()
        if "weight" in module.rows and module.rows["weight"].tied_to == name
    ]


def _with_tied(
    selected: tuple[str, ...] | str, ledger: Ledger, modules: Mapping[str, BaseModule]
) -> tuple[tuple[str, ...] | str, tuple[str, ...]]:
    """Return names with the input embedding in place of the modules that are tied to it.

    The paths of those modules come second; they are adapted too.
    """
    embedding = input_embedding(modules)
    tied = tied_modules(modules, embedding)
    names = data.read_toml("facts/lora.toml")["embeddings"]
    if embedding is None or not tied:
        raise UsageError(
            f"{ledger.class_name} has no module that is tied to its embedding",
            hint="drop --ties",
        )
    paths = tuple(module.path for module in tied)
    if isinstance(selected, str):
        if not any(is_named(name, selected) for name in names):
            return selected, ()
        whole = selected.removeprefix(PATTERN)
        return f"{PATTERN}(?:{whole}|^{re.escape(embedding.path)}$)", paths
    if not any(name.rpartition(".")[2] in names for name in selected):
        return selected, ()
    kept = [
        name
        for name in selected
        if not any(_regex(rf"(^|.*\.){name}($|\..*)").match(module.path) for module in tied)
    ]
    return tuple(dict.fromkeys((*kept, embedding.path))), paths


def _selected(
    modules: Mapping[str, BaseModule], selected: tuple[str, ...] | str, settings: LoraSettings
) -> Iterator[BaseModule]:
    if not selected:
        return
    for path, module in modules.items():
        if _is_selected(path, selected, settings):
            yield module


def _is_selected(path: str, selected: tuple[str, ...] | str, settings: LoraSettings) -> bool:
    """Return whether peft adapts the module with a path (its check_target_module_exists)."""
    if is_named(path, settings.excluded):
        return False
    saved = (*settings.saved, *task_modules(settings.task_type))
    if any(_regex(rf"(^|.*\.){name}($|\..*)").match(path) for name in saved):
        return False
    if not is_named(path, selected):
        return False
    if isinstance(selected, str) or path in selected or not settings.layers:
        return True
    layer = _LAYER.match(path)
    return layer is not None and int(layer["layer"]) in settings.layers


_LAYER = re.compile(r".*?\.[^.]*\.(?P<layer>\d+)\.")


def task_modules(task_type: str) -> tuple[str, ...]:
    """Return the modules that a task trains whole."""
    if not task_type:
        return ()
    return tuple(data.read_toml("facts/lora.toml")["tasks"][task_type])


def is_named(path: str, names: tuple[str, ...] | str) -> bool:
    """Return whether a path ends in one of some names, or fits a pattern as a whole.

    Example:
        >>> is_named("layers.0.q_proj", ("q_proj",)), is_named("layers.0.q_proj", "re:.*q")
        (True, False)
    """
    if isinstance(names, str):
        return _regex(names.removeprefix(PATTERN)).fullmatch(path) is not None
    return any(_ends_with(path, name) for name in names)


def _ends_with(path: str, name: str) -> bool:
    return path == name or path.endswith(f".{name}")


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(
            "a pattern is no regular expression",
            values={"pattern": pattern},
            hint=f"see position {error.pos}",
        ) from None


def _selected_parameters(
    modules: Mapping[str, BaseModule], names: Iterable[str]
) -> Iterator[tuple[BaseModule, str]]:
    names = tuple(names)
    for path, module in modules.items():
        for last in module.rows:
            if is_named(f"{path}.{last}", names):
                yield module, last


def _check_kinds(chosen: Iterable[BaseModule], family: str) -> None:
    refused = data.read_toml("facts/lora.toml")["refused"]
    for module in chosen:
        last = module.path.rpartition(".")[2]
        if not module.kind or "weight" not in module.rows:
            raise UsageError(
                f"a module of class {module.class_name or '?'} cannot be adapted",
                values={"module": module.path},
                hint="name Linear, Conv1D, Embedding or convolution modules, "
                "or single parameters with --parameters",
            )
        if family in refused["families"] and last in refused["modules"]:
            raise UsageError(
                f"peft does not adapt {last} in a model of type {family}",
                values={"module": module.path},
                hint="leave it out of the targets",
            )


def _nothing_selected(modules: Mapping[str, BaseModule], settings: LoraSettings) -> UsageError:
    ends = dict.fromkeys(path.rpartition(".")[2] for path, module in modules.items() if module.kind)
    targets = settings.targets
    if isinstance(targets, tuple):
        targets = ",".join((*targets, *settings.parameters))
    return UsageError(
        "the targets select no module",
        values={"targets": targets},
        hint=f"this class has {', '.join(ends)}",
    )


def _unmatched(
    selected: tuple[str, ...] | str, told: tuple[str, ...] | str, chosen: Sequence[BaseModule]
) -> Iterator[str]:
    """Yield the names that select nothing."""
    if isinstance(selected, str) or isinstance(told, str):
        return
    for name in selected:
        if not any(_ends_with(module.path, name) for module in chosen):
            yield name
