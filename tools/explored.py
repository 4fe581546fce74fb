"""Writes what weighbridge says of random settings, for the page's arithmetic to be held against.

    python tools/explored.py settings --count 20 -o cases.jsonl [FAMILY …]
    python tools/explored.py flows --count 5 -o flows.jsonl [FAMILY …]
    python tools/explored.py runs -o runs.jsonl [FAMILY …]
    python tools/explored.py trees --count 20000 -o trees.json
    node web/tests/equal.mjs cases.jsonl
    node web/tests/flows.mjs flows.jsonl
    node web/tests/runs.mjs runs.jsonl
    node web/tests/trees.mjs trees.json

`settings` takes all families, each with its base class and its last one. `flows` takes the families
with a flow, and writes the steps of `tree --flow`. `runs` takes every recorded class of every
family, whose contract holds runs with what `cost`, `train`, `cache` and `serve` answer. `trees`
writes random expressions with what Python makes of each, so that operators are tried that no
blueprint uses yet.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from weighbridge.algebra.expr import evaluate
from weighbridge.answers.flow_tree import FlowTree
from weighbridge.answers.weigh import weigh
from weighbridge.blueprint import operations
from weighbridge.blueprint.flows import flow_families
from weighbridge.blueprint.schema import families, load
from weighbridge.errors import WeighbridgeError
from weighbridge.explorer.contract import contract
from weighbridge.explorer.settings import Bench
from weighbridge.explorer.trees import tree_json, value_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from weighbridge.answers.weigh import Weighing
    from weighbridge.models.find import Described

_TRIES = 6  # for each setting that can be built
_REFUSED = 4  # one refused setting is kept for each so many that can be built


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the cases of a command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("settings", "flows", "runs", "trees"))
    parser.add_argument("families", nargs="*")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", default="7")
    parser.add_argument("-o", "--output", required=True, type=Path)
    options = parser.parse_intermixed_args(arguments)
    with options.output.open("w", encoding="utf-8") as file:
        if options.kind == "trees":
            json.dump(random_cases(Random(options.seed), options.count), file)
            return 0
        if options.kind == "runs":
            for made in contracts_of_runs(options.families or operations.available()):
                file.write(json.dumps(made, separators=(",", ":")) + "\n")
            return 0
        every, cases_of = (families, settings_of)
        if options.kind == "flows":
            every, cases_of = (flow_families, flows_of)
        for family in options.families or every():
            for case in cases_of(family, options.count, options.seed):
                file.write(json.dumps(case, separators=(",", ":")) + "\n")
    return 0


def contracts_of_runs(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the contract of every class of some families whose operations are recorded."""
    for family in names:
        if "." in family:  # of our own BERT, which has no blueprint
            continue
        for class_name in operations.load_operations(family).class_names:
            yield contract(weigh(family, class_name))


def settings_of(model: Described, count: int, seed: str) -> Iterator[dict[str, Any]]:
    """Yield the cases of the base class and the last class of a family, or of a config's."""
    blueprint = weigh(model).model.blueprint
    family = blueprint.family
    for class_name in dict.fromkeys((blueprint.base_class, blueprint.class_names[-1])):
        weighing = weigh(model, class_name)
        cases = list(_cases_of(Bench(weighing), count, Random(f"{seed} {family} {class_name}")))
        yield {"family": family, "contract": contract(weighing), "cases": cases}


def _cases_of(bench: Bench, count: int, random: Random) -> Iterator[list[Any]]:
    built = refused = 0
    for _ in range(_TRIES * count):
        if built == count:
            return
        changes = bench.random_changes(random)
        written = {name: value_json(value) for name, value in changes.items()}
        try:
            weighing = bench.weigh(changes)
        except WeighbridgeError as error:
            if refused <= built // _REFUSED:
                refused += 1
                yield [written, None, str(error)[:160]]
            continue
        built += 1
        components = {
            group.name: str(group.parameters) for group in weighing.ledger.by("component")
        }
        yield [written, str(weighing.parameters), str(weighing.ledger.active), components]


def flows_of(family: str, count: int, seed: str) -> Iterator[dict[str, Any]]:
    """Yield the steps of the base class of a family, as given and at random settings.

    A setting at which `tree --flow` refuses to answer has null for steps.
    """
    weighing = weigh(family, load(family).base_class)
    bench, random = Bench(weighing), Random(f"{seed} {family}")
    cases: list[list[Any]] = [[{}, _steps_of(weighing)]]
    for _ in range(_TRIES * count):
        if len(cases) == count:
            break
        changes = bench.random_changes(random)
        written = {name: value_json(value) for name, value in changes.items()}
        try:
            changed = bench.weigh(changes)
        except WeighbridgeError:
            continue
        cases.append([written, _steps_of(changed)])
    yield {"family": family, "contract": contract(weighing), "cases": cases}


