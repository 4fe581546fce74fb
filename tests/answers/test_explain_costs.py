"""`weighbridge explain --costs`: every number of the article is computed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from chinese import english_in

import weighbridge as wb
from weighbridge import data
from weighbridge.blueprint import operations, schema
from weighbridge.cli import main
from weighbridge.errors import ModelError
from weighbridge.render.table import COLUMNS, width

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = "meta-llama/Llama-3.1-8B"


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_components_add_up() -> None:
    cost = wb.cost(LLAMA, sequence=2048)
    text = wb.explain(LLAMA, costs=True, sequence=2048).text()
    for group in cost.groups():
        assert f"= {group.figures['forward_matmul_flops']:,}" in text
    assert f"= {cost.forward_matmul_flops:,}" in text
    cached = wb.cache(LLAMA, context=2048)
    assert f"= {cached.cache_bytes:,}" in text
    assert f"That is {cached.bytes_per_token:,} bytes" in text


@pytest.mark.parametrize("model", [LLAMA, "openai/gpt-oss-20b", "bert-base-chinese"])
def test_how_far_the_rules_are_off(model: str) -> None:
    cost = wb.cost(model, batch=2, sequence=96, train=True)
    text = flat(wb.explain(model, costs=True, batch=2, sequence=96).text())
    parameters = cost.found.weighing.parameters
    forward, backward = cost.forward_matmul_flops, cost.backward_matmul_flops
    assert forward is not None
    assert backward is not None
    for factor, exact in ((2, forward), (6, forward + backward)):
        estimate = factor * parameters * 2 * 96
        off = 100 * (estimate - exact) / exact
        words = f"{abs(off):.1f}% too {'high' if off > 0 else 'low'}"
        assert f"gives {estimate:,} FLOPs" in text
        assert re.search(rf"gives {estimate:,} FLOPs[^.]*{exact:,}: the rule is {words}", text)


def test_active_parameters_are_counted_where_there_are_experts() -> None:
    text = flat(wb.explain("openai/gpt-oss-20b", costs=True).text())
    active = wb.weigh("openai/gpt-oss-20b").active
    assert text.count(f"With the {active:,} active parameters") == 2
    assert "active parameters" not in wb.explain(LLAMA, costs=True).text()


def test_an_encoder_has_no_cache() -> None:
    text = wb.explain("bert-base-chinese", costs=True).text()
    assert "\nThe cache\n" not in text
    assert "\nThe cache\n" in wb.explain(LLAMA, costs=True).text()


@pytest.mark.parametrize("family", sorted({*operations.available()} & {*schema.families()}))
def test_every_recorded_family_has_an_article(family: str) -> None:
    class_name = operations.load_operations(family).base_class
    try:
        flops = f"{wb.cost(family, class_name, train=True).to_dict()['forward_matmul_flops']:,}"
    except ModelError as refused:
        pytest.skip(f"its defaults are refused: {refused}")
    for lang in ("en", "zh"):
        article = wb.explain(family, class_name, costs=True).text(lang)
        assert flops in flat(article.partition("\n\n")[0])


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("model", [LLAMA, "openai/gpt-oss-20b", "bert-base-chinese"])
def test_it_reads_in_80_columns_in_both_languages(model: str, lang: str) -> None:
    text = wb.explain(model, costs=True, batch=64, sequence=512).text(lang)
    assert max(map(width, text.splitlines())) <= COLUMNS
    if lang == "zh":
        assert english_in(text) == []


def test_every_format_has_the_total(tmp_path: Path) -> None:
    article = wb.explain(LLAMA, costs=True, sequence=2048)
    for written in (article.markdown(), article.markdown(site="zhihu"), article.page()):
        assert "32,938,104,193,024" in written.replace("{,}", ",")
    assert "32{,}938" in article.latex()
    assert article.save(tmp_path / "costs.md") == [tmp_path / "costs.md"]
    assert article.to_dict()["forward_matmul_flops"] == 32938104193024


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", LLAMA, "--costs", "--seq", "2048", "--title", "Costs"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Costs\n")
    assert "32,938,104,193,024" in out


REFUSED = {
    "derived in our letters": "--costs --letters H=h",
    "Add --costs": "--seq 9",
    "--batch must be a positive integer": "--costs --batch 0",
    "--seq must be a positive integer": "--costs --seq 0",
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "llama", *REFUSED[message].split()]) == 2
    assert message in capsys.readouterr().err
    assert main(["explain", "llama", *REFUSED[message].split(), "--lang", "zh"]) == 2
    assert english_in(capsys.readouterr().err) == []


def test_a_family_without_operations_is_refused() -> None:
    with pytest.raises(ModelError, match="no operations for the family xlm"):
        wb.explain("xlm", costs=True)


def test_both_languages_have_the_same_words() -> None:
    english, chinese = (data.read_toml(f"words/costs.{lang}.toml") for lang in ("en", "zh"))
    assert english.keys() == chinese.keys()
    assert english["component"].keys() == chinese["component"].keys()


def test_no_number_is_written_in_the_sentences() -> None:
    for lang in ("en", "zh"):
        for text in data.read_toml(f"words/costs.{lang}.toml").values():
            if isinstance(text, str):
                plain = re.sub(r"\$[^$]*\$|[26]·N", "", text)
                assert set(re.findall(r"\d+", plain)) <= {"2"}
