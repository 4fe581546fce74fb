"""What a model repository's config says of its own code: the ``auto_map`` of transformers.

Only the config is read here. `weighbridge derive --trust-remote-code FOLDER` runs the code.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.errors import ModelError
from weighbridge.readers.stores import read_object

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_OF_ANOTHER = "--"
_CONFIG = "AutoConfig"
_USUAL = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModel")


class RemoteCode(NamedTuple):
    """The code of a folder: its model type, and the names of its classes with their modules.

    ``model`` is as ``modeling_tiny.TinyForCausalLM``; ``config`` likewise, or empty.
    """

    folder: str
    family: str
    model: str
    config: str

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names; these may import others of the folder."""
        named = filter(None, (self.model, self.config))
        return tuple(dict.fromkeys(map(file_of, named)))


def remote_code_in(folder: str) -> RemoteCode:
    """Return the code that the ``config.json`` of a folder names.

    The class is the one that the config says was saved, or else the one that generates text.

    Raises:
        CheckpointError: the config cannot be read.
        ModelError: it names no code, code of another repository, or a file that is not there.
    """
    place = os.path.join(folder, "config.json")
    content = read_object(place)
    classes = model_classes(content)
    if not classes:
        raise ModelError(
            "names no class of its own, in auto_map",
            where=place,
            hint="`weighbridge weigh` counts it if transformers has its model_type",
        )
    saved = content.get("architectures")
    first = saved[0] if isinstance(saved, list) and saved else None
    usual = next(
        (classes[name] for name in _USUAL if name in classes), next(iter(classes.values()))
    )
    model = next((name for name in classes.values() if name.rpartition(".")[2] == first), usual)
    named = content["auto_map"].get(_CONFIG)
    code = RemoteCode(
        folder, str(content.get("model_type", "")), model, named if isinstance(named, str) else ""
    )
    for name in filter(None, (code.model, code.config)):
        _check(name, folder, place)
    return code


def model_classes(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the model classes that a config's ``auto_map`` names, by the auto class.

    Example:
        >>> model_classes({"auto_map": {"AutoConfig": "a.B", "AutoModel": "modeling_a.AModel"}})
        {'AutoModel': 'modeling_a.AModel'}
    """
    auto_map = content.get("auto_map")
    if not isinstance(auto_map, dict):
        return {}
    return {
        str(auto): name
        for auto, name in auto_map.items()
        if str(auto).startswith("AutoModel") and isinstance(name, str) and "." in name
    }


def file_of(name: str) -> str:
    """Return the file of a class, relative to the folder.

    Example:
        >>> file_of("modeling_tiny.TinyForCausalLM")
        'modeling_tiny.py'
    """
    return f"{name.rpartition('.')[0].replace('.', '/')}.py"


def _check(name: str, folder: str, place: str) -> None:
    if _OF_ANOTHER in name:
        raise ModelError(
            "names the code of another repository, which is not run",
            where=place,
            values={"auto_map": name},
            hint="download that repository's files into this folder, and name them without it",
        )
    if not _NAME.fullmatch(name):
        raise ModelError(
            "names code by something that is no name of a class in a file",
            where=place,
            values={"auto_map": name},
            hint="write it as modeling_mine.MyModel",
        )
    if not os.path.isfile(os.path.join(folder, file_of(name))):
        raise ModelError(
            "names code in a file that the folder lacks",
            where=place,
            values={"auto_map": name, "file": file_of(name)},
            hint="download the repository again, with its .py files",
        )
