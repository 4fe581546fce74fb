"""From probes to a draft: which names repeat and how often, what gives each dim, and on what condition a tensor exists.

Dims are read off, not guessed: they come from the probes as expressions. Conditions are chosen
among the questions that the reference code asked while it ran. Where an expression was lost on the
way, one is found by value.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.rewrite import (
    NULL,
    compiled,
    field_names,
    joined,
    leaves,
    negated,
    replaced,
    simplified,
)
from weighbridge.derive.probing.symbolic import node_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.probing.probe import Probe, ProbedTensor

    Flags = NDArray[np.bool_]

Place = tuple[int, tuple[int, ...]]  # a probe, and the indices of a module or tensor in it
TRUE: Tree = ("value", True)


class Drafted(NamedTuple):
    """A tensor of a draft: its name with ``{0}``, ``{1}`` for indices, its dims, and the tensor that it may be."""

    name: str
    dims: tuple[Tree, ...] | None
    ties: tuple[tuple[str, Tree], ...] = ()
    dtype: str = ""


@dataclass
class Draft:
    """What some probes have in common."""

    repeats: dict[str, Tree | None] = field(default_factory=dict)
    """How many modules a list has, by its path with indices."""
    tensors: dict[str, Drafted] = field(default_factory=dict)
    buffers: dict[str, Drafted] = field(default_factory=dict)
    conditions: dict[str, Tree | None] = field(default_factory=dict)
    """The condition of a path beyond that of the path above it; None where none was found."""

    def template(self, path: str) -> str:
        """Return a name or path with ``{0}``, ``{1}`` in place of the indices into lists that repeat."""
        return templated(path, lambda below: below in self.repeats)[0]

    def gives(self, probe: Probe) -> bool:
        """Whether a probe holds what the draft expects of its fields: each name, shape and tie."""
        shapes, ties = predicted(self, probe.fields)
        return shapes == {
            name: tensor.shape for name, tensor in probe.tensors.items()
        } and ties == {
            name: tensor.tied_to for name, tensor in probe.tensors.items() if tensor.tied_to
        }

    @property
    def unknown(self) -> list[str]:
        """What could not be told."""
        return [
            *(f"how many {path} has" for path, count in self.repeats.items() if count is None),
            *(
                f"when {path} exists"
                for path, condition in self.conditions.items()
                if condition is None
            ),
            *(
                f"the shape of {name}"
                for name, tensor in self.tensors.items()
                if tensor.dims is None
            ),
        ]


class Node:
    """A place in the tree of repeated modules: the root, or the items of one list; and all its instances."""

    def __init__(
        self, path: str, places: list[Place], probes: Sequence[Probe], counts: Mapping[Place, int]
    ) -> None:
        self.path, self.places, self.counts = path, places, counts
        self.position = {place: at for at, place in enumerate(places)}
        self.of_probe = np.array([probe for probe, _ in places], dtype=int)
        self._probes = probes

    @cached_property
    def environments(self) -> list[dict[str, Any]]:
        """The values of fields and indices at each instance."""
        return [environment(self._probes, place) for place in self.places]


def environment(probes: Sequence[Probe], place: Place) -> dict[str, Any]:
    """Return what an expression sees at a place."""
    probe, indices = place
    if not indices:
        return probes[probe].fields  # type: ignore[return-value]
    return {**probes[probe].fields, **{f"@{depth}": index for depth, index in enumerate(indices)}}


def generalize(probes: Sequence[Probe], *, guess: bool = True) -> Draft:
    """Return the draft that gives each of these probes back.

    Where the expression of a number was lost, sums and products of fields are tried too if it may
    ``guess``.
    """
    return _Generalizer(probes, guess=guess).draft


_NUMBERED = re.compile(r"(.*\D)?(\d+)")


def templated(path: str, repeats: Callable[[str], bool]) -> tuple[str, tuple[int, ...]]:
    """Return a path with ``{0}``, ``{1}`` in place of the indices into lists that repeat, and those indices.

    Example:
        >>> templated("stages.2.conv1.weight", lambda path: path == "stages")
        ('stages.{0}.conv1.weight', (2,))
        >>> templated("experts.expert_7.wi", lambda path: path == "experts.expert_")
        ('experts.expert_{0}.wi', (7,))
    """
    done, indices = "", list[int]()
    for piece in path.split("."):
        numbered = _NUMBERED.fullmatch(piece)
        stem = numbered[1] or "" if numbered else ""
        if numbered and repeats(f"{done}.{stem}".strip(".")):
            piece = f"{stem}{{{len(indices)}}}"  # noqa: PLW2901
            indices.append(int(numbered[2]))
        done = f"{done}.{piece}" if done else piece
    return done, tuple(indices)


class _Generalizer:
    def __init__(self, probes: Sequence[Probe], *, guess: bool) -> None:
        self.probes = probes
        self.draft = Draft()
        self.questions = Questions(probes)
        self.values = Values(probes, guess=guess)
        self.floats = frozenset(
            name
            for probe in probes
            for name, value in probe.fields.items()
            if isinstance(value, float)
        )
        self.nodes: dict[str, Node] = {
            "": Node("", [(at, ()) for at in range(len(probes))], probes, {})
        }
        self._repeats()
        self._present: dict[str, tuple[Node, Flags]] = {}
        self._tensors("tensors")
        self._tensors("buffers")
        self._conditions()

    # Which lists repeat, and how often

    def _repeats(self) -> None:
        by_depth: dict[int, list[tuple[int, str, int]]] = {}
        for at, probe in enumerate(self.probes):
            for path, length in (*probe.lengths.items(), *_numbered(probe.tensors)):
                by_depth.setdefault(path.count("."), []).append((at, path, length))
        for _, found in sorted(by_depth.items()):
            lists: dict[str, list[tuple[Place, str, int]]] = {}
            for at, path, length in found:
                template, indices = self.template(path)
                lists.setdefault(template, []).append(((at, indices), path, length))
            for template, lengths in lists.items():
                if len({length for _, _, length in lengths if length}) > 1:
                    self._repeat(template, lengths)

    def _repeat(self, template: str, lengths: list[tuple[Place, str, int]]) -> None:
        parent = self.nodes[list_above(template)]
        places = {place: length for place, _, length in lengths if place in parent.position}
        numbered = not any(path in self.probes[place[0]].lengths for place, path, _ in lengths)
        present = [place for place in parent.places if places.get(place)]
        counted = [places[place] for place in present]
        envs = [environment(self.probes, place) for place in present]
        count = self.values.number(counted, envs, self.values.bounds)
        if numbered and (count is None or not field_names(count)):
            return
        if count is None:
            count = self._piecewise(parent, present, counted, self.values.bounds)
        count = count and self._or_none(count, parent, places)
        below = [
            (probe, (*indices, at))
            for probe, indices in present
            for at in range(places[probe, indices])
        ]
        self.draft.repeats[template] = count
        self.nodes[template] = Node(template, below, self.probes, places)

    def _or_none(self, count: Tree, parent: Node, places: Mapping[Place, int]) -> Tree:
        """Return a number of modules that is 0 where it is null."""
        absent = [
            environment(self.probes, place) for place in parent.places if not places.get(place)
        ]
        nulls = sorted(
            {name for env in absent for name in field_names(count) if env.get(name, count) is None}
        )
        given = joined("and", [("!=", ("name", name), NULL) for name in nulls]) if nulls else None
        return count if given is None else ("if", given, count, ("value", 0))

    def template(self, path: str) -> tuple[str, tuple[int, ...]]:
        """Return a path with ``{0}``, ``{1}`` in place of the indices into lists that repeat, and those indices."""
        return templated(path, lambda below: below in self.draft.repeats)

    def _piecewise(
        self, node: Node, places: list[Place], values: list[int], more: Sequence[Tree] = ()
    ) -> Tree | None:
        """Return a conditional expression for values that no single expression gives."""
        at = np.array([node.position[place] for place in places])
        wanted = np.array(values)
        envs = [environment(self.probes, place) for place in places]
        choices = [*self.values.candidates(envs, more)]
        choices += [
            (("value", value), np.full(len(values), value)) for value in sorted(set(values))[:8]
        ]
        left = np.ones(len(values), dtype=bool)
        pieces: list[tuple[Tree, Tree]] = []
        while left.any() and len(pieces) < 5:
            tree, given = max(choices, key=lambda choice: int(((choice[1] == wanted) & left).sum()))
            right = (given == wanted) & left
            if not right.any():
                return None
            condition = self._learn(node, _flags(node, at[right]), _flags(node, at[left]))
            if condition is None:
                return None
            pieces.append((tree, condition))
            left &= ~right
        return None if left.any() else _conditional(pieces)

    # Tensors and buffers

    def _tensors(self, kind: str) -> None:
        found: dict[str, dict[Place, ProbedTensor]] = {}
        for at, probe in enumerate(self.probes):
            for name, tensor in getattr(probe, kind).items():
                template, indices = self.template(name)
                found.setdefault(template, {})[at, indices] = tensor
        order = _merged(
            [
                [self.template(name)[0] for name in getattr(probe, kind)]
                for at, probe in enumerate(self.probes)
            ]
        )
        drafted = getattr(self.draft, kind)
        for template in order:
            tensors = found[template]
            node = self.nodes[list_above(template)]
            drafted[template] = Drafted(
                template,
                self._dims(node, tensors),
                self._ties(node, tensors),
                next(iter(tensors.values())).dtype,
            )
            self._present[template] = (
                node,
                _flags(node, [node.position[place] for place in tensors]),
            )

    def _dims(self, node: Node, tensors: Mapping[Place, ProbedTensor]) -> tuple[Tree, ...] | None:
        ranks = {len(tensor.shape) for tensor in tensors.values()}
        if len(ranks) > 1:
            return None
        dims = []
        for axis in range(ranks.pop()):
            seen = {
                place: (tensor.shape[axis], tensor.dims[axis]) for place, tensor in tensors.items()
            }
            dim = self._dim(node, seen)
            if dim is None:
                return None
            dims.append(simplified(dim, self.floats))
        return tuple(dims)

    def _dim(self, node: Node, seen: Mapping[Place, tuple[int, Tree]]) -> Tree | None:
        groups: dict[Tree, list[Place]] = {}
        for place, (_, tree) in seen.items():
            groups.setdefault(_skeleton(tree), []).append(place)
        made: list[tuple[Tree, list[Place]]] = []
        waiting = sorted(groups.values(), key=len, reverse=True)
        while waiting:
            places = waiting.pop(0)
            sizes = {place: seen[place][0] for place in places}
            known = next((covered for other, covered in made if self._gives(other, sizes)), None)
            if known is not None:
                known.extend(places)
                continue
            found = self._made(places, seen)
            parts = [] if found else _parts([seen[place][1] for place in places], places)
            if len(parts) > 1:
                waiting = [*parts, *waiting]
                continue
            found = found or self._piecewise(node, places, list(sizes.values()))
            if found is None:
                return None
            made.append((found, list(places)))
        return self._chosen(node, made, {place: number for place, (number, _) in seen.items()})

    def _made(self, places: list[Place], seen: Mapping[Place, tuple[int, Tree]]) -> Tree | None:
        """Return the one expression of a dim at these places, read off or found by value."""
        tree = self._united([seen[place][1] for place in places], places)
        if tree is not None and self._gives(tree, {place: seen[place][0] for place in places}):
            return tree
        return self.values.number(
            [seen[place][0] for place in places],
            [environment(self.probes, place) for place in places],
        )

    def _chosen(
        self, node: Node, made: list[tuple[Tree, list[Place]]], sizes: Mapping[Place, int]
    ) -> Tree | None:
        """Return one expression for dims that are made in several ways."""
        waiting = [(tree, list(places)) for tree, places in made]
        pieces: list[tuple[Tree, Tree]] = []
        while waiting:
            tree, here = waiting.pop(0)
            condition = self._between(
                node, here, [place for _, places in waiting for place in places]
            )
            if condition is None or condition[0] in ("and", "or"):
                condition = self._where_they_differ(node, tree, here, waiting, sizes) or condition
            if condition is None:
                return None
            pieces.append((tree, condition))
        return _conditional(pieces)

    def _where_they_differ(
        self,
        node: Node,
        tree: Tree,
        here: Iterable[Place],
        waiting: list[tuple[Tree, list[Place]]],
        sizes: Mapping[Place, int],
    ) -> Tree | None:
        """Return one question that tells a way to make a dim from the others wherever they come to other numbers.

        Where they come to the same, code may have taken the one for the other. What the question
        leaves of such places goes to the others.
        """

        def gives(way: Tree, place: Place) -> bool:
            return self._gives(way, {place: sizes[place]})

        others = [place for _, places in waiting for place in places]
        either = {place for place in here if any(gives(way, place) for way, _ in waiting)}
        either |= {place for place in others if gives(tree, place)}
        apart = ([place for place in places if place not in either] for places in (here, others))
        question = self._between(node, *apart)
        if question is None or question[0] in ("and", "or", "value"):
            return None
        taken = {place for place in either if _value(question, environment(self.probes, place))}
        left = [place for place in here if place in either - taken]
        for way, places in waiting:
            places[:] = [place for place in places if place not in taken] + [
                place for place in left if gives(way, place)
            ]
        return question

    def _between(self, node: Node, here: Iterable[Place], others: Iterable[Place]) -> Tree | None:
        """Return a condition that holds at these places, and not at the others."""
        wanted, rest = (
            _flags(node, [node.position[place] for place in places]) for places in (here, others)
        )
        return self._learn(node, wanted, wanted | rest)

    def _gives(self, tree: Tree, sizes: Mapping[Place, int]) -> bool:
        return all(
            _value(tree, environment(self.probes, place)) == number
            for place, number in sizes.items()
        )

    def _united(self, trees: list[Tree], places: list[Place]) -> Tree | None:
        """Return the one tree of trees that differ in their numbers only."""
        first = trees[0]
        if first[0] in ("value", "loop"):
            numbers = [tree[-1] for tree in trees]
            indices = _index_of(numbers, [indices for _, indices in places])
            if first[0] == "loop" and indices:
                return indices
            if len(set(map(repr, numbers))) == 1:
                return ("value", numbers[0])
            if indices or not all(type(number) is int for number in numbers):
                return indices
            return self.values.number(
                numbers, [environment(self.probes, place) for place in places]
            )
        if first[0] in ("name", "index"):
            return first
        if first[0] == "[]" and first[1][0] == "name" and first[2][0] == "value":
            from_end = self._from_end(first[1], [tree[2][1] for tree in trees], places)
            if from_end is not None:
                return ("[]", first[1], from_end)
        operands = [
            self._united([tree[at] for tree in trees], places) for at in range(1, len(first))
        ]
        return None if None in operands else (first[0], *operands)

    def _from_end(self, field: Tree, numbers: list[Any], places: list[Place]) -> Tree | None:
        """Return the index from a list's end that these numbers follow where a loop runs through it in reverse."""
        lists = [environment(self.probes, place).get(field[1]) for place in places]
        lengths = [len(each) for each in lists if isinstance(each, list)]
        if len(lengths) < len(lists) or not all(type(number) is int for number in numbers):
            return None
        for depth in range(len(places[0][1])):
            indices = [indices[depth] for _, indices in places]
            rest = {
                number + index - length
                for number, index, length in zip(numbers, indices, lengths, strict=True)
            }
            if len(rest) == 1 and len(set(indices)) > 1:
                return ("-", ("value", rest.pop()), ("index", depth))
        return None

    def _ties(
        self, node: Node, tensors: Mapping[Place, ProbedTensor]
    ) -> tuple[tuple[str, Tree], ...]:
        targets: dict[str | None, list[Place]] = {}
        for place, tensor in tensors.items():
            to: str | None = None
            if tensor.tied_to is not None:
                to, indices = self.template(tensor.tied_to)
                if indices != place[1][: len(indices)]:
                    to = tensor.tied_to
            targets.setdefault(to, []).append(place)
        left = _flags(node, [node.position[place] for place in tensors])
        ties = []
        for to in sorted((to for to in targets if to), key=lambda to: -len(targets[to])):
            here = _flags(node, [node.position[place] for place in targets[to]])
            ties.append((to, self._learn(node, here, left) or ("value", None)))
            left = left & ~here
        return tuple(ties)

    # Conditions

    def _conditions(self) -> None:
        """Tell for each path when it exists, given that the path above it does."""
        present: dict[tuple[str, str], Flags] = {}
        for template, (node, flags) in self._present.items():
            for path in _paths(template, node.path):
                key = node.path, path
                present[key] = present[key] | flags if key in present else flags
        for node_path, node in self.nodes.items():
            if node_path and node_path in self.draft.repeats:
                parent = self.nodes[list_above(node_path)]
                flags = _flags(
                    parent,
                    [
                        parent.position[place]
                        for place, length in node.counts.items()
                        if length and place in parent.position
                    ],
                )
                for path in _paths(node_path, parent.path):
                    key = parent.path, path
                    present[key] = present[key] | flags if key in present else flags
        for (node_path, path), flags in present.items():
            node = self.nodes[node_path]
            above = path.rpartition(".")[0]
            mask = present.get((node_path, above), np.ones(len(node.places), dtype=bool))
            if not flags[mask].all():
                condition = self._learn(node, flags, mask)
                self.draft.conditions[path] = condition

    def _learn(self, node: Node, wanted: Flags, mask: Flags) -> Tree | None:
        return self.questions.answer(node, wanted, mask, self.draft.repeats)


