"""Recognises folders and configs of other libraries, and explains what to do with them.

A folder is recognised by a file in it, and a config by its fields. `KINDS` has an entry for each
kind.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import CheckpointError, shorten
from weighbridge.readers.remote_code import model_classes
from weighbridge.readers.rules import LONGEST_CONFIG_BYTES, Rule, is_too_deep, without_secrets
from weighbridge.readers.stores import open_file, read_object, read_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CONFIG = "config.json"
MODULES = "modules.json"
_MOST_PARTS = 8  # of a pipeline, in a message; more would hide the rest of the message


class Explanation(NamedTuple):
    """An explanation of what a folder or config is, and what can be done with it.

    ``is_readable`` is true if it nevertheless has a checkpoint that can be read.
    """

    what: str
    hint: str
    is_readable: bool


class FolderKind(NamedTuple):
    """A kind of folder or config that is not a plain transformers model.

    It is recognised by a file and the fields in that file. ``names`` returns the values for the
    names in braces, given the file's content and the folder. A hint is left out if one of its
    values is missing. ``is_foreign`` is true if no family can have its tensors.
    """

    file: str
    fields: tuple[str, ...]
    what: str
    hints: tuple[str, ...]
    names: Callable[[Mapping[str, Any], str], Mapping[str, str]]
    is_readable: bool = True
    is_foreign: bool = True

    def explanation(self, content: Mapping[str, Any], folder: str) -> Explanation:
        """Return the explanation of a folder of this kind, given the content of its file."""
        names = {"folder": folder, **self.names(content, folder)}
        shown = {name: shorten(value, str, 10 * _MOST_PARTS**2) for name, value in names.items()}
        hints = []
        for hint in self.hints:
            needed = [name for name in names if f"{{{name}}}" in hint]
            if all(names[name] for name in needed):
                hints.append(hint.format(**shown))
        return Explanation(self.what.format(**shown), "; ".join(hints), self.is_readable)


PIPELINE = "model_index.json"


class Component(NamedTuple):
    """A model in a folder of several: its library, its class, and its folder inside."""

    library: str
    class_name: str
    path: str


class FolderOfModels(NamedTuple):
    """The class of the whole, and its components that are models, by name."""

    class_name: str
    components: Mapping[str, Component]


COMPONENT = Rule(
    "component",
    "a component of a pipeline has a plain name, and a list of its library and its class",
    "mend model_index.json, or download it again",
)
ABSENT = Rule(
    "component",
    "model_index.json names a component that the folder lacks",
    "download the pipeline again; in model_index.json, [null, null] stands for no component",
)


def pipeline_components(folder: str) -> FolderOfModels | None:
    """Return what the ``model_index.json`` of a folder names; None if there is none.

    Raises:
        CheckpointError: the file is no JSON object, breaks the rule ``component``, or names a
            model whose folder is missing.
    """
    path = os.path.join(folder, PIPELINE)
    if not os.path.isfile(path) or os.path.exists(os.path.join(folder, CONFIG)):
        return None
    content = read_object(path)
    components = {}
    for name, value in content.items():
        if not _is_component(name, value, path):
            continue
        if not os.path.isdir(os.path.join(folder, name)):
            raise ABSENT.broken(folder, component=name, **{"class": value[1]})
        components[name] = Component(value[0], value[1], name)
    return FolderOfModels(str(content.get("_class_name", "")), components)


def _is_component(name: str, value: object, path: str) -> bool:
    """Whether an entry names a model, and not an option, a tokenizer or an absent component."""
    if not isinstance(value, list) or not any(map(_is_text_or_null, value)):
        return False
    if value == [None, None]:
        return False
    is_named = len(value) == 2 and all(isinstance(item, str) for item in value)
    if not is_named or name in ("", ".", "..") or "/" in name or os.sep in name:
        raise COMPONENT.broken(path, component=name, found=value)
    return _is_model(value[1])


def _is_text_or_null(value: object) -> bool:
    return value is None or isinstance(value, str)


def _pipeline_names(content: Mapping[str, Any], folder: str) -> dict[str, str]:
    """Return the parts of a pipeline that are models: those of transformers, and the others."""
    parts: dict[str, list[str]] = {}
    for name, value in content.items():
        if isinstance(value, list) and len(value) == 2 and _is_model(value[1]):
            parts.setdefault(str(value[0]), []).append(f"{folder}/{name}")
    counted = parts.pop("transformers", [])
    others = [path for paths in parts.values() for path in paths]
    return {
        "class": str(content.get("_class_name", "")),
        "parts": ", ".join(counted[:_MOST_PARTS]),
        "others": ", ".join(others[:_MOST_PARTS]),
    }


# Endings of the names of classes without weights in a pipeline.
_NO_MODELS = ("Tokenizer", "TokenizerFast", "Scheduler", "Processor", "Extractor", "ProcessorFast")


def _is_model(class_name: object) -> bool:
    return isinstance(class_name, str) and not class_name.endswith(_NO_MODELS)


def _adapter_names(content: Mapping[str, Any], folder: str) -> dict[str, str]:  # noqa: ARG001
    base = content.get("base_model_name_or_path") or ""
    return {"method": str(content.get("peft_type", "PEFT")), "base": str(base)}


def _config_names(content: Mapping[str, Any], folder: str) -> dict[str, str]:  # noqa: ARG001
    name = content.get("architecture") or content.get("_class_name") or ""
    return {"class": str(name)}


def _remote_code_names(content: Mapping[str, Any], folder: str) -> dict[str, str]:  # noqa: ARG001
    """Return the classes that an auto_map names, in the form that `weighbridge derive` takes."""
    named = [*model_classes(content).values()]
    if isinstance(content["auto_map"], dict):
        named += [name for name in content["auto_map"].values() if isinstance(name, str)]
    class_name = next(iter(named), "").rpartition("--")[2]
    return {"family": str(content.get("model_type", "")), "class": class_name}


_INSPECT = "`weighbridge inspect {folder}` counts a checkpoint in it"
_TRUST = (
    "if you trust that code, derive a blueprint from it: "
    "`weighbridge derive --trust-remote-code {folder}`"
)

KINDS = (
    FolderKind(
        PIPELINE,
        (),
        "is a diffusers pipeline ({class}), which is several models",
        (
            "`weighbridge weigh` counts these parts: {parts}",
            "`weighbridge inspect` counts the checkpoints of these: {others}",
        ),
        _pipeline_names,
        is_readable=False,
    ),
    FolderKind(
        "adapter_config.json",
        ("base_model_name_or_path",),
        "is a PEFT adapter ({method}) for the base model {base}, not a whole model",
        (
            "`weighbridge lora BASE --config {folder}` counts it on a base model",
            "`weighbridge weigh {base}` counts the base model",
            "`weighbridge inspect {folder}` counts the adapter",
        ),
        _adapter_names,
    ),
    FolderKind(
        "adapter_config.json",
        (),
        "is a PEFT adapter ({method}), not a whole model",
        ("`weighbridge inspect {folder}` counts the adapter",),
        _adapter_names,
    ),
    FolderKind(
        CONFIG,
        ("architecture", "pretrained_cfg"),
        "is a timm model ({class}), whose tensors no family of transformers has",
        ("`weighbridge weigh {folder}` counts it, if its architecture has a blueprint", _INSPECT),
        _config_names,
    ),
    FolderKind(
        CONFIG,
        ("_class_name", "_diffusers_version"),
        "is a diffusers model ({class}), and there is no blueprint for this class",
        (_INSPECT, "`weighbridge derive diffusers:{class}` derives a blueprint from its code"),
        _config_names,
    ),
    FolderKind(
        CONFIG,
        ("auto_map",),
        "the model_type {family} has its own code ({class}), which weighbridge does not run",
        (
            _TRUST,
            _INSPECT,
        ),
        _remote_code_names,
        is_foreign=False,
    ),
)

FOREIGN = Rule("foreign", "", "")
"""The kind has the message and the hint."""


def explained_folder(folder: str, names: Sequence[str]) -> Explanation | None:
    """Return the explanation of a folder with these files; None if its kind is unknown.

    A folder with a config.json is that of a model, whatever else is in it.

    Raises:
        CheckpointError: the file by which its kind is known is no JSON object.
    """
    if CONFIG in names:
        return None
    kinds = [kind for kind in KINDS if kind.file in names]
    return _explanation(kinds, folder, read_object)


def check_family_possible(checkpoint: object) -> None:
    """Refuse a local folder whose checkpoint no family can have: an adapter or a timm model.

    Raises:
        CheckpointError: the folder breaks the rule ``foreign``.
    """
    if not isinstance(checkpoint, str | os.PathLike) or not os.path.isdir(checkpoint):
        return
    folder = os.fspath(checkpoint)
    try:
        names = os.listdir(folder)
    except OSError:
        return  # its reader says why it cannot be read
    likely_kinds = [kind for kind in KINDS if kind.is_foreign and kind.file in names]
    if CONFIG in names:
        likely_kinds = [kind for kind in likely_kinds if kind.file == CONFIG]
    explanation = _explanation(likely_kinds, folder, _read_json)
    if explanation is not None:
        rule = FOREIGN._replace(what=explanation.what, hint=explanation.hint)
        raise rule.broken(folder)


def _explanation(
    kinds: Sequence[FolderKind], folder: str, read: Callable[[str], Any]
) -> Explanation | None:
    """Return the explanation of the first kind that fits the content of its file in a folder."""
    folder = folder.rstrip("/") or folder
    for kind in kinds:
        content = read(f"{folder}/{kind.file}")
        if isinstance(content, dict) and _has_all(content, kind.fields):
            return kind.explanation(content, without_secrets(folder))
    return None


def explained_config(config: Mapping[str, Any], where: str) -> Explanation | None:
    """Return the explanation of a config that has no family; None if its kind is unknown."""
    folder = "CHECKPOINT"
    if where.endswith(".json"):
        folder = os.path.dirname(where) or "."
    for kind in KINDS:
        if kind.file == CONFIG and _has_all(config, kind.fields):
            return kind.explanation(config, folder)
    return None


def transformer_in(folder: str, names: Sequence[str]) -> str | None:
    """Return the subfolder of a sentence-transformers model that contains its transformer.

    Return None if this is the folder itself, or if the folder does not contain such a model.
    """
    if MODULES not in names:
        return None
    modules = _read_json(f"{folder}/{MODULES}")
    if not isinstance(modules, list) or not modules or not isinstance(modules[0], dict):
        return None
    path = modules[0].get("path")
    if not isinstance(path, str) or not path or path.strip(".") != path or "/" in path:
        return None
    return path


def _has_all(content: Mapping[str, Any], fields: Sequence[str]) -> bool:
    return all(content.get(field) is not None for field in fields)


def _read_json(path: str) -> Any:
    """Return the content of a small JSON file; None if it cannot be read."""
    try:
        with open_file(path) as file:
            raw = read_on(file, LONGEST_CONFIG_BYTES)
        return None if is_too_deep(raw) else json.loads(raw.decode())
    except (CheckpointError, OSError, ValueError):
        return None
