"""Derive blueprints of sentence-transformers' modules, and hold its folders against the library.

Run it in an environment with sentence-transformers 6.2.0:

``derive``  writes the blueprints of Dense and LayerNorm to the shipped data
``prove``   saves random models of several families with random modules behind them, newer folders
            and older ones, and compares the parameters of each with the library's own count, and
            each checkpoint with its config. It prints the counts; the exit status is 1 if one is
            wrong.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from weighbridge.cli import main

SHIPPED = Path(__file__).parents[1] / "src/weighbridge/data/blueprints/sentence_transformers"
MODULES = {
    "Dense": ("sentence_transformers.base.modules.dense", {"in_features": 8, "out_features": 4}),
    "LayerNorm": (
        "sentence_transformers.sentence_transformer.modules.layer_norm",
        {"dimension": 8},
    ),
}
UNSAVED = ("init_weight", "init_bias")  # arguments that no config.json has
INERT = ("activation_function", "module_output_name")  # texts, which change no tensor
SETTINGS = 40
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {"intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2},
    "roberta": {"intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4},
    "mpnet": {"intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
    "distilbert": {"hidden_dim": 16, "n_layers": 1, "n_heads": 2},
    "t5": {"d_ff": 16, "num_layers": 1, "num_heads": 2, "d_kv": 4},
    "qwen2": {"intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    "modernbert": {"intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
}
OLD_TYPES = "sentence_transformers.models."


def derive() -> None:
    """Derive the blueprints, and write them as they are shipped."""
    from weighbridge.derive.toml_text import blueprint_text  # noqa: PLC0415  # heavy

    SHIPPED.mkdir(exist_ok=True)
    for name, (module, sizes) in MODULES.items():
        path = SHIPPED / f"{name}.toml"
        words = [sys.executable, "-m", "weighbridge", "derive", f"{module}:{name}"]
        words += ["--output", str(path), "--limit", "100"]
        for field, size in sizes.items():
            words += ["--set", f"{field}={size}"]
        subprocess.run(words, check=True)
        raw = tomllib.loads(path.read_text())
        raw |= {"family": name, "stated": sorted(sizes)}
        raw["proof"]["by"] = "python tools/sentence_modules.py derive"
        unsaved = {*UNSAVED, *INERT}
        raw["require"] = [text for text in raw.get("require", ()) if text.split()[0] not in unsaved]
        raw["nullable"] = [name for name in raw.get("nullable", ()) if name not in unsaved]
        for table in ("tried", "computed", "defaults"):
            raw[table] = {key: raw[table][key] for key in raw.get(table, {}) if key not in unsaved}
        raw["proof"]["holes"] = [
            hole for hole in raw["proof"]["holes"] if not any(each in hole for each in unsaved)
        ]
        if name == "Dense":
            raw["inert"] = sorted({*raw.get("inert", ()), *INERT})
        empty = [key for key, value in raw.items() if value in ([], {})]
        path.write_text(blueprint_text({key: raw[key] for key in raw if key not in empty}, name))


def prove() -> int:
    """Hold saved folders against the library; return the exit status."""
    counts, dice = Counter[str](), random.Random(0)  # noqa: S311
    for number in range(SETTINGS):
        family = dice.choice(sorted(FAMILIES))
        with tempfile.TemporaryDirectory() as folder:
            parameters = save(Path(folder), family, dice)
            if number % 2:
                make_older(Path(folder))
            weighed = printed(["weigh", folder])["parameters"]
            status = printed(["verify", folder, folder])["status"]
            right = weighed == parameters and status == 0
            counts["exact" if right else "wrong"] += 1
            if not right:
                print(family, number, weighed, parameters, status)
    print(json.dumps(counts))
    return int(counts["wrong"] > 0)


def printed(words: list[str]) -> dict[str, Any]:
    """Return what a command prints as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main([*words, "--json"])
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def save(folder: Path, family: str, dice: random.Random) -> int:
    """Save a random model as the library does, and return the parameters that it counts."""
    import sentence_transformers  # noqa: PLC0415
    from sentence_transformers.base.modules import Dense, Normalize  # noqa: PLC0415
    from sentence_transformers.base.modules.transformer import Transformer  # noqa: PLC0415
    from sentence_transformers.sentence_transformer import modules as kinds  # noqa: PLC0415
    from transformers import AutoConfig, AutoModel, BertTokenizer  # noqa: PLC0415

    hidden = dice.choice((8, 16))
    name = {"t5": "d_model", "distilbert": "dim"}.get(family, "hidden_size")
    sizes = {"vocab_size": 7, "pad_token_id": 0, **FAMILIES[family], name: hidden}
    with tempfile.TemporaryDirectory() as place:
        vocabulary = Path(place, "vocab.txt")
        vocabulary.write_text("\n".join(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b")))
        BertTokenizer(str(vocabulary)).save_pretrained(place)
        AutoModel.from_config(AutoConfig.for_model(family, **sizes)).save_pretrained(place)
        layers = [Transformer(place), kinds.Pooling(hidden)]
        for _ in range(dice.randrange(4)):
            out = dice.choice((hidden, 4, 12))
            dense = {"bias": dice.random() < 0.5, "use_residual": dice.random() < 0.3}
            last = (kinds.LayerNorm(hidden), kinds.Dropout(0.1), Normalize())
            if dice.random() < 0.5:
                layers.append(dice.choice(last))
            else:
                layers.append(Dense(hidden, out, **dense))
                hidden = out
        model = sentence_transformers.SentenceTransformer(modules=layers, device="cpu")
        model.save_pretrained(str(folder))
    return sum(parameter.numel() for parameter in model.parameters())


def make_older(folder: Path) -> None:
    """Turn a folder into the form of older versions: the Transformer in a folder of its own."""
    (folder / "0_Transformer").mkdir()
    for path in [*folder.iterdir()]:
        if path.is_file() and path.name not in (
            "modules.json",
            "config_sentence_transformers.json",
        ):
            path.rename(folder / "0_Transformer" / path.name)
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        module["path"] = module["path"] or "0_Transformer"
        module["type"] = OLD_TYPES + module["type"].rpartition(".")[2]
    (folder / "modules.json").write_text(json.dumps(modules))


if __name__ == "__main__":
    sys.exit(prove() if sys.argv[1:] == ["prove"] else derive())
