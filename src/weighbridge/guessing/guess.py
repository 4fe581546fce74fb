"""From a checkpoint to its model: the family, the class and the config that its names and shapes tell of.

Every tensor of a class is an equation: what its dims come to is the size that stands in the header.
That there are twelve layers, that a bias is there, that a head is not, are equations too. `solving`
solves them, and `comparison.compare` has the last word: a candidate is exact if nothing that
matters differs.

What two fields decide only together, as the number of heads and the size of each, no header tells
apart. Such fields get their usual value, and are told as free.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import names_in
from weighbridge.blueprint.schema import LARGEST_SIZE, LEFT_OUT, MOST_LAYERS
from weighbridge.errors import WeighbridgeError
from weighbridge.guessing.candidates import closest
from weighbridge.guessing.solver import Equation, Problem, majority, solve
from weighbridge.guessing.unknowns import HOLDS, LENGTH, Impossible, is_open, partly
from weighbridge.ledger.ledger import bind
from weighbridge.matching.comparison import compare
from weighbridge.matching.pairing import stated_families
from weighbridge.models import find as models

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint, Template
    from weighbridge.guessing.candidates import Fit, Held, Place
    from weighbridge.guessing.solver import Solution
    from weighbridge.guessing.unknowns import Cell
    from weighbridge.matching.comparison import Comparison
    from weighbridge.models.find import Model
    from weighbridge.readers import Found

    Indices = tuple[tuple[str, int], ...]

MOST_STEPS = 40_000
"""How many equations are looked at, all classes together, before it is enough that one of them fits."""


MOST_EQUATIONS = 20_000
"""How many equations a class may have; what has more, as ten thousand layers of many kinds, is not looked at."""
_MOST_LACKING = (
    1_000  # tensors that a checkpoint may lack, beside as many as it has, and be told of as near
)
_NEAREST = 4  # classes that are solved where none has all the names


class Free(NamedTuple):
    """A value that a checkpoint does not tell: what was taken, and why.

    ``why`` is ``"usual"`` where it is what the family usually has, ``"fits"`` where that does not
    fit and this does, and ``"follows"`` where it follows from the field ``after``, which is free
    itself. ``others`` fit as well.
    """

    value: Any
    why: str
    after: str
    others: tuple[Any, ...]


class Candidate(NamedTuple):
    """A class that a checkpoint may be of, with a config that `models.find` reads.

    ``sure`` are the fields that the headers determine, ``free`` those that matter and that they
    leave open; what decides no tensor of the class is in neither. ``unusual`` counts the sure ones
    that are not at their defaults.
    """

    model: Model
    class_name: str
    config: dict[str, Any]
    sure: dict[str, Any]
    free: dict[str, Free]
    comparison: Comparison
    unusual: int

    @property
    def family(self) -> str:
        """The family that its blueprint is of."""
        return self.model.blueprint.family

    @property
    def is_exact(self) -> bool:
        """Whether the checkpoint holds what the class must have, and nothing else."""
        return not self.comparison.failures


class Guess(NamedTuple):
    """What a checkpoint may be: candidates, the likeliest first."""

    found: Found
    candidates: tuple[Candidate, ...]

    @property
    def exact(self) -> tuple[Candidate, ...]:
        """Those that fit exactly. No header tells them apart."""
        return tuple(candidate for candidate in self.candidates if candidate.is_exact)


def guess(found: Found) -> Guess:
    """Return the families, classes and configs that fit a checkpoint, the likeliest first; the nearest, if none does.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.ledger.ledger import bind
        >>> from weighbridge.readers import Found
        >>> bert = load("bert")
        >>> rows = tuple(bind(bert, "BertModel", {**bert.defaults, "hidden_size": 384, "num_labels": 2}).rows)
        >>> best = guess(Found("a.safetensors", "safetensors", rows, {}, (), 0, {}, {}, (), None)).candidates[0]
        >>> best.family, best.class_name, best.is_exact, best.sure["hidden_size"]
        ('bert', 'BertModel', True, 384)
        >>> best.free["num_attention_heads"]
        Free(value=6, why='fits', after='', others=(8, 4, 12, 3, 16, 2, 24, 32, 1, 48, 64, 96, 128, 192, 384))
    """
    candidates: list[Candidate] = []
    left = MOST_STEPS
    for fits in closest(found):
        whole = [fit for fit in fits if not fit.unknown and not fit.lacking]
        for fit in whole or ([] if candidates else fits[:_NEAREST]):
            if left > 0 or not _any_exact(candidates):
                steps, candidate = _candidate(fit, found)
                candidates += [candidate] if candidate else []
                left -= steps
        if _any_exact(candidates):
            break
    stated = stated_families(found)
    return Guess(found, tuple(sorted(candidates, key=lambda candidate: _rank(candidate, stated))))


def _any_exact(candidates: Sequence[Candidate]) -> bool:
    return any(candidate.is_exact for candidate in candidates)


def _rank(candidate: Candidate, stated: Sequence[str]) -> tuple[Any, ...]:
    """Return what a candidate is ranked by: what differs, what is stated, whose names they are, what is unusual."""
    compared, family = candidate.comparison, candidate.family
    noted = sum(difference.kind.startswith("prefix") for difference in compared.differences)
    return compared.failures, family not in stated, noted, candidate.unusual, len(family), family


# What the tensors say


def _equations(fit: Fit) -> tuple[list[Equation], set[str]]:
    """Return what the tensors that are there, and those that are not, say of the fields, and which fields these are.

    What is required of all configs comes last: it tells no field, but rules out values.
    """
    blueprint, votes = fit.blueprint, _Votes()
    for template, held in fit.held.items():
        votes.sizes(template, held, blueprint)
    counts = _counts(fit)
    for (index, outer), count in counts.items():
        votes.add(blueprint.repeat[index], outer, count, _COUNTS)
    for template in fit.templates:
        for tree, indices, truth in _presence(
            template, fit.held.get(template, []), counts, blueprint
        ):
            votes.add(tree, indices, truth)
            if len(votes.of) > MOST_EQUATIONS:
                break
    said = {name for tree, _ in votes.of for name in names_in(tree)}
    rules = [tree for tree in blueprint.require.values() if not said.isdisjoint(names_in(tree))]
    return [*majority(votes.of), *(Equation(tree, (), target=True) for tree in rules)], said


_LONGEST_SIZE = 10  # digits
_COUNTS = 1_000_000  # of one name more than of another: that a layer is there is no matter of votes


class _Votes:
    """What each expression came to, and how often."""

    def __init__(self) -> None:
        self.of: dict[tuple[Tree, Indices], Counter[Any]] = {}

    def add(self, tree: Tree, indices: Indices, target: Any, weight: int = 1) -> None:
        if len(self.of) <= MOST_EQUATIONS:
            self.of.setdefault((tree, indices), Counter())[target] += weight

    def sizes(self, template: Template, held: Held, blueprint: Blueprint) -> None:
        trees = [blueprint.dims[dim] for dim in template.dims]
        uses = [_uses(tree, template.repeat) for tree in trees]
        for (place, shape), many in Counter(held).items() if any(uses) else _shapes(held):
            if len(shape) == len(trees):
                for tree, used, size in zip(trees, uses, shape, strict=True):
                    self.add(tree, _bound(used, place, template.repeat), size, many)


def _shapes(held: Held) -> Iterable[tuple[tuple[Place, tuple[int, ...]], int]]:
    return [(((), shape), many) for shape, many in Counter(shape for _, shape in held).items()]


def _uses(tree: Tree, repeat: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of the indices that stand in an expression."""
    names = set(names_in(tree)) if repeat else ()
    return tuple(position for position, index in enumerate(repeat) if index in names)


