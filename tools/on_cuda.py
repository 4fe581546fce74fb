"""Runs what `cost` and `measure` predict for CUDA on a CUDA device, and writes what differs.

``python tools/on_cuda.py FILE [--jobs 8] [--seconds 120]`` needs a CUDA device, PyTorch and
transformers. Operations are recorded without one: on the meta device, which is given the kernels
that CUDA would choose. Here nothing is replaced:

- **kernels**: what attention alone saves, by width, mask, dropout and grouping, is compared with
  what it saves on the meta device.
- **proofs**: fresh runs of each recorded class are compared with its file, by module, as in
  `Proof`, with the kernels of `cuda-eager` and `cuda-math`, which take heads of any width.
- **attacks**: configs of `attack.py`, real ones among them, with the kernels of each profile.
- **measured**: what `weighbridge measure --device cuda` says of the runs in ``on_cuda.toml``.

``FILE`` gets all of it as JSON. ``docs/on-cuda.json`` has parts of three such runs on one device;
the tables of `docs/on-cuda.md` are made from it. Predictions beside what was measured are new ones.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import random
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from page_words import words_of

from weighbridge import data
from weighbridge.blueprint import operations, schema
from weighbridge.costs.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weighbridge.costs.profiles import KernelProfile

TOOLS = Path(__file__).parent
RUNS_OF_MEASURE = TOOLS / "on_cuda.toml"
KEPT = TOOLS.parent / "docs" / "on-cuda.json"
PROFILES_OF_CUDA = tuple(name for name, profile in PROFILES.items() if profile.device == "cuda")
PROVED = ("cuda-eager", "cuda-math")
PREFERRED = "preferred"
"""What attention saves with the kernels that the device prefers, where it is not the same."""
RUNS = 8
"""Fresh runs of a class with a profile."""
MEASURED_AT_ONCE = 4
"""Their bytes do not depend on each other; their seconds are not reported."""
SECONDS_TO_END = 20
"""Attacks that take longer when their time is up are left."""


def main(arguments: list[str] | None = None) -> int:
    """Run everything, write the file, and return 1 if something differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="where to write, as JSON")
    parser.add_argument("--jobs", type=int, default=8, metavar="N", help="processes (default: 8)")
    parser.add_argument("--seconds", type=float, default=120, help="of each part (default: 120)")
    parser.add_argument("--seed", default="0", help="any text (default: 0)")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS), help="some parts")
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {"on": device()}
    for part in options.only:
        began = time.monotonic()
        found[part] = PARTS[part](options)
        print(f"{part}: {time.monotonic() - began:.0f} s", flush=True)
        options.file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    differences = list(differing(found))
    print(*differences, sep="\n")
    return int(bool(differences))


def device() -> dict[str, str]:
    """Return the names of the device and of the packages, asked for in another process.

    A process that has used CUDA cannot be forked.
    """
    code = "import torch, transformers; print(torch.cuda.get_device_name(), torch.__version__, "
    code += "torch.version.cuda, transformers.__version__, sep='\\n')"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        reason = run.stderr.strip().rpartition("\n")[2]
        raise SystemExit(f"on_cuda.py needs a CUDA device, PyTorch and transformers: {reason}")
    names = ("device", "torch", "cuda", "transformers")
    return dict(zip(names, run.stdout.splitlines()[-4:], strict=True))


def differing(found: dict[str, Any]) -> Iterator[str]:
    """Yield what differs from what was predicted."""
    for profile, of in found.get("kernels", {}).items():
        if profile != PREFERRED:
            yield from (f"{profile}: {case}" for case in of["differ"])
    for profile, of in found.get("proofs", {}).items():
        yield from (f"{profile}: {name}" for name in of["differ"])
    for profile, of in found.get("attacks", {}).items():
        yield from (f"{profile}: {case['reason']} of {case['config']}" for case in of["wrong"])
    for row in found.get("measured", []):
        if "refused" in row:
            yield f"{row['command']}: {row['refused']}"
        elif any(row["measured"][name] != count for name, count in predicted(row).items()):
            yield f"{row['command']}: measured {row['measured']}, predicted {predicted(row)}"


# Proofs


