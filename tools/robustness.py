"""Throws at weighbridge what could break it, and counts what came of it.

    python tools/robustness.py [--share 0.1] [--only TITLE] [-o docs/robustness.json]

What is thrown is listed in ``tools/robustness.toml``. Whatever it is, weighbridge must answer, or
refuse with one message; a wrong number, a traceback, or more than 10 seconds is a failure, which is
printed, and makes the exit status 1. ``docs/robustness.md`` shows the file that this writes. The
same seed throws the same, but for fuzzing, which runs for a time. ``--share`` throws less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fuzz
from page_words import words_of
from time_limit import time_limit

import weighbridge as wb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
DESCRIBED = Path(__file__).with_suffix(".toml")
WRITTEN = ROOT / "docs" / "robustness.json"
HOSTILE = ROOT / "tests" / "hostile"
CORPUS = ROOT / "tests" / "corpus"
ARTICLES = ROOT / "tests" / "articles" / "corpus"
SEED = "robustness"
MOST_SECONDS = 10
LONGEST_MESSAGE = 2000  # characters
ANSWERED, REFUSED, EITHER, FAILED = OUTCOMES = "answered", "refused", "either", "failed"
Outcome = tuple[str, str]
"""What came of something thrown, and what it was; "either" is answered or refused, as it should."""


# Each function yields what came of each thing that it throws


def hostile_files(_thrown: dict[str, Any], share: float) -> Iterator[Outcome]:
    """Give each hostile file to a command, in a process of its own."""
    files = sorted(HOSTILE.iterdir())
    for file in _some(files, share):
        is_config = file.suffix == ".json" and not file.name.endswith(".index.json")
        yield _of_command("weigh" if is_config else "inspect", str(file)), file.name


def damaged_files(thrown: dict[str, Any], share: float) -> Iterator[Outcome]:
    """Read sound files of each format after damage, and hold what is read against itself."""
    drawn = random.Random(SEED)  # noqa: S311
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(fuzz.BESIDE, scratch)
        for reader, name in fuzz.NAMES.items():
            sound = [path.read_bytes() for path in sorted((CORPUS / reader).glob("valid*"))]
            path = Path(scratch, name)
            for _ in range(_times(thrown, share)):
                path.write_bytes(_damaged(drawn.choice(sound), drawn))
                yield _of_call(lambda path=path: fuzz.check(str(path))), reader


def fuzzed_files(thrown: dict[str, Any], share: float) -> Iterator[Outcome]:
    """Let libFuzzer make files for each reader; it does not say which were read."""
    seconds = str(_times(thrown, share))
    for reader in fuzz.NAMES:
        done = _run("tools/fuzz.py", reader, "--seconds", seconds)
        files = re.search(rf"^{reader}: ([\d,]+) files", done.stdout)
        number = int(files[1].replace(",", "")) if files else 1
        yield from [(FAILED if done.returncode else EITHER, reader)] * number


def changed_configs(thrown: dict[str, Any], share: float) -> Iterator[Outcome]:
    """Attack the counts of all families, or the costs of runs, and read what the attack found."""
    with tempfile.TemporaryDirectory() as scratch:
        found = Path(scratch, "found.json")
        number = str(_times(thrown, share))
        options = ("--seed", SEED, "--jobs", "2", "--seconds", "3600", "--json", str(found))
        _run("tools/attack.py", *thrown.get("options", ()), "--configs", number, *options)
        groups = json.loads(found.read_text(encoding="utf-8"))["groups"]
    for counted in groups.values():
        yield from [(ANSWERED, "")] * counted.get("exact", 0)
        yield from [(REFUSED, "")] * counted.get("refused", 0)
        yield from [(FAILED, "a wrong number")] * counted.get("wrong", 0)


def damaged_articles(thrown: dict[str, Any], share: float) -> Iterator[Outcome]:
    """Audit articles after damage."""
    drawn = random.Random(SEED)  # noqa: S311
    for path in sorted(ARTICLES.glob("*.[mt][dx]*")):
        if path.suffix == ".toml" or path.name == "README.md":
            continue
        text = path.read_text(encoding="utf-8")
        for _ in range(_times(thrown, share)):
            torn = _torn(text, drawn)
            yield _of_call(lambda torn=torn: wb.audit(text=torn).text()), path.name


def tests(thrown: dict[str, Any], _share: float) -> Iterator[Outcome]:
    """Run tests of which each injects a fault; one that passes got its answer or its message."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *thrown["tests"]]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        cases = ET.parse(report).iter("testcase")  # noqa: S314  # pytest wrote it
        for case in cases:
            if case.find("skipped") is None:
                passed = case.find("failure") is None and case.find("error") is None
                yield (EITHER if passed else FAILED), str(case.get("name"))


# What becomes of a command or a call


