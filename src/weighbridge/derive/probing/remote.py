"""A model repository's own code as a subject of derivation: remote code, as transformers calls it.

The code of the folder is run, by who trusts it. Its modules are imported as those of one package,
from the sources in the folder alone: no file that a link leads to elsewhere, no compiled file.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn

from weighbridge import data
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.own_configs import Objects
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.running.address import REMOTE
from weighbridge.errors import UsageError
from weighbridge.readers.stores import read_object

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from importlib.machinery import ModuleSpec

    from weighbridge.derive.probing.own_configs import Form
    from weighbridge.derive.running.runs import Task


class RemoteSubject(OwnSubject):
    """The class that a folder's config names, with the config class that it names."""

    def __init__(self, task: Task) -> None:
        self._folder = os.path.realpath(task.folder)
        _mount(self._folder)
        self._config: dict[str, Any] = read_object(os.path.join(self._folder, "config.json"))
        _keep_rope_scaling()
        _keep_what_generation_reads(besides=self._config)
        # Its advice would be repeated for each build.
        transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        super().__init__(task.subject, task.config, task.fields, task.family)

    @property
    def command(self) -> str:
        """The command that derives the blueprint."""
        words = ["weighbridge derive --trust-remote-code", os.path.basename(self._folder)]
        words += [f"--set {name}={value}" for name, value in self._given.items()]
        return " ".join(words)

    @property
    def reference(self) -> str:
        """What the blueprint is proved against."""
        torch_version = torch.__version__.partition("+")[0]
        versions = f"transformers {transformers.__version__} and torch {torch_version}"
        return f"{self.base_class} under {versions}"

    @property
    def source(self) -> str:
        """The files of the folder that were run, each with its SHA-256."""
        hashes = []
        for path in sorted(self.files()):
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            hashes.append(f"{os.path.relpath(path, self._folder)} (sha256 {digest})")
        return ", ".join(hashes)

    def _form_of(self, config: Any) -> Form:
        """Return the config's form, with the folder's own fields and the values of its config.

        What transformers gives every config is left out, and so is what changes no tensor in
        transformers' own families, unless a file of the folder has the word: its code may read it.
        """
        form = super()._form_of(config)
        if isinstance(form, Objects):
            form.meet(self._config)
        own = inspect.signature(config).parameters if isinstance(config, type) else {}
        every, words = dir(transformers.PretrainedConfig()), self._words()
        for name in data.read_toml("facts/fields.toml")["any"]:
            if name not in own and (name in every or name not in words):
                form.settings.pop(name, None)
        return form

    def _first_built(self) -> nn.Module:
        """Return the class built on the folder's config.

        Raises:
            UsageError: its tensors depend on the number of labels, which no field states: a config
                has a table of their names.
        """
        built, config = super()._first_built(), self.config({})
        if not isinstance(config.config, transformers.PretrainedConfig):
            return built
        number = len(config.config.id2label or {})
        try:
            config.config.num_labels = number + 1
            with quick_building(), torch.device("meta"):
                other = self.build(self.base_class, config)
        except Exception:  # code that takes no other number of labels
            return built
        if _shapes(built) != _shapes(other):
            raise UsageError(
                "its tensors depend on the number of labels, which is not understood here",
                where=self.base_class,
                values={"labels": number},
                hint="name a class without labels in architectures of the folder's config.json",
            )
        return built

    def _words(self) -> set[str]:
        """Return the words of all sources in the folder, imported or not yet."""
        words = set[str]()
        for path in Path(self._folder).rglob("*.py"):
            if path.is_file():
                words |= {*re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace"))}
        return words


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in module.named_parameters()}


def _keep_rope_scaling() -> None:
    """Let a config's rope_scaling be what was assigned, as code for transformers 4 reads it.

    In transformers 5 it is another name of rope_parameters, which are never None.
    """
    configs: Any = transformers.PretrainedConfig
    renamed: Any = vars(configs).get("rope_scaling")
    if renamed is None:
        return

    def read(config: Any) -> Any:
        own = vars(config)
        return own["rope_scaling"] if "rope_scaling" in own else renamed.fget(config)

    def assign(config: Any, value: Any) -> None:
        vars(config)["rope_scaling"] = copy.copy(value)
        renamed.fset(config, value)

    configs.rope_scaling = property(read, assign)


def _keep_what_generation_reads(besides: Container[str]) -> None:
    """Let configs have what generation reads, such as max_length, as before transformers 5.

    They have the defaults; ``besides`` are names that a config gives, whose values would be lost.
    """
    configs: Any = transformers.PretrainedConfig
    stated = getattr(transformers.GenerationConfig, "_get_default_generation_params", dict)
    defaults: dict[str, Any] = stated()
    for name, value in defaults.items():
        if not hasattr(configs, name) and name not in besides:
            setattr(configs, name, value)


def _mount(folder: str) -> None:
    """Make the sources of a folder importable as the modules of one package, and no others."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    here = os.getcwd()
    sys.path[:] = [path for path in sys.path if path not in ("", here)]
    package = types.ModuleType(REMOTE)
    package.__path__ = [folder]
    sys.modules[REMOTE] = package
    sys.meta_path.insert(0, _Finder(folder))


class _Finder:
    """Finds the modules of the package in its folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  # the protocol of finders
        target: types.ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return how a module of the package is loaded; None for other modules.

        Raises:
            ImportError: the folder has no such source, or it is a link that leads out.
        """
        if not name.startswith(f"{REMOTE}."):
            return None
        place = os.path.join(self._folder, *name.split(".")[1:])
        for file in (f"{place}.py", os.path.join(place, "__init__.py")):
            if not os.path.isfile(file):
                continue
            if not os.path.realpath(file).startswith(f"{self._folder}{os.sep}"):
                raise ImportError(f"{os.path.relpath(file, self._folder)} leads out of the folder")
            folders = [place] if file.startswith(f"{place}{os.sep}") else None
            return importlib.util.spec_from_file_location(
                name, file, loader=_FromSource(name, file), submodule_search_locations=folders
            )
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)  # nor is it looked for


class _FromSource(importlib.machinery.SourceFileLoader):
    """Loads a module from its source, never from a compiled file that lies beside it."""

    def get_code(self, fullname: str) -> types.CodeType | None:
        """Compile the source."""
        path = self.get_filename(fullname)
        code: types.CodeType = self.source_to_code(self.get_data(path), path)
        return code
