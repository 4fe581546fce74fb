"""The catalogue of released models: its form, and whether it agrees with tests/data."""

import csv
import json
import re
import tomllib
from collections import Counter
from pathlib import Path

import weighbridge

CATALOGUE = Path(weighbridge.__file__).parent / "data" / "facts" / "models.toml"
DATA = Path(__file__).parents[1] / "data"

SHAPE = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
CLASSES = {
    "BertModel",
    "BertForMaskedLM",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
}
LABELLED = {"BertForSequenceClassification", "BertForTokenClassification"}


def text() -> str:
    return CATALOGUE.read_text(encoding="utf-8")


def models() -> dict[str, dict]:
    return tomllib.loads(text())


def truth() -> list[dict[str, str]]:
    with (DATA / "truth.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_every_model_stands_under_a_plain_header_line():
    headers = re.findall(r'(?<=\n\n)\["([^"\s/]+/[^"\s/]+)"\]\n', text())
    assert Counter(headers) == Counter(list(models()))
    assert len(headers) == len(re.findall(r"^\s*\[", text(), flags=re.MULTILINE)), (
        "a table that is no model"
    )


def test_the_text_is_ascii_so_that_lower_case_keeps_every_place():
    assert text().isascii()


def test_entries_have_the_known_keys_and_no_others():
    for name, entry in models().items():
        keys = ["family", "class", "config", "parameters", "source"]
        assert list(entry) == keys + ["aliases"] * ("aliases" in entry), name
        assert entry["family"] == "bert", name
        assert entry["class"] in CLASSES, name


def test_every_entry_says_where_its_numbers_were_read():
    for name, entry in models().items():
        source = entry["source"]
        assert source, name
        assert all(
            re.match(r"(pypi:\S+==|github:\S+@|page \S+/)\S+", part) for part in first_words(source)
        ), name


def first_words(source: str) -> list[str]:
    """The parts that cite something: the rest are remarks."""
    remarks = (
        "class not named there",
        "vocabulary and feed-forward size",
        "shape and vocabulary of",
    )
    return [part for part in source.split("; ") if not part.startswith(remarks)]


def test_short_names_and_aliases_point_to_one_model():
    spoken = Counter()
    for name, entry in models().items():
        spoken.update({part.casefold() for part in (name, name.partition("/")[2])})
        spoken.update(alias.casefold() for alias in entry.get("aliases", []))
    assert [word for word, times in spoken.items() if times > 1] == []


def test_aliases_are_never_an_empty_list():
    assert all(entry.get("aliases", ["some"]) for entry in models().values())


def test_configs_are_whole():
    for name, entry in models().items():
        config = entry["config"]
        assert tuple(config) == SHAPE + ("num_labels",) * (entry["class"] in LABELLED), name
        assert all(type(value) is int and value > 0 for value in config.values()), name
        assert config["hidden_size"] % config["num_attention_heads"] == 0, name


def test_totals_are_positive_integers():
    for name, entry in models().items():
        assert type(entry["parameters"]) is int, name
        assert entry["parameters"] > 0, name


def test_names_that_state_their_shape_keep_it():
    for name, entry in models().items():
        stated = re.search(r"_L-(\d+)_H-(\d+)", name)
        if stated:
            config = entry["config"]
            assert (config["num_hidden_layers"], config["hidden_size"]) == tuple(
                map(int, stated.groups())
            ), name
            assert config["intermediate_size"] == 4 * config["hidden_size"], name


def test_every_fixture_is_in_the_catalogue_with_the_same_total_and_shapes():
    known = models()
    rows = truth()
    assert {row["file"] for row in rows} == {path.name for path in (DATA / "configs").iterdir()}
    for row in rows:
        name = row["model_id"]
        entry = known[name]
        config = json.loads((DATA / "configs" / row["file"]).read_text(encoding="utf-8"))
        assert row["base_class"] == "BertModel", name
        assert entry["parameters"] == int(row["base_parameters"]), name
        assert entry["class"] == row["arch_class"], name
        assert entry["config"] == {key: config[key] for key in SHAPE}, name


def test_the_totals_that_everybody_quotes():
    known = models()
    quoted = {
        "google-bert/bert-base-uncased": 109_482_240,
        "google-bert/bert-base-cased": 108_310_272,
        "google-bert/bert-base-chinese": 102_267_648,
        "google-bert/bert-large-uncased": 335_141_888,
        "google-bert/bert-base-multilingual-cased": 177_853_440,
    }
    assert {name: known[name]["parameters"] for name in quoted} == quoted
