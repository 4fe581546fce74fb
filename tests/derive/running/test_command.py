"""`weighbridge derive`: what it prints and writes; code that hangs, dies or is stopped."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import torch
from own_models import moe

from weighbridge import data, weigh
from weighbridge.blueprint import law
from weighbridge.cli import main
from weighbridge.derive import derivation
from weighbridge.derive.probing import reference
from weighbridge.derive.running import command, folder, runs
from weighbridge.derive.running.folder import STATE
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Iterator

torch.set_num_threads(1)

HERE = Path(__file__).parents[2] / "support"
TINY = ("idefics3_vision", "cosmos3_edge_vision", "chinese_clip_vision_model")
MOE = "own_models.moe:MoE"


class Output(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]):
    """Return a function that runs `weighbridge derive` and returns its status and output."""

    def ran(*arguments: str) -> Output:
        status = main(("derive", *arguments))
        return Output(status, *capfd.readouterr())

    return ran


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def texts(path: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(path.iterdir())}


# A user's own class


def test_a_user_s_class_is_written_and_its_formula_printed(run, there: Path) -> None:
    output = run(MOE, "--config", "own_models.moe:MoEConfig")
    total = sum(parameter.numel() for parameter in moe.MoE(moe.MoEConfig()).parameters())
    assert output.err == ""
    assert output.out.startswith(f"MoE: {total:,} parameters at the defaults\n= 2·dim·vocab + ")
    assert "moe.toml: the blueprint, proved against the code on 76 unseen configs" in output.out
    assert max(map(len, output.out.splitlines())) <= 80
    assert (output.status, [file.name for file in there.iterdir()]) == (0, ["moe.toml"])
    assert main(("weigh", "moe.toml", "--set", "experts=7", "--json")) == 0


def test_the_output_of_the_code_is_not_in_the_answer(run, there: Path) -> None:
    output = run(
        "own_models.strange:Talks",
        "--family",
        "talker",
        "--output",
        "here.toml",
        "--set",
        "factor=3",
    )
    assert output.out.splitlines()[:2] == [
        "Talks: 216 parameters at the defaults",
        "= factor·width² + factor·width",
    ]
    assert "made of" not in output.out + output.err
    assert 'family = "talker"' in Path("here.toml").read_text(encoding="utf-8")


def test_an_unrelated_file_is_left_alone(run, there: Path) -> None:
    Path("moe.toml").write_text("family = 'mine'\n", encoding="utf-8")
    output = run(MOE)
    assert (output.status, output.out) == (2, "")
    assert output.err.startswith(
        "weighbridge: moe.toml: exists, and is not a blueprint of moe. Name another file"
    )
    assert Path("moe.toml").read_text(encoding="utf-8") == "family = 'mine'\n"
    Path("moe.toml").write_text("family = 'moe'\n", encoding="utf-8")
    assert run(MOE).status == 2, "it names the family, but is not a blueprint"
    talks = ("own_models.strange:Talks", "--output", "other.toml")
    assert run(*talks).status == 0
    again = Path("other.toml").read_bytes()
    Path("other.toml").write_bytes(again + b"# by hand\n")
    assert run(*talks).status == 0
    assert Path("other.toml").read_bytes() == again, "a blueprint of the same family is replaced"


def test_what_is_not_proved_is_not_written(
    run, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = derivation.Derived("family = 'moe'\n", exact=False, holes=["it differs"])
    monkeypatch.setattr(derivation, "derive", lambda *_, **__: found)
    output = run(MOE)
    assert (output.status, output.out.strip(), list(there.iterdir())) == (1, "", [])
    assert output.err == (
        "weighbridge: not proved: it differs\n"
        "weighbridge: moe.toml was not written: the blueprint differs from what the code builds\n"
    )


@pytest.mark.parametrize(
    ("class_name", "words", "parameters", "formula"),
    [
        ("NoArguments", (), 44, "44"),
        ("AnyKeywords", (), 16, "4·width + 4"),
        ("WithDefaults", (), 144, "depth·(width² + width)"),
        ("WithSizes", ("--set", "width=8", "--set", "depth=2"), 144, "depth·(width² + width)"),
        ("WithDict", ("--config", "own_models.constructors:WIDTH"), 36, "4·width + 4"),
    ],
)
def test_a_class_is_derived_from_its_constructor(
    class_name: str, words: tuple[str, ...], parameters: int, formula: str, run, there: Path
) -> None:
    output = run(f"own_models.constructors:{class_name}", *words)
    assert (output.status, output.err) == (0, "")
    first, second, *_ = output.out.splitlines()
    assert first == f"{class_name}: {parameters} parameters at the defaults"
    assert second == f"= {formula}"
    (blueprint,) = there.iterdir()
    assert law.read_blueprint(str(blueprint)).base_class == class_name
    assert weigh(str(blueprint)).parameters == parameters


def test_a_blueprint_without_fields_says_so(run, there: Path) -> None:
    output = run("own_models.constructors:NoArguments")
    answer = " ".join(output.out.split())
    told = "the blueprint, without fields: no argument changes a tensor"
    assert f"no_arguments.toml: {told}" in answer
    assert "--set" not in answer
    chinese = run("own_models.constructors:NoArguments", "--lang", "zh")
    assert "没有字段" in chinese.out


REFUSED = {
    "an import": (
        ["nothing_such:Model"],
        "nothing_such:Model: there is no module nothing_such. Run this in the folder",
    ),
    "a class": (["own_models.gpt:GPTConfig"], "is not a torch.nn.Module class"),
    "a constructor": (["own_models.strange:Raises"], "building it raised RuntimeError: no GPU"),
    "no default": (["own_models.plain:TorchEncoder"], "TorchEncoder has no default for n_tokens"),
    "a config": (
        ["own_models.constructors:WithDict"],
        (
            "WithDict has no default for config. Name its config with --config "
            "own_models.constructors:NAME, a class, an object or a dict."
        ),
    ),
    "sizes": (
        ["own_models.constructors:WithSizes"],
        "WithSizes has no default for width, depth. Give --set width=… --set depth=…",
    ),
    "no module": (
        ["own_models.constructors:NoModule"],
        "is not a torch.nn.Module class",
    ),
    "two classes": ([MOE, "own_models.gpt:GPT"], "a class of your own must be the only subject"),
    "a set twice": ([MOE, "--set", "dim=3", "--set", "dim=4"], "--set gives dim twice"),
    "a task class": ([MOE, "--class", "MoF"], "own_models.moe has no attribute MoF"),
    "a worker's death": (
        ["own_models.strange:Dies"],
        "own_models.strange:Dies: its process exited with status 3",
    ),
    "a family": (
        ["idefics3_vison"],
        "has no model type idefics3_vison. Did you mean idefics3_vision",
    ),
    "a family's class": (
        ["gpt2", "--class", "GPT2LMHed"],
        "gpt2 has no class GPT2LMHed. Did you mean GPT2LMHeadModel",
    ),
    "all and one": (["all", "bert"], "`all` already includes every family"),
    "a class of all": (["all", "--class", "X"], "--class works with one family only"),
    "a config of a family": (
        ["bert", "--config", "a:B"],
        "--config works only with a class of your own",
    ),
    "a field of a family": (["bert", "--set", "a=1"], "--set works only with a class of your own"),
    "no jobs": (
        ["bert", "--jobs", "0"],
        "--jobs must be a number of processes (jobs = 0). Give 1 or more.",
    ),
    "no time": (["bert", "--limit", "-1"], "--limit must be a time in seconds"),
    "no such folder": (
        ["bert", "--output", "no/such/bert.toml"],
        "no/such: there is no such folder",
    ),
    "a file for a folder": (
        ["bert", "gpt2", "--output", "/dev/null"],
        "/dev/null: is not a folder that can be written to",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_derived_is_one_line(case: str, run, there: Path) -> None:
    arguments, reason = REFUSED[case]
    output = run(*arguments)
    assert (output.status, output.out) == (2, "")
    assert output.err.startswith("weighbridge: ")
    assert output.err[:-1].isprintable(), "one line"
    assert reason in output.err
    assert list(there.iterdir()) == []


@pytest.mark.parametrize("case", [case for case in REFUSED if REFUSED[case][0][0] != MOE])
def test_a_refusal_is_in_the_language_of_the_user(case: str, run, there: Path) -> None:
    arguments, _ = REFUSED[case]
    output = run(*arguments, "--lang", "zh")
    assert (output.status, output.out) == (2, "")
    assert output.err.endswith(("。\n", "？\n"))
    in_words = re.sub(r"`[^`]*`", "", output.err)
    assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", in_words), "three English words in a row"


def test_code_that_hangs_is_killed(run, there: Path) -> None:
    output = run("own_models.strange:Sleeps", "--limit", "1.5")  # it sleeps for 600 seconds
    assert output.status == 2
    assert output.err == (
        "weighbridge: own_models.strange:Sleeps: was not derived within 1.5 seconds. "
        "Allow more time with --limit.\n"
    )
    assert not list(workers(os.getpid()))


@pytest.mark.parametrize(
    ("missing", "own"), [("torch", True), ("torch", False), ("transformers", False)]
)
def test_missing_packages_are_named_with_the_command_to_install_them(
    missing: str, own: bool, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        runs.importlib.util, "find_spec", lambda name: None if name == missing else name
    )
    output = run(MOE if own else "bert")
    assert output.status == 2
    assert output.err == (
        f"weighbridge: deriving runs the model's code; missing packages: {missing}. "
        "Run `pip install torch==2.13.0`, then `pip install 'weighbridge[derive]'`.\n"
    )


# Families


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with three families, derived one after another."""
    path = tmp_path_factory.mktemp("derived")
    status, answer = command.run_request(
        command.DeriveRequest(TINY, output=str(path)), lambda _: None
    )
    counts, times = answer.splitlines()
    assert (status, counts) == (0, f"{path}: 3 exact, 0 with holes, 0 failed, of 3")
    assert re.fullmatch(r"3 families derived in \d+\.\d s, \d+\.\d s in the median", times)
    return path


