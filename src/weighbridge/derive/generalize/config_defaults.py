"""How the reference fills in a config: defaults, fields that follow from others, what a given sub-config assumes.

A config is looked at as a model is: the fields that it works out are its tensors, and what its code
asked, its conditions.
"""

from __future__ import annotations

from ast import literal_eval
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.rewrite import LEAVES, NULL, compiled, field_names, replaced, simplified
from weighbridge.blueprint.schema import LEFT_OUT
from weighbridge.derive.generalize.generalize import generalize
from weighbridge.derive.probing.probe import Probe, ProbedTensor
from weighbridge.derive.probing.symbolic import plain_value, tree_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.generalize import Draft
    from weighbridge.derive.probing.subject import Subject


class Filled(NamedTuple):
    """What a config's fields are when its file says nothing of them."""

    defaults: dict[str, Any]
    given: dict[str, Any]
    computed: dict[str, Tree]
    nullable: set[str]
    unknown: list[str]


def fill(  # noqa: C901  # where a field comes from, one way after the other
    subject: Subject,
    used: Iterable[str],
    probes: Sequence[Probe],
    implied: Mapping[str, Tree],
    never_kept: Container[str] = (),
) -> Filled:
    """Return where each field that matters comes from, and each field that those need.

    Args:
        subject: what has the config.
        used: the fields that matter.
        probes: configs that show what is made of them.
        implied: what the model makes of fields that are null, as `settle` found it.
        never_kept: the fields that the config class replaces whatever a config says, as `overruled`
            found them.
    """
    with_all = {**subject.start, **{place: {} for place in subject.optional}}
    default = {
        **subject.fields(subject.config(with_all)),
        **subject.fields(subject.config(subject.start)),
    }
    given = subject.fields_of_given()
    filled = Filled({}, {}, {}, set(), [])
    waiting, seen = list(dict.fromkeys(used)), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        rule = _rule(subject, name, probes, default)
        tree = implied.get(name, rule)
        if name in never_kept and subject.stated.get(name) is not None:
            filled.defaults[name], tree = (
                subject.stated[name],
                None,
            )  # whoever names it means what a config says
        elif tree is not None:
            if rule is None and default.get(name) is not None:
                filled.defaults[name] = default[name]
            elif _is_assumed(name, tree, default, given):
                filled.defaults[name], filled.given[name] = default[name], LEFT_OUT
        elif default.get(name) is not None:
            filled.defaults[name] = default[name]
            if given.get(name) is not None and given[name] != default[name]:
                filled.given[name] = given[name]
            tree = _if_null(subject, name, probes)
        else:
            filled.unknown.append(f"what {name} is by default")
        if tree is not None:
            filled.computed[name] = tree
            waiting.extend(sorted(field_names(tree)))
        if tree == NULL or any(
            name in probe.changes and probe.fields.get(name, name) is None for probe in probes
        ):
            filled.nullable.add(name)
    return filled


def _is_assumed(
    name: str, tree: Tree, default: Mapping[str, Any], given: Mapping[str, Any]
) -> bool:
    """Whether a sub-config that is not given has another value of a field than follows from its others."""
    if type(default.get(name)) is not int or type(given.get(name)) is not int:
        return False
    follows, follows_given = (_come_to(tree, fields) for fields in (default, given))
    return bool(default[name] != follows and given[name] == follows_given)


def _come_to(tree: Tree, fields: Mapping[str, Any]) -> Any:
    try:
        return compiled(tree)(fields)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
        return None


def _if_null(subject: Subject, name: str, probes: Sequence[Probe]) -> Tree | None:
    """Return what the reference makes of a null in place of a field that has a default, where it makes something."""
    null = [probe for probe in probes if name in probe.changes and probe.changes[name] is None]
    made = [probe for probe in null if probe.fields.get(name) is not None]
    return _derived(subject, name, made) if made and len(made) == len(null) else None


def _rule(
    subject: Subject, name: str, probes: Sequence[Probe], default: Mapping[str, Any]
) -> Tree | None:
    """Return how a field follows from others; None where it has a value of its own by default."""
    if (
        name.rpartition(".")[2] == "num_labels"
        and name.removesuffix("num_labels") + "id2label" in default
    ):
        return ("len", ("name", name.removesuffix("num_labels") + "id2label"))
    if name.rpartition(".")[2] == "id2label":
        return None
    if name in subject.optional:
        return NULL
    free = [probe for probe in probes if name not in probe.changes and name in probe.fields]
    values = [probe.fields[name] for probe in free]
    place = name.rpartition(".")[0]
    alone = [
        probe.fields[name]
        for probe in free
        if not any(path.startswith(f"{place}.") for path in probe.changes)
    ]
    given = [
        probe.fields[name]
        for probe in free
        if any(path.startswith(f"{place}.") for path in probe.changes)
    ]
    own = subject.stated.get(name) is not None
    if own and all(_same(value, group[0]) for group in (alone, given) for value in group):
        return None
    nulled = [probe.fields.get(name) for probe in probes if probe.changes.get(name, name) is None]
    usual = default.get(name) is not None and all(_same(value, default[name]) for value in values)
    if usual and any(not _same(value, default[name]) for value in nulled):
        return None  # a null is not its default, but something else
    if values and all(value is None for value in values):
        return NULL
    if values and all(value == [] for value in values):
        return ("list",)
    return _derived(subject, name, free) if values else None


