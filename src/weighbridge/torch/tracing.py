"""Trace a sentence through a BERT: the values, parameters and matrix products of each step.

The model runs once, unchanged. Hooks observe the values and change nothing. A mode of PyTorch's
dispatcher sees every matrix product with its real shapes, so it counts what was computed, not what
a formula expects.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from weighbridge.answers.trace import Head, Parameter, Step, Trace, Values
from weighbridge.errors import UsageError
from weighbridge.files import write_whole
from weighbridge.render.attention import MEAN, MOST_DRAWN, Attention
from weighbridge.render.drawing import FORMS, draw, written
from weighbridge.render.svg import MARK
from weighbridge.torch.loading import load_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from weighbridge.render.attention import Place
    from weighbridge.torch.bert import BertConfig
    from weighbridge.torch.loading import Loaded
    from weighbridge.torch.tokens import Text


def trace(
    checkpoint: str | os.PathLike[str],
    text: str,
    second: str | None = None,
    class_name: str | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> Trace:
    """Follow a text, or a pair of texts, through a checkpoint.

    Args:
        checkpoint: as for `load_checkpoint`.
        text: the text to read.
        second: the second text of a pair.
        class_name: as for `load_checkpoint`.
        layer: the layer to show in full; by default the first.
        head: the head of that layer whose scores and probabilities are kept.

    Raises:
        ModelError, ConfigError, CheckpointError: as for `load_checkpoint`.
        UsageError: the text is empty, or there is no such layer or head.
    """
    loaded = load_checkpoint(checkpoint, class_name, attention="eager")
    check_places(loaded, layer, head)
    read = loaded.tokens.read(text, second)
    walk = follow(loaded, read, () if head is None else (layer or 0,))
    kept = None
    if head is not None:
        scores, probabilities = walk.kept[layer or 0]
        kept = Head(layer or 0, head, scores[head].tolist(), probabilities[head].tolist())
    return Trace(
        where=os.fspath(checkpoint),
        class_name=loaded.class_name,
        texts=_pair(text, second),
        tokens=tuple(zip(read.tokens, read.ids, read.segments, strict=True)),
        sizes=_sizes_of(loaded, read),
        activation=loaded.config.hidden_act,
        steps=tuple(walk.steps),
        unused=tuple(walk.unused),
        opened=layer or 0,
        head=kept,
        remarks=(*loaded.notes, *read.notes),
    )


def attention(  # noqa: PLR0913  # each is a separate option for the user
    checkpoint: str | os.PathLike[str],
    text: str,
    second: str | None = None,
    class_name: str | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    average: str | None = None,
    window: tuple[int, int] | None = None,
) -> Attention:
    """Return the attention probabilities of layers and heads, by default of all.

    Further errors are those of `trace`.

    Args:
        checkpoint: as for `load_checkpoint`.
        text: the text to read.
        second: the second text of a pair.
        class_name: as for `load_checkpoint`.
        layer: one layer alone.
        head: one head of that layer alone.
        average: ``"heads"``, ``"layers"`` or ``"all"``: take the mean of all heads of each layer,
            of each head in all layers, or of everything.
        window: the positions of the first and the last token to draw; by default the first 64.

    Raises:
        UsageError: there is no such average, or the window is not in the text or too large.
    """
    loaded = load_checkpoint(checkpoint, class_name, attention="eager")
    check_places(loaded, layer, head)
    check_average(average, layer, head)
    read = loaded.tokens.read(text, second)
    first, most = _window(window, len(read.tokens))
    config = loaded.config
    layers = range(config.num_hidden_layers) if layer is None else [layer]
    heads = range(config.num_attention_heads) if head is None else [head]
    kept = follow(loaded, read, layers).kept
    maps = {(layer, head): kept[layer][1][head] for layer in layers for head in heads}
    return Attention(
        where=os.fspath(checkpoint),
        class_name=loaded.class_name,
        texts=_pair(text, second),
        tokens=read.tokens,
        probabilities={
            place: values.tolist() for place, values in _averaged(maps, average).items()
        },
        notes=(*loaded.notes, *read.notes),
        first=first,
        most=most,
        averaged=(len(layers), len(heads)),
    )


AVERAGES = ("heads", "layers", "all")


def check_average(average: str | None, layer: int | None, head: int | None) -> None:
    """Check that there is such an average, and that what it is of was not chosen.

    Raises:
        UsageError: there is no such average, or nothing to take it of.
    """
    if average is None:
        return
    if average not in AVERAGES:
        raise UsageError(
            "there is no such average",
            values={"average": average},
            hint=f"use one of {', '.join(AVERAGES)}",
        )
    if head is not None or (layer is not None and average != "heads"):
        hint = "drop --head" if head is not None else "drop --layer, or use --average heads"
        raise UsageError(
            "an average needs several layers or heads", values={"average": average}, hint=hint
        )


def _averaged(
    maps: dict[tuple[int, int], Tensor], average: str | None
) -> dict[tuple[Place, Place], Tensor]:
    """Return maps (n, n), or their means over heads, layers or both."""
    groups: dict[tuple[Place, Place], list[Tensor]] = {}
    for (layer, head), values in maps.items():
        place = (
            MEAN if average in ("layers", "all") else layer,
            MEAN if average in ("heads", "all") else head,
        )
        groups.setdefault(place, []).append(values)
    return {place: torch.stack(values).mean(0) for place, values in groups.items()}


def _window(window: tuple[int, int] | None, tokens: int) -> tuple[int, int]:
    """Return the first token to draw and the most tokens to draw."""
    if window is None:
        return 0, MOST_DRAWN
    first, last = window
    if not 0 <= first <= last < tokens:
        raise UsageError(
            "there is no such window",
            values={"first": first, "last": last, "tokens": tokens},
            hint=f"give two positions from 0 to {tokens - 1}",
        )
    if last - first >= MOST_DRAWN:
        raise UsageError(
            f"a window has at most {MOST_DRAWN} tokens",
            values={"first": first, "last": last},
            hint=f"for example --window {first}-{first + MOST_DRAWN - 1}",
        )
    return first, last - first + 1


def _pair(text: str, second: str | None) -> tuple[str, ...]:
    return (text,) if second is None else (text, second)


def draw_attention(
    output: str | os.PathLike[str], *asked: Any, lang: str = "en", **places: Any
) -> tuple[str, list[str]]:
    """Draw the attention for a text into a file: .html, .svg or .png.

    The arguments are those of `attention`. An existing file is replaced only if it is such a
    picture as well.

    Returns:
        A line that describes the file, and notes for the user.

    Raises:
        UsageError: the file has another suffix, or cannot be written; and as for `attention`.
    """
    path = Path(output)
    form = picture_format(path, FORMS)
    picture = attention(*asked, **places)
    drawn, notes = draw(picture, form, lang)
    write_whole(path, drawn)
    return written(picture, path, lang), [*picture.notes, *notes]


def picture_format(path: Path, formats: Sequence[str]) -> str:
    """Return the format that a file's suffix names, if the file may be written.

    Raises:
        UsageError: the suffix names none of the formats, there is no such folder, or the file
            exists and is none of ours.
    """
    form, known = path.suffix.lower().removeprefix("."), [f".{form}" for form in formats]
    if form not in formats:
        hint = f"use a file name that ends in {known[-1]}"
        if len(known) > 1:
            hint = f"use a file name that ends in {', '.join(known[:-1])} or {known[-1]}"
        raise UsageError(
            "the suffix does not name a picture format",
            where=str(path),
            values={"suffix": path.suffix},
            hint=hint,
        )
    if not path.parent.is_dir():
        raise UsageError(
            "there is no such folder",
            where=str(path.parent),
            hint="create it, or give another one",
        )
    there = b""
    if path.exists():
        with suppress(OSError), path.open("rb") as file:
            there = file.read(4096)
        if MARK.encode() not in there:
            hint = "give another file with --output, or move this one away"
            raise UsageError(
                "already exists and was not written by trace or attention",
                where=str(path),
                hint=hint,
            )
    return form


def check_places(loaded: Loaded, layer: int | None, head: int | None) -> None:
    """Check that there is such a layer, and such a head in it.

    Raises:
        UsageError: there is no such layer or head.
    """
    if head is not None and layer is None:
        raise UsageError(
            "--head needs --layer",
            values={"head": head},
            hint=f"add --layer, for example --layer 0 --head {head}",
        )
    wanted = (
        ("layer", layer, loaded.config.num_hidden_layers),
        ("head", head, loaded.config.num_attention_heads),
    )
    for name, asked, count in wanted:
        if asked is not None and not 0 <= asked < count:
            hint = f"there is only --{name} 0"
            if count > 1:
                hint = f"give --{name} as 0 to {count - 1}"
            raise UsageError(
                f"there is no such {name}", where=loaded.where, values={name: asked}, hint=hint
            )


# --------------------------------------------------------------------------------------------------
# Places to observe


class _Probe(NamedTuple):
    """A step, the module where it is observed, and the sizes of its values, by their fields.

    It is observed in the output of the module, in its input (``before``), or in the input of the
    softmax that the module computes (``softmax``). If the heads are ``split``, rows (n, H) are
    viewed per head, (A, n, D).
    """

    step: str
    module: str
    dims: str
    before: bool = False
    split: bool = False
    softmax: bool = False


_ROWS = "tokens hidden_size"
_HEADS = "num_attention_heads tokens head_dim"
_GRID = "num_attention_heads tokens tokens"

_EMBEDDINGS = (
    _Probe("word", "word_embeddings", _ROWS),
    _Probe("segment", "token_type_embeddings", _ROWS),
    _Probe("position", "position_embeddings", _ROWS),
    _Probe("sum", "LayerNorm", _ROWS, before=True),
    _Probe("embedded", "LayerNorm", _ROWS),
)
_LAYER = (
    _Probe("query", "attention.self.query", _ROWS),
    _Probe("key", "attention.self.key", _ROWS),
    _Probe("value", "attention.self.value", _ROWS),
    _Probe("heads", "attention.self.value", _HEADS, split=True),
    _Probe("scores", "attention.self", _GRID, softmax=True),
    _Probe("probabilities", "attention.self.dropout", _GRID, before=True),
    _Probe("mixed", "attention.self", _HEADS, split=True),
    _Probe("joined", "attention.self", _ROWS),
    _Probe("output", "attention.output.dense", _ROWS),
    _Probe("residual", "attention.output.LayerNorm", _ROWS, before=True),
    _Probe("norm", "attention.output.LayerNorm", _ROWS),
    _Probe("up", "intermediate.dense", "tokens intermediate_size"),
    _Probe("activation", "intermediate", "tokens intermediate_size"),
    _Probe("down", "output.dense", _ROWS),
    _Probe("ffn_residual", "output.LayerNorm", _ROWS, before=True),
    _Probe("ffn_norm", "output.LayerNorm", _ROWS),
)
_POOLER = (
    _Probe("first", "", "hidden_size", before=True),
    _Probe("pooler", "dense", "hidden_size"),
    _Probe("pooled", "activation", "hidden_size"),
)
_WORDS = (
    _Probe("transform", "cls.predictions.transform.dense", _ROWS),
    _Probe("transform_activation", "cls.predictions.transform.LayerNorm", _ROWS, before=True),
    _Probe("transform_norm", "cls.predictions.transform.LayerNorm", _ROWS),
    _Probe("words", "cls.predictions.decoder", "tokens vocab_size"),
)
_HEAD_OF: dict[str, tuple[_Probe, ...]] = {
    "BertModel": (),
    "BertForPreTraining": (*_WORDS, _Probe("follows", "cls.seq_relationship", "2")),
    "BertForMaskedLM": _WORDS,
    "BertLMHeadModel": _WORDS,
    "BertForNextSentencePrediction": (_Probe("follows", "cls.seq_relationship", "2"),),
    "BertForSequenceClassification": (_Probe("classes", "classifier", "num_labels"),),
    "BertForMultipleChoice": (_Probe("choice", "classifier", "1"),),
    "BertForTokenClassification": (_Probe("token_classes", "classifier", "tokens num_labels"),),
    "BertForQuestionAnswering": (_Probe("span", "qa_outputs", "tokens num_labels"),),
}
"""The head of each class."""


def _probes(loaded: Loaded) -> Iterator[tuple[int | None, str, _Probe]]:
    """Yield each place of a model, with its layer and its full path."""
    base = "" if loaded.class_name == "BertModel" else "bert."
    parts: list[tuple[int | None, str, tuple[_Probe, ...]]] = [
        (None, f"{base}embeddings.", _EMBEDDINGS)
    ]
    parts += [
        (layer, f"{base}encoder.layer.{layer}.", _LAYER)
        for layer in range(loaded.config.num_hidden_layers)
    ]
    if any(name.startswith(f"{base}pooler.") for name, _ in loaded.model.named_parameters()):
        parts.append((None, f"{base}pooler.", _POOLER))
    parts.append((None, "", _HEAD_OF[loaded.class_name]))
    for layer, path, places in parts:
        yield from ((layer, f"{path}{place.module}".rstrip("."), place) for place in places)


def _sizes_of(loaded: Loaded, read: Text) -> dict[str, int]:
    """Return the sizes that occur in shapes, by their fields."""
    config = loaded.config
    return {
        "tokens": len(read.ids),
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_position_embeddings,
        "type_vocab_size": config.type_vocab_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "head_dim": config.hidden_size // config.num_attention_heads,
        "num_labels": config.num_labels,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
    }


# --------------------------------------------------------------------------------------------------
# Observing


class Walk(NamedTuple):
    """The observations: the model's output, the steps, and the parameters that no step used.

    ``kept`` has the scores and the probabilities, (A, n, n) each, of the requested layers.
    """

    output: Any
    steps: list[Step]
    unused: list[Parameter]
    kept: dict[int, tuple[Tensor, Tensor]]


def follow(loaded: Loaded, text: Text, keep: Iterable[int] = ()) -> Walk:
    """Run a text through a model with eager attention, and observe it."""
    ids, segments = model_inputs(loaded, text)
    watch = _Watch(loaded.model, loaded.config, keep)
    modules = dict(loaded.model.named_modules())
    with ExitStack() as hooks, torch.no_grad(), watch.products:
        for layer, path, place in _probes(loaded):
            hook = watch.hook(layer, path, place)
            module = modules[path]
            if place.softmax:
                handle = module.register_forward_pre_hook(
                    lambda *_, see=hook: watch.products.show_softmax_input(see)
                )
            elif place.before:
                handle = module.register_forward_pre_hook(lambda _, given, see=hook: see(given[0]))
            else:
                handle = module.register_forward_hook(lambda _, __, gives, see=hook: see(gives))
            hooks.callback(handle.remove)
        output = loaded.model(ids, None, segments)
    return Walk(output, watch.steps, watch.unused(), watch.kept())


def model_inputs(loaded: Loaded, text: Text) -> tuple[Tensor, Tensor]:
    """Return the ids and the segments of a text as the model takes them: a batch of one."""
    batch = loaded.tokens.batch([text])
    ids, segments = batch.input_ids, batch.token_type_ids
    if loaded.class_name == "BertForMultipleChoice":
        ids, segments = ids[:, None], segments[:, None]  # (1, T) -> (1, 1, T): one choice
    return ids, segments


class _Watch:
    """Records the values that hooks observe at each place, in the order of the run."""

    def __init__(self, model: nn.Module, config: BertConfig, keep: Iterable[int]) -> None:
        self._head_sizes = (
            config.num_attention_heads,
            config.hidden_size // config.num_attention_heads,
        )
        self.model, self.steps, self.products = model, list[Step](), _ProductCounter()
        self._keep, self._grids = set(keep), dict[tuple[int, str], Tensor]()
        self._counted: dict[int, str] = {}

    def hook(self, layer: int | None, path: str, place: _Probe) -> Callable[[Tensor], None]:
        """Return the hook for a place; it is called with the values there."""
        module = self.model.get_submodule(path)

        def see(values: Tensor) -> None:
            if layer in self._keep and place.dims == _GRID:
                self._grids[layer, place.step] = values[0].clone()
            if place.split:
                values = values.view(-1, *self._head_sizes).transpose(0, 1)
            self.steps.append(self._step(layer, path, place, module, values))

        return see

    def _step(
        self, layer: int | None, path: str, place: _Probe, module: nn.Module, values: Tensor
    ) -> Step:
        dims = tuple(place.dims.split())
        shape = tuple(values.shape[-len(dims) :])
        is_heads = place.step == "heads"  # the values of query, key and value
        measured = _range_of_all(self.steps[-3:]) if is_heads else _range_of(values)
        parameters: tuple[Parameter, ...] = ()
        if not (place.before or place.split or place.softmax):
            parameters = tuple(self._parameters(path, module))
        owner = path if parameters else ""
        flops = self.products.taken()
        return Step(place.step, layer, dims, shape, parameters, owner, flops, measured)

    def _parameters(self, path: str, module: nn.Module) -> Iterator[Parameter]:
        """Yield a module's own parameters; one that was seen before is tied, and counted there."""
        for name, value in module.named_parameters(recurse=False):
            full_name = f"{path}.{name}"
            first = self._counted.setdefault(id(value), full_name)
            if first == full_name:
                yield Parameter(full_name, tuple(value.shape), value.numel(), None)
            else:
                yield Parameter(full_name, tuple(value.shape), 0, first)

    def unused(self) -> list[Parameter]:
        """Return the parameters that no step used."""
        own = self.model.named_parameters()
        return [
            Parameter(name, tuple(of.shape), of.numel(), None)
            for name, of in own
            if id(of) not in self._counted
        ]

    def kept(self) -> dict[int, tuple[Tensor, Tensor]]:
        """Return the scores and the probabilities of the layers to keep."""
        return {
            layer: (self._grids[layer, "scores"], self._grids[layer, "probabilities"])
            for layer in sorted(self._keep)
        }


