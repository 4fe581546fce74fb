"""`weighbridge formula --of`: what a run takes, as code that gives the numbers of `cost`."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
import sqlite
from chinese import english_in
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import weighbridge as wb
from weighbridge import data
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.answers.conditions import with_minima
from weighbridge.blueprint.operations import load_operations
from weighbridge.blueprint.schema import load
from weighbridge.cli import main
from weighbridge.errors import ModelError, UsageError
from weighbridge.ledger.letters import Letters
from weighbridge.render.table import COLUMNS, width

FAMILIES = ("llama", "qwen3", "gpt_oss", "mistral", "gemma2")
TYPES = ("full_attention", "sliding_attention")
FIGURES = {
    "flops": ("forward_matmul_flops", "step_matmul_flops"),
    "saved": ("saved_for_backward_bytes", "checkpointed_bytes"),
    "cache": ("cache_bytes",),
}
SIZES = st.fixed_dictionaries(
    {"batch": st.sampled_from((1, 1, 2, 5)), "sequence": st.integers(2, 40)}
    | {"past": st.integers(1, 40)}
)
FEW = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def configs(draw: st.DrawFn, family: str) -> dict[str, Any]:
    """Draw a small config of a family, with layers of both types where it has types."""
    layers = draw(st.integers(1, 7))
    drawn: dict[str, Any] = {
        "hidden_size": draw(st.sampled_from((8, 12, 24))),
        "head_dim": draw(st.sampled_from((8, 16, 40))),
        "intermediate_size": draw(st.integers(5, 50)),
        "num_attention_heads": 4,
        "num_key_value_heads": draw(st.sampled_from((1, 2, 4))),
        "num_hidden_layers": layers,
        "vocab_size": draw(st.integers(9, 99)),
    }
    if family != "llama":
        drawn["sliding_window"] = draw(st.integers(3, 20))
    if family == "qwen3":
        drawn |= {"use_sliding_window": draw(st.booleans()), "max_window_layers": 3}
    if family == "gpt_oss":
        drawn |= {"num_local_experts": 5, "num_experts_per_tok": 2}
    if family in ("qwen3", "gpt_oss", "gemma2") and draw(st.booleans()):
        drawn["layer_types"] = draw(
            st.lists(st.sampled_from(TYPES), min_size=layers, max_size=layers)
        )
        drawn["use_sliding_window"] = True
    if family != "qwen3":
        drawn.pop("use_sliding_window", None)
    return drawn


def figures(of: str, family: str, fields: dict[str, Any], run: dict[str, int]) -> dict[str, Any]:
    """Return what `cost` or `cache` gives."""
    if of == "cache":
        context = {"context": run["sequence"], "batch": run["batch"]}
        found = wb.cache(family, fields=fields, dtype="bf16", **context)
        return {"cache_bytes": found.cache_bytes}
    sizes: dict[str, Any] = {"batch": run["batch"], "sequence": run["sequence"]}
    if of == "flops":
        sizes |= {"past": run["past"], "decode": True}
    cost = wb.cost(family, fields=fields, dtype="bf16", train=of == "saved", **sizes)
    return {name: cost.figures[name] for name in FIGURES[of]}


def sizes_of(of: str, run: dict[str, int]) -> dict[str, int]:
    if of == "cache":
        return {"batch": run["batch"], "context": run["sequence"]}
    if of == "saved":
        return {"batch": run["batch"], "sequence": run["sequence"]}
    return run


def run_python(code: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(code, found)  # noqa: S102  # the generated code is what is tested
    return found


def in_sql(query: str, sizes: dict[str, int]) -> tuple[Any, ...]:
    """Ask a query with other sizes in its columns."""
    for name, value in sizes.items():
        query, replaced = re.subn(
            rf"CAST\(\d+ AS BIGINT\) AS {name}\b", f"CAST({value} AS BIGINT) AS {name}", query
        )
        assert replaced == 1
    (answer,) = sqlite.rows(query)
    return tuple(answer)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("of", FIGURES)
@FEW
@given(drawn=st.data())
def test_the_code_gives_the_numbers_of_cost(family: str, of: str, drawn: st.DataObject) -> None:
    fields = drawn.draw(configs(family))
    is_refused = fields["num_key_value_heads"] == 1 and load_operations(family).never_one
    assume(of != "saved" or not is_refused)
    found = wb.formula(family, fields=fields, of=of, dtype="bf16")
    functions, query = run_python(found.text(code="python")), found.text(code="sql")
    for _ in range(3):
        run = drawn.draw(SIZES)
        expected, sizes = figures(of, family, fields, run), sizes_of(of, run)
        assert {name: functions[name](**sizes) for name in expected} == expected
        assert in_sql(query, sizes) == tuple(expected.values())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("of", FIGURES)
def test_the_python_holds_for_other_configs(family: str, of: str) -> None:
    functions = run_python(wb.formula(family, of=of, dtype="bf16").text(code="python"))
    fields = {"hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 3}
    fields |= {"head_dim": 8, "num_hidden_layers": 5, "intermediate_size": 40, "vocab_size": 60}
    if family not in ("llama", "qwen3"):
        fields["sliding_window"] = 7
    run = {"batch": 3, "sequence": 11, "past": 9}
    for name, value in figures(of, family, fields, run).items():
        function = functions[name]
        known = function.__code__.co_varnames[: function.__code__.co_argcount]
        arguments = {key: fields[key] for key in fields if key in known}
        assert function(**sizes_of(of, run), **arguments) == value


def test_a_longer_list_of_layers_is_refused() -> None:
    fields = {"layer_types": list(TYPES) * 2, "num_hidden_layers": 4}
    functions = run_python(
        wb.formula("gpt_oss", of="cache", fields=fields, dtype="bf16").text(code="python")
    )
    assert functions["cache_bytes"](num_hidden_layers=4)
    with pytest.raises(ValueError, match="num_hidden_layers <= 4"):
        functions["cache_bytes"](num_hidden_layers=5)


def test_one_key_head_is_refused_where_it_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(load_operations("llama").proof, "single")
    fields = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    code = wb.formula("llama", of="saved", fields=fields, dtype="bf16").text(code="python")
    function = run_python(code)["saved_for_backward_bytes"]
    assert function(num_key_value_heads=2)
    with pytest.raises(ValueError, match="1 < num_key_value_heads"):
        function(num_key_value_heads=1)


@pytest.mark.parametrize("family", ["llama", "gemma"])
def test_the_code_knows_that_one_key_head_is_a_view(family: str) -> None:
    fields = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    eager: dict[str, Any] = {"profile": "cuda-eager", "dtype": "bf16"}
    code = wb.formula(family, of="saved", fields=fields, **eager).text(code="python")
    function = run_python(code)["saved_for_backward_bytes"]
    for heads, batch in itertools.product((1, 2), (1, 3)):
        changed = {**fields, "num_key_value_heads": heads}
        cost = wb.cost(family, fields=changed, batch=batch, sequence=6, train=True, **eager)
        found = function(num_key_value_heads=heads, batch=batch, sequence=6)
        assert found == cost.saved_for_backward_bytes


def test_more_tokens_than_positions_are_refused() -> None:
    functions = run_python(wb.formula("bert", of="flops").text(code="python"))
    assert functions["forward_matmul_flops"](sequence=512)
    with pytest.raises(ValueError, match="sequence <= max_position_embeddings"):
        functions["forward_matmul_flops"](sequence=513)


def test_training_adds_the_backward_pass() -> None:
    found = wb.formula("llama", of="flops", train=True, dtype="bf16").to_dict()
    cost = wb.cost("llama", train=True, dtype="bf16")
    for name in ("forward_matmul_flops", "backward_matmul_flops", "recomputed_flops"):
        assert found[name]["value"] == cost.figures[name]
    assert found["run"] == {"profile": "cuda-flash", "dtype": "BF16", "training": True}


def test_a_window_is_a_minimum() -> None:
    found = wb.formula("mistral", of="cache", dtype="bf16").to_dict()
    assert found["cache_bytes"]["letters"] == "L·(4b·A_kv·D·min(c, sliding_window) + 8)"
    found = wb.formula("gpt_oss", of="cache", dtype="bf16").to_dict()
    assert found["loops"]["n_1"]["fields"] == (
        'count(layer_types[i] == "full_attention" for i in range(num_hidden_layers))'
    )


def test_terms_that_differ_otherwise_keep_their_condition() -> None:
    letters = Letters(load("llama"), {"context": 9, "window": 4})
    inside, context = Polynomial.of("1 if context < window else 0"), Polynomial.of("context")
    formula = inside * context + 7
    assert with_minima(formula, letters) == formula


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("of", FIGURES)
@pytest.mark.parametrize("form", ["text", "latex"])
def test_it_reads_in_80_columns_in_both_languages(lang: str, of: str, form: str) -> None:
    text = wb.formula("openai/gpt-oss-20b", of=of, dtype="bf16").text(lang, code=form)
    if form == "text":
        assert max(map(width, text.splitlines())) <= COLUMNS
    if lang == "zh":
        assert english_in(text) == []


REFUSED = {
    "of = 'flops', by = 'role'": "--of flops --by role",
    "the parameters do not depend on a run": "--train",
    "a cache depends neither on the kernels nor on training": "--of cache --train",
    "needs a dtype of whole bytes": "--of cache --dtype F4",
    "for the blueprints of this package only": "--of flops --blueprint none.toml",
    "there is no such profile": "--of saved --profile cuda",
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formula", "llama", *REFUSED[message].split()]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert main(["formula", "llama", *REFUSED[message].split(), "--lang", "zh"]) == 2
    assert english_in(capsys.readouterr().err) == []


def test_a_family_without_operations_is_refused() -> None:
    with pytest.raises(ModelError, match="no operations for the family xlm"):
        wb.formula("xlm", of="flops")
    with pytest.raises(ModelError, match="BertModel has no cache in its operations"):
        wb.formula("bert", of="cache")
    with pytest.raises(UsageError, match="unknown quantity"):
        wb.formula("llama", of="macs")


def test_a_formula_that_differs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from weighbridge.costs import costs

    monkeypatch.setattr(costs, "matmul_flops", lambda _: 1)
    with pytest.raises(wb.WeighbridgeError, match="and the sum of its operations differ"):
        wb.formula("llama", of="flops").text()


def test_both_languages_have_the_same_words() -> None:
    english, chinese = (data.read_toml(f"words/formula.{lang}.toml") for lang in ("en", "zh"))
    assert english.keys() == chinese.keys()
