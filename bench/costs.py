"""Compares the FLOPs of a forward pass by weighbridge, by other tools, and by formulas of papers.

Run it as ``python bench/costs.py [FILE]`` with a Python that has weighbridge, PyTorch, transformers
and those of the tools that are to be compared; FILE gets all figures as JSON. The models are in
``costs.toml``. They are built at full size on the meta device, without weights, and each count runs
in a process of its own. MACs are doubled: a multiplication and an addition are 2 FLOPs.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import weighbridge as wb
from weighbridge.blueprint import operations
from weighbridge.ledger.symbols import letters_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from weighbridge.answers.cost import RunCost

LIMIT_SECONDS = 180
ATTENTION = ("eager", "sdpa")
"""Eager attention, of which each product is an operation, and what transformers uses by default."""
NOT_FIELDS = ("architectures", "auto_map", "dtype", "model_type", "quantization_config")
PRODUCTS = ("mm", "matmul", "linear", "conv", "einsum")
"""What the names of operators contain that multiply matrices."""
META_KERNELS = ("torch._decomp", "torch._meta", "torch._prims", "torch._refs")
SMALL = {
    "head_dim": 16,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
SMALL_TOKENS = 48
LONGEST_REASON = 110


class Sizes(NamedTuple):
    """The sizes that formulas have: words that are embedded, and words that the head gives."""

    tokens: int
    embedded: int
    words: int
    layers: int
    hidden: int
    heads: int
    attention: int
    inner: int


class Case(NamedTuple):
    """A model at a number of tokens, with the cost of it."""

    name: str
    tokens: int
    cost: RunCost
    device: str = "meta"

    @property
    def config(self) -> dict[str, Any]:
        """The fields of its config."""
        given = self.cost.found.weighing.model.given
        return {name: value for name, value in given.items() if name not in NOT_FIELDS}

    @property
    def family(self) -> str:
        """Its model type."""
        return self.cost.found.known.family

    @property
    def letters(self) -> dict[str, Any]:
        """The fields that are sizes, by their letters: L layers, H hidden size, and so on."""
        model = self.cost.found.weighing.model
        letters = letters_of(model.blueprint)
        return {letter: model.fields.get(name) for name, letter in letters.items()}

    @property
    def has_experts(self) -> bool:
        """Whether each token uses some experts of many."""
        return self.cost.found.weighing.active is not None

    @property
    def sizes(self) -> Sizes:
        """The sizes that formulas need."""
        of = self.letters
        columns = {product.shape[-1] for product in self.cost.operations["forward"]}
        attention = of["A"] * (of.get("D") or of["H"] // of["A"])
        words = of["V"] if of["V"] in columns else 0
        return Sizes(self.tokens, of["V"], words, of["L"], of["H"], of["A"], attention, of["F"])


def cases() -> list[Case]:
    """Return the models of ``costs.toml`` that have operations."""
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    found = []
    for name, own in listed["models"].items():
        family = wb.weigh(name).model.blueprint.family
        if family not in operations.available():
            print(f"{name} is left out: no operations are recorded for {family}", file=sys.stderr)
            continue
        tokens = own.get("tokens", listed["tokens"])
        found.append(Case(name, tokens, wb.cost(name, sequence=tokens)))
    return found


# The formulas of papers, for one forward pass of one sequence, by their parts


def two_n(case: Case) -> dict[str, int]:
    """2 FLOPs for each parameter, or each that is active, and each token."""
    weighing = case.cost.found.weighing
    return {"parameters": 2 * (weighing.active or weighing.parameters) * case.tokens}


def kaplan(at: Sizes) -> dict[str, int]:
    """Kaplan et al. 2020, tables and equations 2.1 and 2.2: 2N + 2·n_layer·n_ctx·d_attn a token."""
    once = 2 * at.tokens * at.layers
    return {
        "projections": once * 4 * at.hidden * at.attention,
        "attention": once * at.tokens * at.attention,
        "ffn": once * 2 * at.hidden * at.inner,
    }


def chinchilla(at: Sizes) -> dict[str, int]:
    """Hoffmann et al. 2022, appendix F."""
    once = 2 * at.tokens * at.layers
    softmax = 3 * at.heads * at.tokens * at.tokens * at.layers
    return {
        "embeddings": 2 * at.tokens * at.hidden * at.embedded,
        "projections": once * 4 * at.hidden * at.attention,
        "attention": once * 2 * at.tokens * at.attention + softmax,
        "ffn": once * 2 * at.hidden * at.inner,
        "head.lm": 2 * at.tokens * at.hidden * at.words,
    }


def megatron(at: Sizes) -> dict[str, int]:
    """Narayanan et al. 2021, section 5.1: the forward pass of it, with 4H as feed-forward size."""
    once = 2 * at.tokens * at.layers
    return {
        "projections": once * 4 * at.hidden**2,
        "attention": once * 2 * at.tokens * at.hidden,
        "ffn": once * 8 * at.hidden**2,
        "head.lm": 2 * at.tokens * at.hidden * at.words,
    }


FORMULAS = {"Kaplan": kaplan, "Chinchilla": chinchilla, "Megatron": megatron}


def by_formulas(case: Case) -> dict[str, dict[str, int] | None]:
    """Return the parts of each formula; None with experts, which most of them lack."""
    parts: dict[str, dict[str, int] | None] = {"2·N": two_n(case)}
    for name, formula in FORMULAS.items():
        parts[name] = None if case.has_experts else formula(case.sizes)
    return parts


def parts_of(case: Case) -> dict[str, int]:
    """Return the same parts as weighbridge counts them, and those that formulas leave out."""
    inside = case.cost.figures["forward_attention_flops"]
    parts = {group.name: group.figures["forward_matmul_flops"] for group in case.cost.groups()}
    return {**parts, "attention": inside, "projections": parts["attention"] - inside}


# The tools


def model_of(case: Case, attention: str) -> tuple[Any, Any]:
    """Build a model on the meta device; return it as a module of its tokens, and the tokens."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415
    from transformers import masking_utils  # noqa: PLC0415

    # It looks at values, which the meta device does not have: each text is one sequence.
    masking_utils.find_packed_sequence_indices = lambda _: None
    shield_meta_kernels()
    config = transformers.AutoConfig.for_model(case.family, **case.config)
    config._attn_implementation = attention
    if case.device == "meta":  # where grouped products take no other dtype
        torch.set_default_dtype(torch.bfloat16)
    with torch.device(case.device):
        built = getattr(transformers, case.cost.found.class_name)(config).eval()
        tokens = torch.zeros(1, case.tokens, dtype=torch.long)
    built.config.use_cache = False

    class OfTokens(torch.nn.Module):
        """A module with one argument, whose outputs are tensors: every tool can follow it."""

        def __init__(self) -> None:
            super().__init__()
            self.built = built

        def forward(self, input_ids: Any) -> Any:
            found = self.built(input_ids=input_ids).to_tuple()
            return tuple(item for item in found if isinstance(item, torch.Tensor))

    return OfTokens(), tokens


