"""No report lets an untrusted name act: on a terminal, a page, a spreadsheet or a program."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, NamedTuple

import pytest
from markdown_it import MarkdownIt

from weighbridge.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NASTY = {
    "escape": "\x1b[31mred\x1b[0m",
    "c1": "\x9b31mred\x85next",
    "title": "\x1b]0;owned\x07",
    "bidi": "\u202egnp.\u2066exe\u2069\u200f",
    "lines": "one\r\nweighbridge: two\u2028three\x0bfour",
    "formula": "=HYPERLINK(1)",
    "plus": "+1+cmd|' /C calc'!A0",
    "minus": "-2+3+cmd|' /C calc'!A0",
    "at": "@SUM(1+9)",
    "tab": "\t=1+1",
    "script": "<script>evil()</script><img src=x onerror=evil()>",
    "attribute": '" onmouseover="evil()" x=\'',
    "link": "[click](javascript:evil) ![x](http://evil.example/x.png)",
    "address": "http://evil.example www.evil.example <http://evil.example>",
    "markdown": "# x | y\n\n> `a` **b** ~~c~~ <!-- \\| \\\\| --> &lt;script&gt;",
    "fence": "```\n````\n<script>evil()</script>\n```` ```",
    "latex": r"\end{verbatim}\input{evil}$\write18{evil}$% ^^M",
    "comment": "*/ evil() /* -- \n; DROP TABLE evil; \nimport evil #",
    "prose": "`$=9**9$` $=2+2$ **x** \\`",
}
"""Names that somebody else chose, each of which would act somewhere if it were written as it is."""

# Controls other than tabs and ends of lines, and the characters that turn the direction of text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


ALL = " ".join(NASTY.values())
"""All names in one, for what has a single name; shorter than the longest path component twice."""


class Asked(NamedTuple):
    """A command line, the format that it writes, and what makes its files with nasty names."""

    make: Callable[[Path], tuple[str, ...]]
    options: tuple[str, ...] = ()
    form: str = "text"


def nasty_path(folder: Path, suffix: str) -> Path:
    """Return the path of a file in folders with nasty names, one in the other."""
    for name in NASTY.values():
        folder /= name.replace("/", "∕").replace("*", "∗").replace("[", "［").replace("?", "？")
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder.with_name(folder.name + suffix)


def checkpoint(folder: Path, *more: str) -> str:
    """Write a checkpoint whose path, tensors and metadata have nasty names."""
    path = nasty_path(folder, ".safetensors")
    content: dict[str, object] = {"__metadata__": {name: name for name in NASTY.values()}}
    names = [*NASTY.values(), *(f"{name}.0.{name}" for name in NASTY.values()), *more]
    for number, name in enumerate(names):
        offsets = [8 * number, 8 * number + 8]
        content[name] = {"dtype": "F32", "shape": [2], "data_offsets": offsets}
    header = json.dumps(content).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8 * len(names)))
    return str(path)


def inspected(folder: Path) -> tuple[str, ...]:
    return "inspect", checkpoint(folder)


def refused(folder: Path) -> tuple[str, ...]:
    path = checkpoint(folder)
    with open(path, "ab") as file:
        file.write(b"more")
    return "inspect", path


def guessed(folder: Path) -> tuple[str, ...]:
    return "guess", checkpoint(folder)


def verified(folder: Path) -> tuple[str, ...]:
    return "verify", "google/bert_uncased_L-2_H-128_A-2", checkpoint(folder)


def compared(folder: Path) -> tuple[str, ...]:
    return "verify", checkpoint(folder / "other", "=more"), checkpoint(folder)


def config(folder: Path, **changed: object) -> str:
    """Write a config of a BERT whose path, name, labels and further fields have nasty names."""
    content = {
        "model_type": "bert",
        "_name_or_path": ALL,
        "architectures": ["BertForMaskedLM"],
        "id2label": dict(enumerate(NASTY.values())),
        **{name: name for name in NASTY.values()},
        **changed,
    }
    path = nasty_path(folder, ".json")
    path.write_text(json.dumps(content))
    return str(path)


def of_config(command: str, **changed: object) -> Callable[[Path], tuple[str, ...]]:
    def asked(folder: Path) -> tuple[str, ...]:
        return command, config(folder, **changed)

    return asked


def titled(folder: Path) -> tuple[str, ...]:
    return "explain", config(folder), f"--title={ALL}"


def named(command: str, *rest: str) -> Callable[[Path], tuple[str, ...]]:
    def asked(_: Path) -> tuple[str, ...]:
        return command, *rest, ALL

    return asked


def audited(folder: Path) -> tuple[str, ...]:
    path = nasty_path(folder, ".txt")
    lines = [f"{name} 30522 × 768 = 23,449,856 {name}" for name in NASTY.values()]
    path.write_text("\n".join(["BERT base has a hidden size of 768.", *lines]))
    return "audit", str(path)


def reconciled(folder: Path) -> tuple[str, ...]:
    path = nasty_path(folder, ".csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "family", "vocab_size", "parameters"])
        for name in NASTY.values():
            writer.writerow([name, "bert", "30522", "109482240"])
        writer.writerow([f"{ALL}2", ALL, "21128", "102267648"])
    return "reconcile", "--table", str(path)


FORMS = {"text": (), "json": ("--json",), "csv": ("--csv",), "markdown": ("--markdown",)}


def _of_checkpoints() -> Iterator[Asked]:
    for by in ("component", "role", "layer", "dtype", "tensor"):
        for form, option in FORMS.items():
            yield Asked(inspected, ("--by", by, *option), form)
    for make in (guessed, verified, compared):
        yield Asked(make)
        yield Asked(make, ("--json",), "json")
    yield Asked(guessed, ("--evidence",))
    yield Asked(guessed, ("--config",), "json")
    yield Asked(refused)


def _of_models() -> Iterator[Asked]:
    for form, option in FORMS.items():
        yield Asked(of_config("weigh"), option, form)
        yield Asked(of_config("weigh"), ("--by", "tensor", *option), form)
    for form in ("text", "markdown", "zhihu", "latex", "html"):
        kind = "markdown" if form == "zhihu" else form
        yield Asked(titled, ("--format", form), kind)
        yield Asked(of_config("explain"), ("--format", form), kind)
    for code in ("text", "latex", "python", "sql", "json"):
        form = code if code in CHECKS and code != "latex" else "text"
        yield Asked(of_config("formula"), ("--format", code), form)
    yield Asked(of_config("tree"))
    yield Asked(of_config("tree"), ("--json",), "json")
    yield Asked(of_config("weigh", architectures=[ALL]))
    for field in ("model_type", "torch_dtype", "hidden_size", "is_decoder"):
        yield Asked(of_config("weigh", **{field: ALL}))


def _of_texts() -> Iterator[Asked]:
    for form in ("text", "markdown", "html"):
        yield Asked(audited, ("--format", form), form)
    yield Asked(audited, ("--json",), "json")
    for form in ("text", "json", "markdown"):
        yield Asked(reconciled, FORMS[form], form)
        yield Asked(named("reconcile", "bert-base-chinese"), FORMS[form], form)
    for command in ("weigh", "explain", "formula", "tree", "inspect", "guess", "audit", "models"):
        yield Asked(named(command))


class _Elements(HTMLParser):
    """Collects the elements of a page, with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def check_html(page: str) -> None:
    found = _Elements()
    found.feed(page)
    assert not found.tags & {"script", "img", "iframe", "object", "form", "base"}
    assert not [name for name in found.attributes if name.startswith("on")]
    assert all(link.startswith("#") for link in found.links)


