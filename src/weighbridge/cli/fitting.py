"""Commands about devices, and about whether a model fits on them: devices, serve, train, plan."""

from __future__ import annotations

from weighbridge.cli.commands import Command
from weighbridge.cli.options import BATCH, CLASS, FORMS, MODEL, PROFILE, SET, OneOf, Option, fields
from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.answers.devices import DeviceList
    from weighbridge.answers.plan import PlanSearch
    from weighbridge.answers.serve import Serving
    from weighbridge.answers.serve_plan import ServiceSearch
    from weighbridge.answers.train import TrainingFit
    from weighbridge.cli.options import Addable

_CLASS = CLASS.but(
    help="the class to run; by default the config's class if it generates text, else the base class"
)
_ON = Option(
    "--on",
    required=True,
    metavar="DEVICES",
    help="the devices: H100, 2xH100, 8xA100-80GB…; `weighbridge devices` lists them",
)
_OWN_DEVICES = Option(
    "--device-file",
    metavar="FILE",
    help="a TOML file of your own devices, in the format that `devices --help` describes",
)
_RESERVE = Option(
    "--reserve",
    metavar="SIZE",
    help="what to keep free on each device for CUDA's context and NCCL; 1GiB by default",
)

_PICTURE = Option(
    "-o",
    "--output",
    metavar="FILE",
    help="write a picture to a file (.svg)",
)


def _pictures(*names: str) -> Option:
    return Option(
        "--picture",
        choices=names,
        default=names[0],
        help="what the picture shows; by default the memory",
    )


_WEIGHTS = Option(
    "--weights",
    metavar="DTYPE",
    help="the dtype of the weights: bf16, fp8, q4_k_m, awq…; by default the config's",
)
_CACHE = Option("--cache", metavar="DTYPE", help="the dtype of the cache; by default the model's")
_OPTIMIZER = Option(
    "--optimizer",
    metavar="NAME",
    default="adamw",
    help="adamw, adamw-8bit, adafactor, muon, sgd…; by default adamw",
)
_PRECISION = Option(
    "--precision",
    metavar="NAME",
    default="master",
    help="the dtypes of parameters, gradients and states: master, megatron, megatron-fp16, bf16, "
    "fp32, autocast or fsdp; by default master, 16 bytes a parameter with Adam",
)


def _devices_options() -> Iterable[Addable]:
    return (
        Option(
            "names",
            nargs="*",
            metavar="NAME",
            help="a device (H100, a100-80gb, 4090…): all facts about it, with their sources",
        ),
        _OWN_DEVICES.but(
            help="a TOML file of your own devices: for each a table with memory_bytes, bandwidth "
            "(bytes/s) and peaks (FLOP/s by dtype), and if you like usable_bytes, link, network "
            "(bytes/s for each direction) and node",
        ),
        FORMS,
    )


def _devices(options: argparse.Namespace) -> DeviceList:
    from weighbridge.answers.devices import devices

    return devices(*options.names, file=options.device_file)


def _ways(*names: str) -> Iterable[Option]:
    """Return an option for each way of dividing a model."""
    for name in names:
        yield Option(f"--{name}", type=int, metavar="N", help=_WAYS[name])


_WAYS = {
    "tp": "ranks of tensor parallelism",
    "pp": "stages of a pipeline",
    "cp": "ranks of context parallelism",
    "ep": "ranks of expert parallelism",
}


def _serve_options() -> Iterable[Addable]:
    return (
        MODEL,
        _CLASS,
        SET,
        _ON,
        Option(
            "--context",
            type=int,
            required=True,
            metavar="N",
            help="tokens of each sequence: its prompt and its answer",
        ),
        BATCH.but(default=1, help="sequences that are served at once; 1 by default"),
        _WEIGHTS,
        _CACHE,
        *_ways("tp", "pp", "ep"),
        Option(
            "--engine",
            metavar="NAME",
            default="plain",
            help="what allocates the cache: plain, or vllm, which has blocks of 16 tokens",
        ),
        Option(
            "--cache-memory",
            metavar="SIZE",
            help="the cache on each device, if an engine has told it, such as 8.11GiB",
        ),
        Option(
            "--utilisation",
            type=float,
            metavar="SHARE",
            help="the share of the memory that the engine takes; vllm's default is 0.9",
        ),
        Option("--prefill", type=int, metavar="N", help="tokens of one pass of a prompt"),
        _RESERVE,
        _OWN_DEVICES,
        _PICTURE,
        _pictures("memory", "roofline"),
        FORMS,
    )


