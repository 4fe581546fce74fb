"""The site in a real browser: what a command says there, and what the page never does."""

from __future__ import annotations

import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE
from sites import built, bytes_to_fetch, drive, needs_browser, needs_firefox

from weighbridge.cli import main

ROOT = Path(__file__).parents[2]
ARTICLES = sorted((ROOT.parent / "shared" / "articles").glob("*.txt"))
SAMPLE = (
    "nesting.safetensors",
    "nesting.safetensors.index.json",
    "npz-header~nested.npz",
    "torch-deep.pt",
    "flax-deep~maps.msgpack",
    "gguf-value~nesting.gguf",
    "sound.safetensors",
    *sorted(path.name for path in HOSTILE.iterdir())[::15],
)
"""What once ended the interpreter, and every 15th of the others; tools/dropped.py drops all."""
FORMULA = (
    '<p>BERT has H = 768. <span class="katex"><span class="katex-mathml"><math><semantics>'
    '<annotation encoding="application/x-tex">4 \\times 768^2 = 2,359,296</annotation>'
    '</semantics></math></span><span class="katex-html">4×7682=2,359,296</span></span></p>'
)
_MATHML = (
    "<mn>4</mn><mo>×</mo><msup><mn>768</mn><mn>2</mn></msup><mo>=</mo><mn>2</mn><mo>,</mo>"
    "<mn>359</mn><mo>,</mo><mn>296</mn>"
)
PAGE = FORMULA.replace("<semantics>", f"<semantics><mrow>{_MATHML}</mrow>")
"""A formula as KaTeX writes it; a browser copies all of it but the annotation."""
CONFIG = {"model_type": "bert", "hidden_size": 128, "num_attention_heads": 2, "vocab_size": 1000}
_HELD = "document.querySelector('iframe.explorer').contentDocument.body.innerText"
_BOXES = """(() => {
  const frame = document.querySelector("iframe.explorer").contentDocument;
  const cells = [...frame.querySelectorAll("rect.cell")];
  const colours = new Set(cells.map((cell) => getComputedStyle(cell).fill));
  return { cells: cells.length, colours: colours.size };
})()"""
CSP = """(async () => {
  const broken = [];
  addEventListener("securitypolicyviolation", (event) => broken.push(event.effectiveDirective));
  const fetched = await fetch("https://example.org/").then(() => "sent", () => "refused");
  const script = document.createElement("script");
  script.textContent = "globalThis.ran = true";
  document.body.append(script);
  const evaluated = await new Promise((resolve) => setTimeout(() => {
    try { new Function("return 1")(); resolve("yes"); } catch { resolve("no"); }
  }));
  await new Promise((resolve) => setTimeout(resolve, 50));
  return { fetched, ran: globalThis.ran ?? false, evaluated, broken: [...new Set(broken)].sort() };
})()"""
LANGUAGES = {"en": "en", "zh": "zh-CN"}
THEMES = ("light", "dark")
TABS: dict[str, dict[str, Any]] = {
    "explore": {"tab": "explore"},
    "explain": {"tab": "explain"},
    "cost": {"tab": "cost"},
    "tree": {"tab": "tree"},
    "inspect": {"files": [str(HOSTILE / "sound.safetensors")]},
    "guess": {"tab": "guess"},
    "verify": {"verify": "bert"},
    "audit": {"files": [str(ROOT / "docs" / "article.txt")]},
    "refused": {"files": [str(HOSTILE / "nesting.safetensors")]},
}
"""What opens each tab but the first, and a message instead of an answer."""
_OFFER = """(() => {
  const search = document.getElementById("search");
  search.value = "bert";
  search.dispatchEvent(new Event("input"));
})()"""
WIDTHS = (1440, 768, 375)


