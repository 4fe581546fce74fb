"""Published numbers: the ways of counting that give them, tables, slips and bad input."""

import csv
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write
from hypothesis import given, settings
from hypothesis import strategies as st

import weighbridge as wb
from weighbridge import data
from weighbridge.answers.conventions import Conventions
from weighbridge.answers.reconcile import verdict
from weighbridge.answers.reconcile_table import reconcile_table
from weighbridge.blueprint.schema import families
from weighbridge.cli import main
from weighbridge.counting.conventions import (
    WITH,
    WITHOUT,
    formula_value,
    lora_parameters,
    padded,
    rows_of,
    table,
    unique_parameters,
)
from weighbridge.counting.published import KnownClaim
from weighbridge.counting.reconciliation import Way, read_number, reconcile_model, search_of
from weighbridge.errors import UsageError
from weighbridge.ledger.ledger import bind
from weighbridge.models.find import find
from weighbridge.render.table import width

BASE = "bert-base-uncased"


def steps(way: Way) -> dict[str, int]:
    return {step.convention: step.change for step in way.steps}


# Numbers


@pytest.mark.parametrize(
    ("text", "value", "half"),
    [
        ("108808704", 108_808_704, "0.5"),
        ("108,808,704", 108_808_704, "0.5"),
        ("108_808_704", 108_808_704, "0.5"),
        ("１０８，８０８，７０４", 108_808_704, "0.5"),
        ("110M", 110_000_000, "500000"),
        ("~110 M", 110_000_000, "500000"),
        ("0.11B", 110_000_000, "5000000"),
        ("1.1亿", 110_000_000, "5000000"),
        ("约1.1 亿", 110_000_000, "5000000"),
        ("11000万", 110_000_000, "5000"),
        ("1.18M", 1_180_000, "5000"),
        ("340 million", 340_000_000, "500000"),
    ],
)
def test_a_number_is_read_as_people_write_it(text: str, value: int, half: str) -> None:
    read = read_number(text)
    assert (read.value, read.half, read.is_bytes) == (value, Fraction(half), False)


def test_bytes_are_read_in_both_units() -> None:
    assert read_number("413.18 MB").scales == (10**6, 2**20)
    assert read_number("418MiB").scales == (2**20,)
    assert read_number("4KB").is_bytes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "12x",
        "1.2.3",
        "-5",
        "1e9",
        "9**9**9",
        "1" * 400,
        "1" * 31,
        "12,34",
        "nan",
        "５Ｘ",
        "1,000,00",
    ],
)
def test_anything_but_a_number_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=r"108808704, 108,808,704, 110M|digits|unit"):
        read_number(text)
    assert (
        main(
            ["reconcile", BASE, text]
            if not text.startswith("-")
            else ["reconcile", BASE, "--", text]
        )
        == 2
    )
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert len(printed.err) < 400


# The claims about BERT


@pytest.mark.parametrize(
    ("model", "stated", "class_name", "changes"),
    [
        ("bert-base-chinese", "102,267,648", "BertModel", {}),
        (BASE, "108,808,704", "BertModel", {"linear_biases": -82_944, "pooler": -590_592}),
        (BASE, "109,396,992", "BertModel", {"linear_biases": -83_712, "embedding_norm": -1_536}),
        (BASE, "110M", "BertForPreTraining", {}),
        ("bert-large-uncased", "340M", "BertForPreTraining", {}),
        (BASE, "1.18M", "BertModel", {"two_square_heads": 1_181_184 - 109_482_240}),
        (BASE, "109,482,240", "BertModel", {}),
        (BASE, "108,891,648", "BertModel", {"pooler": -590_592}),
        (BASE, "109,514,298", "BertForMaskedLM", {}),
        (BASE, "110,106,428", "BertForPreTraining", {}),
        ("bert-base-cased", "413.18 MB", "BertModel", {"buffers": 1_024}),
        ("gpt2", "124,475,904", "GPT2Model", {"padded_vocabulary": 36_096}),
    ],
)
def test_a_claim_is_reconciled_to_its_convention(
    model: str, stated: str, class_name: str, changes: dict[str, int]
) -> None:
    first = wb.reconcile(model, stated).matches[0]
    assert first.class_name == class_name
    assert steps(first) == changes