MARKDOWN = MarkdownIt("gfm-like", {"html": True, "linkify": True})


def check_markdown(text: str) -> None:
    """Check that a forge would show no element, link or picture, and tables of even rows."""
    tokens = MARKDOWN.parse(text)
    for token in tokens:
        for each in (token, *(token.children or ())):
            assert each.type not in ("html_block", "html_inline", "link_open", "image"), each
    assert "evil()</script>" not in re.sub(r"(?m)^(`{3,}).*?^\1$", "", text, flags=re.DOTALL)


def check_csv(text: str) -> None:
    rows = list(csv.reader(text.splitlines()))
    assert {len(row) for row in rows} == {len(rows[0])}
    for row in rows:
        for cell in row:
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


def check_json(text: str) -> None:
    json.loads(text)


def check_latex(text: str) -> None:
    outside = re.sub(r"\\begin\{verbatim\}.*?\\end\{verbatim\}", "", text, flags=re.DOTALL)
    assert r"\input" not in outside.replace(r"\textbackslash{}input", "")
    assert r"\write" not in outside.replace(r"\textbackslash{}write", "")


def check_python(text: str) -> None:
    assert not re.search(r"(?m)^\s*import evil", text)
    compile(text, "formula", "exec")


def check_sql(text: str) -> None:
    assert not re.search(r"(?m)^\s*;? *DROP", text)


CHECKS = {
    "html": check_html,
    "markdown": check_markdown,
    "csv": check_csv,
    "json": check_json,
    "latex": check_latex,
    "python": check_python,
    "sql": check_sql,
}


EVERY = [*_of_checkpoints(), *_of_models(), *_of_texts()]
CASES = [
    *((asked, "en") for asked in EVERY),
    *((asked, "zh") for asked in EVERY if asked.form == "text"),
]


def _title_of(case: tuple[Asked, str]) -> str:
    asked, lang = case
    return " ".join((asked.make.__qualname__.partition(".")[0], *asked.options, asked.form, lang))


@pytest.mark.parametrize(("asked", "lang"), CASES, ids=map(_title_of, CASES))
def test_no_name_acts_in_a_report(
    asked: Asked, lang: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = asked.make(tmp_path)
    try:
        status = main([*words, *asked.options, "--lang", lang])
    except SystemExit as ended:  # argparse ends the program itself
        status = int(str(ended.code))
    out, err = capsys.readouterr()
    assert out or status == 2
    assert not _UNSEEN.search(err)
    assert not _UNSEEN.search(out.replace("\r\n", "\n") if asked.form == "csv" else out)
    assert not re.search(r"(?m)^weighbridge: two", err)
    if status in (0, 1):
        CHECKS.get(asked.form, str)(out)