def _of_command(*arguments: str) -> str:
    try:
        done = _run("-m", "weighbridge", *arguments, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return FAILED
    is_one_message = 0 < len(done.stderr) < LONGEST_MESSAGE and "Traceback" not in done.stderr
    refused = REFUSED if done.returncode == 2 and is_one_message else FAILED
    return ANSWERED if done.returncode in (0, 1) and "Traceback" not in done.stderr else refused


def _of_call(answer: Callable[[], Any]) -> str:
    try:
        with time_limit(MOST_SECONDS):
            return REFUSED if answer() is False else ANSWERED
    except wb.WeighbridgeError as error:
        return REFUSED if 0 < len(str(error)) < LONGEST_MESSAGE else FAILED
    except Exception:  # anything else is what this looks for
        return FAILED


def _run(*arguments: str, timeout: int | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    plain = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        command, cwd=ROOT, env=plain, capture_output=True, text=True, check=False, timeout=timeout
    )


# Damage


def _damaged(content: bytes, drawn: random.Random) -> bytes:
    """Return bytes with one or two places changed, cut, repeated, or filled."""
    for _ in range(drawn.randint(1, 2)):
        at, length = drawn.randint(0, len(content)), drawn.randint(1, 8)
        part = content[at : at + length]
        put = {
            "changed": bytes(drawn.randrange(256) for _ in part),
            "cut": b"",
            "repeated": part * drawn.randint(2, 5),
            "filled": part + drawn.choice((b"\x00", b"\xff", b"9", b"[", b"{")) * length,
        }
        content = content[:at] + put[drawn.choice(sorted(put))] + content[at + length :]
    return content


HOSTILE_TEXTS = ("(" * 5000, "9" * 5000, "$", "\u202e", "\x00", "{" * 500, "×", "^" * 300, "1e999")


def _torn(text: str, drawn: random.Random) -> str:
    """Return a text with a few places lost, repeated, exchanged, or filled with hostile ones."""
    for _ in range(drawn.randint(1, 4)):
        at, length = drawn.randint(0, len(text)), drawn.randint(0, 40)
        part = text[at : at + length]
        put = {
            "lost": "",
            "repeated": part * drawn.randint(2, 5),
            "exchanged": part[::-1],
            "filled": part + drawn.choice(HOSTILE_TEXTS),
        }
        text = text[:at] + put[drawn.choice(sorted(put))] + text[at + length :]
    return text


def _times(thrown: dict[str, Any], share: float) -> int:
    return max(1, round(thrown["times"] * share))


def _some(files: list[Path], share: float) -> list[Path]:
    return files[:: max(1, round(1 / share))]


# All of it


def thrown_at(described: dict[str, Any], share: float) -> dict[str, Any]:
    """Throw what is described, and return the counts, with what failed."""
    outcomes, failures = Counter[str](), Counter[str]()
    for outcome, what in globals()[described["by"]](described, share):
        outcomes[outcome] += 1
        if outcome == FAILED:
            failures[what] += 1
    counts = {name: outcomes[name] for name in OUTCOMES}
    return {"title": described["title"], **counts, "failures": dict(failures)}


def table(lang: str, path: Path = WRITTEN) -> str:
    """Return the table of the docs, in Markdown, from the file that a run wrote."""
    say = words_of("robustness", lang)
    rows = json.loads(path.read_text(encoding="utf-8"))["thrown"]
    what = {row["title"]: row["what"][lang] for row in described()}
    names = ("What was thrown", "how many", "answered", "refused", "one of the two", "failed")
    lines = [
        f"| {' | '.join(map(say, names))} |",
        "| :-- | --: | --: | --: | --: | --: |",
    ]
    for row in rows:
        counts = [row[name] for name in OUTCOMES]
        cells = " | ".join(f"{count:,}" for count in (sum(counts), *counts))
        title = say("**{title}.**").format(title=say(row["title"]))
        lines.append(f"| {title} {what[row['title']]} | {cells} |")
    return "\n".join(lines)


def described() -> list[dict[str, Any]]:
    """Return what there is to throw."""
    listed: list[dict[str, Any]] = tomllib.loads(DESCRIBED.read_text(encoding="utf-8"))["thrown"]
    return listed


def main() -> int:
    """Throw everything, write the counts, and return the exit status."""
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("--share", type=float, default=1.0, help="of how many (default: 1)")
    titles = [one["title"] for one in described()]
    parser.add_argument("--only", choices=titles, help="throw this alone, and keep other counts")
    parser.add_argument("-o", "--output", type=Path, default=WRITTEN)
    options = parser.parse_args()
    if options.only and not options.output.exists():
        parser.error(f"{options.output}: there are no other counts to keep; leave --only out")
    kept = json.loads(options.output.read_text(encoding="utf-8"))["thrown"] if options.only else []
    rows = []
    for one in described():
        before = [row for row in kept if row["title"] == one["title"] != options.only]
        rows.append(before[0] if before else thrown_at(one, options.share))
        print(json.dumps(rows[-1]), flush=True)
    written = {"weighbridge": wb.__version__, "seed": SEED, "share": options.share, "thrown": rows}
    options.output.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return int(any(row[FAILED] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