def proofs(options: argparse.Namespace) -> dict[str, Any]:
    """Compare fresh runs of every recorded class with what its file says."""
    asked = [
        (family, class_name, profile)
        for family in operations.available()
        for profile in _proved_profiles(family)
        for class_name in operations.load_operations(family).class_names
    ]
    found: dict[str, Any] = {name: {"classes": 0, "agree": 0, "differ": {}} for name in PROVED}
    until = time.monotonic() + options.seconds
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.jobs, mp_context=fork, max_tasks_per_child=None) as pool:
        proved = pool.map(partial(_proved, seed=options.seed, until=until), asked)
        for (_, class_name, profile), difference in zip(asked, proved, strict=True):
            if difference == NOT_RUN:
                continue
            found[profile]["classes"] += 1
            found[profile]["agree"] += difference is None
            if difference is not None:
                found[profile]["differ"][class_name] = difference
    return found


NOT_RUN = "not run"


def _proved_profiles(family: str) -> list[str]:
    raw = data.read_toml(f"operations/{family}.toml")
    if raw["format"] != 2:
        return []
    return [name for name in PROVED if name in raw["proof"]["profiles"]]


def _proved(asked: tuple[str, str, str], seed: str, until: float) -> str | None:
    family, class_name, profile = asked
    if time.monotonic() > until:
        return NOT_RUN
    from attacking import reference  # noqa: PLC0415  # it takes seconds, in a process of its own

    from weighbridge.derive.operations import costing, runs  # noqa: PLC0415
    from weighbridge.derive.operations.costing import Proof  # noqa: PLC0415
    from weighbridge.derive.operations.draws import Draws  # noqa: PLC0415
    from weighbridge.derive.operations.workload import fixed_fields, images_in  # noqa: PLC0415
    from weighbridge.derive.probing.reference import FamilySubject  # noqa: PLC0415

    reference.prepare()
    subject = FamilySubject(family)
    subject.task_classes()
    if class_name != subject.base_class:
        subject.check_class(class_name)
    draws = Draws(subject, schema.load(family), fixed_fields(class_name), images_in(class_name))
    proof = Proof(draws, class_name, data.read_toml(f"operations/{family}.toml"))
    recorded_run = costing.recorded_run

    def run_that_runs(*arguments: Any) -> Any:
        """Run on the CPU first: an index that is too large raises there, and ends CUDA here."""
        with mock.patch.object(runs, "recorded_on", return_value="cpu"):
            recorded_run(*arguments)
        return recorded_run(*arguments)

    proof.dice = random.Random(f"{seed} {family} on CUDA")  # noqa: S311
    with (
        reference.quiet(),
        mock.patch.object(runs, "recorded_on", lambda profile: profile.device),
        mock.patch.object(runs, "kernels_of", _own_kernels),
        mock.patch.object(costing, "recorded_run", run_that_runs),
    ):
        return proof.of_profile(profile, runs=RUNS)


@contextlib.contextmanager
def _own_kernels(profile: KernelProfile, *, asks_for_values: bool = False) -> Iterator[None]:
    """Run with the device's own kernels, of which a profile names those of attention."""
    from weighbridge.derive.operations.kernels import kernels_on_cuda  # noqa: PLC0415

    del asks_for_values  # the device has them
    with kernels_on_cuda(profile.attention):
        yield


# Kernels


def kernels(options: argparse.Namespace) -> dict[str, Any]:
    """Compare what attention saves on the device and on the meta device, by profile."""
    del options
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=fork) as pool:
        return pool.submit(_kernels).result()


def _kernels() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("cuda-math", "cuda-flash"):
        profile = PROFILES[name]
        differ = {}
        cases = list(_cases(profile.dtypes))
        for case in cases:
            try:
                real = _saved_by_attention(case, "cuda", profile)
            except RuntimeError as error:
                real = [str(error)[:200]]
            recorded = _saved_by_attention(case, "meta", profile)
            if real != recorded:
                differ[str(case)] = {"recorded": recorded, "on CUDA": real}
        found[name] = {"cases": len(cases), "differ": differ}
    found[PREFERRED] = {
        str(case): {"recorded": flash, "on CUDA": own}
        for case in _cases(("BF16",))
        if (own := _saved_by_attention(case, "cuda", PROFILES["cuda-eager"]))
        != (flash := _saved_by_attention(case, "meta", PROFILES["cuda-flash"]))
    }
    return found


class AttentionCase(NamedTuple):
    """Sizes of attention, and the kind of its mask."""

    dtype: str
    batch: int
    heads: int
    key_heads: int
    width: int
    value_width: int
    sequence: int
    mask: str
    dropout: float


