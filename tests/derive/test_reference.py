"""A second proof of BERT's blueprint: each tensor that transformers builds must agree.

Every class is built on the meta device, without weights. Transformers and weighbridge read each
config as the same JSON.
"""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers.models.bert import modeling_bert

from weighbridge.blueprint import schema as blueprint
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger import ledger
from weighbridge.models import find as models
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.ledger.ledger import Ledger

DATA = Path(__file__).parents[1] / "data"
BERT = blueprint.load("bert")
PROVED = range(240)
SWITCHES = ("is_decoder", "add_cross_attention", "tie_word_embeddings")
DTYPES = {torch.int64: "I64", torch.float32: "F32"}
# The exceptions of transformers, its typed configs and torch for a config that cannot be built.
REFUSALS = (ValueError, TypeError, AssertionError, StrictDataclassError)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Keep transformers from logging advice on decoders; its errors still show."""
    before = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    yield
    transformers.utils.logging.set_verbosity(before)


def build(class_name: str, config: dict[str, Any]) -> torch.nn.Module:
    """Build a class as transformers does from this config.json, tied and without storage."""
    fields = json.loads(json.dumps(config))
    with torch.device("meta"):
        return getattr(modeling_bert, class_name)(transformers.BertConfig.from_dict(fields))


def weigh(class_name: str, config: dict[str, Any]) -> Ledger:
    found = models.find(json.loads(json.dumps(config)))
    return ledger.bind(found.blueprint, class_name, found.fields)


def parameters_of(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    return list(model.named_parameters(remove_duplicate=False))


def ties_of(model: torch.nn.Module) -> dict[str, str]:
    """Return the name of each tied parameter, with the first name of the same parameter."""
    first: dict[int, str] = {}
    names = [(name, first.setdefault(id(weight), name)) for name, weight in parameters_of(model)]
    return {name: to for name, to in names if name != to}


def check(class_name: str, config: dict[str, Any]) -> None:
    """Compare the rows of a class with the tensors of the reference, in order, and its buffers."""
    model, found = build(class_name, config), weigh(class_name, config)
    rows = found.rows
    assert [(row.name, row.shape) for row in rows] == [
        (name, tuple(p.shape)) for name, p in parameters_of(model)
    ]
    assert {row.name: row.tied_to for row in rows if row.tied_to} == ties_of(model)
    assert found.parameters == sum(weight.numel() for weight in model.parameters())
    assert found.parameters == sum(row.parameters for row in rows)
    buffers = [
        (name, tuple(held.shape), DTYPES[held.dtype]) for name, held in model.named_buffers()
    ]
    assert [(row.name, row.shape, row.dtype) for row in found.buffers()] == buffers


# Random configs: a config is a function of its index alone.


def random_config(index: int) -> dict[str, Any]:
    """Return a valid config: mostly small, one in 24 large, some fields left out."""
    rng = random.Random(index)  # noqa: S311  # a test's choices, the same each time
    large = index % 24 == 23
    heads, width = (
        (rng.randint(8, 20), 8 * rng.randint(5, 16))
        if large
        else (rng.randint(1, 7), rng.randint(1, 15))
    )
    sizes = {
        "num_hidden_layers": rng.randint(6, 30) if large else rng.randint(1, 4),
        "intermediate_size": rng.randint(1000, 9000) if large else rng.randint(1, 200),
        "max_position_embeddings": rng.randint(1, 1024) if large else rng.randint(1, 70),
        "type_vocab_size": rng.choice([1, 2, 2, 3, 16]),
        "vocab_size": rng.randint(1000, 250_000) if large else rng.randint(1, 300),
    }
    kept = {name: size for name, size in sizes.items() if rng.random() > 0.08}
    config = {
        "model_type": "bert",
        "hidden_size": heads * width,
        "num_attention_heads": heads,
        **kept,
    }
    return (
        config
        | labels(rng)
        | switches(rng)
        | padding(rng, kept.get("vocab_size", 30522))
        | inert(rng)
    )


def labels(rng: random.Random) -> dict[str, Any]:
    """Return the number of labels as a config.json may state it; two of the ways disagree."""
    named = {str(key): f"label {key}" for key in range(rng.randint(1, 20))}
    number = rng.randint(1, 40)
    return rng.choice(
        [
            {},
            {"num_labels": number},
            {"id2label": named},
            {"num_labels": len(named), "id2label": named},
            {"num_labels": number, "id2label": named},
            {"num_labels": number, "id2label": None},
            {"id2label": None},
        ]
    )


def switches(rng: random.Random) -> dict[str, Any]:
    decoder = rng.choice([{}, {"is_decoder": False}, {"is_decoder": True}, {"is_decoder": True}])
    crossed = {"add_cross_attention": rng.random() < 0.7} if decoder.get("is_decoder") else {}
    return (
        decoder
        | crossed
        | rng.choice([{}, {"tie_word_embeddings": True}, {"tie_word_embeddings": False}])
    )


def padding(rng: random.Random, vocabulary: int) -> dict[str, Any]:
    ends = [-vocabulary, vocabulary - 1, rng.randrange(-vocabulary, vocabulary)]
    return rng.choice([{}, {"pad_token_id": None}, {"pad_token_id": rng.choice(ends)}])


def inert(rng: random.Random) -> dict[str, Any]:
    """Return fields that must not change any tensor."""
    choices = {
        "hidden_act": ["gelu", "relu", "gelu_new", "silu"],
        "hidden_dropout_prob": [0, 0.1, 0.5],
        "attention_probs_dropout_prob": [0.0, 0.1],
        "classifier_dropout": [None, 0.3],
        "initializer_range": [0.02, 1.0],
        "layer_norm_eps": [1e-12, 1e-5],
        "bos_token_id": [None, 0, 101],
        "eos_token_id": [None, 3, [0, 1]],
        "use_cache": [True, False],
        "position_embedding_type": ["absolute"],
        "pooler_fc_size": [768],
        "directionality": ["bidi"],
    }
    return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.4}


@pytest.mark.sampled(
    "src/weighbridge/ledger",
    "src/weighbridge/blueprint",
    "src/weighbridge/data/blueprints/bert.toml",
)
@pytest.mark.parametrize("index", PROVED)
def test_a_random_config_gives_the_tensors_of_the_reference_in_every_class(index: int) -> None:
    config = random_config(index)
    for class_name in BERT.class_names:
        check(class_name, config)


def test_the_proof_names_what_made_it_and_what_it_ran_against() -> None:
    assert BERT.proof["by"] == "weighbridge derive bert"
    assert BERT.proof["against"] == f"transformers {transformers.__version__}"
    assert BERT.source.startswith(f"{BERT.proof['against']}: ")


def test_the_random_configs_are_all_different() -> None:
    assert len({json.dumps(random_config(index), sort_keys=True) for index in PROVED}) == 240


def test_the_random_configs_cover_every_case_often() -> None:
    """The configs turn every switch both ways, and set and leave out every field."""
    met = Counter()
    for index in PROVED:
        config = random_config(index)
        fields = models.find(config).fields
        met.update(f"{name} {'set' if name in config else 'left out'}" for name in BERT.fields)
        met.update(f"{name} {value}" for name, value in fields.items() if isinstance(value, bool))
        met["null pad"] += "pad_token_id" in config and config["pad_token_id"] is None
        met["negative pad"] += fields["pad_token_id"] < 0
        met["large"] += fields["num_hidden_layers"] > 4 and "num_hidden_layers" in config
    cases = {f"{name} {how}" for name in BERT.fields for how in ("set", "left out")}
    cases -= {"hidden_size left out", "num_attention_heads left out"}  # one must divide the other
    cases |= {f"{name} {value}" for name in SWITCHES for value in (True, False)}
    cases |= {"null pad", "negative pad", "large"}
    assert {case: met[case] for case in cases if met[case] < 8} == {}


def test_every_class_of_the_reference_that_builds_a_model_is_in_the_blueprint() -> None:
    made = {
        name
        for name, found in vars(modeling_bert).items()
        if isinstance(found, type)
        and issubclass(found, modeling_bert.BertPreTrainedModel)
        and found is not modeling_bert.BertPreTrainedModel
        and found.__module__ == modeling_bert.__name__
    }
    assert made == set(BERT.class_names)


@pytest.mark.parametrize("class_name", BERT.class_names)
def test_the_modules_that_hold_tensors_are_of_the_classes_that_the_blueprint_names(
    class_name: str,
) -> None:
    config = {
        "model_type": "bert",
        "num_hidden_layers": 1,
        "is_decoder": True,
        "add_cross_attention": True,
    }
    named = {
        path: type(module).__name__ for path, module in build(class_name, config).named_modules()
    }
    stated = {path.replace("{i}", "0"): kind for path, kind in BERT.modules(class_name).items()}
    pieces = [row.name.split(".")[:-1] for row in weigh(class_name, config).rows]
    above = {".".join(path[:depth]) for path in pieces for depth in range(len(path) + 1)}
    assert {path: stated.get(path) for path in above} == {path: named[path] for path in above}


# Released configs


def released() -> list[dict[str, str]]:
    with (DATA / "truth.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def config_of(case: dict[str, str]) -> dict[str, Any]:
    return json.loads((DATA / "configs" / case["file"]).read_text(encoding="utf-8"))


each_released = pytest.mark.parametrize("case", released(), ids=lambda case: case["file"])


@each_released
def test_a_released_config_gives_the_tensors_of_the_reference_in_every_class(
    case: dict[str, str],
) -> None:
    for class_name in BERT.class_names:
        check(class_name, config_of(case))


@each_released
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("class_name", ["BertModel", "BertLMHeadModel"])
def test_a_released_config_with_cross_attention_gives_the_tensors_of_the_reference(
    class_name: str, tied: bool, case: dict[str, str]
) -> None:
    crossed = {"is_decoder": True, "add_cross_attention": True, "tie_word_embeddings": tied}
    check(class_name, config_of(case) | crossed)


@each_released
def test_a_released_config_has_the_totals_that_were_written_down(case: dict[str, str]) -> None:
    config, named = config_of(case), weigh(case["arch_class"], config_of(case))
    assert weigh(case["base_class"], config).parameters == int(case["base_parameters"])
    assert named.parameters == int(case["arch_parameters"])
    assert sum(prod(row.shape) for row in named.rows) == int(case["arch_parameters_untied"])


def test_the_family_alone_is_what_the_reference_builds_with_no_config() -> None:
    for class_name in BERT.class_names:
        check(class_name, {"model_type": "bert"})


# The reverse: what the reference cannot build is refused.


def refused(config: dict[str, Any]) -> bool:
    try:
        models.find(config)
    except WeighbridgeError:
        return True
    return False


def unbuildable(config: dict[str, Any]) -> bool:
    try:
        build("BertModel", config)
    except REFUSALS:
        return True
    return False


# Each requirement of the blueprint, and a change that breaks it in an otherwise valid config.
BREAKERS = {
    "hidden_size % num_attention_heads == 0": lambda config: {
        "hidden_size": 7,
        "num_attention_heads": 2,
    },
    "is_decoder or not add_cross_attention": lambda config: {
        "is_decoder": False,
        "add_cross_attention": True,
    },
    "pad_token_id >= -vocab_size": lambda config: {
        "pad_token_id": -config.get("vocab_size", 30522) - 1
    },
    "pad_token_id < vocab_size": lambda config: {"pad_token_id": config.get("vocab_size", 30522)},
}


def test_every_rule_has_something_that_breaks_it() -> None:
    assert set(BREAKERS) == set(BERT.require)


@pytest.mark.parametrize("index", range(12))
@pytest.mark.parametrize("rule", BREAKERS)
def test_a_config_that_breaks_a_rule_is_refused_as_the_reference_does(
    rule: str, index: int
) -> None:
    config = random_config(index)
    broken = config | BREAKERS[rule](config)
    assert not unbuildable(config)
    assert unbuildable(broken)
    with pytest.raises(WeighbridgeError) as caught:
        models.find(broken)
    assert rule in str(caught.value)


def any_small_config(index: int) -> dict[str, Any]:
    """Return a config of small positive sizes that may or may not be buildable."""
    rng = random.Random(-1 - index)  # noqa: S311  # a test's choices, the same each time
    sizes = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "max_position_embeddings",
        "type_vocab_size",
    )
    return {
        "model_type": "bert",
        **{name: rng.randint(1, 9) for name in sizes},
        "num_hidden_layers": rng.randint(1, 2),
        "num_attention_heads": rng.randint(1, 3),
        "pad_token_id": rng.choice([None, rng.randint(-10, 10)]),
        "is_decoder": rng.random() < 0.6,
        "add_cross_attention": rng.random() < 0.5,
    }


def test_a_config_is_refused_exactly_where_the_reference_cannot_build_it() -> None:
    configs = [any_small_config(index) for index in range(200)]
    verdicts = [(refused(config), unbuildable(config)) for config in configs]
    assert [
        config for config, (ours, theirs) in zip(configs, verdicts, strict=True) if ours != theirs
    ] == []
    assert {ours for ours, _ in verdicts} == {True, False}


@pytest.mark.parametrize("value", ["8", 8.0, 8.5, None, True, [8], {"8": 8}], ids=repr)
@pytest.mark.parametrize("name", sorted(BERT.sizes - set(BERT.computed)))
def test_a_size_of_another_type_is_refused_as_the_reference_does(name: str, value: object) -> None:
    config = {"model_type": "bert", name: value}
    assert unbuildable(config)
    assert refused(config)


@pytest.mark.parametrize("value", ["true", 2, None, [True]], ids=repr)
@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_of_another_type_is_refused_as_the_reference_does(
    name: str, value: object
) -> None:
    config = {"model_type": "bert", name: value}
    assert unbuildable(config)
    assert refused(config)


def test_every_dtype_of_a_buffer_has_a_name_with_a_width() -> None:
    assert {row.dtype for row in weigh("BertModel", {"model_type": "bert"}).buffers()} <= set(
        DTYPE_BITS
    )
