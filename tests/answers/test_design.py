"""Designs against brute force: every point of a space weighed, with nothing solved for."""

from __future__ import annotations

import csv
import io
import json
import random
from itertools import product
from typing import Any

import pytest
from chinese import english_in

from weighbridge import data
from weighbridge.answers.cache import cache
from weighbridge.answers.design import design, fitted_depth, sizes_in
from weighbridge.answers.serve import serve
from weighbridge.answers.weigh import weigh
from weighbridge.cli.program import main
from weighbridge.errors import WeighbridgeError

KV_HEADS = (1, 2, 4, 8)
STEP = 64
SPACES: dict[str, dict[str, Any]] = {
    "llama": {
        "class": "LlamaForCausalLM",
        "fields": ("num_hidden_layers", "hidden_size", "num_attention_heads"),
        "more": ("num_key_value_heads", "head_dim", "intermediate_size"),
        "set": {"vocab_size": 1000},
        "budget": 2_500_000,
    },
    "bert": {
        "class": "BertModel",
        "fields": ("num_hidden_layers", "hidden_size", "num_attention_heads"),
        "more": (None, None, "intermediate_size"),
        "set": {"vocab_size": 1000},
        "budget": 2_000_000,
    },
    "qwen3_next": {
        "class": "Qwen3NextForCausalLM",
        "fields": ("num_hidden_layers", "hidden_size", "num_attention_heads"),
        "more": ("num_key_value_heads", "head_dim", "moe_intermediate_size"),
        "set": {
            "vocab_size": 1000,
            "num_experts": 4,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 32,
            "linear_value_head_dim": 32,
            "shared_expert_intermediate_size": 64,
        },
        "budget": 4_000_000,
    },
}
LAYERS, WIDTHS, HEAD_SIZES = range(2, 6), (128, 192, 256), (32, 64)


def by_brute_force(family: str, least: float, most: float) -> set[tuple[int, ...]]:
    """Weigh every point of a space, and return the sizes of those within the bounds."""
    space = SPACES[family]
    names = (*space["fields"], *space["more"])
    found = set()
    for layers, width, head_size, size in product(
        LAYERS, WIDTHS, HEAD_SIZES, range(STEP, 8 * max(WIDTHS) + 1, STEP)
    ):
        if not 0.25 * width <= size <= 8 * width or width % head_size:
            continue
        heads = width // head_size
        for kv_heads in KV_HEADS if space["more"][0] else (heads,):
            if kv_heads > heads or heads % kv_heads:
                continue
            values = (layers, width, heads, kv_heads, head_size, size)
            pairs = zip(names, values, strict=True)
            fields = {**space["set"], **{name: value for name, value in pairs if name}}
            total = weigh(family, space["class"], fields=fields).parameters
            if least <= total <= most:
                found.add((*values, total))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", SPACES)
def test_solving_finds_what_brute_force_finds(family: str) -> None:
    space = SPACES[family]
    search = design(
        family,
        space["class"],
        parameters=space["budget"],
        within="4%",
        depth="2..5",
        width="128,192,256",
        head_dim="32,64",
        kv_heads="1,2,4,8",
        multiple_of=STEP,
        fields=space["set"],
        top=0,
    )
    budget = space["budget"]
    wanted = by_brute_force(family, 0.96 * budget, 1.04 * budget)
    assert len(wanted) > 10
    assert {tuple(each) for each in search.every()} == wanted
    assert search.number == len(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "deepseek_v3", "t5"])
def test_drawn_designs_weigh_what_they_should(family: str) -> None:
    search = design(family, parameters="3e9", within="5%", depth="8..64:4")
    every = list(search.every())
    rng = random.Random(family)  # noqa: S311
    for each in rng.choices(every, k=500):
        assert search.weighed(each).parameters == each.parameters


def test_the_nearest_come_first_and_all_are_within_bounds() -> None:
    search = design("llama", parameters="1.3B", depth="16..48", multiple_of=256)
    distances = [abs(each.parameters - 1_300_000_000) for each in search.designs]
    every = sorted(abs(each.parameters - 1_300_000_000) for each in search.every())
    assert distances == every[: len(distances)]
    assert every[-1] <= 0.005 * 1_300_000_000
    assert all(each.size % 256 == each.width % 256 == 0 for each in search.designs)


def test_another_size_is_solved_for() -> None:
    search = design("llama", parameters="1.3B", solve_for="vocab_size", depth=24, width=2048, top=3)
    for each in search.designs:
        assert search.weighed(each).model.fields["vocab_size"] == each.size


def test_an_order_is_kept() -> None:
    search = design("llama", parameters="1.3B", order="kv_heads", top=30)
    kv_heads = [each.kv_heads for each in search.designs]
    assert kv_heads == sorted(kv_heads)


def test_columns_are_what_other_commands_say() -> None:
    search = design("meta-llama/Llama-3.1-8B", parameters="8B", depth=32, kv_heads=8, top=2)
    for each in search.designs:
        fields, columns = search.fields_of(each), search.columns(each)
        held = cache("meta-llama/Llama-3.1-8B", context=4096, fields=fields)
        assert columns["kv_bytes_per_token"] == held.bytes_per_token
        assert columns["bytes"] == 2 * each.parameters
        assert columns["tokens"] == 20 * each.parameters
        sizes = (each.width, each.size, each.head_size, 128_256)
        assert all(size % columns["alignment"] == 0 for size in sizes)
        assert any(size % (2 * columns["alignment"]) for size in sizes)


