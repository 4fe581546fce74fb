"""Load a checkpoint as a BERT that runs: its config, class, tensors and tokenizer.

Stored tensors are matched by the ledger and by the tables that `weighbridge verify` uses: old
names, the prefix that a checkpoint has or lacks, and the names in Google's TensorFlow files. A
checkpoint that does not fit is refused.
"""

from __future__ import annotations

import json
import math
import os
import pickle
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from weighbridge import readers
from weighbridge.errors import CheckpointError, ConfigError, ModelError, UsageError
from weighbridge.ledger.ledger import bind
from weighbridge.matching.comparison import LACKING, choose
from weighbridge.matching.pairing import is_turned, names_of, renamed
from weighbridge.models.find import find
from weighbridge.readers import tensorflow
from weighbridge.readers.rules import is_remote, is_too_deep
from weighbridge.readers.stores import hub
from weighbridge.readers.stores.pages import checkpoint_at
from weighbridge.torch.bert import ACTIVATIONS, ATTENTIONS, CLASSES, BertConfig
from weighbridge.torch.tokens import FILES, Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torch import nn

    from weighbridge.matching.comparison import Comparison, Difference
    from weighbridge.models.find import Model
    from weighbridge.readers import StoredCheckpoint

FAMILY = "bert"
_CONFIG, _GOOGLES = "config.json", "bert_config.json"


class Loaded(NamedTuple):
    """A loaded checkpoint.

    ``labels`` are the class names of a classifier, ``model`` is in evaluation mode, and ``notes``
    are sentences for the user.
    """

    where: str
    model: nn.Module
    class_name: str
    config: BertConfig
    of: Model
    labels: tuple[str, ...]
    tokens: Tokens
    notes: tuple[str, ...]


def load_checkpoint(
    checkpoint: str | os.PathLike[str],
    class_name: str | None = None,
    *,
    labels: tuple[str, ...] | None = None,
    attention: str = "sdpa",
    pack: bool = True,
    seed: int = 0,
) -> Loaded:
    """Load a checkpoint, its config and its tokenizer.

    Args:
        checkpoint: a folder with ``config.json``, weights and a tokenizer; a file of weights in
            such a folder; or a folder on the hub, ``hf://org/name@revision``.
        class_name: the class to load; by default the one that the config names or that fits.
        labels: the classes of a new head to train; parts of the head that the checkpoint lacks are
            then initialized at random.
        attention: ``"sdpa"`` or ``"eager"``.
        pack: remove the padding from batches.
        seed: the seed of the random initialization.

    Raises:
        UsageError: there is no such attention.
        ModelError: it is not a BERT, or has no such class.
        ConfigError: the config cannot be read, or asks for something that is not supported.
        CheckpointError: there is no checkpoint or tokenizer, or a tensor does not fit.
    """
    if attention not in ATTENTIONS:
        raise UsageError(
            "there is no such attention",
            values={"attention": attention},
            hint=f"use {' or '.join(ATTENTIONS)}",
        )
    folder, path = _folder_and_weights(os.fspath(checkpoint))
    replaced = {"id2label": dict(enumerate(labels))} if labels else None
    model = find(_config_in(folder), replaced)
    if model.blueprint.family != FAMILY:
        values = {"model_type": model.blueprint.family}
        raise ModelError(
            "only BERT models can be run",
            where=folder,
            values=values,
            hint="give a checkpoint of a BERT",
        )
    config = config_of(model, attention=attention, pack=pack)
    tokens = Tokens(folder, config.vocab_size, config.max_position_embeddings)
    found = readers.read(path)
    choice = choose(model, found, class_name)
    notes = _accounted(choice.comparison, found, model, choice.class_name, new=labels is not None)
    with torch.random.fork_rng(devices=[]):  # the random initialization is the same each time
        torch.manual_seed(seed)
        built = CLASSES[choice.class_name](config)
    _fill(built, choice.comparison, found)
    names = labels or _labels(model)
    return Loaded(
        folder,
        built.eval(),
        choice.class_name,
        config,
        model,
        names,
        tokens,
        (*model.notes, *notes),
    )


def _config_in(folder: str) -> str | dict[str, Any]:
    """Return the path of a folder's config, or the content of Google's ``bert_config.json``.

    Google's file does not name the family, so it is added.
    """
    path, googles = os.path.join(folder, _CONFIG), os.path.join(folder, _GOOGLES)
    if os.path.exists(path) or not os.path.exists(googles):
        return path
    try:
        with open(googles, "rb") as file:
            raw = file.read()
        if is_too_deep(raw):
            raise ValueError("it is nested too deeply")
        config = json.loads(raw.decode())
    except (OSError, ValueError) as error:
        raise ConfigError("cannot be read", where=googles, values={"reason": str(error)}) from None
    if not isinstance(config, dict):
        raise ConfigError(
            "is not a JSON object",
            where=googles,
            values={"found": config},
            hint="use the config of the checkpoint",
        )
    return {"model_type": FAMILY, **config}


