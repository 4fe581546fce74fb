"""Records the parts of a module that the reference code gets from an auto class."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from transformers.models.auto import auto_factory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn
    from transformers.configuration_utils import PreTrainedConfig

_BASE: type = auto_factory._BaseAutoModelClass
_FROM_CONFIG = "from_config"


class AutoPart(NamedTuple):
    """A module that an auto class built, its config, and the name of the auto class."""

    module: nn.Module
    config: PreTrainedConfig
    auto_class: str


@contextmanager
def recorded_parts() -> Iterator[list[AutoPart]]:
    """Yield a list to which every model that an auto class builds is added."""
    parts: list[AutoPart] = []
    with ExitStack() as patches:
        auto_classes = [_BASE, *dict.fromkeys(_subclasses(_BASE))]
        for auto_class in auto_classes:
            if _FROM_CONFIG in vars(auto_class):
                recording = classmethod(_recording(vars(auto_class)[_FROM_CONFIG].__func__, parts))
                patches.enter_context(mock.patch.object(auto_class, _FROM_CONFIG, recording))
        yield parts


def _recording(build: Callable[..., nn.Module], parts: list[AutoPart]) -> Callable[..., Any]:
    def from_config(auto_class: type, config: PreTrainedConfig, **options: Any) -> nn.Module:
        module = build(auto_class, config, **options)
        parts.append(AutoPart(module, config, auto_class.__name__))
        return module

    return from_config


def _subclasses(kind: type) -> Iterator[type]:
    below: type
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)
