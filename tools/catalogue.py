"""Adds released models to the catalogue, and checks the catalogue against transformers.

``python tools/catalogue.py NAME CONFIG --source SOURCE`` reads a ``config.json``, keeps the fields
that the blueprint uses, counts the parameters with transformers on the meta device, and writes the
entry into ``facts/models.toml``. An entry with the same name is replaced, but keeps its aliases. A
model is refused if the blueprint and transformers disagree.

``--check`` counts all entries again, and exits with 1 if a total differs from the recorded one.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weighbridge import data
from weighbridge.blueprint import operations, schema
from weighbridge.costs.prediction import prediction_fields
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger.ledger import bind
from weighbridge.models import catalogue, find

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.models.find import Model

    Config = Mapping[str, Any]

HOW = ("verbatim", "copy", "reconstructed", "default")
KEYS = (
    "family",
    "class",
    "class_assumed",
    "config",
    "null",
    "parameters",
    "base_parameters",
    "active",
    "released_parameters",
    "released_reason",
    "how",
    "source",
    "aliases",
)
"""The keys of an entry, in the order of the file."""

FILE = Path(data.ROOT, *catalogue.PATH.split("/"))
NEW_NAMES = {
    "KimiK25ForConditionalGeneration": "Kimi_K25ForConditionalGeneration",
    "PhiMoEForCausalLM": "PhimoeForCausalLM",
    "Step3p7FlashForCausalLM": "Step3p7ForConditionalGeneration",
}
"""The names in transformers of classes for which releases use names from their own code."""

ALWAYS = ("attention_types", "num_attention_heads")
"""Fields that are kept even if they change no shape: transformers checks them against sizes."""

BESIDE = ("quantization_config", "expert_dtype", *prediction_fields())
"""Fields that say what files hold, which the count of transformers does not need."""

SHARES = ("rotary_dim", "rotary_pct")
"""Other fields that say which share of a head rotary embeddings turn."""

LONGEST_LIST = 4  # a list up to this length is kept even if the blueprint computes the same
NOT_OF_SHAPES = ("quantization_config", "auto_map")
"""Fields for which transformers would load other code; they change no shape."""


class RefusedError(Exception):
    """A model that the catalogue cannot hold."""


# The config of an entry


def compact(config: Config, blueprint: Blueprint) -> dict[str, Any]:
    """Return the fields of a config that the blueprint uses and does not compute itself.

    Sizes are always kept. The dtype is kept too, since bytes depend on it.
    """
    used = _used(config, blueprint)
    labels = used.pop("id2label", None)
    if labels is not None and "num_labels" in blueprint.fields and len(labels) != 2:
        used["num_labels"] = len(labels)
    bound = _bound(used, blueprint).fields
    for path in list(_paths(used)):
        shorter = _without(used, path)
        try:
            same = _bound(shorter, blueprint).fields == bound
        except WeighbridgeError:
            same = False
        if same:
            used = shorter
    dtype = config.get("dtype", config.get("torch_dtype"))
    if dtype is not None:
        used["dtype"] = dtype
    return {**used, **_of_runs(config, blueprint), **_beside(config, used)}


def _of_runs(config: Config, blueprint: Blueprint) -> dict[str, Any]:
    """Return the fields that change no shape, but what a run costs: recordings name or hold them.

    They are those that differ in a config from what its class assumes, and those that released
    configs state otherwise.
    """
    if blueprint.family not in operations.available():
        return {}
    known = operations.load_operations(blueprint.family)
    first_held = {name: of[0] if isinstance(of, list) else of for name, of in known.held.items()}
    assumed = {**first_held, **blueprint.at_defaults, **known.fields}
    found: dict[str, Any] = {}
    names = {*known.fields, *known.computed} - blueprint.computed.keys()
    names.update(SHARES if operations.ROTATED in known.held else ())
    for name in sorted({*names, *known.held, *known.unstated}.intersection(config)):
        value = config[name]
        is_idle = config.get("use_sliding_window") is False and "window" in name
        is_followed = name in known.computed and (value is None or isinstance(value, list))
        is_released = name in known.unstated or isinstance(value, list)
        is_other = name not in assumed or value != assumed[name]
        if not is_idle and not is_followed and (is_released or is_other):
            found[name] = value
    return found


def _beside(config: Config, used: Config) -> dict[str, Any]:
    """Return the fields that say what files hold, also of sub-configs that are used."""
    beside = {name: _without_nulls(config[name]) for name in BESIDE if config.get(name)}
    for name, value in used.items():
        if hasattr(value, "keys") and hasattr(config.get(name), "keys"):
            beside[name] = {**value, **_beside(config[name], value)}
    return beside


def _without_nulls(value: Any) -> Any:
    """Return a setting as TOML can hold it: what is null is left out."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


