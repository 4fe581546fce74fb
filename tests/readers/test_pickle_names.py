"""What a pickle names is listed and judged, as picklescan and fickling judge it.

The names and verdicts are those that the tests of picklescan 1.0.5 (``tests/test_scanner.py`` of
its sdist) expect of its files, which are pickles like these; fickling 0.1.12 lists modules
(``UNSAFE_IMPORTS`` of ``fickle.py``).
"""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import hostile
import pytest
import torch

from weighbridge.cli import main
from weighbridge.errors import CheckpointError
from weighbridge.readers import pickled, read
from weighbridge.readers.pytorch import KNOWN
from weighbridge.readers.severity import DANGEROUS, INNOCUOUS, UNKNOWN, severity_of

# ruff: noqa: SIM905  # a list of words is easier to read and to compare with its source

# Dangerous for picklescan.
PICKLESCAN = """
__builtin__.apply __builtin__.compile __builtin__.eval __builtin__.exec __builtin__.getattr
_aix_support._read_cmd_output _io.FileIO _operator.attrgetter _operator.methodcaller
_osx_support._read_output _pickle.loads _pyrepl.pager.pipe_pager aiohttp.client.ClientSession
bdb.Bdb bdb.Bdb.run builtins.eval builtins.exec cProfile.run cProfile.runctx
cloudpickle.cloudpickle._builtin_type cloudpickle.cloudpickle._function_setstate
cloudpickle.cloudpickle._make_cell cloudpickle.cloudpickle._make_empty_cell
cloudpickle.cloudpickle._make_function cloudpickle.cloudpickle.subimport
code.InteractiveInterpreter.runcode ctypes.CDLL distutils.file_util.write_file
doctest.debug_script ensurepip._run_pip functools.partial httplib.HTTPSConnection
idlelib.autocomplete.AutoComplete.get_entity idlelib.calltip.Calltip.fetch_tip
idlelib.calltip.get_entity idlelib.debugobj.ObjectTreeItem.SetText
idlelib.pyshell.ModifiedInterpreter.runcode idlelib.run.Executive.runcode imaplib.IMAP4_stream
lib2to3.pgen2.grammar.Grammar.loads logging.FileHandler numpy.f2py.crackfortran.getlincoef
numpy.testing._private.utils.runstring operator.attrgetter operator.methodcaller os.system
pickle.loads pip.main pkgutil.resolve_name posix.system profile.Profile.run
profile.Profile.runctx profile.run pty.spawn pydoc.locate pydoc.pipepager requests.api.get
runpy._run_code socket.create_connection ssl.get_server_certificate subprocess.run sys.exit
test.support.script_helper.assert_python_ok timeit.timeit torch._dynamo.guards.GuardBuilder.get
torch._inductor.codecache.compile_file torch.jit.unsupported_tensor_ops.execWrapper
torch.serialization.load torch.utils.bottleneck.__main__.run_cprofile torch.utils.collect_env.run
trace.Trace.run trace.Trace.runctx types.CodeType urllib.request.urlopen
uuid._get_command_stdout venv.create
""".split()
# Dangerous for fickling, though only suspicious or unknown to picklescan.
FICKLING = """
__builtin__.globals builtins.__import__ torch.utils.collect_env.run_and_read_all
importlib.import_module marshal.loads multiprocessing.Process smtplib.SMTP tempfile.mkstemp
threading.Thread atexit.register signal.signal sqlite3.connect shelve.open joblib.load
dill.loads inspect.getattr_static gc.get_objects site.main zipimport.zipimporter platform.popen
""".split()
# Suspicious for picklescan, because its list of innocuous names is short, and harmless.
SUSPICIOUS = ["__builtin__.dict", "_codecs.encode", "collections.Counter"]
INNOCUOUS_NAMES = """
collections.OrderedDict torch.FloatStorage torch.BFloat16Storage torch._utils._rebuild_tensor_v2
torch.QInt8Storage numpy.dtype numpy.ndarray numpy.core.multiarray._reconstruct
numpy._core.multiarray._reconstruct torch.Size
""".split()


