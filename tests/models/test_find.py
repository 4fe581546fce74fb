"""From a user's argument to a checked model: finding, reading, accounting for every field."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weighbridge import data, weigh
from weighbridge.blueprint import schema as blueprint
from weighbridge.blueprint.law import check
from weighbridge.blueprint.schema import Blueprint
from weighbridge.errors import ConfigError, ModelError, UsageError, WeighbridgeError, nearest
from weighbridge.ledger.ledger import bind
from weighbridge.models.catalogue import released
from weighbridge.models.config import LONGEST_CONFIG, parse_config
from weighbridge.models.find import Model, find, is_generative

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "data"
CONFIGS = sorted((DATA / "configs").glob("*.json"))
CATALOGUE = released()
BERT = blueprint.load("bert")
SIZES = sorted(BERT.sizes)
LEAST = {name: 0 if name in BERT.zero else 1 for name in SIZES}

unhurried = settings(deadline=None)


def bert(**fields: Any) -> dict[str, Any]:
    return {"model_type": "bert", **fields}


def answer(question: Callable[[], str]) -> str:
    """Return the answer, or the message of the refusal."""
    try:
        return question()
    except WeighbridgeError as error:
        return str(error)


def total(model: Model, class_name: str = "BertModel") -> int:
    return bind(model.blueprint, class_name, model.fields).parameters


# Finding


def test_a_released_model_is_found_by_every_name_it_has_in_any_case(seed: str) -> None:
    drawn = random.Random(seed)  # noqa: S311
    for name in drawn.sample(sorted(CATALOGUE), 60):
        for known_name in (name, name.rpartition("/")[2], *CATALOGUE[name].get("aliases", ())):
            for spelled in (known_name, known_name.upper(), known_name.lower()):
                if not blueprint.is_family(spelled):  # a family goes before a release
                    assert find(spelled).where == name, spelled


def test_a_model_may_be_given_as_a_path_object_or_as_any_mapping(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert total(find(tmp_path)) == total(find(tmp_path / "config.json")) == total(find("bert"))
    assert total(find(MappingProxyType({"model_type": "bert"}))) == total(find("bert"))


@pytest.mark.parametrize("model", [None, 3, b"bert", ["bert"]])
def test_anything_but_a_model_is_refused(model: Any) -> None:
    with pytest.raises(WeighbridgeError):
        find(model)


def test_a_field_that_is_not_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="the name of a field must be text"):
        find({**bert(), 1: 2})


def test_a_folder_without_a_config_is_named_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "bert").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"the folder holds no config\.json"):
        find("model")
    assert find("bert").origin == "defaults"


def test_a_released_model_has_the_values_of_the_catalogue() -> None:
    for name, entry in CATALOGUE.items():
        found = find(name)
        assert (found.blueprint.family, found.named_class) == (entry["family"], entry["class"])
        assert (found.origin, found.source) == ("catalogue", entry["source"])
        assert found.unaccounted == (), name
        assert found.stated_dtype or "dtype" not in entry["config"], name


def test_only_a_release_that_transformers_counts_differently_has_a_note() -> None:
    for name, entry in CATALOGUE.items():
        assert len(find(name).notes) == ("released_reason" in entry), name
    (note,) = find("google/flan-t5-base").notes
    assert note == (
        "google/flan-t5-base: the released checkpoint holds 247,577,856 parameters; its output "
        "head is a tensor of its own, which transformers ties to the embeddings."
    )
    assert find("google/flan-t5-base", {"d_ff": 64}).notes == []


def test_a_field_of_a_released_model_may_be_null() -> None:
    assert find("deepseek-ai/DeepSeek-V2-Lite").fields["q_lora_rank"] is None


def test_a_beginning_that_fits_one_model_finds_it() -> None:
    assert (
        find("bert-base-ch").where
        == find("google-bert/bert-base-ch").where
        == "google-bert/bert-base-chinese"
    )


def test_a_whole_name_wins_over_longer_names() -> None:
    assert "hfl/chinese-bert-wwm-ext" in CATALOGUE
    assert find("hfl/chinese-bert-wwm").where == "hfl/chinese-bert-wwm"
    assert find("HFL/Chinese-BERT-wwm").where == "hfl/chinese-bert-wwm"


def test_a_beginning_that_fits_several_models_names_them() -> None:
    with pytest.raises(ModelError, match="several models fit this name") as caught:
        find("hfl/chinese-bert")
    assert str(caught.value).endswith(
        "Did you mean hfl/chinese-bert-wwm, hfl/chinese-bert-wwm-ext?"
    )


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("bert-base-chinse", "google-bert/bert-base-chinese"),
        ("bert-base-uncasd", "google-bert/bert-base-uncased"),
        ("google-bert/bert-base-csed", "google-bert/bert-base-cased"),
        ("tinybert-4l-312d-hz", "huawei-noah/tinybert-4l-312d-zh"),
        ("brt", "bert"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(ModelError, match="no model, family or file has this name") as caught:
        find(wrong)
    assert f"Did you mean {meant}" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["", " ", "colourless green ideas", "x" * 10_000, "\0", "\n", '"]\n', "词"]
)
def test_an_unfamiliar_name_is_answered_with_where_to_look(name: str) -> None:
    with pytest.raises(ModelError, match="`weighbridge models` lists the names"):
        find(name)


@unhurried
@given(st.text(max_size=30))
@example("~\0")
@example("./\0")
def test_any_text_is_found_or_refused_in_one_line(name: str) -> None:
    message = answer(lambda: find(name).where if name != "-" else name)
    assert message.isprintable()


def test_a_family_is_its_defaults() -> None:
    found = find("bert")
    assert found.fields == {**BERT.defaults, "num_labels": 2}
    assert (found.where, found.origin, found.named_class) == ("bert", "defaults", "BertModel")


def test_a_config_is_found_by_its_path_and_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 24}')
    (tmp_path / "other.json").write_text('{"model_type": "bert", "hidden_size": 36}')
    config = str(tmp_path / "config.json")
    assert [
        find(path).fields["hidden_size"] for path in (config, str(tmp_path), f"{tmp_path}/")
    ] == [24] * 3
    assert find(str(tmp_path)).where == config
    assert find(config).origin == "file"
    assert find(str(tmp_path / "other.json")).fields["hidden_size"] == 36


def test_a_tilde_means_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "bert", "hidden_size": 24}')
    assert [find(path).fields["hidden_size"] for path in ("~/model/config.json", "~/model")] == [
        24,
        24,
    ]


def test_a_local_file_takes_precedence_over_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert-base-chinese").mkdir()
    assert find("bert-base-chinese").where == "google-bert/bert-base-chinese"
    (tmp_path / "bert-base-chinese" / "config.json").write_text(
        '{"model_type": "bert", "hidden_size": 24}'
    )
    assert find("bert-base-chinese").fields["hidden_size"] == 24


@pytest.mark.parametrize(
    "path", ["missing.json", "./missing", "missing/", "/missing/config.json", "~/missing"]
)
def test_a_path_that_leads_nowhere_is_refused_as_a_path(
    path: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        find(path)


def test_a_config_is_read_from_standard_input() -> None:
    question = (
        "import weighbridge as wb; print(wb.weigh('-').parameters, wb.weigh('bert').model.where)"
    )
    config = (DATA / "configs" / "google-bert__bert-base-chinese.json").read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", question], input=config, capture_output=True, check=True
    )
    assert done.stdout.split() == [b"102267648", b"bert"]
    assert done.stderr == b""


def test_fields_replace_those_of_the_config() -> None:
    config = bert(hidden_size=24)
    found = find(config, {"hidden_size": 36, "num_labels": 5})
    assert (found.fields["hidden_size"], found.fields["num_labels"]) == (36, 5)
    assert config == bert(hidden_size=24)
    assert find("bert-base-chinese", {"num_hidden_layers": 3}).fields["num_hidden_layers"] == 3
    assert find("bert-base-chinese").fields["num_hidden_layers"] == 12


def test_a_field_set_by_hand_must_exist() -> None:
    with pytest.raises(
        UsageError, match=r"bert has no field hiden_size\. Did you mean hidden_size\?"
    ):
        find("bert", {"hiden_size": 24})
    with pytest.raises(
        UsageError, match=r"bert has no field colour\. It has add_cross_attention, "
    ):
        find("bert", {"colour": 24})
    assert find("bert", {"hidden_act": "relu"}).unaccounted == ()


# Reading


@given(
    st.dictionaries(
        st.text(),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    )
)
def test_any_object_is_read_as_it_was_written(config: dict[str, Any]) -> None:
    assert parse_config(json.dumps(config).encode(), "config.json") == config
    assert (
        parse_config(
            b"\xef\xbb\xbf" + json.dumps(config, ensure_ascii=False).encode(), "config.json"
        )
        == config
    )


@unhurried
@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_an_object_or_refused(found: bytes) -> None:
    message = answer(lambda: type(parse_config(found, "config.json")).__name__)
    assert message == "dict" or message.startswith("config.json: is not ")
    assert message.isprintable()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is not JSON: "),
        (b"{", "is not JSON: "),
        (b"[1]", r"is not a JSON object \(found = a list of 1\)"),
        (b"null", r"is not a JSON object \(found = null\)"),
        (b"\xff", "is not UTF-8 text"),
        (b"[" * 200_000, "is nested too deeply"),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "holds an integer of too many digits"),
        (b" " * (LONGEST_CONFIG + 1), f"is longer than {LONGEST_CONFIG} bytes"),
        (b'{"a": 1, "a": 2}', r"gives 'a' twice \(first = 1, then = 2\)\. Keep one of the two"),
        (b'{"b": {"a": 1, "a": null}}', r"gives 'a' twice \(first = 1, then = null\)"),
    ],
)
def test_anything_but_a_config_is_refused_by_its_kind(text: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=f"config.json: {message}"):
        parse_config(text, "config.json")


def test_the_longest_config_is_read() -> None:
    assert parse_config(b"{}" + b" " * (LONGEST_CONFIG - 2), "config.json") == {}


def test_a_field_set_twice_to_one_value_is_read_once() -> None:
    assert parse_config(b'{"hidden_size": 8, "hidden_size": 8}', "config.json") == {
        "hidden_size": 8
    }


# Checking


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    "value", [0, -1, 2**31, 10**30, 1.0, 768.5, float("nan"), "768", True, False, [768], {}]
)
def test_a_size_is_an_integer_that_the_proof_covers(name: str, value: object) -> None:
    if value is not False and value == LEAST[name] == 0:
        assert find(bert(**{name: value})).fields[name] == 0
        return
    least = f"from {LEAST[name]} to"
    with pytest.raises(ConfigError, match=f"{name} must be an integer {least} .*Correct {name}"):
        find(bert(**{name: value}))


@pytest.mark.parametrize("name", sorted(BERT.never_null))
def test_null_is_neither_a_size_nor_a_switch(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} must be .* \({name} = null\)"):
        find(bert(**{name: None}))


def test_the_largest_sizes_are_weighed() -> None:
    largest = dict.fromkeys(SIZES, 2**31 - 1) | {
        "num_hidden_layers": 10_000,
        "num_attention_heads": 1,
    }
    huge = find(bert(**largest))
    assert total(huge) > 10**22
    with pytest.raises(ConfigError, match="num_hidden_layers must be an integer from 1 to 10000"):
        find(bert(num_hidden_layers=10_001))


@pytest.mark.parametrize("value", [1, "true", None, [True]])
def test_a_switch_is_true_or_false(value: object) -> None:
    with pytest.raises(ConfigError, match="is_decoder must be true or false"):
        find(bert(is_decoder=value))


@pytest.mark.parametrize("value", [1.0, "0", True, [0]])
def test_a_padding_token_is_an_integer(value: object) -> None:
    with pytest.raises(ConfigError, match="pad_token_id must be an integer"):
        find(bert(pad_token_id=value))


@pytest.mark.parametrize("rule", BERT.require)
def test_a_rule_that_does_not_hold_is_reported_with_its_values(rule: str) -> None:
    broken = {
        "hidden_size % num_attention_heads == 0": {"hidden_size": 770},
        "is_decoder or not add_cross_attention": {"add_cross_attention": True},
        "pad_token_id < vocab_size": {"vocab_size": 10, "pad_token_id": 10},
        "pad_token_id >= -vocab_size": {"vocab_size": 10, "pad_token_id": -11},
    }[rule]
    with pytest.raises(ConfigError) as caught:
        find(bert(**broken))
    assert f"a model of type bert needs {rule} (" in str(caught.value)
    assert all(
        f"{name} = {str(value).lower()}" in str(caught.value) for name, value in broken.items()
    )


def test_null_leaves_a_field_out_where_the_reference_lets_it() -> None:
    assert find(bert(pad_token_id=None, id2label=None)).fields == find("bert").fields


def test_null_leaves_out_a_field_that_follows_from_others() -> None:
    assert (
        find(bert(num_labels=None, id2label={"0": "a", "1": "b", "2": "c"})).fields["num_labels"]
        == 3
    )


@pytest.mark.parametrize(
    ("label_fields", "labels"),
    [
        ({}, 2),
        ({"num_labels": 5}, 5),
        ({"id2label": {"0": "no", "1": "yes", "2": "perhaps"}}, 3),
        ({"num_labels": 5, "id2label": {"0": "no", "1": "yes", "2": "perhaps"}}, 5),
        ({"num_labels": 5, "id2label": None}, 5),
        ({"num_labels": 5, "id2label": {}}, 5),
        ({"id2label": None}, 2),
    ],
)
def test_the_labels_are_counted_as_the_reference_does(
    label_fields: dict[str, Any], labels: int
) -> None:
    from transformers import BertConfig

    assert BertConfig(**json.loads(json.dumps(label_fields))).num_labels == labels
    assert find(bert(**label_fields)).fields["num_labels"] == labels


def test_labels_must_be_an_object() -> None:
    with pytest.raises(ConfigError, match="id2label must be an object"):
        find(bert(id2label="no"))


@pytest.mark.parametrize(
    "named", [None, [], "BertForMaskedLM", 5, [5], ["GPT2Model"], {}, {"a": 1}]
)
def test_a_config_that_names_no_class_of_the_family_names_the_base(named: object) -> None:
    assert find(bert(architectures=named)).named_class == "BertModel"


def test_a_class_that_the_family_lacks_is_noted() -> None:
    (note,) = find(bert(architectures=["BertForPoetry"])).notes
    assert "the blueprint does not have the class 'BertForPoetry'; it has BertModel, " in note


@pytest.mark.parametrize("family", ["gpt9", "", 5, ["bert"], {}, "BERT"])
def test_a_family_without_a_blueprint_is_refused_with_those_that_have_one(family: object) -> None:
    with pytest.raises(
        ModelError,
        match=r"no blueprint for the model_type .*`weighbridge families` lists them; count it",
    ):
        find({"model_type": family})


def test_a_config_must_name_its_family() -> None:
    with pytest.raises(
        ConfigError,
        match=r"names no model_type\. Name its family with --set model_type=FAMILY",
    ):
        find({"hidden_size": 24})
    assert find({"hidden_size": 24}, {"model_type": "bert"}).fields["hidden_size"] == 24


# Accounting


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_field_of_a_released_config_is_accounted_for(path: Path) -> None:
    found = find(str(path), strict=True)
    assert found.accounts.keys() == json.loads(path.read_text(encoding="utf-8")).keys()
    for name, account in found.accounts.items():
        assert (account == "used") == (name in BERT.fields), name
        assert account == "used" or len(account.removeprefix("changes no shape: ")) > 10, name
    assert found.notes == []


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_a_released_config_has_its_recorded_total(path: Path) -> None:
    with (DATA / "truth.tsv").open(encoding="utf-8", newline="") as file:
        rows = {
            row["file"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        }
    found, row = find(str(path)), rows[path.name]
    assert found.named_class == row["arch_class"]
    assert total(found) == int(row["base_parameters"])
    assert total(found, found.named_class) == int(row["arch_parameters"])


def test_an_unknown_field_is_named_and_strictly_refused() -> None:
    config = bert(colour="red", hidden_size=24)
    found = find(config)
    assert found.unaccounted == ("colour",)
    assert found.accounts["colour"] == "unaccounted"
    assert found.notes == ["the config: ignored fields, with no known effect: colour = 'red'."]
    assert total(found) == total(find(bert(hidden_size=24)))
    with pytest.raises(ConfigError, match=r"colour = 'red'.*Remove them, or drop --strict"):
        find(config, strict=True)


def test_a_misspelled_field_is_named_with_the_likely_one() -> None:
    found = find(bert(hiden_size=24))
    assert found.accounts["hiden_size"] == "unaccounted: likely a misspelling of hidden_size"
    assert "unknown field hiden_size = 24; did you mean hidden_size?" in found.notes[0]


def test_many_unknown_fields_are_named_in_one_short_line() -> None:
    found = find(bert(**{f"field\n{number}" + "x" * 500: "y" * 500 for number in range(5000)}))
    (note,) = found.notes
    assert "and 4992 more" in note
    assert note.isprintable()
    assert len(note) < 2000


@pytest.mark.parametrize(
    ("field", "value", "inert"),
    [
        ("position_embedding_type", "absolute", True),
        ("position_embedding_type", None, True),
        ("position_embedding_type", "relative_key", False),
        ("pruned_heads", {}, True),
        ("pruned_heads", {"0": [1]}, False),
    ],
)
def test_a_reason_that_holds_for_one_value_excuses_no_other(
    field: str, value: object, inert: bool
) -> None:
    found = find(bert(**{field: value}))
    assert (found.unaccounted == ()) == inert
    assert found.accounts[field].startswith("changes no shape: " if inert else "unaccounted")


def test_the_value_of_a_field_without_effect_does_not_matter() -> None:
    text = (
        b'{"model_type": "bert", "layer_norm_eps": NaN, '
        b'"initializer_range": Infinity, "hidden_act": [[]]}'
    )
    found = find(dict(parse_config(text, "config.json")), strict=True)
    assert found.fields == find("bert").fields


@pytest.mark.parametrize("name", ["hidden_size", "pad_token_id"])
def test_a_value_that_is_not_a_number_is_refused_where_a_number_decides(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be an integer.*{name} = nan"):
        find(
            dict(
                parse_config(
                    b'{"model_type": "bert", "' + name.encode() + b'": NaN}', "config.json"
                )
            )
        )


def test_every_inert_field_of_bert_has_a_reason() -> None:
    facts = data.read_toml("facts/fields.toml")
    assert blueprint.load("bert").inert <= facts["reasons"].keys() | facts["any"].keys()
    assert facts["only"].keys() <= facts["reasons"].keys() | facts["any"].keys()


def test_every_reason_is_some_family_s() -> None:
    inert = {
        name.rpartition(".")[2]
        for family in blueprint.families()
        for name in blueprint.load(family).inert
    }
    assert data.read_toml("facts/fields.toml")["reasons"].keys() <= inert


# The class that is weighed by default


def classes_above_the_base() -> dict[str, str]:
    """Return the family of each class that has a blueprint and is not the base class."""
    families = {}
    for family in blueprint.families():
        for class_name in blueprint.load(family).class_names[1:]:
            families[class_name] = family
    return families


def test_transformers_classes_for_generation_are_generative() -> None:
    from transformers.models.auto import modeling_auto

    mappings = (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
    )
    names = {name for mapping in mappings for name in mapping.values()}
    assert "MarianMTModel" in names
    assert "ReformerModelWithLMHead" in names
    # It is from another repository; transformers only knows its name.
    assert {name for name in names if not is_generative(name)} == {"NemotronH_Omni_Reasoning_V3"}


@pytest.mark.slow
def test_a_class_is_generative_if_and_only_if_transformers_can_generate_with_it() -> None:
    import transformers

    known = {name: getattr(transformers, name, None) for name in classes_above_the_base()}
    generates = {
        name: kind.can_generate()
        for name, kind in known.items()
        if kind is not None and "PreTrainedModel" not in name
    }
    assert len(generates) > 850
    assert {name for name in generates if is_generative(name)} == {
        name for name in generates if generates[name]
    }


# Sub-configs, aliases, and the region in which a blueprint was proved

NESTED = {
    "format": 2,
    "family": "nested",
    "source": "made up",
    "class": "Base",
    "require": ["text_config.width % text_config.heads == 0"],
    "inert": ["text_config.act", "n_ctx"],
    "nullable": ["rank", "pool"],
    "zero": ["shared"],
    "beyond": ["old_ratios", "text_config.old"],
    "values": {"kinds": ["full", "slide"], "pool": ["mean"], "text_config.act": ["gelu"]},
    "spelled": {
        "kinds": {"f": "full", "s": "slide", "0": "full", "4": "slide", "sliding": "slide"}
    },
    "proof": {"by": "nothing", "against": "nothing", "configs": 1},
    "defaults": {
        "rank": 3,
        "shared": 1,
        "ratio": 2.5,
        "pool": "mean",
        "text_config.width": 8,
        "text_config.heads": 2,
        "text_config.inner.size": 5,
        "text_config.wide": 7,
        "rate": 16000,
        "depths": [2, 1],
        "both": 2,
    },
    "given": {"text_config.width": 6, "text_config.wide": "null"},
    "configs": {"text_config": "llama", "text_config.inner": ""},
    "aliases": {
        "n_shared": "shared",
        "text_config.d_model": "text_config.width",
        "n_positions": "n_ctx",
        "pattern": "kinds",
    },
    "computed": {
        "head": "text_config.width // text_config.heads",
        "low": "null",
        "both": "shared + 4",
        "text_config.wide": "text_config.width * 3",
        "kinds": '["full" if i == 0 else "slide" for i in range(sum(depths))]',
    },
    "repeat": {"i": "sum(depths)", "j": "rate // 8000"},
    "tensors": {
        "a.w": "rank",
        "b.w": "low",
        "c.w": "text_config.width head text_config.inner.size",
        "g.{j}.w": "text_config.wide",
        "d.w": "shared int(ratio*4)",
        "e.{i}.w": "1",
        "f.w": "both",
    },
    "when": {
        "a": "rank != null",
        "b": "low != null",
        "e.{i}": 'kinds[i] == "full"',
        "f": 'pool != null and pool == "mean"',
    },
    "modules": {**dict.fromkeys("abcdf", "M"), "e.{i}": "M", "g.{j}": "M"},
}


@pytest.fixture
def nested(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Model]:
    """Return a finder of configs of a made-up family."""
    made_up = Blueprint(NESTED)
    check(NESTED)
    monkeypatch.setattr(blueprint, "families", lambda: ["bert", "nested"])
    monkeypatch.setattr(blueprint, "is_family", ["bert", "nested"].__contains__)
    monkeypatch.setattr(blueprint, "load", {"bert": BERT, "nested": made_up}.__getitem__)

    def finder(fields: dict[str, Any] | None = None, **config: Any) -> Model:
        return find({"model_type": "nested", **config}, fields)

    return finder


def test_a_config_that_says_nothing_is_its_defaults(nested: Callable[..., Model]) -> None:
    fields = nested().fields
    assert fields == {
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in NESTED["defaults"].items()
        },
        "head": 4,
        "low": None,
        "kinds": ("full", "slide", "slide"),
    }
    assert nested().values["low"] is None
    names = [row.name for row in bind(nested().blueprint, "Base", fields).rows]
    assert names == ["a.w", "c.w", "g.0.w", "g.1.w", "d.w", "e.0.w", "f.w"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"text_config": None}, {"text_config.width": 8}),
        ({"text_config": {}}, {"text_config.width": 6, "text_config.heads": 2, "head": 3}),
        ({"text_config": {"width": 4}}, {"text_config.width": 4, "head": 2}),
        (
            {"text_config": {"inner": {"size": 9}}},
            {"text_config.inner.size": 9, "text_config.width": 6},
        ),
        ({"text_config": {"d_model": 4}}, {"text_config.width": 4, "text_config.wide": 12}),
        ({"text_config": None}, {"text_config.wide": 7}),
        ({"text_config": {"wide": 5}}, {"text_config.wide": 5}),
        ({"rate": 24000}, {"rate": 24000}),
        ({"text_config": {"d_model": 4, "width": 4}}, {"text_config.width": 4}),
        ({"text_config": {"model_type": "llama"}}, {"text_config.width": 6}),
        (
            {"text_config": {"model_type": None, "inner": {"model_type": "any"}}},
            {"text_config.width": 6},
        ),
        ({"rank": None}, {"rank": None}),
        ({"pool": None}, {"pool": None}),
        ({"n_shared": 0}, {"shared": 0}),
        ({"n_shared": 1, "shared": None}, {"shared": 1}),
        ({"shared": 1, "n_shared": None}, {"shared": 1}),
        ({"shared": 1, "n_shared": 1}, {"shared": 1}),
        ({"head": None}, {"head": 4}),
        ({"head": 7}, {"head": 7}),
        ({"both": None}, {"both": 5}),
        ({"both": 3}, {"both": 3}),
        ({"low": 2}, {"low": 2}),
        ({"ratio": 3}, {"ratio": 3}),
        (
            {"depths": [1, 1, 2]},
            {"depths": (1, 1, 2), "kinds": ("full", "slide", "slide", "slide")},
        ),
        ({"kinds": ["slide", "slide", "full"]}, {"kinds": ("slide", "slide", "full")}),
        ({"kinds": ["slide", "sliding", "full"]}, {"kinds": ("slide", "slide", "full")}),
        ({"pattern": "sfs"}, {"kinds": ("slide", "full", "slide")}),
        ({"pattern": [4, 0, 4]}, {"kinds": ("slide", "full", "slide")}),
        (
            {"pattern": "ssf", "kinds": ["slide", "sliding", "full"]},
            {"kinds": ("slide", "slide", "full")},
        ),
    ],
)
def test_a_config_is_read_as_the_reference_reads_it(
    nested: Callable[..., Model], config: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = nested(**config)
    assert {name: found.fields[name] for name in expected} == expected
    assert found.unaccounted == ()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"text_config": 5},
            "text_config must be an object (text_config = 5). Give its fields, or remove it.",
        ),
        (
            {"text_config": {"inner": []}},
            "text_config.inner must be an object (text_config.inner = a list of 0).",
        ),
        (
            {"text_config": {"model_type": "qwen2"}},
            (
                "the blueprint of nested covers only llama as its text_config "
                "(text_config.model_type = "
            ),
        ),
        (
            {"text_config.width": 4},
            "text_config.width belongs to a sub-config (text_config.width = 4). Give it",
        ),
        (
            {"old_ratios": [4]},
            ("sets old_ratios, which the blueprint of nested does not cover (old_"),
        ),
        (
            {"per_layer_config": {"0": {}}},
            "sets per_layer_config, which the blueprint of nested does not cover",
        ),
        (
            {"text_config": {"old": 0}},
            "sets text_config.old, which the blueprint of nested does not cover",
        ),
        (
            {"text_config": {"width": 7}},
            (
                "a model of type nested needs text_config.width % text_config.heads == 0 "
                "(text_config.width"
            ),
        ),
        (
            {"text_config": {"width": 0}},
            "text_config.width must be an integer from 1 to 2147483647",
        ),
        (
            {"text_config": {"d_model": 4, "width": 6}},
            "gives text_config.width twice (text_config.d_model = 4, text_co",
        ),
        (
            {"n_shared": 1, "shared": 2},
            "gives shared twice (n_shared = 1, shared = 2). Keep one of the two.",
        ),
        ({"shared": None}, "shared must be an integer from 0 to 2147483647 (shared = null)"),
        ({"shared": -1}, "shared must be an integer from 0 to 2147483647 (shared = -1)"),
        ({"rank": 0}, "rank must be an integer from 1 to 2147483647 (rank = 0)"),
        ({"ratio": "2"}, "ratio must be a number (ratio = '2')"),
        ({"ratio": True}, "ratio must be a number"),
        ({"ratio": float("nan")}, "ratio must be a number (ratio = nan)"),
        ({"head": 2.0}, "head must be an integer from 1"),
        ({"low": [1]}, "low must be an integer from 1"),
        ({"depths": 3}, "depths must be a list of at most 10000 items (depths = 3)"),
        (
            {"depths": [1] * 10_001},
            "depths must be a list of at most 10000 items (depths = a list of 10001)",
        ),
        ({"depths": ["1"]}, 'kinds is computed from other fields, but ["full" if'),
        ({"depths": []}, ""),
        (
            {"kinds": ["full", "sparse", "slide"]},
            (
                "the blueprint of nested covers kinds only as 'full' or 'slide' "
                "(kinds = 'sparse'). Correct"
            ),
        ),
        (
            {"pattern": "fx"},
            ("the blueprint of nested covers kinds only as 'full' or 'slide' (kinds = 'x"),
        ),
        (
            {"pattern": [0, 5]},
            ("the blueprint of nested covers kinds only as 'full' or 'slide' (kinds = 5"),
        ),
        (
            {"pattern": "fs", "kinds": ["slide"]},
            "gives kinds twice (pattern = 'fs', kinds = a list of 1). Keep one of",
        ),
        (
            {"pool": "max"},
            "the blueprint of nested covers pool only as 'mean' (pool = 'max').",
        ),
    ],
)
def test_fields_outside_the_region_are_reported(
    nested: Callable[..., Model], config: dict[str, Any], message: str
) -> None:
    def question() -> str:
        return nested(**config).where * 0

    assert answer(question).removeprefix("the config: ").startswith(message)
    assert bool(answer(question)) == bool(message)


def test_fields_of_sub_configs_are_accounted_for_under_their_dotted_names(
    nested: Callable[..., Model],
) -> None:
    inside = {"width": 4, "act": "gelu", "use_cache": True, "widht": 3, "model_type": "llama"}
    found = nested(text_config=inside, n_positions=2)
    assert found.accounts == {
        "model_type": "changes no shape: names the family",
        "text_config": "used",
        "text_config.width": "used",
        "text_config.act": "changes no shape: it changed no tensor when the blueprint was proved",
        "text_config.use_cache": (
            "changes no shape: keeps keys and values between steps of generation"
        ),
        "text_config.widht": "unaccounted: likely a misspelling of text_config.width",
        "text_config.model_type": "changes no shape: names the family",
        "n_positions": "changes no shape: it changed no tensor when the blueprint was proved",
    }
    assert "ignored fields, with no known effect: text_config.widht = 3" in found.notes[0]
    assert nested(text_config={"act": "relu"}).unaccounted == ("text_config.act",)


def test_a_dotted_field_is_replaced_inside_its_sub_config(nested: Callable[..., Model]) -> None:
    config = {"text_config": {"width": 4, "inner": {"size": 1}}}
    found = nested({"text_config.width": 2, "text_config.inner.size": 7}, **config)
    assert (found.fields["text_config.width"], found.fields["text_config.inner.size"]) == (2, 7)
    assert config == {"text_config": {"width": 4, "inner": {"size": 1}}}
    assert nested({"text_config.inner.size": 7}, text_config=None).fields["text_config.width"] == 6
    assert nested({"text_config": {"width": 2}}, **config).fields["text_config.inner.size"] == 5
    with pytest.raises(
        UsageError,
        match=r"field text_config\.widht\. Did you mean text_config\.width, text_config\.wide or",
    ):
        nested({"text_config.widht": 2})
    with pytest.raises(UsageError, match=r"nested has no field text_config\.widht"):
        nested({"text_config": {"widht": 2}})
    with pytest.raises(
        UsageError, match=r"depths has no fields \(depths = a list of 1, depths\.a = 2\)"
    ):
        nested({"depths.a": 2}, depths=[1])


def test_a_field_set_by_hand_wins_over_another_spelling_of_it(nested: Callable[..., Model]) -> None:
    assert nested({"n_shared": 4}, shared=2).fields["shared"] == 4
    assert nested({"shared": 4}, n_shared=2).fields["shared"] == 4


def test_an_unknown_family_names_the_nearest_not_all(
    nested: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        blueprint, "families", lambda: ["bert", *(f"family_{number}" for number in range(611))]
    )
    with pytest.raises(ModelError) as caught:
        find({"model_type": "bertt"})
    assert str(caught.value) == (
        "the config: there is no blueprint for the model_type 'bertt'. 612 families have one, "
        "such as bert; "
        "`weighbridge families` lists them; count it with --via transformers, if transformers is "
        "installed."
    )


def test_names_are_matched_by_likeness_nearest_first() -> None:
    assert nearest(["hidden_size", "vocab_size", "hidden_act"], "hidden_siz") == ["hidden_size"]
    assert nearest(["BertModel", "BertForMaskedLM"], "bertmodel") == ["BertModel"]
    assert nearest(["hidden_size"], "colour") == []


def test_changing_an_answer_changes_no_other_answer() -> None:
    before = weigh("bert").to_dict()
    config = {"model_type": "bert", "id2label": {"0": "a"}}
    held = weigh(config)
    released()["google-bert/bert-base-chinese"]["config"]["hidden_size"] = 12
    weigh("bert").to_dict()["config"]["id2label"]["9"] = "x"
    config["id2label"]["1"] = "b"
    config["hidden_size"] = 24
    assert weigh("bert").to_dict() == before
    assert weigh("BERT-base-chinese").parameters == 102_267_648
    assert held.model.values["hidden_size"] == 768
    assert held.model.values["id2label"] == {"0": "a"}
    assert "hidden_size" not in held.model.config
    with pytest.raises(TypeError):
        weigh("bert").model.fields["id2label"]["9"] = "x"


@pytest.mark.parametrize(
    "family",
    ["llava", "llava_next", "llava_next_video", "llava_onevision", "mistral3", "video_llava"],
)
def test_a_projector_is_as_wide_as_the_layers_that_it_reads(family: str) -> None:
    """Granite Vision and others read several layers, which a list names."""
    one = weigh(family)
    assert weigh(family, fields={"vision_feature_layer": -3}).parameters == one.parameters
    assert weigh(family, fields={"vision_feature_layer": [-3]}).parameters == one.parameters
    three = weigh(family, fields={"vision_feature_layer": [-3, -2, -1]})
    sizes = one.model.fields
    wider = 2 * sizes["vision_config.hidden_size"] * sizes["text_config.hidden_size"]
    assert three.parameters - one.parameters == wider


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        ({"num_layers": 12}, ["unknown field num_layers = 12; did you mean num_hidden_layers?"]),
        ({"n_kv_heads": 4}, ["unknown field n_kv_heads = 4; did you mean num_key_value_heads?"]),
        ({"num_layer_norms": 12}, ["ignored fields, with no known effect: num_layer_norms = 12."]),
        ({"eoa_token_id": 7, "video_token_index": 8}, []),
    ],
)
def test_a_name_of_another_family_is_no_misspelling(
    given: dict[str, int], notes: list[str]
) -> None:
    found = weigh({"model_type": "llama", **given}).notes
    assert [note.partition(": ")[2] for note in found] == notes