def _bound(positions: Iterable[int], place: Place, repeat: Sequence[str]) -> Indices:
    return tuple((repeat[position], place[position]) for position in positions)


def _counts(fit: Fit) -> dict[tuple[str, Indices], int]:
    """Return how many values each index has, inside each place of those that its count depends on."""
    found: dict[tuple[str, Indices], int] = {}
    for template, held in fit.held.items():
        for position, index in enumerate(template.repeat):
            used = _uses(fit.blueprint.repeat[index], template.repeat)
            for place, _ in held:
                key = index, _bound(used, place, template.repeat)
                found[key] = max(found.get(key, 0), place[position] + 1)
    return found


def _presence(
    template: Template, held: Held, counts: Mapping[tuple[str, Indices], int], blueprint: Blueprint
) -> Iterator[tuple[Tree, Indices, bool]]:
    """Yield what follows from where a tensor is, and where it is not."""
    tie = template.tie
    if tie and tie.when is None:
        return
    conditions = [*template.when, *([("not", tie.when)] if tie else [])]
    decide = {name for tree in conditions for name in names_in(tree)}
    deciding = [position for position, index in enumerate(template.repeat) if index in decide]
    there = {_bound(deciding, place, template.repeat) for place, _ in held}
    nothing = [
        (">", blueprint.repeat[index], ("value", 0))
        for index in template.repeat
        if not any(other == index for other, _ in counts)
        and not _uses(blueprint.repeat[index], template.repeat)
    ]
    whole = _all([*conditions, *nothing]) if conditions or nothing else None
    uses = {tree: frozenset(names_in(tree)) for tree in (*conditions, *([whole] if whole else []))}
    for indices in _places([template.repeat[position] for position in deciding], counts, blueprint):
        if indices in there:
            yield from ((tree, _only(indices, uses[tree]), True) for tree in conditions)
        elif whole:
            yield whole, _only(indices, uses[whole]), False


