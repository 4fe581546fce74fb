"""Commands that count a model: weigh, explain, formula, tree."""

from __future__ import annotations

from weighbridge.cli.commands import Command
from weighbridge.cli.options import (
    BATCH,
    BY,
    FORMAT,
    FORMS,
    JSON,
    MARKDOWN,
    OF_A_MODEL,
    PROFILE,
    OneOf,
    Option,
    asked_of_model,
)
from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import Any

    from weighbridge.answers.answer import Answer
    from weighbridge.answers.explain import Article, ArticleStyle
    from weighbridge.answers.lora import Lora
    from weighbridge.answers.pipeline import PipelineWeighing
    from weighbridge.answers.weigh import Weighing
    from weighbridge.cli.options import Addable


def _weigh_options() -> Iterable[Addable]:
    from weighbridge.ledger.ledger import GROUPINGS

    return (*OF_A_MODEL, BY.but(choices=GROUPINGS), FORMS)


def _weigh(options: argparse.Namespace) -> Weighing:
    from weighbridge.answers.weigh import weigh

    return weigh(options.model, options.class_name, **asked_of_model(options))


def _weigh_any(options: argparse.Namespace) -> Weighing | PipelineWeighing | Lora:
    """Weigh a model, all models of a folder of several, or an adapter with its base."""
    import os

    asked = asked_of_model(options)
    is_whole = not options.class_name and not asked.get("fields") and not asked.get("blueprint")
    if not is_whole or not os.path.isdir(options.model):
        return _weigh(options)
    from weighbridge.readers.adapter import is_adapter

    if is_adapter(options.model) and not asked["dtype"] and not asked["strict"]:
        return _weigh_adapter(options)
    from weighbridge.answers.pipeline import weigh_pipeline
    from weighbridge.readers.sentence import models_in, transformer_alone

    described = models_in(options.model)
    if described is None or transformer_alone(described):
        return _weigh(options)
    return weigh_pipeline(options.model, dtype=asked["dtype"], strict=asked["strict"])


def _weigh_adapter(options: argparse.Namespace) -> Lora:
    from weighbridge.answers.lora import Lora, lora_saved

    if options.by == BY.absent:
        options.by = Lora.groupings[0]
    return lora_saved(options.model)


_MARKDOWN = ("markdown", "zhihu")  # formats whose diagrams are files
_WITHOUT_DIAGRAMS = "the diagrams are left out; -o FILE writes them beside the article"


def _explain_options() -> Iterable[Addable]:
    from weighbridge.render.document import FORMATS

    return (
        *OF_A_MODEL,
        FORMAT.but(
            choices=tuple(FORMATS),
            help="the format of the article: markdown is for GitHub and other forges, zhihu is "
            "Markdown with $…$ for Zhihu, CSDN and Typora",
        ),
        Option(
            "--costs",
            action="store_true",
            help="instead of the parameters, derive the FLOPs of a run and the bytes of its cache",
        ),
        BATCH.but(help="with --costs: sequences in a batch; 1 by default"),
        Option(
            "--seq",
            type=int,
            metavar="N",
            help="with --costs: tokens in each sequence; 128 by default",
        ),
        Option("--title", metavar="TEXT", help="the title of the article"),
        Option(
            "--letters",
            metavar="LETTERS",
            default="",
            help="other letters for sizes, as in H=h,V=v: ours, or config fields, and yours",
        ),
        Option(
            "--assume",
            metavar="EQUATION",
            action="append",
            default=[],
            help='simplify the formulas, for example by "F = 4H"; the config must agree',
        ),
        Option(
            "-o",
            "--output",
            dest="output",
            metavar="FILE",
            help="write the article to a file, whose ending decides its format (.md, .tex, .html); "
            "in Markdown, its diagrams are SVG files beside it",
        ),
    )


