"""Attacks weighbridge's own answers: looks for a config whose number is silently wrong.

``python tools/attack.py [FAMILY ...] [--seconds 600 | --configs N] [--seed S] [--jobs 1] [--json
FILE]``

It takes defaults, real configs and the forms in which transformers saves them, and changes them the
way people do: flags, texts, ties, nulls, sizes that happen to be equal, thresholds, labels, lists
of layers, other models inside. For each class it compares weighbridge's count and shapes with the
model that transformers builds on the meta device. The outcome is exact, refused with a reason, or
wrong. What is wrong is shrunk to a few fields, printed as a command that anyone can type, with
``reference → ours``, and makes the exit status 1.

The mutations share no code with derivation (``tools/attacking``): what derivation overlooks would
be overlooked here too. All families with a blueprint are attacked by default, the most used first
and twice as often. The same seed and number of configs make the same run, with one job.
``--blueprints FOLDER`` attacks the files ``FAMILY.toml`` there instead of those shipped.

``--costs`` attacks what `weighbridge cost` says of runs instead: FLOPs, saved bytes and the cache,
against what torch counts while the class runs on the meta device. ``--device cuda`` runs it on a
CUDA device instead, with its own kernels, of which ``--profile`` chooses those of attention.

A config that transformers refuses does not count, whatever weighbridge says of it; the table has
both numbers. Refusals are counted as a share of what transformers accepts.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from attacking import starts, workers
from attacking.costs import CostScale
from attacking.report import Tally
from attacking.turns import Turn
from attacking.verdicts import Scale

from weighbridge.blueprint import operations
from weighbridge.costs.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_SECONDS = 600
LONGEST_REASON = 100  # characters
PROFILES_OF_CUDA = tuple(name for name, profile in PROFILES.items() if profile.device == "cuda")


def main(arguments: list[str] | None = None) -> int:
    """Attack the requested families, print what was found, and return the exit status."""
    known = starts.families()
    options = _options(arguments, known)
    if options.costs:
        known = [name for name in known if name in operations.available()]
    most_used = known[: starts.MOST_USED]
    schedule = scheduled(options.families or known, most_used, options.seed)
    tally = Tally(set(most_used))
    scale = Scale(options.blueprints)
    if options.costs:
        scale = CostScale(options.profile, options.device)
    cases = workers.cases(schedule, options.seed, scale, jobs=options.jobs, seconds=options.seconds)
    with contextlib.suppress(KeyboardInterrupt):  # what was found until then is reported
        for case in cases:
            known_findings = len(tally.findings)
            tally.add(case)
            if len(tally.findings) > known_findings:
                print(case.finding, flush=True)
            if options.configs and tally.total_configs >= options.configs:
                break
    cases.close()
    if options.json:
        options.json.write_text(json.dumps(tally.to_dict(), indent=1), encoding="utf-8")
    _report(tally, options.seed)
    return int(bool(tally.wrong))


def _options(arguments: list[str] | None, known: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="default: all")
    parser.add_argument("--seconds", type=float, help=f"default: {DEFAULT_SECONDS}")
    parser.add_argument("--configs", type=int, metavar="N", help="stop after N configs")
    parser.add_argument("--seed", default="0", help="any text (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all counts and cases")
    parser.add_argument("--costs", action="store_true", help="attack what runs cost")
    parser.add_argument("--device", choices=("meta", "cuda"), default="meta", help="of --costs")
    parser.add_argument(
        "--profile", choices=PROFILES_OF_CUDA, default="cuda-eager", help="of --costs"
    )
    parser.add_argument("--blueprints", metavar="FOLDER", help="attack these blueprints instead")
    options = parser.parse_args(arguments)
    if strangers := sorted({*options.families}.difference(known)):
        parser.error(f"there is no blueprint of a family {strangers[0]} of transformers")
    if not options.costs and (options.device, options.profile) != ("meta", "cuda-eager"):
        parser.error("--device and --profile are of --costs")
    if options.device == "meta" and options.profile != "cuda-eager":
        parser.error("the meta device has the kernels of cuda-eager only; give --device cuda")
    if options.device == "cuda" and not torch.cuda.device_count():
        parser.error("there is no CUDA device here")
    if options.seconds is None and options.configs is None:
        options.seconds = DEFAULT_SECONDS
    return options


def scheduled(chosen: list[str], most_used: list[str], seed: str) -> Iterator[Turn]:
    """Yield turns without end: the most used families twice a round, the others once.

    The most used come first. The others come in an order drawn from the seed, so that short runs
    from several seeds reach them all.
    """
    often = [name for name in chosen if name in most_used]
    others = [name for name in chosen if name not in most_used]
    random.Random(f"{seed} order").shuffle(others)  # noqa: S311
    numbers = dict.fromkeys(chosen, 0)
    for _ in itertools.count():
        for name in (*often, *others, *often):
            yield Turn(name, numbers[name])
            numbers[name] += 1


def _report(tally: Tally, seed: str) -> None:
    print(f"\nseed {seed}: {tally.total_configs:,} configs of {len(tally.families)} families\n")
    print(tally.table())
    if tally.refusals:
        print(f"\nCommonest refusals of what transformers counts:\n{tally.reasons()}")
    if tally.unattacked:
        print(f"\nNot attacked ({len(tally.unattacked)}):")
        for family, reason in sorted(tally.unattacked.items()):
            print(f"  {family}: {reason[:LONGEST_REASON]}")
    if tally.findings:
        print(f"\nWrong ({len(tally.findings)} after shrinking):", *tally.findings, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
