"""The catalogue of released models: its format, its names, and the totals of its entries."""

import csv
import json
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import weighbridge
from weighbridge.blueprint import schema
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger.ledger import bind
from weighbridge.models import catalogue
from weighbridge.models.find import find

CATALOGUE = Path(weighbridge.__file__).parent / "data" / "facts" / "models.toml"
DATA = Path(__file__).parents[1] / "data"

LARGEST = 480_000  # bytes
FEWEST_RELEASES = 600
FEWEST_FAMILIES = 120

REQUIRED = {"family", "class", "config", "parameters", "how", "source"}
OPTIONAL = {
    "class_assumed",
    "null",
    "base_parameters",
    "active",
    "released_parameters",
    "released_reason",
    "aliases",
}
HOW = {"verbatim", "copy", "reconstructed", "default"}

SHAPE = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)


def text() -> str:
    return CATALOGUE.read_text(encoding="utf-8")


ENTRIES = tomllib.loads(text())


def truth() -> list[dict[str, str]]:
    with (DATA / "truth.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def totals(entry: dict) -> dict[str, int]:
    """Return the recorded totals of an entry: of its default class and of its base class."""
    base_class = schema.load(entry["family"]).base_class
    model = find(catalogue.entry_config(entry))
    base_parameters = entry.get("base_parameters", entry["parameters"])
    return {model.default_class: entry["parameters"], base_class: base_parameters}


# Size and format


def test_it_has_the_models_that_people_ask_for():
    assert len(ENTRIES) >= FEWEST_RELEASES
    assert len({entry["family"] for entry in ENTRIES.values()}) >= FEWEST_FAMILIES
    assert CATALOGUE.stat().st_size <= LARGEST


def test_every_model_stands_under_a_plain_header_line():
    headers = re.findall(r'(?<=\n\n)\["([^"\s]+)"\]\n', text())
    assert headers == list(ENTRIES)
    tables = re.findall(r"^\s*\[", text(), flags=re.MULTILINE)
    assert len(headers) == len(tables), "a table that is not a model's"


def test_the_text_is_ascii_so_that_lower_case_keeps_every_place():
    assert text().isascii()


def test_entries_have_the_known_keys_and_no_others():
    for name, entry in ENTRIES.items():
        assert entry.keys() >= REQUIRED, name
        assert entry.keys() <= REQUIRED | OPTIONAL, name
        assert schema.is_family(entry["family"]), name
        assert entry["class"] in schema.load(entry["family"]).class_names, name
        assert entry["how"] in HOW, name
        assert entry.get("class_assumed", True) is True, name
        assert ("released_reason" in entry) == ("released_parameters" in entry), name
        assert not any("." in field for field in entry.get("null", ())), name


def test_every_entry_says_where_its_config_was_read():
    address = (
        r"(pypi:\S+==\S+ \S+|github:\S+@[0-9a-f]{10} \S+|page (huggingface\.co|thebeat\.tech)/\S+)"
    )
    for name, entry in ENTRIES.items():
        for part in entry["source"].split("; "):
            assert re.match(address, part), (name, part)


def test_an_entry_with_the_defaults_of_a_class_cites_the_class():
    for name, entry in ENTRIES.items():
        cites_class = entry["source"].startswith("pypi:transformers==5.23.0 models/")
        assert (entry["how"] == "default") == cites_class, name


def test_short_names_and_aliases_point_to_one_model():
    spellings = Counter()
    for name, entry in ENTRIES.items():
        spellings.update({part.casefold() for part in (name, name.rpartition("/")[2])})
        spellings.update(alias.casefold() for alias in entry.get("aliases", []))
    assert [spelling for spelling, times in spellings.items() if times > 1] == []


def test_lists_are_never_empty():
    for name, entry in ENTRIES.items():
        assert entry.get("aliases", ["some"]), name
        assert entry.get("null", ["some"]), name


# Totals


def test_every_entry_has_its_recorded_totals():
    for name, entry in ENTRIES.items():
        model = find(catalogue.entry_config(entry))
        for class_name, total in totals(entry).items():
            ledger = bind(model.blueprint, class_name, model.fields)
            assert ledger.parameters == total, (name, class_name)


def test_active_parameters_are_recorded_where_there_are_experts():
    for name, entry in ENTRIES.items():
        model = find(catalogue.entry_config(entry))
        ledger = bind(model.blueprint, model.default_class, model.fields)
        active = ledger.active if ledger.has_experts else None
        assert entry.get("active") == active, name


def test_the_total_of_the_base_class_is_recorded_only_where_it_differs():
    for name, entry in ENTRIES.items():
        assert entry["parameters"] != entry.get("base_parameters"), name


def shapes_of(entry: dict) -> str:
    """Return what decides the totals: the config without the dtype, and the counted classes."""
    config = {**catalogue.entry_config(entry), "dtype": None, "architectures": None}
    return json.dumps([config, sorted(totals(entry))])


@pytest.mark.sampled("src/weighbridge/data/facts/models.toml", "src/weighbridge/models")
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("family", sorted({entry["family"] for entry in ENTRIES.values()}))
def test_transformers_counts_what_every_entry_records(family: str, monkeypatch):
    import torch
    import transformers
    from transformers.initialization import no_init_weights
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.videomae import modeling_videomae

    # It computes a million numbers, one by one, for a tensor that is not a parameter.
    table = "get_sinusoid_encoding_table"
    monkeypatch.setattr(modeling_videomae, table, lambda rows, size: torch.empty(1, rows, size))
    known = {}
    for name, entry in ENTRIES.items():
        shapes = shapes_of(entry) if entry["family"] == family else ""
        for class_name, total in totals(entry).items() if shapes else ():
            if shapes + class_name not in known:
                with torch.device("meta"), no_init_weights():  # only shapes count
                    fields = catalogue.entry_config(entry)
                    fields.pop("quantization_config", None)  # it would load other code
                    config = CONFIG_MAPPING[family].from_dict(fields)
                    model_class = getattr(transformers, class_name)
                    model = model_class._from_config(config, attn_implementation="eager")
                    model.tie_weights()
                known[shapes + class_name] = sum(weight.numel() for weight in model.parameters())
            assert known[shapes + class_name] == total, (name, class_name)


def test_a_release_with_a_head_of_its_own_holds_that_much_more():
    for name, entry in ENTRIES.items():
        if entry.get("released_reason") == "untied_head":
            config = entry["config"]
            head = config["vocab_size"] * config["d_model"]
            assert entry["released_parameters"] == entry["parameters"] + head, name
    assert ENTRIES["google/flan-t5-base"]["released_parameters"] == 247_577_856
    assert ENTRIES["google/mt5-small"]["released_parameters"] == 300_176_768


def test_names_that_state_their_shape_keep_it():
    for name, entry in ENTRIES.items():
        stated = re.search(r"_L-(\d+)_H-(\d+)", name)
        if stated:
            config = entry["config"]
            layers, hidden_size = map(int, stated.groups())
            assert config["num_hidden_layers"] == layers, name
            assert config["hidden_size"] == hidden_size, name
            assert config["intermediate_size"] == 4 * hidden_size, name


def test_names_that_state_their_size_keep_it_where_the_config_is_a_class_s_defaults():
    sizes = {"m": 1e6, "b": 1e9, "t": 1e12}
    for name, entry in ENTRIES.items():
        stated = re.search(r"(?<![A-Za-z\d.])([\d.]+)([MBT])(?![A-Za-z\d])", name, re.IGNORECASE)
        if entry["how"] == "default" and stated:
            size = float(stated[1]) * sizes[stated[2].lower()]
            assert 0.85 < entry["parameters"] / size < 1.25, name


def test_every_fixture_is_in_the_catalogue_with_the_same_total_and_shapes():
    rows = truth()
    assert {row["file"] for row in rows} == {path.name for path in (DATA / "configs").iterdir()}
    for row in rows:
        name = row["model_id"]
        entry = ENTRIES[name]
        config = json.loads((DATA / "configs" / row["file"]).read_text(encoding="utf-8"))
        assert row["base_class"] == "BertModel", name
        assert entry["parameters"] == int(row["base_parameters"]), name
        assert entry["class"] == row["arch_class"], name
        assert entry["config"] == {key: config[key] for key in SHAPE}, name


def test_the_totals_that_everybody_quotes():
    quoted = {
        "google-bert/bert-base-uncased": 109_482_240,
        "google-bert/bert-base-cased": 108_310_272,
        "google-bert/bert-base-chinese": 102_267_648,
        "google-bert/bert-large-uncased": 335_141_888,
        "google-bert/bert-base-multilingual-cased": 177_853_440,
        "openai-community/gpt2": 124_439_808,
        "meta-llama/Meta-Llama-3-8B": 8_030_261_248,
        "mistralai/Mistral-7B-v0.1": 7_241_732_096,
        "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
        "deepseek-ai/DeepSeek-V3": 671_026_404_352,
    }
    assert {name: ENTRIES[name]["parameters"] for name in quoted} == quoted


RUNS = (
    {"batch": 2, "sequence": 384, "train": True, "dtype": "bf16"},
    {"past": 60_000, "decode": True, "dtype": "bf16"},
)


def cost_of(described: str, run: dict) -> list | None:
    """Return the figures of a run; None if it is refused."""
    try:
        found = weighbridge.cost(described, **run)
    except WeighbridgeError:
        return None
    saved = [found.saved_for_backward_bytes, found.checkpointed_bytes, found.cache_bytes]
    return [found.forward_matmul_flops, found.step_matmul_flops, *saved, found.weight_bytes]


def test_a_release_costs_what_its_own_config_does():
    names = {name.lower(): name for name in ENTRIES}
    compared = 0
    for path in sorted((DATA / "real").glob("*.json")):
        name = names.get(path.stem.replace("__", "/").lower())
        for run in RUNS if name else ():
            of_file = cost_of(str(path), run)
            if of_file is not None:
                assert cost_of(name, run) == of_file, (name, run)
                compared += 1
    assert compared > 80
