"""From hand-made probes to a draft: its contents, and its predictions of unseen probes."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from weighbridge.algebra.expr import parse
from weighbridge.algebra.rewrite import compiled, replaced
from weighbridge.blueprint.schema import split_dims
from weighbridge.derive.generalize.choosing import COSTS
from weighbridge.derive.generalize.draft import Draft, Drafted, predicted
from weighbridge.derive.generalize.generalize import generalize, in_common
from weighbridge.derive.generalize.lost_values import LostValues
from weighbridge.derive.generalize.ordinals import DraftedTie
from weighbridge.derive.generalize.places import Observation, Observed, list_above, templated
from weighbridge.derive.probing.probe import Probe, ProbedTensor
from weighbridge.derive.probing.symbolic import SymbolicTrace
from weighbridge.derive.write import expression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from weighbridge.algebra.expr import Tree

Fields = dict[str, Any]


def tree(text: str) -> Tree:
    """Return an expression: ``i`` is a loop counter, ``i_3`` is one at 3, ``i__`` is an index."""

    def leaf(found: Tree) -> Tree:
        counter = (
            re.fullmatch("([ijk])(_(\\d+)|__)?", str(found[1])) if found[0] == "name" else None
        )
        if not counter:
            return found
        if counter[2] == "__":
            return "index", "ijk".index(counter[1])
        return ("loop", counter[1], int(counter[3])) if counter[3] else ("loop", counter[1])

    return replaced(parse(text), leaf)


def tensor(text: str, fields: Fields, tied_to: str | None = None) -> ProbedTensor:
    """Return a tensor with these dims; a number stands for a dim whose expression was lost."""
    dims = tuple(map(tree, split_dims(text)))
    return ProbedTensor(tuple(int(compiled(dim)(fields)) for dim in dims), dims, tied_to)


class Holds(NamedTuple):
    """What a made-up module holds: tensors, buffers, ties and lists, and what its code asked."""

    tensors: dict[str, str]
    lengths: dict[str, int] = {}  # noqa: RUF012
    asked: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    ties: dict[str, str] = {}  # noqa: RUF012
    buffers: dict[str, str] = {}  # noqa: RUF012


def probe(fields: Fields, holds: Holds) -> Probe:
    """Return the probe of a module with these contents."""
    trace = SymbolicTrace()
    for name in ("asked", "bounds", "computed"):
        for text in getattr(holds, name):
            getattr(trace, name)[tree(text)] = None
    tensors = {
        name: tensor(text, fields, holds.ties.get(name)) for name, text in holds.tensors.items()
    }
    buffers = {name: tensor(text, fields) for name, text in holds.buffers.items()}
    return Probe({}, fields, tensors, buffers, dict(holds.lengths), {}, trace)


def every(**values: Iterable[Any]) -> list[Fields]:
    """Return fields with every combination of these values."""
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


class DraftTexts(NamedTuple):
    """The contents of a draft as texts, with i, j, k for indices; unknown parts are None."""

    repeats: dict[str, str | None] = {}  # noqa: RUF012
    dims: dict[str, str | None] = {}  # noqa: RUF012
    conditions: dict[str, str | None] = {}  # noqa: RUF012
    ties: dict[str, dict[str, str]] = {}  # noqa: RUF012


def text(found: Tree | None) -> str | None:
    return None if found is None else expression(found, "ijk")


def draft_texts(draft: Draft) -> DraftTexts:
    return DraftTexts(
        {path: text(count) for path, count in draft.repeats.items()},
        {
            name: None
            if found.dims is None
            else ", ".join(expression(dim, "ijk") for dim in found.dims)
            for name, found in draft.tensors.items()
        },
        {path: text(condition) for path, condition in draft.conditions.items()},
        {
            name: {
                to if at is None else f"{to} at {text(at)}": expression(condition, "ijk")
                for to, condition, at in found.ties
            }
            for name, found in draft.tensors.items()
            if found.ties
        },
    )


class MadeUp(NamedTuple):
    """A made-up module, the fields to learn from, other fields, and the draft expected."""

    holds: Callable[[Fields], Holds]
    learned: list[Fields]
    unseen: list[Fields]
    expected: DraftTexts


def layers(fields: Fields, dims: Callable[[int], str], count: str = "n", **more: Any) -> Holds:
    """Return layers with one tensor each; a field gives their number."""
    length = compiled(tree(count))(fields)
    return Holds(
        {f"layers.{i}.w": dims(i) for i in range(length)},
        **{"lengths": {"layers": length}, "bounds": (count,), **more},
    )


def stages(fields: Fields) -> Holds:
    depths = fields["depths"]
    names = {
        f"stages.{i}.blocks.{j}.w": f"w*2**i_{i} j_{j}+1"
        for i, depth in enumerate(depths)
        for j in range(depth)
    }
    lengths = {
        "stages": len(depths),
        **{f"stages.{i}.blocks": depth for i, depth in enumerate(depths)},
    }
    return Holds({**names, "head": "w"}, lengths, bounds=("len(depths)", "depths[i]"))


def with_null(fields: Fields) -> Holds:
    count = fields["n"] or 0
    lengths = {"extra": count} if fields["n"] is not None else {}
    return Holds(
        {"embed": "w", **{f"extra.{i}.w": "w" for i in range(count)}},
        lengths,
        bounds=("n",) * (count > 0),
    )


def either_many(fields: Fields) -> Holds:
    return layers(
        fields,
        lambda i: "4",
        "n if on else 2*m",
        bounds=("n",) if fields["on"] else ("2*m",),
        asked=("on",),
    )


def tied_in_layers(fields: Fields) -> Holds:
    names, ties = {"embed": "9 w", "head": "9 w"}, {}
    for i in range(fields["n"]):
        names |= {f"layers.{i}.{name}": "w" for name in "abc"}
        ties[f"layers.{i}.b"] = f"layers.{i}.a"
        if i:
            ties[f"layers.{i}.c"] = "layers.0.c"
    ties |= {"head": "embed"} if fields["tie"] else {}
    return Holds(names, {"layers": fields["n"]}, ("tie",), ("n",), ties=ties)


def shared_in_turn(fields: Fields) -> Holds:
    """Return layers of which those of one kind share the tensors of the first ones in turn."""
    kinds, own = fields["kinds"], fields["own"]
    of_kind = [i for i, kind in enumerate(kinds) if kind == "f"]
    names, ties = {}, {}
    for i, kind in enumerate(kinds):
        names[f"layers.{i}.w"] = "w"
        if kind == "f":
            names[f"layers.{i}.f.w"] = "w"
            ordinal = of_kind.index(i)
            if fields["tie"] and ordinal >= own:
                ties[f"layers.{i}.f.w"] = f"layers.{of_kind[ordinal % own]}.f.w"
    return Holds(names, {"layers": len(kinds)}, bounds=("len(kinds)",), ties=ties)


def shared_with_bias(fields: Fields) -> Holds:
    """Return layers that share tensors in turn; some of them have a bias beside the tensor."""
    holds = shared_in_turn(fields)
    if not fields["bias"]:
        return holds._replace(asked=("bias",))
    names, ties = dict(holds.tensors), dict(holds.ties)
    names |= {f"{name[:-1]}b": "w" for name in names if name.endswith(".f.w")}
    ties |= {f"{name[:-1]}b": f"{target[:-1]}b" for name, target in ties.items()}
    return holds._replace(tensors=names, ties=ties, asked=("bias",))


def counted_by_hand(fields: Fields) -> Holds:
    """Return layers whose parts depend on a count of layers that does not remember."""
    names: dict[str, str] = {}
    lengths = {"layers": len(fields["kinds"])}
    asked: dict[str, None] = {}
    count = 0
    for i, kind in enumerate(fields["kinds"]):
        names[f"layers.{i}.w"] = "w"
        lengths[f"layers.{i}.parts"] = fields["n"]
        for j in range(fields["n"]):
            asked[f"j % m == {count} % m"] = None
            if j % fields["m"] == count % fields["m"]:
                names[f"layers.{i}.parts.{j}.w"] = "w"
        count += kind == "f"
    return Holds(names, lengths, tuple(asked), ("len(kinds)", "n"))


def norms_of_stages(fields: Fields) -> Holds:
    """Return a norm for each stage that is listed; the code asks something else meanwhile."""
    names = {f"norms.{stage}.w": "w" for stage in fields["out"]}
    return Holds({"embed": "w", **names}, asked=("out[0] == stages[0]", "out[0] == stages[1]"))


def one_or_many(fields: Fields) -> Holds:
    if fields["one"]:
        return Holds({"embed.w": "w"}, asked=("one",))
    names = {f"embed.{i}.w": "w" for i in range(fields["n"])}
    return Holds(names, {"embed": fields["n"]}, asked=("one",), bounds=("n",))


def three_ways(fields: Fields, i: int) -> str:
    """Return a layer's dim, computed in one of three ways that may give the same value."""
    if fields["kinds"][i] != "f":
        return "h"
    other = "g" if fields["m"] is None else "m"
    return "h" if fields[other] == fields["h"] else other


