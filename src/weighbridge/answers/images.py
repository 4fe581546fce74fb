"""The images among the tokens of a run: how many tokens they take, and of how many patches."""

from __future__ import annotations

import re

from weighbridge.answers.recorded import check_size
from weighbridge.blueprint.bind import bound_size
from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.answers.recorded import RecordedModel

_EXAMPLE = "448x448"
_SIDES = 2
_PIXELS = re.compile(r"[1-9][0-9]{0,5}")


class Images(NamedTuple):
    """The images in each sequence; ``number`` is None if none are asked for.

    ``tokens`` are those of all images of a sequence. If a run says how large its images are,
    ``size`` is the height and width at which each is read, and ``patches`` are those of each.
    """

    number: int | None
    tokens: int
    patches: int | None = None
    size: tuple[int, int] | None = None

    def notes(self) -> Iterator[str]:
        """Yield how large an image is read, if the config does not say it."""
        if self.number and self.size:
            height, width, tokens = map(count, (*self.size, self.tokens // self.number))
            yield (
                f"each image is read at {height} × {width} pixels, as {tokens} tokens; a "
                "processor that allows fewer makes it smaller"
            )

    def check_room(self, lengths: Mapping[str, int | None]) -> None:
        """Refuse a sequence that is shorter than its images; lengths by option.

        Raises:
            UsageError: it is.

        Example:
            >>> Images(2, 1152).check_room({"seq": 1000})
            Traceback (most recent call last):
            weighbridge.errors.UsageError: the sequence is shorter than its images
              (seq = 1000, images = 2, image_tokens = 1152).
            Give --seq 1152 or more.
        """
        for option, tokens in lengths.items():
            if tokens is not None and tokens < self.tokens:
                raise UsageError(
                    "the sequence is shorter than its images",
                    values={option: tokens, "images": self.number, "image_tokens": self.tokens},
                    hint=f"give --{option} {self.tokens} or more",
                )


NO_IMAGES = Images(None, 0)


def image_size_called(text: str) -> tuple[int, int]:
    """Return the height and the width that a text such as ``448x672`` states.

    Raises:
        UsageError: it does not state two positive integers.

    Example:
        >>> image_size_called("1080x1920")
        (1080, 1920)
    """
    sides = text.lower().replace("×", "x").split("x")
    if len(sides) != _SIDES or not all(map(_PIXELS.fullmatch, sides)):
        raise UsageError(
            "this is no height and width in pixels",
            values={"image-size": text},
            hint=f"write it as {_EXAMPLE}",
        )
    height, width = map(int, sides)
    return height, width


def images_of_run(
    found: RecordedModel, number: int | None, size: tuple[int, int] | None = None
) -> Images:
    """Return the images in each sequence of a run.

    ``size`` is that of each image, in pixels. A processor makes each side a multiple of the side of
    a token, the nearest one, and so does this.

    Raises:
        UsageError: the class reads no images among its tokens, or has a size of its own for them,
            or has none and none is given.

    Example:
        >>> from weighbridge.answers.recorded import recorded
        >>> images_of_run(recorded("Qwen/Qwen3-VL-4B-Instruct"), 2, (1080, 1920))
        Images(number=2, tokens=4080, patches=8160, size=(1088, 1920))
    """
    known = found.known
    if number is None:
        if size is not None:
            raise UsageError(
                "--image-size needs --images", hint="add --images with their number in a sequence"
            )
        return NO_IMAGES
    if known.image_tokens is None:
        raise UsageError(
            f"{found.class_name} reads no images among its tokens",
            values={"images": number},
            hint="drop --images",
        )
    if known.image_patch is None or known.image_merged is None:
        if size is not None:
            raise UsageError(
                f"the config of {found.class_name} says how large its images are",
                values={"image-size": "x".join(map(str, size))},
                hint="drop --image-size",
            )
        return Images(number, number * bound_size(known.image_tokens, found.names()))
    if size is None:
        raise UsageError(
            f"{found.class_name} reads images of any size",
            values={"images": number},
            hint=f"add --image-size with their height and width in pixels, such as {_EXAMPLE}",
        )
    for pixels in size:
        check_size("image-size", pixels)
    names = found.names()
    patch, merged = bound_size(known.image_patch, names), bound_size(known.image_merged, names)
    side = patch * merged
    rows, columns = (max(1, round(pixels / side)) for pixels in size)
    of_image = rows * columns
    return Images(number, number * of_image, of_image * merged**2, (rows * side, columns * side))