def _all(trees: Sequence[Tree]) -> Tree:
    first, *others = trees
    for tree in others:
        first = ("and", first, tree)
    return first


def _only(indices: Indices, names: frozenset[str]) -> Indices:
    return tuple([index for index in indices if index[0] in names])


def _places(
    repeat: Sequence[str],
    counts: Mapping[tuple[str, Indices], int],
    blueprint: Blueprint,
    before: Indices = (),
) -> Iterator[Indices]:
    """Yield the values that indices have, the later ones inside the earlier."""
    if not repeat:
        yield before
        return
    index, *inner = repeat
    names = set(names_in(blueprint.repeat[index]))
    outer = tuple((name, value) for name, value in before if name in names)
    for value in range(counts.get((index, outer), 0)):
        yield from _places(inner, counts, blueprint, (*before, (index, value)))


# What a field may be


class _Fields:
    """What values the fields of a blueprint may have, and which they usually have."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.defaults = {(name,): value for name, value in blueprint.at_defaults.items()}
        self.order = {
            name: rank for rank, name in enumerate([*blueprint.defaults, *blueprint.computed])
        }

    def rank(self, cell: Cell) -> tuple[Any, ...]:
        return self.order.get(cell[0], len(self.order)), *map(str, cell[1:])

    def fits(self, cell: Cell, value: Any) -> bool:
        name, *path = cell
        blueprint = self.blueprint
        if name not in blueprint.fields:
            return False
        if path and path[-1] == LENGTH:
            return type(value) is int and 0 <= value <= MOST_LAYERS
        if HOLDS in path:
            return type(value) is bool
        if value is None:
            return not path and (name in blueprint.nullable or blueprint.at_defaults[name] is None)
        if name in blueprint.configs:
            return bool(value == {})
        kind = type(_walked(blueprint.at_defaults[name], path)) if path else blueprint.kinds[name]
        if type(value) is str and name in blueprint.values and kind not in (list, tuple):
            return value in blueprint.values[name]
        if type(value) is int and kind in (int, float, type(None)):
            may_be_negative = not path and name not in blueprint.sizes
            least = (
                -LARGEST_SIZE if may_be_negative else int(not path and name not in blueprint.zero)
            )
            return least <= value <= LARGEST_SIZE
        if kind in (list, tuple):
            return isinstance(value, list | tuple)
        return kind is type(None) or type(value) is kind

    def usual(self, cell: Cell, known: Mapping[Cell, Any]) -> Iterator[Any]:
        name, *path = cell
        for whole in self.wholes(name, known):
            if not path:
                yield whole
            elif isinstance(whole, list | tuple):
                yield from _inside(whole, path)
        if not path:
            yield from (
                ({} if name in self.blueprint.configs else None,) if self.may_be_null(name) else ()
            )
            yield from (True, False) if self.blueprint.kinds[name] is bool else ()
        elif HOLDS in path:
            yield from (False, True)
        elif path[-1] == LENGTH:
            items = [
                other[len(cell) - 1]
                for other in known
                if other[: len(path)] == cell[:-1] and len(other) > len(path)
            ]
            yield max((item + 1 for item in items if type(item) is int), default=0)
        else:
            yield from (True, False)
        yield from self.blueprint.values.get(name, ())

    def said_nothing(self, name: str) -> Any:
        """Return what a field is where a config does not say it."""
        return self.blueprint.at_defaults[name]

    def may_be_null(self, name: str) -> bool:
        return name in self.blueprint.nullable or name in self.blueprint.configs

    def wholes(self, name: str, known: Mapping[Cell, Any]) -> Iterator[Any]:
        """Yield what a field comes to where nothing is said of it, at what is known and at the defaults."""
        given = self.blueprint.given.get(name, self.blueprint.defaults.get(name))
        if name in self.blueprint.computed and (given is None or given == LEFT_OUT):
            value = self.computed(name, known)
            if not is_open(value):
                yield tuple(value) if isinstance(value, list) else value
        elif given is not None:
            yield given
        yield self.blueprint.at_defaults[name]

    def computed(self, name: str, known: Mapping[Cell, Any]) -> Any:
        """Return what a field follows to be from others, each as it is known or as it usually is."""
        tree, at_hand = self.blueprint.computed[name], dict(known)
        for other in set(names_in(tree)):
            if (other,) not in known:
                follows = other in self.blueprint.computed
                at_hand[other,] = self.computed(other, known) if follows else self.defaults[other,]
        try:
            return partly(tree, {}, at_hand)
        except Impossible:
            return None


def _walked(value: Any, path: Sequence[Any]) -> Any:
    """Return the item of a list at a path, or one that is like it."""
    for step in path:
        if not isinstance(value, list | tuple) or not value:
            return None
        value = value[step if type(step) is int and step < len(value) else -1]
    return value


def _inside(value: Any, path: Sequence[Any]) -> Iterator[Any]:
    *above, last = path
    if HOLDS in path:
        yield path[path.index(HOLDS) + 1] in value
    elif last == LENGTH:
        inner = _walked(value, above)
        yield from (len(inner),) if isinstance(inner, list | tuple) else ()
    else:
        yield _walked(value, path)


# A config that says so


def _candidate(fit: Fit, found: Found) -> tuple[int, Candidate | None]:
    """Return how much work it was, and the candidate, if there is a config of the class that comes near."""
    blueprint = fit.blueprint
    fields, (equations, said) = _Fields(blueprint), _equations(fit)
    if len(equations) > MOST_EQUATIONS:
        return MOST_EQUATIONS, None
    stated = _stated(found, blueprint)
    problem = Problem(equations, stated, fields.fits, fields.usual, fields.defaults, fields.rank)
    solution = solve(problem)
    values = {
        name: value
        for name, value in _values(solution, fields).items()
        if name in said or (name,) in stated or value != fields.said_nothing(name)
    }
    for said_so in (
        values,
        {name: value for name, value in values.items() if name in blueprint.repeats},
    ):
        config = _config(blueprint, fit.class_name, said_so)
        try:
            model = models.bound(config, blueprint, found.path)
            expected = bind(blueprint, fit.class_name, model.fields)
            if expected.stored.tensors > _MOST_LACKING + 2 * len(found.rows):
                break
            comparison = compare(expected, found)
        except (
            WeighbridgeError
        ):  # what contradicts itself says nothing but how many layers there are
            continue
        sure, free = _told(solution, said_so, model)
        unusual = sum(value != blueprint.at_defaults[name] for name, value in sure.items())
        return solution.steps, Candidate(
            model, fit.class_name, config, sure, free, comparison, unusual
        )
    return solution.steps, None


def _stated(found: Found, blueprint: Blueprint) -> dict[Cell, Any]:
    """Return the fields that the checkpoint's own metadata states: formats that need no config say some."""
    facts = data.read_toml("facts/metadata.toml")
    architecture = found.metadata.get(facts["architecture"], "")
    stated: dict[Cell, Any] = {}
    for key, names in facts["fields"].items():
        value = found.metadata.get(f"{architecture}.{key}", "")
        if value.isascii() and value.isdigit() and 0 < int(value[:_LONGEST_SIZE]) <= LARGEST_SIZE:
            stated |= {(name,): int(value) for name in names if name in blueprint.fields}
    return stated


