"""`weighbridge derive --trust-remote-code`: what is run, what is refused, and that the count holds.

The counts are held against the module that transformers' own loader of remote code builds.
"""

from __future__ import annotations

import json
import os
import py_compile
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from chinese import english_in

import weighbridge as wb
from weighbridge.cli import main
from weighbridge.errors import WeighbridgeError
from weighbridge.readers.remote_code import remote_code_in

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

CONFIGURATION = """
from transformers import PretrainedConfig


class TinyConfig(PretrainedConfig):
    model_type = "tiny-remote"

    def __init__(self, vocab_size=100, width=32, layers=3, heads=4, kv_heads=None, use_bias=False,
                 tie_word_embeddings=False, **kwargs):
        self.vocab_size, self.width, self.layers, self.heads = vocab_size, width, layers, heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        self.use_bias = use_bias
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)
"""
MODELING = """
import torch
from torch import nn
from transformers import PreTrainedModel

from .configuration_tiny import TinyConfig
from .parts import inner_width


class TinyLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        head = config.width // config.heads
        self.query = nn.Linear(config.width, config.width, bias=config.use_bias)
        self.key = nn.Linear(config.width, head * config.kv_heads, bias=config.use_bias)
        self.up = nn.Linear(config.width, inner_width(config), bias=False)
        self.down = nn.Linear(inner_width(config), config.width, bias=False)
        self.norm = nn.LayerNorm(config.width)


class TinyPreTrainedModel(PreTrainedModel):
    config_class = TinyConfig
    base_model_prefix = "model"

    def _init_weights(self, module):
        pass


class TinyModel(TinyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.width)
        self.blocks = nn.ModuleList([TinyLayer(config) for _ in range(config.layers)])
        self.post_init()


class TinyForCausalLM(TinyPreTrainedModel):
    _tied_weights_keys = {"head.weight": "model.embed.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = TinyModel(config)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed

    def get_output_embeddings(self):
        return self.head
"""
PARTS = """
def inner_width(config):
    return 8 * ((8 * config.width // 3 + 7) // 8)
"""
CONFIG = {
    "model_type": "tiny-remote",
    "architectures": ["TinyForCausalLM"],
    "auto_map": {
        "AutoConfig": "configuration_tiny.TinyConfig",
        "AutoModel": "modeling_tiny.TinyModel",
        "AutoModelForCausalLM": "modeling_tiny.TinyForCausalLM",
    },
    "vocab_size": 500,
    "width": 64,
    "layers": 5,
    "heads": 8,
    "kv_heads": 2,
    "dtype": "bfloat16",
    "transformers_version": "4.40.0",
}
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"kv_heads": None, "use_bias": True},
    {"width": 96, "layers": 1, "tie_word_embeddings": True},
    {"vocab_size": 77, "width": 40, "heads": 5, "kv_heads": 1, "layers": 9},
)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a model repository; the current folder is another one."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "configuration_tiny.py").write_text(CONFIGURATION)
    (folder / "modeling_tiny.py").write_text(MODELING)
    (folder / "parts.py").write_text(PARTS)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def remarked(folder: Path, **changed: str) -> None:
    """Change the auto_map of a repository."""
    auto_map: Any = {**CONFIG["auto_map"], **changed}  # type: ignore[dict-item]
    (folder / "config.json").write_text(json.dumps({**CONFIG, "auto_map": auto_map}))


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let transformers' loader copy code to a folder of this test's own."""
    modules = tmp_path / "modules"
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(modules))
    monkeypatch.syspath_prepend(str(modules))
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        monkeypatch.delitem(sys.modules, name)


def as_built(folder: Path, changed: dict[str, Any]) -> int:
    """Return the parameters of what transformers builds, by its own loader of remote code."""
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    config = type(config)(**{**config.to_dict(), **changed})
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=True)
    return sum(parameter.numel() for parameter in model.parameters())


def test_trusted_code_is_derived_and_its_counts_are_those_of_the_module(
    repository: Path, own_modules: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["derive", "--trust-remote-code", str(repository)]) == 0
    assert "tiny-remote.toml: the blueprint, proved" in capsys.readouterr().out
    file = Path("tiny-remote.toml")
    text = file.read_text()
    for name in ("configuration_tiny.py", "modeling_tiny.py", "parts.py"):
        assert f"{name} (sha256 {sha256((repository / name).read_bytes()).hexdigest()})" in text
    assert str(repository) not in text
    assert sorted(os.listdir(repository)) == [
        *("config.json", "configuration_tiny.py", "modeling_tiny.py", "parts.py"),
    ]
    for changed in SETTINGS:
        weighed = wb.weigh(str(repository), fields=changed, blueprint=str(file))
        assert weighed.parameters == as_built(repository, changed)


def test_a_field_that_only_the_folders_config_has_is_one_of_the_blueprint(
    repository: Path, own_modules: None
) -> None:
    modeling = repository / "modeling_tiny.py"
    modeling.write_text(
        MODELING.replace("config.vocab_size, config.width)", "config.padded_size, config.width)")
    )
    (repository / "config.json").write_text(json.dumps({**CONFIG, "padded_size": 512}))
    assert main(["derive", "--trust-remote-code", str(repository)]) == 0
    for changed in ({}, {"padded_size": 640, "width": 96}):
        weighed = wb.weigh(str(repository), fields=changed, blueprint="tiny-remote.toml")
        assert weighed.parameters == as_built(repository, changed)


def test_the_counts_of_the_answer_are_those_of_the_folders_config(
    repository: Path, own_modules: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["derive", "--trust-remote-code", str(repository)]) == 0
    expected = as_built(repository, {})
    assert f"TinyForCausalLM: {expected:,} parameters at the defaults" in capsys.readouterr().out
    assert wb.weigh("tiny-remote.toml").parameters == expected


def test_a_config_class_without_a_constructor_takes_the_fields_of_the_folders_config(
    repository: Path, own_modules: None
) -> None:
    head, _, _ = CONFIGURATION.partition("    def __init__")
    (repository / "configuration_tiny.py").write_text(f"{head}    pad_token_id = None\n")
    (repository / "config.json").write_text(json.dumps({**CONFIG, "use_bias": True}))
    assert main(["derive", "--trust-remote-code", str(repository)]) == 0
    for changed in ({}, {"width": 96, "layers": 2}, {"heads": 4, "kv_heads": 4, "use_bias": False}):
        weighed = wb.weigh(str(repository), fields=changed, blueprint="tiny-remote.toml")
        assert weighed.parameters == as_built(repository, changed)


def test_a_field_that_changes_no_tensor_elsewhere_is_one_where_the_folders_code_reads_it(
    repository: Path, own_modules: None
) -> None:
    head, _, _ = CONFIGURATION.partition("    def __init__")
    (repository / "configuration_tiny.py").write_text(f"{head}    pad_token_id = None\n")
    turned = "self.turned = nn.Linear(config.rotary_dim, 2)\n        self.head ="
    (repository / "modeling_tiny.py").write_text(MODELING.replace("self.head =", turned, 1))
    (repository / "config.json").write_text(
        json.dumps({**CONFIG, "use_bias": True, "rotary_dim": 6, "rotary_pct": 0.25})
    )
    assert main(["derive", "--trust-remote-code", str(repository)]) == 0
    for changed in ({}, {"rotary_dim": 11}):
        weighed = wb.weigh(str(repository), fields=changed, blueprint="tiny-remote.toml")
        assert weighed.parameters == as_built(repository, changed)
    assert "rotary_pct" not in Path("tiny-remote.toml").read_text()


NESTED = """

