"""The census: every part is counted once, and the picture in the docs is that of today's data."""

from __future__ import annotations

from pathlib import Path

import census
import pytest

import weighbridge as wb
from weighbridge.data import LANGUAGES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def taken() -> census.Census:
    return census.take()


@pytest.mark.slow
def test_every_model_of_the_catalogue_is_weighed(taken: census.Census) -> None:
    names = {each.name for each in taken.models}
    assert set(wb.released()) <= names
    assert not set(taken.refused) & set(wb.released())


@pytest.mark.slow
def test_the_parts_of_a_model_are_all_of_it(taken: census.Census) -> None:
    for each in taken.models:
        assert sum(each.parts.values()) == each.parameters


@pytest.mark.slow
def test_models_of_the_same_sizes_are_drawn_once(taken: census.Census) -> None:
    distinct = {(each.family, tuple(each.parts.items())) for each in taken.models}
    assert len(taken.distinct) == len(distinct) < len(taken.models)


@pytest.mark.slow
@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_picture_in_the_docs_is_the_census(taken: census.Census, lang: str) -> None:
    drawn = (DOCS / census.PICTURES[lang]).read_text(encoding="utf-8")
    assert drawn == census.picture(taken, lang)
