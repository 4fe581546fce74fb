"""What must hold of a release, and that each fault is told."""

from pathlib import Path

import pytest
import release

import weighbridge

CHANGELOG = (release.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_changelog_agrees_with_the_package():
    assert list(release.disagreements(weighbridge.__version__, CHANGELOG)) == []


@pytest.mark.parametrize(
    ("changelog", "tag", "said"),
    [
        ("", "", "neither"),
        ("## 0.9.0 - 2026-01-01", "", "begins with 0.9.0"),
        ("## 1.0.0 - 2026-01-01", "v1.0.1", "the tag is v1.0.1"),
        ("## Unreleased\n\n## 1.0.0 - 2026-01-01", "v1.0.0", "unreleased changes"),
    ],
)
def test_each_disagreement_is_told(changelog, tag, said):
    (line,) = release.disagreements("1.0.0", changelog, tag)
    assert said in line


def test_a_wheel_of_another_version_or_too_large_is_told(tmp_path: Path):
    assert list(release.wheel_faults("1.0.0", tmp_path, 8)) == [
        f"{tmp_path} has no wheel of weighbridge"
    ]
    (tmp_path / "weighbridge-1.0.0-py3-none-any.whl").write_bytes(bytes(release.MIB))
    assert list(release.wheel_faults("1.0.0", tmp_path, 1)) == []
    (line,) = release.wheel_faults("1.1.0", tmp_path, 1)
    assert "has the version 1.0.0" in line
    (line,) = release.wheel_faults("1.0.0", tmp_path, 0.5)
    assert "more than 0.5" in line


def test_a_start_that_imports_more_is_told():
    assert list(release.start_faults(100, 100)) == []
    (line,) = release.start_faults(101, 100)
    assert "101 modules" in line