def _values(solution: Solution, fields: _Fields) -> dict[str, Any]:
    """Return whole fields: what was found of a list's items, with what it usually has in the other places."""
    known = solution.values
    found: dict[str, Any] = {}
    for name in sorted({cell[0] for cell in known}, key=lambda name: fields.rank((name,))):
        cells = {cell[1:]: value for cell, value in known.items() if cell[0] == name}
        usual = next(
            (whole for whole in fields.wholes(name, known) if isinstance(whole, list | tuple)), ()
        )
        found[name] = cells[()] if () in cells else _laid_over(usual, cells)
    return found


def _laid_over(usual: Any, cells: Mapping[Cell, Any]) -> Any:
    """Return a list with the items that are known in their places."""
    if () in cells:
        return cells[()]
    held = {cell[1]: value for cell, value in cells.items() if cell[0] == HOLDS}
    if held:
        return tuple(
            sorted(
                {
                    *(item for item in usual if held.get(item, True)),
                    *(i for i, has in held.items() if has),
                }
            )
        )
    usual = usual if isinstance(usual, list | tuple) else ()
    items: dict[int, dict[Cell, Any]] = {}
    for cell, value in cells.items():
        if cell[0] != LENGTH:
            items.setdefault(cell[0], {})[cell[1:]] = value
    least = max(items, default=-1) + 1
    length = cells.get((LENGTH,), max(least, len(usual)))
    return tuple(
        _laid_over(_walked(usual, [at]), items[at]) if at in items else _walked(usual, [at])
        for at in range(length)
    )


