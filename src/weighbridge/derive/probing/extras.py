"""What a few model types need besides transformers: backbones of timm, and so torchvision."""

from __future__ import annotations

import importlib.util
import re
import sys

_MISSING = re.compile(r"operator (torchvision::\w+) does not exist")
_MOST_OPERATORS = 40  # of torchvision that are declared; it has fewer


def load_torchvision() -> None:
    """Import torchvision, if it is installed.

    Once transformers has been imported it is too late. A build for another device than torch's own
    comes without its compiled operators and refuses to be imported; no shape depends on them, so
    they are declared in their place.
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


load_torchvision()