def test_what_fits_and_what_is_served() -> None:
    question: dict[str, Any] = {"parameters": "8B", "within": "20%", "head_dim": 128, "top": 3}
    search = design("meta-llama/Llama-3.1-8B", **question, fits="15GiB", context=8192)
    for each in search.designs:
        held = search.weight_bytes(each) + (search.cache_bytes(each, 8192) or 0)
        assert held <= 15 * 2**30
    on_device = design("meta-llama/Llama-3.1-8B", **question, serve_on="L4", context=8192)
    for each in on_device.designs:
        served = serve(
            "meta-llama/Llama-3.1-8B", on="L4", context=8192, fields=search.fields_of(each)
        )
        assert served.fits
        assert on_device.columns(each)["largest_batch"] == served.largest_batch


LIMITS = ({"fits": "15.1GiB"}, {"serve_on": "2xT4"}, {"fits": "16GiB", "serve_on": "L4"})


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_each_design_that_fits_is_found(limits: dict[str, str]) -> None:
    question: dict[str, Any] = {"parameters": "8B", "within": "2%", "depth": "24,32"}
    question |= {"width": "4096,4224", "kv_heads": "1,11", "multiple_of": 512}
    like = "meta-llama/Llama-3.1-8B"
    search = design(like, **question, **limits, context=16_384, top=0)
    fitting = []
    for each in search.every():
        fields = search.fields_of(each)
        held = 2 * each.parameters + cache(like, context=16_384, fields=fields).cache_bytes
        fits = held <= float(limits.get("fits", "99GiB")[:-3]) * 2**30
        devices = limits.get("serve_on")
        if devices == "2xT4" and each.heads % 2:
            fits = False
        elif devices:
            fits &= serve(like, on=devices, context=16_384, fields=fields).fits
        if fits:
            fitting.append(each)
    assert 0 < len(fitting) < search.number
    assert sorted(search.designs) == sorted(fitting)


def test_designs_that_fit_are_found_behind_hundreds_that_do_not() -> None:
    question: dict[str, Any] = {"parameters": "8B", "within": "30%", "depth": "8..64:8", "top": 5}
    search = design("meta-llama/Llama-3.1-8B", **question, fits="12.5GiB", context=4096)
    at_least = min(abs(each.parameters - 8 * 10**9) for each in search.designs)
    nearer = sum(abs(each.parameters - 8 * 10**9) < at_least for each in search.every())
    assert len(search.designs) == 5
    assert nearer > 1000


def test_devices_that_do_not_divide_the_heads_serve_no_design() -> None:
    search = design("llama", parameters="8B", serve_on="8xH100", top=5)
    assert all(each.heads % 8 == 0 for each in search.designs)
    assert len(search.designs) == 5


def test_the_fit_gives_what_the_abstract_of_its_paper_says() -> None:
    width = 30_000  # "an unprecedented width of 30K as optimal for a 1-Trillion parameter network"
    assert 12 * fitted_depth(width) * width**2 == pytest.approx(1e12, rel=0.05)


def test_without_a_design_the_answer_is_no(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["design", "--like", "llama", "--parameters", "1M"]) == 1
    assert "No design has 1,000,000 parameters" in capsys.readouterr().out


def test_every_rule_has_a_source() -> None:
    for rule in data.read_toml("facts/design_rules.toml").values():
        assert "arXiv" in rule["source"]


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["design", "--like", "llama", "--parameters", "1.3e9", "--top", "4", "--depth", "24"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["designs"]) == 4 <= found["number"]
    assert main([*words, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    totals = [each["parameters"] for each in found["designs"]]
    assert [int(row["parameters"]) for row in rows] == totals
    assert main([*words, "--markdown"]) == 0
    assert "| " in capsys.readouterr().out
    search = design("llama", parameters="1.3B", serve_on="L4", fits="8GiB", top=2)
    assert english_in(search.text("zh")) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--parameters", "many"], "--parameters is not a number"),
        (["--parameters", "1B", "--within", "2"], "--within is no part of the budget"),
        (["--parameters", "1B", "--depth", "8..x"], "--depth is neither a size nor a range"),
        (["--parameters", "1B", "--ratio", "4..2"], "--ratio is no range"),
        (["--parameters", "1B", "--multiple-of", "0"], "--multiple-of must be"),
        (["--parameters", "1B", "--top", "-1"], "--top must be 0 or more"),
        (["--parameters", "1B", "--fits", "much"], "--fits is not a size"),
        (["--parameters", "1B", "--solve-for", "hidden_size"], "hidden_size is enumerated"),
        (["--parameters", "1B", "--solve-for", "colour"], "do not depend on colour"),
        (["--parameters", "1B", "--serve-on", "abacus"], "abacus"),
        (["--parameters", "1B", "--like", "no-such"], "no-such"),
        (["--parameters", "1B", "--like", "resnet"], "no layers, width and feed-forward size"),
    ],
)
def test_a_question_without_an_answer(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["design", "--like", "llama", *words]) == 2
    assert message in capsys.readouterr().err


def test_sizes_are_a_list_or_ranges() -> None:
    assert sizes_in("8,16..32:8", "", "depth") == (8, 16, 24, 32)
    with pytest.raises(WeighbridgeError, match="neither a size nor a range"):
        sizes_in("9..8", "", "depth")
