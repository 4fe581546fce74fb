"""A blueprint file, its law, and how one whose layers differ is bound."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import MIXED
from made_up import blueprint as made

from weighbridge import data
from weighbridge.algebra.expr import parse
from weighbridge.blueprint import law
from weighbridge.blueprint import schema as blueprint
from weighbridge.blueprint.law import LAW, check
from weighbridge.blueprint.roles import component_of, role_of
from weighbridge.blueprint.schema import MOST_LAYERS, Blueprint
from weighbridge.errors import BlueprintError, ExpressionError, ModelError, UsageError
from weighbridge.ledger.ledger import bind
from weighbridge.render.messages import error_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from weighbridge.ledger.ledger import Ledger

    Raw = dict[str, Any]

unhurried = settings(deadline=None)
QUERY = "encoder.layer.{i}.attention.self.query"


def bert() -> Raw:
    return deepcopy(data.read_toml("blueprints/bert.toml"))


def rules_broken_by(raw: Raw) -> list[str]:
    return [name for name, rule in LAW.items() if list(rule(raw))]


@pytest.mark.sampled("src/weighbridge/blueprint")
@pytest.mark.parametrize("family", blueprint.families())
def test_every_shipped_blueprint_keeps_the_law(family: str) -> None:
    raw = data.read_toml(f"blueprints/{family}.toml")
    check(raw, family)
    assert raw["family"] == family


# For each rule, changes to bert that break this rule and no other. A case is a name, the change,
# and a part of the message.
CASES: dict[str, dict[str, tuple[Callable[[Raw], object], str]]] = {
    "types": {
        "a text that is a number": (lambda raw: raw.update(source=5), "source must be text"),
        "a list that is a text": (
            lambda raw: raw.update(inert="hidden_act"),
            "inert must be a list of texts",
        ),
        "a list of numbers": (lambda raw: raw.update(inert=[1]), "inert must be a list of texts"),
        "dims that are a number": (
            lambda raw: raw["tensors"].update({"pooler.dense.bias": 768}),
            "tensors must be a table of texts",
        ),
        "a table that is a list": (lambda raw: raw.update(buffers=[]), "buffers must be a table"),
        "a class that is a text": (
            lambda raw: raw["classes"].update(BertModelToo="bert"),
            "classes.BertModelToo must be a table",
        ),
        "a base that is a text": (
            lambda raw: raw["classes"]["BertForMaskedLM"].update(base="no"),
            "classes.BertForMaskedLM.base must be true or false",
        ),
        "values that are one text": (
            lambda raw: raw.update(values={"hidden_act": "gelu"}),
            "values.hidden_act must be a list of texts",
        ),
        "other words that are a text": (
            lambda raw: raw.update(spelled={"hidden_act": "gelu"}),
            "spelled.hidden_act must be a table of texts",
        ),
        "holes that are a text": (
            lambda raw: raw["proof"].update(holes="none"),
            "proof.holes must be a list of texts",
        ),
    },
    "keys": {
        "one that is missing": (lambda raw: raw.pop("source"), "source is missing"),
        "an unknown one": (lambda raw: raw.update(colour="red"), "colour is unknown"),
        "one that a class cannot have": (
            lambda raw: raw["classes"]["BertForMaskedLM"].update(defaults={}),
            "classes.BertForMaskedLM.defaults is unknown",
        ),
        "a proof without a key": (
            lambda raw: raw["proof"].pop("configs"),
            "proof must have against, by, configs, and may",
        ),
        "a proof with another key": (
            lambda raw: raw["proof"].update(date="today"),
            "proof must have against, by, configs, and",
        ),
    },
    "format": {"another": (lambda raw: raw.update(format=1), "this version reads format 2, not 1")},
    "expressions": {
        "a rule cut short": (
            lambda raw: raw["require"].append("hidden_size >"),
            "require: hidden_size >: expected",
        ),
        "dims that chain powers": (
            lambda raw: raw["tensors"].update({"pooler.dense.bias": "2**2**2"}),
            "powers do",
        ),
    },
    "names": {
        "a field with no default": (
            lambda raw: raw["require"].append("width > 0"),
            "require: width has no default",
        ),
        "an index where nothing repeats": (
            lambda raw: raw["tensors"].update({"pooler.dense.bias": "hidden_size+i"}),
            "pooler.dense.bias: i has no default",
        ),
        "an index that counts itself": (
            lambda raw: raw["repeat"].update(i="i"),
            "repeat.i: i has no default",
        ),
        "an index that is a field": (
            lambda raw: raw["repeat"].update(hidden_size="num_hidden_layers"),
            "repeat.hidden_size is a field",
        ),
        "a condition of a class": (
            lambda raw: raw["classes"]["BertForMaskedLM"].update({"when": {"cls": "i > 0"}}),
            "classes.BertForMaskedLM.when.cls: i has no default",
        ),
    },
    "fields are known": {
        "null for no field": (
            lambda raw: raw.update(nullable=["width"]),
            "nullable: width is not a field",
        ),
        "zero for no field": (lambda raw: raw.update(zero=["width"]), "zero: width is not a field"),
        "values of no field": (
            lambda raw: raw.update(values={"width": ["a"]}),
            "values: width is not a field",
        ),
        "other words of no field": (
            lambda raw: raw.update(spelled={"width": {"a": "b"}}),
            "spelled: width is not a field",
        ),
        "an alias of no field": (
            lambda raw: raw.update(aliases={"dim": "width"}),
            "aliases: width is not a field",
        ),
        "an alias that is a field": (
            lambda raw: raw.update(aliases={"hidden_size": "vocab_size"}),
            "aliases: hidden_size is itself a field",
        ),
        "a field that is beyond the blueprint": (
            lambda raw: raw.update(beyond=["hidden_size"]),
            "beyond: hidden_size is a field",
        ),
        "an inert field that is beyond the blueprint": (
            lambda raw: raw.update(beyond=["hidden_act"]),
            "beyond: hidden_act is a field",
        ),
        "what is given for no field": (
            lambda raw: raw.update(given={"text.width": 1}),
            "given: text.width is not a field",
        ),
        "a field of no sub-config": (
            lambda raw: raw["inert"].append("text_config.hidden_act"),
            "text_config.hidden_act is not in any sub-config",
        ),
        "a sub-config of none": (
            lambda raw: raw.update(configs={"text_config.inner": ""}),
            "text_config.inner is not in any sub-config",
        ),
    },
    "fields are used": {
        "a default for nothing": (
            lambda raw: raw["defaults"].update(width=1),
            "width is not used in any expression",
        ),
        "an inert field that decides": (
            lambda raw: raw["inert"].append("hidden_size"),
            "hidden_size is inert, but an expression uses it",
        ),
    },
    "paths": {
        "an unknown index": (
            lambda raw: (
                raw["tensors"].update({"pooler.{j}.bias": "2"})
                or raw["modules"].update({"pooler.{j}": "Linear"})
            ),
            "pooler.{j}.bias is not a dotted path with {i}",
        ),
        "one index twice": (
            lambda raw: (
                raw["tensors"].update({"pooler.{i}.{i}.bias": "2"})
                or raw["modules"].update({"pooler.{i}.{i}": "Linear"})
            ),
            "has {i} twice",
        ),
        "an index whose number needs another": (
            lambda raw: (
                raw["tensors"].update({"pooler.{j}.bias": "2"})
                or raw["modules"].update({"pooler.{j}": "Linear"})
                or raw["repeat"].update(j="i + 1")
            ),
            "pooler.{j}.bias: the number of {j} needs {i} to its left",
        ),
        "a buffer's": (
            lambda raw: raw["buffers"].update({"pooler.": "I64 1"}),
            "pooler. is not a dotted path",
        ),
    },
    "paths lead somewhere": {
        "a condition on nothing": (
            lambda raw: raw["when"].update({"decoder": "is_decoder"}),
            "there is no tensor under decoder",
        ),
        "a class without a path that does not exist": (
            lambda raw: raw["classes"]["BertForMaskedLM"].update(without=["pooler", "pool"]),
            "there is no tensor under pool",
        ),
        "other dims of no tensor": (
            lambda raw: raw.update(ranks={"pooler.dense": "1 if is_decoder"}),
            "pooler.dense has other dims, but is not among the tensors",
        ),
        "experts without a tensor": (
            lambda raw: raw.update(active={"experts": "1"}),
            "there is no tensor under experts",
        ),
        "a class's condition on the base's": (
            lambda raw: raw["classes"]["BertForMaskedLM"].update(
                {"when": {"bert.pooler": "is_decoder"}}
            ),
            "there is no tensor under bert.pooler",
        ),
    },
    "dtypes": {
        "none": (
            lambda raw: raw["buffers"].update({"embeddings.position_ids": ""}),
            "buffers.embeddings.position_ids does not begin with a dtype",
        ),
        "an unknown one": (
            lambda raw: raw["buffers"].update(
                {"embeddings.position_ids": "I65 1 max_position_embeddings"}
            ),
            "buffers.embeddings.position_ids does not begin with a dtype",
        ),
        "a class's": (
            lambda raw: raw["classes"]["BertForMaskedLM"].update(buffers={"cls.scale": "2"}),
            "classes.BertForMaskedLM.buffers.cls.scale does not begin with a dtype",
        ),
    },
    "names are unique": {
        "a head's tensor that the base has": (
            lambda raw: (
                raw["classes"]["BertForMultipleChoice"]["tensors"].update(
                    {"bert.pooler.dense.bias": "1"}
                )
                or raw["classes"]["BertForMultipleChoice"]["modules"].update(
                    {"bert.pooler.dense": "Linear"}
                )
            ),
            "BertForMultipleChoice has bert.pooler.dense.bias twice",
        ),
    },
    "ties": {
        "from nothing": (
            lambda raw: tie(raw, "cls.decoder", "cls.predictions.bias"),
            "cls.decoder is not a tensor of the class",
        ),
        "to nothing": (
            lambda raw: tie(raw, "cls.predictions.decoder.bias", "cls.bias"),
            "cls.bias is not a tensor of the class",
        ),
        "to a tied one": (
            lambda raw: tie(
                raw, "cls.predictions.transform.dense.bias", "cls.predictions.decoder.bias"
            ),
            "cls.predictions.decoder.bias is itself tied",
        ),
        "between other shapes": (
            lambda raw: tie(
                raw, "cls.predictions.decoder.bias", "bert.embeddings.word_embeddings.weight"
            ),
            "have different dims",
        ),
        "between other numbers of dims": (
            lambda raw: (
                tie(raw, "cls.predictions.decoder.bias", "cls.predictions.bias")
                or raw["classes"]["BertForMaskedLM"].update(
                    ranks={"cls.predictions.decoder.bias": "vocab_size 1 if is_decoder"}
                )
            ),
            "have different dims",
        ),
        "to a layer that is itself tied": (
            lambda raw: raw.update(
                ties={f"{QUERY}.weight": f"{QUERY.replace('{i}', '0')}.weight if i >= 0"}
            ),
            "encoder.layer.0.attention.self.query.weight is itself tied",
        ),
        "to a layer of nothing": (
            lambda raw: raw.update(
                ties={f"{QUERY}.weight": "encoder.layers.0.attention.self.query.weight if i > 0"}
            ),
            "encoder.layers.0.attention.self.query.weight is not a tensor of the class",
        ),
        "of one to every layer's": (
            lambda raw: raw.update(
                ties={"pooler.dense.weight": "encoder.layer.{i}.attention.output.dense.weight"}
            ),
            "have different dims or layers",
        ),
    },
    "experts": {
        "a scalar": (
            lambda raw: (
                raw["tensors"].update({"pooler.dense.bias": ""})
                or raw.update(active={"pooler": "1"})
            ),
            "BertModel: pooler.dense.bias has no dims",
        ),
    },
    "roles": {},
    "modules": {
        "a tensor in none": (lambda raw: raw["modules"].pop(QUERY), f"{QUERY} has no class"),
        "one that holds nothing": (
            lambda raw: raw["modules"].update(decoder="BertDecoder"),
            "decoder holds no tensor",
        ),
    },
    "defaults hold": {
        "a rule that they break": (
            lambda raw: raw["defaults"].update(num_attention_heads=7),
            "hidden_size % num_attention_heads == 0 is false for the defaults",
        ),
        "a size of none": (
            lambda raw: raw["defaults"].update(intermediate_size=0),
            "intermediate_size is a size, but its default is 0",
        ),
        "a division by zero": (
            lambda raw: raw["defaults"].update(num_attention_heads=0),
            "has no value",
        ),
        "layers of a fraction": (
            lambda raw: raw["repeat"].update(i="num_hidden_layers / 2"),
            "num_hidden_layers / 2 is a number of layers, but gives 6.0",
        ),
        "a condition that is a number": (
            lambda raw: raw["when"].update({"pooler": "hidden_size"}),
            "hidden_size is a condition, but gives 768 for the defaults",
        ),
        "experts of a fraction": (
            lambda raw: raw.update(active={"pooler": "hidden_size / 5"}),
            "hidden_size / 5 is a number of experts, but gives 153.6",
        ),
    },
    "stored": {
        "with fewer elements": (
            lambda raw: raw.update(stored={"pooler.dense.bias": ["bias: hidden_size-1"]}),
            "767 elements are stored in place of 768, from pooler.dense.bias on",
        ),
        "in place of nothing": (
            lambda raw: raw.update(stored={"pool": ["a"]}),
            "there is no tensor under pool",
        ),
        "under one name": (
            lambda raw: raw.update(
                stored={"pooler.dense.bias": ["a"], "pooler.dense.weight": ["a"]}
            ),
            (
                "BertModel: pooler.dense.weight and pooler.dense.bias are stored under names"
                " that are not all different"
            ),
        ),
    },
    "parts": {
        "a module without tensors": (
            lambda raw: raw.update(configs={"text": "llama"}, parts={"tower": "text"}),
            "parts: there is no tensor under tower",
        ),
        "no sub-config": (
            lambda raw: raw.update(parts={"encoder": "text"}),
            "parts: encoder has no sub-config with a model type",
        ),
        "trials that are a text": (
            lambda raw: raw["proof"].update(parts="text: qwen2"),
            "proof.parts must be a list of texts",
        ),
    },
}


def tie(raw: Raw, name: str, to: str) -> None:
    raw["classes"]["BertForMaskedLM"]["ties"][name] = to


def with_ranks() -> Raw:
    """Return bert with two tensors that have other dims in a decoder, one tied to the other."""
    raw = bert()
    masked = raw["classes"]["BertForMaskedLM"]
    tie(raw, "cls.predictions.decoder.bias", "cls.predictions.bias")
    ranks = "vocab_size 1 if is_decoder; if hidden_size == 7"
    names = ("cls.predictions.decoder.bias", "cls.predictions.bias")
    masked["ranks"] = dict.fromkeys(names, ranks)
    return raw


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({}, (30522,)),
        ({"is_decoder": True}, (30522, 1)),
        ({"is_decoder": True, "hidden_size": 7, "num_attention_heads": 1}, (30522, 1)),
        ({"hidden_size": 7, "num_attention_heads": 1}, ()),
    ],
)
def test_a_tensor_has_other_dims_where_the_condition_of_a_rank_holds(
    fields: dict[str, Any], shape: tuple[int, ...]
) -> None:
    raw = with_ranks()
    check(raw)
    for stored in (False, True):
        blueprint = Blueprint(raw)
        ledger = bind(blueprint, "BertForMaskedLM", {**blueprint.at_defaults, **fields})
        rows = (ledger.stored if stored else ledger).rows
        here = [row for row in rows if row.name == "cls.predictions.bias"]
        assert [(row.shape, row.parameters) for row in here] == [(shape, math.prod(shape))]
        (tied,) = [row for row in rows if row.name == "cls.predictions.decoder.bias"]
        assert (tied.shape, tied.tied_to) == (shape, "cls.predictions.bias")


def test_every_rule_of_the_law_has_a_case() -> None:
    assert list(CASES) == list(LAW)
    assert [rule for rule in CASES if not CASES[rule]] == [
        "roles"
    ]  # it holds as long as the facts agree


def test_a_role_that_the_facts_do_not_name_breaks_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bert()
    raw["tensors"]["gate.weight"] = "hidden_size"
    raw["modules"]["gate"] = "Linear"
    check(raw)
    monkeypatch.setattr(
        law, "role_of", lambda name: "colour" if name == "gate.weight" else role_of(name)
    )
    with pytest.raises(
        BlueprintError, match=r"^roles: facts/roles\.toml has no role for gate\.weight"
    ):
        check(raw)


@pytest.mark.parametrize(
    ("rule", "case"),
    [pytest.param(rule, case, id=f"{rule}: {case}") for rule in CASES for case in CASES[rule]],
)
def test_a_blueprint_that_breaks_a_rule_is_refused_by_the_rule_s_name(rule: str, case: str) -> None:
    change, said = CASES[rule][case]
    raw = bert()
    change(raw)
    with pytest.raises(BlueprintError) as caught:
        check(raw, "bert.toml")
    assert str(caught.value).startswith(f"bert.toml: {rule}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "rule",
    [
        rule
        for rule in LAW
        if rule not in ("types", "keys", "expressions", "names", "paths", "dtypes", "defaults hold")
    ],
)
def test_the_cases_break_one_rule_alone(rule: str) -> None:
    """Except for breaches that stop the other rules from reading the file."""
    for change, _ in CASES[rule].values():
        raw = bert()
        change(raw)
        assert rules_broken_by(raw) == [rule]


def places(raw: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path of every value in a raw blueprint."""
    inside = raw.items() if isinstance(raw, dict) else ()
    return [path, *[found for key, held in inside for found in places(held, (*path, key))]]


