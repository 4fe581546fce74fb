"""The scoreboard's counters as functions, and what runs them: each model in a process of its own.

``scoreboard.py`` runs it as ``python _counters.py COUNTER SECONDS FOLDER…`` with the Python of the
counter's environment. Each folder has a model's ``config.json``. It prints a line of JSON for each:
what was counted or why not, the seconds of CPU time, and the peak of the process's memory. The
first line says how long the counter's packages took to import.

It needs nothing but Python's own library and what a counter imports, and no counter but
weighbridge's own imports weighbridge: neither does the truth.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import math
import multiprocessing
import os
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

TOKENS = 16
SAMPLES = 16_000
FRAMES = 3_000
LONGEST_REASON = 160
CHECKPOINT = "model.safetensors"


def config_of(folder: Path) -> dict[str, Any]:
    """Return a model's config as its file has it."""
    found: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found


# Modules of transformers, on the meta device


def built(folder: Path, dtype: str = "float32") -> Any:
    """Build the class that a config names, on the meta device."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    config = transformers.AutoConfig.from_pretrained(folder)
    torch.set_default_dtype(getattr(torch, dtype))
    with torch.device("meta"):
        return getattr(transformers, config_of(folder)["architectures"][0])(config).eval()


def without_written_memory(model: Any) -> Any:
    """Give a module memory on the CPU that nothing writes to, so that the system need not have it.

    The tensors have addresses of their own, which some counters tell them apart by.
    """
    model.to_empty(device="cpu")
    model.tie_weights()
    for buffer in model.buffers():  # such as positions, which have to be valid
        buffer.zero_()
    return model


def run_by(count: Callable[[Any], int], folder: Path) -> int:
    """Let a counter run a model: on the meta device, and where that fails, on the CPU.

    On the meta device a product of experts takes bfloat16 alone.
    """
    from transformers import masking_utils  # noqa: PLC0415

    # It looks at values, which the meta device does not have: each text is one sequence.
    masking_utils.find_packed_sequence_indices = lambda _: None
    try:
        return count(built(folder, "bfloat16"))
    except Exception:  # whatever it was, the CPU may do without
        return count(without_written_memory(built(folder)))


def inputs_of(model: Any) -> dict[str, Any]:
    """Return small inputs that a forward pass takes, by their names."""
    import torch  # noqa: PLC0415

    config, first = model.config, next(model.parameters())
    name = model.main_input_name
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "image_size", 224)
    height, width = side if isinstance(side, list | tuple) else (side, side)
    shapes = {
        "pixel_values": (1, getattr(vision, "num_channels", 3), height, width),
        "input_values": (1, SAMPLES),
        "input_features": (1, getattr(config, "num_mel_bins", 80), FRAMES),
    }
    values = {"pixel_values"} if hasattr(model, "logit_scale") else {name} & shapes.keys()
    names = {"decoder_input_ids"} if config.is_encoder_decoder else set()
    found = {key: first.new_zeros(shapes[key]) for key in values}
    for key in names | ({name} - shapes.keys()):
        found[key] = torch.zeros(1, TOKENS, dtype=torch.long, device=first.device)
    return found


def truth(folder: Path) -> dict[str, Any]:
    """Count the tensors of the module: those that differ, and by every name that they have.

    It also writes the header of the checkpoint that the module would be saved as: every tensor
    of its state once, without a byte of data.
    """
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    model = built(folder)
    named = dict(model.named_parameters(remove_duplicate=False))
    distinct = {id(tensor): tensor for tensor in named.values()}
    state = {
        id(tensor): (name, tensor) for name, tensor in model.state_dict(keep_vars=True).items()
    }
    _write_header(folder / CHECKPOINT, dict(state.values()))
    with torch.device("meta"):
        base = transformers.AutoModel.from_config(model.config, dtype=torch.float32)
    tensors = [*base.parameters(), *base.buffers()]
    return {
        "class": type(model).__name__,
        "parameters": sum(tensor.numel() for tensor in distinct.values()),
        "by every name": sum(tensor.numel() for tensor in named.values()),
        "trained": sum(tensor.numel() for tensor in distinct.values() if tensor.requires_grad),
        "saved": sum(tensor.numel() for _, tensor in state.values()),
        "base class": type(base).__name__,
        "base": sum(tensor.numel() for tensor in base.parameters()),
        "base bytes": sum(_float32_bytes(tensor) for tensor in tensors),
    }


_DTYPES = {
    "torch.float32": "F32",
    "torch.bfloat16": "BF16",
    "torch.float16": "F16",
    "torch.int64": "I64",
    "torch.int32": "I32",
    "torch.bool": "BOOL",
}


def _float32_bytes(tensor: Any) -> int:
    """Return the bytes of a tensor where every floating-point one is in float32."""
    return int(tensor.numel() * (4 if tensor.is_floating_point() else tensor.element_size()))


def _write_header(path: Path, state: dict[str, Any]) -> None:
    """Write a safetensors file whose data is a hole."""
    header, end = {}, 0
    for name, tensor in state.items():
        begin, end = end, end + tensor.nbytes
        dtype = _DTYPES[str(tensor.dtype)]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


# The counters. Each gets the folder of a model, and returns what it counts.


def weighbridge(folder: Path) -> int:
    """`weighbridge.weigh`, with the class that the config names."""
    import weighbridge as wb  # noqa: PLC0415

    config = config_of(folder)
    return wb.weigh(str(folder / "config.json"), config["architectures"][0]).parameters


def weighbridge_inspect(folder: Path) -> int:
    """`weighbridge.inspect`, of the checkpoint's header."""
    import weighbridge as wb  # noqa: PLC0415

    return wb.inspect(str(folder / CHECKPOINT)).parameters