def _steps_of(weighing: Weighing) -> list[Any] | None:
    try:
        return FlowTree(weighing).to_dict()["steps"]
    except WeighbridgeError:
        return None


NAMES: dict[str, Any] = {
    "a": 7,
    "b": -3,
    "c": 12,
    "edge": 2**53 - 1,
    "large": 2**53 + 1,
    "z": -2.5,
    "x": 2.5,
    "y": 0.5,
    "t": True,
    "f": False,
    "s": "abc",
    "l": (3, 1, 2),
    "m": ("u", "v", "u"),
    "n": None,
    "d": {"0": "p", "1": "q"},
}
_VALUES = (0, 1, 2, 3, 5, 10, 0.5, 1.5, 64, "u", True, None)
_BINARY = ("+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in")
_LAZY = ("and", "or")
_UNARY = (
    *("neg", "not", "len", "sum", "abs", "int", "round", "floor", "ceil", "sqrt", "log2"),
    *("max", "min"),
)


def random_cases(random: Random, count: int) -> dict[str, Any]:
    """Return expressions, each once, with the value of each, or that it has none."""
    cases: dict[Any, list[Any]] = {}
    while len(cases) < count:
        tree = _random_tree(random, random.randint(1, 4))
        if str(tree) not in cases:
            cases[str(tree)] = [tree_json(tree), *_outcome(tree)]
    names = {name: value_json(value) for name, value in {**NAMES, "i": 1}.items()}
    return {"names": names, "cases": list(cases.values())}


def _outcome(tree: Any) -> tuple[bool, Any]:
    try:
        return True, _exact(evaluate(tree, {**NAMES, "i": 1}))
    except (WeighbridgeError, RecursionError):
        return False, None


def _exact(value: Any) -> Any:
    """Return a value as text that shows its kind and every bit of it."""
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(_exact, value)]
    if isinstance(value, dict):
        return ["dict"]
    return f"{type(value).__name__} {value!r}" if not isinstance(value, float) else _float(value)


def _float(value: float) -> str:
    return f"float {value.hex()}"


def _random_tree(random: Random, depth: int) -> Any:
    if depth == 0 or random.random() < _LEAVES:
        return _leaf(random)
    inside = [_random_tree(random, depth - 1) for _ in range(3)]
    kind = random.choices(list(_SHAPES), [weight for weight, _ in _SHAPES.values()])[0]
    return _SHAPES[kind][1](random, inside)


def _leaf(random: Random) -> Any:
    if random.random() < 0.6:
        return ("name", random.choice([*NAMES, "i"]))
    return ("value", random.choice(_VALUES))


_LEAVES = 0.18  # the share of leaves above the deepest level


def _choice_of(kinds: Sequence[str], operands: int) -> Any:
    def node(random: Random, inside: Sequence[Any]) -> Any:
        return (random.choice(kinds), *inside[:operands])

    return node


def _a_slice(random: Random, inside: Sequence[Any]) -> Any:
    return ("[:]", inside[0], _leaf(random), _leaf(random))


def _a_list(random: Random, inside: Sequence[Any]) -> Any:
    return ("list", *inside[: random.randint(0, 3)])


def _a_loop(random: Random, inside: Sequence[Any]) -> Any:
    kind = random.choice(("for", "for", "count"))
    rounds = random.choice((("value", random.randint(0, 4)), ("value", 3), _leaf(random)))
    return (kind, "i", rounds, inside[0])


def _an_index(random: Random, _: Sequence[Any]) -> Any:
    return ("[]", ("name", random.choice("slm")), ("value", random.randint(-4, 4)))


def _an_order(random: Random, inside: Sequence[Any]) -> Any:
    lists = [("list", *inside[: random.randint(0, 2)]) for _ in range(2)]
    return (random.choice(("<", "<=", ">", ">=")), *lists)


_SHAPES: dict[str, tuple[int, Any]] = {
    "binary": (40, _choice_of(_BINARY, 2)),
    "lazy": (4, _choice_of(_LAZY, 2)),
    "unary": (14, _choice_of(_UNARY, 1)),
    "if": (6, _choice_of(("if",), 3)),
    "item": (5, _choice_of(("[]",), 2)),
    "slice": (2, _a_slice),
    "list": (5, _a_list),
    "loop": (5, _a_loop),
    "rounded": (5, _choice_of(("int", "round", "floor", "ceil"), 1)),
    "index": (3, _an_index),
    "order": (3, _an_order),
    "extreme": (3, _choice_of(("max", "min"), 2)),
}


if __name__ == "__main__":
    sys.exit(main())