junk = st.sampled_from(
    [None, True, 0, -1, 2.5, "", "hidden_size", "a b", " if ", "{i}", [], [1], ["x"], {}, {"x": {}}]
)


@unhurried
@given(st.sampled_from(places(bert())[1:]), junk)
def test_whatever_stands_in_a_file_is_accepted_or_refused_as_a_blueprint(
    path: tuple[str, ...], found: object
) -> None:
    raw = bert()
    *above, last = path
    table = raw
    for key in above:
        table = table[key]
    table[last] = found
    try:
        check(raw)
    except BlueprintError:
        return
    Blueprint(raw)


@pytest.mark.parametrize(
    ("tables", "english", "chinese"),
    [
        (
            {"defaults": {"pad_token_id": {"a": 1}}},
            (
                "f.toml: defaults hold: pad_token_id < vocab_size: has no value: '<' not supported "
                "between instances of 'dict' and 'int' "
                "(pad_token_id = an object of 1, vocab_size = 30522)."
            ),
            (
                "f.toml：默认值须成立：pad_token_id < vocab_size：没有值："
                "'<' 不能比较 'dict' 与 'int'（pad_token_id = 含 1 项的对象，vocab_size = 30522）。"
            ),
        ),
        (
            {"guards": {"1+" * 1000 + "1": "x"}},
            (
                "f.toml: expressions: guards: an expression has at most 2000 characters "
                "(characters = 2001)."
            ),
            "f.toml：expressions：guards：表达式最多 2000 个字符（字符数 = 2001）。",
        ),
        (
            {"guards": {"a $ b": "x"}},
            "f.toml: expressions: guards: a $ b: cannot be read, starting at ' $ b'.",
            "f.toml：expressions：guards：a $ b：从 ' $ b' 起无法解析。",
        ),
    ],
    ids=["no value", "too long", "cannot be read"],
)
def test_what_is_wrong_in_an_expression_is_said_in_both_languages(
    tables: dict[str, dict[str, Any]], english: str, chinese: str
) -> None:
    raw = bert()
    for table, entries in tables.items():
        raw.setdefault(table, {}).update(entries)
    with pytest.raises(BlueprintError) as raised:
        check(raw, "f.toml")
    assert str(raised.value) == english
    assert error_message(raised.value, "zh") == chinese


