"""Counts one config with transformers itself, where no blueprint covers it.

The result is a blueprint without expressions: the tensors that transformers builds on the meta
device, with their sizes as numbers. It answers every question about a model except its formula.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch

from weighbridge.blueprint.schema import FORMAT, Blueprint
from weighbridge.derive.probing import probe, reference
from weighbridge.errors import ModelError, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.derive.probing.probe import Probe

_LONGEST_REASON = 300  # characters of why a config is refused


def blueprint_as_built(config: Mapping[str, Any], where: str) -> Blueprint:
    """Return what transformers builds: a model type's base class, and the class that is named.

    Raises:
        ModelError: transformers has no such model type, or refuses the config.
    """
    subject = reference.FamilySubject(str(config.get("model_type")))
    base = _built(subject, subject.base_class, config, where)
    raw: dict[str, Any] = {
        "format": FORMAT,
        "family": subject.family,
        "source": subject.source,
        "class": subject.base_class,
        "inert": sorted(map(str, config)),
        "proof": {
            "by": "building this config on the meta device",
            "against": subject.reference,
            "configs": 1,
        },
        "defaults": {},
        **_tables(base),
    }
    class_name = _architecture(config)
    if class_name in subject.task_classes():
        task = _built(subject, class_name, config, where)
        raw["classes"] = {class_name: {"base": False, **_tables(task)}}
    return Blueprint(raw)


def _architecture(config: Mapping[str, Any]) -> str:
    """Return the first class that a config names; empty if it names none."""
    names = config.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        return names[0]
    return ""


def _built(
    subject: reference.FamilySubject, class_name: str, config: Mapping[str, Any], where: str
) -> Probe:
    own_copy = json.loads(json.dumps(dict(config)))
    try:
        with probe.quick_building(), torch.no_grad():
            config_object = subject.config_class.from_dict(own_copy)
            return probe.take(
                lambda: subject.build(class_name, config_object), {}, {}, labels=False
            )
    except Exception as error:  # whatever transformers raises
        raise ModelError(
            f"{subject.reference} cannot build {class_name} from this config: "
            f"{type(error).__name__}: {shorten(str(error), str, _LONGEST_REASON)}",
            where=where,
            hint="correct the config",
        ) from None


def _tables(built: Probe) -> dict[str, dict[str, str]]:
    tensors = {name: " ".join(map(str, tensor.shape)) for name, tensor in built.tensors.items()}
    ties = {name: tensor.tied_to for name, tensor in built.tensors.items() if tensor.tied_to}
    parents: set[str] = set()
    for name in tensors:
        parents.update(_paths_above(name))
    modules = {path: kind for path, kind in built.modules.items() if path in parents}
    return {"tensors": tensors, "ties": ties, "modules": modules}


def _paths_above(name: str) -> list[str]:
    pieces = name.split(".")
    return [".".join(pieces[:depth]) for depth in range(1, len(pieces))]
