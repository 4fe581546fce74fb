"""BERT running: a readable model in PyTorch, and what is held against it.

Needs the extra ``weighbridge[torch]``.
"""

from __future__ import annotations

from importlib.util import find_spec

from weighbridge.errors import UsageError

NEEDED = ("torch", "numpy", "safetensors", "tokenizers", "tqdm", "sklearn")


def check_torch_extra(why: str) -> None:
    """See that what the extra brings is there, before anything of it is imported.

    Raises:
        UsageError: a package is not.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        hint = "type pip install torch==2.13.0 and then pip install 'weighbridge[torch]'"
        raise UsageError(
            f"{why} needs packages that are not installed",
            values={"missing": ", ".join(missing)},
            hint=hint,
        )
