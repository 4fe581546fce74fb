"""Composes blueprints: a part of a model is a model of another family, with a config of its own.

`[parts]` of a blueprint names the modules that the reference code gets from an auto class, such as
``AutoModel.from_config(config.text_config)``, and the sub-config of each. Where a config names
another model type there, the tensors of the part come from the blueprint of that type. The result
is a blueprint like any other; every answer is computed from it as usual.
"""

from __future__ import annotations

import re
from functools import cache, partial
from itertools import chain

from weighbridge import data
from weighbridge.algebra.expr import names_in, parse
from weighbridge.blueprint.paths import indices_in, is_under, joined_path
from weighbridge.blueprint.schema import (
    Blueprint,
    all_names,
    is_family,
    load,
    parse_ties,
    rewritten_ties,
    sections,
)
from weighbridge.errors import ModelError, shorten
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from weighbridge.blueprint.schema import Raw

AUTO_MODEL = "AutoModel"
"""The auto class that gives the base class of a model type."""

_NULL = "null"
_VIA_TRANSFORMERS = "count it with --via transformers, if transformers is installed"
_OF_TENSORS = ("tensors", "buffers")
_BY_PATH = ("tensors", "ranks", "buffers", "when", "ties", "active", "stored", "modules")
_REWRITTEN = (*_BY_PATH, "guards")
_BY_FIELD = (
    *("defaults", "given", "values", "spelled", "separators"),
    *("configs", "computed", "aliases"),
)
_LISTS_OF_FIELDS = ("inert", "nullable", "zero", "beyond", "late", "flat")
_INDEX_NAMES = [*"ijklmnopqrstuvwxyzabcdefgh", *(f"i{number}" for number in range(1, 100))]
_WORDS = re.compile(r"\"[^\"]*\"|'[^']*'|(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class ModelPart(NamedTuple):
    """A module that is a model with its own config: the paths of both.

    ``auto_classes`` are the auto classes that the code asks; the first one that has a class for
    the model type gives it.
    """

    module: str
    config: str
    auto_classes: tuple[str, ...]


def listed_parts(section: Raw) -> list[ModelPart]:
    """Return the parts that a blueprint, or one of its classes, lists."""
    parts = []
    for module, text in section.get("parts", {}).items():
        config, *auto_classes = text.split()
        parts.append(ModelPart(module, config, tuple(auto_classes) or (AUTO_MODEL,)))
    return parts


@cache
def composed(blueprint: Blueprint, families: tuple[tuple[str, str], ...]) -> Blueprint:
    """Return a blueprint with the blueprints of other families for some of its sub-configs.

    ``families`` has the path of each such sub-config, and its model type. A path below another one
    is a sub-config of that family.

    Raises:
        ModelError: a family has no blueprint, or does not fit as this part.
    """
    raw = blueprint.raw
    outermost = [path for path, _ in families if not _is_below_any(path, dict(families))]
    for path in outermost:
        family = dict(families)[path]
        below = [
            (inside.removeprefix(f"{path}."), other)
            for inside, other in families
            if inside.startswith(f"{path}.")
        ]
        inner = _loaded(family, path, blueprint)
        if others := tuple(pair for pair in below if inner.configs.get(pair[0]) != pair[1]):
            inner = composed(inner, others)
        raw = _Composition(raw, path, inner).result()
    return Blueprint(raw, blueprint.where)


def _is_below_any(path: str, paths: Iterable[str]) -> bool:
    return any(path.startswith(f"{other}.") for other in paths)


def _loaded(family: str, path: str, outer: Blueprint) -> Blueprint:
    if not is_family(family):
        what = f"there is no blueprint for the model_type {shorten(family, str)} of its {path}"
        raise ModelError(what, where=outer.family, hint=_VIA_TRANSFORMERS)
    return load(family)


class _Composition:
    """One sub-config of a blueprint that gets another family, and what becomes of the rest."""

    def __init__(self, outer: Raw, config: str, inner: Blueprint) -> None:
        self.outer, self.config, self.inner = outer, config, inner
        self.fields = inner.fields
        proved = outer.get("configs", {}).get(config, "")
        self.replaced: Raw = load(proved).raw if is_family(proved) else {}
        """The blueprint of the family that the part was proved with, if there is one."""
        self.known_defaults = self._inert_defaults()
        self.computed_outside = self._computed_outside()
        """Fields of the part that the outer code reads, with what it uses if they are absent."""
        self.null_outside = {
            name
            for name, text in self.computed_outside.items()
            if text == _NULL and name in inner.raw.get("computed", ())
        }
        """Those that the outer code tests for null, and the inner code replaces by a value."""
        self.letters = self._index_letters()
        self.unresolved = dict[str, None]()
        self.carried = dict[str, None]()
        """The fields of `computed_outside` that the inner family does not have."""

    def result(self) -> dict[str, Any]:
        """Return the composed blueprint, as its file would hold it."""
        self._check_imposed()
        raw = {key: value for key, value in self.outer.items() if key not in _REWRITTEN}
        raw |= self._fields()
        raw["repeat"] = {
            **{index: self._outer(text) for index, text in self._outer_counts()},
            **{
                self.letters[index]: self._inside(text)
                for index, text in self.inner.raw.get("repeat", {}).items()
            },
        }
        raw |= self._section(self.outer, self._parts(self.outer))
        if self.unresolved:
            raise self._lacking()
        raw["classes"] = dict(self._classes())
        self.unresolved.clear()
        raw["computed"] = self._computed()
        if self.unresolved:
            raise self._lacking()
        raw["composed"] = {**self.outer.get("composed", {}), **self._families()}
        return _without_unused(raw)

    def _families(self) -> dict[str, str]:
        below = self.inner.raw.get("composed", {})
        inside = {f"{self.config}.{path}": family for path, family in below.items()}
        return {self.config: self.inner.family, **inside}

    # Names

    def _index_letters(self) -> dict[str, str]:
        """Return a new letter for each index of the inner blueprint."""
        taken = {*self.outer.get("repeat", {}), *self.outer["defaults"]}
        taken.update(self.outer.get("computed", {}))
        for name in self.fields:
            taken.update(name.split("."))
        texts = chain(_expressions(self.outer), _expressions(self.inner.raw))
        taken.update(chain.from_iterable(map(_WORDS.findall, texts)))
        free = (letter for letter in _INDEX_NAMES if letter not in taken)
        return {index: next(free) for index in self.inner.raw.get("repeat", {})}

    def _inside(self, text: str) -> str:
        """Return an expression of the inner blueprint, in the names of the outer one."""

        def rename(word: re.Match[str]) -> str:
            name = word[0]
            path = f"{self.config}.{name}"
            if name in self.null_outside:
                instead = self._inside(self.inner.raw["computed"][name])
                return f"({path} if {path} != null else {instead})"
            if name in self.fields:
                return path
            return self.letters.get(name, name)

        return _WORDS.sub(rename, text)

    def _path_inside(self, part: str, path: str) -> str:
        for index, letter in self.letters.items():
            path = path.replace(f"{{{index}}}", f"{{{letter}#}}")
        return joined_path(part, path.replace("#}", "}"))

    def _outer(self, text: str) -> str:
        """Return an expression of the outer blueprint, with the inner one's names for its fields.

        A field that the inner blueprint does not have is added to ``unresolved``.
        """

        def rename(word: re.Match[str]) -> str:
            below = word[0].removeprefix(f"{self.config}.")
            if below == word[0] or below in self.fields:
                return word[0]
            meant = self.inner.aliases.get(below, below)
            known = (*self.fields, *self.known_defaults, *self._unlisted_sizes())
            if meant in self.computed_outside and meant not in known:
                self.carried[meant] = None
            elif meant not in known:
                self.unresolved[word[0]] = None
            return f"{self.config}.{meant}"

        return _WORDS.sub(rename, text)

    def _computed_outside(self) -> dict[str, str]:
        return {
            name.removeprefix(f"{self.config}."): text
            for name, text in self.outer.get("computed", {}).items()
            if self._is_inside(name)
        }

    def _inert_defaults(self) -> dict[str, Any]:
        """Return fields that change no tensor of the inner family, with their defaults."""
        known = data.read_toml("facts/auto_classes.toml")["defaults"]
        return {
            name: families.get(self.inner.family, families["any"])
            for name, families in known.items()
            if name not in self.fields
        }

    def _unlisted_sizes(self) -> dict[str, str]:
        """Return fields that only the config class of the inner family computes."""
        known = data.read_toml("facts/auto_classes.toml")["computed"]
        return {
            name: families[self.inner.family]
            for name, families in known.items()
            if self.inner.family in families and name not in self.fields
        }

    def _is_inside(self, name: str) -> bool:
        return name.startswith(f"{self.config}.")

    # Fields

    def _fields(self) -> dict[str, Any]:
        """Return the tables of fields: those of the part are the inner family's."""
        inner = self.inner.raw
        tables: dict[str, Any] = {}
        for key in _BY_FIELD:
            below = {f"{self.config}.{name}": value for name, value in inner.get(key, {}).items()}
            tables[key] = {**self._table_outside(key), **below}
        for key in _LISTS_OF_FIELDS:
            names_below = [f"{self.config}.{name}" for name in inner.get(key, ())]
            tables[key] = [*self._table_outside(key), *names_below]
        tables["configs"][self.config] = self.inner.family
        tables["defaults"] |= {
            f"{self.config}.{name}": value for name, value in self.known_defaults.items()
        }
        tables["inert"] = [name for name in tables["inert"] if name not in tables["defaults"]]
        nulls = [name for name, text in self.computed_outside.items() if text == _NULL]
        tables["nullable"] += [f"{self.config}.{name}" for name in nulls]
        self._add_aliases(tables)
        tables["require"] = [
            *map(self._inside, inner.get("require", ())),
            *(
                f"{self.config}.{name} == {self._inside(text)}"
                for name, text in self._unlisted_sizes().items()
            ),
            *filter(None, map(self._required, self.outer.get("require", ()))),
        ]
        return tables

    def _table_outside(self, key: str) -> dict[str, Any]:
        """Return the entries of an outer table whose fields are not of the part."""
        table = self.outer.get(key, {})
        if isinstance(table, list):
            table = dict.fromkeys(table)
        return {name: value for name, value in table.items() if not self._is_inside(name)}

    def _add_aliases(self, tables: dict[str, Any]) -> None:
        """Correct the aliases; one that leads into the part from outside is refused."""
        aliases = dict[str, str]()
        for alias, name in tables["aliases"].items():
            if self._is_inside(alias):
                aliases[alias] = f"{self.config}.{name}"
            elif self._is_inside(name):
                tables["beyond"].append(alias)
            else:
                aliases[alias] = name
        tables["aliases"] = aliases

    def _computed(self) -> dict[str, str]:
        """Return the computed fields: first the part's, then those that may depend on them."""
        computed = {
            f"{self.config}.{name}": self._inside(text)
            for name, text in self.inner.raw.get("computed", {}).items()
        }
        computed |= {f"{self.config}.{name}": _NULL for name in self.null_outside}
        for name, text in self._unlisted_sizes().items():
            computed[f"{self.config}.{name}"] = self._inside(text)
        outer = self.outer.get("computed", {})
        of_outer = {name: self._outer(outer[name]) for name in outer if not self._is_inside(name)}
        carried = dict[str, str]()
        while waiting := [name for name in self.carried if name not in carried]:
            for name in waiting:
                carried[name] = self._outer(self.computed_outside[name])
        for name in self.computed_outside:
            if name in carried:
                computed[f"{self.config}.{name}"] = carried[name]
        return {**computed, **of_outer}

    def _check_imposed(self) -> None:
        """Refuse an inner family if the outer config class sets one of its fields."""
        for name, text in self.computed_outside.items():
            is_known = name in self.fields or name in self.inner.aliases
            if is_known and not all(map(self._is_inside, names_in(parse(text)))):
                raise self._misfit(f"the config class computes {self.config}.{name} from {text}")

    def _required(self, rule: str) -> str:
        """Return a rule of the outer blueprint; empty for one of the family that is replaced."""
        names = [name for name in names_in(parse(rule)) if self._is_inside(name)]
        if not names:
            return rule
        inside = rule.replace(f"{self.config}.", "")
        known = set(self.replaced.get("require", ()))
        if self.replaced:
            for section in sections(self.replaced).values():
                known.update(section.get("guards", ()))
        if inside in known:
            return ""
        unresolved = dict(self.unresolved)
        text = self._outer(rule)
        if self.unresolved != unresolved and len(names) == len([*names_in(parse(rule))]):
            self.unresolved = unresolved  # it names only fields that the part does not have
            return ""
        return text

    # Tensors

    def _outer_counts(self) -> Iterator[tuple[str, str]]:
        """Yield the indices of the outer blueprint that tensors outside the part have."""
        used = set[str]()
        for section in sections(self.outer).values():
            parts = self._parts(section)
            for name in chain.from_iterable(section.get(kind, {}) for kind in _OF_TENSORS):
                if not any(is_under(name, part.module) for part in parts):
                    used.update(indices_in(name))
        for index, text in self.outer.get("repeat", {}).items():
            if index in used:
                yield index, text

    def _parts(self, section: Raw) -> list[ModelPart]:
        return [part for part in listed_parts(section) if part.config == self.config]

    def _classes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the classes that can be composed, with their tables."""
        for name, section in self.outer.get("classes", {}).items():
            inherited = self._inherited_parts(section)
            if inherited is None:
                continue
            self.unresolved.clear()
            tables = self._section(section, self._parts(section), inherited)
            if not self.unresolved:
                rest = {key: value for key, value in section.items() if key not in _REWRITTEN}
                yield name, {**rest, **tables}

    def _inherited_parts(self, section: Raw) -> list[ModelPart] | None:
        """Return the parts of the base class in a class; None if it changes one of them."""
        if not section.get("base", True):
            return []
        prefix, without = section.get("prefix", ""), section.get("without", ())
        parts = [
            part for part in self._parts(self.outer) if not _is_under_any(part.module, without)
        ]
        if any(_is_inside_any(path, parts) for path in without):
            return None
        inherited = [part._replace(module=joined_path(prefix, part.module)) for part in parts]
        added = [*section.get("tensors", {}), *section.get("buffers", {})]
        if any(_is_inside_any(name, inherited) for name in added):
            return None
        return inherited

    def _section(
        self, section: Raw, parts: Sequence[ModelPart], inherited: Sequence[ModelPart] = ()
    ) -> dict[str, Any]:
        """Return the tables of a section with the tensors of the inner family in its parts.

        ``inherited`` are the parts of the base class under the prefix of this one.
        """
        inner_tables = {part.module: self._inner_tables(part) for part in parts}
        tables: dict[str, Any] = {}
        for key in _BY_PATH:
            rewrite = self._rewriter(key, [*parts, *inherited])
            inserted: dict[str, dict[str, Any]] = {part.module: {} for part in inherited}
            inserted |= {path: dict(of_part[key]) for path, of_part in inner_tables.items()}
            table = _with_parts(section.get(key, {}), inserted, rewrite)
            if table:
                tables[key] = table
        tables.setdefault("tensors", {})
        guards = dict(self._guards(section, parts))
        if guards:
            tables["guards"] = guards
        stored = dict(self._stored([*parts, *inherited], section))
        if stored:
            tables["stored"] = {**tables.get("stored", {}), **stored}
        return tables

    def _guards(self, section: Raw, parts: Iterable[ModelPart]) -> Iterator[tuple[str, str]]:
        """Yield the guards of a section and of its parts, with the lines of code."""
        for rule, line in section.get("guards", {}).items():
            text = self._required(rule)
            if text and not (self._asks(line) or self._is_replaced_code(rule, line)):
                yield text, line
        for part in parts:
            of_class = self.inner.raw.get("classes", {}).get(self._class_name(part), {})
            for guards in (self.inner.guards, of_class.get("guards", {})):
                yield from ((self._inside(rule), line) for rule, line in guards.items())

    def _asks(self, line: str) -> bool:
        """Whether a line of code asks an auto class for the part, which its type decides."""
        listed = chain.from_iterable(map(self._parts, sections(self.outer).values()))
        asked = set(chain.from_iterable(part.auto_classes for part in listed))
        return any(f"{name}.from_config(" in line for name in asked)

    def _is_replaced_code(self, rule: str, line: str) -> bool:
        """Whether a guard is about the code of the family that is replaced."""
        file, colon, _ = line.partition(":")
        stem = self.outer["source"].rpartition("modeling_")[2]
        is_own = not colon or file.endswith(f"_{stem}")
        return not is_own and all(map(self._is_inside, names_in(parse(rule))))

    def _rewriter(self, key: str, parts: Sequence[ModelPart]) -> Callable[[str], Any]:
        """Return the function for the values of an outer table that stand outside the parts."""
        if key in ("tensors", "ranks", "buffers", "when", "active"):
            return self._outer
        if key == "ties":
            return lambda text: self._tie(text, parts)
        if key == "stored":
            return lambda texts: [self._outer(text) if ":" in text else text for text in texts]
        return lambda value: value

    def _tie(self, text: str, parts: Sequence[ModelPart]) -> str:
        for tie in parse_ties(text):
            for part in parts:
                if is_under(tie.to, part.module):
                    below = tie.to[len(part.module) + 1 :]
                    if below not in self._class_tables(part)["tensors"]:
                        self.unresolved[tie.to] = None
        return rewritten_ties(text, str, self._outer)

    def _inner_tables(self, part: ModelPart) -> dict[str, dict[str, Any]]:
        """Return the tables of the part's class under the path of the part."""
        tables = self._class_tables(part)
        moved: dict[str, dict[str, Any]] = {key: {} for key in _BY_PATH}
        for key in ("tensors", "ranks", "buffers", "when", "active", "modules", "ties"):
            for path, value in tables[key].items():
                text = value
                if key == "ties":
                    inside = partial(self._path_inside, part.module)
                    text = rewritten_ties(value, inside, self._inside)
                elif key != "modules":
                    text = self._inside(value)
                moved[key][self._path_inside(part.module, path)] = text
        return moved

    def _class_tables(self, part: ModelPart) -> dict[str, dict[str, Any]]:
        class_name = self._class_name(part)
        return class_tables(self.inner.raw, class_name)

    def _class_name(self, part: ModelPart) -> str:
        """Return the class of the inner family that the part's auto class gives."""
        known = data.read_toml("facts/auto_classes.toml")["classes"]
        class_name = ""
        for auto_class in part.auto_classes:
            if auto_class == AUTO_MODEL:
                class_name = class_name or self.inner.base_class
            class_name = class_name or known.get(auto_class, {}).get(self.inner.family, "")
        if class_name not in self.inner.class_names:
            asked = " or ".join(part.auto_classes)
            raise self._misfit(f"its blueprint has no class for {asked}")
        return class_name

    def _stored(self, parts: Sequence[ModelPart], section: Raw) -> Iterator[tuple[str, list[str]]]:
        """Yield what files hold of the parts, under the path that this section stores them at."""
        for part in parts:
            entries = self._class_tables(part)["stored"]
            path = _stored_path(part.module, section)
            is_own = part in self._parts(section)
            if entries and (is_own or path is not None):
                for inside, texts in entries.items():
                    yield (
                        self._path_inside(part.module, inside),
                        [self._stored_text(path or part.module, text) for text in texts],
                    )

    def _stored_text(self, path: str, text: str) -> str:
        name, colon, dims = text.partition(":")
        moved = self._path_inside(path, name)
        return f"{moved}:{self._inside(dims)}" if colon else moved

    # Refusals

    def _misfit(self, reason: str) -> ModelError:
        family, path = self.inner.family, self.config
        what = f"{self.outer['family']} with {family} as its {path} is not covered"
        return ModelError(f"{what}: {reason}", hint=_VIA_TRANSFORMERS)

    def _lacking(self) -> ModelError:
        missing = ", ".join(self.unresolved)
        return self._misfit(f"it uses {missing}, which the blueprint of {self.inner.family} lacks")


def class_tables(raw: Raw, class_name: str) -> dict[str, dict[str, Any]]:
    """Return the tables of a class with full names, those of the base class included."""
    of_class = raw.get("classes", {}).get(class_name, {})
    tables: dict[str, dict[str, Any]] = {key: {} for key in _BY_PATH}
    if of_class.get("base", True):
        tables = _base_tables(raw, of_class)
    for key in _BY_PATH:
        tables[key] |= of_class.get(key, {})
    held = [*tables["tensors"], *tables["buffers"]]
    for key in ("when", "active", "stored", "modules"):
        for path in list(tables[key]):
            if not any(is_under(name, path) for name in held):
                del tables[key][path]
    tables["modules"] = {"": class_name, **tables["modules"]}
    return tables


def _base_tables(raw: Raw, of_class: Raw) -> dict[str, dict[str, Any]]:
    """Return the tables of the base class as a class has them."""
    prefix, without = of_class.get("prefix", ""), of_class.get("without", ())
    tables: dict[str, dict[str, Any]] = {}
    for key in _BY_PATH:
        tables[key] = {
            joined_path(prefix, path): _moved(key, prefix, value)
            for path, value in raw.get(key, {}).items()
            if not _is_under_any(path, without)
        }
    if prefix:
        tables["modules"][prefix] = raw["class"]
    return tables


def _moved(key: str, prefix: str, value: Any) -> Any:
    """Return a value of the base class's tables as it is under a prefix."""
    if key == "ties":
        return rewritten_ties(value, partial(joined_path, prefix), str)
    if key == "stored":
        return [joined_path(prefix, text) for text in value]
    return value


def _is_under_any(name: str, paths: Iterable[str]) -> bool:
    return any(is_under(name, path) for path in paths)


def _is_inside_any(path: str, parts: Iterable[ModelPart]) -> bool:
    return any(is_under(path, part.module) for part in parts)


def _with_parts(
    table: Mapping[str, Any],
    inserted: Mapping[str, Mapping[str, Any]],
    rewrite: Callable[[Any], Any],
) -> dict[str, Any]:
    """Return a table with other entries at and below some paths, in the same place."""
    merged: dict[str, Any] = {}
    waiting = dict(inserted)
    for path, value in table.items():
        part = next((part for part in inserted if is_under(path, part)), None)
        if part is None or (path == part and part not in inserted[part]):
            merged[path] = rewrite(value)
        elif part in waiting:
            merged |= waiting.pop(part)
    for entries in waiting.values():
        merged |= entries
    return merged


def _stored_path(path: str, section: Raw) -> str | None:
    """Return where files hold a path that moves as a whole; None if this section moves none."""
    moved = {
        above: texts[0]
        for above, texts in section.get("stored", {}).items()
        if is_under(path, above) and len(texts) == 1 and ":" not in texts[0]
    }
    if not moved:
        return None
    longest = max(moved, key=len)
    return joined_path(moved[longest], path[len(longest) + 1 :])


def _expressions(raw: Raw) -> Iterator[str]:
    """Yield every text of a blueprint that may hold an expression."""
    yield from raw.get("computed", {}).values()
    yield from raw.get("repeat", {}).values()
    yield from raw.get("require", ())
    for section in sections(raw).values():
        yield from section.get("guards", {})
        for key in ("tensors", "ranks", "buffers", "when", "active", "ties"):
            yield from section.get(key, {}).values()
        for texts in section.get("stored", {}).values():
            yield from texts


def _without_unused(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a blueprint without the fields and indices that none of its expressions uses."""
    raw["repeat"] = _only(raw["repeat"], set(_indices(raw)))
    computed = raw.pop("computed")
    used = set(chain.from_iterable(map(_WORDS.findall, _expressions(raw))))
    for name in reversed(computed):
        if name in used:
            used.update(_WORDS.findall(computed[name]))
    unused = {*raw["defaults"], *computed} - used
    raw["computed"] = _only(computed, used)
    raw["defaults"] = _only(raw["defaults"], used)
    raw["inert"] = sorted({*raw["inert"], *unused} - raw["configs"].keys())
    deciding = {*raw["defaults"], *raw["computed"]}
    raw["nullable"] = _among(raw["nullable"], deciding)
    raw["zero"] = _among(raw["zero"], deciding)
    raw["given"] = _only(raw["given"], deciding)
    known = deciding.union(raw["inert"])
    raw["values"] = _only(raw["values"], known)
    raw["spelled"] = _only(raw["spelled"], {*known, *_model_types(raw)})
    raw["separators"] = _only(raw["separators"], known)
    targets = known | raw["configs"].keys()
    raw["aliases"] = {
        alias: name
        for alias, name in raw["aliases"].items()
        if name in targets and alias not in known
    }
    raw["beyond"] = [name for name in raw["beyond"] if name not in known]
    raw["late"] = _among(raw["late"], raw["aliases"])
    raw["flat"] = _among(raw["flat"], raw["aliases"])
    return raw


def _indices(raw: Raw) -> Iterator[str]:
    """Yield the indices in the names of tensors, also of stored ones."""
    for name in all_names(raw):
        yield from indices_in(name)
    for section in sections(raw).values():
        for text in chain.from_iterable(section.get("stored", {}).values()):
            yield from indices_in(text.partition(":")[0])


def _model_types(raw: Raw) -> list[str]:
    return [f"{path}.model_type" for path in raw["configs"]]


def _only(table: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name in names}


def _among(names: Iterable[str], kept: Collection[str]) -> list[str]:
    return [name for name in names if name in kept]