def _used(config: Config, blueprint: Blueprint, parent: str = "") -> dict[str, Any]:
    used: dict[str, Any] = {}
    for name, value in config.items():
        path = f"{parent}{name}"
        field = blueprint.aliases.get(path, path)
        if value is None and field not in blueprint.nullable:
            continue
        if path in blueprint.configs and hasattr(value, "keys"):
            used[name] = _used(value, blueprint, f"{path}.")
        elif field in blueprint.fields or (name in ALWAYS and field in blueprint.inert):
            used[name] = value
    return used


def _paths(config: Config, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of the fields that may be left out if the blueprint fills them in."""
    paths: list[tuple[str, ...]] = []
    for name, value in config.items():
        path = (*parent, name)
        if isinstance(value, dict) and value:
            paths += _paths(value, path)
            continue
        is_short_list = isinstance(value, list) and len(value) <= LONGEST_LIST
        is_size = isinstance(value, int) and not isinstance(value, bool)
        if not is_short_list and not is_size and name not in ALWAYS:
            paths.append(path)
    return paths


def _without(config: Config, path: tuple[str, ...]) -> dict[str, Any]:
    name, *inner = path
    if not inner:
        return {key: value for key, value in config.items() if key != name}
    return {**config, name: _without(config[name], tuple(inner))}


def _bound(config: Config, blueprint: Blueprint) -> Model:
    return find.bound({**config, "model_type": blueprint.family}, blueprint, blueprint.family)


# What it weighs


def default_class(class_name: str, family: str) -> str:
    """Return the class whose total people mean: the one that a config names, if it generates."""
    if find.is_generative(class_name):
        return class_name
    return schema.load(family).base_class


def blueprint_total(config: Config, blueprint: Blueprint, class_name: str) -> int:
    """Return the parameters of a class as the blueprint counts them."""
    return bind(blueprint, class_name, _bound(config, blueprint).fields).parameters


def blueprint_active(config: Config, blueprint: Blueprint, class_name: str) -> int | None:
    """Return the parameters of a class that process one token; None for one without experts."""
    ledger = bind(blueprint, class_name, _bound(config, blueprint).fields)
    if ledger.has_experts:
        return ledger.active
    return None


def reference_total(config: Config, class_name: str) -> int:
    """Return the parameters of a class as transformers builds it, on the meta device."""
    import torch  # noqa: PLC0415  # seconds
    import transformers  # noqa: PLC0415
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: PLC0415

    kept = {name: value for name, value in config.items() if name not in NOT_OF_SHAPES}
    with torch.device("meta"):
        built_config = CONFIG_MAPPING[config["model_type"]].from_dict(json.loads(json.dumps(kept)))
        model_class = getattr(transformers, class_name)
        model = model_class._from_config(built_config, attn_implementation="eager")
        model.tie_weights()
    return sum(weight.numel() for weight in model.parameters())


def entry_for(
    config: Config, *, source: str, how: str, class_assumed: bool = False, check: bool = True
) -> dict[str, Any]:
    """Return the entry of a config.

    Raises:
        RefusedError: there is no blueprint, or its count differs from that of transformers.
    """
    family = config.get("model_type", "")
    if not schema.is_family(family):
        raise RefusedError(f"no blueprint for {family}")
    blueprint = schema.load(family)
    named = (config.get("architectures") or [None])[0]
    class_name = NEW_NAMES.get(named, named)
    if class_name not in blueprint.class_names:
        class_name, class_assumed = blueprint.base_class, True
    short = compact(config, blueprint)
    nulls = sorted(name for name, value in short.items() if value is None)
    main = default_class(class_name, family)
    total = blueprint_total(short, blueprint, main)
    base_total = blueprint_total(short, blueprint, blueprint.base_class)
    if check:
        for stated in (config, {**short, "model_type": family}):
            _check_total(stated, main, total)
            _check_total(stated, blueprint.base_class, base_total)
    entry = {
        "family": family,
        "class": class_name,
        "class_assumed": class_assumed,
        "config": {name: value for name, value in short.items() if name not in nulls},
        "null": nulls,
        "parameters": total,
        "base_parameters": base_total,
        **_as_released(config, blueprint, main, total),
        "how": how,
        "source": source,
    }
    if base_total == total:
        del entry["base_parameters"]
    active = blueprint_active(short, blueprint, main)
    if active is not None:
        entry["active"] = active
    return {key: value for key, value in entry.items() if value not in (False, [])}


def _check_total(config: Config, class_name: str, total: int) -> None:
    counted = reference_total(config, class_name)
    if counted != total:
        raise RefusedError(f"{class_name}: {total:,}, transformers {counted:,}")


def _as_released(
    config: Config, blueprint: Blueprint, class_name: str, total: int
) -> dict[str, Any]:
    """Return the released total, if transformers ties a head that the config does not tie."""
    fields = _bound(_used(config, blueprint), blueprint).fields
    heeds_tie = "tie_word_embeddings" in blueprint.fields
    if heeds_tie or config.get("tie_word_embeddings") is not False or "d_model" not in fields:
        return {}
    if class_name == blueprint.base_class:
        return {}
    head = fields["vocab_size"] * fields["d_model"]
    return {"released_parameters": total + head, "released_reason": "untied_head"}


# The file


def read() -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the comment at the head of the file, and its entries."""
    head, _, _ = FILE.read_text(encoding="utf-8").partition("\n\n[")
    return head, catalogue.released()


def write(head: str, entries: Mapping[str, Config]) -> None:
    """Write the file, with the entries in order."""
    tables = [table(name, entry) for name, entry in entries.items()]
    FILE.write_text("\n\n".join([head, *tables]) + "\n", encoding="utf-8")


def table(name: str, entry: Config) -> str:
    """Return the text of an entry in the file."""
    lines = [f'["{name}"]']
    for key in KEYS:
        if key in entry:
            value = toml_value(entry[key])
            if key.endswith("parameters") or key == "active":
                value = f"{entry[key]:_}"
            lines.append(f"{key} = {value}")
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    """Return a value in TOML on one line."""
    if isinstance(value, dict):
        pairs = [f"{toml_key(key)} = {toml_value(inner)}" for key, inner in value.items()]
        if not pairs:
            return "{}"
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value)


