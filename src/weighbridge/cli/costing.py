"""Commands that compute what a run takes from recorded operations: cost, cache."""

from __future__ import annotations

from weighbridge.cli.commands import Command
from weighbridge.cli.options import (
    BATCH,
    BY,
    CLASS,
    DTYPE,
    FORMS,
    MODEL,
    PROFILE,
    SET,
    Option,
    fields,
)
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.answers.cost import RunCost
    from weighbridge.cli.options import Addable

_CLASS = CLASS.but(
    help="the class to run; by default the config's class if it generates text, else the base class"
)
_BATCH = BATCH.but(default=1, help="sequences in a batch; 1 by default")

_IMAGES = Option(
    "--images",
    type=int,
    metavar="N",
    help="images in each sequence, if a model reads them among its tokens",
)


_IMAGE_SIZE = Option(
    "--image-size",
    metavar="HxW",
    help="height and width of each image in pixels, such as 448x672, if a model reads images of "
    "any size",
)


def _cost_options() -> Iterable[Addable]:
    from weighbridge.answers.cost import GROUPINGS
    from weighbridge.costs.profiles import PROFILES

    return (
        MODEL,
        _CLASS,
        SET,
        _BATCH,
        Option(
            "--seq",
            type=int,
            metavar="N",
            help="tokens in each sequence, with those of its images; 128 beside its images by "
            "default, and none with --decode",
        ),
        Option(
            "--target",
            type=int,
            metavar="N",
            help="tokens that the decoder of an encoder-decoder reads; as many as --seq by default",
        ),
        Option(
            "--train",
            action="store_true",
            help="with a backward pass, and the tensors that are saved for it",
        ),
        Option(
            "--decode",
            action="store_true",
            help="with a step: one more token for each sequence; needs --past",
        ),
        Option("--past", type=int, metavar="N", help="tokens in the cache before the step"),
        _IMAGES,
        _IMAGE_SIZE,
        PROFILE.but(
            help="the kernels, which decide what is saved: "
            f"{', '.join(PROFILES)}; by default cuda-flash",
        ),
        DTYPE.but(help="the dtype of weights and activations; by default the config's"),
        BY.but(choices=GROUPINGS),
        Option(
            "--formula",
            action="store_true",
            help="write each total as a formula too, in letters",
        ),
        FORMS,
    )


def _cost(options: argparse.Namespace) -> RunCost:
    from weighbridge.answers.cost import cost
    from weighbridge.answers.images import image_size_called

    return cost(
        options.model,
        options.class_name,
        batch=options.batch,
        sequence=options.seq,
        target=options.target,
        train=options.train,
        past=options.past,
        decode=options.decode,
        images=options.images,
        image_size=image_size_called(options.image_size) if options.image_size else None,
        profile=options.profile,
        dtype=options.dtype,
        fields=fields(options.fields),
    )


def _cache_options() -> Iterable[Addable]:
    return (
        MODEL,
        _CLASS,
        SET,
        Option(
            "--context",
            type=int,
            required=True,
            metavar="N",
            help="tokens in the cache, for each sequence",
        ),
        Option(
            "--seq",
            type=int,
            metavar="N",
            help="tokens that an encoder reads, if there is one; as many as --context by default",
        ),
        _BATCH,
        DTYPE.but(help="the dtype of the cache: bf16, fp8…; by default the model's"),
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="write a picture of its growth to a file (.svg)",
        ),
        FORMS,
    )


def _cache(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.answer import Message
    from weighbridge.answers.cache import cache

    found = cache(
        options.model,
        options.class_name,
        context=options.context,
        sequence=options.seq,
        batch=options.batch,
        dtype=options.dtype,
        fields=fields(options.fields),
    )
    if not options.output:
        return found
    options.form = "text"  # what is written is the picture
    return Message(str(found.save(options.output, options.lang)), notes=found.notes)


COMMANDS = {
    "cost": Command(_cost_options, _cost, choices=("by", "formula")),
    "cache": Command(_cache_options, _cache),
}
