"""What files hold in place of the tensors of a class, generalized from a few configs and written down.

Transformers fuses, splits and renames tensors when it loads a file, and turns that back when it
saves one. What it saves is known by name and shape, with the tensors that each is made of: its name
follows theirs, and its dims come of theirs.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import reduce
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import names_in, parse
from weighbridge.algebra.rewrite import compiled, simplified
from weighbridge.blueprint.paths import above, is_under, joined
from weighbridge.blueprint.schema import sections, split_dims, stored_as, stored_texts, templates_of
from weighbridge.derive.generalize.generalize import Values, environment, list_above, templated
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.write import dim

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.generalize import Draft, Place
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.reversal import Files
    from weighbridge.derive.probing.subject import Subject
    from weighbridge.derive.write import IndexLetters

    Templates = tuple[str, ...]  # of the tensors that one of a file is made of


class Held(NamedTuple):
    """A tensor of files: its name with ``{0}``, ``{1}`` for indices, and its dims, or None where they are the module's.

    ``number`` is how many there are of a last index, if it has one that the module's tensor has
    not.
    """

    name: str
    dims: tuple[Tree, ...] | None
    number: Tree | None = None


class Filed(NamedTuple):
    """What files hold of a class in place of each tensor that they hold at all, and the paths that older files have."""

    stored: dict[str, list[Held]]
    renamed: dict[str, str]
    holes: list[str]


class _UnclearError(Exception):
    """What files hold cannot be told."""


def learn(subject: Subject, class_name: str, draft: Draft, probes: Sequence[Probe]) -> Filed:
    """Return what files hold of a class, of which these are probes."""
    chosen = _telling(probes)
    found: list[Files] = []
    try:
        with quick_building():
            for probe in chosen:
                files = subject.in_files(class_name, probe.changes)
                if files is None:
                    return Filed({}, {}, [])
                found.append(files)
        stored = _Filing(draft, chosen, found).stored
    except (
        Exception
    ) as error:  # what the reference cannot turn back is a hole, and does no harm to the rest
        return Filed(
            {}, {}, [f"{class_name}: what files hold was not found: {str(error).strip()[:100]}"]
        )
    older = {old: name for files in found for old, name in files.older.items()}
    return Filed(stored, _paths(older), [])


_MOST = 6  # of the probes that show no new tensor
_BIG = 2000  # tensors of files
_DIGITS = re.compile(r"\d+")


def _telling(probes: Sequence[Probe]) -> list[Probe]:
    """Return a few probes that show every tensor, alone and as many in one, and the last ones, which are most mixed."""
    seen: set[tuple[str, bool]] = set()
    chosen: list[Probe] = []
    for probe in sorted(probes, key=_weight):
        held = (*probe.tensors.items(), *probe.buffers.items())
        shown = {(_DIGITS.sub("0", name), tensor.shape[:1] > (1,)) for name, tensor in held}
        if not shown <= seen:
            seen |= shown
            chosen.append(probe)
    others = [
        probe
        for probe in probes
        if _weight(probe) < _BIG and not any(probe is each for each in chosen)
    ]
    return [*chosen, *others[-_MOST:]]


def _weight(probe: Probe) -> int:
    """Return about how many tensors files hold: one for each tensor, or each expert in one."""
    return sum(
        tensor.shape[0] if len(tensor.shape) == 3 else 1 for tensor in probe.tensors.values()
    )


# Names, numbers and dims


class _Row(NamedTuple):
    """A tensor of a file: where the first of those stands that it is made of, and whether it is that one as it is."""

    place: Place
    name: str
    shape: tuple[int, ...]
    as_it_is: bool


class _Part(NamedTuple):
    """Tensors of files that are made of the same ones, each with the number that it has of its own."""

    templates: Templates
    rows: list[_Row]
    numbers: list[int]


_PATH = re.compile(r"[\w-]+(\.[\w-]+)*")  # transformers saves one name with a `*` in it


class _Filing:
    """Tells what files hold in place of each tensor."""

    def __init__(self, draft: Draft, probes: Sequence[Probe], found: Sequence[Files]) -> None:
        self.probes, self.values = probes, Values(probes, guess=False)
        self.dims = {
            name: tensor.dims or ()
            for name, tensor in (*draft.buffers.items(), *draft.tensors.items())
        }
        by_name: dict[str, list[_Part]] = {}
        for templates, rows in self._rows(draft, found).items():
            for name, part in _named(templates, rows).items():
                by_name.setdefault(name, []).append(part)
        self.stored: dict[str, list[Held]] = {}
        for name, parts in by_name.items():
            held = self._held(name, parts)
            for template in dict.fromkeys(
                template for part in parts for template in part.templates
            ):
                self.stored.setdefault(template, []).append(held)

    def _rows(self, draft: Draft, found: Sequence[Files]) -> dict[Templates, list[_Row]]:
        rows: dict[Templates, list[_Row]] = {}
        for at, files in enumerate(found):
            held = {**self.probes[at].buffers, **self.probes[at].tensors}
            for name, tensor in files.tensors.items():
                of = [templated(each, draft.repeats.__contains__) for each in tensor.of]
                if all(template in self.dims for template, _ in of) and _PATH.fullmatch(name):
                    templates = tuple(dict.fromkeys(template for template, _ in of))
                    as_it_is = len(of) == 1 and held[tensor.of[0]].shape == tensor.shape
                    rows.setdefault(templates, []).append(
                        _Row((at, of[0][1]), name, tensor.shape, as_it_is)
                    )
        times = Counter(template for templates in rows for template in templates)
        for template, number in times.items():
            if number > 1:
                raise _UnclearError(f"{template} is stored now with these tensors, now with others")
        return rows

    def _held(self, name: str, parts: Sequence[_Part]) -> Held:
        """Return the tensor of this name, which is made of these parts."""
        if len(parts) == 1 and _NO_NUMBER in parts[0].numbers:
            as_it_is = all(row.as_it_is for row in parts[0].rows)
            return Held(name, None if as_it_is else self._dims(parts[0]))
        numbers: dict[Place, set[int]] = {}
        for part in parts:
            for row, number in zip(part.rows, part.numbers, strict=True):
                numbers.setdefault(row.place, set()).add(number)
        if any(found != set(range(len(found))) for found in numbers.values()):
            raise _UnclearError(f"the numbers in {name} do not run from 0")
        every = [self.dims[template] for part in parts for template in part.templates]
        sizes = [
            _sum([self.dims[part.templates[0]][0] for part in parts]),
            *[tree for dims in every for tree in dims],
        ]
        count = self._number({place: len(found) for place, found in numbers.items()}, sizes)
        return Held(name, self._dims_of_all(name, parts), count)

    def _dims_of_all(self, name: str, parts: Sequence[_Part]) -> tuple[Tree, ...]:
        """Return the dims of what is numbered through all parts: the first's up to its last number, and so on."""
        first, *others = sorted(parts, key=lambda part: min(part.numbers))
        dims = self._dims(first)
        if not others:
            return dims
        ends: dict[Place, int] = {}
        for row, number in zip(first.rows, first.numbers, strict=True):
            ends[row.place] = max(number + 1, ends.get(row.place, 0))
        end = self._number(
            ends, [tree for template in first.templates for tree in self.dims[template]]
        )
        is_first: Tree = ("<", ("index", name.count("{") - 1), end)
        pairs = zip(dims, self._dims_of_all(name, others), strict=True)
        return tuple(one if one == other else ("if", is_first, one, other) for one, other in pairs)

    def _dims(self, part: _Part) -> tuple[Tree, ...]:
        shapes = {(row.place, row.shape) for row in part.rows}
        by_place = dict(shapes)
        if len(by_place) < len(shapes) or len({len(shape) for shape in by_place.values()}) > 1:
            raise _UnclearError(f"{part.rows[0].name} has not always the same dims")
        rank = len(part.rows[0].shape)
        return tuple(
            self._number(
                {place: shape[axis] for place, shape in by_place.items()},
                [*self._likely(part.templates, axis - rank)],
            )
            for axis in range(rank)
        )

    def _likely(self, templates: Templates, axis: int) -> Iterator[Tree]:
        """Yield what a dim may be of tensors that one is made of: their sum, one of theirs, or a fraction of it."""
        own = [
            dims[axis]
            for template in templates
            for dims in [self.dims[template]]
            if len(dims) >= -axis
        ]
        every = [tree for template in templates for tree in self.dims[template]]
        if len(own) > 1:
            yield _sum(own)
        for trees in (own, every):
            yield from trees
            yield from (_fraction(tree, number) for number in (2, 3, 4) for tree in trees)

    def _number(self, wanted: Mapping[Place, int], likely: Sequence[Tree]) -> Tree:
        envs = [environment(self.probes, place) for place in wanted]
        exact = [tree for tree in likely if tree[0] != "//" or _leaves_nothing(tree, envs)]
        tree = self.values.number(list(wanted.values()), envs, exact)
        if tree is None:
            raise _UnclearError(f"no expression comes to {sorted(set(wanted.values()))[:3]}")
        return simplified(tree)