_ATEN = torch.ops.aten
_FACTORS = {
    _ATEN.mm.default: 0,
    _ATEN.bmm.default: 0,
    _ATEN.addmm.default: 1,
    _ATEN.baddbmm.default: 1,
}
"""The operators that multiply matrices, and the position of the left factor of each."""


class _ProductCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the FLOPs of the products that run: 2·m·k·n for a matrix m×k times a matrix k×n.

    It can also show the input of the next softmax.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._flops = 0
        self._see_softmax_input: Callable[[Tensor], None] | None = None

    def show_softmax_input(self, see: Callable[[Tensor], None]) -> None:
        """Call ``see`` with the input of the next softmax."""
        self._see_softmax_input = see

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is _ATEN._softmax.default and self._see_softmax_input is not None:
            self._see_softmax_input(args[0])
            self._see_softmax_input = None
        out = func(*args, **(kwargs or {}))
        if func in _FACTORS:
            self._flops += 2 * prod(out.shape) * int(args[_FACTORS[func]].shape[-1])
        return out

    def taken(self) -> int:
        """Return the count since the last call."""
        flops, self._flops = self._flops, 0
        return flops


def _range_of(values: Tensor) -> Values:
    """Return the range of values, without the masked scores of a decoder."""
    if values.dim() == 4:
        values = values[~(values <= torch.finfo(values.dtype).min)]
    return Values(float(values.min()), float(values.max()), float(values.double().mean()))


def _range_of_all(steps: list[Step]) -> Values:
    """Return the range of the values of several steps with equally many values."""
    ranges = [step.values for step in steps]
    return Values(
        min(values.minimum for values in ranges),
        max(values.maximum for values in ranges),
        sum(values.mean for values in ranges) / len(ranges),
    )
