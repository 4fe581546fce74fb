"""Each measure of tools/density.py, on snippets of known density."""

import runpy
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield runpy.run_path(str(ROOT / "tools" / "density.py"))


@pytest.fixture(scope="module")
def measured(tool):
    return lambda text, module="room.py": tool["measure"](dedent(text), f"src/{module}", module)


def messages(breaches):
    return [f"{place}: {message}" for place, message in breaches]


@pytest.mark.parametrize(
    ("expression", "nested"),
    [
        ("[a for a in b]", 0),
        ("[a for a in b if a if not b]", 0),
        ("[a for b in c for a in b]", 1),
        ("[[a for a in b] for b in c]", 1),
        ("[a for a in {b for b in c}]", 1),
        ("sum(any(a for a in b) for b in c)", 1),
        ("{a: [b for b in a] for a in c}", 1),
        ("[lambda: (a for a in b) for b in c]", 1),
        ("[[[a for a in b] for b in c] for c in d]", 2),
        ("[[a for a in b for b in c] for c in d]", 2),
        ("[a for a in b] + [c for c in d]", 0),
    ],
)
def test_nested_comprehensions(measured, expression, nested):
    assert len(measured(expression).nested) == nested


def test_a_place_is_file_and_line(measured):
    density = measured(
        "\n\nx = [[a for a in b] for b in c]\ny = 1 if x else 2\n", "rooms/deep/one.py"
    )
    assert density.nested == ["src/rooms/deep/one.py:3"]
    assert density.conditionals == ["src/rooms/deep/one.py:4"]


@pytest.mark.parametrize(
    ("text", "conditionals"),
    [
        ("if a:\n    b", 0),
        ("[a for a in b if a]", 0),
        ("a if b else c", 1),
        ("a if b else c if d else e", 2),
        ("lambda: a if b else c", 1),
    ],
)
def test_conditional_expressions(measured, text, conditionals):
    assert len(measured(text).conditionals) == conditionals


def test_blank_lines_do_not_count(measured):
    assert measured('"""Doc.\n\nMore.\n"""\n\n# A comment.\n   \na = 1\n').lines == 5


@pytest.mark.parametrize(
    ("line", "width"),
    [
        ("a" * 100, None),
        ("a" * 101, 101),
        ("# " + "a" * 99, 101),
        ("# " + "重" * 49, None),
        ("# " + "重" * 49 + "a", 101),
    ],
)
def test_long_lines(measured, line, width):
    assert measured(f"\n{line}").long_lines == ([("src/room.py:2", width)] if width else [])


def test_comments_are_for_the_reader(measured):
    text = """\
        # One.
        a = "# not a comment"  # Two.
        b = 1  # noqa: F401
        c = 2  # type: ignore
        # fmt: off
        #: Six.
        """
    assert measured(text).comments == ["src/room.py:1", "src/room.py:2", "src/room.py:6"]


def test_the_length_of_a_function(measured):
    text = '''\
        @decorated
        @twice
        def plain(
            a,
        ):
            """Two lines
            of docstring."""
            # A comment.

            return a

        class Class:
            def method(self):
                async def inner():
                    pass
                return inner
        '''
    lengths = {name: (place, length) for place, name, length in measured(text).functions}
    assert lengths == {
        "plain": ("src/room.py:3", 6),
        "method": ("src/room.py:13", 4),
        "inner": ("src/room.py:14", 2),
    }