def _leaves_nothing(quotient: Tree, envs: Iterable[Mapping[str, Any]]) -> bool:
    try:
        return not any(compiled(("%", *quotient[1:]))(env) for env in envs)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
        return False


def _sum(trees: Sequence[Tree]) -> Tree:
    """Return a sum, of those that are the same as a product.

    Example:
        >>> _sum([("name", "width"), ("name", "width")])
        ('*', ('value', 2), ('name', 'width'))
    """
    terms = [tree if times == 1 else _times(times, tree) for tree, times in Counter(trees).items()]
    return reduce(lambda left, right: ("+", left, right), terms)


def _times(number: int, tree: Tree) -> Tree:
    return (
        ("*", _times(number, tree[1]), tree[2])
        if tree[0] == "*"
        else simplified(("*", ("value", number), tree))
    )


def _fraction(tree: Tree, number: int) -> Tree:
    """Return a tree over a number, which is taken out where it is a factor.

    Example:
        >>> _fraction(("*", ("value", 2), ("name", "width")), 2)
        ('name', 'width')
    """
    if tree[0] == "*":
        factors = [
            factor for factor in tree[1:] if factor[0] == "value" and factor[1] % number == 0
        ]
        if factors:
            at = tree.index(factors[0])
            return simplified((*tree[:at], ("value", factors[0][1] // number), *tree[at + 1 :]))
    return ("//", tree, ("value", number))


_NUMBERED = re.compile(r"(.*\D)?(\d+)")
_NO_NUMBER = -1


def _named(templates: Templates, rows: Sequence[_Row]) -> dict[str, _Part]:
    """Return the names of what is made of the same tensors, with ``{0}``, ``{1}`` for indices, and what has each.

    A piece that only ends in a number is taken as it is first: ``w1``; and then as a stem and a
    number.
    """
    places = {row.place for row in rows}
    for stems in (False, True):
        groups: dict[str, list[tuple[_Row, list[int]]]] = {}
        for row in rows:
            text, numbers = _cut(row.name, stems=stems)
            groups.setdefault(text, []).append((row, numbers))
        if all({row.place for row, _ in group} == places for group in groups.values()):
            return dict(_numbered(templates, text, group) for text, group in groups.items())
    raise _UnclearError(f"the names of {templates[0]} follow no pattern")


def _cut(name: str, *, stems: bool) -> tuple[str, list[int]]:
    pieces, numbers = [], []
    for piece in name.split("."):
        found = _NUMBERED.fullmatch(piece)
        if found and (stems or not found[1]):
            numbers.append(int(found[2]))
            pieces.append(f"{found[1] or ''}{{}}")
        else:
            pieces.append(piece)
    return ".".join(pieces), numbers


def _numbered(
    templates: Templates, text: str, group: Sequence[tuple[_Row, list[int]]]
) -> tuple[str, _Part]:
    """Return a name with each number told: one of its tensor's indices, always the same, or one of its own."""
    rows = [row for row, _ in group]
    depth = len(rows[0].place[1])
    own = [_NO_NUMBER] * len(rows)
    told: list[str] = []
    for numbers in zip(*[numbers for _, numbers in group], strict=True):
        index = next((at for at in range(depth) if all(map(_is_at(at), rows, numbers))), None)
        if index is not None and f"{{{index}}}" not in told:
            told.append(f"{{{index}}}")
        elif len(set(numbers)) == 1:
            told.append(str(numbers[0]))
        elif own[0] == _NO_NUMBER:
            told.append(f"{{{depth}}}")
            own = [*numbers]
        else:
            raise _UnclearError(f"{text} has two numbers of its own")
    return text.format(*told), _Part(templates, rows, own)


def _is_at(at: int) -> Any:
    return lambda row, number: row.place[1][at] == number


def _paths(older: Mapping[str, str]) -> dict[str, str]:
    """Return the paths that these old names have in common, with what they are now.

    Example:
        >>> _paths({"tower.old.norm.weight": "tower.norm.weight", "tower.old.embed": "tower.embed"})
        {'tower.old': 'tower'}
    """
    pairs = dict({_DIGITS.sub("0", old): (old, name) for old, name in older.items()}.values())
    paths: dict[str, str] = {}
    for old in pairs:
        path, now = next((path, now) for path in above(old) for now in _now(path, pairs))
        under = zip(
            *[other.split(".")[:-1] for other in pairs if is_under(other, path)], strict=False
        )
        shared = takewhile(lambda pieces: len(set(pieces)) == 1, under)
        deeper = ".".join(pieces[0] for pieces in shared)[len(path) + 1 :]
        paths[joined(path, deeper)] = joined(now, deeper)
    return paths


def _now(path: str, pairs: Mapping[str, str]) -> list[str]:
    """Return what an old path is now, if it is the same for all names under it."""
    under = {f".{name}": old[len(path) :] for old, name in pairs.items() if is_under(old, path)}
    found = {
        name[1 : len(name) - len(below)] for name, below in under.items() if name.endswith(below)
    }
    return (
        [*found]
        if len(found) == 1 and all(name.endswith(below) for name, below in under.items())
        else []
    )


# Into a blueprint


def add(
    raw: dict[str, Any],
    filed: Mapping[str, Filed],
    drafts: Mapping[str, Draft],
    letters: IndexLetters,
) -> list[str]:
    """Write down what files hold of each class, and return the fields that this needs.

    Args:
        raw: a blueprint that has its tensors.
        filed: what files hold, by class, the base class first.
        drafts: what each class is drafted as.
        letters: the letters of the blueprint's indices.
    """
    base = next(iter(drafts.values()))
    for class_name, found in filed.items():
        of_class = raw["classes"].get(class_name, {})
        prefix = of_class.get("prefix", "")
        names = {
            each.name: None
            for kind in ("tensors", "buffers")
            for each in templates_of(raw, of_class, kind)
        }
        truth: dict[str, list[str]] = {}
        for template, held in found.stored.items():
            below = template.removeprefix(f"{prefix}.") if prefix else template
            own = drafts[class_name], template
            inherited = _has(base, below) and joined(prefix, letters.named(base, below)) in names
            draft, path = (base, below) if inherited else own
            chain = letters.chain(draft, list_above(path))
            name = joined(prefix if inherited else "", letters.named(draft, path))
            if name in names:
                truth[name] = [_in_letters(each, chain, letters) for each in held]
        said = {name: [_text(*each) for each in stored_as(name, raw, of_class)] for name in truth}
        stored = _shortened(
            truth, [name for name in names if name in truth and said[name] != truth[name]]
        )
        of_base = {
            joined(prefix, old): joined(prefix, new) for old, new in raw.get("renamed", {}).items()
        }
        renamed = {old: new for old, new in found.renamed.items() if of_base.get(old) != new}
        section = raw["classes"].get(class_name, raw)
        section |= {
            key: table for key, table in (("stored", stored), ("renamed", renamed)) if table
        }
    return _fields(raw, letters)


def forget(raw: dict[str, Any]) -> bool:
    """Take out what is written of files; return whether there was anything."""
    parts = (raw, *raw["classes"].values())
    taken = [section.pop(key, None) for section in parts for key in ("stored", "renamed")]
    return any(taken)


def _has(draft: Draft, template: str) -> bool:
    return template in draft.tensors or template in draft.buffers


def _in_letters(held: Held, chain: Sequence[str], letters: IndexLetters) -> str:
    """Return the text of what files hold in place of a tensor that stands under lists of these letters."""
    above_it = [*chain, *([] if held.number is None else [letters.counting(held.number, chain)])]
    name = held.name.format(*[f"{{{letter}}}" for letter in above_it])
    return _text(name, None if held.dims is None else [dim(tree, above_it) for tree in held.dims])


def _text(name: str, dims: Iterable[str] | None) -> str:
    return name if dims is None else f"{name}: {' '.join(dims)}"


def _shortened(truth: Mapping[str, list[str]], wanted: Iterable[str]) -> dict[str, list[str]]:
    """Return what is said of the wanted names, in few lines: of a path where all under it are renamed as it is."""
    said: dict[str, list[str]] = {}
    for name in wanted:
        texts = truth[name]
        paths = (
            _renamed_path(path, name, truth)
            for path in above(name)
            if len(texts) == 1 and ":" not in texts[0]
        )
        path, text = next(filter(None, paths), (name, ""))
        said[path] = [text] if text else texts
    return said


def _renamed_path(path: str, name: str, truth: Mapping[str, list[str]]) -> tuple[str, str] | None:
    """Return a path above a name, and what it is renamed to, if so are all names under it."""
    below, stored = name[len(path) :], truth[name][0]
    text = stored.removesuffix(below)
    if not text or text + below != stored:
        return None
    under = [other for other in truth if is_under(other, path)]
    return (
        (path, text)
        if all(truth[other] == [text + other[len(path) :]] for other in under)
        else None
    )


def _fields(raw: dict[str, Any], letters: IndexLetters) -> list[str]:
    """Return the fields in what is written of files, and in how many of each there are."""
    texts = [text for section in sections(raw).values() for text in stored_texts(section)]
    trees = [parse(text) for line in texts for text in split_dims(line.partition(":")[2])]
    found = [name for tree in trees for name in names_in(tree)]
    if texts:
        found += [name for count in letters.counts.values() for name in names_in(parse(count))]
    return [name for name in dict.fromkeys(found) if name not in letters.counts]
