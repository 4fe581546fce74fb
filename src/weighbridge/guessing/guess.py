"""Infers a checkpoint's family, class and config from the names and shapes of its tensors.

Each tensor of a class gives equations: the value of each of its dims is a size in the header. The
number of layers and the presence or absence of a tensor give equations too. `solver` solves them,
and `comparison.compare_tensors` decides: a candidate is exact if no difference matters.

Some fields occur only together, such as the number of heads and the size of each head. No header
determines them. Such fields get their usual values and are listed as free.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import names_in
from weighbridge.blueprint.schema import LARGEST_SIZE, LEFT_OUT, MOST_LAYERS
from weighbridge.errors import WeighbridgeError
from weighbridge.guessing.candidates import closest
from weighbridge.guessing.solver import Constraint, Problem, majority, solve
from weighbridge.guessing.unknowns import HOLDS, LENGTH, Impossible, is_open, partly
from weighbridge.ledger.ledger import bind
from weighbridge.matching.comparison import compare_tensors
from weighbridge.matching.pairing import stated_families
from weighbridge.models import find as models
from weighbridge.models.catalogue import releases_by_family
from weighbridge.models.fields import flattened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint, Template
    from weighbridge.guessing.candidates import Fit, Held, Place
    from weighbridge.guessing.solver import Solution
    from weighbridge.guessing.unknowns import Cell
    from weighbridge.matching.comparison import Comparison
    from weighbridge.models.find import Model
    from weighbridge.readers import StoredCheckpoint

    Indices = tuple[tuple[str, int], ...]

MOST_STEPS_IN_ALL = 40_000
"""How many equations of all classes together are evaluated, if one of the classes fits."""
MOST_EQUATIONS = 20_000
"""How many equations a class may have; ten thousand layers of many kinds have too many."""
_MOST_LACKING = 1_000  # tensors that a candidate may have beyond twice those of the checkpoint
_NEAREST = 4  # classes that are solved if none has all the names
_LONGEST_SIZE = 10  # digits
_COUNT_WEIGHT = 1_000_000  # no number of tensors outvotes the number of layers


class Free(NamedTuple):
    """The value chosen for a field that the checkpoint does not determine, and why.

    ``why`` is ``"usual"`` for the family's usual value, ``"fits"`` if only another value fits, and
    ``"follows"`` if the value follows from the field ``after``, which is free itself. ``others``
    are values that fit equally well.
    """

    value: Any
    why: str
    after: str
    others: tuple[Any, ...]


class Candidate(NamedTuple):
    """A class that the checkpoint may have, with a config that `models.find` reads.

    ``sure`` holds the fields that the headers determine, and ``free`` those that matter but are not
    determined. A field on which no tensor of the class depends is in neither. ``unusual`` counts
    the sure fields that differ from their defaults.
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
        """The family of the candidate's blueprint."""
        return self.model.blueprint.family

    @property
    def is_exact(self) -> bool:
        """Whether the checkpoint holds exactly the tensors that the class must have."""
        return not self.comparison.failures


class Guess(NamedTuple):
    """The candidates for a checkpoint, the likeliest first."""

    found: StoredCheckpoint
    candidates: tuple[Candidate, ...]

    @property
    def exact(self) -> tuple[Candidate, ...]:
        """The candidates that fit exactly. Names and shapes cannot tell them apart."""
        return tuple(candidate for candidate in self.candidates if candidate.is_exact)


def guess_model(found: StoredCheckpoint) -> Guess:
    """Return the classes and configs that fit a checkpoint, the likeliest first.

    If none fits exactly, the candidates are the nearest ones.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.ledger.ledger import bind
        >>> from weighbridge.readers import StoredCheckpoint
        >>> bert = load("bert")
        >>> fields = {**bert.defaults, "hidden_size": 384, "num_labels": 2}
        >>> rows = tuple(bind(bert, "BertModel", fields).rows)
        >>> found = StoredCheckpoint(
        ...     "a.safetensors", "safetensors", rows, {}, (), 0, {}, {}, (), None
        ... )
        >>> best = guess_model(found).candidates[0]
        >>> best.family, best.class_name, best.is_exact, best.sure["hidden_size"]
        ('bert', 'BertModel', True, 384)
        >>> heads = best.free["num_attention_heads"]
        >>> heads.value, heads.why, heads.others
        (6, 'fits', (8, 4, 12, 3, 16, 2, 24, 32, 1, 48, 64, 96, 128, 192, 384))
    """
    candidates: list[Candidate] = []
    steps_left = MOST_STEPS_IN_ALL
    for fits in closest(found):
        for fit in _worth_solving(fits, candidates):
            if steps_left <= 0 and _any_exact(candidates):
                break
            steps, candidate = _candidate(fit, found)
            steps_left -= steps
            if candidate is not None:
                candidates.append(candidate)
        if _any_exact(candidates):
            break
    stated = stated_families(found)
    return Guess(found, tuple(sorted(candidates, key=lambda candidate: _rank(candidate, stated))))