@pytest.mark.parametrize(
    ("names", "severity"),
    [
        (PICKLESCAN, DANGEROUS),
        (FICKLING, DANGEROUS),
        (SUSPICIOUS + INNOCUOUS_NAMES, INNOCUOUS),
        (
            ["42.os", "mymodule.myfunc", "sklearn.svm.SVC", "osmosis.run", "torch._utils.other"],
            UNKNOWN,
        ),
    ],
    ids=["picklescan", "fickling", "harmless", "unknown"],
)
def test_names_are_judged(names: list[str], severity: str) -> None:
    assert {name: severity_of(name, KNOWN) for name in names} == dict.fromkeys(names, severity)


def split(name: str) -> tuple[bytes, bytes]:
    """Return the module and the name, as they stand in a pickle."""
    module, _, attribute = name.rpartition(".")
    return module.encode(), attribute.encode()


def text(value: bytes) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value


# The ways in which a pickle can name what it imports.
WAYS = {
    "GLOBAL": lambda module, name: b"c" + module + b"\n" + name + b"\n(S'true'\ntR.",
    "INST": lambda module, name: b"(S'true'\ni" + module + b"\n" + name + b"\n.",
    "OBJ": lambda module, name: b"(c" + module + b"\n" + name + b"\nS'true'\no.",
    "STACK_GLOBAL": lambda module, name: b"\x80\x04" + text(module) + text(name) + b"\x93)R.",
    "NEWOBJ": lambda module, name: b"\x80\x02c" + module + b"\n" + name + b"\n)\x81.",
    "from the memo": lambda module, name: (
        b"V" + module + b"\np2\n0V" + name + b"\np3\n0Vtorch\np0\n0VLongStorage\np1\n0g2\ng3\n\x93."
    ),
    "from the memo, twice": lambda module, name: (
        b"\x80\x04" + text(module) + b"\x94\x940" + text(name) + b"\x940h\x01h\x02\x93)R."
    ),
    "after another pickle": lambda module, name: (
        pickle.dumps(["a"], 2) + b"\x80\x02c" + module + b"\n" + name + b"\n)R."
    ),
    "before a damaged end": lambda module, name: b"c" + module + b"\n" + name + b"\n)R\xff\xff",
    "before a cut": lambda module, name: b"\x80\x02c" + module + b"\n" + name + b"\n(X\x90\0\0\0a",
    "never called": lambda module, name: b"c" + module + b"\n" + name + b"\n0N.",
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_name_something_is_seen(way: str, tmp_path: Path) -> None:
    for name in ("os.system", "builtins.eval", "bdb.Bdb.run", "runpy._run_code"):
        content = WAYS[way](*split(name))
        path = tmp_path / "a.pt"
        path.write_bytes(content)
        with pytest.raises(CheckpointError) as caught:
            read(path)
        assert caught.value.rule == "pickle-global"
        assert caught.value.values == {"dangerous": name}
        if way != "after another pickle":
            path.write_bytes(hostile.saved(content))
            with pytest.raises(CheckpointError, match=rf"pickle-global: .*dangerous = '{name}'"):
                read(path)


def test_all_names_are_listed_with_what_they_are() -> None:
    # The pickle of the talk "Sour Pickles" (Black Hat 2011), in picklescan's tests.
    content = (
        b"c__builtin__\nglobals\n(tRp100\n0c__builtin__\ncompile\n(S'x'\nS''\nS'exec'\ntRp101\n0"
        b"c__builtin__\neval\n(g101\ng100\ntRp102\n0c__builtin__\ngetattr\n(c__builtin__\ndict\n"
        b"S'get'\ntRp103\n0c__builtin__\napply\n(g103\n(g100\nS'x'\nltRp104\n0g104\n."
    )
    named: dict[str, None] = {}
    pickled.unpickled(content, "a.pkl", named=named)
    found = {name.removeprefix("__builtin__."): severity_of(name, KNOWN) for name in named}
    dangerous = dict.fromkeys(["globals", "compile", "eval", "getattr", "apply"], DANGEROUS)
    assert found == {**dangerous, "dict": INNOCUOUS}


def test_a_name_that_is_not_a_text_is_refused(tmp_path: Path) -> None:
    for content in (b"\x80\x04K\x2a\x8c\x02os\x93.", b"\x80\x04\x8c\x02osh\x09\x93."):
        (tmp_path / "a.pt").write_bytes(hostile.saved(content))
        with pytest.raises(CheckpointError, match="pickle-step: "):
            read(tmp_path / "a.pt")


@pytest.mark.parametrize("position", range(5))
def test_each_pickle_of_an_old_file_is_held_to_the_list(tmp_path: Path, position: int) -> None:
    buffer = io.BytesIO()
    torch.save({"a": torch.zeros(2)}, buffer, _use_new_zipfile_serialization=False)
    raw, at, parts = buffer.getvalue(), 0, []
    for _ in range(5):
        _, end = pickled.unpickled(raw, "a.pt", at)
        parts.append(raw[at:end])
        at = end
    (tmp_path / "a.pt").write_bytes(b"".join(parts) + raw[at:])
    assert [row.name for row in read(tmp_path / "a.pt").rows] == ["a"]
    parts[position] = b"\x80\x02cposix\nsystem\n(X\x04\0\0\0true" + b"tR."
    (tmp_path / "a.pt").write_bytes(b"".join(parts) + raw[at:])
    with pytest.raises(CheckpointError, match=r"pickle-global: .*dangerous = 'posix.system'"):
        read(tmp_path / "a.pt")


def test_a_magic_number_that_is_computed_hides_nothing(tmp_path: Path) -> None:
    magic = b"\x80\x02c__builtin__\neval\n(X\x16\0\0\0" + b"0x1950A86A20F9469CFC6CtR."
    content = magic + pickle.dumps(1001, 2) + pickle.dumps({}, 2)
    (tmp_path / "a.pt").write_bytes(content + b"\x80\x02cposix\nsystem\n)R." + pickle.dumps([], 2))
    with pytest.raises(CheckpointError, match=r"__builtin__\.eval, posix\.system"):
        read(tmp_path / "a.pt")


def test_inspect_lists_the_names_of_a_sound_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"a": torch.zeros(2)}, tmp_path / "a.pt")
    assert main(["inspect", str(tmp_path / "a.pt")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "all harmless, none imported: torch._utils._rebuild_tensor_v2, " in shown
    assert main(["inspect", str(tmp_path / "a.pt"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pickle"] == {
        "torch._utils._rebuild_tensor_v2": "innocuous",
        "torch.FloatStorage": "innocuous",
        "collections.OrderedDict": "innocuous",
    }


@pytest.mark.parametrize("zipped", [True, False])
def test_a_whole_module_is_refused_with_the_way_to_its_weights(
    zipped: bool, tmp_path: Path
) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    torch.save(module, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match="pickle-global") as caught:
        read(tmp_path / "a.pt")
    assert "torch.save(module.state_dict(), 'weights.pt')" in caught.value.hint
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    assert len(read(tmp_path / "weights.pt").rows) == 2


def test_one_that_names_what_is_dangerous_has_no_way_on(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(pickle.dumps([os.system, torch.nn.Linear]))
    with pytest.raises(CheckpointError, match="Do not load this checkpoint"):
        read(tmp_path / "a.pt")


def test_a_pickle_without_a_known_suffix_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Path.cwd, 4))
    with pytest.raises(CheckpointError, match=r"pickle-global: .*unknown = 'pathlib"):
        read(tmp_path / "model.pkl")


def test_a_wrong_checksum_in_an_archive_hides_nothing(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/data.pkl", b"cos\nsystem\n(S'true'\ntR.")
    raw = bytearray((tmp_path / "a.pt").read_bytes())
    at = raw.index(b"PK\1\2") + 16
    raw[at : at + 4] = bytes(4)
    (tmp_path / "a.pt").write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"dangerous = 'os.system'"):
        read(tmp_path / "a.pt")
