"""Writes the small Keras files of ``tests/data/keras``, and the list of what Keras holds in them.

``KERAS_BACKEND=torch python tools/keras_files.py FOLDER`` needs keras, of which the tests need
nothing: they read the files.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")


def main() -> None:
    """Write one model in the three forms of Keras 3, in two dtypes, and its variables as JSON."""
    import keras  # noqa: PLC0415  # after its backend is chosen

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(0)
    listed = {"keras": keras.__version__}
    for name, dtype in (("mlp", "float32"), ("half", "bfloat16")):
        keras.config.set_dtype_policy(dtype)
        model = keras.Sequential(
            [
                keras.layers.Input((4,)),
                keras.layers.Dense(3, name="up"),
                keras.layers.BatchNormalization(name="norm"),
                keras.layers.Dense(2, use_bias=False, name="down"),
            ],
            name=name,
        )
        if name == "mlp":
            model.compile(optimizer="adam", loss="mse")
            model.optimizer.build(model.trainable_variables)
            model.save(folder / f"{name}.h5")
        model.save(folder / f"{name}.keras")
        model.save_weights(folder / f"{name}.weights.h5")
        listed[name] = [[list(each.shape), str(each.dtype)] for each in model.weights]
    (folder / "variables.json").write_text(json.dumps(listed, indent=1) + "\n")


if __name__ == "__main__":
    main()