def test_a_file_that_holds_nothing_is_refused() -> None:
    with pytest.raises(BlueprintError, match="keys: class is missing"):
        check({})


# Layers that differ


def mixed(**fields: Any) -> Ledger:
    return bind(Blueprint(MIXED), "MixedModel", {**MIXED["defaults"], **fields})


def mixed_rows(
    width: int, types: list[str], sizes: list[int], first_k: int
) -> list[tuple[str, tuple[int, ...]]]:
    """Return the rows of the made-up model, built layer by layer as a program would."""
    rows = [("embeddings.word_embeddings.weight", (3, width))]
    for i, (kind, size) in enumerate(zip(types, sizes, strict=True)):
        if kind == "full":
            rows.append((f"h.{i}.attention.self.query.weight", (width, width)))
            rows.append((f"h.{i}.attention.self.key.weight", (width + i, width)))
        if i < first_k:
            rows.append((f"h.{i}.intermediate.dense.weight", (size, width)))
        rows.append((f"h.{i}.output.dense.weight", (width, size)))
        rows.append((f"h.{i}.output.LayerNorm.weight", (width,)))
    return [*rows, ("pooler.dense.weight", (width, width))]


layers = st.lists(
    st.tuples(st.sampled_from(["full", "sliding"]), st.integers(1, 3)), min_size=1, max_size=6
)


