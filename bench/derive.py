"""Measures how long deriving blueprints takes, in processor time.

Run it as ``python bench/derive.py``, or with the names of families; it needs transformers. With
``--operations`` it measures how long deriving the operations of families takes: of every fourth
family that has them, if none is named.

Each family is derived in its own process, which imports nothing that `weighbridge derive` has not
imported before the first family. Its time is divided by that of building its base class once, at
the defaults and on the meta device, in the same process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from _pairs import machine

from weighbridge.blueprint.operations import available
from weighbridge.derive.running import runs

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

SAMPLE = (
    *("bert", "llama", "t5", "gpt2", "falcon", "vit", "clip", "swin", "wav2vec2", "mamba2", "opt"),
    *("resnet", "bart", "whisper", "roberta", "gemma3", "qwen2_vl", "deepseek_v3", "mixtral"),
)
_EVERY = 4  # of the families that have operations, in the order of their names
_BUILDS = 5  # the fastest of these is compared with


class Measurement(NamedTuple):
    """The processor time that a derivation and a build took, and how often the code ran."""

    seconds: float
    build_seconds: float
    probes: int


def measured(task: runs.Task) -> Measurement | None:
    """Derive what a task asks for in a process of its own and return what it took, if it could."""
    context = multiprocessing.get_context("fork")
    pipe, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(task, theirs))
    process.start()
    theirs.close()
    try:
        measurement = Measurement(*json.loads(pipe.recv_bytes()))
    except EOFError:  # the process ended before it was done
        measurement = None
    process.join()
    return measurement


def _measure(task: runs.Task, pipe: Connection) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    subject: Any = runs.subject_of(task)
    build_seconds = min(_seconds_of_a_build(subject) for _ in range(_BUILDS))
    probes = 0
    name = "build" if task.operations else "probe"
    take = getattr(subject, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal probes
        probes += 1
        return take(*arguments, **options)

    setattr(subject, name, counted)
    runs.subject_of = lambda _: subject
    start = time.process_time()
    runs._derived(task)
    seconds = time.process_time() - start
    pipe.send_bytes(json.dumps([seconds, build_seconds, probes]).encode())


def _seconds_of_a_build(subject: Any) -> float:
    import torch  # noqa: PLC0415

    config = subject.config(subject.start)
    start = time.process_time()
    with torch.device("meta"):
        subject.build(subject.base_class, config)
    return time.process_time() - start


def main() -> None:
    """Print the time of each family, then the median and the total."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="by default, a sample")
    parser.add_argument("--operations", action="store_true", help="derive operations instead")
    options = parser.parse_args()
    usual = available()[::_EVERY] if options.operations else SAMPLE
    runs.reference()
    what = "the operations of a family" if options.operations else "a family"
    print(f"processor time of deriving {what}, and × of building it once; {machine()}")
    measurements = []
    for family in options.families or usual:
        measurement = measured(runs.Task(family, operations=options.operations))
        if measurement is None:
            print(f"  {family:<16} cannot be derived", flush=True)
            continue
        seconds, build_seconds, probes = measurement
        measurements.append(measurement)
        ratio = seconds / build_seconds
        print(f"  {family:<16} {seconds:6.2f} s  × {ratio:5.0f}  {probes:5} probes", flush=True)
    if not measurements:
        return
    times = [measurement.seconds for measurement in measurements]
    middle = median(one.seconds / one.build_seconds for one in measurements)
    print(
        f"{len(times)} families: {sum(times):.1f} s, median {median(times):.2f} s, × {middle:.0f}"
    )


if __name__ == "__main__":
    main()
