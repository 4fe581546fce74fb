"""Writes into a blueprint what files hold for each class."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.expr import names_in, parse
from weighbridge.blueprint.paths import above, is_under, joined_path
from weighbridge.blueprint.schema import sections, split_dims, stored_as, stored_texts, templates_of
from weighbridge.derive.generalize.places import list_above
from weighbridge.derive.write import dim

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from weighbridge.derive.generalize.draft import Draft
    from weighbridge.derive.saved.saved_names import SavedNames
    from weighbridge.derive.saved.saved_tensors import SavedTensor
    from weighbridge.derive.write import IndexLetters

    Texts = dict[str, list[str]]  # what files hold, by the name of the module's tensor or a path


def add_saved(
    raw: dict[str, Any],
    saved: Mapping[str, SavedNames],
    drafts: Mapping[str, Draft],
    letters: IndexLetters,
) -> list[str]:
    """Write into a blueprint what files hold for each class; return the fields that this needs.

    Args:
        raw: a blueprint with its tensors.
        saved: what files hold, by class, the base class first.
        drafts: the draft of each class.
        letters: the letters of the blueprint's indices.
    """
    base = next(iter(drafts.values()))
    for class_name, held in saved.items():
        of_class = raw["classes"].get(class_name, {})
        names = _blueprint_names(raw, of_class)
        texts = _texts(held, _Naming(of_class, base, drafts[class_name], letters), names)
        stored = _shortened(texts, [name for name in names if _is_new(name, texts, raw, of_class)])
        renamed = _new_renames(held.renamed, raw, of_class)
        section = raw["classes"].get(class_name, raw)
        if stored:
            section["stored"] = stored
        if renamed:
            section["renamed"] = renamed
    return _fields_of_saved(raw, letters)


def forget_saved(raw: dict[str, Any]) -> bool:
    """Remove the tables on files from a blueprint; return whether there were any."""
    removed: list[Any] = []
    for section in (raw, *raw["classes"].values()):
        removed += [section.pop("stored", None), section.pop("renamed", None)]
    return any(removed)


def _blueprint_names(raw: dict[str, Any], of_class: dict[str, Any]) -> dict[str, None]:
    """Return the names of a class's tensors and buffers in the blueprint."""
    tensors = templates_of(raw, of_class, "tensors")
    buffers = templates_of(raw, of_class, "buffers")
    return dict.fromkeys(template.name for template in (*tensors, *buffers))


class _Naming:
    """The names of a class's tensors: those of the base class, or its own."""

    def __init__(
        self, of_class: dict[str, Any], base: Draft, own: Draft, letters: IndexLetters
    ) -> None:
        self.prefix = of_class.get("prefix", "")
        self.base, self.own, self.letters = base, own, letters

    def name(self, template: str, names: Container[str]) -> tuple[str, list[str]]:
        """Return a tensor's name in the blueprint, and the letters of the lists around it."""
        below = template
        if self.prefix:
            below = template.removeprefix(f"{self.prefix}.")
        if below in self.base.tensors or below in self.base.buffers:
            inherited = joined_path(self.prefix, self.letters.named(self.base, below))
            if inherited in names:
                return inherited, self.letters.chain(self.base, list_above(below))
        chain_of_lists = self.letters.chain(self.own, list_above(template))
        return self.letters.named(self.own, template), chain_of_lists


def _texts(held: SavedNames, naming: _Naming, names: Container[str]) -> Texts:
    """Return what files hold in place of each tensor of a class, as texts of a blueprint."""
    texts: Texts = {}
    for template, tensors in held.stored.items():
        name, chain_of_lists = naming.name(template, names)
        if name in names:
            texts[name] = [
                _in_letters(tensor, chain_of_lists, naming.letters) for tensor in tensors
            ]
    return texts


def _is_new(name: str, texts: Texts, raw: dict[str, Any], of_class: dict[str, Any]) -> bool:
    """Whether files hold something else in place of a tensor than the base class states."""
    if name not in texts:
        return False
    return [_saved_text(*stored) for stored in stored_as(name, raw, of_class)] != texts[name]


def _new_renames(
    renamed: Mapping[str, str], raw: dict[str, Any], of_class: dict[str, Any]
) -> dict[str, str]:
    """Return the paths in older files that the base class does not already have."""
    prefix = of_class.get("prefix", "")
    of_base = raw.get("renamed", {}).items()
    known = {joined_path(prefix, old): joined_path(prefix, new) for old, new in of_base}
    return {old: new for old, new in renamed.items() if known.get(old) != new}


def _in_letters(tensor: SavedTensor, chain_of_lists: Sequence[str], letters: IndexLetters) -> str:
    """Return the text of a tensor in files, with these letters for indices and perhaps one more."""
    indices = list(chain_of_lists)
    if tensor.number is not None:
        indices.append(letters.counting(tensor.number, chain_of_lists))
    name = tensor.name.format(*[f"{{{letter}}}" for letter in indices])
    if tensor.dims is None:
        return name
    return _saved_text(name, [dim(tree, indices) for tree in tensor.dims])


def _saved_text(name: str, dims: Iterable[str] | None) -> str:
    if dims is None:
        return name
    return f"{name}: {' '.join(dims)}"


def _shortened(texts: Texts, wanted: Iterable[str]) -> Texts:
    """Return the texts of the wanted names; one text for a path whose names change alike."""
    shortened: Texts = {}
    for name in wanted:
        path = _renamed_path(name, texts)
        if path is None:
            shortened[name] = texts[name]
        else:
            old, new = path
            shortened[old] = [new]
    return shortened


def _renamed_path(name: str, texts: Texts) -> tuple[str, str] | None:
    """Return the shortest path whose renaming explains all names under it, and its new name."""
    stored, *more = texts[name]
    if more or ":" in stored:
        return None
    for path in above(name):
        below = name[len(path) :]
        new_path = stored.removesuffix(below)
        if not new_path or new_path + below != stored:
            continue
        under = [other for other in texts if is_under(other, path)]
        if all(texts[other] == [new_path + other[len(path) :]] for other in under):
            return path, new_path
    return None


def _fields_of_saved(raw: dict[str, Any], letters: IndexLetters) -> list[str]:
    """Return the fields in the tables on files, and in the counts of their indices."""
    texts = list(chain.from_iterable(map(stored_texts, sections(raw).values())))
    dims = chain.from_iterable(split_dims(text.partition(":")[2]) for text in texts)
    expressions = list(dims)
    if texts:
        expressions += letters.counts.values()
    fields = chain.from_iterable(names_in(parse(text)) for text in expressions)
    return [name for name in dict.fromkeys(fields) if name not in letters.counts]