class PairConfig(PretrainedConfig):
    model_type = "pair-remote"

    def __init__(self, text_config=None, out=3, **kwargs):
        self.text_config = TinyConfig(**(text_config or {}))
        self.out = out
        super().__init__(**kwargs)
"""
PAIR = """

class PairModel(PreTrainedModel):
    config_class = PairConfig

    def __init__(self, config):
        super().__init__(config)
        self.text = TinyModel(config.text_config)
        self.out = nn.Linear(config.text_config.width, config.out)
        self.post_init()

    def _init_weights(self, module):
        pass
"""


def test_a_dict_of_which_the_config_class_makes_a_config_has_fields(
    repository: Path, own_modules: None
) -> None:
    (repository / "configuration_tiny.py").write_text(CONFIGURATION + NESTED)
    modeling = MODELING.replace("import TinyConfig", "import PairConfig, TinyConfig") + PAIR
    (repository / "modeling_tiny.py").write_text(modeling)
    text = {name: CONFIG[name] for name in ("vocab_size", "width", "layers", "heads", "kv_heads")}
    auto = {"AutoConfig": "configuration_tiny.PairConfig"}
    auto |= dict.fromkeys(("AutoModel", "AutoModelForCausalLM"), "modeling_tiny.PairModel")
    config = {"model_type": "pair-remote", "architectures": ["PairModel"], "auto_map": auto}
    (repository / "config.json").write_text(json.dumps({**config, "text_config": text, "out": 5}))
    assert main(["derive", "--trust-remote-code", str(repository)]) == 0
    for changed in ({}, {"width": 96, "layers": 2}, {"heads": 4, "kv_heads": 1}):
        fields = {f"text_config.{name}": value for name, value in changed.items()}
        weighed = wb.weigh(str(repository), fields=fields, blueprint="pair-remote.toml")
        assert weighed.parameters == as_built(repository, {"text_config": {**text, **changed}})


OF_QWEN2 = """
from transformers.models.qwen2.configuration_qwen2 import Qwen2Config