def predicted(draft: Draft, fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the shape of every tensor that a draft expects under these fields, and what the tied ones are tied to."""
    shapes: dict[str, Any] = {}
    ties: dict[str, str] = {}
    places: dict[str, list[dict[str, Any]]] = {}

    def exists(path: str, node_path: str, env: Mapping[str, Any]) -> bool:
        conditions = (draft.conditions.get(above, TRUE) for above in _paths(path, node_path))
        return all(condition is not None and _value(condition, env) for condition in conditions)

    def environments(node_path: str) -> list[dict[str, Any]]:
        if not node_path:
            return [dict(fields)]
        if node_path not in places:
            above, depth = list_above(node_path), node_path.count("{")
            count = draft.repeats[node_path] or ("value", 0)
            places[node_path] = [
                {**env, f"@{depth}": index}
                for env in environments(above)
                if exists(node_path, above, env)
                for index in range(_value(count, env) or 0)
            ]
        return places[node_path]

    for template, tensor in draft.tensors.items():
        node_path = list_above(template)
        for env in environments(node_path):
            if exists(template, node_path, env):
                indices = [env[f"@{depth}"] for depth in range(template.count("{"))]
                name = template.format(*indices)
                shapes[name] = (
                    None if tensor.dims is None else tuple(_value(dim, env) for dim in tensor.dims)
                )
                to = next((to for to, condition in tensor.ties if _value(condition, env)), None)
                if to:
                    ties[name] = to.format(*indices)
    return shapes, ties


class Questions:
    """What the reference code asked, as conditions that can be asked of any place."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        self.probes = probes
        self._features: dict[str, tuple[list[Tree], list[float], Flags]] = {}
        self._answers: dict[tuple[str, bytes, bytes], Tree | None] = {}

    @cached_property
    def asked(self) -> dict[Tree, float]:
        """Each condition that was asked, or could have been, with its cost: the lower the sooner believed."""
        costs: dict[Tree, float] = {}
        for probe in self.probes:
            for tree in probe.trace.asked:
                plain = simplified(tree)
                if plain[0] != "value":
                    costs.setdefault(plain, 1 + 0.1 * node_count(plain))
        for name, values in self._columns().items():
            kinds = {type(value) for value in values}
            if kinds <= {bool, type(None)} and bool in kinds:
                costs.setdefault(("name", name), 2.5) if kinds == {bool} else costs.setdefault(
                    ("==", ("name", name), ("value", True)), 2.5
                )
            if type(None) in kinds:
                costs.setdefault(("==", ("name", name), NULL), 1.2)
            for text in sorted({value for value in values if type(value) is str}):
                costs.setdefault(("==", ("name", name), ("value", text)), 3)
            if kinds & {int, float}:
                costs.setdefault((">", ("name", name), ("value", 0)), 4)
                costs.setdefault((">", ("name", name), ("value", 1)), 5)
            if list in kinds:
                costs.setdefault(("!=", ("len", ("name", name)), ("value", 0)), 4)
        return costs

    def _columns(self) -> dict[str, list[Any]]:
        names_seen = dict.fromkeys(name for probe in self.probes for name in probe.fields)
        columns = {name: [probe.fields.get(name) for probe in self.probes] for name in names_seen}
        return {name: values for name, values in columns.items() if len(set(map(repr, values))) > 1}

    def answer(
        self, node: Node, wanted: Flags, mask: Flags, counts: Mapping[str, Tree | None]
    ) -> Tree | None:
        """Return a condition that is true at the wanted places and false at the others under the mask."""
        key = node.path, wanted.tobytes(), mask.tobytes()
        if key not in self._answers:
            self._answers[key] = self._search(node, wanted[mask], mask, counts)
        return self._answers[key]

    def _search(
        self, node: Node, wanted: Flags, mask: Flags, counts: Mapping[str, Tree | None]
    ) -> Tree | None:
        if wanted.all():
            return TRUE
        if not wanted.any():
            return ("value", False)
        trees, costs, table = self._of(node, counts)
        return condition_of(trees, costs, table[:, mask], wanted)

    def _of(
        self, node: Node, counts: Mapping[str, Tree | None]
    ) -> tuple[list[Tree], list[float], Flags]:
        """Return the conditions that tell instances of a node apart, cheapest first, with their truth at each."""
        if node.path not in self._features:
            found: dict[bytes, tuple[float, Tree, Flags]] = {}
            depth = len(node.places[0][1]) if node.places else 0
            for tree, cost in itertools.chain(
                self.asked.items(), _index_questions(node, depth, self._columns(), counts)
            ):
                for resolved in _resolutions(tree, depth):
                    given = self._truth(node, resolved)
                    if given is None:
                        continue
                    condition, flags = given
                    key = min(flags.tobytes(), (~flags).tobytes())
                    better = (cost + 0.3 * (condition is not resolved), condition, flags)
                    if key not in found or better[0] < found[key][0]:
                        found[key] = better
            ordered = sorted(found.values(), key=lambda item: (item[0], repr(item[1])))
            table = np.array([flags for _, _, flags in ordered], dtype=bool).reshape(
                len(ordered), len(node.places)
            )
            self._features[node.path] = (
                [tree for _, tree, _ in ordered],
                [cost for cost, _, _ in ordered],
                table,
            )
        return self._features[node.path]

    def _truth(self, node: Node, tree: Tree) -> tuple[Tree, Flags] | None:
        """Return a condition with its truth at every instance, guarded against the nulls that it cannot bear."""
        of_index = any(leaf[0] == "index" for leaf in leaves(tree))
        envs: Iterable[Mapping[str, Any]] = (
            node.environments if of_index else [probe.fields for probe in self.probes]
        )
        answers = [_value(tree, env) for env in envs]
        missing = {
            name
            for env, answer in zip(envs, answers, strict=True)
            if answer is None
            for name in field_names(tree)
            if env.get(name) is None
        }
        if missing and tree[0] == "name":
            tree, answers = ("==", tree, ("value", True)), [answer is True for answer in answers]
        if None in answers:
            guards = [("!=", ("name", name), NULL) for name in sorted(missing)]
            guards += [
                guard for guard in _guards(tree) if any(_value(guard, env) is False for env in envs)
            ]
            tree = joined("and", [*guards, tree])
            answers = [_value(tree, env) for env in envs]
            if None in answers:
                return None
        flags = np.array([bool(answer) for answer in answers], dtype=bool)
        if flags.all() or not flags.any():
            return None
        return tree, flags if of_index else flags[node.of_probe]


def _guards(tree: Tree) -> Iterator[Tree]:
    """Yield what must hold for a tree to have a value: divisors are not 0, indices are inside their lists."""
    kind, *operands = tree
    if kind in ("//", "%", "/"):
        yield ("!=", operands[1], ("value", 0))
    elif kind == "[]":
        yield ("<", operands[1], ("len", operands[0]))
    if kind not in ("name", "value", "index", "loop"):
        for operand in operands:
            yield from _guards(operand)


def _index_questions(
    node: Node, depth: int, columns: Mapping[str, list[Any]], counts: Mapping[str, Tree | None]
) -> Iterator[tuple[Tree, float]]:
    """Yield conditions on an index that code asks without its asking being seen."""
    paths = [node.path]
    while list_above(paths[-1]):
        paths.append(list_above(paths[-1]))
    for at in range(depth):
        index: Tree = ("index", at)
        for number in range(3):
            yield ("==", index, ("value", number)), 5 + number
            yield ("<", index, ("value", number + 2)), 6 + number
        count = counts.get(paths[depth - 1 - at]) if node.path else None
        if count is not None:
            yield ("==", index, ("-", count, ("value", 1))), 5
        for number in (2, 3, 4):
            yield ("==", ("%", index, ("value", number)), ("value", 0)), 6
            yield ("==", ("%", index, ("value", number)), ("value", 1)), 6.2
        for name, values in columns.items():
            if {type(value) for value in values} in ({int}, {int, type(None)}):
                yield ("<", index, ("name", name)), 6
            elif any(
                isinstance(value, list) and value and all(type(item) is int for item in value)
                for value in values
            ):
                yield ("in", index, ("name", name)), 5
            texts = {
                item
                for value in values
                if isinstance(value, list)
                for item in value
                if isinstance(item, str)
            }
            for text in sorted(texts):
                yield ("==", ("[]", ("name", name), index), ("value", text)), 4
                around: Tree = ("%", index, ("len", ("name", name)))
                yield ("==", ("[]", ("name", name), around), ("value", text)), 4.5


def _resolutions(tree: Tree, depth: int) -> Iterator[Tree]:
    """Yield a question with each way to read its loop counters as indices."""
    sites = list(dict.fromkeys(leaf[1] for leaf in leaves(tree) if leaf[0] == "loop"))
    if not sites:
        yield tree
    elif len(sites) <= depth:
        for chosen in itertools.permutations(range(depth), len(sites)):
            index = dict(zip(sites, chosen, strict=True))
            yield replaced(tree, partial(_indexed, index))


def _indexed(index: Mapping[str, int], leaf: Tree) -> Tree:
    return ("index", index[leaf[1]]) if leaf[0] == "loop" else leaf


def condition_of(trees: list[Tree], costs: list[float], table: Flags, wanted: Flags) -> Tree | None:
    """Return a condition made of these trees, cheap ones first, that is true where it is wanted and nowhere else.

    ``table`` has a row for each tree: where it is true.
    """
    return _alone(trees, table, wanted) or _several(trees, costs, table, wanted)


def _alone(trees: list[Tree], table: Flags, wanted: Flags) -> Tree | None:
    right, wrong = (table == wanted).all(axis=1), (table != wanted).all(axis=1)
    for at in range(len(trees)):
        if right[at]:
            return trees[at]
        if wrong[at]:
            return negated(trees[at])
    return None


def _several(trees: list[Tree], costs: list[float], table: Flags, wanted: Flags) -> Tree | None:
    """Return the cheapest ``and`` or ``or`` of two conditions, else of a few, else an ``or`` of ``and``s."""
    both = np.concatenate([table, ~table])
    all_trees = [*trees, *[negated(tree) for tree in trees]]
    all_costs = np.array([*costs, *[cost + 0.2 for cost in costs]])
    best: tuple[float, Tree] | None = None
    for kind, rows, goal in (("and", both, wanted), ("or", ~both, ~wanted)):
        # under "or" everything is turned round: not (a or b) is (not a) and (not b)
        holding = np.where(rows[:, goal].all(axis=1))[0]
        holding = holding[np.argsort(all_costs[holding], kind="stable")][:1200]
        if not len(holding):
            continue
        false = rows[holding][:, ~goal].astype(np.float32)
        clean = np.argwhere(false @ false.T == 0)
        if len(clean):
            price = all_costs[holding[clean]].sum(axis=1)
            one, other = holding[clean[int(np.argmin(price))]]
            chosen = (float(price.min()), joined(kind, [all_trees[one], all_trees[other]]))
        else:
            picked = _cover(rows[holding][:, ~goal], all_costs[holding])
            if not picked:
                continue
            chosen = (
                float(sum(all_costs[holding[at]] for at in picked)) + 3,
                joined(kind, [all_trees[holding[at]] for at in picked]),
            )
        best = chosen if best is None or chosen[0] < best[0] else best
    return best[1] if best else _alternatives(all_trees, all_costs, both, wanted)


def _cover(false: Flags, costs: NDArray[np.float64]) -> list[int]:
    """Pick a few rows of which at every column one is false, cheap ones first; none if they cannot."""
    open_columns = np.ones(false.shape[1], dtype=bool)
    picked: list[int] = []
    while open_columns.any() and len(picked) < 4:
        gain = (~false[:, open_columns]).sum(axis=1) / (1 + 0.15 * costs)
        best = int(np.argmax(gain))
        if gain[best] == 0:
            return []
        picked.append(best)
        open_columns &= false[best]
    return [] if open_columns.any() else picked


def _alternatives(
    trees: list[Tree], costs: NDArray[np.float64], table: Flags, wanted: Flags
) -> Tree | None:
    """Return an ``or`` of a few ``and``s, each grown around a place that is wanted and not covered yet."""
    left = wanted.copy()
    picked: list[list[int]] = []
    while left.any() and len(picked) < 4:
        seed = int(np.argmax(left))
        grown = _grown(costs, table, wanted, left, seed)
        if not grown:
            return None
        picked.append(grown)
        left &= ~table[grown].all(axis=0)
    return None if left.any() else _factored([[trees[at] for at in grown] for grown in picked])


def _factored(alternatives: list[list[Tree]]) -> Tree:
    """Return an ``or`` of ``and``s with what all have in common taken out: a and (b or c)."""
    shared = [tree for tree in alternatives[0] if all(tree in others for others in alternatives)]
    rest = [[tree for tree in alternative if tree not in shared] for alternative in alternatives]
    if not all(rest):
        return joined("and", shared)
    return joined("and", [*shared, joined("or", [joined("and", trees) for trees in rest])])


def _grown(
    costs: NDArray[np.float64], table: Flags, wanted: Flags, left: Flags, seed: int
) -> list[int]:
    """Return a few rows that are all true at a place and nowhere that is not wanted; none if there are none."""
    options = np.where(table[:, seed])[0]
    if not len(options):
        return []
    inside = np.ones(table.shape[1], dtype=bool)
    picked: list[int] = []
    while (inside & ~wanted).any() and len(picked) < 4:
        cut = (~table[options] & inside & ~wanted).sum(axis=1)
        kept = (table[options] & inside & left).sum(axis=1)
        gain = cut * kept / (1 + 0.15 * costs[options])
        best = int(np.argmax(gain))
        if gain[best] == 0:
            return []
        picked.append(int(options[best]))
        inside &= table[options[best]]
    return [] if (inside & ~wanted).any() else picked


class Values:
    """Finds the expression of numbers whose expression was lost."""

    def __init__(self, probes: Sequence[Probe], *, guess: bool) -> None:
        self.probes, self.guess = probes, guess

    @cached_property
    def bounds(self) -> list[Tree]:
        """What loops ran up to."""
        return self._noted("bounds")

    @cached_property
    def computed(self) -> list[Tree]:
        """What the reference code computed on its way."""
        return self._noted("computed")

    def _noted(self, kind: str) -> list[Tree]:
        found = dict.fromkeys(
            simplified(tree) for probe in self.probes for tree in getattr(probe.trace, kind)
        )
        kept = [tree for tree in found if tree[0] != "value"]
        return sorted(kept, key=lambda tree: (tree[0] != "min", node_count(tree), repr(tree)))[
            :3000
        ]

    def number(
        self, wanted: Sequence[int], envs: Sequence[Mapping[str, Any]], first: Sequence[Tree] = ()
    ) -> Tree | None:
        """Return an expression that has these values in these environments, those of ``first`` before others."""
        bound = next(self._agreeing(first, wanted, envs, least=True), None)
        if bound is not None:
            return bound
        if len(set(wanted)) == 1:
            return ("value", wanted[0])
        goal, candidates = np.array(wanted), self.candidates(envs)
        exact = (tree for tree, given in candidates if (given == goal).all())
        found = next(exact, None) or next(self._agreeing(self.computed, wanted, envs), None)
        if found or not self.guess:
            return found
        return (
            _affine(candidates, goal)
            or self._affine_bound(first, goal, envs)
            or _combined(candidates, goal)
        )

    def _affine_bound(
        self, bounds: Sequence[Tree], goal: NDArray[np.int64], envs: Sequence[Mapping[str, Any]]
    ) -> Tree | None:
        """Return what comes of so many rounds of a loop: ``k*bound + c``."""
        depth = sum(f"@{at}" in envs[0] for at in range(4))
        rows = [
            (tree, [_value(tree, env) for env in envs])
            for bound in bounds
            for tree in _resolutions(bound, depth)
        ]
        return _affine(
            [(tree, np.array(row)) for tree, row in rows if all(type(each) is int for each in row)],
            goal,
        )

    def _agreeing(
        self,
        trees: Sequence[Tree],
        wanted: Sequence[int],
        envs: Sequence[Mapping[str, Any]],
        *,
        least: bool = False,
    ) -> Iterator[Tree]:
        """Yield the trees that have these values, ``least`` 0 where they would be less."""
        depth = sum(f"@{at}" in envs[0] for at in range(4))
        for tree in trees:
            for resolved in _resolutions(tree, depth):
                if _agrees(resolved, wanted, envs):
                    yield resolved
                elif least and _agrees(("max", resolved, ("value", 0)), wanted, envs):
                    yield ("max", resolved, ("value", 0))

    def candidates(
        self, envs: Sequence[Mapping[str, Any]], more: Sequence[Tree] = ()
    ) -> list[tuple[Tree, NDArray[np.int64]]]:
        """Return the simplest expressions over the fields, with their values."""
        found: dict[bytes, tuple[float, Tree, NDArray[np.int64]]] = {}
        depth = sum(f"@{at}" in envs[0] for at in range(4))
        bounds = ((1.5, resolved) for tree in more for resolved in _resolutions(tree, depth))
        for cost, tree in (*bounds, *self._atoms(envs)):
            values = [_value(tree, env) for env in envs]
            if (
                all(type(value) is int and abs(value) < 2**40 for value in values)
                and len(set(values)) > 1
            ):
                given = np.array(values, dtype=np.int64)
                if given.tobytes() not in found or cost < found[given.tobytes()][0]:
                    found[given.tobytes()] = cost, tree, given
        return [
            (tree, given)
            for _, tree, given in sorted(found.values(), key=lambda item: (item[0], repr(item[1])))
        ]

    def _atoms(self, envs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, Tree]]:
        shared = set.intersection(*[set(env) for env in envs])
        depth = sum(f"@{at}" in shared for at in range(4))
        for at in range(depth):
            yield 1, ("index", at)
            yield 4, ("**", ("value", 2), ("index", at))
        for name in sorted(name for name in shared if not name.startswith("@")):
            kinds = {type(env[name]) for env in envs}
            field: Tree = ("name", name)
            if kinds == {int}:
                yield 1, field
            elif kinds == {list}:
                yield 2, ("len", field)
                for at in range(depth):
                    yield 3, ("[]", field, ("index", at))
                    yield 3.5, ("[]", field, ("-", ("index", at), ("value", 1)))
                    yield 3.5, ("[]", field, ("+", ("index", at), ("value", 1)))
                yield 3, ("[]", field, ("neg", ("value", 1)))
                yield 3, ("[]", field, ("value", 0))
                yield 3.2, ("sum", field)
                yield 4, ("[]", field, ("value", 1))


