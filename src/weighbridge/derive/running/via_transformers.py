"""Counts one config with transformers itself, where there is no blueprint or the config is outside its region.

The answer is a blueprint without letters: the tensors that transformers builds, on the meta device,
with their sizes as numbers. Everything that is asked of a model can so be asked of it, but a
formula.
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


def counted(config: Mapping[str, Any], where: str) -> Blueprint:
    """Return what transformers builds of a config: the base class of its model type, and the class that it names.

    Raises:
        ModelError: transformers has no such model type, or refuses the config.
    """
    family = config.get("model_type")
    subject = reference.FamilySubject(family if isinstance(family, str) else str(family))
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
    named = _named(config)
    if named in subject.task_classes():
        raw["classes"] = {named: {"base": False, **_tables(_built(subject, named, config, where))}}
    return Blueprint(raw)


def _named(config: Mapping[str, Any]) -> str:
    named = config.get("architectures")
    return named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""


def _built(
    subject: reference.FamilySubject, class_name: str, config: Mapping[str, Any], where: str
) -> Probe:
    said = json.loads(json.dumps(dict(config)))
    try:
        with probe.quick_building(), torch.no_grad():
            made = subject.config_class.from_dict(said)
            return probe.take(lambda: subject.build(class_name, made), {}, {}, labels=False)
    except Exception as error:
        raise ModelError(
            f"{subject.reference} does not build {class_name} of it: "
            f"{type(error).__name__}: {shorten(str(error), str, 300)}",
            where=where,
            hint="correct the config",
        ) from None


def _tables(built: Probe) -> dict[str, dict[str, str]]:
    tensors = {name: " ".join(map(str, tensor.shape)) for name, tensor in built.tensors.items()}
    ties = {name: tensor.tied_to for name, tensor in built.tensors.items() if tensor.tied_to}
    holding = {path for name in tensors for path in _above(name)}
    modules = {path: kind for path, kind in built.modules.items() if path in holding}
    return {"tensors": tensors, "ties": ties, "modules": modules}


def _above(name: str) -> list[str]:
    pieces = name.split(".")
    return [".".join(pieces[:depth]) for depth in range(1, len(pieces))]