def shield_meta_kernels() -> None:
    """Give torch's meta kernels that are written in Python functions that no tool will patch.

    A tool that patches `torch.mm` would count a product twice: as the model calls it, and as the
    kernel does. The kernels of other devices call nothing in Python.
    """
    import torch  # noqa: PLC0415
    import torch._dynamo  # noqa: PLC0415  # is imported by such a kernel, and dislikes patches

    unpatched = SimpleNamespace(**vars(torch))
    for name, module in list(sys.modules.items()):
        if name.startswith(META_KERNELS) and getattr(module, "torch", None) is torch:
            module.torch = unpatched


def torch_counter(case: Case, attention: str) -> dict[str, int]:
    """Count with torch's own counter; its figures are FLOPs."""
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415

    return _counted_by_torch(case, attention, FlopCounterMode(display=False))


def torch_counter_with_rule(case: Case, attention: str) -> dict[str, int]:
    """Count with torch's own counter and a rule for the grouped products of experts."""
    import torch  # noqa: PLC0415
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415

    def grouped(rows: Any, weight: Any, *_: Any, **__: Any) -> int:
        return int(2 * rows[-2] * rows[-1] * weight[-1])

    rules = {torch.ops.aten._grouped_mm: grouped}
    counter = FlopCounterMode(display=False, custom_mapping=rules)
    return _counted_by_torch(case, attention, counter)