def test_110m_is_the_pre_training_class_and_others_ranked() -> None:
    found = wb.reconcile(BASE, "110M")
    assert [(way.class_name, steps(way)) for way in found.matches[:2]] == [
        ("BertForPreTraining", {}),
        ("BertForMaskedLM", {}),
    ]
    assert "BertForPreTraining, all parameters: 110,106,428" in found.text()


def test_the_bytes_of_a_checkpoint_are_float32_and_two_buffers_in_mebibytes() -> None:
    first = wb.reconcile("bert-base-cased", "413.18 MB").matches[0]
    assert (first.dtype, first.scale, first.bytes) == ("F32", 2**20, 108_310_272 * 4 + 2 * 512 * 8)
    assert wb.reconcile("bert-base-cased", "418.18 MB").status == 1


@pytest.mark.parametrize("stated", ["109,418,952", "109,417,952", "418.18 MB"])
def test_a_number_that_nothing_gives_has_closest_matches(
    stated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reconcile", BASE, stated, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["matches"] == []
    assert found["nearest"]
    near = found["nearest"][0]
    assert near["gap"] != 0


@pytest.mark.parametrize(
    ("stated", "what", "values"),
    [
        (109_482_340, "digit", {"place": 3, "stated": "3", "true": "2"}),
        (109_842_240, "swapped", {"digits": "84"}),
        (
            109_482_240 + 2 * 30_522 * 768,
            "term_more",
            {"name": "embeddings.word_embeddings.weight", "times": 2},
        ),
        (
            109_482_240 - 12 * 768,
            "term_less",
            {"name": "encoder.layer.{i}.attention.self.query.bias", "times": 1},
        ),
        (
            109_482_240 - 768 * 3_072,
            "place_less",
            {"name": "encoder.layer.{i}.intermediate.dense.weight", "times": 1},
        ),
        (
            109_482_240 + 2 * 768 * 3_072,
            "place_more",
            {"name": "encoder.layer.{i}.output.dense.weight", "times": 2},
        ),
    ],
)
def test_a_gap_is_named_by_the_count_it_equals(
    stated: int, what: str, values: dict[str, Any]
) -> None:
    found = wb.reconcile(BASE, stated)
    assert not found.matches
    assert (what, values) in [
        reason for near in found.models[0].ways.nearest for reason in near.gap_is
    ]
    assert ", as if " in " ".join(found.text().split())


# Every convention


@pytest.mark.parametrize(
    "name", [name for name, entry in table().items() if not isinstance(entry["example"], dict)]
)
def test_a_convention_gives_its_example(name: str) -> None:
    entry = table()[name]
    model_name, class_name, value = entry["example"]
    model = find(model_name)
    rows = rows_of(bind(model.blueprint, class_name, model.fields))
    plain = {row.at: row.elements for row in rows if not row.tied and not row.buffer}
    kind = entry["kind"]
    if kind == "without":
        gone = {row.at for row in WITHOUT[name](rows)}
        assert sum(size for row, size in plain.items() if row not in gone) == value
    elif kind in ("with", "fewer"):
        assert unique_parameters(rows) + sum(row.elements for row in WITH[name](rows)) == value
    elif kind == "padded":
        more = [
            sum(padded(rows, multiple).get(row, 0) for row in plain)
            for multiple in entry["multiples"]
        ]
        assert value in [unique_parameters(rows) + padding for padding in more]
    elif kind == "active":
        assert sum(row.active for row in rows if row.at in plain) == value
    elif kind == "instead":
        assert formula_value(rows, entry) == value
    else:
        assert value in [
            lora_parameters(rows, rank, target["roles"])
            for rank in entry["ranks"]
            for target in entry["targets"].values()
        ]
    ways = reconcile_model(model, read_number(value)).matches
    assert any(name in steps(way) for way in ways) or name == "heads", "the search finds it"
    assert ways, "without its heads, a class is the base class"


BESIDE = [
    ("gpt2", "137,022,720", ["causal_masks"]),
    ("gpt2-medium", "379,988,992", ["causal_masks"]),
    ("meta-llama/Llama-2-7b-hf", "6,738,417,664", ["rotary_frequencies"]),
    ("EleutherAI/pythia-1b", "1,078,891,008", ["causal_masks", "rotary_frequencies"]),
    ("deepseek-ai/DeepSeek-R1", "684,489,845,504", ["router_biases", "predicting_layers"]),
    ("deepseek-ai/DeepSeek-V3", "685B", ["predicting_layers", "block_scales"]),
    ("zai-org/GLM-5.2", "753,329,940,480", ["router_biases", "predicting_layers"]),
    ("zai-org/GLM-4.5", "358,337,791,296", ["router_biases", "predicting_layers"]),
    ("zai-org/GLM-4.5", "356,785,898,816", ["router_biases", "sharing_layers"]),
    ("MiniMaxAI/MiniMax-M2.5", "228,703,644,928", ["router_biases", "block_scales"]),
    ("EleutherAI/gpt-neo-1.3B", "1,365,907,456", ["causal_masks"]),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "81,324,862,720", ["predicting_layers"]),
    ("roberta-base", "124,052,736", ["pooler", "segment_embedding", "fewer_positions"]),
    ("facebook/opt-125m", "125,237,760", ["fewer_positions"]),
    ("google/electra-base-generator", "33,576,960", ["added_pooler"]),
    ("openai/clip-vit-base-patch16", "149,620,934", ["vision_position_ids"]),
    ("google/t5-v1_1-xxl", "11,135,332,352", ["output_head"]),
    ("facebook/esm2_t33_650M_UR50D", "649,400,320", ["heads"]),
]
"""Totals that the classes of transformers do not have, from the tables in `tests/data`."""