def _agrees(tree: Tree, wanted: Sequence[int], envs: Sequence[Mapping[str, Any]]) -> bool:
    return all(_value(tree, env) == number for env, number in zip(envs, wanted, strict=True))


def _affine(
    candidates: list[tuple[Tree, NDArray[np.int64]]], goal: NDArray[np.int64]
) -> Tree | None:
    """Return ``a + c``, ``k*a`` or ``k*a + c`` of one candidate."""
    for tree, given in candidates:
        rest = goal - given
        if (rest == rest[0]).all() and abs(rest[0]) <= 64:
            return simplified(
                ("+", tree, ("value", int(rest[0])))
                if rest[0] > 0
                else ("-", tree, ("value", -int(rest[0])))
            )
    for tree, given in candidates:
        other = int(np.argmax(given != given[0]))
        if given[other] == given[0]:
            continue
        factor, left_over = divmod(int(goal[other] - goal[0]), int(given[other] - given[0]))
        start = int(goal[0]) - factor * int(given[0])
        if (
            not left_over
            and 2 <= factor <= 256
            and abs(start) <= 64
            and (factor * given + start == goal).all()
        ):
            return simplified(("+", ("*", ("value", factor), tree), ("value", start)))
    return None


def _combined(
    candidates: list[tuple[Tree, NDArray[np.int64]]], goal: NDArray[np.int64]
) -> Tree | None:
    """Return a product, quotient, or sum of two candidates, or a sum of such."""
    simple = candidates[:70]
    terms: dict[bytes, tuple[Tree, NDArray[np.int64]]] = {
        given.tobytes(): (tree, given) for tree, given in simple
    }
    for (left, a), (right, b) in itertools.combinations_with_replacement(simple, 2):
        terms.setdefault((a * b).tobytes(), (("*", left, right), a * b))
    for (left, a), (right, b) in itertools.permutations(simple, 2):
        if (b > 0).all():
            terms.setdefault((a // b).tobytes(), (("//", left, right), a // b))
    if goal.tobytes() in terms:
        return terms[goal.tobytes()][0]
    affine = _affine([*terms.values()], goal)
    if affine:
        return affine
    for factor in (1, 2, 3, 4):
        for tree, given in [*terms.values()][:1500]:
            for sign in (1, -1):
                rest = sign * (goal - factor * given)
                other = terms.get(np.ascontiguousarray(rest).tobytes())
                if other:
                    scaled = simplified(("*", ("value", factor), tree))
                    return ("+" if sign == 1 else "-", scaled, other[0])
    return None


def _numbered(tensors: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield the stems of pieces such as ``expert_0``, ``expert_1``, with how many there are, where they begin at 0."""
    numbers: dict[str, set[int]] = {}
    for name in tensors:
        above = ""
        for piece in name.split("."):
            numbered = _NUMBERED.fullmatch(piece)
            if numbered and numbered[1]:
                numbers.setdefault(f"{above}.{numbered[1]}".strip("."), set()).add(int(numbered[2]))
            above = f"{above}.{piece}"
    yield from (
        (path, len(found)) for path, found in numbers.items() if found == set(range(len(found)))
    )


def _value(tree: Tree, env: Mapping[str, Any]) -> Any:
    """Return what a tree comes to, None where it has no value."""
    try:
        return compiled(tree)(env)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
        return None


def _conditional(pieces: list[tuple[Tree, Tree]]) -> Tree:
    tree = pieces[-1][0]
    for value, condition in reversed(pieces[:-1]):
        tree = ("if", condition, value, tree)
    return tree


def _skeleton(tree: Tree) -> Tree:
    if tree[0] in ("value", "loop"):
        return ("value",)
    if tree[0] in ("name", "index"):
        return tree
    return (tree[0], *[_skeleton(operand) for operand in tree[1:]])


def _parts(trees: list[Tree], places: list[Place]) -> list[list[Place]]:
    """Return the places parted by how far the numbers in their trees are from their indices, or by the numbers."""
    rows = list(
        zip(
            *[
                [leaf[-1] for leaf in leaves(tree) if leaf[0] in ("value", "loop")]
                for tree in trees
            ],
            strict=True,
        )
    )
    best: dict[Any, list[Place]] = {}
    for numbers in rows:
        if len(set(numbers)) < 2 or not all(type(number) is int for number in numbers):
            continue
        for at in range(len(places[0][1])):
            parts: dict[Any, list[Place]] = {}
            for number, place in zip(numbers, places, strict=True):
                parts.setdefault(number - place[1][at], []).append(place)
            if 1 < len(parts) <= 3 and (not best or len(parts) < len(best)):
                best = parts
    if not rows:
        return []
    by_value: dict[Any, list[Place]] = {}
    for numbers, place in zip(zip(*rows, strict=True), places, strict=True):
        by_value.setdefault(numbers, []).append(place)
    return list(best.values()) or (list(by_value.values()) if len(by_value) <= 4 else [])


def _index_of(numbers: list[Any], indices: list[tuple[int, ...]]) -> Tree | None:
    """Return the index that these numbers follow, at a fixed distance."""
    for at in range(len(indices[0])):
        distances = {
            number - index[at]
            for number, index in zip(numbers, indices, strict=True)
            if type(number) is int
        }
        if len(distances) == 1 and len({index[at] for index in indices}) > 1:
            distance = distances.pop()
            return simplified(
                ("+", ("index", at), ("value", distance))
                if distance >= 0
                else ("-", ("index", at), ("value", -distance))
            )
    return None


def _flags(node: Node, positions: Any) -> Flags:
    flags = np.zeros(len(node.places), dtype=bool)
    flags[positions] = True
    return flags


def list_above(template: str) -> str:
    """Return the path of the innermost repeated list above a name or another list.

    Example:
        >>> list_above("stages.{0}.blocks.{1}.weight"), list_above("experts.expert_{0}.wi"), list_above("norm")
        ('stages.{0}.blocks', 'experts.expert_', '')
    """
    return template.rpartition("{")[0].removesuffix(".")


def _paths(template: str, node_path: str) -> list[str]:
    """Return the paths from below a node down to a name, the name itself last."""
    start = template.index("}", len(node_path)) + 2 if node_path else 0
    ends = [at for at, letter in enumerate(template) if letter == "." and at >= start]
    return [template[:at] for at in ends] + [template]


def _merged(orders: list[list[str]]) -> list[str]:
    """Return names of several lists in one order that keeps each list's."""
    merged = list(dict.fromkeys(max(orders, key=lambda order: len(set(order)))))
    known = set(merged)
    for order in orders:
        before = ""
        for name in dict.fromkeys(order):
            if name not in known:
                merged.insert(merged.index(before) + 1 if before else 0, name)
                known.add(name)
            before = name
    return merged
