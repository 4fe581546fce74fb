"""The data: the compiled tables of a wheel equal the TOML files and are read instead of them."""

from __future__ import annotations

import marshal
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge import data
from weighbridge.algebra.expr import parse, source
from weighbridge.blueprint import roles, schema
from weighbridge.models import catalogue
from weighbridge.models.compiled import compiled_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(data.ROOT)
PATHS = sorted(data.toml_paths())
BLUEPRINTS = [path for path in PATHS if path.startswith("blueprints/")]
RELEASED = catalogue.released()
NAMES = catalogue.full_names()
COMPILED_CATALOGUE = catalogue.compiled_files()
NO_NAMES = ("", " ", "\n", "\t", ", ", '"', "bert", "float32", "bertmodel", "0", "nobody/nothing")
SOME = [path for path in PATHS if path not in BLUEPRINTS] + BLUEPRINTS[::20]


def test_every_table_is_compiled() -> None:
    files = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.toml")}
    assert files == set(PATHS)


def test_every_blueprint_has_its_trees_in_a_wheel() -> None:
    tables = {path for path, _ in compiled_tables()}
    trees = {
        f"{data.PREPARED}/{path[len('blueprints/') : -len('.toml')]}.trees" for path in BLUEPRINTS
    }
    assert trees <= tables
    assert f"{data.PREPARED}/sentence_transformers/Dense.trees" in trees


@pytest.mark.parametrize("path", SOME)
def test_a_compiled_table_equals_its_toml(path: str) -> None:
    written = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))
    assert same(marshal.loads(data.marshalled(written)), written)  # noqa: S302  # made a moment ago


def test_a_table_is_compiled_to_the_same_bytes_whatever_else_holds_its_parts() -> None:
    table = {"sizes": [1000, 2000]}
    alone = data.marshalled(table)
    held = table["sizes"]
    assert data.marshalled(table) == alone
    assert held == [1000, 2000]


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, with the same types and the same order: true is not 1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Use the data folder of a wheel instead of this checkout's."""
    monkeypatch.setattr(data, "ROOT", str(tmp_path))
    for folder in ("facts", f"{data.COMPILED}/facts"):
        (tmp_path / folder).mkdir(parents=True)
    cached = (data.is_compiled, data.read_toml, data.read_text)
    for function in cached:
        function.cache_clear()
    yield tmp_path
    for function in cached:
        function.cache_clear()


def test_compiled_tables_are_read_in_place_of_toml(wheel: Path) -> None:
    (wheel / "facts" / "here.toml").write_text("size = 1", encoding="utf-8")
    (wheel / data.COMPILED / "facts" / "here.toml").write_bytes(data.marshalled({"size": 2}))
    assert list(data.toml_paths()) == ["facts/here.toml"]
    assert data.is_compiled()
    assert data.read_toml("facts/here.toml") == {"size": 2}


def test_the_precomputed_results_of_a_wheel_are_read(wheel: Path) -> None:
    place = wheel / data.COMPILED / data.PREPARED / "bert.trees"
    place.parent.mkdir()
    place.write_bytes(data.marshalled({"2 * width": parse("2 * width")}))
    assert data.read_prepared("bert.trees") == {"2 * width": parse("2 * width")}


def test_a_wheel_finds_each_released_model_that_a_checkout_finds(wheel: Path) -> None:
    prepared = wheel / data.COMPILED / data.PREPARED
    prepared.mkdir()
    for name, content in COMPILED_CATALOGUE.items():
        (prepared / name).write_bytes(content)
    names = catalogue.full_names()
    assert list(names.items()) == list(NAMES.items())
    for name, full_name in names.items():
        assert catalogue.entry_of(name.upper()) == (full_name, RELEASED[full_name]), name
    assert same(catalogue.released(), RELEASED)
    for name in NO_NAMES:
        assert catalogue.entry_of(name) is None, name


def test_a_checkout_finds_each_released_model_by_each_of_its_names() -> None:
    for name, full_name in NAMES.items():
        assert catalogue.entry_of(name.upper()) == (full_name, RELEASED[full_name]), name
    for name in NO_NAMES:
        assert catalogue.entry_of(name) is None, name


def test_a_checkout_has_nothing_compiled() -> None:
    assert not data.is_compiled()
    assert data.read_prepared("bert.trees") is None


def test_the_patterns_of_roles_can_be_compiled() -> None:
    patterns = roles.patterns_by_piece()
    assert same(marshal.loads(data.marshalled(patterns)), patterns)  # noqa: S302


@pytest.mark.parametrize("name", ["bert", "../blueprints/bert", "bert.toml", "", ".", "nothing"])
def test_a_family_is_a_file_of_that_name(name: str) -> None:
    assert schema.is_family(name) is (name in schema.families())


@pytest.mark.parametrize("family", ["bert", "deepseek_v3", "swin"])
def test_a_wheel_holds_every_expression_of_a_blueprint(family: str) -> None:
    trees = schema.parsed_expressions(family)
    blueprint = schema.load(family)
    assert set(blueprint.dims) <= set(trees)
    for text, tree in trees.items():
        assert source(tree) == source(parse(text))
        assert same(marshal.loads(data.marshalled({text: tree}))[text], tree)  # noqa: S302