def _serve(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.serve import serve

    found = serve(
        options.model,
        options.class_name,
        on=options.on,
        context=options.context,
        batch=options.batch,
        weights=options.weights,
        cache=options.cache,
        tp=options.tp,
        pp=_or_one(options.pp),
        ep=_or_one(options.ep),
        engine=options.engine,
        cache_memory=options.cache_memory,
        utilisation=options.utilisation,
        prefill=options.prefill,
        reserve=options.reserve,
        device_file=options.device_file,
        fields=fields(options.fields),
    )
    return _drawn(found, options)


def _drawn(found: Serving | TrainingFit, options: argparse.Namespace) -> Answer:
    """Return an answer, or the path of its picture, which has the same exit status."""
    if not options.output:
        if options.picture != "memory":
            raise UsageError("--picture needs -o", hint="add -o with the name of a file (.svg)")
        return found
    from weighbridge.answers.answer import Message

    options.form = "text"  # what is written is the picture
    path = found.save(options.output, options.lang, options.picture)
    return Message(str(path), notes=found.notes, status=found.status)


def _or_one(size: int | None) -> int:
    return 1 if size is None else size


def _train_options() -> Iterable[Addable]:
    from weighbridge.costs.profiles import PROFILES

    return (
        MODEL,
        _CLASS,
        SET,
        _ON,
        BATCH.but(required=True, help="sequences in a step, over all devices"),
        Option("--seq", type=int, required=True, metavar="N", help="tokens in each sequence"),
        Option(
            "--micro-batch",
            type=int,
            metavar="N",
            help="sequences in one pass; by default all of a copy of the model, 1 in a pipeline",
        ),
        _OPTIMIZER,
        _PRECISION,
        Option(
            "--lora",
            metavar="SETTINGS",
            help="train only an adapter: r=16,targets=q,v and so on, as for `weighbridge lora`",
        ),
        Option("--qlora", action="store_true", help="train an adapter on the model in NF4"),
        *_memory_options(),
        *_parallel_options(),
        PROFILE.but(
            help=f"the kernels: {', '.join(PROFILES)}; by default cuda-flash",
        ),
        Option(
            "--tokens",
            metavar="N",
            help="tokens of the whole training, such as 15T, for its hours",
        ),
        Option(
            "--price",
            type=float,
            metavar="PRICE",
            help="the price of a device for an hour; needs --tokens",
        ),
        _RESERVE,
        _OWN_DEVICES,
        _PICTURE,
        _pictures("memory", "schedule", "roofline"),
        FORMS,
    )


def _memory_options() -> Iterable[Option]:
    from weighbridge.answers.train import CHECKPOINTING, ZERO

    return (
        Option(
            "--checkpointing",
            choices=CHECKPOINTING,
            default=CHECKPOINTING[0],
            help="what the backward pass computes again",
        ),
        Option(
            "--zero",
            choices=tuple(map(str, ZERO)),
            default=str(ZERO[0]),
            help="the stage of ZeRO; 3 is what FSDP does",
        ),
    )


def _parallel_options() -> Iterable[Option]:
    from weighbridge.costs.parallel import SCHEDULES

    return (
        *_ways("tp", "pp", "cp", "ep"),
        Option(
            "--schedule",
            choices=SCHEDULES,
            default=SCHEDULES[0],
            help="the schedule of the pipeline",
        ),
        Option(
            "--chunks",
            type=int,
            default=1,
            metavar="N",
            help="pieces of layers on each stage of an interleaved pipeline",
        ),
        Option(
            "--sequence-parallel",
            action="store_true",
            help="divide norms and residuals over the tensor-parallel ranks too",
        ),
    )


def _train(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.train import train

    found = train(
        options.model,
        options.class_name,
        on=options.on,
        batch=options.batch,
        sequence=options.seq,
        micro_batch=options.micro_batch,
        optimizer=options.optimizer,
        precision=options.precision,
        checkpointing=options.checkpointing,
        zero=int(options.zero),
        lora=options.lora,
        qlora=options.qlora,
        tp=_or_one(options.tp),
        pp=_or_one(options.pp),
        cp=_or_one(options.cp),
        ep=_or_one(options.ep),
        schedule=options.schedule,
        chunks=options.chunks,
        sequence_parallel=options.sequence_parallel,
        profile=options.profile,
        tokens=options.tokens,
        price=options.price,
        reserve=options.reserve,
        device_file=options.device_file,
        fields=fields(options.fields),
    )
    return _drawn(found, options)


def _plan_options() -> Iterable[Addable]:
    from weighbridge.costs.profiles import PROFILES

    return (
        MODEL,
        _CLASS,
        SET,
        _ON,
        BATCH.but(required=True, help="sequences in a step, over all devices"),
        OneOf(
            (
                Option("--train", action="store_true", help="plans for training, the default"),
                Option("--serve", action="store_true", help="plans for serving; needs --context"),
            )
        ),
        Option("--seq", type=int, metavar="N", help="tokens in each sequence that is trained on"),
        Option("--context", type=int, metavar="N", help="tokens of each sequence that is served"),
        _WEIGHTS,
        _CACHE,
        _OPTIMIZER,
        _PRECISION,
        PROFILE.but(
            help=f"the kernels: {', '.join(PROFILES)}; by default cuda-flash",
        ),
        _RESERVE,
        _OWN_DEVICES,
        FORMS,
    )


def _plan(options: argparse.Namespace) -> PlanSearch | ServiceSearch:
    from weighbridge.answers.plan import plan

    return plan(
        options.model,
        options.class_name,
        on=options.on,
        batch=options.batch,
        sequence=options.seq,
        serve=options.serve,
        context=options.context,
        weights=options.weights,
        cache=options.cache,
        optimizer=options.optimizer,
        precision=options.precision,
        profile=options.profile,
        reserve=options.reserve,
        device_file=options.device_file,
        fields=fields(options.fields),
    )


COMMANDS = {
    "devices": Command(_devices_options, _devices),
    "serve": Command(_serve_options, _serve),
    "train": Command(_train_options, _train),
    "plan": Command(_plan_options, _plan),
}