def toml_key(key: str) -> str:
    """Return a key in TOML, quoted if necessary."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", key):
        return key
    return json.dumps(key)


def totals(entry: Config) -> dict[str, int]:
    """Return the recorded parameters of an entry's classes: the one that people mean, the base."""
    base_class = schema.load(entry["family"]).base_class
    main = default_class(entry["class"], entry["family"])
    return {
        main: entry["parameters"],
        base_class: entry.get("base_parameters", entry["parameters"]),
    }


def differences(entries: Mapping[str, Config]) -> list[str]:
    """Return a line for each recorded total that differs from the count of transformers."""
    lines, known = [], dict[str, int]()
    for name, entry in entries.items():
        config = catalogue.entry_config(entry)
        shapes = json.dumps({**config, "architectures": None, "dtype": None})
        for class_name, total in totals(entry).items():
            if shapes + class_name not in known:
                known[shapes + class_name] = reference_total(config, class_name)
            counted = known[shapes + class_name]
            if counted != total:
                lines.append(f"{name}: {class_name}: {total:,} recorded, {counted:,} counted")
    return lines


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="?", help="organisation/name; with --check, a part of names")
    parser.add_argument("config", nargs="?", help="its config.json")
    parser.add_argument("--source", help="the address from which the config was read")
    parser.add_argument("--how", choices=HOW, default="verbatim", help="how the source states it")
    parser.add_argument("--class-assumed", action="store_true", help="the source names no class")
    parser.add_argument("--alias", action="append", default=[], help="another name")
    parser.add_argument("--check", action="store_true", help="count all entries again")
    options = parser.parse_args()
    head, entries = read()
    if options.check:
        chosen = {name: entries[name] for name in entries if (options.name or "") in name}
        lines = differences(chosen)
        print(*lines, f"{len(chosen)} checked, {len(lines)} differ", sep="\n")
        return int(bool(lines))
    if not options.name or not options.config or not options.source:
        parser.error("give a name, a config and a source, or --check")
    config = json.loads(Path(options.config).read_text(encoding="utf-8"))
    try:
        entry = entry_for(
            config,
            source=options.source,
            how=options.how,
            class_assumed=options.class_assumed,
        )
    except (RefusedError, WeighbridgeError) as refusal:
        print(refusal, file=sys.stderr)
        return 1
    aliases = [*entries.get(options.name, {}).get("aliases", ()), *options.alias]
    if aliases:
        entry["aliases"] = list(dict.fromkeys(aliases))
    write(head, {**entries, options.name: entry})
    print(table(options.name, entry))
    return 0


if __name__ == "__main__":
    sys.exit(main())