@pytest.mark.parametrize(("model", "stated", "conventions"), BESIDE, ids=str)
def test_what_a_class_does_not_have_is_counted_besides(
    model: str, stated: str, conventions: list[str]
) -> None:
    assert list(steps(wb.reconcile(model, stated).matches[0])) == conventions


def test_the_layers_that_predict_tokens_are_as_many_as_the_config_states() -> None:
    config = {**find("deepseek-ai/DeepSeek-V3").config, "num_nextn_predict_layers": 0}
    assert wb.reconcile(config, "684,489,845,504").status == 1
    config["num_nextn_predict_layers"] = 2
    twice = 671_026_404_352 + 2 * 13_463_426_304
    assert "predicting_layers" in steps(wb.reconcile(config, twice).matches[0])


@pytest.mark.parametrize("size", ["many", None, [1], -1, 1e400, float("nan")])
def test_a_size_that_is_not_a_number_adds_nothing(size: object) -> None:
    config = {**find("deepseek-ai/DeepSeek-V3").config, "num_nextn_predict_layers": size}
    assert wb.reconcile(config, "671,026,404,352").status == 0


def test_every_function_has_its_words_and_every_word_its_function() -> None:
    kinds = {name: entry["kind"] for name, entry in table().items()}
    assert {name for name, kind in kinds.items() if kind == "without"} == WITHOUT.keys()
    assert {name for name, kind in kinds.items() if kind in ("with", "fewer")} == WITH.keys()
    for entry in table().values():
        assert entry["says"].keys() == {"en", "zh"}
        assert entry["source"].keys() == {"en", "zh"}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_conventions_are_listed(lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conventions", "--lang", lang]) == 0
    out = capsys.readouterr().out
    assert out.rstrip("\n") == Conventions().text(lang)
    assert all(f"\n{name}  " in out for name in table())
    assert main(["conventions", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == table().keys()


PLANTED = [
    "bert",
    "gpt2",
    "llama",
    "mixtral",
    "t5",
    "roberta",
    "albert",
    "gpt_neox",
    "vit",
    "qwen2_moe",
    "whisper",
    "clip",
]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_planted_way_is_found_and_is_first_if_it_is_the_simplest(drawn: st.DataObject) -> None:
    model = find(drawn.draw(st.sampled_from(PLANTED)))
    class_name = drawn.draw(st.sampled_from(model.blueprint.class_names))
    rows = rows_of(bind(model.blueprint, class_name, model.fields))
    names = drawn.draw(st.lists(st.sampled_from(sorted(WITHOUT)), max_size=3, unique=True))
    besides = drawn.draw(st.lists(st.sampled_from(sorted(WITH)), max_size=3 - len(names) and 1))
    gone = {row.at for name in names if name != "heads" for row in WITHOUT[name](rows)}
    kept = [row for row in rows if not row.tied and not row.buffer and row.at not in gone]
    planted = sum(row.elements for row in kept)
    planted += sum(
        row.elements for name in besides for row in WITH[name](rows) if row.at not in gone
    )
    if not planted:
        return
    found = reconcile_model(model, read_number(planted)).matches
    asked = {*names, *besides}
    assert any(sum_of(way) == planted for way in found)
    simplest = min(len(way.steps) for way in found)
    assert simplest <= len(asked)
    assert len(found[0].steps) <= simplest + 1, "simpler ways come first"
    if not asked:
        assert found[0].parameters == planted
        assert found[0].steps == ()


def sum_of(way: Way) -> int:
    return way.total + sum(step.change for step in way.steps)


def test_every_way_adds_up_and_needs_all_its_conventions() -> None:
    for stated in ("108,808,704", "110M", "86M", "1.1亿"):
        found = reconcile_model(find(BASE), read_number(stated)).matches
        assert found
        for way in found:
            assert sum_of(way) == way.parameters
            for other in found:
                in_place = any(table()[name]["kind"] in ("instead", "lora") for name in steps(way))
                alike = (other.class_name, other.rounding) == (way.class_name, way.rounding)
                if alike and other is not way and not in_place:
                    assert not set(steps(other)) < set(steps(way))


def test_the_search_is_complete_over_omissions() -> None:
    from itertools import combinations

    model = find(BASE)
    rows = rows_of(bind(model.blueprint, "BertModel", model.fields))
    plain = {row.at: row.elements for row in rows if not row.tied and not row.buffer}
    for size in range(4):
        for names in combinations(sorted(set(WITHOUT) - {"heads"}), size):
            gone = {row.at for name in names for row in WITHOUT[name](rows)}
            left = sum(elements for row, elements in plain.items() if row not in gone)
            if left > 0:
                found = reconcile_model(model, read_number(left), ["BertModel"]).matches
                assert any(set(steps(way)) <= set(names) for way in found), names


@pytest.mark.parametrize("family", families()[::9])
def test_a_number_is_sought_in_every_kind_of_family(family: str) -> None:
    found = reconcile_model(find(family), read_number("123,456,789"))
    assert found.matches or found.nearest
    for way in found.matches or [near.way for near in found.nearest]:
        assert sum_of(way) == way.parameters


# Checkpoints


def test_a_quantised_checkpoint_is_counted_as_counters_count_it(tmp_path: Path) -> None:
    tensors = {
        "model.layers.0.up_proj.qweight": ("I32", (16, 64)),
        "model.layers.0.up_proj.qzeros": ("I32", (4, 8)),
        "model.layers.0.up_proj.scales": ("F16", (4, 64)),
        "model.norm.weight": ("F16", (128,)),
    }
    path = write(tmp_path / "model.safetensors", tensors)
    logical, beside, words = 64 * 128 + 128, 32 + 256, 16 * 64 - 64 * 128
    for number_of, changes in (
        (logical, {}),
        (logical + beside, {"quantization": beside}),
        (logical + words, {"stored_words": words}),
        (logical + beside + words, {"quantization": beside, "stored_words": words}),
    ):
        found = wb.reconcile(path, number_of)
        assert found.status == 0
        assert steps(found.matches[0]) == changes
        assert str(path) in "".join(found.text().split())
    assert wb.reconcile(path, logical + 1).status == 1


def test_a_released_checkpoint_is_counted(minilm: Path) -> None:
    found = wb.reconcile(minilm / "model.safetensors", "22.7M")
    assert steps(found.matches[0]) == {}
    assert steps(wb.reconcile(minilm / "model.safetensors", 22_713_216 + 512).matches[0]) == {
        "position_ids": 512
    }
    assert steps(wb.reconcile(minilm / "model.safetensors", 22_565_376).matches[0]) == {
        "pooler": -147_840
    }


# Without a model


@pytest.mark.slow
def test_a_number_alone_is_sought_in_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    found = wb.reconcile(None, "102,267,648")
    assert found.status == 0
    assert any(model.where == "google-bert/bert-base-chinese" for model in found.models)
    assert "bert-base-chinese" in found.text()
    assert main(["reconcile", "102267649"]) == 1
    assert "No known model" in capsys.readouterr().out


@pytest.mark.slow
def test_models_with_the_same_sizes_are_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reconcile", "8030261248"]) == 0
    assert "meta-llama/Llama-3.1-8B (and 3 more with the same sizes)" in capsys.readouterr().out
    (match,) = wb.reconcile(None, 8030261248).to_dict()["matches"]
    assert "meta-llama/Meta-Llama-3-8B" in match["models"]


def test_a_number_of_another_model_is_answered_with_the_way_to_find_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["reconcile", "bert-base-chinese", "108,808,704"]) == 1
    assert "`weighbridge reconcile 108,808,704` searches" in capsys.readouterr().out


# Tables

PUBLISHED = data.read_toml("facts/published.toml")


def write_table(path: Path, header: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.mark.parametrize("claim", PUBLISHED["claim"], ids=lambda claim: claim["stated"])
def test_a_published_number_counts_what_the_facts_state(claim: dict[str, Any]) -> None:
    found = wb.reconcile(claim["model"], claim["stated"])
    if claim.get("none"):
        assert found.status == 1
        return
    first = found.matches[0]
    assert (first.class_name, list(steps(first))) == (claim["class"], claim["conventions"])


@pytest.mark.parametrize("published", PUBLISHED["table"], ids=lambda entry: entry["name"])
def test_a_published_table_counts_what_the_facts_state(
    published: dict[str, Any], tmp_path: Path
) -> None:
    found = reconcile_table(
        write_table(tmp_path / "a.csv", published["columns"], published["rows"]),
        published["family"],
    ).fit
    if "odd" in published:
        assert {row.name for row in found.slips if row.problem} == set(published["odd"])
        return
    assert {row.name for row in found.slips} == set(published.get("slips", ()))
    assert found.way
    assert (found.way.class_name, list(steps(found.way))) == (
        published["class"],
        published["conventions"],
    )


def test_the_odd_rows_of_gpt_3_s_table_say_why(tmp_path: Path) -> None:
    (published,) = (table for table in PUBLISHED["table"] if table["name"] == "gpt-3")
    found = reconcile_table(
        write_table(tmp_path / "a.csv", published["columns"], published["rows"]), "gpt2"
    ).fit
    odd = {row.name: row.problem for row in found.slips if row.problem}
    assert "n_embd = 2048, n_head = 24" in odd["XL"]
    assert "n_embd = 5140, n_head = 40" in odd["13B"]
    wrong: list[list[object]] = [["a", 2, 64, 4, 32, 2048, "1M"]]
    one = reconcile_table(
        write_table(tmp_path / "one.csv", published["columns"], wrong), "gpt2"
    ).fit.slips[0]
    assert one.problem == "4 heads of 32 are 128 wide, and not 64"


def test_albert_s_totals_are_not_those_of_its_table() -> None:
    (published,) = (table for table in PUBLISHED["table"] if table["name"] == "albert")
    totals = {}
    for name, *values, _ in published["rows"]:
        fields = dict(zip(published["columns"][1:-1], values, strict=True))
        totals[name] = round(wb.weigh("albert", fields=fields).parameters / 10**6, 1)
    assert totals == {"base": 11.7, "large": 17.7, "xlarge": 58.7, "xxlarge": 222.6}


def test_one_row_that_slips_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        ["bert-base-chinese", 102_267_648],
        ["bert-base-uncased", 109_482_240],
        ["bert-base-cased", 108_310_273],
    ]
    path = write_table(
        tmp_path / "a.csv", ["model", "parameters"], [list(map(str, row)) for row in rows]
    )
    assert main(["reconcile", "--table", str(path)]) == 1
    out = capsys.readouterr().out
    assert "One way of counting fits 2 of 3 rows" in out
    assert "bert-base-cased" in out
    assert main(["reconcile", "--table", str(path), "--json"]) == 1
    assert [slip["row"] for slip in json.loads(capsys.readouterr().out)["slips"]] == [
        "bert-base-cased"
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        (b"", "has no rows"),
        (b"model\nbert\n", "has no column with published numbers"),
        (b"model,parameters\nbert\n", "has a line whose length differs"),
        (b"model,parameters\nbert,many\n", "is not a number"),
        (b"model,parameters\nbert," + b"9" * 400 + b"\n", "is not a number"),
        (b"\xff\xfe\x00\x01", "is not UTF-8"),
        (b'model,parameters\n"a\x00b,1', "is not CSV"),
        (b"x" * (2**21 + 1), "is longer than"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    if content is not None:
        path.write_bytes(content)
    assert main(["reconcile", "--table", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1


# The command


@pytest.mark.parametrize("words", [[], ["a", "b", "c"], ["bert", "1", "--table", "x"]])
def test_too_few_and_too_many_words_are_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reconcile", *words]) == 2
    assert "takes a number, and optionally a model before it" in capsys.readouterr().err


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    "stated", ["108,808,704", "110M", "413MiB", "109,418,952", "109,482,340", "1.18M"]
)
def test_the_text_keeps_to_80_columns(stated: str, lang: str) -> None:
    text = wb.reconcile(BASE, stated).text(lang)
    assert max(map(width, text.splitlines())) <= 80
    assert stated in text


def test_json_has_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reconcile", BASE, "108,808,704", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["value"] == 108_808_704
    assert found["matches"][0]["steps"] == [
        {"convention": "linear_biases", "tensors": 72, "change": -82_944},
        {"convention": "pooler", "tensors": 2, "change": -590_592},
    ]


# Parts, what may be chance, and what is known


@pytest.mark.parametrize(
    ("model", "stated", "first"),
    [
        (BASE, "589824", "BertModel: pooler weight"),
        (BASE, "590,592", "BertModel: pooler"),
        (BASE, "2359296", "BertModel: attention of one layer, without biases"),
        (BASE, "2362368", "BertModel: attention of one layer"),
        (BASE, "4722432", "BertModel: feed-forward of one layer"),
        (BASE, "4718592", "BertModel: feed-forward of one layer, without biases"),
        (BASE, "7087872", "BertModel: one layer"),
        (BASE, "85054464", "BertModel: all 12 layers"),
        (BASE, "23837184", "BertModel: embeddings"),
        ("bert-base-chinese", "16622592", "BertModel: embeddings"),
        ("meta-llama/Llama-2-7b-hf", "202383360", "LlamaModel: one layer"),
        ("mixtral", "176160768", "MixtralModel: one expert"),
        ("t5-small", "25175296", "T5Model: all 6 layers of the decoder"),
        ("gpt2", "7087872", "GPT2Model: one layer"),
        ("gpt2", "39383808", "GPT2Model: embeddings"),
    ],
)
def test_the_number_of_a_part_names_the_part(model: str, stated: str, first: str) -> None:
    found = wb.reconcile(model, stated)
    assert (found.status, found.verdict) == (0, "fits")
    assert found.text().splitlines()[2].strip() == first


def test_parts_with_one_number_are_named_in_one_sentence() -> None:
    text = " ".join(wb.reconcile(BASE, 589_824).text().split())
    assert (
        "attention query, attention key, attention value or attention output weight of one layer"
    ) in text
    assert "LoRA" not in text
    chinese = wb.reconcile(BASE, 589_824).text("zh")
    assert "池化层权重" in chinese
    assert "自注意力查询 Q、自注意力键 K、自注意力值 V 或自注意力输出" in chinese


def test_json_names_parts_and_marks_what_may_be_chance() -> None:
    found = wb.reconcile(BASE, 589_824).to_dict()
    assert (found["verdict"], found["status"]) == ("fits", 0)
    assert [match["perhaps_chance"] for match in found["matches"]] == [True, True]
    assert {match["steps"][0]["convention"] for match in found["matches"]} == {"lora"}
    assert found["nearest"] == []
    named = {(part["part"], part["only"], part["layers"]) for part in found["parts"]}
    assert {("pooler", "weight", 0), ("attention.query", "weight", 1)} <= named


def test_a_rounding_of_a_part_or_of_a_long_count_is_perhaps_chance(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for stated, shown in (("24M", "embeddings (23,837,184)"), ("86M", "85,677,114")):
        assert main(["reconcile", BASE, stated]) == 1
        out = capsys.readouterr().out
        assert f"No total of google-bert/bert-base-uncased rounds to {stated}." in out
        assert "Perhaps one of these is meant, or the match is chance:" in out
        assert shown in out
        assert wb.reconcile(BASE, stated).to_dict()["verdict"] == "perhaps"
    assert verdict(wb.reconcile(BASE, "24M")) == "perhaps BertModel: embeddings (23,837,184)"


def test_a_number_with_only_long_chains_has_the_nearest_ways_too() -> None:
    chain = next(
        total
        for mask, total, _ in reversed(search_of(find(BASE)).counts[0].totals)
        if mask.bit_count() > 3 and wb.reconcile(BASE, total).verdict == "perhaps"
    )
    found = wb.reconcile(BASE, chain)
    assert found.status == 1
    assert found.to_dict()["nearest"]
    assert "No likely way of counting gives" in found.text()


def test_a_cut_off_number_is_called_so() -> None:
    found = wb.reconcile("t5-small", "60M")
    assert found.status == 0
    assert found.to_dict()["matches"][0]["cut_off"]
    assert "60,506,624; cut off, not rounded" in found.text()
    assert "舍去" in found.text("zh")


@pytest.mark.parametrize("model", [BASE, None])
def test_what_is_known_about_a_number_comes_first(model: str | None) -> None:
    found = wb.reconcile(model, 109_418_952)
    assert found.status == 1
    first = " ".join(found.text().split("\n\n")[0].split())
    assert first.startswith("109418952 is known for bert-base-uncased:")
    assert first.endswith("its own terms add up to 109,396,992.")
    (known,) = found.to_dict()["known"]
    assert known["class"] is None
    assert "文中有算错之处" in found.text("zh").replace("\n  ", "")


def test_a_number_known_for_one_model_is_not_known_for_another() -> None:
    assert not wb.reconcile("bert-base-chinese", 109_418_952).claims


def test_a_known_way_of_a_rounding_fits() -> None:
    found = wb.reconcile(BASE, "1.18M")
    assert (found.status, found.verdict) == (0, "fits")
    assert [step.convention for step in found.matches[0].steps] == ["two_square_heads"]


def test_a_known_way_comes_first_although_others_are_more_plausible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def first() -> str:
        return wb.reconcile(BASE, 1_181_184).text().split("\n\n")[-1].split("\n  ")[0].strip()

    words = {"en": "heads", "zh": "任务头"}
    claim = KnownClaim(BASE, words, words, {}, "BertModel", ("two_square_heads",))
    assert first() == "BertModel: attention key and value of one layer"
    monkeypatch.setattr("weighbridge.answers.reconcile.known_claims", lambda *_: iter((claim,)))
    assert first().startswith("2·H·H + 2·H")


def test_a_reconciliation_is_written_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reconcile", BASE, "589824", "--markdown"]) == 0
    assert "- BertModel: pooler weight" in capsys.readouterr().out
