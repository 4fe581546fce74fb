"""Chance: how many random numbers near a total are explained, and which roundings fit."""

import random
from fractions import Fraction
from functools import cache

import pytest

from weighbridge.counting.reconciliation import CUT_OFF, Search, read_number, search_of
from weighbridge.models.find import find

MODELS = {
    "bert-base-uncased": "BertForPreTraining",
    "gpt2": "GPT2LMHeadModel",
    "meta-llama/Llama-2-7b-hf": "LlamaForCausalLM",
    "t5-base": "T5ForConditionalGeneration",
    "mistralai/Mixtral-8x7B-v0.1": "MixtralForCausalLM",
    "google/electra-large-discriminator": "ElectraForPreTraining",
}
# So small that more than 1 in 1,000 numbers near its total is a total in some way of counting.
TINY = {"hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 1}
SMALL = {"bert": "BertForPreTraining", "t5-small": "T5ForConditionalGeneration"}
DRAWN = 4000
MOST = DRAWN // 1000


@cache
def search(model: str) -> Search:
    return search_of(find(model, dict(TINY) if model == "bert" else None))


def total(model: str) -> int:
    totals = {count.class_name: count.total for count in search(model).counts}
    return totals.get((MODELS | SMALL)[model]) or max(totals.values())


@pytest.mark.sampled("src/weighbridge/counting")
@pytest.mark.parametrize("model", MODELS)
def test_at_most_one_in_a_thousand_random_numbers_fits(model: str) -> None:
    drawn, around = random.Random(16), total(model)  # noqa: S311
    fitting = []
    for _ in range(DRAWN):
        number = drawn.randint(around * 95 // 100, around * 105 // 100)
        if search(model).likely(read_number(number)).fits:
            fitting.append(number)
    assert len(fitting) <= MOST, fitting


@pytest.mark.sampled("src/weighbridge/counting")
@pytest.mark.parametrize("model", [*MODELS, *SMALL])
def test_the_totals_that_fit_are_few_enough(model: str) -> None:
    around = total(model)
    least, most = around * 95 // 100, around * 105 // 100
    totals = set[int]()
    for count in search(model).counts:
        totals.update(sum_of for sum_of, _ in count.near(least, most))
    for _, index in search(model).indexes:
        totals.update(name.parameters for name in index.within(least, most))
    fitting = [
        number for number in sorted(totals) if search(model).likely(read_number(number)).fits
    ]
    assert len(fitting) <= (most - least) / 1000
    assert around in fitting


@pytest.mark.parametrize("model", MODELS)
def test_a_random_rounding_fits_only_if_a_total_rounds_to_it(model: str) -> None:
    drawn, around = random.Random(16), total(model)  # noqa: S311
    totals = {count.total for count in search(model).counts}
    totals.update(sum(row.active for row in count.counted) for count in search(model).counts)
    unit = 10 ** (len(str(around)) - 3)
    suffix, scale = ("M", 10**6) if unit >= 10**5 else ("K", 10**3)
    for _ in range(40):
        number = drawn.randint(around * 90 // 100, around * 110 // 100) // unit * unit
        text = (
            f"{Fraction(number, scale).numerator / Fraction(number, scale).denominator:g}{suffix}"
        )
        wanted = read_number(text)
        reconciliation = search(model).likely(wanted)
        rounds = any(low <= one < end for one in totals for _, low, end in wanted.windows)
        assert reconciliation.fits == rounds, text
        for way in reconciliation.matches:
            assert way.perhaps != way.is_total


@pytest.mark.parametrize(
    ("model", "stated", "rounding"),
    [("t5-small", "60M", CUT_OFF), ("gpt2", "124M", 0), ("gpt2", "0.12B", 0)],
)
def test_a_number_may_be_rounded_or_cut_off(model: str, stated: str, rounding: int) -> None:
    first = search_of(find(model)).likely(read_number(stated)).matches[0]
    assert (first.is_total, first.rounding, first.perhaps) == (True, rounding, False)


@pytest.mark.parametrize(
    ("stated", "loose"),
    [
        ("268435456000", "0.5"),
        ("108,310,000", "5000"),
        ("110000000", "5000000"),
        ("108,310,270", "0.5"),
        ("109482200", "0.5"),
        ("340M", "5000000"),
    ],
)
def test_only_few_digits_with_many_zeros_look_rounded(stated: str, loose: str) -> None:
    assert read_number(stated).loose == Fraction(loose)


def test_an_exact_total_with_zeros_is_exact() -> None:
    first = search_of(find("BAAI/bge-small-en-v1.5")).likely(read_number("33360000")).matches[0]
    assert (first.parameters, first.rounding, first.is_total) == (33_360_000, 0, True)


def test_long_chains_are_perhaps_chance() -> None:
    bert = search("bert-base-uncased")
    tried = 0
    for count in bert.counts:
        for mask, number, steps in count.totals[:: len(count.totals) // 40]:
            if mask.bit_count() + len(steps) > 3:
                for way in bert.likely(read_number(number)).matches:
                    tried += 1
                    assert way.perhaps or len(way.steps) <= 3
    assert tried


def test_an_adapter_fits_only_where_nothing_simpler_does() -> None:
    bert = search("bert-base-uncased")
    (query_and_value, *_) = bert.likely(read_number(12 * 2 * 8 * (768 + 768))).matches
    assert not query_and_value.perhaps
    assert query_and_value.steps[0].convention == "lora"
    pooler = bert.likely(read_number(768 * 768))  # also of rank 16
    assert pooler.fits
    assert any(way.steps[0].convention == "lora" for way in pooler.matches)
    assert all(way.perhaps for way in pooler.matches)