def test_a_blueprint_whose_layers_differ_keeps_the_law() -> None:
    check(MIXED)
    assert Blueprint(MIXED).sizes == {"width", "depth"}


@unhurried
@given(st.integers(1, 9), layers, st.integers(0, 6))
def test_layers_that_differ_are_bound_one_by_one(
    width: int, kinds: list[tuple[str, int]], first_k: int
) -> None:
    types, sizes = [kind for kind, _ in kinds], [size for _, size in kinds]
    ledger = mixed(width=width, depth=len(kinds), layer_types=types, sizes=sizes, first_k=first_k)
    assert [(row.name, row.shape) for row in ledger.rows] == mixed_rows(
        width, types, sizes, first_k
    )
    assert ledger.parameters == sum(row.parameters for row in ledger.rows)
    assert ledger.formula(width=width) == ledger.parameters
    assert (
        ledger.formula(width=2 * width) == mixed(**{**ledger.fields, "width": 2 * width}).parameters
    )
    for grouping in ("component", "role", "layer", "tensor"):
        assert sum(line.parameters for line in ledger.by(grouping)) == ledger.parameters


def test_layers_that_differ_share_an_entry_where_their_shapes_agree() -> None:
    shared = {
        entry.template.name: list(entry.indices)
        for entry in mixed().entries
        if entry.shape[-1:] == (5,)
    }
    assert shared == {"h.{i}.output.dense.weight": [(0,), (2,)]}