def _cases(dtypes: Iterable[str]) -> Iterator[AttentionCase]:
    """Yield attention of usual widths, grouped where models have it: with heads of one width."""
    widths = ((64, 64), (80, 80), (256, 256), (192, 128))
    for dtype, (width, value_width), sequence in itertools.product(dtypes, widths, (37, 64)):
        for mask, dropout in itertools.product(("none", "causal", "bool", "bias"), (0.0, 0.1)):
            for key_heads in (4, 2):
                if key_heads == 4 or (mask in {"none", "causal"} and width == value_width):
                    sizes = (2, 4, key_heads, width, value_width, sequence)
                    yield AttentionCase(dtype, *sizes, mask, dropout)


def _saved_by_attention(case: AttentionCase, device: str, profile: KernelProfile) -> list[str]:
    """Return the dtype and the bytes of each storage that attention keeps."""
    import torch  # noqa: PLC0415
    from torch.nn import functional  # noqa: PLC0415

    from weighbridge.derive.operations.profiles import kernels_of  # noqa: PLC0415
    from weighbridge.derive.operations.workload import DTYPES  # noqa: PLC0415

    saved: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage._cdata] = (storage, f"{tensor.dtype} {storage.nbytes()}")
        return tensor

    def given(*dims: int) -> torch.Tensor:
        return torch.ones(dims, device=device, dtype=DTYPES[case.dtype], requires_grad=True)

    batch, sequence = case.batch, case.sequence
    query = given(batch, case.heads, sequence, case.width)
    key = given(batch, case.key_heads, sequence, case.width)
    value = given(batch, case.key_heads, sequence, case.value_width)
    mask = None
    if case.mask == "bool":
        mask = torch.ones(batch, 1, sequence, sequence, device=device, dtype=torch.bool)
    elif case.mask in {"bias", "heads"}:
        mask = given(1, case.heads if case.mask == "heads" else 1, sequence, sequence)
    replaced = kernels_of if device == "meta" else _own_kernels
    with (
        replaced(profile),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        functional.scaled_dot_product_attention(
            query,
            key,
            value,
            mask,
            case.dropout,
            is_causal=case.mask == "causal",
            enable_gqa=case.key_heads != case.heads,
        )
    return sorted(text for _, text in saved.values())


# Attacks


def attacks(options: argparse.Namespace) -> dict[str, Any]:
    """Compare changed configs, by profile, with what torch counts on the device."""
    return {profile: _attacked(profile, options) for profile in PROFILES_OF_CUDA}


def _attacked(profile: str, options: argparse.Namespace) -> dict[str, Any]:
    import attack  # noqa: PLC0415  # it imports torch
    from attacking import starts, verdicts, workers  # noqa: PLC0415
    from attacking.costs import CostScale  # noqa: PLC0415

    recorded = [name for name in starts.families() if name in operations.available()]
    schedule = attack.scheduled(recorded, [], options.seed)
    cases = workers.cases(
        schedule,
        options.seed,
        CostScale(profile, "cuda"),
        jobs=options.jobs,
        seconds=options.seconds,
    )
    found: dict[str, Any] = {"exact": 0, "refused": 0, "wrong": []}
    families: set[str] = set()
    until = time.monotonic() + options.seconds + SECONDS_TO_END
    for case in cases:
        if time.monotonic() > until:
            break
        for verdict in case.verdicts:
            if verdict.outcome == verdicts.EXACT:
                found["exact"] += 1
                families.add(case.family)
            elif verdict.outcome == verdicts.REFUSED:
                found["refused"] += 1
            elif verdict.outcome == verdicts.WRONG:
                found["wrong"].append({"config": case.config, **verdict._asdict()})
    cases.close()
    return {"families": len(families), **found}


# What is measured


def measured(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what `weighbridge measure` says of each run: predicted and measured quantities."""
    del options
    rows = tomllib.loads(RUNS_OF_MEASURE.read_text(encoding="utf-8"))["runs"]
    with ThreadPoolExecutor(MEASURED_AT_ONCE) as pool:
        return list(pool.map(_measured, [row["command"] for row in rows]))


def _measured(command: str) -> dict[str, Any]:
    arguments = [*command.split(), "--device", "cuda", "--json"]
    run = subprocess.run(  # this package, with arguments of a file beside this one
        [sys.executable, "-m", "weighbridge", "measure", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode not in {0, 1}:
        return {"command": command, "refused": run.stderr.strip()[-_LONGEST_REASON:]}
    return as_row(command, json.loads(run.stdout))


def as_row(command: str, found: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured in a run, and the peak that was rehearsed before it."""
    names = (*_COUNTS, "peak_bytes")
    return {
        "command": command,
        **{name: found[name] for name in ("model", "class", "run")},
        "measured": {name: found[name]["measured"] for name in names},
        "rehearsed_peak_bytes": found["peak_bytes"]["predicted"],
    }


_COUNTS = ("forward_matmul_flops", "backward_matmul_flops", "saved_for_backward_bytes")
_LONGEST_REASON = 400


# The page


def predicted(row: dict[str, Any]) -> dict[str, int]:
    """Return what `weighbridge cost` says of a run that was measured: the counts, by name."""
    import weighbridge as wb  # noqa: PLC0415

    run = row["run"]
    profile = "cuda-eager" if run["attention"] == "eager" else "cuda-flash"
    words = row["command"].split()
    fields = dict(_field(words[at + 1]) for at, word in enumerate(words) if word == "--set")
    found = wb.cost(
        row["model"],
        row["class"],
        batch=run["batch"],
        sequence=run.get("sequence"),
        target=run.get("target"),
        train=run["training"],
        profile=profile,
        dtype=run["dtype"].lower(),
        fields=fields,
    )
    return {name: getattr(found, name) for name in _COUNTS}


def _field(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    return name, int(value)


def figures() -> dict[str, Any]:
    """Return what a device gave, as it is kept in the repository."""
    kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    return kept


def measured_table(lang: str) -> str:
    """Return the runs that were measured, beside what is predicted now, in Markdown."""
    say = words_of("on-cuda", lang)
    lines = [
        _row(map(say, ("run", "forward FLOPs", "bytes saved", "off", "peak", "rehearsed"))),
        "| --- | --: | --: | --: | --: | --: |",
    ]
    for row in figures()["measured"]:
        found, now = row["measured"], predicted(row)
        off = sum(abs(found[name] - now[name]) for name in _COUNTS)
        share = row["rehearsed_peak_bytes"] / found["peak_bytes"] - 1
        counts = f"{found[_COUNTS[0]]:,} | {found[_COUNTS[2]]:,} | {off}"
        lines.append(f"| {_title(row, say)} | {counts} | {found['peak_bytes']:,} | {share:+.1%} |")
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _title(row: dict[str, Any], say: Callable[[str], str]) -> str:
    run, words = row["run"], row["command"].split()
    changes = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    layers = [say("{count} layers").format(count=text.partition("=")[2]) for text in changes[:1]]
    tokens = run.get("sequence", run.get("target"))
    size = f"{run['batch']} × {tokens:,}" if tokens else str(run["batch"])
    model = row["model"].rpartition("/")[2]
    return say(", ").join((model, *layers, size, run["attention"], run["dtype"]))


def preferred_bytes() -> set[int]:
    """Return how much more attention saves without a mask with the kernels that it prefers."""
    cases = figures()["kernels"][PREFERRED].items()
    return {
        _bytes_of(saved["on CUDA"]) - _bytes_of(saved["recorded"])
        for case, saved in cases
        if "mask='none'" in case and "value_width=128" not in case
    }


def _bytes_of(saved: Iterable[str]) -> int:
    return sum(int(text.split()[1]) for text in saved)


def summary_table(lang: str) -> str:
    """Return how many runs agreed, by profile, in Markdown."""
    say, found = words_of("on-cuda", lang), figures()
    names = ("profile", "attention alone", "classes, by module", "configs", "of families")
    lines = [
        _row(map(say, (*names, "refused"))),
        "| --- | --: | --: | --: | --: | --: |",
    ]

    def shares(agree: int, of: int) -> str:
        return say("{agree} of {all}").format(agree=agree, all=of)

    for profile in PROFILES_OF_CUDA:
        kernels, proofs = found["kernels"].get(profile), found["proofs"].get(profile)
        alone = classes = ""
        if kernels:
            alone = shares(kernels["cases"] - len(kernels["differ"]), kernels["cases"])
        if proofs:
            classes = shares(proofs["agree"], proofs["classes"])
        of = found["attacks"][profile]
        all_run = of["exact"] + len(of["wrong"])
        lines.append(
            f"| `{profile}` | {alone} | {classes} | {shares(of['exact'], all_run)} | "
            f"{of['families']} | {of['refused']} |"
        )
    return "\n".join(lines)


PARTS = {"kernels": kernels, "proofs": proofs, "attacks": attacks, "measured": measured}

if __name__ == "__main__":
    sys.exit(main())
