"""Random configs drawn from what is known: to learn from, and to check a draft against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge.derive.probing.lists import drawn_lists, without_lists

if TYPE_CHECKING:
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.state import Changes, Exploration, Turn

# The chance of turning a field that changes a tensor. The more fields are changed, the more likely
# a config is refused, so the chance falls until a config is accepted.
CHANCES = (0.5, 0.5, 0.3, 0.3, 0.2, 0.2, 0.12, 0.12, 0.06, 0.06)
UNSEEN_CHANCES = (0.5, 0.3, 0.12)  # the same for configs that are drawn all at once
UNSEEN_ROUNDS = 2  # draws with each of these per wanted config; many are refused or known
FULL_SIZE_CHANCE = 0.1  # of a full-size model, in case the depth itself decides something
WITH_FLAG_CHANCE = 0.3  # of turning a field with the flag that it needs
GROUP_CHANCE = 0.3  # of turning fields that belong together
INERT_CHANCE = 0.08  # of turning a field that was never seen to change a tensor
# Choices (flags, texts, nullable fields) decide which tensors exist. Some configs turn few of them
# and some turn many.
CHOICE_CHANCES = (0.15, 0.3, 0.5)
CHOICE_SCALE = 0.4  # the chance of other fields at which choices have exactly these chances
FREE_CHANCE = 0.8  # of any integer near the default rather than a value that was tried
FAR_CHANCE = 0.2  # of an integer far from the default, where a stranger's code may take a branch
FAR_POWERS = (-3, 3)  # such an integer is the default times 2 to a power between these
SMALLEST_FREE = 4  # the smallest integer that is drawn freely; no size is smaller
SHUFFLE_CHANCE = 0.3  # of shuffling a list of integers
ITEMS_CHANCE = 0.4  # of drawing other texts for lists
EQUAL_CHANCE = 0.5  # of making fields equal to what the code compares them with
MOST_EQUAL = 2  # fields of one config that are made equal so


def sample(exploration: Exploration) -> Probe | None:
    """Return the probe of a random config that the reference code accepts.

    A config of a stranger that is refused is tried without its lists: a list of layers may have to
    be as long as another field says.
    """
    for chance in CHANCES:
        changes = draw_changes(exploration, chance)
        probe = exploration.try_out(changes)
        if probe is None and exploration.subject.is_explored_for_equals:
            plain = without_lists(changes)
            probe = exploration.try_out(plain) if plain != changes else None
        if probe is not None:
            return probe
    return None


def unseen(exploration: Exploration, count: int) -> list[Changes]:
    """Return random configs without a kept probe; the reference code may refuse some."""
    known = {_sorted_text(probe.changes) for probe in exploration.probes}
    drawn: list[Changes] = []
    for _ in range(UNSEEN_ROUNDS * count):
        drawn += [draw_changes(exploration, chance) for chance in UNSEEN_CHANCES]
    return [changes for changes in drawn if _sorted_text(changes) not in known]


def _sorted_text(changes: Any) -> str:
    return repr(sorted(changes.items(), key=str))


def draw_changes(exploration: Exploration, chance: float) -> Changes:
    """Return random changes; each field that changes a tensor is turned with this chance."""
    findings, random = exploration.findings, exploration.random
    changes, kept = _drawn_base(exploration)
    choice_chance = random.choice(CHOICE_CHANCES) * chance / CHOICE_SCALE
    for path, turn in findings.turns.items():
        if path in kept:
            continue
        odds = INERT_CHANCE
        if path in findings.active:
            odds = min(1.0, choice_chance) if _is_choice(turn) else chance
        if random.random() < odds:
            changes[path] = _drawn_value(exploration, turn)
    changes = _with_other_items(exploration, changes)
    if exploration.subject.is_explored_for_equals:
        lists = drawn_lists(exploration)
        if not lists.keys() & kept:
            changes |= lists
        changes |= _equals(exploration, changes, kept)
    for path in findings.pinned.keys() - exploration.start.keys():
        changes.pop(path, None)
    return changes


def _drawn_base(exploration: Exploration) -> tuple[Changes, set[str]]:
    """Return the changes to start from, and the fields that must stay unchanged."""
    findings, random = exploration.findings, exploration.random
    changes, kept = dict(findings.base), set[str]()
    if findings.is_cheap and random.random() < FULL_SIZE_CHANCE:
        changes = dict(exploration.start)
        kept |= findings.base.keys() - exploration.start.keys()
    if findings.together and random.random() < WITH_FLAG_CHANCE:
        changes.update(random.choice(findings.together))
    if findings.groups and random.random() < GROUP_CHANCE:
        group = random.choice(findings.groups)
        changes.update(group)
        kept |= group.keys()
    return changes, kept


def _is_choice(turn: Turn) -> bool:
    return isinstance(turn.value, bool | str) or turn.value is None


def _drawn_value(exploration: Exploration, turn: Turn) -> Any:
    random = exploration.random
    is_free = turn.free and random.random() < FREE_CHANCE
    if is_free and exploration.subject.is_explored_for_equals and random.random() < FAR_CHANCE:
        return max(SMALLEST_FREE, round(turn.value * 2 ** random.uniform(*FAR_POWERS)))
    if is_free:
        return random.randint(max(SMALLEST_FREE, turn.value // 2), turn.value * 2)
    value = random.choice(turn.values)
    is_of_integers = isinstance(value, list) and all(type(item) is int for item in value)
    if is_of_integers and random.random() < SHUFFLE_CHANCE:
        return random.sample(value, len(value))
    return value


def _equals(exploration: Exploration, changes: Changes, kept: set[str]) -> Changes:
    """Return a few fields with the values that the code compares them with.

    Two conditions that hold by chance hardly ever hold together: ``kdim == dim and vdim != dim``.
    """
    random = exploration.random
    kept = kept | exploration.fixed.keys()
    compared = [(path, other) for path, other in exploration.compared_with() if path not in kept]
    if not compared or random.random() > EQUAL_CHANCE:
        return {}
    equals: Changes = {}
    number = random.randint(1, min(MOST_EQUAL, len(compared)))
    for path, other in random.sample(compared, number):
        value = other
        if isinstance(other, str):
            knob = exploration.knobs[other]
            value = {**changes, **equals}.get(other, exploration.value_in_base(knob))
        if type(value) is int:
            equals[path] = value
    return equals


def _with_other_items(exploration: Exploration, changes: Changes) -> Changes:
    """Draw new items for lists of texts; the other changes decide the length of each list."""
    random, alphabets = exploration.random, exploration.findings.alphabets
    if random.random() > ITEMS_CHANCE or not alphabets:
        return changes
    subject = exploration.subject
    try:
        fields = subject.fields(subject.config(changes))
    except Exception:  # a config that is refused is drawn again
        return changes
    lists: Changes = {}
    for path, alphabet in alphabets.items():
        items = fields.get(path)
        is_null = path in changes and changes[path] is None
        if not is_null and isinstance(items, list) and len(alphabet) > 1:
            lists[path] = [random.choice(alphabet) for _ in items]
    return {**changes, **lists}
