"""Workloads for recording or measuring operations: a built class, with inputs for its task."""

from __future__ import annotations

import inspect
import warnings
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.blueprint.operations import RUN_NAMES
from weighbridge.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import nn

ATTENTIONS = ("eager", "sdpa")
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
RECORDED_DTYPES = ("F32", "BF16")
"""The dtypes in which classes are recorded; F16 is as BF16."""


class Buildable(Protocol):
    """The part of a `Subject` that a workload needs: it builds a class."""

    def config(self, changes: Mapping[str, Any]) -> Any:
        """Return the config with these changes, and defaults elsewhere."""

    def attend(self, config: Any, attention: str) -> Any:
        """Return a config with this implementation of attention."""

    def build(self, class_name: str, config: Any) -> nn.Module:
        """Build a class on a config, with weights."""


class Workload(NamedTuple):
    """How a class is run. ``changes`` are those of its config, by dotted path."""

    class_name: str
    changes: Mapping[str, Any]
    batch: int
    sequence: int
    choices: int = 2
    attention: str = "eager"
    dtype: str = "F32"
    training: bool = True
    past: int = 0
    target: int = 0
    images: int = 0
    patches: int = 0
    device: str = "cpu"

    @property
    def names(self) -> dict[str, Any]:
        """The values that an expression may name besides the config's fields."""
        return {name: getattr(self, name) for name in RUN_NAMES}


def built(subject: Buildable, workload: Workload, device: str = "cpu") -> nn.Module:
    """Build the class of a workload, with random weights.

    Raises:
        Exception: whatever the code raises on a config that it refuses.
    """
    config = subject.attend(subject.config(workload.changes), workload.attention)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = subject.build(workload.class_name, config)
    return module.to(device=device, dtype=DTYPES[workload.dtype]).train(workload.training)


def built_in_dtype(subject: Buildable, workload: Workload, device: str) -> nn.Module:
    """Build the class of a workload in its dtype at once, except what its code keeps in another.

    Raises:
        Exception: whatever the code raises on a config that it refuses.
    """
    config = subject.attend(subject.config(workload.changes), workload.attention)
    with torch.device(device), _default_dtype(DTYPES[workload.dtype]):
        module = subject.build(workload.class_name, config)
    return module.train(workload.training)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


def inputs(
    workload: Workload,
    fields: Mapping[str, Any],
    device: str = "cpu",
    seed: int = 0,
    part: str = "tasks",
) -> dict[str, torch.Tensor]:
    """Return the inputs of a workload: random integers below the bound of each, or numbers.

    ``part`` is ``"prefill"`` for the inputs that fill a cache.

    Example:
        >>> workload = Workload("BertForMultipleChoice", {}, batch=4, sequence=8)
        >>> tensors = inputs(workload, {"vocab_size": 30})
        >>> {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        {'input_ids': (4, 2, 8), 'labels': (4,)}
    """
    names, dice = {**fields, **workload.names}, torch.Generator().manual_seed(seed)
    of_images = images_in(workload.class_name)
    marks = of_images.get("marks")
    tensors = {}
    for name, text in _of_task(part, workload.class_name).items():
        tensor = _input(text, names, dice)
        if of_images and (0 in tensor.shape or (name == marks and not workload.images)):
            continue  # of images, in a run without any
        if of_images and name in ("input_ids", marks):
            _place_images(tensor, of_images, names, is_mark=name == marks)
        if tensor.is_floating_point():
            tensor = tensor.to(DTYPES[workload.dtype])
        tensors[name] = tensor.to(device)
    return tensors


def _input(text: str, names: Mapping[str, Any], dice: torch.Generator) -> torch.Tensor:
    """Return an input as its text says: with given rows, of random integers, or of numbers."""
    words, _, row = text.partition("=")
    dims, _, bound = words.partition("<")
    shape, values = (
        [evaluate(parse(word), names) for word in part.split()] for part in (dims, row)
    )
    if values:
        return torch.tensor(values).expand(shape)
    if bound:
        return torch.randint(0, evaluate(parse(bound), names), shape, generator=dice)
    return torch.rand(shape, generator=dice)


def _place_images(
    ids: torch.Tensor, of_images: Mapping[str, str], names: Mapping[str, Any], *, is_mark: bool
) -> None:
    """Let the first tokens of each sequence stand for its images, and no others; or mark them.

    Images that are marked are told apart by a token between them.

    Raises:
        ModelError: the sequence is too short for its images.
    """
    token, tokens = (evaluate(parse(of_images[key]), names) for key in ("token", "tokens"))
    step = tokens + 1 if "marks" in of_images else tokens
    starts = range(0, names["images"] * step, step)
    taken = starts[-1] + tokens if starts else 0
    if taken > ids.shape[1]:
        raise ModelError(f"{taken} tokens of images do not fit in a sequence of {ids.shape[1]}")
    if not is_mark:
        ids[ids == token] = token - 1
    for start in starts:
        ids[:, start : start + tokens] = 1 if is_mark else token


def images_in(class_name: str) -> dict[str, str]:
    """Return the token that stands for images, and how many do for each, as expressions.

    Example:
        >>> images_in("LlavaForConditionalGeneration")["token"], images_in("BertModel")
        ('image_token_index', {})
    """
    return _of_task("images", class_name)


def sizes_of(class_name: str, part: str = "tasks") -> list[str]:
    """Return the sizes of a run that the inputs of a class depend on; ``part`` as for `inputs`.

    Example:
        >>> sizes_of("BertModel"), sizes_of("BertForMultipleChoice")
        (['batch', 'sequence'], ['batch', 'choices', 'sequence'])
    """
    names: list[str] = []
    for text in _of_task(part, class_name).values():
        for word in text.replace("<", " ").replace("=", " ").split():
            names += names_in(parse(word))
    return [name for name in dict.fromkeys(names) if name in RUN_NAMES]


def fixed_fields(class_name: str) -> dict[str, Any]:
    """Return the fields that must have fixed values for a class to run.

    Example:
        >>> fixed_fields("BertForQuestionAnswering"), fixed_fields("BertModel")
        ({'num_labels': 2}, {})
    """
    return _of_task("fixed", class_name)


def check_inputs(module: nn.Module, given: Mapping[str, torch.Tensor], class_name: str) -> None:
    """Check that a module accepts the inputs that it will be given.

    Raises:
        ModelError: it does not accept one of them.
    """
    taken = inspect.signature(module.forward).parameters
    if unknown := [name for name in given if name not in taken]:
        hint = "facts/tasks.toml lists the inputs of a class by the ending of its name"
        what = f"does not accept these inputs: {', '.join(unknown)}"
        raise ModelError(what, where=class_name, hint=hint)


def keywords_of(module: nn.Module, given: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Return the inputs of a module as keywords of a run that fills no cache."""
    taken = inspect.signature(module.forward).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    has_cache = getattr(getattr(module, "config", None), "use_cache", None)
    if has_cache and (takes_any or "use_cache" in taken):
        return {**given, "use_cache": False}
    return dict(given)


@cache
def _tasks() -> dict[str, dict[str, dict[str, Any]]]:
    return data.read_toml("facts/tasks.toml")


def _of_task(part: str, class_name: str) -> dict[str, Any]:
    """Return the entry of the longest ending that a class's name has; empty if it has none."""
    fitting = [ending for ending in _tasks()[part] if class_name.endswith(ending)]
    if not fitting:
        return {}
    return _tasks()[part][max(fitting, key=len)]
