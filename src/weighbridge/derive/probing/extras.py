"""Packages that a few model types need besides transformers: timm, and with it torchvision.

A package that the code only needs to run, not to build its modules, may be missing.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Result = TypeVar("Result")

_MISSING = re.compile(r"operator (torchvision::\w+) does not exist")
_MOST_OPERATORS = 40  # operators to declare; torchvision has fewer


def load_torchvision() -> None:
    """Import torchvision, if it is installed.

    This must happen before transformers is imported. A torchvision built for another device than
    torch lacks its compiled operators and refuses to be imported. No shape depends on these
    operators, so they are declared here instead.
    """
    if importlib.util.find_spec("torchvision") is None:
        return
    import torch  # noqa: PLC0415

    for _ in range(_MOST_OPERATORS):
        try:
            importlib.import_module("torchvision")
        except RuntimeError as error:
            missing = _MISSING.search(str(error))
            if not missing:
                return
            torch.library.define(missing[1], "(Tensor x) -> Tensor")
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
        else:
            return


def without_packages(import_code: Callable[[], Result]) -> Result:
    """Return what a function imports; a missing package is an empty module meanwhile."""
    empty_modules: set[str] = set()
    try:
        while True:
            try:
                return import_code()
            except ModuleNotFoundError as error:
                if error.name is None or error.name in empty_modules:
                    raise
                empty_modules.add(error.name)
                sys.modules[error.name] = ModuleType(error.name)
    finally:
        for name in empty_modules:
            del sys.modules[name]


load_torchvision()
