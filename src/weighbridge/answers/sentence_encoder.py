"""The class of the Transformer in a folder of sentence-transformers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from weighbridge.errors import ModelError
from weighbridge.models.find import find
from weighbridge.readers import sentence

if TYPE_CHECKING:
    from weighbridge.readers.folders import Component


def class_in(folder: str) -> str | None:
    """Return the class that sentence-transformers builds of the only model in a folder.

    None if the folder is not one of sentence-transformers.

    Raises:
        ModelError: the folder is several models, or the class is not known.
        CheckpointError: its ``modules.json`` is broken.
    """
    described = sentence.sentence_modules(folder)
    if described is None:
        return None
    alone = sentence.transformer_alone(described)
    if alone is None:
        raise ModelError(
            f"is several models ({described.class_name}): {', '.join(described.components)}",
            where=folder,
            hint=f"`weighbridge weigh {folder}` counts them together, `weighbridge weigh {folder} "
            "--class CLASS` the Transformer alone",
        )
    return encoder_class(os.path.join(folder, alone.path), alone)


def encoder_class(place: str, component: Component) -> str:
    """Return the class that sentence-transformers builds for its Transformer in a folder.

    Raises:
        ModelError: it is not known, or there is no blueprint of the family.
        ConfigError: its config cannot be read.
    """
    model = find(place)
    task = sentence.task_of(place, component)
    family = model.blueprint.family
    names = (model.named_class, model.blueprint.base_class)
    built = sentence.class_built(family, task, *names)
    if built is None:
        what = "weighbridge does not know the class that sentence-transformers builds here"
        values = {"model_type": family, "task": task, "class": model.named_class}
        hint = f"`weighbridge weigh {model.where} --class CLASS` weighs a class of your choice"
        raise ModelError(what, where=place, values=values, hint=hint)
    return built