def test_one_family_is_the_answer(run, derived: Path) -> None:
    output = run(TINY[0])
    assert (output.status, output.err) == (0, "")
    assert output.out == (derived / f"{TINY[0]}.toml").read_text(encoding="utf-8")


def test_two_processes_give_the_same_bytes(run, derived: Path, there: Path) -> None:
    output = run(*reversed(TINY), "--jobs", "2", "--output", "two")
    counts, _times = output.out.splitlines()
    assert (output.status, counts) == (0, "two: 3 exact, 0 with holes, 0 failed, of 3")
    assert texts(there / "two") == texts(derived)
    assert set(texts(derived)) == {STATE, *[f"{family}.toml" for family in TINY]}
    lines = sorted(
        line.partition(": ")[2].partition(" ")[2].rpartition(",")[0]
        for line in output.err.splitlines()
    )
    assert lines == sorted(f"{family}: exact" for family in TINY)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of derived families; deriving costs nothing here."""
    names: list[str] = []

    def ran(tasks: list[runs.Task], *_: object) -> Iterator[runs.Done]:
        for task in tasks:
            names.append(task.subject)
            yield runs.Done(task, f'family = "{task.subject}"\n', exact=True)

    monkeypatch.setattr(command, "run_tasks", ran)
    return names


def copied(source: Path, target: Path) -> Path:
    target.mkdir()
    for name, text in texts(source).items():
        (target / name).write_text(text, encoding="utf-8")
    return target


def test_a_blueprint_that_is_up_to_date_is_not_derived_again(
    run, derived: Path, there: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copied(derived, there / "copy")
    output = run(*TINY, "--output", "copy")
    assert (output.status, output.out) == (0, "copy: 3 exact, 0 with holes, 0 failed, of 3\n")
    assert (output.err, counted, texts(path)) == (
        "weighbridge: 3/3 derived before\n",
        [],
        texts(derived),
    )

    run(*TINY, "--output", "copy", "--again")
    assert counted == list(TINY)


@pytest.mark.parametrize(
    "change", ["the file", "the file is gone", "the state", "the code", "the reference", "the seed"]
)
def test_what_has_changed_is_derived_again(
    change: str,
    run,
    derived: Path,
    there: Path,
    counted: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, more = copied(derived, there / "copy"), []
    file = path / f"{TINY[1]}.toml"
    if change == "the file":
        file.write_text(file.read_text(encoding="utf-8") + "# by hand\n", encoding="utf-8")
    elif change == "the file is gone":
        file.unlink()
    elif change == "the state":
        (path / STATE).write_text("{", encoding="utf-8")
    elif change == "the seed":
        more = ["--seed", "1"]
    else:
        name = {"the code": "_code_digest", "the reference": "_version"}[change]
        monkeypatch.setattr(folder, name, lambda: "another")
    assert run(*TINY, "--output", "copy", *more).status == 0
    assert counted == ([TINY[1]] if "file" in change else list(TINY))


def test_a_family_that_hangs_or_fails_is_reported_and_the_others_go_on(
    run, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strange(task: runs.Task) -> dict[str, object]:
        if task.subject == "gpt2":
            return {"text": "", "exact": False, "holes": ["it differs"]}
        if task.subject == TINY[0]:
            time.sleep(600)
        if task.subject == TINY[1]:
            os.kill(os.getpid(), signal.SIGKILL)
        if task.subject == "bert":
            raise RuntimeError("cannot")
        return {
            "text": f'family = "{task.subject}"\n',
            "exact": True,
            "holes": ["a line was never run"],
        }

    monkeypatch.setattr(runs, "_derived", strange)
    output = run(*TINY, "bert", "gpt2", "--jobs", "2", "--limit", "2", "--output", "some")
    assert output.status == 1
    results, times = output.out.rstrip("\n").rsplit("\n", 1)
    assert times.startswith("5 families derived in ")
    assert f"{results}\n" == (
        "some: 0 exact, 1 with holes, 4 failed, of 5\n"
        f"{TINY[2]}: a line was never run\n"
        f"{TINY[0]}: failed: was not derived within 2 seconds.\n"
        f"{TINY[1]}: failed: its process was killed by signal 9.\n"
        "bert: failed: deriving it raised RuntimeError: cannot.\n"
        "gpt2: failed: not proved: it differs\n"
    )
    assert set(texts(there / "some")) == {STATE, f"{TINY[2]}.toml"}
    assert not list(workers(os.getpid()))


def test_all_is_every_family_and_goes_to_the_checkout(
    run, there: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = there / "src" / "weighbridge" / "data"
    (root / "blueprints").mkdir(parents=True)
    shutil.copytree(Path(data.ROOT, "facts"), root / "facts")
    monkeypatch.setattr(data, "ROOT", str(root))
    output = run("all")
    assert output.status == 2
    assert "does not run from a writable checkout. Name a folder with --output." in output.err
    (there / "pyproject.toml").touch()
    (there / ".git").mkdir()
    assert run("all").status == 0
    assert counted == list(reference.model_types())
    assert len(texts(root / "blueprints")) == len(counted) + 1


def test_the_times_of_many_families_are_summed_in_both_languages() -> None:
    results = [
        runs.Done(runs.Task("bert"), exact=True, seconds=1),
        runs.Done(runs.Task("gpt2"), exact=True, seconds=2.5),
        runs.Done(runs.Task("opt"), exact=True, seconds=9),
        runs.Done(runs.Task("t5"), exact=True),  # derived before
    ]
    _, english = command._report(results, Path("here"), "en")
    _, chinese = command._report(results, Path("here"), "zh")
    _, single = command._report(results[:1], Path("here"), "en")
    assert english.endswith("\n3 families derived in 12.5 s, 2.5 s in the median")
    assert chinese.endswith("\n本次推导 3 个模型族，共用时 12.5 秒，中位数 2.5 秒")
    assert single.endswith("\n1 family derived in 1.0 s, 1.0 s in the median")


# Stopped in the middle


def workers(parent: int) -> Iterator[int]:
    """Yield the processes that a process has started and that still run."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, above = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(above) == parent and state != "Z":
            yield int(path.parent.name)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def waited(until) -> None:
    ends = time.monotonic() + 60
    while not until():
        assert time.monotonic() < ends
        time.sleep(0.02)