def config_of(model: Model, *, attention: str = "sdpa", pack: bool = True) -> BertConfig:
    """Return the sizes of a BERT from a config; missing fields get the family's defaults.

    Raises:
        ConfigError: it asks for something that is not supported, or a value is invalid.

    Example:
        >>> config_of(find("bert-base-chinese")).vocab_size
        21128
    """
    stated = {name: model.config[name] for name in _FIELDS if name in model.config}
    stated |= model.fields
    values = {
        name: stated[name]
        for name in _FIELDS
        if stated.get(name) is not None or name == "pad_token_id"
    }
    for name, is_sound, rule in _RULES:
        if name in values and not is_sound(values[name]):
            raise ConfigError(
                f"{name} {rule}", where=model.where, values={name: values[name]}, hint="correct it"
            )
    positions = model.config.get("position_embedding_type", "absolute")
    if positions != "absolute":
        values = {"position_embedding_type": positions}
        raise ConfigError(
            "only absolute position embeddings are supported", where=model.where, values=values
        )
    return BertConfig(**values, attention=attention, pack=pack)


_FIELDS = tuple(
    field.name for field in fields(BertConfig) if field.name not in ("attention", "pack")
)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value < 1


_PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")
_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("hidden_act", lambda value: value in ACTIVATIONS, f"must be one of {', '.join(ACTIVATIONS)}"),
    ("hidden_dropout_prob", _is_share, "must be from 0 to less than 1"),
    ("attention_probs_dropout_prob", _is_share, "must be from 0 to less than 1"),
    ("classifier_dropout", _is_share, "must be from 0 to less than 1"),
    ("layer_norm_eps", lambda value: _is_number(value) and value > 0, "must be a positive number"),
    (
        "initializer_range",
        lambda value: _is_number(value) and value >= 0,
        "must be a number, 0 or more",
    ),
    ("problem_type", lambda value: value in _PROBLEMS, f"must be one of {', '.join(_PROBLEMS)}"),
)
"""The rules for values that decide no shape and are therefore not checked elsewhere."""


def _labels(model: Model) -> tuple[str, ...]:
    """Return the names of the classes in order; classes without names are LABEL_0, LABEL_1, …."""
    stated: Any = model.config.get("id2label")
    names = {}
    if hasattr(stated, "keys"):
        names = {str(number): stated[number] for number in stated}
    return tuple(
        str(names.get(str(number), f"LABEL_{number}"))
        for number in range(model.fields["num_labels"])
    )


# Finding the files


def _folder_and_weights(checkpoint: str) -> tuple[str, str]:
    """Return the folder of a checkpoint, and the path of its weights."""
    checkpoint = checkpoint_at(checkpoint)
    if checkpoint.startswith("hf://"):
        folder = hub.download(
            checkpoint, (_CONFIG, *FILES, "*.safetensors", "*.safetensors.index.json")
        )
        return folder, folder
    if is_remote(checkpoint):
        raise UsageError(
            "a model can only be run from local files",
            where=checkpoint,
            hint="download its folder, or use hf://",
        )
    if os.path.isdir(checkpoint):
        return checkpoint, checkpoint
    if not os.path.lexists(checkpoint) and not os.path.isfile(checkpoint + tensorflow.SUFFIX):
        raise ModelError(
            "there is no such checkpoint",
            where=checkpoint,
            hint="give a folder with config.json and weights",
        )
    return os.path.dirname(checkpoint) or ".", checkpoint


# Matching the tensors


def _accounted(
    comparison: Comparison, found: StoredCheckpoint, model: Model, class_name: str, *, new: bool
) -> list[str]:
    """Refuse a checkpoint that lacks what the class needs; return notes for the user.

    Tensors for other classes of the family are ignored. If the head is ``new``, its tensors are
    initialized at random where the checkpoint lacks them or has another number of labels.
    """
    prefix = model.blueprint.prefix(class_name)
    differing = [difference for difference in comparison.differences if difference.matters]
    extra = {difference.name for difference in differing if difference.kind == "extra"}
    unused = extra & set(_of_other_classes(model, extra))
    started = set()
    if new:
        started = {
            difference.name for difference in differing if _may_start_anew(difference, prefix)
        }
    wrong = [difference for difference in differing if difference.name not in unused | started]
    if wrong:
        raise _not_of_class(wrong, found.path, class_name)
    if found.packed:
        packed = {"packed": len(found.packed)}
        raise CheckpointError(
            "packed weights cannot be run", where=found.path, values=packed, hint=_UNPACKED
        )
    notes = []
    if unused:
        notes.append(f"parts of the checkpoint that {class_name} does not use: {_listed(unused)}")
    if started:
        notes.append(f"parts that the checkpoint lacks, initialized at random: {_listed(started)}")
    return notes


