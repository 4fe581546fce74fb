"""The article: every number follows from the ledger, in every format and in both languages."""

import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from arithmetic import chains, integers, value_of
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import MIXED
from markdown_it import MarkdownIt

from weighbridge import data
from weighbridge.answers import explain as explaining
from weighbridge.answers.explain import Article
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.blueprint.schema import Blueprint, load
from weighbridge.errors import ModelError, UsageError
from weighbridge.models.find import find
from weighbridge.render.document import Document, Heading, plain, write
from weighbridge.render.table import width

CLASSES = load("bert").class_names
LANGUAGES = ("en", "zh")
FORMATS = ("text", "markdown", "zhihu", "latex", "html")


def explain(*question, form="text", evidence=False, **more):
    """Return an article in a format."""
    article = explaining.explain(*question, **more)
    return write(article.document(article.lang, evidence=evidence), form)


sizes = st.fixed_dictionaries(
    {
        "vocab_size": st.integers(7, 3000),
        "num_hidden_layers": st.integers(1, 5),
        "num_attention_heads": st.integers(1, 4),
        "intermediate_size": st.integers(1, 99),
        "max_position_embeddings": st.integers(1, 99),
        "type_vocab_size": st.integers(1, 5),
        "num_labels": st.integers(1, 30),
        "tie_word_embeddings": st.booleans(),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    sizes, st.integers(1, 20), st.sampled_from(CLASSES), st.booleans(), st.sampled_from(LANGUAGES)
)
def test_every_chain_of_equalities_holds_and_ends_in_the_ledgers_number(
    fields, per_head, name, decoder, lang
):
    fields |= {"hidden_size": per_head * fields["num_attention_heads"], "model_type": "bert"}
    fields |= {"is_decoder": decoder, "add_cross_attention": decoder}
    weighing = weigh(fields, name)
    found = list(chains(Article(weighing).text(lang)))
    for parts in found:
        assert len({value_of(part) for part in parts}) == 1, parts
    values = [value_of(parts[-1]) for parts in found]
    for line in weighing.ledger.by("component"):
        assert line.parameters in values, line.name
    assert values[-1] == weighing.parameters


@pytest.mark.parametrize("name", CLASSES)
def test_both_languages_have_the_same_numbers(name):
    english, chinese = (explain("bert-base-chinese", name, lang=lang) for lang in LANGUAGES)
    large = [[number for number in integers(text) if number > 24] for text in (english, chinese)]
    assert large[0] == large[1]


@pytest.mark.parametrize("name", CLASSES)
def test_every_tensor_is_listed_with_its_shape(name):
    weighing = weigh("bert-base-chinese", name)
    text = Article(weighing).text()
    for entry in weighing.ledger.entries:
        row = next(line for line in text.splitlines() if line.startswith(entry.template.name + " "))
        assert (row.count("×") + 1 == len(entry.shape)) or not entry.shape


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_component_has_its_sentence(lang):
    sentences = data.read_toml(f"words/explain.{lang}.toml")["component"]
    of_checkpoints = {"quantization", "constant", "training"}  # only checkpoints have these
    assert set(sentences) == set(data.read_toml("facts/roles.toml")["components"]) - of_checkpoints


def shape(found):
    """Return the keys of nested data, without its texts."""
    if isinstance(found, dict):
        return {key: shape(value) for key, value in found.items()}
    return [shape(value) for value in found] if isinstance(found, list) else type(found)


@pytest.mark.parametrize(
    "kind", ["explain.{}", "{}", "formula.{}", "guess.{}", "inspect.{}", "tree.{}", "verify.{}"]
)
def test_the_languages_say_the_same_things(kind):
    english, chinese = (data.read_toml(f"words/{kind.format(lang)}.toml") for lang in LANGUAGES)
    grammar = {"one"}  # Chinese has no singular
    assert shape({key: english[key] for key in english.keys() - grammar}) == shape(
        {key: chinese[key] for key in chinese.keys() - grammar}
    )
    braces = re.compile(r"\{(\w+)[^}]*\}")
    for key in english:
        if isinstance(english[key], str):
            assert sorted(set(braces.findall(english[key]))) == sorted(
                set(braces.findall(chinese[key]))
            ), key


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_sentence_holds_a_number_of_its_own(lang):
    lines = data.read_text(f"words/explain.{lang}.toml").splitlines()
    for line in lines:
        if not line.startswith(("#", "where = ", "is = ", "kind = ")):
            assert not re.search(r"[1-9]", re.sub(r"\$[^$]*\$|`[^`]*`", "", line)), line


def test_only_parts_that_a_class_lacks_are_called_absent():
    assert "has none" in explain("bert", "BertForMaskedLM")
    assert "has none" not in explain("bert", "BertForPreTraining")
    assert "tied" in explain("bert", "BertForMaskedLM")
    assert "tied" not in explain("bert", "BertForMaskedLM", fields={"tie_word_embeddings": False})
    assert "cross-attention" not in explain("bert")
    assert "cross-attention" in explain(
        "bert", fields={"is_decoder": True, "add_cross_attention": True}
    )


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", ["BertModel", "BertForSequenceClassification"])
def test_a_terminal_of_80_columns_is_enough(lang, name):
    prose, _, _ = explain("bert-base-chinese", name, lang=lang).rpartition("import torch")
    assert [line for line in prose.splitlines() if width(line) > 80] == []


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_markdown_is_tables_mathematics_and_prose_and_nothing_left_over(name, lang):
    text = explain("bert-base-chinese", name, lang=lang, form="markdown")
    weighing = weigh("bert-base-chinese", name)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    kinds = [token.type for token in tokens]
    assert kinds.count("table_open") == 1 + len(weighing.ledger.by("component"))
    fences = [token for token in tokens if token.type == "fence"]
    assert {fence.info for fence in fences} == {"math", "python"}
    for token in tokens:
        if token.type == "inline":
            plain = "".join(child.content for child in token.children if child.type == "text")
            assert plain.count("$") == 2 * sum(
                before.content.endswith("$")
                for before, code in pairwise(token.children)
                if code.type == "code_inline"
            )
            assert "\\" not in plain


@pytest.mark.parametrize("name", ["bert-base-chinese", "gpt2", "Mixtral-8x7B-v0.1"])
@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_mathematics_for_zhihu_is_between_dollars(name, lang):
    article = explaining.explain(name, lang=lang)
    text = re.sub(r"```python.*?```", "", article.markdown(site="zhihu"), flags=re.DOTALL)
    assert "```" not in text
    blocks = re.findall(r"^\$\$\n(.*?)\n\$\$$", text, re.MULTILINE | re.DOTALL)
    fences = MarkdownIt("commonmark").parse(article.markdown())
    assert blocks == [token.content.strip() for token in fences if token.info == "math"]
    prose = re.sub(r"\$\$.*?\$\$|`[^`]*`", "", text, flags=re.DOTALL)
    pieces = re.split(r"\$(?=\S)([^$]*\S)\$(?!\d)", prose)
    assert len(pieces) > 40
    for plain_text, mathematics in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        assert "$" not in plain_text
        assert not re.search(r"\\[a-zA-Z,]", plain_text), plain_text
        assert "\n" not in mathematics


def test_an_unknown_site_is_one_clear_error():
    with pytest.raises(UsageError, match="unknown site"):
        explaining.explain("bert").markdown(site="medium")


class Balance(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.outside = [], []

    def handle_starttag(self, tag, attrs):
        self.outside += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_html_is_balanced_and_stands_alone(lang):
    page = explain("bert-base-chinese", "BertForPreTraining", lang=lang, form="html")
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert balance.outside == []
    assert "$" not in page
    assert "://" not in page.replace("&#x27;", "")


def test_a_phone_shows_the_counts():
    """On a narrow page, names and shapes wrap; the numbers on the right do not."""
    page = explain("bert-base-chinese", form="html")
    narrow = page.partition("@media (max-width: 40rem)")[2].partition("</style>")[0]
    assert "overflow-wrap: anywhere" in narrow
    assert re.search(r'td\[style\*="right"\] \{[^}]*white-space: nowrap', narrow)
    assert '<td style="text-align:right">589,824</td>' in page
    assert "<code>encoder.<wbr>layer.{i}.<wbr>attention.<wbr>self.<wbr>query.<wbr>weight" in page


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", ["google/gemma-2b", "t5-small", "facebook/opt-125m"])
def test_nothing_is_derived_from_zero(name, lang):
    """A part whose tensors are all shared has no formula, and adds nothing to the total."""
    text = explain(name, lang=lang)
    assert not re.search(r"^ *(= )?0$", text, re.MULTILINE)
    assert "+ 0" not in text


def test_a_path_is_not_a_title(tmp_path, monkeypatch):
    config = {"model_type": "bert", "_name_or_path": "/home/me/bert"}
    for name, expected in (("", "bert"), ("org/my-bert", "org/my-bert"), ("../bert", "bert")):
        config["_name_or_path"] = name or config["_name_or_path"]
        (tmp_path / "config.json").write_text(json.dumps(config))
        for described in (str(tmp_path), str(tmp_path / "config.json"), config):
            title = explain(described).splitlines()[0]
            assert title == f"How the 109,482,240 parameters of {expected} are counted"
    assert explain("bert", title="Weighing *BERT*").splitlines()[:2] == [
        "Weighing *BERT*",
        "=" * 15,
    ]


def test_the_count_that_people_mean_has_the_other_beside_it():
    llama = explain("Llama-2-7b")
    assert "LlamaForCausalLM has" in llama
    assert "The base class, LlamaModel, has 6,607,343,616." in " ".join(llama.split())
    assert "6,738,415,616 - 131,072,000 = 6,607,343,616" in " ".join(llama.split())
    assert "Without the head" not in explain("google/gemma-2b"), "its head adds nothing"
    family = " ".join(explain("llama").split())
    assert "With a head that generates text, it is LlamaForCausalLM (6,738,415,616)." in family
    bert = " ".join(explain("bert-base-chinese").split())
    assert "The class that the config names, BertForMaskedLM, has 102,290,312." in bert
    assert "With a head" not in bert
    assert "With a head" not in explain("bert"), "the class with one lacks the pooler"


def shown(form, text):
    """Return a text as readers see it, on one line."""
    if form == "html":
        text = html.unescape(re.sub("<[^>]*>", "", text))
    elif form in ("markdown", "zhihu"):
        inline = [token for token in MarkdownIt("commonmark").parse(text) if token.type == "inline"]
        text = " ".join(child.content for token in inline for child in token.children)
    return " ".join(text.split())


LATEX = {
    "a_b&<c>#%{}": r"a\_b\&\textless{}c\textgreater{}\#\%\{\}",
    "a$V + $b": r"a\$V + \$b",
    "e$=9$f": r"e\$=9\$f",
    "x*y**z**": "x*y**z**",
    "`q` \\w\\": r"\textasciigrave{}q\textasciigrave{} \textbackslash{}w\textbackslash{}",
    "&lt;~s~|^": r"\&lt;\textasciitilde{}s\textasciitilde{}\textbar{}\textasciicircum{}",
}


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", LATEX)
@pytest.mark.parametrize("form", FORMATS)
def test_text_from_outside_is_escaped(form, name, lang, tmp_path):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    text = explain(str(folder), lang=lang, form=form, evidence=True, title=f"t/{name}/t")
    assert "109,482,240" in text
    written = LATEX[name] if form == "latex" else name
    visible = shown(form, text)
    assert visible.count(f"/{written}/config.json") == 1, "as the source of the config"
    assert visible.count(f"t/{written}/t") == (2 if form == "html" else 1), "in the title"


@given(st.text(st.sampled_from("\\`*$=#VH9a_{}"), min_size=1))
def test_plain_text_stays_unchanged_among_marks(outside):
    marked = f"{plain(outside)}**{plain(outside)}**`H`{plain(outside)}$=V$"
    written = write(Document((Heading(3, marked),), "en", {"V": 7}), "html")
    assert f"<h3>{outside}<strong>{outside}</strong><code>H</code>{outside}7</h3>" in written


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_latex_compiles(lang, tmp_path):
    if not shutil.which("xelatex"):
        pytest.skip("xelatex is not installed")
    text = explain("bert-base-chinese", "BertForPreTraining", lang=lang, form="latex")
    (tmp_path / "article.tex").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["xelatex", "-interaction=nonstopmode", "-halt-on-error", "article.tex"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in done.stdout


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_latex_is_balanced(lang):
    text = explain("bert-base-chinese", "BertForPreTraining", lang=lang, form="latex")
    assert r"layer.\allowbreak{}\{i\}" in text
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    assert sorted(re.findall(r"\\begin\{([^}]*)\}", text)) == sorted(
        re.findall(r"\\end\{([^}]*)\}", text)
    )


@pytest.mark.torch
@pytest.mark.parametrize(
    ("model", "name", "fields"),
    [
        ("bert-base-chinese", "BertModel", {}),
        ("bert", "BertForSequenceClassification", {"id2label": {"0": "a", "1": "b", "2": "c"}}),
        (
            "bert",
            "BertLMHeadModel",
            {"is_decoder": True, "add_cross_attention": True, "num_hidden_layers": 2},
        ),
    ],
)
def test_the_code_for_readers_gives_the_total(model, name, fields):
    text = explain(model, name, fields=fields)
    code = "\n".join(line[4:] for line in text[text.index("    import torch") :].splitlines())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert int(done.stdout) == weigh(model, name, fields=fields).parameters


def test_a_wrong_language_format_or_class_is_one_clear_error():
    with pytest.raises(UsageError, match="no such language"):
        explain("bert", lang="fr")
    with pytest.raises(ModelError, match="BertForMaskedLM"):
        explain("bert", "BertForMaskdLM")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_layers_that_differ_and_unusual_fields_are_described_truly(lang):
    """The article mentions no letters that the model lacks, nor equal layers; each chain holds."""
    found = find("bert")._replace(
        blueprint=Blueprint(MIXED),
        fields=MIXED["defaults"],
        where="mixed",
        config={},
        named_class="MixedModel",
    )
    weighing = Weighing(found, "MixedModel")
    text = Article(weighing).text(lang)
    chained = list(chains(text))
    for parts in chained:
        assert len({value_of(part) for part in parts if part}) == 1, parts
    assert value_of(chained[-1][-1]) == weighing.parameters
    assert ("are alike" if lang == "en" else "结构完全相同") not in text
    assert ("are alike" if lang == "en" else "结构完全相同") in explain("bert", lang=lang)
    assert "h.{0,2}.intermediate.dense.weight" in text
    assert "h.{2}.attention.self.key.weight" in text
    assert "(width + 2) × width" in text


@pytest.mark.parametrize("lang", LANGUAGES)
def test_layers_that_differ_are_not_called_alike_or_counted_as_such(lang):
    lettered = json.loads(
        json.dumps(MIXED).replace("width", "hidden_size").replace("depth", "num_hidden_layers")
    )
    fields = lettered["defaults"] | {"hidden_size": 7}
    found = find("bert")._replace(
        blueprint=Blueprint(lettered),
        fields=fields,
        where="mixed",
        config={},
        named_class="MixedModel",
    )
    text = Article(Weighing(found, "MixedModel")).text(lang)
    assert ("are alike" if lang == "en" else "结构完全相同") not in text
    for parts in chains(text):
        assert len({value_of(part) for part in parts}) == 1, parts


def test_parts_that_no_class_of_the_family_has_are_not_called_absent():
    raw = {
        **MIXED,
        "tensors": {
            name: dims for name, dims in MIXED["tensors"].items() if not name.startswith("pooler")
        },
    }
    found = find("bert")._replace(
        blueprint=Blueprint(raw),
        fields=MIXED["defaults"],
        where="mixed",
        config={},
        named_class="MixedModel",
    )
    assert "pooler" not in Article(Weighing(found, "MixedModel")).text().replace(
        "the pooler and", ""
    )
