"""Counts with transformers, on the meta device."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import transformers
from huggingface_hub import constants
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.bert import modeling_bert  # noqa: F401  # what nearly all models import

from attacking.trees import copied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attacking.trees import Config

VERSION = f"transformers {transformers.__version__}"


def prepare() -> None:
    """Make this process only count: without downloads, messages and further threads."""
    constants.HF_HUB_OFFLINE = True
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)


class RefusedByReferenceError(Exception):
    """A config that transformers does not build, or builds too slowly to be compared."""


class Count(NamedTuple):
    """The unique parameters of a model: how many, and the sorted shapes."""

    total: int
    shapes: tuple[tuple[int, ...], ...]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Leave out what transformers prints and warns of."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stderr(io.StringIO()):
            yield


def is_known(model_type: str) -> bool:
    """Whether transformers has a config class for a model type."""
    return model_type in CONFIG_MAPPING


def config_class(model_type: str) -> Any:
    """Return the config class of a model type."""
    return CONFIG_MAPPING[model_type]


def source_folder(model_type: str) -> Path:
    """Return the folder with the code of a model type."""
    return Path(inspect.getfile(config_class(model_type))).parent


def built_config(config: Config) -> Any:
    """Return the config object that `AutoConfig` makes of a config file.

    Raises:
        RefusedByReferenceError: transformers refuses it.
    """
    with quiet(), as_refusals():
        return config_class(config["model_type"]).from_dict(copied(config))


def written(config: Config, *, in_full: bool) -> Config:
    """Return the config as transformers saves it: in full, or the difference from the defaults.

    Raises:
        RefusedByReferenceError: transformers refuses it.
    """
    with quiet(), as_refusals():
        text = config_class(config["model_type"]).from_dict(copied(config))
        saved: Config = json.loads(text.to_json_string(use_diff=not in_full))
    return saved


def count(config: Config, class_name: str) -> Count:
    """Return the parameters of a class, as `AutoModel.from_config` and its likes build it.

    A class of the text model gets the text config, as there. ``_from_config`` decides where it
    differs from calling the class: the dtype and the ties are those of a model that is loaded.

    Raises:
        RefusedByReferenceError: transformers refuses the config.
    """
    object_of_config = built_config(config)
    with quiet(), as_refusals(), without_values(), torch.device("meta"):
        model_class = class_called(class_name, config["model_type"])
        text_class = type(object_of_config).sub_configs.get("text_config")
        if text_class is not None and model_class.config_class is text_class:
            object_of_config = object_of_config.get_text_config()
        model = model_class._from_config(object_of_config, attn_implementation="eager")
        shapes = sorted(tuple(weight.shape) for weight in model.parameters())
        total = sum(weight.numel() for weight in model.parameters())
    return Count(total, tuple(shapes))


@contextlib.contextmanager
def without_values() -> Iterator[None]:
    """Leave parameters without values: a third of the time goes into filling nothing.

    The context of transformers for this also leaves out ties, which decide the count.
    """
    names = [name for name in dir(torch.nn.init) if name.endswith("_") and name[0] != "_"]
    functions = {name: getattr(torch.nn.init, name) for name in names}
    try:
        for name in names:
            setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)
        yield
    finally:
        for name, function in functions.items():
            setattr(torch.nn.init, name, function)


@contextlib.contextmanager
def as_refusals() -> Iterator[None]:
    """Turn whatever transformers raises into a refusal: its code raises errors of any class."""
    try:
        yield
    except TimeoutError:
        raise
    except Exception as error:
        first_line = str(error).strip().partition("\n")[0]
        raise RefusedByReferenceError(f"{type(error).__name__}: {first_line}") from error


@cache
def class_called(class_name: str, model_type: str) -> Any:
    """Return the class of a model type with this name."""
    found = getattr(transformers, class_name, None)
    if found is None:
        named = modeling_auto.MODEL_MAPPING_NAMES[model_type]
        base = getattr(transformers, named if isinstance(named, str) else named[0])
        found = getattr(inspect.getmodule(base), class_name)
    return found


@cache
def task_tables() -> dict[str, int]:
    """Return how many of transformers' tables of classes list each model type."""
    tables = [name for name in dir(modeling_auto) if name.endswith("_MAPPING_NAMES")]
    counts: dict[str, int] = {}
    for table in tables:
        for model_type in getattr(modeling_auto, table):
            counts[model_type] = counts.get(model_type, 0) + 1
    return counts
