"""The data: what a wheel holds compiled is what the TOML says, and is read in its place."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from weighbridge import data

ROOT = Path(data.ROOT)
PATHS = sorted(data.toml_paths())
BLUEPRINTS = [path for path in PATHS if path.startswith("blueprints/")]
SOME = [path for path in PATHS if path not in BLUEPRINTS] + BLUEPRINTS[::20]


def test_every_table_is_compiled() -> None:
    files = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.toml")}
    assert files == set(PATHS)


@pytest.mark.parametrize("path", SOME)
def test_a_compiled_table_is_what_its_toml_says(path: str) -> None:
    written = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))
    assert same(data.loaded(data.compiled(path)), written)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, of one type, and in one order: true is not 1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_what_is_compiled_is_read_in_place_of_toml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "here.toml").write_text("size = 1", encoding="utf-8")
    monkeypatch.setattr(data, "ROOT", str(tmp_path))
    monkeypatch.setattr(data, "read_toml", cache(data.read_toml.__wrapped__))
    assert data.read_toml("facts/here.toml") == {"size": 1}
    (path,) = data.toml_paths()
    place = tmp_path / data.COMPILED / path
    place.parent.mkdir(parents=True)
    place.write_bytes(data.compiled(path))
    data.read_toml.cache_clear()
    (tmp_path / "facts" / "here.toml").write_text("size = 2", encoding="utf-8")
    assert data.read_toml("facts/here.toml") == {"size": 1}
