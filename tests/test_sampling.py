"""What a whole run takes of sampled tests, with pytest itself run on a small project."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
import sampling

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["pytester"]
FAMILIES = [f"family{at % 60}{'-bert' * (at // 60)}" for at in range(120)]
SOURCE = f"""
import pytest

@pytest.mark.sampled
@pytest.mark.parametrize("family", {FAMILIES})
def test_a_family(family):
    pass

def test_alone():
    pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return a small project, where nothing has been touched."""
    monkeypatch.setattr(sampling, "touched", list)
    pytester.makeini("[pytest]\ntestpaths = .\nmarkers = sampled: takes a sample")
    pytester.makeconftest('pytest_plugins = ["sampling"]')
    pytester.makepyfile(test_families=SOURCE)
    return pytester


def taken(project: pytest.Pytester, *arguments: str) -> set[str]:
    """Return the cases that a run of the project takes, of both tests."""
    done = project.runpytest_inprocess("--collect-only", "-q", *arguments)
    return {line.partition("::")[2] for line in done.outlines if "::" in line}


def test_a_whole_run_takes_a_sample_and_each_test_that_is_not_sampled(
    project: pytest.Pytester,
) -> None:
    cases = taken(project)
    assert "test_alone" in cases
    assert 120 / sampling.SHARE / 2 < len(cases) < 120 / sampling.SHARE * 2
    assert cases == taken(project)


@pytest.mark.parametrize("arguments", [["test_families.py"], ["-k", "family"], ["--cases=all"]])
def test_a_run_that_names_tests_takes_every_case(
    project: pytest.Pytester, arguments: list[str]
) -> None:
    assert len(taken(project, *arguments) - {"test_alone"}) == 120


def test_a_run_that_names_tests_can_take_a_sample(project: pytest.Pytester) -> None:
    assert taken(project, "--cases=some", "test_families.py") == taken(project)


def test_a_family_whose_file_is_new_is_taken(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = taken(project)
    absent = next(name for name in FAMILIES[60:] if f"test_a_family[{name}]" not in drawn)
    monkeypatch.setattr(sampling, "touched", lambda: [f"{sampling.DATA}blueprints/{absent}.toml"])
    assert taken(project) == drawn | {f"test_a_family[{absent}]"}


@pytest.mark.parametrize("file", ["web/src/map.ts", "test_families.py"])
def test_all_cases_are_taken_if_their_part_of_the_code_or_their_test_is_new(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    project.makepyfile(test_families=SOURCE.replace("sampled", 'sampled(*["src/one", "web"])'))
    assert len(taken(project)) < 120
    monkeypatch.setattr(sampling, "touched", lambda: ["README.md", file])
    assert len(taken(project) - {"test_alone"}) == 120


def test_the_files_that_the_last_commits_and_the_present_work_touched_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        named = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *named, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for at in range(sampling.COMMITS + 1):
        (tmp_path / f"{at}.toml").write_text(f"at = {at}")
        git("add", "-A")
        git("commit", "-m", f"{at}")
    monkeypatch.setattr(sampling, "ROOT", tmp_path)
    last = {f"{at}.toml" for at in range(1, sampling.COMMITS + 1)}
    assert {*sampling.touched()} == last
    (tmp_path / "0.toml").write_text("changed")
    (tmp_path / "new.toml").write_text("new")
    assert {*sampling.touched()} == last | {"0.toml", "new.toml"}
    monkeypatch.setattr(sampling, "ROOT", tmp_path / "none")
    assert sampling.touched() == []


def test_every_part_that_a_mark_names_exists() -> None:
    marks = re.compile(r"@pytest\.mark\.sampled\(([^)]*)\)")
    sources = [path.read_text("utf-8") for path in (sampling.ROOT / "tests").rglob("test_*.py")]
    parts = {
        part
        for source in sources
        for mark in marks.findall(source)
        for part in re.findall(r'"([^"]+)"', mark)
    }
    assert len(parts) > 10
    missing = [part for part in parts if not any(sampling.ROOT.glob(f"{part}*"))]
    assert missing == []


def test_processes_of_xdist_take_what_the_first_one_chose(project: pytest.Pytester) -> None:
    done = project.runpytest_inprocess("-n", "2")
    done.assert_outcomes(passed=len(taken(project)))