def _explain(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.answer import Message
    from weighbridge.answers.explain import Article, ArticleStyle
    from weighbridge.cli.output import say

    style = ArticleStyle(options.title, _letters(options.letters), options.assume)
    if options.costs or options.batch is not None or options.seq is not None:
        article = _explain_costs(options, style)
    else:
        article = Article(_weigh(options), options.lang, style)
    if not options.output:
        if options.form in _MARKDOWN and article.has_diagrams:
            say(f"note: {_WITHOUT_DIAGRAMS}", options.lang)
        return article
    form = options.form.replace("text", "")  # the default leaves it to the ending of the file
    files = article.save(options.output, form, evidence=options.evidence)
    options.form = "text"
    return Message("\n".join(map(str, files)), notes=article.notes)


def _explain_costs(options: argparse.Namespace, style: ArticleStyle) -> Article:
    from weighbridge.answers.explain import explain

    run: dict[str, Any] = {"costs": options.costs, "sequence": options.seq}
    if options.batch is not None:
        run["batch"] = options.batch
    return explain(
        options.model,
        options.class_name,
        lang=options.lang,
        **style._asdict(),
        **run,
        **asked_of_model(options),
    )


def _letters(text: str) -> dict[str, str]:
    """Return the author's letters by ours, from ``H=h,V=v``."""
    letters: dict[str, str] = {}
    for pair in filter(None, text.split(",")):
        ours, equals, theirs = map(str.strip, pair.partition("="))
        if not equals or not ours or ours in letters:
            raise UsageError(
                "--letters takes each size once, as OURS=YOURS",
                values={"found": pair},
                hint="for example --letters H=h,V=v",
            )
        letters[ours] = theirs
    return letters


def _formula_options() -> Iterable[Addable]:
    from weighbridge.answers.formula import FORMS as CODE_FORMS
    from weighbridge.answers.formula import GROUPINGS, NAMES, QUANTITIES

    return (
        *OF_A_MODEL,
        Option(
            "--of",
            choices=QUANTITIES,
            default="parameters",
            help="what the formula counts: parameters, the default, or what a run takes: FLOPs of "
            "matrix products, bytes saved for a backward pass, bytes of a cache",
        ),
        PROFILE.but(help="the kernels of the run, for --of flops and --of saved"),
        Option(
            "--train",
            action="store_true",
            help="with --of flops: those of the backward pass, too",
        ),
        Option(
            "--whole",
            action="store_true",
            help="the formula of the whole family, with cases for flags and layers, not of this "
            "config; as text, python or json",
        ),
        BY.but(choices=GROUPINGS, default="total", help="what each formula counts"),
        OneOf(
            (
                FORMAT.but(dest="code", choices=CODE_FORMS, help="the form of the formula"),
                JSON.but(dest="code", default="text"),
            )
        ),
        Option(
            "--names",
            choices=NAMES,
            help="the names in the formula; by default text has both and code has fields",
        ),
    )


def _formula(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.formula import formula

    if options.code == "json":
        options.form = "json"
    return formula(
        options.model,
        options.class_name,
        lang=options.lang,
        of=options.of,
        profile=options.profile,
        train=options.train,
        whole=options.whole,
        **asked_of_model(options),
    )


def _tree_options() -> Iterable[Addable]:
    depth = Option("--depth", type=int, metavar="N", help="show at most N levels of modules")
    flow = Option(
        "--flow",
        action="store_true",
        help="print the modules in the order in which they run, with residual sums and joins",
    )
    return (*OF_A_MODEL, depth, flow, OneOf((JSON, MARKDOWN)))


def _tree(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.tree import Tree

    answer = Tree(_weigh(options))
    return answer.flow() if options.flow else answer


COMMANDS = {
    "weigh": Command(_weigh_options, _weigh_any, choices=("by",)),
    "explain": Command(_explain_options, _explain),
    "formula": Command(_formula_options, _formula, choices=("by", "names", "code")),
    "tree": Command(_tree_options, _tree, choices=("depth",)),
}