def _config(blueprint: Blueprint, class_name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was found as a config.json says it."""
    config: dict[str, Any] = {"architectures": [class_name], "model_type": blueprint.family}
    for name, value in values.items():
        here, path = config, name.split(".")
        for depth, piece in enumerate(path[:-1], start=1):
            kind = blueprint.configs.get(".".join(path[:depth]))
            if not isinstance(here.get(piece), dict):
                here[piece] = {"model_type": kind} if kind else {}
            here = here[piece]
        if name not in blueprint.configs:
            here[path[-1]] = _as_json(value)
        elif value is None:
            here[path[-1]] = None
        else:
            here.setdefault(path[-1], {})
    return config


def _as_json(value: Any) -> Any:
    return [_as_json(item) for item in value] if isinstance(value, list | tuple) else value


def _told(
    solution: Solution, values: Mapping[str, Any], model: Model
) -> tuple[dict[str, Any], dict[str, Free]]:
    """Return the fields that the equations determine, and those that were chosen or follow from what was."""
    sure: dict[str, Any] = {}
    free: dict[str, Free] = {}
    for name, value in values.items():
        cells = {cell: found for cell, found in solution.cells.items() if cell[0] == name}
        chosen = next((found for cell, found in cells.items() if found.after), None)
        if chosen is None:
            sure[name] = value
            continue
        own = chosen.after is not None and chosen.after[0] == name
        usual = model.blueprint.at_defaults[name]
        why = "follows" if not own else "usual" if value == usual else "fits"
        free[name] = Free(
            value, why, "" if own or not chosen.after else chosen.after[0], chosen.others
        )
    return sure, free