def _worth_solving(fits: Sequence[Fit], candidates: Sequence[Candidate]) -> Sequence[Fit]:
    """Return the classes that fit by name, or the nearest ones while there is no candidate."""
    complete = [fit for fit in fits if not fit.unknown and not fit.lacking]
    if complete or candidates:
        return complete
    return fits[:_NEAREST]


def _any_exact(candidates: Sequence[Candidate]) -> bool:
    return any(candidate.is_exact for candidate in candidates)


def _rank(candidate: Candidate, stated: Sequence[str]) -> tuple[Any, ...]:
    """Return a sort key; the candidate with the lowest key is the likeliest.

    The fewest failures come first, then a family that the metadata states, then one with a release
    of exactly these sizes. Of the others that fit equally well, the most used comes first.
    """
    comparison, family = candidate.comparison, candidate.family
    prefixes = sum(difference.kind.startswith("prefix") for difference in comparison.differences)
    releases = releases_by_family().get(family, ())
    has_usual_sizes = not candidate.unusual or any(
        _has_sizes_of(candidate, release["config"]) for release in releases
    )
    return (
        comparison.failures,
        family not in stated,
        prefixes,
        not has_usual_sizes,
        -len(releases),
        candidate.unusual,
        -sum(release["class"] == candidate.class_name for release in releases),
        len(family),
        family,
    )


def _has_sizes_of(candidate: Candidate, config: Mapping[str, Any]) -> bool:
    """Return whether the sure fields of a candidate agree with a released config."""
    fields = dict(flattened(config, candidate.model.blueprint, candidate.model.where))
    aliases = candidate.model.blueprint.aliases
    values = {aliases.get(name, name): value for name, value in fields.items()}
    shared = candidate.sure.keys() & values.keys()
    return bool(shared) and all(candidate.sure[name] == values[name] for name in shared)


# The equations that the tensors give


def _equations(fit: Fit) -> tuple[list[Constraint], set[str]]:
    """Return the equations for a class that follow from the checkpoint, and the fields in them.

    The requirements of the blueprint come last: they determine no field, but rule out values.
    """
    blueprint, votes = fit.blueprint, _Votes()
    for template, held in fit.held.items():
        votes.add_sizes(template, held, blueprint)
    counts = _counts(fit)
    for (index, outer), count in counts.items():
        votes.add(blueprint.repeat[index], outer, count, _COUNT_WEIGHT)
    for template in fit.templates:
        held = fit.held.get(template, [])
        for tree, indices, truth in _presence(template, held, counts, blueprint):
            votes.add(tree, indices, truth)
            if len(votes.by_tree) > MOST_EQUATIONS:
                break
    mentioned = _names_in_all(tree for tree, _ in votes.by_tree)
    requirements = [
        tree for tree in blueprint.require.values() if not mentioned.isdisjoint(names_in(tree))
    ]
    equations = majority(votes.by_tree)
    equations += [Constraint(tree, (), target=True) for tree in requirements]
    return equations, mentioned


def _names_in_all(trees: Iterable[Tree]) -> set[str]:
    names = set[str]()
    for tree in trees:
        names.update(names_in(tree))
    return names


class _Votes:
    """The results of each expression, and how many tensors support each."""

    def __init__(self) -> None:
        self.by_tree: dict[tuple[Tree, Indices], Counter[Any]] = {}

    def add(self, tree: Tree, indices: Indices, result: Any, weight: int = 1) -> None:
        if len(self.by_tree) <= MOST_EQUATIONS:
            self.by_tree.setdefault((tree, indices), Counter())[result] += weight

    def add_sizes(self, template: Template, held: Held, blueprint: Blueprint) -> None:
        trees = [blueprint.dims[dim] for dim in template.dims]
        if len(trees) > 1 and all(len(shape) == 1 for _, shape in held):
            trees = [_product(trees)]  # a packed weight, of which only the elements are known
        uses = [_uses(tree, template.repeat) for tree in trees]
        if not any(uses):  # all places give the same equation
            held = [((), shape) for _, shape in held]
        for (place, shape), tensors in Counter(held).items():
            if len(shape) == len(trees):
                for tree, used, size in zip(trees, uses, shape, strict=True):
                    self.add(tree, _bound(used, place, template.repeat), size, tensors)