def _counted_by_torch(case: Case, attention: str, counter: Any) -> dict[str, int]:
    import torch  # noqa: PLC0415

    module, tokens = model_of(case, attention)
    with counter, torch.no_grad():
        module(tokens)
    return {str(name): flops for name, flops in counter.get_flop_counts()["Global"].items()}


def fvcore(case: Case, attention: str) -> dict[str, int]:
    """Count with fvcore, whose figures are MACs."""
    from fvcore.nn import FlopCountAnalysis  # noqa: PLC0415

    analysis = FlopCountAnalysis(*model_of(case, attention))
    analysis.unsupported_ops_warnings(enabled=False).uncalled_modules_warnings(enabled=False)
    return {name: int(2 * macs) for name, macs in analysis.by_operator().items()}


def calflops(case: Case, attention: str) -> dict[str, int]:
    """Count with calflops, which has both FLOPs and MACs."""
    from calflops import calculate_flops  # noqa: PLC0415

    module, tokens = model_of(case, attention)
    flops, macs, _ = calculate_flops(
        module, kwargs={"input_ids": tokens}, print_results=False, output_as_string=False
    )
    return {"matmul": int(2 * macs), "others": int(flops - 2 * macs)}


def ptflops(case: Case, attention: str) -> dict[str, int]:
    """Count with ptflops, by modules as is its default; its figures are MACs."""
    from ptflops import get_model_complexity_info  # noqa: PLC0415

    module, tokens = model_of(case, attention)
    macs, _ = get_model_complexity_info(
        module,
        (case.tokens,),
        input_constructor=lambda _: {"input_ids": tokens},
        as_strings=False,
        print_per_layer_stat=False,
    )
    return {"": int(2 * macs)}


def llm_analysis(case: Case, _: str) -> dict[str, int]:
    """Count with llm-analysis, which has formulas over fields that it reads with transformers."""
    from llm_analysis import analysis, config  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps({"model_type": case.family, **case.config})
        Path(folder, "config.json").write_text(text, encoding="utf-8")
        sizes = config.get_model_config_from_hf(folder)
    device = config.get_gpu_config_by_name("a100-sxm-40gb")
    counted = analysis.LLMAnalysis(sizes, device)
    layers = sizes.num_layers
    attention = layers * counted.get_num_flops_fwd_per_layer_attn(1, case.tokens)
    inner = layers * counted.get_num_flops_fwd_per_layer_mlp(1, case.tokens)
    head = counted.get_num_flops_fwd_total(1, case.tokens) - attention - inner
    return {
        "matmul of attention": attention,
        "matmul of feed-forward": inner,
        "matmul of head": head,
    }


class Tool(NamedTuple):
    """A function that counts, the package it needs, and whether it sees the attention."""

    count: Callable[[Case, str], dict[str, int]]
    package: str
    attention: tuple[str, ...] = ATTENTION


TOOLS = {
    "FlopCounterMode": Tool(torch_counter, "torch"),
    "FlopCounterMode with a rule": Tool(torch_counter_with_rule, "torch", ("eager",)),
    "fvcore": Tool(fvcore, "fvcore"),
    "calflops": Tool(calflops, "calflops"),
    "ptflops": Tool(ptflops, "ptflops"),
    "llm-analysis": Tool(llm_analysis, "llm-analysis", ("",)),
}


