"""`nn.Module` without the checks that cost most: a derivation builds thousands of modules.

Each function does what the method of torch that it stands in for does. It leaves everything but
the usual case to that method.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_REGISTERED = (torch.Tensor, nn.Module)  # values that may go to a table of the module
_HOOKS = (  # attributes of a new module, in torch's order
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)

_begin = nn.Module.__init__
_set_attribute = nn.Module.__setattr__
_register_parameter = nn.Module.register_parameter
_get_attribute = nn.Module.__getattr__


def quicker_methods() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the methods with a quicker one: object, attribute and stand-in."""
    yield nn.Module, "__init__", _quick_begin
    yield nn.Module, "__setattr__", _quick_set_attribute


def _quick_begin(module: nn.Module, *args: Any, **options: Any) -> None:
    if args or options or module.call_super_init:
        _begin(module, *args, **options)
        return
    attributes = module.__dict__
    attributes["training"] = True
    attributes["_parameters"] = {}
    attributes["_buffers"] = {}
    attributes["_non_persistent_buffers_set"] = set()
    attributes["_backward_pre_hooks"] = OrderedDict()
    attributes["_backward_hooks"] = OrderedDict()
    attributes["_is_full_backward_hook"] = None
    for name in _HOOKS:
        attributes[name] = OrderedDict()
    attributes["_modules"] = {}


def _quick_set_attribute(module: nn.Module, name: str, value: Any) -> None:
    attributes = module.__dict__
    kind = type(value)
    if "_modules" not in attributes:
        _set_attribute(module, name, value)
    elif kind is nn.Parameter:
        _add_parameter(module, attributes, name, value)
    elif not issubclass(kind, _REGISTERED):
        if (
            name in attributes["_parameters"]
            or name in attributes["_modules"]
            or name in attributes["_buffers"]
        ):
            _set_attribute(module, name, value)
        else:
            super(nn.Module, module).__setattr__(name, value)
    elif (
        issubclass(kind, nn.Module)
        and _is_free(attributes, name, "_parameters")
        and not torch_module._global_module_registration_hooks
    ):
        attributes["_modules"][name] = value
    else:
        _set_attribute(module, name, value)


def _add_parameter(
    module: nn.Module, attributes: dict[str, Any], name: str, value: nn.Parameter
) -> None:
    """Add a new parameter as torch does, which looks for an attribute of that name in vain."""
    kind = type(module)
    is_usual = (
        kind.register_parameter is _register_parameter
        and kind.__getattr__ is _get_attribute
        and not torch_module._global_parameter_registration_hooks
        and name.isidentifier()
    )
    if is_usual and _is_free(attributes, name, "_modules") and not hasattr(kind, name):
        attributes["_parameters"][name] = value
    else:
        _set_attribute(module, name, value)


def _is_free(attributes: dict[str, Any], name: str, other_table: str) -> bool:
    """Whether torch has nothing to remove before it adds something under a name."""
    return not (
        name in attributes
        or name in attributes["_buffers"]
        or name in attributes[other_table]
        or name in attributes["_non_persistent_buffers_set"]
    )