def transformers(folder: Path) -> int:
    """`num_parameters` of a model of transformers."""
    found: int = built(folder).num_parameters()
    return found


def accelerate(folder: Path) -> float:
    """`accelerate estimate-memory`, in bytes; it gets the config from the folder."""
    from argparse import Namespace  # noqa: PLC0415

    from accelerate.commands import estimate  # noqa: PLC0415

    estimate.verify_on_hub = lambda *_: Namespace(config=config_of(folder))
    asked = Namespace(
        model_name=str(folder),
        library_name="transformers",
        trust_remote_code=False,
        dtypes=["float32"],
    )
    ((_, _, total, _),) = estimate.gather_data(asked)
    return float(total)


def torchinfo(folder: Path) -> int:
    """`torchinfo.summary(model).total_params`; without an input it looks at modules alone."""
    from torchinfo import summary  # noqa: PLC0415

    return int(summary(built(folder), verbose=0).total_params)


def fvcore(folder: Path) -> int:
    """`fvcore.nn.parameter_count`, of the whole model."""
    from fvcore.nn import parameter_count  # noqa: PLC0415

    return int(parameter_count(built(folder))[""])


def ptflops(folder: Path) -> int:
    """`get_model_complexity_info`, which runs the model for its FLOPs."""
    from ptflops import get_model_complexity_info  # noqa: PLC0415

    def count(model: Any) -> int:
        _, parameters = get_model_complexity_info(
            model,
            (TOKENS,),
            input_constructor=lambda _: inputs_of(model),
            as_strings=False,
            print_per_layer_stat=False,
        )
        return int(parameters)

    return run_by(count, folder)


def calflops(folder: Path) -> int:
    """`calculate_flops`, which runs the model."""
    from calflops import calculate_flops  # noqa: PLC0415

    def count(model: Any) -> int:
        _, _, parameters = calculate_flops(
            model, kwargs=inputs_of(model), print_results=False, output_as_string=False
        )
        return int(parameters)

    return run_by(count, folder)


def thop(folder: Path) -> int:
    """`thop.profile`, which runs the model."""
    from thop import profile  # noqa: PLC0415

    def count(model: Any) -> int:
        inputs = inputs_of(model)
        names = list(inspect.signature(model.forward).parameters)
        last = max(names.index(name) for name in inputs)
        _, parameters = profile(model, tuple(map(inputs.get, names[: last + 1])), verbose=False)
        return int(parameters)

    return run_by(count, folder)


def llm_analysis(folder: Path) -> int:
    """`get_num_params_total`, of the fields that it reads with transformers."""
    return int(_analysed(folder).get_num_params_total())


def _analysed(folder: Path) -> Any:
    from llm_analysis import analysis, config  # noqa: PLC0415

    sizes = config.get_model_config_from_hf(str(folder))
    return analysis.LLMAnalysis(sizes, config.get_gpu_config_by_name("a100-sxm-40gb"))


def vramcalc(folder: Path) -> int:
    """`param_count` of what it reads from a config."""
    from vramcalc.loaders import load_arch  # noqa: PLC0415

    return int(load_arch(str(folder)).param_count())


def model_vram_calc(folder: Path) -> int:
    """The parameters that its estimates begin with, of a config that is at hand."""
    from hf_vram_calc.calculator import ParameterCalculator  # noqa: PLC0415
    from hf_vram_calc.parser import ConfigParser  # noqa: PLC0415

    config = ConfigParser.parse_config(config_of(folder), folder.name)
    return int(ParameterCalculator.calculate_transformer_params(config))


def hf_mem(folder: Path) -> int:
    """`hf_mem.run`, of the headers."""
    return int(_run_hf_mem(folder).safetensors.param_count)


def _run_hf_mem(folder: Path) -> Any:
    """Run it with requests that are answered here instead of by the hub."""
    import httpx2  # noqa: PLC0415

    module = importlib.import_module("hf_mem.run")  # the package has a function of that name
    files = {path.name: path for path in folder.iterdir()}

    def answered(request: Any) -> Any:
        if "/tree/" in request.url.path:
            listed = [{"path": name, "type": "file"} for name in files]
            return httpx2.Response(200, json=listed)
        name = request.url.path.rpartition("/")[2]
        if name not in files:
            return httpx2.Response(404)
        first, last = request.headers.get("Range", "bytes=0-999999").partition("=")[2].split("-")
        with files[name].open("rb") as file:
            file.seek(int(first))
            return httpx2.Response(206, content=file.read(int(last) - int(first) + 1))

    usual = httpx2.AsyncClient
    module.httpx2.AsyncClient = lambda **words: usual(
        transport=httpx2.MockTransport(answered), timeout=words["timeout"]
    )
    return module.run(folder.name, details=True)