def _product(trees: Sequence[Tree]) -> Tree:
    return reduce(lambda left, right: ("*", left, right), trees)


def _uses(tree: Tree, repeat: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of the indices that an expression uses."""
    if not repeat:
        return ()
    names = set(names_in(tree))
    return tuple(position for position, index in enumerate(repeat) if index in names)


def _bound(positions: Iterable[int], place: Place, repeat: Sequence[str]) -> Indices:
    return tuple((repeat[position], place[position]) for position in positions)


def _counts(fit: Fit) -> dict[tuple[str, Indices], int]:
    """Return the number of values of each index, for all values of the indices it depends on."""
    counts: dict[tuple[str, Indices], int] = {}
    for template, held in fit.held.items():
        for position, index in enumerate(template.repeat):
            used = _uses(fit.blueprint.repeat[index], template.repeat)
            for place, _ in held:
                key = index, _bound(used, place, template.repeat)
                counts[key] = max(counts.get(key, 0), place[position] + 1)
    return counts


def _presence(
    template: Template, held: Held, counts: Mapping[tuple[str, Indices], int], blueprint: Blueprint
) -> Iterator[tuple[Tree, Indices, bool]]:
    """Yield what the presence or absence of a tensor at each place implies for its conditions."""
    if template.tie and template.tie.when is None:
        return
    conditions = _conditions(template)
    deciding_names = _names_in_all(conditions)
    deciding = [
        position for position, index in enumerate(template.repeat) if index in deciding_names
    ]
    occupied = {_bound(deciding, place, template.repeat) for place, _ in held}
    needed = [*conditions, *_loops_without_tensors(template, counts, blueprint)]
    names = {tree: frozenset(names_in(tree)) for tree in conditions}
    if needed:
        all_needed = _all(needed)
        names[all_needed] = frozenset(names_in(all_needed))
    for indices in _index_values(
        [template.repeat[position] for position in deciding], counts, blueprint
    ):
        if indices in occupied:
            for tree in conditions:
                yield tree, _only(indices, names[tree]), True
        elif needed:
            yield all_needed, _only(indices, names[all_needed]), False


def _conditions(template: Template) -> list[Tree]:
    """Return the conditions for a tensor to be stored."""
    conditions = list(template.when)
    if template.tie and template.tie.when:
        conditions.append(("not", template.tie.when))
    return conditions


def _loops_without_tensors(
    template: Template, counts: Mapping[tuple[str, Indices], int], blueprint: Blueprint
) -> list[Tree]:
    """Return conditions that loops have rounds, for the indices that occur in no tensor."""
    counted = {index for index, _ in counts}
    return [
        (">", blueprint.repeat[index], ("value", 0))
        for index in template.repeat
        if index not in counted and not _uses(blueprint.repeat[index], template.repeat)
    ]


def _all(trees: Sequence[Tree]) -> Tree:
    first, *others = trees
    for tree in others:
        first = ("and", first, tree)
    return first


def _only(indices: Indices, names: frozenset[str]) -> Indices:
    return tuple([index for index in indices if index[0] in names])


def _index_values(
    repeat: Sequence[str],
    counts: Mapping[tuple[str, Indices], int],
    blueprint: Blueprint,
    before: Indices = (),
) -> Iterator[Indices]:
    """Yield all combinations of the values of indices, the later ones inside the earlier ones."""
    if not repeat:
        yield before
        return
    index, *inner = repeat
    names = set(names_in(blueprint.repeat[index]))
    outer = tuple((name, value) for name, value in before if name in names)
    for value in range(counts.get((index, outer), 0)):
        yield from _index_values(inner, counts, blueprint, (*before, (index, value)))


# The values of a field


class _Fields:
    """The values that the fields of a blueprint may have, and their usual values."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.defaults = {(name,): value for name, value in blueprint.at_defaults.items()}
        self.order = {
            name: rank for rank, name in enumerate([*blueprint.defaults, *blueprint.computed])
        }

    def rank(self, cell: Cell) -> tuple[Any, ...]:
        return self.order.get(cell[0], len(self.order)), *map(str, cell[1:])

    def fits(self, cell: Cell, value: Any) -> bool:
        """Return whether a cell may have a value."""
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
        return self.fits_kind(name, path, value)

    def fits_kind(self, name: str, path: Sequence[Any], value: Any) -> bool:
        """Return whether a value has the type of a field or of its items, and is in range."""
        kind = self.kind(name, path)
        if type(value) is str and name in self.blueprint.values and kind not in (list, tuple):
            return value in self.blueprint.values[name]
        if type(value) is int and kind in (int, float, type(None)):
            return self.least(name, path) <= value <= LARGEST_SIZE
        if kind in (list, tuple):
            return isinstance(value, list | tuple)
        return kind is type(None) or type(value) is kind

    def kind(self, name: str, path: Sequence[Any]) -> type:
        if path:
            return type(_item_like(self.blueprint.at_defaults[name], path))
        return self.blueprint.kinds[name]

    def least(self, name: str, path: Sequence[Any]) -> int:
        """Return the smallest number that a field or its items may be."""
        if not path and name not in self.blueprint.sizes:
            return -LARGEST_SIZE
        if path or name in self.blueprint.zero:
            return 0
        return 1

    def usual(self, cell: Cell, known: Mapping[Cell, Any]) -> Iterator[Any]:
        """Yield the usual values of a cell, the most usual first."""
        name, *path = cell
        if path:
            yield from self.usual_items(cell, known)
        else:
            yield from self.usual_wholes(name, known)
        yield from self.blueprint.values.get(name, ())

    def usual_wholes(self, name: str, known: Mapping[Cell, Any]) -> Iterator[Any]:
        yield from self.wholes(name, known)
        if name in self.blueprint.configs:
            yield {}
        elif name in self.blueprint.nullable:
            yield None
        if self.blueprint.kinds[name] is bool:
            yield from (True, False)

    def usual_items(self, cell: Cell, known: Mapping[Cell, Any]) -> Iterator[Any]:
        name, *path = cell
        for whole in self.wholes(name, known):
            if isinstance(whole, list | tuple):
                yield from _inside(whole, path)
        if HOLDS in path:
            yield from (False, True)
        elif path[-1] == LENGTH:
            yield _least_length(cell, known)
        else:
            yield from (True, False)

    def wholes(self, name: str, known: Mapping[Cell, Any]) -> Iterator[Any]:
        """Yield the values of a field that is absent from a config, then its default."""
        given = self.blueprint.given.get(name, self.blueprint.defaults.get(name))
        if name in self.blueprint.computed and (given is None or given == LEFT_OUT):
            value = self.computed(name, known)
            if not is_open(value):
                yield _frozen(value)
        elif given is not None:
            yield given
        yield self.blueprint.at_defaults[name]

    def computed(self, name: str, known: Mapping[Cell, Any]) -> Any:
        """Return a computed field, from the known or usual values of other fields."""
        tree = self.blueprint.computed[name]
        values = dict(known)
        for other in set(names_in(tree)):
            if (other,) in known:
                continue
            if other in self.blueprint.computed:
                values[other,] = self.computed(other, known)
            else:
                values[other,] = self.defaults[other,]
        try:
            return partly(tree, {}, values)
        except Impossible:
            return None


def _least_length(cell: Cell, known: Mapping[Cell, Any]) -> int:
    """Return the least length that a list can have, from its known items."""
    *path, _ = cell
    depth = len(path)
    items = [
        other[depth] for other in known if other[:depth] == tuple(path) and len(other) >= len(cell)
    ]
    return max((item + 1 for item in items if type(item) is int), default=0)


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return value


def _item_like(value: Any, path: Sequence[Any]) -> Any:
    """Return the item of a list at a path, or the last one if the list is shorter."""
    for step in path:
        if not isinstance(value, list | tuple) or not value:
            return None
        has_item = type(step) is int and step < len(value)
        value = value[step if has_item else -1]
    return value


def _inside(value: Any, path: Sequence[Any]) -> Iterator[Any]:
    """Yield what a list has at a path: an item, a length, or whether it holds something."""
    *above, last = path
    if HOLDS in path:
        yield path[path.index(HOLDS) + 1] in value
    elif last == LENGTH:
        inner = _item_like(value, above)
        if isinstance(inner, list | tuple):
            yield len(inner)
    else:
        yield _item_like(value, path)


# The config of a candidate


def _candidate(fit: Fit, found: StoredCheckpoint) -> tuple[int, Candidate | None]:
    """Return the steps that solving a class took, and the candidate if its config is close."""
    blueprint, fields = fit.blueprint, _Fields(fit.blueprint)
    equations, mentioned = _equations(fit)
    if len(equations) > MOST_EQUATIONS:
        return MOST_EQUATIONS, None
    stated = _stated(found, blueprint)
    problem = Problem(equations, stated, fields.fits, fields.usual, fields.defaults, fields.rank)
    solution = solve(problem)
    values = {
        name: value
        for name, value in _values(solution, fields).items()
        if name in mentioned or (name,) in stated or value != blueprint.at_defaults[name]
    }
    layer_counts = {name: value for name, value in values.items() if name in blueprint.repeats}
    for config_values in (values, layer_counts):
        try:
            return solution.steps, _compared(fit, found, solution, config_values)
        except WeighbridgeError:
            continue  # if values contradict each other, only the numbers of layers are used
    return solution.steps, None


def _compared(
    fit: Fit, found: StoredCheckpoint, solution: Solution, values: Mapping[str, Any]
) -> Candidate | None:
    """Return a class with a config as a candidate; None if it has far too many tensors.

    Raises:
        WeighbridgeError: the values contradict each other.
    """
    config = _as_config(fit.blueprint, fit.class_name, values)
    model = models.bound(config, fit.blueprint, found.path)
    expected = bind(fit.blueprint, fit.class_name, model.fields)
    if expected.stored.tensors > _MOST_LACKING + 2 * len(found.rows):
        return None
    comparison = compare_tensors(expected, found)
    sure, free = _sure_and_free(solution, values, model)
    unusual = sum(value != fit.blueprint.at_defaults[name] for name, value in sure.items())
    return Candidate(model, fit.class_name, config, sure, free, comparison, unusual)


def _stated(found: StoredCheckpoint, blueprint: Blueprint) -> dict[Cell, Any]:
    """Return the fields that the metadata of the checkpoint states, as in GGUF files."""
    facts = data.read_toml("facts/metadata.toml")
    architecture = found.metadata.get(facts["architecture"], "")
    stated: dict[Cell, Any] = {}
    for key, names in facts["fields"].items():
        value = found.metadata.get(f"{architecture}.{key}", "")
        if value.isascii() and value.isdigit() and 0 < int(value[:_LONGEST_SIZE]) <= LARGEST_SIZE:
            stated |= {(name,): int(value) for name in names if name in blueprint.fields}
    return stated


def _values(solution: Solution, fields: _Fields) -> dict[str, Any]:
    """Return whole fields; lists have their usual items, except those with a cell."""
    known = solution.values
    values: dict[str, Any] = {}
    for name in sorted({cell[0] for cell in known}, key=lambda name: fields.rank((name,))):
        cells = {cell[1:]: value for cell, value in known.items() if cell[0] == name}
        wholes = fields.wholes(name, known)
        usual = next((whole for whole in wholes if isinstance(whole, list | tuple)), ())
        values[name] = _assembled(usual, cells)
    return values


def _assembled(usual: Any, cells: Mapping[Cell, Any]) -> Any:
    """Return a field from its cells: a whole value, or a list with the known items in place."""
    if () in cells:
        return cells[()]
    members = {cell[1]: is_member for cell, is_member in cells.items() if cell[0] == HOLDS}
    if members:
        kept = {item for item in usual if members.get(item, True)}
        added = {item for item, is_member in members.items() if is_member}
        return tuple(sorted(kept | added))
    return _assembled_list(usual, cells)


def _assembled_list(usual: Any, cells: Mapping[Cell, Any]) -> tuple[Any, ...]:
    if not isinstance(usual, list | tuple):
        usual = ()
    items: dict[int, dict[Cell, Any]] = {}
    for cell, value in cells.items():
        if cell[0] != LENGTH:
            items.setdefault(cell[0], {})[cell[1:]] = value
    least_length = max(items, default=-1) + 1
    length = cells.get((LENGTH,), max(least_length, len(usual)))
    whole = []
    for at in range(length):
        item = _item_like(usual, [at])
        if at in items:
            item = _assembled(item, items[at])
        whole.append(item)
    return tuple(whole)


def _as_config(blueprint: Blueprint, class_name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as in a config.json."""
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
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return value


def _sure_and_free(
    solution: Solution, values: Mapping[str, Any], model: Model
) -> tuple[dict[str, Any], dict[str, Free]]:
    """Return the fields that the equations determine, and those that were chosen or follow."""
    sure: dict[str, Any] = {}
    free: dict[str, Free] = {}
    for name, value in values.items():
        cell_values = [known for cell, known in solution.cells.items() if cell[0] == name]
        chosen = next((known for known in cell_values if known.after), None)
        if chosen is None or chosen.after is None:
            sure[name] = value
        elif chosen.after[0] != name:
            free[name] = Free(value, "follows", chosen.after[0], chosen.others)
        elif value == model.blueprint.at_defaults[name]:
            free[name] = Free(value, "usual", "", chosen.others)
        else:
            free[name] = Free(value, "fits", "", chosen.others)
    return sure, free