# Takes the first family from a folder, and hangs on the others. It runs no model, so it starts at
# once.
SLOWLY = """
import sys, time, types
from pathlib import Path
from weighbridge.cli import main
from weighbridge.derive.running import command, runs
folder, first = sys.argv[1:3]
def slowly(task):
    if task.subject != first:
        time.sleep(600)
    return {"text": Path(folder, f"{first}.toml").read_text(), "exact": True, "holes": []}
runs._derived = slowly
command.reference = lambda: types.SimpleNamespace(model_types=tuple, check_family=str)
sys.exit(main(["derive", *sys.argv[2:]]))
"""


def heard() -> None:
    """Accept Ctrl-C, which shells block for background processes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("stopped_by", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_whole_files_and_can_be_resumed(
    stopped_by: signal.Signals, run, derived: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOWLY, str(derived), *TINY, "--jobs", "2", "--output", "half"],
        preexec_fn=heard,  # noqa: PLW1509  # there are no threads here
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    waited(lambda: Path("half", STATE).exists() and len(list(workers(process.pid))) == 2)
    started = list(workers(process.pid))
    os.killpg(process.pid, stopped_by) if stopped_by is signal.SIGINT else process.kill()
    out, err = process.communicate(timeout=120)
    waited(lambda: not any(map(is_alive, started)))
    if stopped_by is signal.SIGINT:
        assert (process.returncode, out) == (130, "")
        assert err.splitlines()[-1] == "weighbridge: stopped"
        assert "Traceback" not in err
    first = texts(there / "half")
    assert set(first) == {STATE, f"{TINY[0]}.toml"}
    assert first[f"{TINY[0]}.toml"] == (derived / f"{TINY[0]}.toml").read_text(encoding="utf-8")
    assert list(json.loads(first[STATE])) == [TINY[0]]

    known = texts(derived)
    monkeypatch.setattr(
        runs,
        "_derived",
        lambda task: {"text": known[f"{task.subject}.toml"], "exact": True, "holes": []},
    )
    output = run(*TINY, "--jobs", "2", "--output", "half")
    assert (output.status, output.err.splitlines()[0]) == (0, "weighbridge: 1/3 derived before")
    assert texts(there / "half") == texts(derived)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_user_s_code_is_stopped_without_output_of_its_own(there: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "weighbridge", "derive", "own_models.strange:Sleeps"],
        preexec_fn=heard,  # noqa: PLW1509  # there are no threads here
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )
    waited(lambda: list(workers(process.pid)))
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "weighbridge: stopped\n")


def test_a_file_is_replaced_whole_or_not_at_all(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = there / "file.toml"
    folder.write_whole(path, "first")
    monkeypatch.setattr(
        Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(WeighbridgeError, match="cannot be written: No space left on device"):
        folder.write_whole(path, "second")
    assert texts(there) == {"file.toml": "first"}


def test_progress_is_one_line_redrawn_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    with command.Progress(3, shown) as progress:
        progress.show("derived before", 2)
        progress.show("bert: exact", 1)
    assert shown.getvalue() == (
        "\r\x1b[K[################--------] 2/3 derived before"
        "\r\x1b[K[########################] 3/3 bert: exact\n"
    )
