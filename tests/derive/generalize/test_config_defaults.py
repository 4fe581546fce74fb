"""How made-up config classes are filled in: defaults, computed, replaced and respelled fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from weighbridge.algebra.expr import parse
from weighbridge.derive.generalize.config_defaults import fill, respelled
from weighbridge.derive.generalize.draft import Draft, Drafted
from weighbridge.derive.generalize.ordinals import DraftedTie
from weighbridge.derive.generalize.replaced_fields import overruled, settle
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.probe import Probe, quick_building
from weighbridge.derive.probing.stand_ins import STAND_INS
from weighbridge.derive.probing.symbolic import SymbolicTrace, lift, plain_value, tracing
from weighbridge.derive.write import expression

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.config_defaults import FieldOrigins
    from weighbridge.derive.probing.subject import Subject

Fields = dict[str, Any]
symbolic_range = STAND_INS["range"]


class Config(NamedTuple):
    """A config class: its defaults, what it computes, and the fields of empty sub-configs."""

    stated: Fields
    makes: Callable[[Fields], Fields]
    given: Fields = {}  # noqa: RUF012
    start: Fields = {}  # noqa: RUF012
    optional: dict[str, str] = {}  # noqa: RUF012
    older_words: dict[str, str] = {}  # noqa: RUF012

    def config(self, changes: Mapping[str, Any]) -> Fields:
        return {**self.stated, **changes}

    def fields(self, config: Fields) -> Fields:
        return {
            name: plain_value(value)
            for name, value in {**config, **self.makes(dict(config))}.items()
        }

    def fields_of_given(self) -> Fields:
        return self.given

    def remembered(self, probe: Probe) -> tuple[Fields, SymbolicTrace]:
        config = {
            name: lift(value, ("name", name))
            for name, value in {**self.stated, **probe.changes}.items()
        }
        with tracing() as trace:
            return {**probe.fields, **config, **self.makes(config)}, trace

    def probe(self, changes: Fields) -> Probe:
        return Probe(changes, self.fields(self.config(changes)), {}, {}, {}, {}, SymbolicTrace())


def as_subject(config: Config) -> Subject:
    """Return a config class as the subject of derivation; its model is not used here."""
    found: Any = config
    return found  # type: ignore[no-any-return]


def probes(config: Config, changes: list[Fields]) -> list[Probe]:
    return [config.probe(change) for change in [{}, *changes]]


def filled(
    config: Config,
    changes: list[Fields],
    used: list[str],
    implied: Fields | None = None,
    **more: Any,
) -> FieldOrigins:
    trees = {name: parse(text) for name, text in (implied or {}).items()}
    return fill(as_subject(config), used, probes(config, changes), trees, **more)


def texts(trees: Mapping[str, Tree | None]) -> dict[str, str | None]:
    return {name: None if tree is None else expression(tree) for name, tree in trees.items()}


SIZES: Fields = {"width": 32, "heads": 4, "layers": 3, "gated": False}
TURNED: list[Fields] = [
    {"width": 48},
    {"heads": 8},
    {"layers": 5},
    {"gated": True},
    {"width": 64, "heads": 2, "layers": 2},
]


def nothing(config: Fields) -> Fields:
    return {}


class Case(NamedTuple):
    """A field: its default, how the class computes it, more configs, and the expected findings."""

    default: Any
    makes: Callable[[Fields], Any] | None
    turned: list[Any]
    defaults: Fields
    computed: dict[str, str] = {}  # noqa: RUF012
    nullable: set[str] = set()  # noqa: RUF012
    unknown: list[str] = []  # noqa: RUF012


def or_else(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


UNKNOWN = "the default of x is not known"
FIELD: dict[str, Case] = {
    "has a default": Case(7, None, [9], {"x": 7}),
    "has a text for a default": Case("gelu", None, ["relu"], {"x": "gelu"}),
    "has a list for a default": Case([1, 2], None, [[3]], {"x": [1, 2]}),
    "is another where it is null": Case(
        None,
        lambda config: or_else(config["x"], config["heads"]),
        [2],
        {"heads": 4},
        {"x": "heads"},
    ),
    "is worked out where it is null": Case(
        None,
        lambda config: or_else(config["x"], config["width"] // config["heads"]),
        [16],
        {"heads": 4, "width": 32},
        {"x": "width // heads"},
    ),
    "is the same wherever it is null": Case(
        None, lambda config: or_else(config["x"], 5), [16], {}, {"x": "5"}
    ),
    "depends on a flag": Case(
        None,
        lambda config: or_else(
            config["x"], config["width"] if config["gated"] else 2 * config["heads"]
        ),
        [16],
        {"gated": False, "heads": 4, "width": 32},
        {"x": "2 * heads if not gated else width"},
    ),
    "is a text that depends on a flag": Case(
        None,
        lambda config: or_else(config["x"], "glu" if config["gated"] else "gelu"),
        ["relu"],
        {"gated": False},
        {"x": '"gelu" if not gated else "glu"'},
    ),
    "is a flag that depends on a number": Case(
        None,
        lambda config: or_else(config["x"], True if config["heads"] > 5 else False),  # noqa: SIM210
        [True],
        {"heads": 4},
        {"x": "false if heads <= 5 else true"},
    ),
    "is a list of as many items": Case(
        None,
        lambda config: or_else(
            config["x"],
            ["full" if (i + 1) % 2 == 0 else "slide" for i in symbolic_range(config["layers"])],
        ),
        [["full"]],
        {"layers": 3},
        {"x": '["slide" if (i + 1) % 2 != 0 else "full" for i in range(layers)]'},
    ),
    "is a list of two": Case(
        None,
        lambda config: or_else(config["x"], [config["width"], 7]),
        [[1, 2]],
        {"width": 32},
        {"x": "[width, 7]"},
    ),
    "is an empty list": Case(None, lambda config: or_else(config["x"], []), [[1]], {}, {"x": "[]"}),
    "is null unless a flag says otherwise": Case(
        None,
        lambda config: or_else(config["x"], config["width"] if config["gated"] else None),
        [3],
        {"gated": False, "width": 32},
        {"x": "width if gated else null"},
    ),
    "is null on a condition that no question tells": Case(
        None,
        lambda config: config["width"] if plain_value(config["layers"]) == 5 else None,
        [],
        {},
        {},
        set(),
        [UNKNOWN],
    ),
    "stays null": Case(None, None, [3], {}, {"x": "null"}, {"x"}),
    "has a default, and null is another": Case(
        4,
        lambda config: or_else(config["x"], config["heads"] * 2),
        [None, 6],
        {"heads": 4, "x": 4},
        {"x": "heads * 2"},
    ),
    "has a default, and may be null": Case(4, None, [None, 6], {"x": 4}, {}, {"x"}),
    "is null, and no arithmetic of the others": Case(
        None,
        lambda config: (
            None
            if config["layers"] == 3
            else int(plain_value(config["width"] * config["layers"]) ** 1.7) % 89
        ),
        [],
        {},
        {},
        set(),
        [UNKNOWN],
    ),
}


@pytest.mark.parametrize("case", FIELD)
def test_where_a_field_comes_from(case: str) -> None:
    default, makes, turned, defaults, computed, nullable, unknown = FIELD[case]
    config = Config(
        {**SIZES, "x": default}, lambda config: {} if makes is None else {"x": makes(config)}
    )
    more = [{"x": value} for value in turned] + [
        {"x": value, "width": 96, "heads": 16} for value in turned
    ]
    found = filled(config, [*TURNED, *more], ["x"])
    assert (found.defaults, texts(found.computed)) == (defaults, computed)
    assert (found.nullable, found.unknown, found.given) == (nullable, unknown, {})


def test_only_used_fields_and_the_fields_that_they_need_are_filled_in() -> None:
    config = Config(
        {**SIZES, "x": None},
        lambda config: {"x": or_else(config["x"], config["width"] // config["heads"])},
    )
    assert filled(config, TURNED, ["layers"]).defaults == {"layers": 3}
    assert filled(config, TURNED, ["x", "width"]).defaults == {"width": 32, "heads": 4}
    assert filled(config, TURNED, []) == ({}, {}, {}, set(), [])


def test_the_model_s_replacement_for_null_is_used() -> None:
    config = Config({**SIZES, "x": None}, nothing)
    found = filled(config, [*TURNED, {"x": 3}], ["x"], {"x": "width // heads"})
    assert (found.defaults, texts(found.computed)) == (
        {"width": 32, "heads": 4},
        {"x": "width // heads"},
    )
    config = Config({**SIZES, "x": 6}, nothing)
    found = filled(config, [*TURNED, {"x": None}], ["x"], {"x": "width // heads"})
    assert (found.defaults, texts(found.computed)) == (
        {"x": 6, "width": 32, "heads": 4},
        {"x": "width // heads"},
    ), "it has a default, and is computed only if a config says null"


def test_a_field_that_the_class_never_keeps_has_its_stated_default() -> None:
    config = Config({**SIZES, "x": 6}, lambda config: {"x": config["width"] * 2})
    assert filled(config, [*TURNED, {"x": 9}], ["x"], never_kept={"x"}) == (
        {"x": 6},
        {},
        {},
        set(),
        [],
    )


def test_a_count_of_labels_is_that_of_their_names() -> None:
    config = Config({"id2label": {0: "no", 1: "yes"}, "num_labels": 2}, nothing)
    found = filled(config, [], ["num_labels"])
    assert texts(found.computed) == {"num_labels": "len(id2label)"}
    assert found.defaults == {"id2label": {0: "no", 1: "yes"}}


# Sub-configs


def test_a_sub_config_that_is_given_may_have_other_defaults() -> None:
    config = Config(
        {"sub.width": 8, "sub.depth": 2, "width": 9}, nothing, {"sub.width": 16, "sub.depth": 2}
    )
    found = filled(config, [{"sub.width": 4}, {"width": 3}], ["sub.width", "sub.depth", "width"])
    assert found.defaults == {"sub.width": 8, "sub.depth": 2, "width": 9}
    assert found.given == {"sub.width": 16}


def test_a_field_may_be_computed_only_if_its_sub_config_is_given() -> None:
    def makes(config: Fields) -> Fields:
        alone = config["sub.width"] == 8 and config["sub.ffn"] is None
        return {"sub.ffn": 100 if alone else or_else(config["sub.ffn"], 4 * config["sub.width"])}

    turned = [{"sub.width": 4}, {"sub.width": 5}, {"sub.width": 16}, {"sub.ffn": 3, "sub.width": 7}]
    given = Config({"sub.width": 8, "sub.ffn": None}, makes, {"sub.width": 8, "sub.ffn": 32})
    found = fill(as_subject(given), ["sub.ffn"], [given.probe(changes) for changes in turned], {})
    assert texts(found.computed) == {"sub.ffn": "4 * sub.width"}
    assert (found.defaults, found.given) == ({"sub.ffn": 100, "sub.width": 8}, {"sub.ffn": "null"})
    alike = given._replace(given={"sub.width": 8, "sub.ffn": 100})
    found = fill(as_subject(alike), ["sub.ffn"], [alike.probe(changes) for changes in turned], {})
    assert (found.defaults, found.given) == ({"sub.width": 8}, {})


# Fields that are always replaced


def draft(dims: str, **more: Any) -> Draft:
    return Draft(tensors={"w": Drafted("w", tuple(map(parse, dims.split(", "))))}, **more)


def test_a_field_that_is_always_computed_is_replaced_by_its_expression() -> None:
    config = Config({**SIZES, "inner": 64}, lambda config: {"inner": config["width"] * 2})
    of = draft(
        "inner, inner + heads",
        conditions={"w": parse("inner > 4"), "b": None},
        repeats={"a": parse("inner - 1"), "b": None},
    )
    of.tensors["t"] = Drafted("t", None, (DraftedTie("w", parse("inner == 8")),))
    found = overruled(
        as_subject(config), [of], probes(config, [*TURNED, {"inner": 7}, {"inner": 9, "width": 20}])
    )
    assert found == {"inner"}
    assert [expression(dim) for dim in of.tensors["w"].dims or ()] == [
        "width * 2",
        "width * 2 + heads",
    ]
    assert texts(of.conditions) == {"w": "width * 2 > 4", "b": None}
    assert texts(of.repeats) == {"a": "width * 2 - 1", "b": None}
    assert [(tie.target, expression(tie.condition)) for tie in of.tensors["t"].ties] == [
        ("w", "width * 2 == 8")
    ]


@pytest.mark.parametrize(
    ("makes", "more", "expected"),
    [
        (lambda config: {"inner": config["width"] * 2}, {"layers": 9}, "width * 2"),
        (lambda config: {"inner": config["inner"] // 8 * 8}, {"inner": 23}, "inner // 8 * 8"),
    ],
    ids=["no config set it", "it is made of itself"],
)
def test_a_field_means_the_value_in_the_config(
    makes: Callable[[Fields], Fields], more: Fields, expected: str
) -> None:
    config = Config({**SIZES, "inner": 64}, makes)
    of = draft("inner, heads")
    assert overruled(as_subject(config), [of], probes(config, [*TURNED, more])) == {"inner"}
    assert [expression(dim) for dim in of.tensors["w"].dims or ()] == [expected, "heads"]


def test_a_flag_that_no_config_sets_is_replaced_by_its_expression() -> None:
    config = Config({**SIZES, "tied": False}, lambda config: {"tied": config["gated"]})
    of = draft("width, heads", conditions={"w": parse("tied")})
    assert overruled(as_subject(config), [of], probes(config, TURNED)) == {"tied"}
    assert texts(of.conditions) == {"w": "false if not gated else true"}


@pytest.mark.parametrize(
    ("makes", "more"),
    [
        (nothing, {"inner": 7}),
        (lambda config: {"inner": or_else(config["inner"], config["width"])}, {"inner": None}),
        (
            lambda config: {
                "inner": {"auto": 64}.get(plain_value(config["inner"]), config["inner"])
            },
            {"inner": "auto"},
        ),
    ],
    ids=["it is kept", "it is null", "it is a word"],
)
def test_a_field_that_the_class_keeps_is_left_unchanged(
    makes: Callable[[Fields], Fields], more: Fields
) -> None:
    config = Config({**SIZES, "inner": 64}, makes)
    of = draft("inner, heads")
    assert overruled(as_subject(config), [of], probes(config, [*TURNED, more])) == set()
    assert of == draft("inner, heads")


# Words

WORDS: dict[str, tuple[Any, dict[Any, Any], list[Any], dict[str, str]]] = {
    "other words": (
        "gelu",
        {"GELU": "gelu", "silu": "swish"},
        ["GELU", "silu", "relu"],
        {"GELU": "gelu", "silu": "swish"},
    ),
    "the same words": ("gelu", {}, ["relu"], {}),
    "other words in a list": (
        ["full"],
        {"global": "full"},
        [["global", "slide"]],
        {"global": "full"},
    ),
    "a word for a number": (
        "auto",
        {"auto": 12, "all": 13},
        ["all", "none"],
        {"all": "null", "auto": "null"},
    ),
    "no words": (4, {5: 6}, [5], {}),
}


@pytest.mark.parametrize("case", WORDS)
def test_words_are_read_as_others(case: str) -> None:
    default, words, turned, found = WORDS[case]

    def makes(config: Fields) -> Fields:
        word = config["x"]
        return {
            "x": [words.get(item, item) for item in word]
            if isinstance(word, list)
            else words.get(word, word)
        }

    config = Config({"x": default, "y": 1}, makes)
    assert respelled(as_subject(config), probes(config, [{"x": value} for value in turned])) == (
        {"x": found} if found else {}
    )


def test_a_word_that_is_read_in_two_ways_is_ignored() -> None:
    config = Config(
        {"x": "a", "y": 1}, lambda config: {"x": "b" if config["y"] > 1 else config["x"]}
    )
    of = probes(config, [{"x": "c"}, {"x": "c", "y": 2}])
    assert respelled(as_subject(config), of[:2]) == {}
    assert respelled(as_subject(config), of[2:]) == {"x": {"c": "b"}}
    assert respelled(as_subject(config), of) == respelled(as_subject(config), of[::-1]) == {}


# The model's replacement for null

NULLS: dict[str, tuple[str, dict[str, Any], dict[str, str], str]] = {
    "alone": ("(d if d != null else h // a), h", {}, {"d": "h // a"}, "d, h"),
    "asked the other way": ("(h // a if d == null else d)", {}, {"d": "h // a"}, "d"),
    "in two": (
        "(2 * d if d != null else 2 * (h // a)), (d if d != null else h // a)",
        {},
        {"d": "h // a"},
        "2 * d, d",
    ),
    "inside a dim": ("3 * (d if d != null else h)", {}, {"d": "h"}, "3 * d"),
    "two fields": (
        "(d if d != null else h), (e if e != null else a)",
        {},
        {"d": "h", "e": "a"},
        "d, e",
    ),
    "two answers": ("(d if d != null else h), (d if d != null else a)", {}, {}, ""),
    "the field itself elsewhere": ("(d if d != null else h), d", {}, {}, ""),
    "another form": ("(d if d != null else h), (2 * d if d != null else a)", {}, {}, ""),
    "in a condition": (
        "(d if d != null else h)",
        {"conditions": {"w": parse("d != null")}},
        {},
        "",
    ),
    "in a count": ("(d if d != null else h)", {"repeats": {"w": parse("d")}}, {}, ""),
    "not asked": ("d, h", {}, {}, ""),
}


@pytest.mark.parametrize("case", NULLS)
def test_a_choice_by_null_is_settled_if_it_is_always_the_same(case: str) -> None:
    dims, more, found, left = NULLS[case]
    of, before = draft(dims, **more), draft(dims, **more)
    assert texts(settle([of])) == found
    assert of == (draft(left, **more) if found else before)


def test_a_choice_is_settled_over_all_classes_or_none() -> None:
    dims = "(d if d != null else h)"
    assert texts(settle([draft(dims), draft(f"2 * {dims}, h")])) == {"d": "h"}
    assert settle([draft(dims), draft("d")]) == {}
    tied = draft(dims)
    tied.tensors["w"] = tied.tensors["w"]._replace(ties=(DraftedTie("v", parse("d == null")),))
    assert settle([tied]) == {}


# A user's own module


@pytest.mark.parametrize(
    ("address", "used", "defaults", "computed"),
    [
        ("gpt:GPT", "n_kv_head", {"n_kv_head": None, "n_head": 6}, {"n_kv_head": "n_head"}),
        (
            "plain:Kept",
            "kinds",
            {"kinds": None, "layers": 4},
            {"kinds": '["slide" if (i + 1) % 2 != 0 else "full" for i in range(layers)]'},
        ),
    ],
)
def test_the_config_of_a_module_is_filled_in_by_its_own_code(
    address: str, used: str, defaults: Fields, computed: dict[str, str]
) -> None:
    config = {"gpt:GPT": "own_models.gpt:GPTConfig", "plain:Kept": "own_models.plain:Sizes"}[
        address
    ]
    subject = OwnSubject(f"own_models.{address}", config)
    (other,) = defaults.keys() - {used}
    with quick_building():
        configs: list[Fields] = [{}, {other: 3}, {other: 2}]
        seen = [subject.probe(subject.base_class, changes) for changes in configs]
    found = fill(subject, [used], seen, {})
    assert texts(found.computed) == computed
    assert found.defaults == {other: defaults[other]}