def gguf(folder: Path) -> int:
    """`GGUFReader`, of a file that the package's own writer makes of the checkpoint's tensors."""
    import numpy as np  # noqa: PLC0415
    from gguf import GGUFReader, GGUFWriter  # noqa: PLC0415

    path = folder / "model.gguf"
    writer = GGUFWriter(path, "none")
    with (folder / CHECKPOINT).open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    elements = [math.prod(tensor["shape"]) for tensor in header.values()]
    for index, count in enumerate(elements):
        writer.add_tensor_info(f"t.{index}", (count,), np.dtype(np.float32), 4 * count)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    whole = sum(-(-4 * count // 32) * 32 for count in elements)
    os.truncate(path, path.stat().st_size + whole + 32)
    return int(sum(int(tensor.n_elements) for tensor in GGUFReader(path).tensors))


def aiconfigurator(folder: Path) -> float:
    """The weights of a serving plan on one device, in bfloat16; half of the bytes."""
    return float(sum(each.get_weights() for each in _planned(folder).context_ops)) / 2


def _planned(folder: Path) -> Any:
    from aiconfigurator_core.sdk.config_builders import build_model_config  # noqa: PLC0415
    from aiconfigurator_core.sdk.models import get_model  # noqa: PLC0415

    plan = build_model_config(1, 1, 1, 1, 1, *["bfloat16"] * 4)
    return get_model(str(folder), plan, "vllm")


class Counter(NamedTuple):
    """A function that counts, and the modules that it needs, imported before the clock."""

    count: Callable[[Path], Any]
    imports: tuple[str, ...]


_MODULES = ("torch", "transformers", "transformers.generation.utils", "transformers.models.auto")
COUNTERS = {
    "truth": Counter(truth, _MODULES),
    "weighbridge weigh": Counter(weighbridge, ("weighbridge",)),
    "weighbridge inspect": Counter(weighbridge_inspect, ("weighbridge",)),
    "transformers": Counter(transformers, _MODULES),
    "accelerate": Counter(accelerate, (*_MODULES, "accelerate.commands.estimate")),
    "torchinfo": Counter(torchinfo, (*_MODULES, "torchinfo")),
    "fvcore": Counter(fvcore, (*_MODULES, "fvcore.nn")),
    "ptflops": Counter(ptflops, (*_MODULES, "ptflops")),
    "calflops": Counter(calflops, (*_MODULES, "calflops")),
    "thop": Counter(thop, (*_MODULES, "thop")),
    "ultralytics-thop": Counter(thop, (*_MODULES, "thop")),
    "llm-analysis": Counter(llm_analysis, (*_MODULES, "llm_analysis.analysis")),
    "vramcalc": Counter(vramcalc, ("vramcalc.loaders",)),
    "model-vram-calc": Counter(model_vram_calc, ("hf_vram_calc.calculator", "hf_vram_calc.parser")),
    "aiconfigurator": Counter(aiconfigurator, ("aiconfigurator_core.sdk.models",)),
    "hf-mem": Counter(hf_mem, ("httpx2", "hf_mem.run")),
    "gguf": Counter(gguf, ("numpy", "gguf")),
}


# Running them


def _child(count: Callable[[Path], Any], folder: Path, answers: Connection) -> None:
    warnings.simplefilter("ignore")
    start = time.process_time()
    answer: dict[str, Any]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            counted = count(folder)
        answer = counted if isinstance(counted, dict) else {"counted": counted}
    except BaseException as error:  # whatever ends a counter is its answer
        text = " ".join(f"{type(error).__name__}: {error}".split())
        answer = {"refused": text[:LONGEST_REASON]}
    answer["seconds"] = time.process_time() - start
    answer["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answers.send(answer)


def counted(count: Callable[[Path], Any], folder: Path, limit_seconds: float) -> dict[str, Any]:
    """Count one model in a process of its own, which is ended at the limit."""
    forked = multiprocessing.get_context("fork")
    here, there = forked.Pipe(duplex=False)
    process = forked.Process(target=_child, args=(count, folder, there))
    process.start()
    there.close()
    answer: dict[str, Any] = {"refused": f"no answer in {limit_seconds:g} seconds"}
    if here.poll(limit_seconds):
        try:
            answer = here.recv()
        except EOFError:
            answer = {"refused": "its process ended"}
    process.kill()
    process.join()
    return answer


def main(arguments: Sequence[str]) -> None:
    """Count every folder, and print a line for each."""
    name, limit_seconds, *folders = arguments
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    start = time.process_time()
    for module in COUNTERS[name].imports:
        importlib.import_module(module)
    print(json.dumps({"import_seconds": time.process_time() - start}), flush=True)
    for folder in folders:
        answer = counted(COUNTERS[name].count, Path(folder), float(limit_seconds))
        print(json.dumps({"folder": folder, **answer}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