def test_the_formula_of_layers_that_differ_holds_at_the_config() -> None:
    ledger = mixed()
    assert ledger.formula()(**ledger.fields) == ledger.parameters


# Properties of a blueprint


def test_the_number_of_layers_that_differ_cannot_be_replaced_in_a_formula() -> None:
    ledger = mixed()
    assert ledger.formula(width=ledger.fields["width"]) == ledger.parameters
    with pytest.raises(UsageError, match="depth decides more than sizes"):
        ledger.formula(depth=2)


@pytest.mark.parametrize("size", [0, -1, 2.0, True, "8"])
def test_a_size_in_a_list_is_a_positive_integer_too(size: object) -> None:
    with pytest.raises(ExpressionError, match="not an integer from 1 to"):
        mixed(sizes=[4, size, 4, 4])


def test_bert_says_which_fields_are_sizes() -> None:
    found = blueprint.load("bert")
    assert found.sizes == {
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
        "type_vocab_size",
        "num_labels",
    }
    assert found.repeats == {"num_hidden_layers"}
    assert found.fields - found.sizes == {
        "pad_token_id",
        "is_decoder",
        "add_cross_attention",
        "tie_word_embeddings",
        "id2label",
    }
    assert found.fields - found.never_null == {"pad_token_id", "id2label", "num_labels"}


