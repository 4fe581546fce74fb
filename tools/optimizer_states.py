"""Writes the states that bitsandbytes' optimizers keep, as the library itself makes them.

    python tools/optimizer_states.py

`tests/data/optimizer_states.json` holds, for each optimizer and shape of a parameter, the dtype
and shape of each tensor of `optimizer.state` after a step on a CPU, and the number of the storage
that holds it, since parameters share some. Needs torch and bitsandbytes.
"""

from __future__ import annotations

import json
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bitsandbytes
import torch

STATES = Path(__file__).parents[1] / "tests" / "data" / "optimizer_states.json"
# Around the least size that is kept in 8 bits, and sizes that blocks of 256 do not divide.
SHAPES = [(64, 64), (63, 65), (4095,), (4097,), (100, 64), (130, 33), (7, 5, 130), (32,)]
KINDS = {"adamw-8bit": bitsandbytes.optim.AdamW8bit}


def states_of(name: str) -> list[dict[str, Any]]:
    """Return the states of a parameter of each shape after a step."""
    parameters = [torch.nn.Parameter(torch.ones(shape)) for shape in SHAPES]
    optimizer = KINDS[name](parameters)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    storages: dict[int, int] = {}
    found = []
    for parameter in parameters:
        states = {
            key: {
                "dtype": str(value.dtype).removeprefix("torch."),
                "shape": list(value.shape),
                "storage": storages.setdefault(value.untyped_storage().data_ptr(), len(storages)),
            }
            for key, value in optimizer.state[parameter].items()
            if torch.is_tensor(value)
        }
        found.append({"shape": list(parameter.shape), "states": states})
    return found


def main() -> None:
    """Write the file."""
    warnings.simplefilter("ignore")
    made = {
        "source": "bitsandbytes, optimizer.state after a step on a CPU",
        "bitsandbytes": version("bitsandbytes"),
        "torch": torch.__version__,
        "optimizers": {name: states_of(name) for name in KINDS},
    }
    STATES.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