# sum_of_primes (without its jump to a label), words and my_method are the examples in SonarSource's
# paper, written in Python.
COMPLEXITIES = {
    "sum_of_primes": (
        """\
        def sum_of_primes(limit):
            total = 0
            for i in range(1, limit):  # 1
                for j in range(2, i):  # 2
                    if i % j == 0:  # 3
                        continue
                total += i
            return total
        """,
        6,
    ),
    "words": (
        """\
        def words(number):
            match number:  # 1
                case 1:
                    return "one"
                case 2:
                    return "a couple"
                case _:
                    return "lots"
        """,
        1,
    ),
    "operators": ("def operators(a, b, c, d):\n    return a and b and c or d\n", 2),
    "my_method": (
        """\
        def my_method(a, b):
            try:
                if a:  # 1
                    for _ in range(10):  # 2
                        while b:  # 3
                            pass
            except ValueError:  # 1
                if b:  # 2
                    pass
        """,
        9,
    ),
    "chain": (
        """\
        def chain(a, b):
            if a:  # 1
                return 1
            elif b:  # 1
                return 2
            else:  # 1
                return 3 if a else 4  # 2
        """,
        5,
    ),
    "again": ("def again(n):\n    return again(n - 1)\n", 1),
    "flat": ("def flat(a):\n    b = a + 1\n    return b\n", 0),
    "comprehension": ("def comprehension(a):\n    return [b for b in a if b]\n", 2),
    "hidden": (
        "# complexipy: ignore\ndef hidden(a):  # noqa: complexipy\n    if a:\n        pass\n",
        1,
    ),
    "Outer.Inner.method": (
        (
            "class Outer:\n    class Inner:\n"
            "        def method(self):\n            if self:\n                pass\n"
        ),
        1,
    ),
}


@pytest.mark.parametrize("name", COMPLEXITIES)
def test_cognitive_complexity(measured, name):
    text, score = COMPLEXITIES[name]
    assert [(function.name, function.score) for function in measured(text).complexities] == [
        (name, score)
    ]


def test_a_value_at_a_limit_is_not_a_breach(tool, measured):
    body = "    a = 1\n" * 49
    assert messages(tool["own_breaches"](measured(f"def f():\n{body}"))) == []
    assert messages(tool["own_breaches"](measured(f"def f():\n{body}    a = 2\n"))) == [
        "src/room.py:1: f: 51 lines, limit 50"
    ]
    branches = "    if a: pass\n" * 15
    assert messages(tool["own_breaches"](measured(f"def f(a):\n{branches}"))) == []
    assert messages(tool["own_breaches"](measured(f"def f(a):\n{branches}    if a: pass\n"))) == [
        "src/room.py:1: f: 16 cognitive complexity, limit 15"
    ]


def test_long_lines_and_class_names_are_breaches(tool, measured):
    text = "class Kept:\n    class Told:\n        pass\n# " + "a" * 99
    assert messages(tool["own_breaches"](measured(text))) == [
        "src/room.py:4: line: 101 columns, limit 100",
        "src/room.py:2: class Told: the name does not say what it holds",
    ]


@pytest.mark.parametrize(
    ("line", "most", "name"),
    [
        ("[[a for a in b] for b in c]\n", 2, "nested comprehension"),
        ("a if b else c\n", 15, "conditional expression"),
    ],
)
def test_rates_are_of_all_files_together(tool, measured, line, most, name):
    dense, plain = measured(line * most, "dense.py"), measured("a\n" * (1000 - most), "plain.py")
    assert messages(tool["rate_breaches"]([dense, plain])) == []
    dense, plain = (
        measured(line * (most + 1), "dense.py"),
        measured("a\n" * (999 - most), "plain.py"),
    )
    breaches = messages(tool["rate_breaches"]([dense, plain]))
    assert breaches == [
        f"src/dense.py:{at}: {name}: {most + 1} per 1,000 lines, limit {most}"
        for at in range(1, most + 2)
    ]


def test_a_name_has_one_meaning(tool, measured):
    one = measured("class Row: pass\ndef read(): pass\ndef _help(): pass\n", "one.py")
    two = measured("def f():\n    class Row: pass\n    def read(): pass\n", "two.py")
    three = measured("async def read(): pass\nclass C:\n    def f(self): pass\n", "three.py")
    assert messages(tool["name_breaches"]([one, two, three], {})) == [
        "src/one.py:1: Row: 2 modules, limit 1 (one.py, two.py)",
        "src/two.py:2: Row: 2 modules, limit 1 (one.py, two.py)",
        "src/one.py:2: read: 2 modules, limit 1 (one.py, three.py)",
        "src/three.py:1: read: 2 modules, limit 1 (one.py, three.py)",
    ]


def test_twice_in_one_module_is_one_module(tool, measured):
    assert (
        tool["name_breaches"](
            [measured("def f(): pass\ndef f(): pass\nclass A: pass\nclass A: pass\n")], {}
        )
        == []
    )


