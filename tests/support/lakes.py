"""Makes lakes of checkpoints that are all header: sparse files, so that thousands take little room.

Every format that people keep in masses occurs in the share that a hoard may have: single files,
shards with an index, GGUF, PyTorch, LoRA, runs with the state of a training, hostile files, files
that are cut short. Headers are made by the formats' own rules, here, and not by the package; the
names and shapes are those of the package's models.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import struct
from itertools import cycle
from math import prod
from typing import TYPE_CHECKING, Any

from hostile import HOSTILE

import weighbridge as wb
from weighbridge.fleet.columns import VOLATILE
from weighbridge.fleet.store import FleetTable

if TYPE_CHECKING:
    from pathlib import Path

Tensor = tuple[str, str, tuple[int, ...]]

CONFIGS: dict[str, dict[str, Any]] = {
    "bert-base": {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
    "bert-large": {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    "llama-8b": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "llama-70b": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 128256,
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
    },
    "qwen2.5-7b": {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "vocab_size": 152064,
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
    },
    "mistral-7b": {
        "model_type": "mistral",
        "architectures": ["MistralForCausalLM"],
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "vit": {"model_type": "vit", "architectures": ["ViTForImageClassification"]},
    "whisper": {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"]},
    "mixtral": {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"]},
}
SHARDED = ["llama-8b"] * 6 + ["qwen2.5-7b"] * 3 + ["llama-70b", "mixtral"]
SHARDS = {"llama-70b": 30, "mixtral": 19, "llama-8b": 4}
SINGLE = [name for name in CONFIGS if name not in {"llama-70b", "mixtral"}]
SAVED = ("bert-base", "vit", "whisper")
KINDS = (
    *["single"] * 42,
    *["sharded"] * 14,
    *["gguf"] * 20,
    *["torch"] * 12,
    *["lora"] * 5,
    *["run"] * 4,
    "other config",
    "linked",
    "hostile",
)
"""What a hundred folders hold."""
_LAYER_FIELD = "num_hidden_layers"
_LAYERS = {"whisper": "encoder_layers"}
_BYTES = {"F32": 4, "BF16": 2}
_STEP = 37  # coprime to the number of kinds, so that a small lake has all
_ORGANISATIONS = 97
_VOCABULARIES = ((500, 32_000, 128_256), (60, 30, 10))
_GGML = {"F32": (0, 4, 1), "Q4_K": (12, 144, 256)}  # number, bytes of a block, its elements


class Lake:
    """A maker of a lake: the headers are made once, and written many times."""

    def __init__(self, seed: int = 1, layers: int | None = None) -> None:
        self._layers = layers
        self._random = random.Random(seed)  # noqa: S311  # a lake, not a key
        self._tensors: dict[tuple[str, str], list[Tensor]] = {}
        self._zips: dict[str, bytes] = {}
        self._ggufs: dict[int, tuple[bytes, int]] = {}
        self._hostile_files = cycle(sorted(file for file in HOSTILE.iterdir() if _is_single(file)))

    def folder(self, folder: Path, kind: str) -> None:
        """Fill one folder."""
        folder.mkdir(parents=True, exist_ok=True)
        make = getattr(self, "_" + kind.replace(" ", "_"))
        make(folder)

    def _single(self, folder: Path) -> None:
        name, dtype = self._random.choice(SINGLE), self._random.choice(list(_BYTES))
        self._write_config(folder, name)
        write_sparse(folder / "model.safetensors", *safetensors_head(self.tensors(name, dtype)))

    def _other_config(self, folder: Path) -> None:
        """Weights that do not agree with the config beside them."""
        self._write_config(folder, "bert-large")
        write_sparse(
            folder / "model.safetensors", *safetensors_head(self.tensors("bert-base", "F32"))
        )

    def _linked(self, folder: Path) -> None:
        """One file under two names, as the Hub's cache has it."""
        self._single(folder)
        (folder / "snapshot").mkdir()
        (folder / "snapshot" / "model.safetensors").symlink_to("../model.safetensors")

    def _sharded(self, folder: Path) -> None:
        name = self._random.choice(SHARDED)
        self._write_config(folder, name)
        tensors, count = self.tensors(name, "BF16"), SHARDS.get(name, 3)
        weight_map, total = {}, 0
        for number in range(count):
            file = f"model-{number + 1:05d}-of-{count:05d}.safetensors"
            part = tensors[number * len(tensors) // count : (number + 1) * len(tensors) // count]
            head, data_bytes = safetensors_head(part)
            write_sparse(folder / file, head, data_bytes)
            weight_map.update({tensor[0]: file for tensor in part})
            total += data_bytes
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    def _gguf(self, folder: Path) -> None:
        """One model in several quantisations, each a checkpoint of its own."""
        for number in range(self._random.choice([1, 1, 2, 4])):
            vocabulary = self._random.choices(*_VOCABULARIES)[0]
            if vocabulary not in self._ggufs:
                self._ggufs[vocabulary] = gguf_head(self.tensors("mistral-7b", "F32"), vocabulary)
            write_sparse(folder / f"model.Q4_{number}.gguf", *self._ggufs[vocabulary])

    def _torch(self, folder: Path) -> None:
        (folder / "pytorch_model.bin").write_bytes(self._saved(self._random.choice(SAVED)))

    def _lora(self, folder: Path) -> None:
        self._write_config(folder, "llama-8b")
        tensors: list[Tensor] = []
        for layer in range(32):
            for module in ("q_proj", "v_proj"):
                name = f"base_model.model.model.layers.{layer}.self_attn.{module}"
                tensors += [
                    (f"{name}.lora_A.weight", "F32", (16, 4096)),
                    (f"{name}.lora_B.weight", "F32", (4096, 16)),
                ]
        write_sparse(folder / "adapter_model.safetensors", *safetensors_head(tensors))

    def _run(self, folder: Path) -> None:
        """A run: weights beside the state of the training, of which a file is cut short."""
        step = folder / f"checkpoint-{self._random.randrange(100, 9999)}"
        step.mkdir()
        tensors = self.tensors("bert-base", "F32")
        write_sparse(step / "model.safetensors", *safetensors_head(tensors))
        (step / "optimizer.pt").write_bytes(self._saved("bert-base"))
        (step / "training_args.bin").write_bytes(self._saved("vit")[:400])
        head, data_bytes = safetensors_head(tensors)
        write_sparse(folder / "model.safetensors", head, data_bytes // 2)

    def _hostile(self, folder: Path) -> None:
        hostile = next(self._hostile_files)
        shutil.copy(hostile, folder / hostile.name)

    def config(self, name: str) -> dict[str, Any]:
        """Return the config of a model, with other layers if the lake is to be light."""
        layers = {} if self._layers is None else {_LAYERS.get(name, _LAYER_FIELD): self._layers}
        return {**CONFIGS[name], **layers}

    def _write_config(self, folder: Path, name: str) -> None:
        (folder / "config.json").write_text(json.dumps(self.config(name)))

    def tensors(self, name: str, dtype: str) -> list[Tensor]:
        """Return the stored tensors of a model."""
        if (name, dtype) not in self._tensors:
            config = self.config(name)
            rows = wb.weigh(config, config["architectures"][0]).stored_rows
            stored = [(row.name, dtype, tuple(row.shape)) for row in rows if not row.tied_to]
            self._tensors[name, dtype] = stored
        return self._tensors[name, dtype]

    def _saved(self, name: str) -> bytes:
        """Return a state dict as torch.save writes it, its sizes small."""
        if name not in self._zips:
            import torch

            state = {
                tensor: torch.zeros([min(size, 4) for size in shape])
                for tensor, _, shape in self.tensors(name, "F32")
            }
            buffer = io.BytesIO()
            torch.save(state, buffer)
            self._zips[name] = buffer.getvalue()
        return self._zips[name]


def make_lake(root: Path, count: int, seed: int = 1, layers: int | None = None) -> dict[str, int]:
    """Make so many folders of checkpoints, and return how many there are of each kind.

    A lake of fewer than a hundred folders has all kinds in equal numbers.
    """
    lake, tally = Lake(seed, layers), dict.fromkeys(KINDS, 0)
    kinds = KINDS if count >= len(KINDS) else tuple(tally)
    root.mkdir(parents=True, exist_ok=True)
    with (root / "TRUTH.jsonl").open("w") as truth:
        for number in range(count):
            kind = kinds[number * _STEP % len(kinds)]
            folder = root / f"org{number % _ORGANISATIONS:02d}" / f"m{number:06d}"
            lake.folder(folder, kind)
            tally[kind] += 1
            truth.write(json.dumps({"folder": str(folder.relative_to(root)), "kind": kind}) + "\n")
    return tally


def rows_in(output: Path, *, compared: bool = False) -> list[dict[str, Any]]:
    """Return the rows of a scan by path; to compare two scans, without what differs each time."""
    connection = FleetTable(output).connection()
    table: Any = connection.sql("SELECT * FROM checkpoints ORDER BY path").to_arrow_table()
    rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    if compared:
        return [{name: row[name] for name in row if name not in VOLATILE} for row in rows]
    return rows


def write_sparse(path: Path, head: bytes, data_bytes: int) -> None:
    """Write a header, and a hole for the data."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + data_bytes)


def safetensors_head(tensors: list[Tensor]) -> tuple[bytes, int]:
    """Return the header of a safetensors file, and the bytes of its data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, dtype, shape in tensors:
        begin, end = end, end + prod(shape) * _BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, end


def gguf_head(tensors: list[Tensor], vocabulary: int) -> tuple[bytes, int]:
    """Return the header of a GGUF file with a vocabulary, and the bytes of its data."""
    out = [_text("general.architecture") + struct.pack("<I", 8) + _text("llama")]
    out.append(_text("llama.block_count") + struct.pack("<II", 4, 32))
    tokens = b"".join(_text(f"tok{number:06d}") for number in range(vocabulary))
    out.append(_text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, vocabulary) + tokens)
    merges = b"".join(_text(f"t {number}") for number in range(2 * vocabulary))
    out.append(_text("tokenizer.ggml.merges") + struct.pack("<IIQ", 9, 8, 2 * vocabulary) + merges)
    end, infos = 0, []
    for name, _, shape in tensors:
        kind = "F32" if len(shape) == 1 or shape[-1] % 256 else "Q4_K"
        number, block_bytes, block = _GGML[kind]
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        infos.append(_text(name) + dims + struct.pack("<IQ", number, end))
        end += -(-prod(shape) // block * block_bytes // 32) * 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(out)) + b"".join(out + infos)
    return head + bytes(-len(head) % 32), end


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _is_single(file: Path) -> bool:
    """Whether a hostile file is a checkpoint by itself."""
    return file.is_file() and file.suffix not in {".py", ".json", ".md", ".toml"}
