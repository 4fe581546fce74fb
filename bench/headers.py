"""Compares `weighbridge.readers.read` with the libraries that write the formats, on headers.

Run it as ``python bench/headers.py`` with the Python in which weighbridge is installed. The
comparisons with safetensors (and NumPy), gguf and PyTorch need these libraries, and are left out
without them. The files are made in a temporary folder, with complete headers and a hole for data.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _pairs import calls, machine, medians, processes, ratios, seconds_each

from weighbridge import weigh
from weighbridge.readers import read
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Tensor = tuple[str, tuple[int, ...], str]  # name, shape, dtype

PAIRS = 15
SLOW_PAIRS = 3
WORDS = 128 * 1024
LAYER = {
    **{f"self_attn.{name}_proj.weight": (256, 256) for name in "qkvo"},
    **{f"mlp.{name}_proj.weight": (1024, 256) for name in ("gate", "up")},
    "mlp.down_proj.weight": (256, 1024),
    **{
        f"{name}_layernorm.weight": (256,)
        for name in ("input", "post_attention", "post_feedforward")
    },
}

# The same list from the reference library; as a whole process it writes the list as JSON.
SAFETENSORS = """
from safetensors import safe_open
def tensors(paths):
    found = []
    for path in paths:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():
                tensor = file.get_slice(name)
                found.append((name, tuple(tensor.get_shape()), tensor.get_dtype()))
    return found
"""
PRINTED = f"import json, sys, numpy\n{SAFETENSORS}\nprint(json.dumps(tensors(sys.argv[1:])))"
GGUF = (
    "import sys, gguf\n"
    "for tensor in gguf.GGUFReader(sys.argv[1]).tensors: print(tensor.name, tensor.shape)"
)
INSPECT = (sys.executable, "-m", "weighbridge", "inspect", "--by", "tensor", "--json")


def ours(path: str) -> list[Tensor]:
    """List the names, shapes and dtypes in a checkpoint, as safe_open gives them."""
    return [row[:3] for row in read(path).rows]


def compare(
    title: str, reference: Callable[[], object], call: Callable[[], object], pairs: int = PAIRS
) -> None:
    """Print how the times of two calls compare, in this process."""
    found = calls(seconds_each(reference, gc.enable), seconds_each(call, gc.enable), pairs)
    print(f"{title}, {pairs} pairs\n  wall time  × {ratios(found)}: {medians(found, 1e-3, 'ms')}")


def compare_processes(
    title: str, reference: tuple[str, ...], command: tuple[str, ...], pairs: int = PAIRS
) -> None:
    """Print how two whole processes compare, in wall time and peak memory."""
    seconds, peak_kib = processes(reference, command, pairs)
    print(
        f"{title}, {pairs} pairs\n  wall time  × {ratios(seconds)}: {medians(seconds, 1e-3, 'ms')}"
    )
    print(f"  peak RSS   × {ratios(peak_kib)}: {medians(peak_kib, 1024, 'MiB')}")


def layers() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes, layer by layer, without end."""
    layer = 0
    while True:
        yield from ((f"model.layers.{layer}.{name}", shape) for name, shape in LAYER.items())
        layer += 1


def write_safetensors(path: Path, tensors: Iterable[tuple[str, tuple[int, ...]]]) -> None:
    """Write a float32 safetensors file as its library does, with a hole for its data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors:
        begin, end = end, end + weighed(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + end)


def weighed(shape: tuple[int, ...]) -> int:
    """Return the size of a float32 tensor in bytes."""
    elements = 1
    for size in shape:
        elements *= size
    return stored_bytes(elements, "F32")


def safetensors(folder: Path) -> None:
    """Print the comparisons with safetensors.

    They read 100 shards, one large file, and one small file as a whole process.
    """
    scope: dict[str, Any] = {}
    exec(SAFETENSORS, scope)  # noqa: S102  the text above
    reference: Callable[[list[str]], list[Tensor]] = scope["tensors"]
    shards = folder / "shards"
    shards.mkdir()
    named, weight_map = layers(), {}
    for number in range(1, 101):
        shard = f"model-{number:05d}-of-00100.safetensors"
        tensors = list(islice(named, 200))
        write_safetensors(shards / shard, tensors)
        weight_map |= {name: shard for name, _ in tensors}
    paths = [str(path) for path in sorted(shards.iterdir())]
    both = partial(reference, paths), partial(ours, str(shards))
    compare("safe_open of 100 shards, 20,000 tensors / readers.read of the folder", *both)
    print(f"  the lists are equal: {sorted(both[0]()) == sorted(both[1]())}")
    index = shards / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))

    def with_index() -> list[Tensor]:
        json.loads(index.read_bytes())
        return reference(paths)

    compare("safe_open and the index as JSON / readers.read of both", with_index, both[1])
    write_safetensors(folder / "large.safetensors", islice(layers(), 100_000))
    large = str(folder / "large.safetensors")
    compare(
        "safe_open of 100,000 tensors in one file / readers.read",
        partial(reference, [large]),
        partial(ours, large),
    )
    small = str(folder / "bert.safetensors")
    write_safetensors(
        Path(small), [(row.name, row.shape) for row in weigh("bert-base-chinese").rows]
    )
    printed = (sys.executable, "-c", PRINTED, small)
    compare_processes(
        "numpy, safe_open of 199 tensors, JSON / weighbridge inspect", printed, (*INSPECT, small)
    )


def write_gguf(path: str) -> None:
    """Write a GGUF file with a large vocabulary: words, scores, types and merges."""
    import gguf  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_token_list([f"word{number}" for number in range(WORDS)])
    writer.add_token_scores([0.0] * WORDS)
    writer.add_token_types([1] * WORDS)
    writer.add_token_merges([f"wo{number} rd{number}" for number in range(WORDS)])
    for name, _ in islice(layers(), 300):
        writer.add_tensor(name, np.zeros((8, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def of_gguf(folder: Path) -> None:
    """Print the comparisons with gguf."""
    import gguf  # noqa: PLC0415

    path = str(folder / "model.gguf")
    write_gguf(path)
    title = f"GGUFReader of 300 tensors and {WORDS:,} words"
    compare(
        f"{title} / readers.read", partial(gguf.GGUFReader, path), partial(ours, path), SLOW_PAIRS
    )
    command = (sys.executable, "-c", GGUF, path)
    compare_processes(f"{title} / weighbridge inspect", command, (*INSPECT, path), SLOW_PAIRS)


def pytorch(folder: Path) -> None:
    """Print the comparison with PyTorch."""
    import torch  # noqa: PLC0415

    path = str(folder / "pytorch_model.bin")
    torch.save({name: torch.zeros(2, 3) for name, _ in islice(layers(), 20_000)}, path)
    reference = partial(torch.load, path, mmap=True, map_location="meta")
    compare(
        "torch.load(mmap=True) of 20,000 tensors to meta / readers.read",
        reference,
        partial(read, path),
    )


def main() -> None:
    """Print the comparisons with each installed library."""
    print(f"reference / weighbridge, alternately, ratios of pairs: median (min–max); {machine()}")
    with tempfile.TemporaryDirectory() as folder:
        for library, comparison in (
            ("safetensors", safetensors),
            ("gguf", of_gguf),
            ("torch", pytorch),
        ):
            if find_spec(library):
                comparison(Path(folder))


if __name__ == "__main__":
    main()