def test_a_private_function_may_stand_in_three_modules(tool, measured):
    densities = [measured("def _help(): pass\n", f"{number}.py") for number in range(4)]
    assert tool["name_breaches"](densities[:3], {}) == []
    assert messages(tool["name_breaches"](densities, {})) == [
        f"src/{number}.py:1: _help: 4 modules, limit 3 (0.py, 1.py, 2.py, 3.py)"
        for number in range(4)
    ]


def test_a_folder_with_one_meaning_counts_as_one_module(tool, measured):
    meanings = {"readers": {"read": "the entry point"}}
    text = "def read(): pass\n"
    npz, onnx, law = (
        measured(text, module) for module in ("readers/npz.py", "readers/onnx.py", "law.py")
    )
    assert tool["name_breaches"]([npz, onnx], meanings) == []
    assert [message for _, message in tool["name_breaches"]([npz, onnx, law], meanings)] == [
        "read: 2 modules, limit 1 (law.py, readers)"
    ] * 3


@pytest.mark.slow
def test_every_meaning_belongs_to_existing_functions(tool):
    meanings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["weighbridge"][
        "density"
    ]["meanings"]
    rooms = tool["measure_package"]()
    densities = [density for room in rooms.values() for density in room]
    for folder, names in meanings.items():
        inside = [density for density in densities if density.module.startswith(f"{folder}/")]
        defined = [function.name for density in inside for function in density.top_functions]
        for name in names:
            assert defined.count(name) > 1, (folder, name)


@pytest.fixture
def command(tool, monkeypatch, tmp_path, capsys):
    """Return a function that runs the command on a package written for the test."""
    package = tmp_path / "src" / "weighbridge"
    package.mkdir(parents=True)
    monkeypatch.setitem(tool["main"].__globals__, "ROOT", tmp_path)
    monkeypatch.setitem(tool["main"].__globals__, "PACKAGE", package)
    monkeypatch.setattr(sys.modules["size"], "PACKAGE", package)
    (tmp_path / "pyproject.toml").write_text("[tool.weighbridge.density.meanings]\n")

    def run(files, *arguments):
        for path, text in files.items():
            (package / path).parent.mkdir(exist_ok=True)
            (package / path).write_text(text, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["density.py", *arguments])
        return tool["main"](), capsys.readouterr().out.splitlines()

    return run


BAD = {
    "expr.py": "def f(a):\n    return a\n",
    "readers/npz.py": (
        "class Wish:\n    pass\n\n\ndef f(a):\n    if a:\n        return 1\n    return 2  # Why.\n"
    ),
}
BREACHES = [
    "src/weighbridge/readers/npz.py:1: class Wish: the name does not say what it holds",
    "src/weighbridge/expr.py:1: f: 2 modules, limit 1 (expr.py, readers/npz.py)",
    "src/weighbridge/readers/npz.py:5: f: 2 modules, limit 1 (expr.py, readers/npz.py)",
    "breaches: 3",
]


def test_the_command_prints_a_table_and_breaches(command):
    status, lines = command(BAD)
    assert status == 0
    assert [line.split() for line in lines[2:5]] == [
        ["expr.py", "2", "0.0", "0.0", "0", "0.0%", "2", "0"],
        ["readers/", "6", "0.0", "0.0", "0", "16.7%", "4", "1"],
        ["total", "8", "0.0", "0.0", "0", "12.5%", "4", "1"],
    ]
    assert lines[5:] == BREACHES


def test_check_fails_on_a_breach(command):
    assert command({"expr.py": BAD["expr.py"]}, "--check")[0] == 0
    assert command(BAD, "--check")[0] == 1


def test_a_single_room(command):
    status, lines = command(BAD, "--check", "--room", "expr.py")
    assert status == 1
    assert lines[4:] == [BREACHES[1], "breaches: 1"]
    assert command({}, "--room", "readers/") == command({}, "--room", "readers")


def test_an_unknown_room_is_refused(command, capsys):
    with pytest.raises(SystemExit) as stop:
        command(BAD, "--room", "attic")
    assert stop.value.code == 2
    assert "there is no room attic; the rooms are expr.py, readers/" in capsys.readouterr().err


def test_the_worst_functions(command):
    assert command(BAD, "--worst", "1")[1][5] == "   1  src/weighbridge/readers/npz.py:5 f"