class TinyConfig(Qwen2Config):
    model_type = "tiny-remote"

    def __init__(self, *args, extra_heads=0, **kwargs):
        self.extra_heads = extra_heads
        super().__init__(*args, **kwargs)
"""
QWEN2_WITH_HEADS = """
from torch import nn
from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM, Qwen2MLP

from .configuration_tiny import TinyConfig


class TinyForCausalLM(Qwen2ForCausalLM):
    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        self.extra = nn.ModuleList(Qwen2MLP(config) for _ in range(config.extra_heads))
        self.post_init()
"""


def test_code_may_build_on_a_model_of_transformers(repository: Path, own_modules: None) -> None:
    (repository / "configuration_tiny.py").write_text(OF_QWEN2)
    (repository / "modeling_tiny.py").write_text(QWEN2_WITH_HEADS)
    sizes = {"vocab_size": 120, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16}
    named = {name: CONFIG[name] for name in ("model_type", "architectures", "auto_map")}
    (repository / "config.json").write_text(json.dumps({**named, **sizes, **heads}))
    assert main(["derive", "--trust-remote-code", str(repository)]) == 0
    for changed in ({}, {"hidden_size": 80, "extra_heads": 2}, {"num_hidden_layers": 9}):
        weighed = wb.weigh(str(repository), fields=changed, blueprint="tiny-remote.toml")
        assert weighed.parameters == as_built(repository, {"layer_types": None, **changed})


FOR_TRANSFORMERS_4 = """
        self.stretched = config.rope_scaling is not None and config.rope_scaling["type"] == "linear"
        self.longest = config.max_length
"""


@pytest.mark.filterwarnings("ignore:`rope_scaling` is deprecated:FutureWarning")
def test_a_config_has_what_code_for_transformers_4_reads(
    repository: Path, own_modules: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transformers 5 builds this code only where it is given rope_scaling and max_length."""
    (repository / "configuration_tiny.py").write_text(
        CONFIGURATION.replace("**kwargs):", "rope_scaling=None, **kwargs):").replace(
            "        super()",
            "        self.rope_scaling, self.rope_theta = rope_scaling, 10000\n        super()",
        )
    )
    (repository / "modeling_tiny.py").write_text(
        MODELING.replace("\n        self.up =", f"{FOR_TRANSFORMERS_4}        self.up =")
    )
    (repository / "config.json").write_text(json.dumps({**CONFIG, "rope_scaling": None}))
    assert main(["derive", "--trust-remote-code", str(repository)]) == 0
    linear = {"type": "linear", "factor": 2.0}
    monkeypatch.setattr(transformers.PretrainedConfig, "max_length", 20, raising=False)
    for changed in ({}, {"width": 96, "layers": 2}):
        weighed = wb.weigh(str(repository), fields=changed, blueprint="tiny-remote.toml")
        assert weighed.parameters == as_built(repository, {"rope_parameters": linear, **changed})


WITH_LABELS = """

class TinyForSequenceClassification(TinyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = TinyModel(config)
        self.score = nn.Linear(config.width, config.num_labels)
        self.post_init()
"""


