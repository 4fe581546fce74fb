"""Derive the code of model repositories, and hold each against settings drawn here.

``python tools/remote_code.py FOLDER ...`` derives each folder as `weighbridge derive
--trust-remote-code` does, so it runs the code that is there. Then it changes up to four numbers and
flags of the folder's config.json at a time, and compares the names, shapes and ties of what the
folder's class builds with those that the blueprint gives. It is exact if all settings agree,
refused if no blueprint was written or it refuses a setting. The exit status is 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from third_parties import Outcome, first_difference, shapes_of, summary, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

SETTINGS = 20
LIMIT_SECONDS = 600
_DRAWS = 20  # for each setting that is wanted: the folder's class refuses many
_MOST_CHANGED = 4  # fields of a setting
_LARGEST = 2_000_000  # a larger number, such as a base of rotary positions, stays as it is
_GENERATING = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModel")

Config = dict[str, Any]
Place = tuple[str, ...]


def changeable(config: Config, above: Place = ()) -> Iterator[Place]:
    """Yield the places of the numbers and flags of a config, also of configs inside it.

    Example:
        >>> list(changeable({"width": 8, "text_config": {"bias": True}, "bos_token_id": 1}))
        [('width',), ('text_config', 'bias')]
    """
    for name, value in config.items():
        if isinstance(value, dict) and name.endswith("_config"):
            yield from changeable(value, (*above, name))
        elif type(value) is bool or (
            type(value) is int and 0 < value < _LARGEST and not name.endswith("_id")
        ):
            yield (*above, name)


def drawn(config: Config, dice: random.Random) -> Config:
    """Return a config with a few numbers and flags changed.

    Example:
        >>> drawn({"bias": True}, random.Random(0))
        {'bias': False}
    """
    places, changed = [*changeable(config)], copy.deepcopy(config)
    for place in dice.sample(places, dice.randint(1, min(_MOST_CHANGED, len(places)))):
        holder = changed
        for name in place[:-1]:
            holder = holder[name]
        old = holder[place[-1]]
        near = (old // 4, old // 2, old * 2, old - 8, old + 1, old + 8)
        holder[place[-1]] = not old if isinstance(old, bool) else max(1, dice.choice(near))
    return changed


def built(package: str, config: Config) -> nn.Module:
    """Build the class that a config names, on the meta device, from an importable folder."""
    import torch  # noqa: PLC0415
    from transformers import PretrainedConfig  # noqa: PLC0415

    def at(address: str) -> Any:
        module, _, name = address.rpartition(".")
        return getattr(importlib.import_module(f"{package}.{module}"), name)

    auto_map = config["auto_map"]
    saved = [auto_map[name] for name in _GENERATING if name in auto_map]
    named = [one for one in saved if one.rpartition(".")[2] in config.get("architectures", ())]
    kind = at((named or saved)[0])
    values = {name: value for name, value in config.items() if name != "auto_map"}
    linspace = torch.linspace  # rates of layers, whose values are read
    on_cpu = mock.patch("torch.linspace", lambda *words, **_: linspace(*words, device="cpu"))
    # as in transformers 4
    plain = mock.patch.object(PretrainedConfig, "rope_scaling", None)
    longest = mock.patch.object(PretrainedConfig, "max_length", 20, create=True)
    with on_cpu, plain, longest, torch.device("meta"):
        module: nn.Module = kind(at(auto_map["AutoConfig"])(**copy.deepcopy(values)))
        module.tie_weights()  # type: ignore[operator]
    return module


def outcome_of(folder: Path) -> Outcome:
    """Derive a folder, and hold its blueprint against its class at settings drawn here."""
    from weighbridge.derive.running.command import DeriveRequest, run_request  # noqa: PLC0415
    from weighbridge.errors import WeighbridgeError  # noqa: PLC0415

    name, holes = folder.resolve().name, list[str]()
    with tempfile.TemporaryDirectory() as scratch:
        blueprint = Path(scratch, "remote.toml")
        request = DeriveRequest(
            [str(folder)],
            output=str(blueprint),
            trust_remote_code=True,
            limit_seconds=LIMIT_SECONDS,
        )
        began = time.monotonic()
        try:
            status, _ = run_request(request, holes.append)
        except WeighbridgeError as error:
            return Outcome(name, "refused", reason=str(error))
        seconds = time.monotonic() - began
        if status:
            return Outcome(name, "refused", reason=holes[0], seconds=seconds)
        outcome = _held(folder, blueprint, Path(scratch))
        return outcome._replace(name=name, holes=len(holes), seconds=seconds)


def _held(folder: Path, blueprint: Path, scratch: Path) -> Outcome:
    """Hold a blueprint at settings; a difference outweighs a refusal."""
    from weighbridge.answers.weigh import weigh  # noqa: PLC0415
    from weighbridge.errors import WeighbridgeError  # noqa: PLC0415

    (scratch / "repository").symlink_to(folder.resolve())
    sys.path.insert(0, str(scratch))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    dice, tried = random.Random(folder.name), scratch / "config.json"  # noqa: S311
    held, refusal = 0, ""
    for setting in [config, *(drawn(config, dice) for _ in range(_DRAWS * SETTINGS))]:
        try:
            expected = shapes_of(built("repository", setting))
        except Exception:  # noqa: S112  # a setting that the folder's class refuses
            continue
        tried.write_text(json.dumps(setting), encoding="utf-8")
        held += 1
        try:
            rows = weigh(str(tried), blueprint=str(blueprint)).ledger.rows
        except WeighbridgeError as error:
            refusal = refusal or str(error)
            continue
        found = {row.name: (row.shape, row.tied_to) for row in rows}
        if difference := first_difference(expected, found):
            return Outcome("", "wrong", held, reason=difference)
        if held == SETTINGS:
            break
    if refusal or not held:
        return Outcome("", "refused", held, reason=refusal or "no setting could be built")
    return Outcome("", "exact", held)


def main() -> int:
    """Print what came of each folder; each is run in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(outcome_of(options.folders[0])._asdict()))
        return 0
    outcomes = []
    for folder in options.folders:
        command = [sys.executable, __file__, "--one", str(folder)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            outcomes.append(Outcome(**json.loads(ended.stdout.splitlines()[-1])))
        except (IndexError, ValueError):
            reason = (ended.stderr.strip().splitlines() or ["no answer"])[-1]
            outcomes.append(Outcome(folder.name, "refused", reason=reason))
        print(text_of(outcomes[-1]), flush=True)
    print(summary(outcomes))
    return int(any(outcome.kind == "wrong" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