def test_templates_of_a_class_are_made_once() -> None:
    found = blueprint.load("bert")
    assert found.templates("BertForMaskedLM") is found.templates("BertForMaskedLM")


def test_a_class_has_the_base_under_its_prefix_without_what_it_drops() -> None:
    found = blueprint.load("bert")
    base = [f"bert.{template.name}" for template in found.templates("BertModel")]
    masked = [template.name for template in found.templates("BertForMaskedLM")]
    kept = [name for name in base if not name.startswith("bert.pooler.")]
    assert masked[: len(kept)] == kept
    assert {name.partition(".")[0] for name in masked[len(kept) :]} == {"cls"}


def test_a_condition_on_a_module_holds_for_all_in_it_and_for_nothing_that_begins_the_same() -> None:
    raw = bert()
    raw["when"] = {
        "encoder.layer.{i}.attention.self.quer": "is_decoder",
        QUERY: "add_cross_attention",
    }
    conditions = {
        template.name: template.when
        for template in Blueprint(raw).templates("BertModel")
        if template.when
    }
    assert conditions == {
        f"{QUERY}.{part}": (parse("add_cross_attention"),) for part in ("weight", "bias")
    }


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("bert.embeddings.word_embeddings.weight", "embedding.token"),
        ("encoder.layer.7.crossattention.self.key.bias", "cross_attention.key"),
        ("encoder.layer.{i}.attention.output.LayerNorm.weight", "attention.norm"),
        ("encoder.layer.0.output.LayerNorm.weight", "ffn.norm"),
        ("classifier.weight", "head.classifier"),
        ("myclassifier.weight", "other"),
        ("", "other"),
    ],
)
def test_a_role_is_read_from_whole_pieces_of_a_name(name: str, role: str) -> None:
    assert role_of(name) == role


def test_a_role_goes_under_the_longest_component_that_begins_it() -> None:
    assert [
        component_of(role)
        for role in ("attention.query", "attention.norm", "head.mlm.bias", "other")
    ] == [
        "attention",
        "attention.norm",
        "head.mlm",
        "other",
    ]


def test_a_family_without_a_blueprint_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(
        ModelError,
        match=r"no blueprint for the family gpt9\. .* one.*`weighbridge families` lists them",
    ):
        blueprint.load("gpt9")


def test_the_number_of_layers_is_bounded_lower_than_a_size() -> None:
    assert MOST_LAYERS < blueprint.LARGEST_SIZE


def test_a_tensor_may_have_the_name_of_a_module_of_other_configs() -> None:
    raw = made(
        "branches",
        defaults={"width": 2, "bias": False},
        tensors={"head": "width", "head.weight": "width width", "head.bias": "width"},
        when={"head": "not bias", "head.weight": "bias", "head.bias": "bias"},
    )
    for bias, parameters in ((False, 2), (True, 6)):
        ledger = bind(Blueprint(raw), "Base", {"width": 2, "bias": bias})
        assert ledger.parameters == parameters