def settle(drafts: Sequence[Draft]) -> dict[str, Tree]:
    """Take out of dims what they say of null fields alike, and return it: `d if d != null else h // a` is `d`.

    A field that the code replaces by one and the same expression wherever it is null is one that
    follows from others.
    """
    dims = [
        tree for draft in drafts for tensor in draft.tensors.values() for tree in tensor.dims or ()
    ]
    elsewhere = {
        name
        for draft in drafts
        for tree in (*draft.conditions.values(), *draft.repeats.values(), *_tie_conditions(draft))
        if tree is not None
        for name in field_names(tree)
    }
    settled: dict[str, Tree] = {}
    for name in sorted({name for tree in dims for name in field_names(tree)} - elsewhere):
        instead = {
            found for tree in dims if name in field_names(tree) for found in _instead(tree, name)
        }
        if len(instead) == 1 and None not in instead:
            settled[name] = instead.pop()  # type: ignore[assignment]
    if settled:
        for draft in drafts:
            for key, tensor in draft.tensors.items():
                kept = (
                    None
                    if tensor.dims is None
                    else tuple(_settled(tree, settled) for tree in tensor.dims)
                )
                draft.tensors[key] = tensor._replace(dims=kept)
    return settled


def overruled(subject: Subject, drafts: Sequence[Draft], probes: Sequence[Probe]) -> set[str]:
    """Write fields that the config class works out whatever a config says as what they are worked out from.

    Returns:
        Those fields.
    """
    given = [
        (name, probe.changes[name], probe.fields.get(name))
        for probe in probes
        for name in probe.changes
    ]
    words = spelled(subject, probes)
    names_of = sorted(
        {name for name, said, made in given if None not in (said, made) and not _alike(said, made)}
        - words.keys()
    )
    floats = frozenset(
        name for probe in probes for name, value in probe.fields.items() if isinstance(value, float)
    )
    rules = {
        name: _derived(subject, name, [probe for probe in probes if name in probe.fields])
        for name in names_of
    }
    instead = {
        name: tree
        for name, tree in rules.items()
        if tree is not None and name not in field_names(tree)
    }
    if not instead:
        return set()

    def written(tree: Tree) -> Tree:
        return replaced(
            tree, lambda leaf: instead.get(leaf[1], leaf) if leaf[0] == "name" else leaf
        )

    for draft in drafts:
        for key, tensor in draft.tensors.items():
            dims = (
                None
                if tensor.dims is None
                else tuple(simplified(written(tree), floats) for tree in tensor.dims)
            )
            ties = tuple((to, written(condition)) for to, condition in tensor.ties)
            draft.tensors[key] = tensor._replace(dims=dims, ties=ties)
        draft.conditions = {path: tree and written(tree) for path, tree in draft.conditions.items()}
        draft.repeats = {path: tree and written(tree) for path, tree in draft.repeats.items()}
    return set(instead)


def spelled(subject: Subject, probes: Sequence[Probe]) -> dict[str, dict[str, str]]:
    """Return the texts that the config class reads as others, by field.

    ``LEFT_OUT`` stands for one that it works out itself.
    """
    found: dict[str, dict[str, str]] = {}
    mixed: set[str] = set()
    for probe in probes:
        for name, made in probe.fields.items():
            said = probe.changes.get(name, subject.stated.get(name))
            if isinstance(said, str) and not isinstance(made, str) and made is not None:
                found.setdefault(name, {})[said] = LEFT_OUT
            for one, other in (
                zip(_texts(said), _texts(made), strict=False) if name in probe.changes else ()
            ):
                words = found.setdefault(name, {})
                mixed |= {name} if words.setdefault(one, other) != other else set()
    return {
        name: {one: other for one, other in sorted(words.items()) if one != other}
        for name, words in sorted(found.items())
        if name not in mixed and any(one != other for one, other in words.items())
    }


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list | tuple) else [value]
    return list(items) if all(isinstance(item, str) for item in items) else []


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return bool(one == other)


def _tie_conditions(draft: Draft) -> list[Tree]:
    return [condition for tensor in draft.tensors.values() for _, condition in tensor.ties]


