"""The closed form: every format gives the total of the ledger and is readable."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import sqlite
from drawn import bases, ledgers
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import ALL, blueprint

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.answers.code import python, sql
from weighbridge.answers.formula import FORMS, GROUPINGS, NAMES, ClosedForm
from weighbridge.answers.tree import Tree
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.blueprint.schema import Blueprint, families, load
from weighbridge.cli import main
from weighbridge.data import LANGUAGES
from weighbridge.errors import UsageError, WeighbridgeError
from weighbridge.ledger.ledger import Ledger, bind
from weighbridge.ledger.lettering import Lettering
from weighbridge.ledger.symbols import letters, letters_of
from weighbridge.models.find import bound
from weighbridge.render import math
from weighbridge.render.table import CODE, LATEX, Table, lines_of, text, width, wrap

if TYPE_CHECKING:
    from pathlib import Path

# A model like those of derived blueprints: sub-configs, long or reserved names, lists of texts,
# fractions, and divisions with a remainder.
LONG = blueprint(
    "long",
    defaults={
        "text_config.hidden_size": 12,
        "text_config.num_attention_heads": 5,
        "text_config.num_hidden_layers": 4,
        "text_config.layer_types": ["full_attention", "slide & co", "full_attention", "slide & co"],
        "text_config.vocab_size": 7,
        "vision_config.hidden_size": 8,
        "vision_config.num_hidden_layers": 3,
        "vision_config.image_size": 30,
        "vision_config.patch_size": 4,
        "vision_config.mlp_ratio": 2.7,
        "vision_config.temporal_patch_size_of_every_frame": 2,
        "text_config_hidden_size": 3,
        "lambda": 2,
        "order": 6,
        "conv_kernel": 3,
        "gated": True,
        "wide": False,
    },
    configs={"text_config": "", "vision_config": ""},
    repeat={"i": "text_config.num_hidden_layers", "k": "vision_config.num_hidden_layers"},
    tensors={
        "embed.weight": "text_config.vocab_size text_config.hidden_size",
        "layers.{i}.self_attn.q_proj.weight": (
            "text_config.hidden_size//text_config.num_attention_heads lambda*order"
        ),
        "layers.{i}.window": "text_config.hidden_size",
        "vision.patch.weight": (
            "(vision_config.image_size//vision_config.patch_size)**2 vision_config.hidden_size"
        ),
        "vision.blocks.{k}.mlp.weight": (
            "int(vision_config.hidden_size*vision_config.mlp_ratio) conv_kernel"
        ),
        "vision.frames": (
            "vision_config.temporal_patch_size_of_every_frame*2 text_config_hidden_size"
        ),
        "gate": "(order if gated else lambda) (2 if wide else 1)",
        "lm_head.weight": "text_config.vocab_size text_config.hidden_size",
    },
    when={"layers.{i}.window": 'text_config.layer_types[i] == "slide & co"'},
    ties={"lm_head.weight": "embed.weight if gated"},
    modules={
        "embed": "Embedding",
        "layers.{i}": " | ".join(f"AQuiteLongNameOfALayerOfKind{kind}" for kind in "ABC"),
        "layers.{i}.self_attn.q_proj": "Linear",
        "vision.patch": "Linear",
        "vision.blocks.{k}.mlp": "Linear",
        "lm_head": "Linear",
    },
)
NAMES_OF_FORMS = [(form, names) for form in FORMS for names in (None, *NAMES)]


def weighing(raw: dict[str, Any] = LONG, class_name: str = "Base", **fields: Any) -> Weighing:
    found = Blueprint(raw)
    return Weighing(bound(fields, found, raw["family"]), class_name)


EXPERTS = ALL["experts"][0]


def closed_form(weighing: Weighing, form: str = "text", lang: str = "en", **choices: Any) -> str:
    """Return a count in closed form as the command writes it."""
    answer = ClosedForm(weighing, lang)
    if form == "json":
        return json.dumps(answer.to_dict(**choices), ensure_ascii=False)
    return answer.text(code=form, **choices)


def run(code: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(code, found)  # noqa: S102  # what it writes is code to run
    return found


def ask(query: str) -> tuple[int, ...]:
    """Return the row that SQLite computes."""
    (found,) = sqlite.rows(query)
    return tuple(found)


def flat(written: str) -> str:
    """Return a text with its lines joined."""
    return " ".join(written.split())


def formulas(ledger: Ledger) -> dict[str, Any]:
    return {"parameters": ledger.formula(), "active": ledger.active_formula()}


# Every format gives the numbers of the ledger


@settings(deadline=None)
@given(ledgers)
def test_the_python_runs_and_returns_the_ledgers_numbers(ledger: Ledger) -> None:
    lines = ledger.by("role")
    found = run(
        python(
            Lettering(ledger),
            formulas(ledger),
            {line.name: ledger.formula_of([line]) for line in lines},
            "roles",
        )
    )
    assert found["parameters"]() == ledger.parameters
    assert found["active"]() == ledger.active
    assert found["roles"]() == {line.name: line.parameters for line in lines}


@settings(deadline=None)
@given(bases, st.integers(1, 9))
def test_the_python_returns_the_total_at_other_sizes(ledger: Ledger, size: int) -> None:
    found = run(python(Lettering(ledger), {"parameters": ledger.formula()}, {}, "total"))
    other = bind(ledger.blueprint, "Base", {**ledger.fields, "width": size})
    assert found["parameters"](width=size) == other.parameters


@settings(deadline=None)
@given(ledgers)
def test_the_sql_gives_the_numbers_of_the_ledger(ledger: Ledger) -> None:
    query = sql(Lettering(ledger), formulas(ledger))
    assert ask(query.text) == (ledger.parameters, ledger.active)
    for wordless, number in query.numbers.items():
        assert evaluate(parse(wordless), ledger.fields) == number


@pytest.mark.parametrize("form", ["python", "sql"])
@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("raw", [LONG, EXPERTS], ids=lambda raw: raw["family"])
def test_the_code_of_the_command_runs_unchanged(raw: dict[str, Any], by: str, form: str) -> None:
    found = weighing(raw)
    written = closed_form(found, form, by=by)
    groups = {} if by == "total" else found.by(by)
    totals = [found.parameters, *([found.ledger.active] if raw is EXPERTS else [])]
    if form == "sql":
        assert list(ask(written)) == [*groups.values(), *totals]
    else:
        names = run(written)
        assert [names[name]() for name in ("parameters", "active") if name in names] == totals
        assert not groups or names[f"{by}s"]() == groups


def test_code_calls_each_field_by_a_name_of_its_own() -> None:
    found = weighing()
    names = run(closed_form(found, "python"))
    at = found.model.fields
    changed = {"text_config_hidden_size": 24, "lambda_": 5, "text_config_hidden_size_": 9}
    fields = {"text_config.hidden_size": 24, "lambda": 5, "text_config_hidden_size": 9}
    assert (
        names["parameters"](**changed)
        == bind(found.model.blueprint, "Base", {**at, **fields}).parameters
    )
    assert "CAST(6 AS BIGINT) AS order_," in closed_form(found, "sql")


# Expressions that SQL can and cannot express

PORTABLE = [
    "a//b",
    "(a+b)//b*a",
    "a//(b+1)",
    "a%b + 1",
    "a**3*b",
    "(a//b)**2 + 1",
    "max(a, b, 3)",
    "min(a, b) + 1",
    "a if a > b else b",
    "a if a == b or not (a < b and b != 3) else b",
    "a if a >= b else b if a <= 2 else 1",
    "int(a*ratio)",
    "floor(a*ratio) + 1",
    "ceil(a*ratio)",
    "int(a/b) + 1",
    "ceil(a/b)",
    "int(a*ratio) // b + 1",
]
WORDLESS = [
    "round(a*ratio)",
    "int(sqrt(a)) + 1",
    "2**a",
    "a**17",
    "int(a*ratio // 1)",
    "sizes[a % 2]",
    "len(sizes)*a",
]


def single(dim: str, a: int, b: int, ratio: float) -> Ledger:
    raw = blueprint(
        "single",
        defaults={"a": a, "b": b, "ratio": ratio, "sizes": [4, 5]},
        tensors={"w": f"({dim})"},
        zero=["a", "b"],
    )
    return bind(Blueprint(raw), "Base", raw["defaults"])


@settings(deadline=None)
@given(
    st.sampled_from(PORTABLE),
    st.integers(1, 40),
    st.integers(1, 9),
    st.sampled_from([0.5, 1.0, 1.3, 2.7, 4.0]),
)
def test_sql_keeps_every_expression_that_it_can_express(
    dim: str, a: int, b: int, ratio: float
) -> None:
    ledger = single(dim, a, b, ratio)
    query = sql(Lettering(ledger), {"parameters": ledger.formula()})
    assert query.numbers == {}
    (found,) = ask(query.text)
    assert (found, type(found)) == (ledger.parameters, int)


def test_a_rounded_cast_is_corrected_downwards() -> None:
    ledger = single(
        "int(a*ratio)", 3, 1, 1.3
    )  # SQLite casts 3.9 to 3; DuckDB and PostgreSQL cast it to 4
    query = sql(Lettering(ledger), {"parameters": ledger.formula()})
    assert (
        "(CAST(a * ratio AS BIGINT)"
        " - CASE WHEN CAST(a * ratio AS BIGINT) > a * ratio THEN 1 ELSE 0 END)" in flat(query.text)
    )


@pytest.mark.parametrize("dim", WORDLESS)
def test_an_expression_beyond_sql_is_a_number_with_a_comment(dim: str) -> None:
    ledger = single(dim, 3, 2, 1.3)
    query = sql(Lettering(ledger), {"parameters": ledger.formula()})
    assert ask(query.text) == (ledger.parameters,)
    assert (
        query.numbers or dim == "len(sizes)*a"
    )  # the length of the list is a number before letters are assigned


def test_sql_states_the_values_decided_for_it() -> None:
    written = closed_form(weighing(EXPERTS), "sql")
    assert '-- 1 stands for count(kinds[i] == "full" for i in range(layers)), which SQL' in written
    assert "-- Division rounded down" in closed_form(weighing(), "sql")
    assert "-- Division rounded down" not in written


# Readable text


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("names", [None, *NAMES])
@pytest.mark.parametrize("raw", [LONG, EXPERTS], ids=lambda raw: raw["family"])
def test_a_terminal_of_80_columns_is_enough(
    raw: dict[str, Any], names: str | None, by: str, lang: str
) -> None:
    written = closed_form(weighing(raw), by=by, names=names, lang=lang)
    assert [line for line in written.splitlines() if width(line) > 80] == []


def test_text_has_both_names_the_legend_and_the_value() -> None:
    written = closed_form(weighing(EXPERTS))
    assert written.startswith("experts · Base\n\nparameters\n    = ")
    assert f"    = {weighing(EXPERTS).parameters}\n" in written
    assert 'n_1 = 1 = count(kinds[i] == "full" for i in range(layers))\n' in written
    assert "(layers - first_dense)·" in written
    assert "(layers - first_dense) * " in written
    assert re.search(r"^        experts +4$", written, re.MULTILINE)
    assert "the sum over the model's" in written
    assert closed_form(weighing(EXPERTS), names="letters").count(" * ") == 0
    assert closed_form(weighing(EXPERTS), names="fields").count("·") == 1  # in the heading


def test_a_constant_is_its_value() -> None:
    raw = blueprint("constant", defaults={}, tensors={"w": "3 4"})
    assert closed_form(weighing(raw)).startswith(
        "constant · Base\n\nparameters\n    = 12\n\nFor this config"
    )
    assert ask(closed_form(weighing(raw), "sql")) == (12,)
    assert run(closed_form(weighing(raw), "python"))["parameters"]() == 12


def test_the_legend_has_each_letter_its_field_its_meaning_and_its_value() -> None:
    written = closed_form(weighing())
    assert re.search(
        r"^H_t +text_config\.hidden_size +hidden size \(text_config\) +12$", written, re.MULTILINE
    )
    assert re.search(
        r"^H_v +vision_config\.hidden_size +hidden size \(vision_config\) +8$",
        written,
        re.MULTILINE,
    )
    assert "⌊I/p⌋²" in written
    assert "⌊ ⌋ means division rounded down." in written


def test_a_tied_tensor_is_listed_with_the_number_it_would_add() -> None:
    written = flat(closed_form(weighing()))
    assert (
        "lm_head.weight is embed.weight and is counted there;"
        " counted separately, it would add V·H_t = 84." in written
    )
    assert "lm_head" not in closed_form(weighing(gated=False)).replace("lm_head.weight = ", "")
    assert json.loads(closed_form(weighing(), "json"))["tied"] == [
        {
            "tensor": "lm_head.weight",
            "to": "embed.weight",
            "letters": "V·H_t",
            "fields": "text_config.vocab_size * text_config.hidden_size",
            "value": 84,
        }
    ]


def test_the_fields_that_decide_the_tensors_are_named() -> None:
    assert "which decide the tensors: gated = true, text_config.layer_types, wide = false." in flat(
        closed_form(weighing())
    )


def test_a_division_without_remainder_names_its_rule() -> None:
    raw = blueprint(
        "even",
        defaults={"width": 12, "heads": 3},
        require=["width % heads == 0", "heads > 1"],
        tensors={"w": "width//heads width"},
    )
    written = closed_form(weighing(raw))
    assert "    = width²/heads\n    = width ** 2 // heads\n    = 48\n" in written
    assert "because this family requires width % heads == 0." in flat(written)
    assert "⌊" not in written
    assert ask(closed_form(weighing(raw), "sql")) == (48,)


@pytest.mark.parametrize("form", FORMS)
def test_experts_have_both_totals_and_both_formulas(form: str) -> None:
    found = weighing(EXPERTS)
    written = closed_form(found, form)
    total, active = found.ledger.parameters, found.ledger.active
    assert active < total
    if form == "json":
        report = json.loads(written)
        assert (report["parameters"]["value"], report["active"]["value"]) == (total, active)
        assert "experts_per_token" in report["active"]["fields"]
        assert "experts_per_token" not in report["parameters"]["fields"]
    elif form in ("text", "latex"):
        assert f"= {total}" in written
        assert f"= {active}" in written
    assert "active" not in closed_form(weighing(), form).lower()


def test_json_has_everything() -> None:
    report = json.loads(closed_form(weighing(EXPERTS), "json", by="component"))
    assert list(report) == [
        *(
            "model",
            "family",
            "class",
            "parameters",
            "active",
            "components",
            "sizes",
            "loops",
            "decided",
        ),
        *("region", "needed", "tied", "notes", "evidence"),
    ]
    assert (
        sum(line["value"] for line in report["components"].values())
        == report["parameters"]["value"]
    )
    fields = {size["field"]: size["value"] for size in report["sizes"]}
    loops = {name: loop["value"] for name, loop in report["loops"].items()}
    for line in (report["parameters"], report["active"], *report["components"].values()):
        assert evaluate(parse(line["fields"]), {**fields, **loops}) == line["value"]
    assert report["loops"]["n_1"]["fields"] == 'count(kinds[i] == "full" for i in range(layers))'
    assert report["decided"]["kinds"] == ["slide", "slide", "full", "slide", "slide"]


@pytest.mark.parametrize("form", FORMS)
def test_both_languages_have_the_same_numbers(form: str) -> None:
    def numbers(lang: str) -> list[str]:
        return sorted(re.findall(r"\d+(?:,\d{3})*", closed_form(weighing(), form, lang=lang)))

    assert numbers("en") == numbers("zh")


def test_a_formula_that_does_not_come_to_the_total_is_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = weighing()
    monkeypatch.setattr(Ledger, "formula", lambda self: self.formula_of([]))
    with pytest.raises(WeighbridgeError, match="its formula and the sum of its tensors differ"):
        closed_form(found)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"form": "yaml"}, "unknown format .*use one of text, latex, python, sql, json"),
        ({"by": "layer"}, "unknown grouping .*use one of total, component, role"),
        ({"names": "runes"}, "unknown names .*use one of letters, fields"),
        ({"lang": "xx"}, "no such language"),
        ({"form": "sql", "names": "letters"}, "sql is written in field names"),
        ({"form": "python", "names": "letters"}, "python is written in field names"),
    ],
)
def test_unknown_choices_are_refused(asked: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        closed_form(weighing(), **asked)
    assert re.search(message, str(error.value), re.IGNORECASE)


def test_the_command_line_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["formula", "bert-base-chinese", "--set", "vocab_size=30522", "--format", "sql"]) == 0
    )
    assert ask(capsys.readouterr().out) == (109_482_240,)
    assert (
        main(["formula", "bert-base-chinese", "--class", "BertForMaskedLM", "--by", "component"])
        == 0
    )
    assert (
        capsys.readouterr().out
        == closed_form(weigh("bert-base-chinese", "BertForMaskedLM"), by="component") + "\n"
    )
    assert main(["formula", "bert", "--format", "python", "--names", "letters"]) == 2


# LaTeX


def test_latex_escapes_what_a_field_and_a_text_may_hold() -> None:
    written = closed_form(weighing(), "latex", names="fields")
    assert r'\text{\texttt{"slide \& co"}}' in written
    assert r"\mathit{text\_config.layer\_types}_{i}" in written
    body = written[written.index(r"\begin{align*}") :]
    assert not re.search(r"(?<![\\}])_(?!\{)", body)
    assert body.count("{") - body.count(r"\{") == body.count("}") - body.count(r"\}")
    for line in body.splitlines():
        assert line.count("{") == line.count("}")


def test_a_subscript_never_follows_a_subscript() -> None:
    assert (
        math.with_names(parse("sizes[i][0] + x[1]"), math.LATEX) == r"\mathit{sizes}_{i}[0] + x[1]"
    )


def test_html_in_values_is_not_markup() -> None:
    assert (
        math.with_names(parse('b < 3 and b == "<"'), math.HTML)
        == '<i>b</i> &lt; 3 and <i>b</i> == "&lt;"'
    )


def test_the_latex_compiles(tmp_path: Path) -> None:
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed")
    wanted = [
        (raw, by, names)
        for raw in (LONG, EXPERTS, ALL["stages"][0])
        for by in GROUPINGS
        for names in NAMES
    ]
    body = "\n\n".join(
        closed_form(weighing(raw), "latex", by=by, names=names) for raw, by, names in wanted
    )
    head = "\\documentclass{article}\\usepackage{amsmath}\\begin{document}"
    (tmp_path / "all.tex").write_text(f"{head}\n{body}\n\\end{{document}}\n", encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-1500:]


# Letters


@pytest.mark.sampled("src/weighbridge/ledger")
@pytest.mark.parametrize("family", [*families(), *ALL])
def test_the_numbers_of_a_family_have_distinct_letters_and_no_index(family: str) -> None:
    found = Blueprint(ALL[family][0]) if family in ALL else load(family)
    named = letters_of(found)
    assert len(set(named.values())) == len(named)
    assert set(named.values()).isdisjoint({*found.repeat, *found.fields})


def test_a_taken_letter_is_not_given_again() -> None:
    assert letters(["conv_kernel", "hidden_size"], ["k"]) == {"hidden_size": "H"}
    assert letters(["text_config.conv_kernel"], ["k"]) == {"text_config.conv_kernel": "k_t"}
    assert "conv_kernel" not in letters_of(Blueprint(LONG))
    assert letters_of(Blueprint(LONG))["vision_config.mlp_ratio"] == "m"


@pytest.mark.sampled(
    "src/weighbridge/answers/formula", "src/weighbridge/ledger", "src/weighbridge/algebra"
)
@pytest.mark.parametrize("family", families())
def test_every_family_has_a_closed_form(family: str) -> None:
    found = weigh(family)
    assert ask(closed_form(found, "sql"))[0] == found.parameters
    assert run(closed_form(found, "python"))["parameters"]() == found.parameters
    for written in (closed_form(found), found.text(), Tree(found).text()):
        long = [line.strip() for line in written.splitlines() if width(line) > 80]
        names = [
            line for line in long if " " not in line.removeprefix("= ")
        ]  # names of tensors are not cut
        assert [
            line
            for line in long
            if line not in names or (line.startswith("=") and width(line) <= 80)
        ] == []


@pytest.mark.parametrize(
    ("model", "class_name"),
    [
        ("t5", "T5ForTokenClassification"),
        ("umt5", "UMT5ForTokenClassification"),
        ("rt_detr_resnet", None),
        ("sam3_lite_text", None),
        ("bamba", None),
        ("regnet", None),
    ],
)
def test_loops_do_not_ask_what_the_config_has_decided(model: str, class_name: str | None) -> None:
    ledger = weigh(model, class_name).ledger
    lettering = Lettering(ledger)
    written = lettering.text(ledger.formula())
    assert not re.search(r"·1(?![\d,.])", written)
    names = {name for tree in lettering.parts.values() for name in names_in(tree)}
    decided = {name for name in names if isinstance(ledger.fields.get(name, 1), bool | str | None)}
    assert decided == set()


def test_the_first_layers_are_taken_from_the_rest_once() -> None:
    ledger = weighing(EXPERTS).ledger
    (line,) = [
        line
        for line in ledger.by("role")
        if any("router" in entry.template.name for entry in line.entries)
    ]
    written = Lettering(ledger)
    assert "(layers - first_dense)·" in written.text(ledger.formula_of([line]))
    assert (
        written.named(ledger.formula())(**ledger.fields, n_1=written.value("n_1"))
        == ledger.parameters
    )


# Other reports on models with experts or long names


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_weighing_of_experts_has_the_active_parameters_too(lang: str) -> None:
    found = weighing(EXPERTS)
    active = found.ledger.active
    assert found.to_dict()["active"] == active
    label = data.read_toml(f"words/{lang}.toml")["active"]
    for by in ("component", "tensor"):
        assert re.search(rf"^{label} +{active}\b", found.text(lang, by=by), re.MULTILINE)
        assert re.search(
            rf"^\| {label} \|.* {active} \|", found.markdown(lang, by=by), re.MULTILINE
        )
    assert label in found.html(lang=lang)
    dense = weighing()
    assert "active" not in dense.to_dict()
    assert label not in dense.text(lang=lang) + dense.markdown(lang=lang) + dense.html(lang=lang)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("by", ["component", "role", "layer", "tensor"])
@pytest.mark.parametrize("raw", [LONG, EXPERTS, ALL["stages"][0]], ids=lambda raw: raw["family"])
def test_a_weighing_and_a_tree_stay_in_80_columns(raw: dict[str, Any], by: str, lang: str) -> None:
    found = weighing(raw)
    for written in (found.text(lang, by=by), Tree(found).text(lang)):
        assert [line for line in written.splitlines() if width(line) > 80] == []


def test_the_name_of_a_loop_is_explained_below_the_table() -> None:
    written = weighing(EXPERTS).text(by="role")
    assert "n_1 = 1 count(kinds[i] ==" in flat(written)


def test_a_name_too_long_for_its_column_stands_above_the_rest_of_its_row() -> None:
    name = "model." + "layers." * 10 + "weight"
    written = text(
        Table(("tensor", "shape", "count"), ((name, "12×12", "144"), ("b", "12", "12")), "<<>")
    )
    header, first, rest, second = written.splitlines()
    assert (header.split(), first, rest.split()) == (
        ["tensor", "shape", "count"],
        name,
        ["12×12", "144"],
    )
    assert second.index("12") == rest.index("12×12") == header.index("shape")
    assert width(header) == width(rest) == 80


def test_a_formula_in_prose_is_broken_after_a_factor() -> None:
    written = wrap("It has " + "·".join(["hidden_size"] * 10) + " parameters.", 40)
    assert [line for line in written.splitlines() if width(line) > 40] == []
    assert wrap("at /" + "long/" * 20) == "at\n  /" + "long/" * 20


@given(st.text("ab ·+-_.*", min_size=1), st.integers(4, 30))
def test_a_broken_formula_is_whole(formula: str, columns: int) -> None:
    for breaks in (CODE, LATEX):
        assert "".join(lines_of(formula, columns, breaks)).replace(" ", "") == formula.replace(
            " ", ""
        )
    assert "".join(lines_of(formula, columns)).replace(" ", "") == formula.replace(" ", "")