def looked_at(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the steps that look at what is open: with axe in both themes, and at each width."""
    widths = [(f"{name} {width}", {"width": width}) for width in WIDTHS]
    return [(name, {"axe": THEMES}), *widths, ("", {"width": 1280})]


def steps() -> list[tuple[str, dict[str, Any]]]:
    """Return the steps with a name each."""
    found: list[tuple[str, dict[str, Any]]] = [
        ("cold", {"goto": "{site}/#model=bert-base-chinese&lang=en"}),
        ("address", {"type": "https://example.org/config.json"}),
    ]
    found += [(name, {"files": [str(HOSTILE / name)]}) for name in SAMPLE]
    found += [(article.name, {"files": [str(article)]}) for article in ARTICLES]
    found += [
        ("html", {"paste": {"text/plain": "4×7682=2,359,2964 × ...", "text/html": FORMULA}}),
        ("", {"copied": PAGE}),
        ("", {"goto": "{site}/#model=bert-base-chinese&lang=en"}),
        ("pasted", {"pasted": True}),
        ("config", {"paste": {"text/plain": json.dumps(CONFIG)}}),
        ("reload", {"evaluate": "location.href"}),
        ("guess", {"files": [str(HOSTILE / "sound.safetensors")]}),
        ("guessed", {"tab": "guess"}),
        ("verified", {"verify": "bert"}),
        ("cost", {"goto": "{site}/#model=gpt2&tab=cost"}),
        ("tree", {"tab": "tree"}),
        ("tree's link", {"evaluate": "location.hash"}),
        ("another", {"type": "bert-base-chinese"}),
        ("another's link", {"evaluate": "location.hash"}),
        ("csp", {"evaluate": CSP}),
        ("kill", {"kill": True}),
        ("after", {"type": "bert-base-chinese"}),
        ("focus", {"evaluate": "document.getElementById('search').select()"}),
        ("keys", {"press": ["gpt2", "ArrowDown", "Enter"]}),
    ]
    found += [
        ("explore", {"tab": "explore"}),
        ("drawn", {"until": f"{_HELD}.includes('124,439,808') && {_HELD}"}),
        ("boxes", {"evaluate": _BOXES}),
    ]
    for lang in LANGUAGES:
        address = f"{{site}}/#model=bert-base-chinese&lang={lang}"
        found += [(f"{lang} weigh open", {"goto": address}), *looked_at(f"{lang} weigh")]
        for name, step in TABS.items():
            found.append((f"{lang} {name} open", step))
            if name == "explore":
                found.append(("", {"until": f"{_HELD}.includes('102,267,648')"}))
            found += looked_at(f"{lang} {name}")
        found += [("", {"evaluate": _OFFER}), (f"{lang} suggestions", {"axe": THEMES})]
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    browser = needs_browser()
    folder = tmp_path_factory.mktemp("site")
    site = built(folder / "site")
    named = steps()
    found, errors, elsewhere = drive(site, [step for _, step in named], folder / "profile", browser)
    assert len(found) == len(named), errors
    results: dict[str, Any] = dict(zip([name for name, _ in named], found, strict=True))
    return results | {"errors": errors, "elsewhere": elsewhere, "site": site}


pytestmark = pytest.mark.slow


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    """Return the status, stdout and messages of a command line."""
    status = main([*words, "--lang", "en"])
    out, err = capsys.readouterr()
    return str(status), out, err.rstrip("\n")


@pytest.mark.parametrize("name", SAMPLE)
def test_a_dropped_file_gets_the_commands_own_message(
    name: str,
    seen: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    shutil.copyfile(HOSTILE / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    shown = seen[name]
    status, out, messages = said(["inspect", name], capsys)
    assert (shown["status"], shown["out"], shown["messages"]) == (status, out, messages)
    assert shown["restarts"] == 0
    assert shown["line"].endswith(name) or shown["line"].endswith(f"{name}'")


@pytest.mark.parametrize("article", ARTICLES, ids=lambda path: path.name)
def test_an_article_is_audited_as_the_command_does(
    article: Path,
    seen: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(article.parent)
    shown = seen[article.name]
    status, out, messages = said(["audit", article.name], capsys)
    assert (shown["status"], shown["out"], shown["messages"]) == (status, out, messages)
    assert shown["restarts"] == 0


def test_an_address_is_refused_with_a_word(seen: dict[str, Any]) -> None:
    assert seen["address"]["status"] == "2"
    assert "a page in a browser does not read addresses" in seen["address"]["messages"]


def test_the_clipboards_html_keeps_the_source_of_a_formula(seen: dict[str, Any]) -> None:
    assert seen["html"]["line"] == "weighbridge audit article.html"
    assert (seen["html"]["status"], seen["html"]["slips"]) == ("0", 0)


def test_a_page_that_is_copied_and_pasted_is_audited(seen: dict[str, Any]) -> None:
    pasted = seen["pasted"]
    assert pasted["line"] == "weighbridge audit article.html"
    assert (pasted["status"], pasted["slips"]) == ("0", 0), pasted["messages"]


def test_firefox_weighs_drops_pastes_and_explores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    firefox = needs_firefox()
    site = built(tmp_path / "site")
    name = "npz-header~nested.npz"
    steps = [
        {"goto": "{site}/#model=bert-base-chinese&lang=en"},
        {"files": [str(HOSTILE / name)]},
        {"copied": PAGE},
        {"goto": "{site}/#model=gpt2&lang=en"},
        {"pasted": True},
        {"type": "gpt2"},
        {"tab": "explore"},
        {"until": f"{_HELD}.includes('124,439,808') && {_HELD}"},
        {"evaluate": _BOXES},
    ]
    found, errors, elsewhere = drive(site, steps, tmp_path / "profile", firefox)
    assert (len(found), errors, elsewhere) == (len(steps), [], [])
    weighed, dropped, _, _, pasted, *_, boxes = found
    assert "102,267,648" in weighed["out"]
    monkeypatch.chdir(HOSTILE)
    status, out, messages = said(["inspect", name], capsys)
    assert (dropped["status"], dropped["out"], dropped["messages"]) == (status, out, messages)
    assert (pasted["line"], pasted["status"]) == ("weighbridge audit article.html", "0")
    assert boxes["value"]["cells"] > 10


def test_a_pasted_config_is_weighed_and_stands_in_the_link(seen: dict[str, Any]) -> None:
    assert seen["config"]["line"] == "weighbridge weigh config.json"
    assert "BertModel" in seen["config"]["out"]
    assert "config=" in seen["reload"]["value"]


def test_the_link_holds_the_open_tab(seen: dict[str, Any]) -> None:
    assert seen["cost"]["line"] == "weighbridge cost gpt2"
    assert seen["tree"]["line"] == "weighbridge tree gpt2"
    assert seen["tree's link"]["value"] == "#model=gpt2&tab=tree"
    assert seen["another"]["line"] == "weighbridge weigh bert-base-chinese"
    assert "tab=" not in seen["another's link"]["value"]


def test_the_other_commands_of_a_checkpoint(seen: dict[str, Any]) -> None:
    assert seen["guessed"]["line"] == "weighbridge guess sound.safetensors"
    assert seen["verified"]["line"] == "weighbridge verify bert sound.safetensors"
    assert seen["verified"]["status"] == "1"


def test_the_policy_holds_and_nothing_is_asked_of_elsewhere(seen: dict[str, Any]) -> None:
    assert seen["csp"]["value"] == {
        "fetched": "refused",
        "ran": False,
        "evaluated": "no",
        "broken": ["connect-src", "script-src", "script-src-elem"],
    }
    assert seen["elsewhere"] == []
    assert not [error for error in seen["errors"] if not error.startswith("console: ")]


def test_the_site_is_small_to_fetch(tmp_path: Path) -> None:
    needs_browser()  # and so Pyodide
    assert sum(bytes_to_fetch(built(tmp_path / "site")).values()) <= 8_500_000


def test_the_package_is_unpacked_in_little_memory(seen: dict[str, Any]) -> None:
    packed = (seen["site"] / "weighbridge.zip.xz").read_bytes()
    package = lzma.LZMADecompressor(memlimit=4 * 1024 * 1024).decompress(packed)
    assert len(package) < 7_000_000  # what the worker keeps
    assert f"archive.truncate({len(package)})" in (seen["site"] / "worker.js").read_text()


def test_a_worker_that_dies_is_replaced_with_a_word(seen: dict[str, Any]) -> None:
    assert seen["kill"]["killed"] == "died"
    assert "stopped Python" in seen["kill"]["alert"]
    assert (seen["after"]["status"], seen["after"]["restarts"]) == ("0", 1)
    assert "102,267,648" in seen["after"]["out"]


def test_a_model_is_found_by_keyboard(seen: dict[str, Any]) -> None:
    assert seen["keys"]["line"].startswith("weighbridge weigh ")
    assert "gpt2" in seen["keys"]["line"]


def test_the_explorer_draws_the_model_from_what_the_worker_computed(seen: dict[str, Any]) -> None:
    assert seen["explore"]["line"] == "weighbridge explore gpt2"
    assert seen["boxes"]["value"]["cells"] > 10
    assert seen["boxes"]["value"]["colours"] > 4


@pytest.mark.parametrize("name", ["weigh", *TABS])
@pytest.mark.parametrize("lang", LANGUAGES)
def test_axe_finds_nothing_and_no_width_overflows(
    lang: str, name: str, seen: dict[str, Any]
) -> None:
    found = seen[f"{lang} {name}"]
    assert found["violations"] == []
    assert found["passes"] > 30
    assert found["frames"] == (2 if name == "explore" else 1)
    for width in WIDTHS:
        assert seen[f"{lang} {name} {width}"] == {"wide": width, "misfits": []}
    assert seen[f"{lang} {name} open"]["lang"] == LANGUAGES[lang]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_axe_finds_nothing_in_suggestions(lang: str, seen: dict[str, Any]) -> None:
    assert seen[f"{lang} suggestions"]["violations"] == []


def test_the_explorer_is_dressed_as_the_page_is(seen: dict[str, Any]) -> None:
    assert seen["en explore"]["dressed"] == {"light": ["light", "light"], "dark": ["dark", "dark"]}
