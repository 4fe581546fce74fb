"""What tools/mutants.py mutates and counts, and when it fails; mutmut itself does not run."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = "src/weighbridge/units.py"
FAULTS = {"killed": 1, "timeout": 36, "survived": 0, "no tests": 33, "not checked": None}


@pytest.fixture(scope="module")
def tool():
    pytest.importorskip("mutmut")
    return runpy.run_path(str(ROOT / "tools" / "mutants.py"))


@pytest.fixture
def target(tool, tmp_path):
    """Return a module whose faults have the results that a test sets."""

    class Tried(tool["Target"]):
        workspace = tmp_path

        def come_to(self, statuses):
            names = [f"weighbridge.units.x_f__mutmut_{n}" for n in range(len(statuses))]
            results = tmp_path / "mutants" / f"{SOURCE}.meta"
            results.parent.mkdir(parents=True, exist_ok=True)
            codes = {name: FAULTS[status] for name, status in zip(names, statuses, strict=True)}
            results.write_text(json.dumps({"exit_code_by_key": codes}))
            return names

        def survivor(self, name):
            return tool["Survivor"]("units.py", name.rpartition(".")[2], "before", "after")

    return Tried("units")


def listing(monkeypatch, tool, tmp_path, survivors):
    path = tmp_path / "list.toml"
    entries = [f'{survivor}\nreason = "no result changes"\n' for survivor in survivors]
    path.write_text("\n".join(["slow = []", *entries]))
    monkeypatch.setitem(tool["listed"].__globals__, "LISTS", path)


def test_a_target_is_a_room_or_a_module_of_one(tool):
    room, module = tool["Target"]("ledger"), tool["Target"]("guessing/unknowns")
    assert Path("src/weighbridge/ledger/places.py") in room.sources
    assert room.tests == "tests/ledger"
    assert module.sources == [Path("src/weighbridge/guessing/unknowns.py")]
    assert module.tests == "tests/guessing/test_unknowns.py"
    assert room.workspace.parent == module.workspace.parent == ROOT / "build" / "mutants"


def test_faults_that_a_test_notices_or_hangs_on_are_counted(
    tool, target, tmp_path, monkeypatch, capsys
):
    listing(monkeypatch, tool, tmp_path, [])
    names = target.come_to(["killed"] * 9 + ["timeout"])
    assert tool["report"](target, names, is_all=False) == 0
    assert "units: 10 faults, 10 noticed (100.0%), 0 not, 0 of these" in capsys.readouterr().out


@pytest.mark.parametrize("status", ["survived", "no tests", "not checked"])
def test_a_fault_that_is_not_noticed_must_be_listed(
    tool, target, tmp_path, monkeypatch, capsys, status
):
    names = target.come_to(["killed"] * 9 + [status])
    for survivors, failed in (([], 1), ([target.survivor(names[-1])], 0)):
        listing(monkeypatch, tool, tmp_path, survivors)
        assert tool["report"](target, names, is_all=False) == failed
        printed = capsys.readouterr().out
        assert ('function = "x_' in printed) is bool(failed)
        assert "10 faults, 9 noticed (90.0%), 1 not" in printed


def test_fewer_than_nine_of_ten_are_too_few_even_if_they_are_listed(
    tool, target, tmp_path, monkeypatch
):
    names = target.come_to(["killed"] * 8 + ["survived"] * 2)
    listing(monkeypatch, tool, tmp_path, map(target.survivor, names))
    assert tool["report"](target, names, is_all=False) == 1


def test_a_listed_fault_that_is_noticed_is_no_longer_listed(
    tool, target, tmp_path, monkeypatch, capsys
):
    names = target.come_to(["killed"] * 10)
    listing(monkeypatch, tool, tmp_path, [target.survivor(names[0])])
    assert tool["report"](target, names, is_all=False) == 0
    assert tool["report"](target, names, is_all=True) == 1
    assert "but it does not survive" in capsys.readouterr().out


def test_every_listed_fault_has_a_reason_and_a_file(tool):
    entries = tool["tomllib"].loads(tool["LISTS"].read_text(encoding="utf-8"))["survivor"]
    for entry in entries:
        assert entry.keys() == {*tool["Survivor"]._fields, "reason"}
        assert (ROOT / "src" / "weighbridge" / entry["module"]).is_file()
        assert entry["reason"]
