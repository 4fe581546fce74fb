"""Finds the model that an article is about: a release or a family, with the article's sizes.

The name comes from the title and the text, the release from the name and the sizes: an article on
BERT with 21,128 words is about the Chinese BERT. Sizes that the article states take precedence over
those of the release. If no model is named, sizes that only one family's releases have decide.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.articles.sizes.model_names import catalogue_names, family_of_form, words_of
from weighbridge.articles.text import terms
from weighbridge.blueprint.schema import load
from weighbridge.errors import WeighbridgeError
from weighbridge.models.catalogue import entry_config, entry_of, released
from weighbridge.models.find import Model, bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.articles.sizes.model_names import ModelName
    from weighbridge.articles.sizes.sizes import Sizes
    from weighbridge.blueprint.schema import Blueprint

NAMED, GUESSED = "named", "guessed"
"""How the model is known: the article names it, or it is guessed from the sizes."""

_MOST_RELEASES = 32  # that are compared with the sizes; reading one takes milliseconds
_LEAST_GUESSED = 4  # sizes that a guess needs; three are common to many families
_DOMINANT = 0.75  # share of the matching releases that makes a family unambiguous
_ALIKE = ("hidden_size", "num_hidden_layers")
"""The sizes that make a model of a family; without them a name without a release says nothing."""


class ArticleModel(NamedTuple):
    """The model that an article is about.

    ``name`` is what the article calls it, or the name of the release that was guessed. ``model``
    has the article's sizes, and for the rest those of ``release``, or the defaults of the family if
    that is "". ``class_name`` is the class that the article names, or else the model's default.
    ``how`` is `NAMED` or `GUESSED`, and ``others`` are the other models that the article names.
    """

    name: str
    family: str
    release: str
    model: Model
    class_name: str
    how: str
    others: tuple[str, ...]


def article_subject(sizes: Sizes) -> ArticleModel | None:
    """Return the model that an article with these sizes and names is about, if it is known.

    Example:
        >>> from weighbridge.articles.text.lines import ArticleLine
        >>> from weighbridge.articles.sizes.sizes import stated_sizes
        >>> article = [ArticleLine(1, "BERT 的词表大小21128"), ArticleLine(2, "GPT-2 更大")]
        >>> subject = article_subject(stated_sizes(article))
        >>> subject.name, subject.release, subject.others
        ('BERT', 'google-bert/bert-base-chinese', ('GPT-2',))
    """
    how, name = NAMED, ""
    fields = {field: sizes.fields[field] for field in sizes.fields.keys() - sizes.doubtful}
    if sizes.own_name:
        name = sizes.own_name.text
        release, family = _named(sizes.own_name, fields)
    else:
        how = GUESSED
        release, family = _guessed(fields)
        name = release.rpartition("/")[2]
    model = _with_sizes(release, family, fields)
    if model is None:
        return None
    family = model.blueprint.family
    class_name = _class_named(sizes.names, model.blueprint) or model.default_class
    return ArticleModel(name, family, release, model, class_name, how, tuple(_others(sizes)))


def _others(sizes: Sizes) -> Iterator[str]:
    """Yield the names of the other models, each once."""
    words = set()
    for name in sizes.names:
        is_own = sizes.own_name is None or name.agrees_with(sizes.own_name)
        if not is_own and name.words not in words:
            words.add(name.words)
            yield name.text


def _class_named(names: Iterable[ModelName], blueprint: Blueprint) -> str:
    """Return the class of a family that an article names most; "" if it names none."""
    classes = Counter(name.class_name for name in names if name.class_name)
    for class_name, _ in classes.most_common():
        if class_name in blueprint.class_names:
            return class_name
    return ""


# From a name


def _named(name: ModelName, fields: Mapping[str, int]) -> tuple[str, str]:
    """Return the release and the family that a name means with these sizes; "" for what is unknown.

    The release is the one that contradicts the fewest sizes. If several do that have different
    parameters, it is the usual one, or none.
    """
    usual = terms.facts()["names"]["released"].get(" ".join(name.words), name.release)
    release = _chosen(_releases_beginning(name.words), usual, fields)
    if release:
        return release, ""
    release = _chosen(_releases_beginning(name.words[:1]), "", fields)
    if release and _supports(release, fields):
        return release, ""
    family = family_of_form(name.words[0])
    if family and all(field in fields for field in _ALIKE):
        return "", family
    return "", ""


def _chosen(releases: list[str], usual: str, fields: Mapping[str, int]) -> str:
    """Return the release that agrees best with the sizes; "" if several differ."""
    if usual:
        releases.insert(0, usual)
    if not releases:
        return ""
    differences = {release: _contradictions(release, fields) for release in releases}
    fewest = min(differences.values())
    best = [release for release, count in differences.items() if count == fewest]
    contents = {_content(release) for release in best}
    if best[0] == usual or len(contents) == 1:
        return best[0]
    return ""


def _supports(release: str, fields: Mapping[str, int]) -> bool:
    """Return whether the sizes alone show that a release is meant that has a shorter name."""
    return _contradictions(release, fields) == 0 and all(field in fields for field in _ALIKE)


def _releases_beginning(words: tuple[str, ...]) -> list[str]:
    """Return the releases whose names begin with these words, the plainest first."""
    variants = data.read_toml("facts/names.toml")["variants"]
    longer = []
    for known, release in _releases_by_word().get(words[:1], ()):
        if known[: len(words)] == words:
            added = known[len(words) :]
            longer.append((any(word in variants for word in added), len(added), release))
    longer.sort(key=lambda candidate: candidate[:2])
    releases = dict.fromkeys(release for _, _, release in longer)
    return list(releases)[:_MOST_RELEASES]


@cache
def _releases_by_word() -> Mapping[tuple[str, ...], list[tuple[tuple[str, ...], str]]]:
    """Return the words and the full names of all releases, by the first of their words."""
    releases: dict[tuple[str, ...], list[tuple[tuple[str, ...], str]]] = {}
    for spelling, release in catalogue_names().items():
        words = words_of(spelling)
        releases.setdefault(words[:1], []).append((words, release))
    return releases


def _content(release: str) -> tuple[object, ...]:
    """Return the family and the parameters of a release, equal for equal releases."""
    entry = _entry(release)
    return entry.get("family"), entry.get("parameters")


def _contradictions(release: str, fields: Mapping[str, int]) -> int:
    """Return the number of sizes that a release does not have."""
    return _differences(entry_config(_entry(release)), fields)


@cache
def _entry(release: str) -> Mapping[str, Any]:
    named = entry_of(release)
    if named is None:
        raise KeyError(release)
    return named[1]


def _differences(config: Mapping[str, Any], fields: Mapping[str, int]) -> int:
    blueprint = load(config["model_type"])
    differences = 0
    for field, value in fields.items():
        spelling = _spelling(field, blueprint)
        stated = config.get(spelling, blueprint.defaults.get(spelling, value))
        differences += field != "num_labels" and stated != value
    return differences


# From sizes alone


def _guessed(fields: Mapping[str, int]) -> tuple[str, str]:
    """Return the release that has all these sizes, if most such releases are of one family."""
    if len(fields) < _LEAST_GUESSED or "vocab_size" not in fields:
        return "", ""
    matching: dict[str, str] = {}
    families: Counter[str] = Counter()
    for release, entry in released().items():
        config = entry_config(entry)
        if fields["vocab_size"] in config.values() and not _differences(config, fields):
            families[entry["family"]] += 1
            matching.setdefault(entry["family"], release)
    if not families:
        return "", ""
    family, count = families.most_common(1)[0]
    if count < _DOMINANT * families.total():
        return "", ""
    return matching[family], family


# The model


def _with_sizes(release: str, family: str, fields: Mapping[str, int]) -> Model | None:
    """Return a release or a family with other sizes; without them if they fit no model."""
    if not (release or family):
        return None
    config: dict[str, Any] = {"model_type": family}
    if release:
        config = entry_config(_entry(release))
    blueprint, where = load(config["model_type"]), release or family
    model = bound(config, blueprint, where)
    changed = _changed(model, fields)
    for sizes in (_with_widths(model, changed), changed):
        try:
            return bound({**config, **sizes}, blueprint, where)
        except WeighbridgeError:  # these sizes fit no model
            continue
    return model


def _with_widths(model: Model, changed: Mapping[str, int]) -> dict[str, int]:
    """Return changed sizes with widths that follow from another hidden size.

    Models of one family mostly have the same ratio of the feed-forward size to the hidden size, and
    the same size of a head.
    """
    hidden = _spelling("hidden_size", model.blueprint)
    sizes = dict(changed)
    if hidden not in changed:
        return sizes
    for field in ("intermediate_size", "num_attention_heads"):
        spelling = _spelling(field, model.blueprint)
        width = model.fields.get(spelling)
        if isinstance(width, int) and spelling not in changed:
            sizes[spelling] = width * changed[hidden] // model.fields[hidden]
    return sizes


def _changed(model: Model, fields: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that differ from those of a model, as its config spells the fields."""
    changed = {}
    for field, value in fields.items():
        spelling = _spelling(field, model.blueprint)
        if spelling and model.fields.get(spelling) != value:
            changed[spelling] = value
    return changed


def _spelling(field: str, blueprint: Blueprint) -> str:
    """Return how a family's configs spell a field; "" if they have no such field.

    Example:
        >>> _spelling("hidden_size", load("gpt2")), _spelling("intermediate_size", load("t5"))
        ('n_embd', 'd_ff')
    """
    spellings: list[str] = terms.facts()["sizes"][field]["configs"]
    for spelling in (field, *spellings):
        name = blueprint.aliases.get(spelling, spelling)
        if name in blueprint.fields:
            return name
    return ""
