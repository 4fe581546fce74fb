"""Weighs all released models at hand in one run, and draws where their parameters sit.

``python tools/census.py [FOLDER…]`` weighs the models of the catalogue, the configs in
``tests/data/real``, and those in other folders of ``config.json`` files, and prints a table. With
``--svg FILE`` it also draws them. `docs/census.md` and its translation show both.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from page_words import words_of

import weighbridge as wb
from weighbridge import units
from weighbridge.render.svg import BOLD, MARGIN, STYLE, paragraphs, pixels, whole, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]
REAL = ROOT / "tests" / "data" / "real"

# The parts of the picture, each with the beginnings of its components' names, and its colour: those
# of Okabe and Ito, which people with any colour vision can tell apart.
PARTS = {
    "experts": (("expert",), "#d55e00"),
    "feed-forward": (("ffn", "shared_expert", "channel_mix"), "#e69f00"),
    "attention": (("attention", "cross_attention", "linear_attention"), "#0072b2"),
    "state space, convolution": (("ssm", "conv", "time_mix", "recurrent", "downsample"), "#009e73"),
    "token embedding": (("embedding.token",), "#56b4e9"),
    "LM head": (("head.lm",), "#cc79a7"),
    "other": (("",), "#999999"),
}
CLASSES = {"under 100M": 1e8, "100M to 1B": 1e9, "1B to 10B": 1e10, "10B to 100B": 1e11}
LARGEST = "over 100B"
TITLE = "Where the parameters of released models sit"
CAPTION = (
    "Each column is a model, and its colours are the shares of its parameters. Models are "
    "grouped by their total, and ordered by their share in experts, then in feed-forward."
)
PICTURES = {"en": "census.svg", "zh": "census.zh-CN.svg"}
_WIDTH, _HEIGHT, _GAP, _KEY = 1000, 320, 10, 12


class Weighed(NamedTuple):
    """A released model: its name, family, parameters, active parameters, and shares by part."""

    name: str
    family: str
    parameters: int
    active: int | None
    parts: dict[str, int]

    @property
    def size_class(self) -> str:
        """The size class, by the total."""
        for name, most in CLASSES.items():
            if self.parameters < most:
                return name
        return LARGEST

    def share(self, part: str) -> float:
        """Return the share of a part in the total."""
        return self.parts.get(part, 0) / self.parameters


class Census(NamedTuple):
    """All models, those of different sizes among them, the refused, and the seconds it took."""

    models: list[Weighed]
    distinct: list[Weighed]
    refused: dict[str, str]
    seconds: float


def take(folders: Iterable[Path] = (REAL,)) -> Census:
    """Weigh every model of the catalogue, and every config in some folders that is not in it."""
    start = time.perf_counter()
    known = {name.lower() for name in wb.released()}
    subjects: dict[str, str] = {name: name for name in wb.released()}
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            name = path.stem.replace("__", "/", 1)
            if name.lower() not in known:
                known.add(name.lower())
                subjects[name] = str(path)
    models, refused = [], {}
    for name, subject in subjects.items():
        try:
            models.append(_weighed(name, subject))
        except wb.WeighbridgeError as error:
            refused[name] = str(error)
    by_sizes = {(each.family, tuple(each.parts.items())): each for each in models}
    return Census(models, list(by_sizes.values()), refused, time.perf_counter() - start)


def _weighed(name: str, subject: str) -> Weighed:
    weighing = wb.weigh(subject)
    parts: Counter[str] = Counter()
    for component, parameters in weighing.by("component").items():
        parts[_part_of(component)] += parameters
    family = weighing.model.blueprint.family
    return Weighed(name, family, weighing.parameters, weighing.active, dict(parts))


def _part_of(component: str) -> str:
    if component.endswith(".norm"):
        return "other"
    for part, (beginnings, _) in PARTS.items():
        if component.startswith(beginnings):
            return part
    raise AssertionError(component)


def table(census: Census, lang: str = "en") -> list[str]:
    """Return the lines of a Markdown table: the average share of each part, by size class."""
    say = words_of("census", lang)
    names = [say(name) for name in ("size", "models", "with experts", *PARTS)]
    lines = [f"| {' | '.join(names)} |", f"| :-- {'| --: ' * (len(names) - 1)}|"]
    for size_class, models in _by_class(census.distinct).items():
        experts = sum(each.active is not None for each in models)
        shares = [mean(each.share(part) for each in models) for part in PARTS]
        cells = [say(size_class), str(len(models)), str(experts), *map(units.percent, shares)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


SUMMARY = (
    "{models} released models of {families} families, with {total} parameters together: from "
    "{smallest} ({least}) to {largest} ({most}). {distinct} of them differ in family or sizes; "
    "the others are versions of these."
)


def summary(census: Census, lang: str = "en") -> str:
    """Return what was weighed, in a sentence."""
    families = len({each.family for each in census.models})
    total = sum(each.parameters for each in census.models)
    least = min(census.models, key=lambda each: each.parameters)
    most = max(census.models, key=lambda each: each.parameters)
    return words_of("census", lang)(SUMMARY).format(
        models=units.count(len(census.models)),
        families=families,
        total=units.count(total),
        smallest=least.name,
        least=units.count(least.parameters),
        largest=most.name,
        most=units.count(most.parameters),
        distinct=units.count(len(census.distinct)),
    )


def _by_class(models: Sequence[Weighed]) -> dict[str, list[Weighed]]:
    found: dict[str, list[Weighed]] = {name: [] for name in (*CLASSES, LARGEST)}
    for each in models:
        found[each.size_class].append(each)
    for of_class in found.values():
        of_class.sort(key=lambda each: (each.share("experts"), each.share("feed-forward")))
    return {name: of_class for name, of_class in found.items() if of_class}


def picture(census: Census, lang: str = "en") -> str:
    """Return an SVG file: a column for each model, in a panel for each size class."""
    say = words_of("census", lang)
    title = say(TITLE)
    drawn = [writing(MARGIN, MARGIN + 16, title, "ink", 15, weight=BOLD)]
    texts, y = paragraphs([say(CAPTION)], _WIDTH - 2 * MARGIN, MARGIN + 16)
    drawn += [*texts, *_legend(y + 28, say)]
    top = y + 50
    classes = _by_class(census.distinct)
    models = sum(map(len, classes.values()))
    room = _WIDTH - 2 * MARGIN - _GAP * (len(classes) - 1)
    x = float(MARGIN)
    for name, of_class in classes.items():
        width = room * len(of_class) / models
        drawn += _panel(of_class, x, top, width)
        models_here = say("{count} models").format(count=len(of_class))
        drawn += _label(say(name), models_here, x + width / 2, top + _HEIGHT + 18)
        x += width + _GAP
    height = top + _HEIGHT + 60
    return whole(_WIDTH, height, drawn, title, f"<style>{STYLE}</style>")


def _legend(y: float, say: Callable[[str], str]) -> Iterator[str]:
    x = float(MARGIN)
    for name, (_, colour) in PARTS.items():
        part = say(name)
        yield f'<rect x="{x:.6g}" y="{y - 10:.6g}" width="{_KEY}" height="{_KEY}" fill="{colour}"/>'
        yield writing(x + _KEY + 6, y, part, "ink", 13)
        x += _KEY + 6 + pixels(part, 13) + 18


def _panel(models: Sequence[Weighed], x: float, top: float, width: float) -> Iterator[str]:
    """Yield an area for each part, whose upper and lower edges are steps from model to model."""
    step = width / len(models)
    below = [0.0] * len(models)
    for part, (_, colour) in PARTS.items():
        above = [low + each.share(part) for low, each in zip(below, models, strict=True)]
        if above != below:
            edge = [f"M{x:.6g} {_y(top, below[0])}"]
            for at, high in enumerate(above):
                edge.append(f"V{_y(top, high)}H{x + step * (at + 1):.6g}")
            back = reversed(range(len(models)))
            edge += [f"V{_y(top, below[at])}H{x + step * at:.6g}" for at in back]
            yield f'<path fill="{colour}" d="{"".join(edge)}Z"/>'
        below = above


def _y(top: float, share: float) -> str:
    return f"{top + _HEIGHT * (1 - share):.4g}"


def _label(name: str, models: str, x: float, y: float) -> Iterator[str]:
    yield writing(x, y, name, "ink", 12, "middle")
    yield writing(x, y + 16, models, "quiet", 12, "middle")


def shown(lang: str) -> None:
    """Write the census as Markdown, and its picture to a file of the docs; for a cog block."""
    import cog  # noqa: PLC0415  # only the docs have it

    census, title = take(), words_of("census", lang)(TITLE)
    (ROOT / "docs" / PICTURES[lang]).write_text(picture(census, lang), encoding="utf-8")
    cog.outl(f"{summary(census, lang)}\n\n![{title}]({PICTURES[lang]})\n")
    cog.outl("\n".join(table(census, lang)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the census, and draw it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="more folders of configs")
    parser.add_argument("--svg", type=Path, help="write the picture to this file")
    options = parser.parse_args(arguments)
    census = take((REAL, *options.folders))
    print(summary(census))
    print(*table(census), sep="\n")
    reasons = Counter(reason.split(": ", 1)[-1][:70] for reason in census.refused.values())
    print(f"{len(census.refused)} refused:", *_listed_reasons(reasons), sep="\n  ")
    print(f"{census.seconds:.1f} s, {len(census.models) / census.seconds:,.0f} models a second")
    if options.svg:
        options.svg.write_text(picture(census), encoding="utf-8")


def _listed_reasons(reasons: Mapping[str, int]) -> list[str]:
    return [f"{number}: {reason}" for reason, number in Counter(reasons).most_common()]


if __name__ == "__main__":
    main()