def _null_test(tree: Tree) -> tuple[str, Tree, Tree] | None:
    """Return the field that a choice asks to be null, what it is then, and what otherwise."""
    if (
        tree[0] == "if"
        and tree[1][0] in ("==", "!=")
        and tree[1][1][0] == "name"
        and tree[1][2] == NULL
    ):
        null, other = (tree[2], tree[3]) if tree[1][0] == "==" else (tree[3], tree[2])
        return tree[1][1][1], null, other
    return None


def _instead(tree: Tree, name: str) -> Iterator[Tree | None]:
    """Yield what stands in a field's place where it is null; None where the field stands without a choice."""
    asked = _null_test(tree)
    if asked and asked[0] == name:
        yield _matched(asked[2], asked[1], name)
    elif tree == ("name", name):
        yield None
    elif tree[0] not in LEAVES:
        for operand in tree[1:]:
            if not isinstance(operand, str):
                yield from _instead(operand, name)


def _matched(pattern: Tree, tree: Tree, name: str) -> Tree | None:
    """Return what a field must be replaced with in one tree for it to be the other."""
    if pattern == ("name", name):
        return tree
    if pattern[0] != tree[0] or pattern[0] in LEAVES or len(pattern) != len(tree):
        return None
    found = {
        _matched(one, other, name)
        for one, other in zip(pattern[1:], tree[1:], strict=True)
        if one != other
    }
    return found.pop() if len(found) == 1 else None


def _settled(tree: Tree, settled: Mapping[str, Tree]) -> Tree:
    asked = _null_test(tree)
    if asked and asked[0] in settled:
        return _settled(asked[2], settled)
    if tree[0] in LEAVES:
        return tree
    return (
        tree[0],
        *[
            operand if isinstance(operand, str) else _settled(operand, settled)
            for operand in tree[1:]
        ],
    )


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _derived(subject: Subject, name: str, probes: Sequence[Probe]) -> Tree | None:
    """Return a field's value as an expression over the others."""
    texts: dict[str, int] = {}
    draft = generalize([_as_probe(subject, name, probe, texts) for probe in probes], guess=False)
    words = {code: text for text, code in texts.items()}
    if draft.unknown or any("{" in text for text in words.values()):  # no expression says a dict
        return None
    if name in draft.repeats:
        return _list(draft, name, words)
    items = [tensor.dims for key, tensor in draft.tensors.items() if key.startswith(f"{name}.")]
    if items:
        made: Tree = ("list", *[_worded(dims[0], words) for dims in items if dims])
        exists = draft.conditions.get(name)
        return (
            None
            if draft.conditions.keys() - {name}
            else made
            if exists is None
            else ("if", exists, made, NULL)
        )
    dims = draft.tensors[name].dims
    condition = draft.conditions.get(name)
    if not dims:
        return None
    tree = _worded(dims[0], words)
    return tree if condition is None else ("if", condition, tree, NULL)


def _list(draft: Draft, name: str, words: Mapping[int, str]) -> Tree | None:
    item, count = draft.tensors[f"{name}.{{0}}"].dims, draft.repeats[name]
    if not item or count is None or draft.conditions:
        return None
    return (
        "for",
        "i",
        count,
        replaced(
            _worded(item[0], words), lambda leaf: ("name", "i") if leaf[0] == "index" else leaf
        ),
    )


_CODES = 700_000_001  # of texts and flags: far from any size and from each other, so that none is taken for another


def _as_probe(subject: Subject, name: str, probe: Probe, texts: dict[str, int]) -> Probe:
    """Return the config of a probe as if the field were its only tensor, or a list of them."""
    made, trace = subject.remembered(probe)
    value = made.get(name, probe.fields[name])
    fields = {
        field: known
        for field, known in probe.fields.items()
        if field != name
        and (subject.stated.get(field) is not None or field in probe.changes or known is None)
    }
    tensors, lengths = {}, {}
    if isinstance(value, list | tuple):
        lengths[name] = len(value)
        tensors = {f"{name}.{at}": _coded(item, texts) for at, item in enumerate(value)}
    elif value is not None:
        tensors[name] = _coded(value, texts)
    return Probe(probe.changes, fields, tensors, {}, lengths, {}, trace)


def _coded(value: Any, texts: dict[str, int]) -> ProbedTensor:
    number = plain_value(value)
    if type(number) is int:
        return ProbedTensor((number,), (tree_of(value),))
    code = texts.setdefault(repr(number), _CODES * (len(texts) + 1) ** 2)
    tree = tree_of(value)
    return ProbedTensor((code,), (tree if tree[0] == "name" else ("value", code),))


def _worded(tree: Tree, words: Mapping[int, str]) -> Tree:
    """Return a tree with texts and flags in place of their codes."""
    return replaced(
        tree,
        lambda leaf: (
            _said(literal_eval(words[leaf[1]])) if leaf[0] == "value" and leaf[1] in words else leaf
        ),
    )


def _said(value: Any) -> Tree:
    """Return a value as a tree, lists item by item."""
    return ("list", *map(_said, value)) if isinstance(value, list | tuple) else ("value", value)