def test_a_class_whose_tensors_depend_on_the_number_of_labels_is_refused(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The names of labels are a table in config.json, and no field of the class."""
    (repository / "modeling_tiny.py").write_text(MODELING + WITH_LABELS)
    auto: dict[str, str] = dict(CONFIG["auto_map"])  # type: ignore[call-overload]
    auto["AutoModelForSequenceClassification"] = "modeling_tiny.TinyForSequenceClassification"
    named = {"architectures": ["TinyForSequenceClassification"], "auto_map": auto}
    labels = {"id2label": {"0": "a", "1": "b", "2": "c"}}
    (repository / "config.json").write_text(json.dumps({**CONFIG, **named, **labels}))
    assert main(["derive", "--trust-remote-code", str(repository)]) == 2
    message = capsys.readouterr().err
    assert "its tensors depend on the number of labels" in message
    assert "(labels = 3)" in message
    assert main(["derive", "--trust-remote-code", str(repository), "--lang", "zh"]) == 2
    assert "标签" in capsys.readouterr().err


def test_what_the_code_imports_and_is_not_there_is_named(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    modeling = repository / "modeling_tiny.py"
    for missing, hint in (
        ("import no_such_package", "Install the package that brings no_such_package"),
        ("from transformers import no_such_name", "may need other versions of what it imports"),
    ):
        modeling.write_text(f"{missing}\n{MODELING}")
        assert main(["derive", "--trust-remote-code", str(repository)]) == 2
        assert hint in capsys.readouterr().err
        assert main(["derive", "--trust-remote-code", str(repository), "--lang", "zh"]) == 2
        assert "install" not in capsys.readouterr().err


MARK = "open({mark!r}, 'w').close()\n"


def test_nothing_is_run_unasked(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark = repository.parent / "ran"
    for name in ("configuration_tiny.py", "modeling_tiny.py", "__init__.py"):
        (repository / name).write_text(MARK.format(mark=str(mark)))
    for arguments in (["derive", str(repository)], ["weigh", str(repository)]):
        assert main([*arguments, "--lang", "en"]) == 2
        assert "has its own code" in capsys.readouterr().err
        assert main([*arguments, "--lang", "zh"]) == 2
        message = capsys.readouterr().err.replace(str(repository), "")
        assert "--trust-remote-code" in message
        assert not english_in(message)
    assert not mark.exists()


def test_only_sources_in_the_folder_are_run(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark, elsewhere = repository.parent / "ran", repository.parent / "elsewhere.py"
    hostile = MARK.format(mark=str(mark)) + PARTS
    elsewhere.write_text(hostile)
    Path("parts.py").write_text(hostile)  # in the current folder
    (repository / "__init__.py").write_text(MARK.format(mark=str(mark)))

    def derived() -> str:
        assert main(["derive", "--trust-remote-code", str(repository)]) == 2
        assert not mark.exists()
        return capsys.readouterr().err

    (repository / "parts.py").unlink()
    (repository / "parts.py").symlink_to(elsewhere)
    assert "parts.py leads out of the folder" in derived()
    (repository / "parts.py").unlink()
    py_compile.compile(str(elsewhere), cfile=str(repository / "parts.pyc"))
    assert "No module named 'remote_code.parts'" in derived()
    modeling = repository / "modeling_tiny.py"
    modeling.write_text(MODELING.replace("from .parts", "from parts"))
    assert "No module named 'parts'" in derived()
    modeling.write_text(MODELING.replace("from .parts", "from ..parts"))
    assert "beyond top-level package" in derived()


def test_a_compiled_file_beside_its_source_is_not_run(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, mark = repository / "parts.py", repository.parent / "ran"
    hostile = (MARK.format(mark=str(mark)) + PARTS).encode()
    kept = source.stat()
    source.write_bytes(hostile)
    os.utime(source, (kept.st_atime, kept.st_mtime))
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    source.write_text(PARTS)
    assert main(["derive", "--trust-remote-code", str(repository)]) == 0
    assert not mark.exists()
    capsys.readouterr()


REFUSED = {
    "another repository": ("org/name--modeling_tiny.TinyForCausalLM", "of another repository"),
    "a file above": ("../modeling_tiny.TinyForCausalLM", "no name of a class in a file"),
    "a place": ("/x/modeling.TinyForCausalLM", "no name of a class in a file"),
    "a file that is not there": ("modeling_none.TinyForCausalLM", "a file that the folder lacks"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("auto", ["AutoConfig", "AutoModelForCausalLM"])
def test_what_is_not_in_the_folder_is_refused(
    case: str, auto: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, expected = REFUSED[case]
    remarked(repository, **{auto: name})
    assert main(["derive", "--trust-remote-code", str(repository)]) == 2
    assert expected in capsys.readouterr().err
    assert main(["derive", "--trust-remote-code", str(repository), "--lang", "zh"]) == 2
    assert not english_in(capsys.readouterr().err.replace(str(repository), "").replace(name, ""))


def test_the_class_is_the_one_that_was_saved_or_the_one_that_generates(repository: Path) -> None:
    assert remote_code_in(str(repository)).model == "modeling_tiny.TinyForCausalLM"
    for saved, expected in (
        (["TinyModel"], "TinyModel"),
        (["Other"], "TinyForCausalLM"),
        (None, "TinyForCausalLM"),
    ):
        (repository / "config.json").write_text(json.dumps({**CONFIG, "architectures": saved}))
        assert remote_code_in(str(repository)).model == f"modeling_tiny.{expected}"


def test_a_folder_without_code_is_refused(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents: tuple[Any, ...] = (
        {"model_type": "bert"},
        {"auto_map": []},
        {"auto_map": {"AutoModel": 3}},
    )
    for content in contents:
        (repository / "config.json").write_text(json.dumps(content))
        with pytest.raises(WeighbridgeError, match="names no class of its own"):
            remote_code_in(str(repository))
    assert main(["derive", "--trust-remote-code", str(repository.parent / "none")]) == 2
    assert "there is no such file" in capsys.readouterr().err
    for more in (["bert"], ["--operations"], ["--family", "x"], ["--config", "a:B"]):
        assert main(["derive", "--trust-remote-code", str(repository), *more]) == 2
        assert "takes one folder" in capsys.readouterr().err
