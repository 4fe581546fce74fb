"""Changes configs the way people do: a few fields at a time, of every kind.

Each mutation is a function that changes a `Draft`, or leaves it as it is where it does not apply.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attacking import reference
from attacking.drafts import (
    MOST_EXPERTS,
    MOST_LAYERS,
    drafted,
    is_expert_count,
    is_flag,
    is_head_count,
    is_integer,
    is_layer_count,
    is_size,
    may_be_size,
)
from attacking.forms import FORMS, formed
from attacking.trees import ABSENT, copied, leaves, replace, sub_configs, value_at

if TYPE_CHECKING:
    import random

    from attacking.drafts import Draft
    from attacking.starts import Family
    from attacking.trees import Config, Path

TEXT_MODELS = (
    *("llama", "qwen2", "qwen3", "mistral", "gemma2", "phi3", "gpt2", "opt", "olmo2", "t5"),
    *("bert", "roberta", "gpt_oss", "gemma3_text", "ministral3", "qwen3_moe", "bart"),
)
VISION_MODELS = ("clip_vision_model", "siglip_vision_model", "vit", "dinov2", "pixtral", "swin")
AUDIO_MODELS = ("whisper", "wav2vec2", "hubert", "wavlm")
BACKBONES = ("resnet", "swin", "dinov2", "convnext", "convnextv2", "vitdet", "beit", "swinv2")

_TIE = "tie_word_embeddings"
_ACTIVATIONS = ("gelu", "relu", "silu", "gelu_new", "quick_gelu", "swish")
_ACTIVATION_NAME = re.compile(r"(act|activation|activation_function|act_fn)$")
_RATIO_NAME = re.compile(r"ratio|factor|expan|multipl|scale$")
_ZERO_NAME = re.compile(r"shared|first_k|^num_.*experts|adapter|pooling|offset")
_NUMBER_NAME = re.compile(r"size|dim|num|^n_|heads|layers|length|width|depth|rank|idx")
_LONGEST_LIST = 8
_COMMON_KINDS = ("full_attention", "sliding_attention", "linear_attention", "attention", "mamba")
"""Kinds of layers that some families accept without a comparison that shows it."""


def mutated(family: Family, rng: random.Random) -> tuple[Config, list[str]]:
    """Return a config after one to four mutations, in some form, and their names."""
    draft = drafted(family, rng)
    names: list[str] = []
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        mutation = rng.choice(MUTATIONS)
        before = copied(draft.config)
        mutation(draft)
        if draft.config != before:
            names.append(mutation.__name__)
    form = rng.choice(FORMS)
    return formed(draft.config, form, rng), [*names, form]


def tied(family: Family, rng: random.Random) -> tuple[Config, list[str]]:
    """Return a config with a combination of ties: each one absent, true or false."""
    draft = drafted(family, rng, shrink=1.0)
    tie(draft)
    return draft.config, ["tie"]


def labelled(family: Family, rng: random.Random) -> tuple[Config, list[str]]:
    """Return a config with twelve labels."""
    draft = drafted(family, rng, shrink=1.0)
    _label(draft, 12)
    return draft.config, ["labels"]


def has_tie(family: Family) -> bool:
    """Whether a family has a tie to combine."""
    full = family.starts[0].full
    return any(path[-1] == _TIE for path, _ in leaves(full)) or _TIE in family.facts.reads


# The mutations


def flag(draft: Draft) -> None:
    """Flip a boolean."""
    path = draft.any_of(is_flag)
    if path:
        draft.set(path, not draft.value(path))


def several_choices(draft: Draft) -> None:
    """Change several flags, texts and fields that are null, since one may need another."""
    for _ in range(draft.rng.randint(2, 4)):
        draft.rng.choice((flag, flag, text, value_for_null))(draft)


def text(draft: Draft) -> None:
    """Use another text that the code compares the field with, or another activation."""
    texts = draft.family.facts.texts

    def is_text(name: str, value: Any) -> bool:
        return isinstance(value, str) and (name in texts or bool(_ACTIVATION_NAME.search(name)))

    path = draft.any_of(is_text)
    if path and path[-1] != "model_type":
        others = [one for one in texts.get(path[-1], _ACTIVATIONS) if one != draft.value(path)]
        if others:
            draft.set(path, draft.rng.choice(others))


def tie(draft: Draft) -> None:
    """Tie, untie or leave out, in the config and in each sub-config."""
    for parent in [(), *sub_configs(draft.start.full)]:
        has_no_tokens = re.search("vision|image|audio|backbone", ".".join(parent))
        if not has_no_tokens or draft.rng.random() < 0.2:
            draft.set((*parent, _TIE), draft.rng.choice((ABSENT, True, False)))


def null(draft: Draft) -> None:
    """Write null instead of a value."""
    path = draft.any_of(
        lambda name, value: value is not None and "None" in draft.family.facts.types.get(name, "")
    )
    if path and path[-1] != "model_type":
        draft.set(path, None)


def value_for_null(draft: Draft) -> None:
    """Write a value for a field that is null by default, of the type that it is annotated with."""
    path = draft.any_of(lambda name, value: value is None and name in draft.family.facts.types)
    if path:
        values = _values_of_type(draft, path)
        if values:
            draft.set(path, draft.rng.choice(values))


def _values_of_type(draft: Draft, path: Path) -> list[Any]:
    facts = draft.family.facts
    annotation = facts.types[path[-1]]
    values: list[Any] = list(facts.texts.get(path[-1], []))
    if "bool" in annotation:
        values += [True, False]
    if "list[str]" in annotation and values:
        values = [values, values[::-1], "|".join(values), *values]
    if "list[int]" in annotation:
        values += [[0], [1], [0, 1]]
    if re.search(r"\bint\b(?!\])", annotation) and may_be_size(path[-1]):
        values += [1, 2, draft.value(draft.any_of(is_size) or path)]
    return [value for value in values if value is not None]


def absent(draft: Draft) -> None:
    """Leave out a field."""
    paths = [path for path, _ in leaves(draft.config) if path[-1] != "model_type"]
    if paths:
        draft.set(draft.rng.choice(paths), ABSENT)


def equal_sizes(draft: Draft) -> None:
    """Make a size equal to another one."""
    path = draft.any_of(is_size)
    if path is None:
        return
    near = draft.beside(path, is_size)
    others = near if near and draft.rng.random() < 0.7 else draft.paths(is_size)
    value = draft.value(draft.rng.choice(others))
    if is_layer_count(path[-1], 1) or is_expert_count(path[-1], 1):
        value = min(value, MOST_EXPERTS)
    draft.set(path, value)


def other_size(draft: Draft) -> None:
    """Scale a size, so that sizes that are equal by default differ."""
    path = draft.any_of(is_size)
    if path and not is_layer_count(path[-1], 1):
        value = draft.value(path)
        draft.set(path, draft.rng.choice((value * 2, max(1, value // 2), value * 3, value + 8)))


def ratio(draft: Draft) -> None:
    """Change a ratio of sizes."""

    def is_ratio(name: str, value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and bool(_RATIO_NAME.search(name))

    path = draft.any_of(is_ratio)
    if path:
        draft.set(path, draft.value(path) * draft.rng.choice((0.5, 2, 3)))


def threshold(draft: Draft) -> None:
    """Use a number that the code compares the field with, or one beside it."""
    numbers = draft.family.facts.numbers

    def is_compared(name: str, value: Any) -> bool:
        return name in numbers and (is_integer(name, value) or value is None)

    path = draft.any_of(is_compared)
    if path:
        constant = draft.rng.choice(numbers[path[-1]])
        draft.set(path, max(0, constant + draft.rng.choice((-1, 0, 1))))


def labels(draft: Draft) -> None:
    """Use another number of labels."""
    near = [1, 2, 3, 12]
    for constant in draft.family.facts.numbers.get("num_labels", []):
        near += [max(1, constant - 1), constant, constant + 1]
    _label(draft, draft.rng.choice([number for number in near if number > 0]))


def _label(draft: Draft, number: int) -> None:
    for name in ("num_labels", "id2label", "label2id"):
        replace(draft.config, (name,), ABSENT)
    if draft.rng.random() < 0.5:
        draft.set(("num_labels",), number)
    else:
        names = {str(index): f"LABEL_{index}" for index in range(number)}
        draft.set(("id2label",), names)
        draft.set(("label2id",), {name: int(index) for index, name in names.items()})


def layer_list(draft: Draft) -> None:
    """Change which kind of layer is where, in which order, or how many there are."""
    path = draft.any_of(lambda name, value: _is_list_of(name, value, str, draft))
    if path is None:
        return
    rng = draft.rng
    value = (draft.value(path) or [])[:_LONGEST_LIST]
    kinds = sorted({*draft.family.facts.texts.get(path[-1], []), *value}) or list(_COMMON_KINDS)
    if rng.random() < 1 / 4:
        kinds = [*kinds, *_COMMON_KINDS]
    length = len(value) or _layers_beside(draft, path)
    lists = [
        [rng.choice(kinds) for _ in range(length)],
        [rng.choice(kinds)] * length,
        value[::-1],
        [*value, rng.choice(kinds)],
    ]
    new = rng.choice([one for one in lists if one])
    draft.set(path, new)
    _match_counts(draft, path, len(new))


def _layers_beside(draft: Draft, path: Path) -> int:
    counts = [draft.value(other) for other in draft.beside(path, is_layer_count)]
    return min(_LONGEST_LIST, *counts, _LONGEST_LIST)


def _is_list_of(name: str, value: Any, kind: type, draft: Draft) -> bool:
    if value is None:
        return f"list[{kind.__name__}]" in draft.family.facts.types.get(name, "")
    return isinstance(value, list) and bool(value) and all(type(item) is kind for item in value)


def _match_counts(draft: Draft, path: Path, length: int) -> None:
    """Set the layer counts beside a list, and shorten the other lists; one time in six, do not."""
    if draft.rng.random() < 1 / 6:
        return
    for other in draft.beside(path, is_layer_count):
        draft.set(other, length)
    for other, value in list(leaves(draft.config)):
        if other[:-1] == path[:-1] and isinstance(value, list) and len(value) > length:
            draft.set(other, value[:length])


_LIST_CHANGES = ("equal", "larger", "more", "fewer", "few", "some", "turned", "mixed", "each")


def stages(draft: Draft) -> None:
    """Change a list of sizes: items that are equal, larger, more, fewer or in another order."""
    path = draft.any_of(lambda name, value: _is_list_of(name, value, int, draft))
    if path is None:
        return
    rng = draft.rng
    value = list(draft.value(path) or range(rng.randint(1, 3)))
    kind = rng.choice(_LIST_CHANGES)
    place = rng.randrange(len(value))
    if kind == "equal":
        sizes = [draft.value(other) for other in draft.beside(path, is_size)]
        value[place] = rng.choice((rng.choice(value), rng.choice(sizes or value)))
    elif kind == "some":
        value = sorted(rng.sample(value, rng.randint(1, len(value))))
    elif kind == "larger":
        value[place] *= 2
    elif kind == "turned":
        value.reverse()
    elif kind == "mixed":
        rng.shuffle(value)
    elif kind == "each":
        value = [rng.choice((max(1, size // 2), size, size + 8, 3 * size)) for size in value]
    elif kind == "few":
        value[place] = rng.randint(1, 2)
    else:
        _lengthen(draft, path, value, kind)
        return
    draft.set(path, value)


def _lengthen(draft: Draft, path: Path, value: list[int], kind: str) -> None:
    """Add or remove a stage in all lists of the same length, and in the counts equal to it."""
    for other, beside in draft.fields().items():
        if other[:-1] != path[:-1]:
            continue
        if isinstance(beside, list) and len(beside) == len(value):
            longer = [*beside, beside[-1]] if kind == "more" else beside[:-1]
            draft.set(other, longer)
        elif beside == len(value) and is_size(other[-1], beside):
            draft.set(other, beside + (1 if kind == "more" else -1))


def layer_count(draft: Draft) -> None:
    """Use one, two or three layers."""
    path = draft.any_of(is_layer_count)
    if path:
        before, after = draft.value(path), draft.rng.randint(1, 3)
        draft.set(path, after)
        for other, value in list(leaves(draft.config)):
            if isinstance(value, list) and len(value) == before and other[:-1] == path[:-1]:
                draft.set(other, value[:after])


def inner_model(draft: Draft) -> None:
    """Use another model inside: another model type for a sub-config."""
    places = list(sub_configs(draft.start.full))
    if not places or not draft.family.facts.is_composed:
        return
    path = draft.rng.choice(places)
    models = [name for name in _models_for(path[-1]) if reference.is_known(name)]
    model_type = draft.rng.choice(models)
    inner = reference.written({"model_type": model_type}, in_full=True)
    draft.set(path, {"model_type": model_type})
    for name, value in inner.items():
        if is_layer_count(name, value) and value > MOST_LAYERS:
            draft.set((*path, name), draft.rng.randint(1, 3))


def _models_for(name: str) -> tuple[str, ...]:
    if re.search("vision|image|visual", name):
        return VISION_MODELS
    if re.search("audio|speech", name):
        return AUDIO_MODELS
    if "backbone" in name:
        return BACKBONES
    if name == "encoder":
        return (*VISION_MODELS, *TEXT_MODELS)
    return TEXT_MODELS


def zero(draft: Draft) -> None:
    """Write 0 where the code asks whether there are any."""
    facts = draft.family.facts

    def may_be_zero(name: str, value: Any) -> bool:
        is_asked = name in facts.tested or 0 in facts.numbers.get(name, ())
        return is_size(name, value) and (is_asked or bool(_ZERO_NAME.search(name)))

    path = draft.any_of(may_be_zero)
    if path:
        draft.set(path, 0)


def heads(draft: Draft) -> None:
    """Use one head, as many as of another kind, half as many or twice as many."""
    path = draft.any_of(is_head_count)
    if path:
        value = draft.value(path)
        others = [draft.value(other) for other in draft.beside(path, is_head_count)]
        draft.set(path, draft.rng.choice((1, max(1, value // 2), value * 2, *others)))


def unlisted(draft: Draft) -> None:
    """Write a field that saved configs do not have, but code reads."""
    facts = draft.family.facts
    places = [(), *sub_configs(draft.start.full)]
    known = {path[-1] for path, _ in leaves(draft.start.full)}
    for place in places:
        known.update(draft.aliases(place))
    names = [name for name in (*facts.unlisted, *facts.types) if name not in known]
    names = [name for name in names if not name.endswith(("kwargs", "config"))]
    if not names:
        return
    name = draft.rng.choice(names)
    parent = draft.rng.choice(places)
    inner = (*parent, name.removesuffix("_dict"))
    if inner != (*parent, name) and isinstance(value_at(draft.start.full, inner), dict):
        changed = draft.any_of_sub_config(inner, is_size)
        draft.set((*parent, name), {changed[-1]: draft.value(changed) * 2} if changed else {})
        return
    default = facts.unlisted.get(name)
    is_choice = isinstance(default, bool) or "bool" in facts.types.get(name, "")
    values: list[Any] = [True, False]
    if not is_choice and (isinstance(default, int) or _NUMBER_NAME.search(name)):
        values = [1, 2, draft.value(draft.any_of(is_size) or ("model_type",))]
    draft.set((*parent, name), draft.rng.choice(values))


def at_the_top(draft: Draft) -> None:
    """Write fields of a sub-config at the top, as configs did before there were sub-configs."""
    places = list(sub_configs(draft.start.full))
    if not places:
        return
    place = draft.rng.choice(places)
    inner = value_at(draft.config, place)
    if inner is not ABSENT and draft.rng.random() < 0.5:
        draft.set(place, ABSENT)
        for name, value in inner.items():
            draft.config.setdefault(name, value)
        return
    path = draft.any_of_sub_config(place, is_size)
    if path and value_at(draft.config, path) is ABSENT:
        draft.set(path[-1:], draft.value(path) * 2)


def other_spelling(draft: Draft) -> None:
    """Give a size under its other name, which transformers may read after it computed others."""
    place = draft.rng.choice([(), *sub_configs(draft.start.full)])
    sizes = draft.fields()
    aliases = [
        (alias, name)
        for alias, name in draft.aliases(place).items()
        if is_size(name, sizes.get((*place, name)))
    ]
    if aliases:
        alias, name = draft.rng.choice(aliases)
        value = draft.value((*place, name))
        draft.set((*place, name), ABSENT)
        replace(draft.config, (*place, alias), max(1, value // 2))


def class_name(draft: Draft) -> None:
    """Name one of the family's classes."""
    draft.set(("architectures",), [draft.rng.choice(draft.family.classes)])


MUTATIONS = (
    *(flag, flag, flag, several_choices, several_choices),
    *(text, text, text, text),
    *(tie, null, value_for_null, value_for_null, value_for_null, absent),
    *(equal_sizes, equal_sizes, equal_sizes, other_size, other_size, other_size, ratio),
    *(threshold, threshold, labels, class_name, zero),
    *(layer_list, layer_list, layer_list, stages, stages, layer_count),
    *(inner_model, inner_model, heads, heads, unlisted, unlisted),
    *(at_the_top, other_spelling, other_spelling),
)
"""All mutations; those that find more stand here more than once."""
