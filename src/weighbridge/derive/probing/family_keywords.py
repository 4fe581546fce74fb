"""Keywords that config classes of transformers read and that are not fields.

`kwargs.pop("n_embed", None)`: such a keyword is an older name of a field, or turns into a list of
texts (``"M-*"``), or is a field in all but name. Making a config with unusual values for the
keyword shows which of these it is.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import itertools
import re
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

from transformers.models.auto import AutoConfig

from weighbridge.derive.probing.family_configs import GENERIC_FIELDS, config_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.derive.probing.reference import FamilySubject

TextTable = dict[str | int, str]

_MOST_LAYERS = 200  # more layers than any config has by default
_UNUSUAL_PAIRS = (  # two values of each type that no config has by default
    (2304, 4608),
    (True, False),
    (0.2304, 0.4608),
    ("gelu", "relu"),
    ([2304, 1], [4608, 2]),
    ([3, 1], [4, 2]),  # numbers of layers, which must exist
    ([0.0, 0.1], [0.0, 0.2]),
)
_READ = re.compile(r"kwargs\.(?:pop|get)\(\s*['\"](\w+)['\"](?:,\s*([^()]*)\))?")
# Names that decide no tensor; names that older files have besides a field; names of dicts.
_NO_SIZE = re.compile(
    r"theta|rope_(scaling|param|local)|rotary|base_freq|dtype|model_type|is_causal|_token_id"
)
_OLDER_OBJECT = re.compile(r"_dict$")
_REDUNDANT = re.compile(r"backbone|_dict$|out_features$")


class FamilyKeywords:
    """The keyword arguments that the config classes of a family read."""

    def __init__(self, subject: FamilySubject) -> None:
        self._subject = subject

    @cached_property
    def taken(self) -> dict[str, Any]:
        """Keywords that do not become a field, with their defaults; None for no constant."""
        free = [
            name
            for name, config_class in self._subject.null_by_default
            if config_class is AutoConfig and name not in self._subject.optional
        ]
        return dict.fromkeys(free) | {
            path: default
            for path, default in self._read.items()
            if not self.older_names.get(path)
            and path not in self.older_lists
            and not _NO_SIZE.search(path)
            and not _REDUNDANT.search(path)
            and not self._is_property(path)
        }

    def _is_property(self, path: str) -> bool:
        place, _, name = path.rpartition(".")
        return hasattr(type(config_at(self._config({}), place)), name)

    @cached_property
    def _read(self) -> dict[str, Any]:
        """The keywords that are read and are not fields, with their defaults."""
        config = self._config({})
        defaults: dict[str, Any] = {}
        for place in ("", *self._subject.sub_configs):
            holder = config_at(config, place)
            if holder is None:
                continue
            known = {*type(holder).attribute_map, *GENERIC_FIELDS}
            known |= {name for name, value in vars(holder).items() if type(value) is not int}
            known |= {field.name for field in dataclasses.fields(type(holder))}
            for name, value in _read_by(type(holder)).items():
                if name not in known:
                    defaults[f"{place}.{name}".strip(".")] = value
        return defaults

    @cached_property
    def older_names(self) -> dict[str, list[str]]:
        """By older name, the fields that take its value."""
        code = inspect.getsource(sys.modules[self._subject.config_class.__module__])
        in_code = [name for name, _ in _READ.findall(code)]
        fields: dict[str, list[str]] = {}
        for older in sorted({*in_code, *self._read} - self._usual.keys()):
            for pair in _UNUSUAL_PAIRS:
                with contextlib.suppress(Exception):
                    following = self._following(older, pair)
                    if following:
                        fields[older] = following
                        break
        return fields

    def _following(self, older: str, pair: tuple[Any, Any]) -> list[str]:
        """Return the fields that take the value given under a name, for both values of a pair."""
        first, second = [self._fields({older: value}) for value in pair]
        return [
            path
            for path in first
            if path != older and _same(first[path], pair[0]) and _same(second.get(path), pair[1])
        ]

    @cached_property
    def replacing(self) -> dict[str, str]:
        """By older name of a sub-config, `text_config_dict`, the sub-config whose fields it sets.

        An object under such a name may replace the sub-config, or only some of its fields: the
        proof of the aliases tells.
        """
        places: dict[str, str] = {}
        for older in filter(_OLDER_OBJECT.search, self._read):
            for place in self._subject.sub_configs:
                if self._sets_fields_of(place, older):
                    places.setdefault(older, place)
        return places

    def _sets_fields_of(self, place: str, older: str) -> bool:
        """Whether an object under this name sets a size of a sub-config."""
        first = _UNUSUAL_PAIRS[0][0]
        for path, value in self._usual.items():
            holder, _, name = path.rpartition(".")
            if holder == place and type(value) is int:
                with contextlib.suppress(Exception):  # the config class refuses this value
                    return bool(self._fields({older: {name: first}})[path] == first)
        return False

    @cached_property
    def older_lists(self) -> dict[str, tuple[str, Mapping[str, str]]]:
        """By older name, the list of texts that it turns into: the field, and a text for each word.

        A file has ``"M-*"`` or ``[0, 4, 128]`` there; a table in the code gives the texts.
        """
        fields: dict[str, tuple[str, Mapping[str, str]]] = {}
        code = inspect.getsource(sys.modules[self._subject.config_class.__module__])
        lengths = dict.fromkeys([_MOST_LAYERS, *map(len, self._usual_lists.values())])
        for older, table, length in itertools.product(self._read, _text_tables(code), lengths):
            words = {str(word): text for word, text in table.items()}
            with contextlib.suppress(Exception):
                for path in self._spelled_by(older, table, length):
                    fields.setdefault(older, (path, words))
        return fields

    def _spelled_by(self, older: str, table: TextTable, length: int) -> Iterator[str]:
        """Yield the lists that hold the texts for the words given under a name."""
        words = list(itertools.islice(itertools.cycle(table), length))
        given: Any = words
        if all(isinstance(word, str) and len(word) == 1 for word in table):
            given = "".join(map(str, words))
        fields = self._fields({older: given})
        expected = [table[word] for word in words]
        for path, usual in self._usual_lists.items():
            texts = fields[path]
            is_spelled = usual != texts and texts == expected[: len(texts)]
            if len(texts) >= len(table) and is_spelled:
                yield path

    @cached_property
    def _usual(self) -> dict[str, Any]:
        return self._fields({})

    @cached_property
    def _usual_lists(self) -> dict[str, list[Any]]:
        return {
            path: value for path, value in self._usual.items() if isinstance(value, list) and value
        }

    def _config(self, changes: Mapping[str, Any]) -> Any:
        subject = self._subject
        return subject.bare_config(subject.nested({**subject.start, **changes}))

    def _fields(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        return self._subject.fields(self._config(changes))


def _read_by(config_class: type) -> dict[str, Any]:
    """Return the keywords that a config class and its bases read, with their defaults."""
    defaults: dict[str, set[str]] = {}
    for base in config_class.__mro__:
        if base.__module__.startswith("transformers.models."):
            for name, default in _READ.findall(inspect.getsource(base)):
                defaults.setdefault(name, set()).add(default)
    return {name: literal_in(" or ".join(texts)) for name, texts in defaults.items()}


def literal_in(text: str) -> bool | int | float | str | None:
    """Return the value of a flag, number or text; None for other code."""
    with contextlib.suppress(ValueError, SyntaxError):
        value = ast.literal_eval(text.strip())
        if isinstance(value, bool | int | float | str):
            return value
    return None


def _text_tables(code: str) -> list[TextTable]:
    """Return the dicts of code whose keys are words or numbers and whose values are texts."""
    tables: list[TextTable] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Dict) and len(node.keys) > 1:
            with contextlib.suppress(ValueError):
                table = ast.literal_eval(node)
                if _is_text_table(table):
                    tables.append(table)
    return tables


def _is_text_table(table: dict[Any, Any]) -> bool:
    return all(
        isinstance(word, str | int) and isinstance(text, str) for word, text in table.items()
    )


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