IS_FULL = "kinds[i] == 'f'"
KINDS = [["f", "s"], ["s", "s", "f"], ["f", "s", "s", "f", "f"]]
DEPTHS = [[2, 1, 3], [1, 2], [3, 3, 1, 2]]

IS_F = 'kinds[layer] == "f"'
F_BEFORE = f"count({IS_F} for layer in range(i))"
SHARED = (
    f"layers.{{0}}.f.w at count(count({IS_F} for layer in range(before + 1)) <= {F_BEFORE} % own "
    "for before in range(i))"
)
IN_TURN = [["f", "s", "f", "f"], ["s", "f", "f", "f", "s", "f"], ["f", "f", "f", "f", "f"]]

MADE = {
    "layers that share tensors in turn": MadeUp(
        shared_in_turn,
        every(kinds=IN_TURN, own=[1, 2], tie=[True, False], w=[8, 10]),
        every(kinds=[["s", "f"] * 5], own=[1, 3], tie=[True, False], w=[9]),
        DraftTexts(
            {"layers": "len(kinds)"},
            {"layers.{0}.w": "w", "layers.{0}.f.w": "w"},
            {"layers.{0}.f": 'kinds[i] == "f"'},
            {"layers.{0}.f.w": {SHARED: f"tie and {F_BEFORE} >= own"}},
        ),
    ),
    "a bias that few probes hold, in layers that share tensors in turn": MadeUp(
        shared_with_bias,
        [
            *every(kinds=IN_TURN, own=[1, 2], tie=[True, False], w=[8, 10], bias=[False]),
            {"kinds": IN_TURN[0], "own": 1, "tie": True, "w": 8, "bias": True},
        ],
        every(kinds=[["s", "f"] * 5], own=[1, 3], tie=[True, False], w=[9], bias=[True]),
        DraftTexts(
            {"layers": "len(kinds)"},
            {"layers.{0}.w": "w", "layers.{0}.f.w": "w", "layers.{0}.f.b": "w"},
            {"layers.{0}.f": 'kinds[i] == "f"', "layers.{0}.f.b": "bias"},
            {
                "layers.{0}.f.w": {SHARED: f"tie and {F_BEFORE} >= own"},
                "layers.{0}.f.b": {SHARED.replace("f.w", "f.b"): f"tie and {F_BEFORE} >= own"},
            },
        ),
    ),
    "a condition on a count of layers that does not remember": MadeUp(
        counted_by_hand,
        every(kinds=IN_TURN, n=[4, 5], m=[2, 3], w=[8, 10]),
        every(kinds=[["s", "f", "f", "s"]], n=[6], m=[2, 4], w=[9]),
        DraftTexts(
            {"layers": "len(kinds)", "layers.{0}.parts": "n"},
            {"layers.{0}.w": "w", "layers.{0}.parts.{1}.w": "w"},
            {"layers.{0}.parts.{1}.w": f"j % m == {F_BEFORE} % m"},
        ),
    ),
    "modules that a list of texts names": MadeUp(
        norms_of_stages,
        every(out=[["a"], ["b"], ["b", "c"]], stages=[["a", "b", "c"]], w=[8, 10]),
        every(out=[["a", "b"], ["c"], ["a", "c"]], stages=[["a", "b", "c"]], w=[9]),
        DraftTexts(
            {},
            {"embed": "w", **{f"norms.{stage}.w": "w" for stage in "abc"}},
            {f"norms.{stage}": f'"{stage}" in out' for stage in "abc"},
        ),
    ),
    "a list of modules or one module": MadeUp(
        one_or_many,
        every(n=[2, 3], one=[True, False], w=[8, 10]),
        every(n=[1, 5], one=[True, False], w=[9]),
        DraftTexts(
            {"embed": "n if not one else 0"},
            {"embed.w": "w", "embed.{0}.w": "w"},
            {"embed.w": "one"},
        ),
    ),
    "a list of layers that a loop counts": MadeUp(
        lambda fields: layers(fields, lambda i: "w 3*w"),
        every(n=[2, 3], w=[8, 10]),
        every(n=[1, 7], w=[3]),
        DraftTexts({"layers": "n"}, {"layers.{0}.w": "w, 3 * w"}),
    ),
    "a list of layers without a visible loop": MadeUp(
        lambda fields: layers(fields, lambda i: "w", "n", bounds=()),
        every(n=[2, 3], w=[8, 10]),
        every(n=[1, 7], w=[3]),
        DraftTexts({"layers": "n"}, {"layers.{0}.w": "w"}),
    ),
    "a list that is always of the same length": MadeUp(
        lambda fields: layers(fields, lambda i: f"w*{i + 1}", "2", bounds=()),
        every(w=[8, 10]),
        every(w=[3]),
        DraftTexts({}, {"layers.0.w": "w", "layers.1.w": "w * 2"}),
    ),
    "lists in a list": MadeUp(
        stages,
        every(depths=DEPTHS, w=[8, 10]),
        every(depths=[[1], [4, 2]], w=[5]),
        DraftTexts(
            {"stages": "len(depths)", "stages.{0}.blocks": "depths[i]"},
            {"head": "w", "stages.{0}.blocks.{1}.w": "w * 2 ** i, j + 1"},
        ),
    ),
    "one more layer than a loop of two lists runs": MadeUp(
        lambda fields: layers(
            fields, lambda i: "4", "min(len(a), len(b)) + 1", bounds=("min(len(a), len(b))",)
        ),
        every(a=[[1], [1, 2], [1, 2, 3]], b=[[5], [5, 6]]),
        every(a=[[1] * 5], b=[[1] * 4, [1] * 7]),
        DraftTexts({"layers": "min(len(a), len(b)) + 1"}, {"layers.{0}.w": "4"}),
    ),
    "a list that is missing where its number is null": MadeUp(
        with_null,
        every(n=[None, 2, 3], w=[8, 10]),
        every(n=[None, 5], w=[4]),
        DraftTexts(
            {"extra": "n if n != null else 0"},
            {"embed": "w", "extra.{0}.w": "w"},
            {"extra": "n != null"},
        ),
    ),
    "a number of layers that a flag decides": MadeUp(
        either_many,
        every(n=[2, 3], m=[2, 4, 5], on=[True, False]),
        every(n=[1, 7], m=[3], on=[True, False]),
        DraftTexts({"layers": "n if on else 2 * m"}, {"layers.{0}.w": "4"}),
    ),
    "pieces of a name that are numbered": MadeUp(
        lambda fields: Holds({f"experts.expert_{i}.w": "w" for i in range(fields["n"])}),
        every(n=[2, 3, 4], w=[8, 10]),
        every(n=[1, 6], w=[3]),
        DraftTexts({"experts.expert_": "n"}, {"experts.expert_{0}.w": "w"}),
    ),
    "numbered pieces that no field counts": MadeUp(
        lambda fields: Holds({f"expert_{i}": "w" for i in range(fields["w"] // 3 % 2 + 1)}),
        every(w=[8, 9, 13], on=[True, False]),
        [],
        DraftTexts({}, {"expert_0": "w", "expert_1": "w"}, {"expert_1": None}),
    ),
    "a dim that is a counter": MadeUp(
        lambda fields: layers(fields, lambda i: f"i_{i}+2 w-i_{i}"),
        every(n=[2, 4], w=[8]),
        every(n=[7], w=[9]),
        DraftTexts({"layers": "n"}, {"layers.{0}.w": "i + 2, w - i"}),
    ),
    "dims whose numbers double or go up with the index": MadeUp(
        lambda fields: layers(fields, lambda i: f"w*{2**i} w*{i + 3}"),
        every(n=[2, 4], w=[8, 9]),
        every(n=[6], w=[9]),
        DraftTexts({"layers": "n"}, {"layers.{0}.w": "w * 2 ** i, w * (i + 3)"}),
    ),
    "a list that is run through in reverse": MadeUp(
        lambda fields: layers(
            fields,
            lambda i: f"w*ratios[{len(fields['ratios']) - 1 - i}]",
            "len(ratios) - 1",
            asked=("on",),
        ),
        every(ratios=[[1, 2], [1, 3, 2], [4, 1, 5, 7]], w=[8, 9]),
        every(ratios=[[5, 1, 1, 2, 3]], w=[9]),
        DraftTexts({"layers": "len(ratios) - 1"}, {"layers.{0}.w": "w * ratios[-1 - i]"}),
    ),
    "a list whose neighbouring items are used": MadeUp(
        lambda fields: layers(fields, lambda i: f"sizes[i_{i}] sizes[i_{i}+1]", "len(sizes) - 1"),
        every(sizes=[[1, 2], [1, 3, 2], [4, 1, 5, 7]]),
        every(sizes=[[5, 1, 1, 2, 3]]),
        DraftTexts({"layers": "len(sizes) - 1"}, {"layers.{0}.w": "sizes[i], sizes[i + 1]"}),
    ),
    "a dim that a flag decides": MadeUp(
        lambda fields: Holds({"w": "2*m+1 w" if fields["on"] else "3 w"}, asked=("on",)),
        every(m=[5, 7, 8], w=[8, 9], on=[True, False]),
        every(m=[11], w=[20], on=[True, False]),
        DraftTexts({}, {"w": "2 * m + 1 if on else 3, w"}),
    ),
    "a lost dim that a flag decides": MadeUp(
        lambda fields: Holds({"w": str(fields["m"] if fields["on"] else 7)}, asked=("on",)),
        every(m=[5, 8, 20, 21, 30], w=[8], on=[True, False]),
        every(m=[11], w=[20], on=[True, False]),
        DraftTexts({}, {"w": "m if on else 7"}),
    ),
    "a dim that is another in the first layer": MadeUp(
        lambda fields: layers(fields, lambda i: "w" if i else "m", asked=("i == 0",)),
        every(n=[2, 3], m=[5, 7], w=[8, 9]),
        every(n=[1, 4], m=[11], w=[20]),
        DraftTexts({"layers": "n"}, {"layers.{0}.w": "w if i != 0 else m"}),
    ),
    "a dim that was mistaken for another with the same value": MadeUp(
        lambda fields: layers(
            fields,
            lambda i: "g" if fields["kinds"][i] == "f" and fields["g"] != fields["h"] else "h",
            asked=(IS_FULL,),
        ),
        [
            {**fields, "n": len(fields["kinds"])}
            for fields in every(kinds=KINDS, g=[5, 8], h=[8, 9])
        ],
        [
            {**fields, "n": len(fields["kinds"])}
            for fields in every(kinds=[["f"], ["s", "f"]], g=[3, 4], h=[4, 7])
        ],
        DraftTexts({"layers": "n"}, {"layers.{0}.w": 'h if kinds[i] != "f" else g'}),
    ),
    "three dims, each mistaken for another with the same value": MadeUp(
        lambda fields: layers(
            fields, lambda i: three_ways(fields, i), asked=(IS_FULL, "m != null")
        ),
        [
            {**fields, "n": len(fields["kinds"])}
            for fields in every(kinds=KINDS, g=[5, 8], h=[8, 9], m=[None, 5, 9])
        ],
        [
            {**fields, "n": len(fields["kinds"])}
            for fields in every(kinds=[["f", "s"]], g=[3, 4], h=[4], m=[None, 3, 4])
        ],
        DraftTexts(
            {"layers": "n"}, {"layers.{0}.w": 'h if kinds[i] != "f" else m if m != null else g'}
        ),
    ),
    "the remaining equal values show what decides between the others": MadeUp(
        lambda fields: layers(
            fields, lambda i: three_ways(fields, i), asked=(IS_FULL, "on", "m != null")
        ),
        [
            {"kinds": kinds, "n": len(kinds), "g": 5, "h": 8, **rest}
            for kinds in KINDS
            for rest in ({"m": None, "on": False}, {"m": 9, "on": True}, {"m": 8, "on": False})
        ],
        [{"kinds": ["f"], "n": 1, "g": 5, "h": 8, "m": 4, "on": on} for on in (True, False)],
        DraftTexts(
            {"layers": "n"}, {"layers.{0}.w": 'h if kinds[i] != "f" else g if m == null else m'}
        ),
    ),
    "a dim in place of a null": MadeUp(
        lambda fields: Holds({"w": "d" if fields["d"] else "w//h"}, asked=("d == null",)),
        every(d=[None, 3, 6], w=[8, 16], h=[2, 4]),
        every(d=[None, 9], w=[30], h=[3]),
        DraftTexts({}, {"w": "d if d != null else w // h"}),
    ),
    "dims whose expressions were lost": MadeUp(
        lambda fields: Holds(
            {
                name: str(compiled(tree(lost))(fields))
                for name, lost in {
                    "field": "w",
                    "more": "w + 2",
                    "times": "3*w - 1",
                    "product": "w*h",
                    "quotient": "w//h",
                    "two": "w*h + 2*m",
                    "list": "sum(sizes)",
                    "last": "sizes[-1]",
                }.items()
            }
        ),
        every(w=[24, 31, 40], h=[2, 5], m=[7, 9], sizes=[[1, 2, 4], [3, 3, 6, 8]]),
        every(w=[50], h=[3], m=[4], sizes=[[7, 9]]),
        DraftTexts(
            {},
            {
                "field": "w",
                "more": "w + 2",
                "times": "3 * w - 1",
                "product": "h * w",
                "quotient": "w // h",
                "two": "2 * m + h * w",
                "list": "sum(sizes)",
                "last": "sizes[-1]",
            },
        ),
    ),
    "a dim whose expression was computed on the way": MadeUp(
        lambda fields: Holds(
            {"w": str((fields["w"] + 63) // 64 * 64 + 17)}, computed=("(w + 63)//64*64 + 17",)
        ),
        every(w=[24, 65, 140]),
        every(w=[64, 1000]),
        DraftTexts({}, {"w": "(w + 63) // 64 * 64 + 17"}),
    ),
    "ties": MadeUp(
        tied_in_layers,
        every(n=[2, 3], w=[8, 9], tie=[True, False]),
        every(n=[1, 5], w=[4], tie=[True, False]),
        DraftTexts(
            {"layers": "n"},
            {"embed": "9, w", "head": "9, w", **{f"layers.{{0}}.{name}": "w" for name in "abc"}},
            {},
            {
                "head": {"embed": "tie"},
                "layers.{0}.b": {"layers.{0}.a": "true"},
                "layers.{0}.c": {"layers.0.c": "i != 0"},
            },
        ),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_draft_is_the_common_form_of_its_probes(name: str) -> None:
    made = MADE[name]
    draft = generalize([probe(fields, made.holds(fields)) for fields in made.learned])
    assert draft_texts(draft) == made.expected
    others = [
        fields for fields in made.unseen if not draft.gives(probe(fields, made.holds(fields)))
    ]
    assert others == []
    assert all(draft.gives(probe(fields, made.holds(fields))) for fields in made.learned) is (
        not draft.unknown
    )


def test_buffers_are_drafted_beside_the_tensors() -> None:
    probes = [
        probe(
            fields,
            layers(
                fields,
                lambda i: "w",
                buffers={f"layers.{i}.ids": "w 2" for i in range(fields["n"])},
            ),
        )
        for fields in every(n=[2, 3], w=[8, 9])
    ]
    draft = generalize(probes)
    assert draft.buffers == {
        "layers.{0}.ids": Drafted("layers.{0}.ids", (("name", "w"), ("value", 2)))
    }
    assert list(draft.tensors) == ["layers.{0}.w"]


def test_names_keep_the_order_of_each_probe() -> None:
    orders = [["a", "b", "d"], ["a", "c", "d"], ["a", "b", "d", "e"], ["first", "a"]]
    probes = [
        probe({f"has_{name}": name in order for name in "abcde"}, Holds(dict.fromkeys(order, "3")))
        for order in orders
    ]
    assert list(generalize(probes).tensors) == ["first", "a", "c", "b", "d", "e"]


def test_without_guessing_only_simple_expressions_are_found() -> None:
    probes = [
        probe(fields, Holds({"sum": str(fields["w"] + 2), "field": str(fields["w"])}))
        for fields in every(w=[8, 9], on=[True, False])
    ]
    assert draft_texts(generalize(probes, guess=False)).dims == {"sum": None, "field": "w"}
    assert draft_texts(generalize(probes)).dims == {"sum": "w + 2", "field": "w"}


# Conditions


class Asked(NamedTuple):
    """When a tensor exists, in Python; the questions; the fields; the expected condition."""

    when: str
    asked: tuple[str, ...]
    fields: list[Fields]
    found: str | None


FLAGS = every(a=[1, 3, 4], b=[0, 5], on=[True, False], off=[True, False], kind=["x", "y", "z"])
NULLS = every(n=[None, 1, 2, 3, 4], w=[8, 9])

ASKED = {
    "a flag": Asked("on", ("on",), FLAGS, "on"),
    "its opposite": Asked("not on", ("on",), FLAGS, "not on"),
    "a comparison": Asked("a > 3", ("a > 3", "a > 2"), FLAGS, "a > 3"),
    "the opposite of one": Asked("a <= 3", ("a > 3",), FLAGS, "a <= 3"),
    "a text": Asked("kind == 'y'", ("kind == 'y'",), FLAGS, 'kind == "y"'),
    "a flag in no question": Asked("off", ("on",), FLAGS, "off"),
    "a text in no question": Asked("kind != 'z'", (), FLAGS, 'kind != "z"'),
    "a question before other conditions": Asked("b > 2", ("b > 2",), FLAGS, "b > 2"),
    "and": Asked("on and a > 2", ("on", "a > 2"), FLAGS, "on and a > 2"),
    "and not": Asked("on and not off", ("on", "off"), FLAGS, "on and not off"),
    "or": Asked("on or kind == 'x'", ("kind == 'x'", "on"), FLAGS, 'on or kind == "x"'),
    "three with and": Asked(
        "on and off and a > 3", ("on", "off", "a > 3"), FLAGS, "a > 3 and off and on"
    ),
    "three with or": Asked(
        "on or off or a > 3", ("on", "off", "a > 3"), FLAGS, "off or on or a > 3"
    ),
    "or inside and": Asked(
        "on and (a > 3 or kind == 'x')",
        ("on", "a > 3", "kind == 'x'"),
        FLAGS,
        'on and (kind == "x" or a > 3)',
    ),
    "and inside or": Asked(
        "on and a > 3 or off and kind == 'x'",
        ("on", "off", "a > 3", "kind == 'x'"),
        FLAGS,
        'kind == "x" and off or a > 3 and on',
    ),
    "null": Asked("n is None", ("n == null",), NULLS, "n == null"),
    "null, not asked": Asked("n is not None", (), NULLS, "n != null"),
    "a question that fails on null": Asked(
        "n is not None and n > 2", ("n > 2",), NULLS, "n != null and n > 2"
    ),
    "a divisor that may be 0": Asked(
        "m and w % m == 0",
        ("w % m == 0",),
        every(m=[0, 1, 3, 4], w=[8, 9, 12]),
        "m != 0 and w % m == 0",
    ),
    "a list's length": Asked(
        "len(sizes) > 2", ("len(sizes) > 2",), every(sizes=[[1], [1, 2], [1] * 4]), "len(sizes) > 2"
    ),
    "no fitting question": Asked("w % 5 == 3", ("w > 13",), every(w=[8, 9, 12, 13, 18]), None),
}


@pytest.mark.parametrize("case", ASKED)
def test_a_condition_is_one_of_those_asked(case: str) -> None:
    when, asked, every_fields, found = ASKED[case]

    def looked_at(fields: Fields) -> Probe:
        there = eval(when, dict(fields))  # noqa: S307  # the code is this file's
        return probe(
            fields, Holds({"always": "1", **({"part.w": "1"} if there else {})}, asked=asked)
        )

    draft = generalize([looked_at(fields) for fields in every_fields])
    assert draft_texts(draft).conditions == {"part": found}
    assert draft.unknown == ([] if found else ["the condition for part"])
    assert all(draft.gives(looked_at(fields)) for fields in every_fields) is (found is not None)


class Inside(NamedTuple):
    """When a layer has a tensor, in Python over its index; the rest as above."""

    when: str
    asked: tuple[str, ...]
    fields: list[Fields]
    found: str | None


PATTERNS = every(pattern=[["f", "s"], ["s", "s", "f"]], n=[4, 7])

INSIDE = {
    "layers from one on": Inside(
        "i >= first", ("i < first",), every(n=[4, 5], first=[1, 2, 6]), "i >= first"
    ),
    "at regular steps": Inside(
        "i % step == 1", ("i % step == 1",), every(n=[4, 6], step=[2, 3]), "i % step == 1"
    ),
    "two questions": Inside(
        "i >= first and i % step == 0",
        ("i >= first", "i % step == 0"),
        every(n=[6, 9], step=[2, 3], first=[0, 1, 4]),
        "i >= first and i % step == 0",
    ),
    "a question and a field": Inside(
        "on and i >= first",
        ("on", "i >= first"),
        every(n=[4, 5], first=[1, 2], on=[True, False]),
        "on and i >= first",
    ),
    "the item of a list": Inside(
        "kinds[i] == 'f'",
        ("kinds[i] == 'f'",),
        [{"kinds": kinds, "n": len(kinds)} for kinds in KINDS],
        'kinds[i] == "f"',
    ),
    "the item of a list, not asked": Inside(
        "kinds[i] == 'f'",
        (),
        [{"kinds": kinds, "n": len(kinds)} for kinds in KINDS],
        'kinds[i] == "f"',
    ),
    "the item of a list that goes round": Inside(
        "pattern[i % len(pattern)] == 's'", (), PATTERNS, 'pattern[i % len(pattern)] != "f"'
    ),
    "one of a list, not asked": Inside(
        "i in which", (), every(n=[4, 5], which=[[0, 2], [1], [3, 0]]), "i in which"
    ),
    "the first few, not asked": Inside("i < 3", (), every(n=[4, 6]), "i < 3"),
    "the first few, by a field that may be null": Inside(
        "i < (first or 0)",
        (),
        every(n=[4, 5], first=[None, 1, 2, 4]),
        "first != null and i < first",
    ),
    "the first, not asked": Inside("i == 0", (), every(n=[4, 5]), "i == 0"),
    "all but the last, not asked": Inside("i < n - 1", (), every(n=[2, 4, 5]), "i != n - 1"),
    "every other, not asked": Inside("i % 2 == 1", (), every(n=[6, 5]), "i % 2 != 0"),
    "no fitting question": Inside(
        "i in (1, 2, 5, 6, 9, 14, 16, 18, 19, 23)", (), every(n=[25, 26]), None
    ),
}


@pytest.mark.parametrize("case", INSIDE)
def test_a_condition_in_a_list_is_of_its_index(case: str) -> None:
    when, asked, every_fields, found = INSIDE[case]

    def looked_at(fields: Fields) -> Probe:
        made = layers(fields, lambda i: "2", asked=asked)
        there = [i for i in range(fields["n"]) if eval(when, {**fields, "i": i})]  # noqa: S307
        return probe(
            fields,
            made._replace(tensors={**made.tensors, **{f"layers.{i}.part.w": "1" for i in there}}),
        )

    draft = generalize([looked_at(fields) for fields in every_fields])
    assert draft_texts(draft).conditions == {"layers.{0}.part": found}
    for fields in [*every_fields, *({**fields, "n": fields["n"] - 1} for fields in every_fields)]:
        if found and "kinds" not in fields:
            assert draft.gives(looked_at(fields))


def test_the_counters_of_two_loops_are_distinguished() -> None:
    def looked_at(fields: Fields) -> Probe:
        names = {
            f"a.{i}.b.{j}.{name}": "1"
            for i, j in itertools.product(range(fields["n"]), range(fields["m"]))
            for name in ("w", *(["x"] if 2 * j < fields["from"] and j <= i else []))
        }
        lengths = {"a": fields["n"], **{f"a.{i}.b": fields["m"] for i in range(fields["n"])}}
        return probe(fields, Holds(names, lengths, ("2*k < from", "k <= i"), ("n", "m")))

    every_fields = [
        {"n": n, "m": m, "from": first} for n, m, first in itertools.product([2, 4], [3, 5], [3, 6])
    ]
    draft = generalize(list(map(looked_at, every_fields)))
    assert draft_texts(draft).conditions == {"a.{0}.b.{1}.x": "j <= i and 2 * j < from"}
    assert draft.gives(looked_at({"n": 3, "m": 7, "from": 5}))


# Predictions of a draft


@pytest.mark.parametrize(
    ("path", "lists", "template", "indices"),
    [
        ("layers.12.w", {"layers"}, "layers.{0}.w", (12,)),
        ("layers.12.w", set(), "layers.12.w", ()),
        ("a.1.b.2.w", {"a", "a.{0}.b"}, "a.{0}.b.{1}.w", (1, 2)),
        ("a.1.b.2.w", {"a"}, "a.{0}.b.2.w", (1,)),
        ("a.1.b.2.w", {"a.1.b"}, "a.1.b.{0}.w", (2,)),
        ("a.1.b.2.w", {"a.{0}.b"}, "a.1.b.2.w", ()),
        ("3.w", {""}, "{0}.w", (3,)),
        ("e.expert_7.fc1.w", {"e.expert_"}, "e.expert_{0}.fc1.w", (7,)),
        ("e.expert_7.fc1.w", {"e.expert_", "e.expert_{0}.fc"}, "e.expert_{0}.fc{1}.w", (7, 1)),
        ("layers", {"layers"}, "layers", ()),
    ],
)
def test_a_template_has_an_index_for_each_list_that_repeats(
    path: str, lists: set[str], template: str, indices: tuple[int, ...]
) -> None:
    assert templated(path, lists.__contains__) == (template, indices)
    assert template.format(*indices) == path


def test_the_list_above_a_name_is_the_innermost() -> None:
    assert [list_above(path) for path in ("a.{0}.b.{1}.w", "a.{0}.b", "e_{0}", "w")] == [
        "a.{0}.b",
        "a",
        "e_",
        "",
    ]


DRAFT = Draft(
    repeats={"a": tree("n"), "a.{0}.b": tree("depths[i__]"), "none": None},
    tensors={
        "embed": Drafted("embed", (tree("w"), tree("3"))),
        "a.{0}.b.{1}.w": Drafted("a.{0}.b.{1}.w", (tree("w*(i__+1)"), tree("j__+1"))),
        "a.{0}.b.{1}.t": Drafted(
            "a.{0}.b.{1}.t",
            (),
            (DraftedTie("a.{0}.b.{1}.w", tree("j__ == 0")), DraftedTie("embed", tree("tie"))),
        ),
        "a.{0}.on.w": Drafted("a.{0}.on.w", None),
        "none.{0}.w": Drafted("none.{0}.w", ()),
        "lost": Drafted("lost", ()),
        "part.w": Drafted("part.w", (tree("w // zero"),)),
    },
    conditions={
        "a.{0}.on": tree("i__ < first"),
        "lost": None,
        "a": tree("n != 9"),
        "part": tree("w > 5"),
    },
)
"""A draft with every kind of content."""


@pytest.mark.parametrize(
    ("fields", "shapes", "ties"),
    [
        (
            {"n": 2, "depths": [1, 2], "w": 5, "first": 1, "tie": False},
            {
                "embed": (5, 3),
                "a.0.b.0.w": (5, 1),
                "a.1.b.0.w": (10, 1),
                "a.1.b.1.w": (10, 2),
                "a.0.b.0.t": (),
                "a.1.b.0.t": (),
                "a.1.b.1.t": (),
                "a.0.on.w": None,
            },
            {"a.0.b.0.t": "a.0.b.0.w", "a.1.b.0.t": "a.1.b.0.w"},
        ),
        (
            {"n": 1, "depths": [2], "w": 4, "first": 0, "tie": True},
            {
                "embed": (4, 3),
                "a.0.b.0.w": (4, 1),
                "a.0.b.1.w": (4, 2),
                "a.0.b.0.t": (),
                "a.0.b.1.t": (),
            },
            {"a.0.b.0.t": "a.0.b.0.w", "a.0.b.1.t": "embed"},
        ),
        ({"n": 9, "depths": [2] * 9, "w": 7, "zero": 0}, {"embed": (7, 3), "part.w": (None,)}, {}),
        ({"n": -3, "depths": [], "w": 4}, {"embed": (4, 3)}, {}),
        ({"n": None, "depths": [2] * 9, "w": 4}, {"embed": (4, 3)}, {}),
    ],
)
def test_a_draft_predicts_every_shape_and_tie(
    fields: Fields, shapes: Mapping[str, Any], ties: Mapping[str, str]
) -> None:
    assert predicted(DRAFT, fields) == (shapes, ties)


def test_the_unknown_parts_of_a_draft_are_listed() -> None:
    assert DRAFT.unknown == [
        "the number of modules in none",
        "the condition for lost",
        "the shape of a.{0}.on.w",
    ]


def test_a_tensor_of_several_ranks_has_the_dims_of_each_under_a_condition() -> None:
    dims = {"flat": "w", "grid": "w 2 w", "none": ""}
    probes = [
        probe(fields, Holds({"w": dims[fields["kind"]]}, asked=('kind == "grid"',)))
        for fields in every(w=[8, 9], kind=[*dims, "flat"])
    ]
    draft = generalize(probes)
    assert draft.unknown == []
    assert all(map(draft.gives, probes))
    assert predicted(draft, {"w": 5, "kind": "grid"}) == ({"w": (5, 2, 5)}, {})
    assert predicted(draft, {"w": 5, "kind": "none"}) == ({"w": ()}, {})
    assert predicted(draft, {"w": 5, "kind": "flat"}) == ({"w": (5,)}, {})


def test_tensors_of_two_ranks_that_nothing_tells_apart_have_no_shape() -> None:
    probes = [probe({"w": 8}, Holds({"w": dims})) for dims in ("w", "w 2")]
    draft = generalize(probes)
    assert draft.unknown == ["the shape of w"]
    assert not draft.gives(probes[0])


@pytest.mark.parametrize(
    "differs",
    [
        Holds({"embed": "5 3"}),
        Holds({"embed": "5 3", "head": "5 4"}, ties={"head": "embed"}),
        Holds({"embed": "5 3", "head": "5 3"}),
        Holds({"embed": "5 3", "head": "5 3", "more": "1"}, ties={"head": "embed"}),
        Holds({"embed": "5 3", "head": "5 3"}, ties={"embed": "head"}),
    ],
)
def test_a_draft_gives_a_probe_only_if_every_name_shape_and_tie_is_there(differs: Holds) -> None:
    dims = (("name", "w"), ("value", 3))
    draft = Draft(
        tensors={
            "embed": Drafted("embed", dims),
            "head": Drafted("head", dims, (DraftedTie("embed", ("value", True)),)),
        }
    )
    assert draft.gives(
        probe({"w": 5}, Holds({"embed": "5 3", "head": "5 3"}, ties={"head": "embed"}))
    )
    assert not draft.gives(probe({"w": 5}, differs))


# Numbers whose expression was lost

NUMBERS: dict[str, tuple[str, tuple[str, ...], str | None]] = {
    "always the same": ("7", (), "7"),
    "a field": ("w", (), "w"),
    "a bound before a field": ("h", ("len(sizes) + 1",), "h"),
    "a bound that is right": ("len(sizes) + 1", ("w", "len(sizes) + 1"), "len(sizes) + 1"),
    "a field and a little": ("w - 3", (), "w - 3"),
    "times a field": ("4*w", (), "4 * w"),
    "times a field and a little": ("5*w + 2", (), "5 * w + 2"),
    "a little more than a bound": ("max(w, h) + 2", ("max(w, h)",), "max(w, h) + 2"),
    "times a bound": ("3*max(w, h) - 1", ("max(w, h)",), "3 * max(w, h) - 1"),
    "a product": ("w*h", (), "h * w"),
    "a sum of products": ("w*h + h*h", (), "h * h + h * w"),
    "no such thing": ("w*w*w*h + 5*h*h*h", (), None),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_a_number_is_found_by_its_values(case: str) -> None:
    lost, first, found = NUMBERS[case]
    every_fields = every(w=[8, 9, 30], h=[4, 10, 11], sizes=[[1, 2, 5], [7] * 5])
    wanted = [compiled(tree(lost))(fields) for fields in every_fields]
    tried = LostValues([], guess=True).expression(wanted, every_fields, list(map(tree, first)))
    assert text(tried) == found


def test_a_number_is_not_guessed_unless_allowed() -> None:
    every_fields = every(w=[8, 9])
    exact = LostValues([], guess=False)
    assert exact.expression([8, 9], every_fields) == ("name", "w")
    assert exact.expression([9, 10], every_fields) is None
    assert exact.expression([9, 10], every_fields, [tree("w + 1")]) == tree("w + 1")


def test_a_field_that_is_not_an_integer_everywhere_gives_no_number() -> None:
    assert LostValues([], guess=True).expression([8, 9], [{"w": 8}, {"w": 9.0}]) is None
    assert LostValues([], guess=True).expression([8, 9], [{"w": 8}, {"w": None}]) is None
    assert LostValues([], guess=True).expression([0, 1], [{"w": False}, {"w": True}]) is None


# Values of any kind


def observation(value: Any, **fields: Any) -> Observation:
    return Observation(fields, {"x": [Observed(value, ("value", value))]}, {}, SymbolicTrace())


def test_values_of_any_kind_are_generalized() -> None:
    seen = [observation("a", gated=True), observation("b", gated=False)]
    (expression_of_x,) = in_common(seen).expressions["x"] or ()
    assert text(expression_of_x) == '"a" if gated else "b"'


def test_a_flag_is_not_a_number() -> None:
    seen = [observation(True, n=1), observation(1, n=2)]
    (expression_of_x,) = in_common(seen).expressions["x"] or ()
    assert text(expression_of_x) == "1 if n > 1 else true"


def test_every_cost_has_a_reason() -> None:
    assert all(cost.cost > 0 and cost.reason for cost in COSTS.values())


def test_a_list_that_is_joined_from_parts_has_one_expression() -> None:
    def kinds(n: int, period: int, offset: int) -> list[str]:
        of_loop = ["f" if i % period == offset else "s" for i in range(n - 3)]
        return ["s", "s", "f", *of_loop]

    observations: list[Observation] = []
    for n, period, offset in ((9, 6, 4), (12, 6, 4), (14, 4, 2), (9, 3, 1), (20, 5, 0), (11, 4, 3)):
        trace = SymbolicTrace()
        trace.asked[tree("i % period == offset")] = None
        trace.bounds[tree("n")] = None
        items = enumerate(kinds(n, period, offset))
        values = {f"kinds.{at}": [Observed(text, ("value", text))] for at, text in items}
        fields = {"n": n, "period": period, "offset": offset}
        observations.append(Observation(fields, values, {"kinds": n}, trace))
    common = in_common(observations)
    assert common.is_complete
    (item,) = common.expressions["kinds.{0}"] or ()
    for n, period, offset in ((10, 2, 1), (16, 5, 3)):
        fields = {"period": period, "offset": offset}
        found = [compiled(item)({**fields, "@0": at}) for at in range(n)]
        assert found == kinds(n, period, offset)


def test_an_else_has_the_opposite_of_the_conditions_of_its_if() -> None:
    flags = dict.fromkeys("abcde", (True, False))
    probes: list[Probe] = []
    for fields in every(**flags):
        is_first = fields["b"] and not fields["a"] and not fields["e"]
        is_first = is_first or (fields["d"] and not fields["a"] and fields["c"])
        name = "first.weight" if is_first else "other.weight"
        held = Holds({name: "width"}, asked=tuple(flags))
        probes.append(probe({"width": 8, **fields}, held))
    draft = generalize(probes)
    assert not draft.unknown
    assert all(map(draft.gives, probes))
