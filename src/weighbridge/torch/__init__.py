"""Running BERT: a readable model in PyTorch, and the tools that run, trace and measure it.

Needs the extra ``weighbridge[torch]``.
"""

from __future__ import annotations

from importlib.util import find_spec

from weighbridge.errors import UsageError

NEEDED = ("torch", "numpy", "safetensors", "tokenizers", "tqdm", "sklearn")


def check_torch_extra(why: str) -> None:
    """Check that the packages of the extra are installed, before importing any of them.

    Raises:
        UsageError: a package is missing.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        hint = "run pip install torch==2.13.0, then pip install 'weighbridge[torch]'"
        raise UsageError(
            f"{why} needs packages that are not installed",
            values={"missing": ", ".join(missing)},
            hint=hint,
        )
