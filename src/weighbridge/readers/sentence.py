"""Reads the folder of a sentence-transformers model: its ``modules.json`` names several modules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from weighbridge import data
from weighbridge.readers.folders import (
    CONFIG,
    MODULES,
    PIPELINE,
    Component,
    FolderOfModels,
    pipeline_components,
)
from weighbridge.readers.rules import Rule
from weighbridge.readers.stores import read_json, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARY = "sentence_transformers"
CLASS = "SentenceTransformer"
TRANSFORMERS = ("Transformer", "MLMTransformer")
"""The modules that hold a model of transformers."""
_SETTINGS = "sentence_bert_config.json"
_FIRST_TASK = "feature-extraction"

MODULE = Rule(
    "module",
    "a module has a type, and as its path the name of a folder, or nothing for this folder",
    "mend modules.json, or download it again",
)
ABSENT = Rule(
    "module",
    "modules.json names a module without a config.json in the folder",
    "download the model again",
)


def models_in(folder: str) -> FolderOfModels | None:
    """Return what a local folder of several models says about them; None for any other path.

    Raises:
        CheckpointError: its ``model_index.json`` or ``modules.json`` is broken.
    """
    if not os.path.isdir(folder):
        return None
    return pipeline_components(folder) or sentence_modules(folder)


def sentence_modules(folder: str) -> FolderOfModels | None:
    """Return the modules with parameters that the ``modules.json`` of a folder names.

    None if there is no such file, or if it is not that of sentence-transformers.

    Raises:
        CheckpointError: the file is no JSON, breaks the rule ``module``, or names a module whose
            config is missing.
    """
    path = os.path.join(folder, MODULES)
    if not os.path.isfile(path) or os.path.isfile(os.path.join(folder, PIPELINE)):
        return None
    modules = read_json(path)
    if not isinstance(modules, list) or not modules or not _has_type(modules[0]):
        return None
    components = {}
    for index, module in enumerate(modules):
        place = module.get("path") if _has_type(module) else None
        if not isinstance(place, str) or place in (".", "..") or "/" in place or os.sep in place:
            raise MODULE.broken(path, module=index, found=module)
        library, _, class_name = module["type"].rpartition(".")
        if class_name in _facts()["without_parameters"]:
            continue
        is_transformer = class_name in TRANSFORMERS
        if not is_transformer and not os.path.isfile(os.path.join(folder, place, CONFIG)):
            raise ABSENT.broken(os.path.join(folder, place), module=class_name)
        library = library.partition(".")[0]
        components[f"{index}_{class_name}"] = Component(library, class_name, place)
    return FolderOfModels(CLASS, components)


def transformer_alone(described: FolderOfModels) -> Component | None:
    """Return the module that is the whole model, because no other has parameters, or else None."""
    components = [*described.components.values()]
    is_whole = len(components) == 1 and components[0].class_name in TRANSFORMERS
    return components[0] if is_whole and components[0].library == LIBRARY else None


def task_of(folder: str, component: Component) -> str:
    """Return the task for which sentence-transformers builds the Transformer of a folder."""
    if component.class_name != TRANSFORMERS[0]:
        return "fill-mask"
    path = os.path.join(folder, _SETTINGS)
    settings = read_object(path) if os.path.isfile(path) else {}
    return str(settings.get("transformer_task", _FIRST_TASK))


def class_built(family: str, task: str, named: str, base: str) -> str | None:
    """Return the class that sentence-transformers builds of a family; None if it is not known.

    Args:
        family: the model_type.
        task: the task of the module, as `task_of` returns it.
        named: the class that the config names.
        base: the class that transformers' AutoModel builds.

    Example:
        >>> class_built("bert", "feature-extraction", "BertForMaskedLM", "BertModel")
        'BertModel'
        >>> class_built("t5", "feature-extraction", "T5Model", "T5Model")
        'T5EncoderModel'
    """
    facts = _facts()
    if task == _FIRST_TASK:
        return None if family in facts["encoders_only"] else facts["encoders"].get(family, base)
    ending = facts["tasks"].get(task)
    return named if ending and named.endswith(ending) else None


def _facts() -> Mapping[str, Any]:
    return data.read_toml("facts/sentence_transformers.toml")


def _has_type(module: object) -> bool:
    return isinstance(module, dict) and isinstance(module.get("type"), str)