def child(tool: Tool, case: Case, attention: str, answers: Connection) -> None:
    """Count, and send the figures by operator, or the reason why there are none."""
    try:
        counted = tool.count(case, attention)
    except BaseException as error:  # whatever ends a tool is its answer
        text = " ".join(f"{type(error).__name__}: {error}".split())
        answers.send({"reason": text[:LONGEST_REASON]})
        return
    others = sum(
        flops
        for name, flops in counted.items()
        if name and not any(product in name for product in PRODUCTS)
    )
    flops = {name: int(of_name) for name, of_name in counted.items()}
    answers.send({"flops": sum(flops.values()), "others": int(others), "operators": flops})


def counted_by(tool: Tool, case: Case, attention: str) -> dict[str, Any]:
    """Run a tool in a process of its own, which is ended at the limit."""
    forked = multiprocessing.get_context("fork")
    here, there = forked.Pipe(duplex=False)
    process = forked.Process(target=child, args=(tool, case, attention, there))
    process.start()
    there.close()
    answer: dict[str, Any] = {"reason": f"longer than {LIMIT_SECONDS} seconds"}
    if here.poll(LIMIT_SECONDS):
        try:
            answer = here.recv()
        except EOFError:
            answer = {"reason": "its process ended"}
    process.kill()
    process.join()
    return answer


def version_of(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def compared(case: Case, tools: dict[str, Tool]) -> dict[str, Any]:
    """Return all figures of a model."""
    counted: dict[str, Any] = {}
    for name, tool in tools.items():
        if name == "FlopCounterMode with a rule" and not case.has_experts:
            continue
        for attention in tool.attention:
            title = " ".join(filter(None, (name, attention)))
            counted[title] = counted_by(tool, case, attention)
    return {
        "model": case.name,
        "class": case.cost.found.class_name,
        "tokens": case.tokens,
        "flops": case.cost.forward_matmul_flops,
        "parts": parts_of(case),
        "formulas": by_formulas(case),
        "tools": counted,
    }


def small_cases(family: str) -> list[Case]:
    """Return a small model of a family, on the CPU and on the meta device."""
    known = wb.weigh(family).model.fields
    fields = {name: size for name, size in SMALL.items() if name in known}
    cost = wb.cost(family, sequence=SMALL_TOKENS, fields=fields, dtype="f32")
    return [Case(family, SMALL_TOKENS, cost, device) for device in ("cpu", "meta")]


def checks(tools: dict[str, Tool]) -> list[dict[str, Any]]:
    """Return what each tool counts of small models with values, and without."""
    found = []
    for family in ("bert", "llama", "gemma2"):
        cpu, meta = small_cases(family)
        for name, tool in tools.items():
            for attention in tool.attention:
                if attention:
                    counts = {
                        case.device: counted_by(tool, case, attention) for case in (cpu, meta)
                    }
                    flops = cpu.cost.forward_matmul_flops
                    found.append(
                        {"family": family, "tool": f"{name} {attention}", "exact": flops, **counts}
                    )
    return found


def main() -> None:
    """Print the differences from weighbridge in percent, and write the figures to a file."""
    import torch  # noqa: F401, PLC0415  # once, and not in each process
    import transformers  # noqa: PLC0415

    tools = {name: tool for name, tool in TOOLS.items() if version_of(tool.package)}
    packages = ("transformers", *dict.fromkeys(tool.package for tool in tools.values()))
    models = []
    for case in cases():
        getattr(transformers, case.cost.found.class_name)  # this, too, imports much
        found = compared(case, tools)
        models.append(found)
        print(f"{case.name} · {found['class']} · {case.tokens} tokens: {found['flops']:,} FLOPs")
        figures = {**found["tools"]}
        figures |= {
            name: {"flops": parts and sum(parts.values())}
            for name, parts in found["formulas"].items()
        }
        for name, figure in figures.items():
            says = figure.get("reason", "not defined with experts")
            if figure.get("flops") is not None:
                says = f"{100 * (figure['flops'] / found['flops'] - 1):+.4f}%"
            print(f"  {name:<30} {says}", flush=True)
    if sys.argv[1:]:
        of_packages = {name: version_of(name) for name in packages}
        table = {"versions": of_packages, "models": models, "checks": checks(tools)}
        text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
        Path(sys.argv[1]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
