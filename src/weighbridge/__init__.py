"""Weigh a Transformer before you load it.

It gives every parameter and byte: where it sits, why, and how we know.

Example:
    >>> import weighbridge as wb
    >>> wb.weigh("bert-base-chinese").parameters
    102267648
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as `typing` has it, without the import of anything

if TYPE_CHECKING:
    from weighbridge.answers.audit import audit
    from weighbridge.answers.cache import cache
    from weighbridge.answers.compare import compare
    from weighbridge.answers.cost import cost
    from weighbridge.answers.design import design
    from weighbridge.answers.explain import explain
    from weighbridge.answers.formula import formula
    from weighbridge.answers.guess import guess
    from weighbridge.answers.inspect import inspect
    from weighbridge.answers.lora import lora
    from weighbridge.answers.plan import plan
    from weighbridge.answers.quantize import quantize
    from weighbridge.answers.reconcile import reconcile
    from weighbridge.answers.serve import serve
    from weighbridge.answers.train import train
    from weighbridge.answers.tree import tree
    from weighbridge.answers.verify import verify
    from weighbridge.answers.weigh import Weighing, weigh
    from weighbridge.blueprint.schema import families
    from weighbridge.errors import WeighbridgeError
    from weighbridge.explorer.explore import explore
    from weighbridge.fleet.sweep import sweep
    from weighbridge.ledger.rows import Row
    from weighbridge.models.catalogue import released

# Where each public name lives. It is imported when it is first asked for, so that importing the
# package costs nothing.
_HOMES = {
    "Row": "ledger.rows",
    "WeighbridgeError": "errors",
    "Weighing": "answers.weigh",
    "audit": "answers.audit",
    "cache": "answers.cache",
    "compare": "answers.compare",
    "cost": "answers.cost",
    "design": "answers.design",
    "explain": "answers.explain",
    "explore": "explorer.explore",
    "families": "blueprint.schema",
    "formula": "answers.formula",
    "guess": "answers.guess",
    "inspect": "answers.inspect",
    "lora": "answers.lora",
    "plan": "answers.plan",
    "quantize": "answers.quantize",
    "reconcile": "answers.reconcile",
    "released": "models.catalogue",
    "serve": "answers.serve",
    "sweep": "fleet.sweep",
    "train": "answers.train",
    "tree": "answers.tree",
    "verify": "answers.verify",
    "weigh": "answers.weigh",
}

__all__ = [
    "Row",
    "WeighbridgeError",
    "Weighing",
    "__version__",
    "audit",
    "cache",
    "compare",
    "cost",
    "design",
    "explain",
    "explore",
    "families",
    "formula",
    "guess",
    "inspect",
    "lora",
    "plan",
    "quantize",
    "reconcile",
    "released",
    "serve",
    "sweep",
    "train",
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
