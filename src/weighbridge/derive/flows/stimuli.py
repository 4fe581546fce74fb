"""The inputs on which a class is run to record its flow: texts, pictures and sounds."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

BATCH, SEQUENCE, TARGET = 2, 9, 8
_FIRST_TOKEN = 20  # smaller ones may be special
_USUAL_VOCABULARY = 100
_SOUND = 4000  # samples
_FRAMES = 64  # of a sound, where the config does not say
_CHANNELS, _SIDE, _PATCH = 3, 32, 16
_IMAGE_TOKENS = ("image_token_id", "image_token_index")


def stimuli(model: nn.Module, config: Any) -> Iterator[dict[str, Any]]:
    """Yield sets of inputs to try in turn: all kinds that a model takes, then only its main one."""
    taken = set(inspect.signature(model.forward).parameters)
    makers = _Makers(config)
    made = {name: maker() for name, maker in makers.by_name.items() if name in taken}
    main = getattr(model, "main_input_name", "input_ids")
    if "pixel_values" in made and "input_ids" in made:
        with_tokens = _with_image_tokens(model, config, made)
        if with_tokens is not None:
            yield with_tokens
    if "input_ids" in made and "attention_mask" in taken:
        yield {**made, "attention_mask": _mask(made["input_ids"])}
    if made:
        yield made
    without_pictures = {name: value for name, value in made.items() if name != "pixel_values"}
    if without_pictures and without_pictures != made:
        yield without_pictures
    if main in made and len(made) > 1:
        yield {main: made[main]}


class _Makers:
    """Makes each kind of input from a config."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._text = _inner(config, "text_config", "get_text_config")
        self._vision = _inner(config, "vision_config")
        self._dice = torch.Generator().manual_seed(0)
        self.by_name: dict[str, Callable[[], torch.Tensor]] = {
            "input_ids": lambda: self._tokens(SEQUENCE),
            "decoder_input_ids": lambda: self._tokens(TARGET),
            "pixel_values": self._picture,
            "input_features": self._spectrum,
            "input_values": self._sound,
        }

    def _tokens(self, length: int) -> torch.Tensor:
        size = getattr(self._text, "vocab_size", None) or _USUAL_VOCABULARY
        if not isinstance(size, int):
            size = _USUAL_VOCABULARY
        first = min(_FIRST_TOKEN, size // 2)
        return torch.randint(first, size, (BATCH, length), generator=self._dice)

    def _sound(self) -> torch.Tensor:
        return torch.rand(BATCH, _SOUND, generator=self._dice)

    def _picture(self) -> torch.Tensor:
        channels = getattr(self._vision, "num_channels", None) or _CHANNELS
        side = getattr(self._vision, "image_size", None) or _SIDE
        if isinstance(side, dict):
            side = [side["height"], side["width"]]
        height, width = side if isinstance(side, list | tuple) else (side, side)
        return torch.rand(BATCH, channels, height, width, generator=self._dice)

    def _spectrum(self) -> torch.Tensor:
        holder = _inner(self._config, "audio_config")
        bins = getattr(holder, "num_mel_bins", None) or getattr(holder, "input_feat_per_channel", 0)
        length = 2 * (getattr(holder, "max_source_positions", 0) or _FRAMES // 2)
        shape = (BATCH, bins or _FRAMES, length)
        if not hasattr(holder, "max_source_positions") or hasattr(holder, "input_feat_per_channel"):
            shape = (BATCH, _FRAMES, bins or _FRAMES)
        return torch.rand(shape, generator=self._dice)


def _mask(tokens: torch.Tensor) -> torch.Tensor:
    """Return the mask of texts of which one is shorter, so that no code can leave it out."""
    mask = torch.ones_like(tokens)
    mask[0, -1] = 0
    return mask


def _inner(config: Any, name: str, getter: str = "") -> Any:
    inner = getattr(config, name, None)
    if inner is None and getter and hasattr(config, getter):
        inner = getattr(config, getter)()
    return config if inner is None else inner


def _with_image_tokens(
    model: nn.Module, config: Any, made: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the inputs with as many image tokens as a picture gives; None without such tokens."""
    names = [name for name in _IMAGE_TOKENS if isinstance(getattr(config, name, None), int)]
    if not names or not hasattr(model, "get_image_features"):
        return None
    try:
        with torch.no_grad():
            find: Any = model.get_image_features
            features = find(pixel_values=made["pixel_values"])
    except Exception:  # whatever the code raises: it needs other inputs
        return None
    count = _rows(getattr(features, "pooler_output", features))
    tokens = made["input_ids"]
    pictures = torch.full((BATCH, count // BATCH), getattr(config, names[0]), dtype=tokens.dtype)
    return {**made, "input_ids": torch.cat([tokens, pictures], dim=1)}


def _rows(features: Any) -> int:
    """Return the number of vectors in the features of pictures."""
    if isinstance(features, torch.Tensor):
        return features.numel() // features.shape[-1]
    return sum(map(_rows, features))
