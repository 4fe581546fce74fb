"""An author's own letters, and assumptions that simplify: the numbers stay the same."""

import re

import pytest
from arithmetic import chains, integers, value_of

from weighbridge.algebra.expr import parse, source
from weighbridge.answers.explain import explain
from weighbridge.answers.notation import tidied
from weighbridge.answers.weigh import weigh
from weighbridge.data import LANGUAGES
from weighbridge.errors import UsageError

OWN = {"H": "h", "V": "v", "P": "N", "num_hidden_layers": "n_layers"}


def on_one_line(article) -> str:
    return " ".join(article.text().split())


def test_every_formula_and_sentence_is_in_the_authors_letters() -> None:
    text = on_one_line(explain("bert-base-chinese", letters=OWN))
    formula = "v·h + N·h + T·h + 3h + n_layers·(4h² + 2h·F + 9h + F) + h² parameters"
    assert f"BertModel has {formula}" in text
    assert "Each token becomes a vector of h numbers" in text
    assert "A slices of d_k = h/A = 64" in text
    assert "embeddings.word_embeddings.weight v × h 16,226,304" in text
    assert "h hidden_size hidden size 768" in text
    assert "n_layers num_hidden_layers layers 12" in text
    prose = re.sub(r"https?\S+", "", text.partition("Where these numbers")[0])
    assert not re.search(r"\b[VHPL]\b", prose)


def test_letters_may_be_exchanged() -> None:
    text = on_one_line(explain("bert-base-chinese", letters={"H": "V", "V": "H"}))
    assert "BertModel has H·V + P·V + T·V + 3V + L·(4V² + 2V·F + 9V + F) + V²" in text
    assert "V hidden_size hidden size 768" in text


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_numbers_are_those_of_our_letters(lang: str, form: str) -> None:
    plain, own = (
        getattr(explain("bert-base-chinese", lang=lang, letters=letters), form)()
        for letters in ({}, {"H": "h", "F": "f"})
    )
    assert integers(plain) == integers(own)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_chains_hold_under_assumptions(lang: str) -> None:
    article = explain("bert-base-chinese", letters={"H": "h"}, assume=["F = 4h", "T=2"], lang=lang)
    found = list(chains(article.text()))
    assert len(found) > 8
    for parts in found:
        assert len({value_of(part) for part in parts}) == 1, parts
    assert value_of(found[-1][-1]) == weigh("bert-base-chinese").parameters


def test_assumptions_simplify_and_are_stated() -> None:
    text = on_one_line(explain("bert-base-chinese", assume=["F = 4H"]))
    assert "BertModel has V·H + P·H + T·H + 3H + L·(12H² + 13H) + H² parameters" in text
    assert "Assumed in the formulas, and true of this config: F = 4H = 3,072." in text
    assert "up from H to 4H, and down again" in text
    assert "intermediate_size" not in text.partition("Embeddings")[0], "F is not in the table"


def test_assumptions_may_depend_on_each_other() -> None:
    equations = ["A_kv = A", "D = H/A"]
    for assume in (equations, equations[::-1], ["D = H/A_kv", "A_kv = A"]):
        text = on_one_line(explain("Llama-2-7b", assume=assume))
        assert "LlamaForCausalLM has 2V·H + L·(4H² + 3H·F + 2H) + H parameters" in text
    assert "A num_attention_heads attention heads 32" in text


@pytest.mark.parametrize(
    "written", ["4H", "4*H", "H·4", "4 × H", "12H/3", "2*(H+H)", "4 hidden_size"]
)
def test_assumptions_are_read_as_people_write_them(written: str) -> None:
    assert "L·(12H² + 13H)" in on_one_line(explain("bert", assume=[f"F={written}"]))


def test_a_config_that_contradicts_an_assumption_is_named_with_its_values() -> None:
    fields = {"intermediate_size": 3000}
    with pytest.raises(UsageError, match=r"contradicts the assumption F = 4H") as refused:
        explain("bert", assume=["F = 4H"], fields=fields).text()
    assert refused.value.values == {"F": 3000, "4H": 3072}
    with pytest.raises(UsageError, match="contradicts"):
        explain("bert", assume=["A = P/42"]).text()  # 512/42 is 12 and a rest


@pytest.mark.parametrize(
    ("letters", "message"),
    [
        ({"Z": "z"}, "no size with the letter Z"),
        ({"H": "V"}, "two sizes have the letter V"),
        ({"H": "h", "V": "h"}, "two sizes have the letter h"),
        ({"H": "4"}, "is not a letter"),
        ({"H": "if"}, "is not a letter"),
        ({"H": "a b"}, "is not a letter"),
        ({"H": "i"}, "is an index in the names of tensors"),
    ],
)
def test_letters_that_cannot_be_used_are_one_clear_error(letters, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        explain("bert", letters=letters).text()


@pytest.mark.parametrize(
    ("assume", "message"),
    [
        (["F"], "equates a letter and an expression"),
        (["F = "], "equates a letter and an expression"),
        (["4H = F"], "no size with the letter 4H"),
        (["F = 4Z"], "no size with the letter Z"),
        (["F = 4H", "F = 4H"], "more than once what F is"),
        (["F = 4H", "H = F/4"], "more than once what H is"),
        (["H = H"], "more than once what H is"),
    ],
)
def test_assumptions_that_cannot_be_used_are_one_clear_error(assume, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        explain("bert", assume=assume).text()


def test_divisions_cancel_only_if_they_leave_no_rest() -> None:
    tree = parse("3 * A * (H // A) * H + (I // p) ** 2 + 4 * (H // 4)")
    values = {"H": 12, "A": 3, "I": 7, "p": 2}
    assert source(tidied(tree, values, [], [])) == "3 * H ** 2 + floor(I / p) ** 2 + H"
    assert "(I // p) ** 2" in source(tidied(tree, {**values, "I": 8}, [], []))
    assert "A * H * floor(H / A)" in source(tidied(tree, {**values, "A": 5}, [], []))
    assert source(tidied(parse("a // b * b"), {}, [], [])) == "floor(a / b) * b"


def test_a_head_size_that_is_rounded_is_shown_so() -> None:
    text = on_one_line(explain({"model_type": "mixtral", "hidden_size": 4100}))
    assert "A·⌊H/A⌋ × H" in text


def test_a_family_has_one_formula_however_its_code_divides() -> None:
    """Electra computes its head size; the formula is that of BERT's layers."""
    text = on_one_line(explain("electra"))
    assert "L·(4H² + 2H·F + 9H + F)" in text
