"""Weigh a Transformer before you load it: every parameter and byte, where it sits, why, and how we know.

Example:
    >>> import weighbridge as wb
    >>> wb.weigh("bert-base-chinese").parameters
    102267648
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from weighbridge.blueprint import families
    from weighbridge.errors import WeighbridgeError
    from weighbridge.ledger import Row
    from weighbridge.models import released
    from weighbridge.report.auditing import audit
    from weighbridge.report.explain import explain
    from weighbridge.report.guessed import guess
    from weighbridge.report.inspection import inspect
    from weighbridge.report.reconciling import reconcile
    from weighbridge.report.tree import tree
    from weighbridge.report.verification import verify
    from weighbridge.report.weighing import Weighing, weigh

# Where each public name lives. It is imported when it is first asked for, so that importing the package costs nothing.
_HOMES = {
    "Row": "ledger",
    "WeighbridgeError": "errors",
    "Weighing": "report.weighing",
    "audit": "report.auditing",
    "explain": "report.explain",
    "families": "blueprint",
    "guess": "report.guessed",
    "inspect": "report.inspection",
    "reconcile": "report.reconciling",
    "released": "models",
    "tree": "report.tree",
    "verify": "report.verification",
    "weigh": "report.weighing",
}

__all__ = [
    "Row",
    "WeighbridgeError",
    "Weighing",
    "__version__",
    "audit",
    "explain",
    "families",
    "guess",
    "inspect",
    "reconcile",
    "released",
    "tree",
    "verify",
    "weigh",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