def _may_start_anew(difference: Difference, prefix: str) -> bool:
    """Whether a difference is in a head, whose names lack the prefix, or in the pooler."""
    if difference.kind in (*LACKING, "shape") and not difference.name.startswith(prefix):
        return True
    return difference.kind in LACKING and ".pooler." in difference.name


def _not_of_class(wrong: Sequence[Difference], path: str, class_name: str) -> CheckpointError:
    first = wrong[0]
    values: dict[str, object] = {"tensor": first.name}
    for name, shape in (("expected", first.expected_shape), ("found", first.found_shape)):
        if shape is not None:
            values[name] = "×".join(map(str, shape))
    kind = _WORDS.get(first.kind, first.kind)
    what = f"does not fit {class_name}: {len(wrong)} tensor(s) differ, and the first {kind}"
    hint = f"`weighbridge verify CONFIG {path} --class {class_name}` lists them"
    return CheckpointError(what, where=path, values=values, hint=hint)


_UNPACKED = "give a checkpoint of F32, F16 or BF16"
_WORDS = {
    "missing": "is missing",
    "absent": "is missing",
    "shape": "has another shape",
    "extra": "is unknown",
}


def _of_other_classes(model: Model, names: set[str]) -> Iterator[str]:
    """Yield the stored names that belong to a head or pooler of another class of the family."""
    known: set[str] = set()
    for class_name in model.blueprint.class_names:
        renames = names_of(model.blueprint, class_name).paths
        rows = bind(model.blueprint, class_name, model.fields)
        known |= {row.name for row in (*rows.rows, *rows.buffers())}
        yield from (name for name in names if renamed(name, renames)[0] in known)


def _listed(names: Iterable[str]) -> str:
    """Return the modules that contain the named tensors, as one text."""
    return ", ".join(sorted({name.rpartition(".")[0] or name for name in names}))


# Reading the values


def _fill(model: nn.Module, comparison: Comparison, found: StoredCheckpoint) -> None:
    """Copy the values of a checkpoint into a model.

    A tensor of another size has been accounted for, and keeps its initial values.
    """
    own = dict(model.named_parameters(remove_duplicate=False))
    held = comparison.held
    wanted = {
        row.name: name
        for name, row in held.items()
        if name in own and row.count == own[name].numel()
    }
    filled = set()
    with torch.no_grad():
        for stored, tensor in _wanted_tensors(found, wanted):
            name = wanted[stored]
            if is_turned(held[name], found):
                tensor = tensor.T  # noqa: PLW2901
            own[name].copy_(tensor.reshape(own[name].shape))
            filled.add(stored)
    if filled != wanted.keys():
        lost = min(wanted.keys() - filled)
        raise CheckpointError(
            "a tensor named in the header is missing", where=found.path, values={"tensor": lost}
        )


def _wanted_tensors(
    found: StoredCheckpoint, wanted: Mapping[str, str]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the wanted tensors of a checkpoint, by their stored names."""
    read = _READ.get(found.format)
    if read is None:
        values = {"format": found.format, "read": ", ".join(_READ)}
        raise CheckpointError(
            "weights in this format cannot be run",
            where=found.path,
            values=values,
            hint=_OTHER,
        )
    for file in found.files:
        try:
            yield from ((name, tensor) for name, tensor in read(file, wanted) if name in wanted)
        except (OSError, SafetensorError, pickle.UnpicklingError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise CheckpointError(
                "the weights cannot be read", where=file, values={"reason": reason}
            ) from None


_OTHER = "convert them to safetensors with transformers' save_pretrained"


def _of_safetensors(path: str, wanted: Mapping[str, str]) -> Iterator[tuple[str, Tensor]]:
    with safe_open(path, "pt") as file:
        yield from ((name, file.get_tensor(name)) for name in set(file.keys()) & wanted.keys())


def _of_pytorch(
    path: str,
    wanted: Mapping[str, str],  # noqa: ARG001
) -> Iterator[tuple[str, Tensor]]:
    yield from _nested_tensors(torch.load(path, map_location="cpu", weights_only=True), "")


def _nested_tensors(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in dicts and lists, named as the reader of headers names them."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict | list | tuple):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _nested_tensors(item, f"{name}.{key}" if name else str(key))


def _of_tensorflow(path: str, wanted: Mapping[str, str]) -> Iterator[tuple[str, Tensor]]:
    for name, place in tensorflow.places(path).items():
        if name in wanted:
            if place.dtype != "F32":
                raise RuntimeError(
                    f"{name} has the dtype {place.dtype}, and only F32 is supported in this format"
                )
            numbers = np.fromfile(place.file, "<f4", math.prod(place.shape), offset=place.offset)
            yield name, torch.from_numpy(numbers.reshape(place.shape))


_READ: dict[str, Callable[[str, Mapping[str, str]], Iterator[tuple[str, Tensor]]]] = {
    "safetensors": _of_safetensors,
    "PyTorch": _of_pytorch,
    "TensorFlow": _of_tensorflow,
}
"""The functions that read the values of each format."""
