"""An author's own letters for sizes, and assumptions such as F = 4H that simplify formulas."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.expr import evaluate, names_in, parse, source, substitute
from weighbridge.algebra.polynomial import Monomial, Polynomial
from weighbridge.errors import ExpressionError, UsageError, shorten
from weighbridge.render.diagram import labels, with_prose
from weighbridge.render.document import Bullets, Chain, Diagram, Grid, Heading, Paragraph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.answers.sentences import Narrator
    from weighbridge.render.document import Block


class Notation:
    """Rewrites the mathematics of an article in an author's letters, under assumptions.

    ``letters`` are the author's letters by ours, or by config fields. An assumption is an equation
    of a letter and an expression in either kind of letters.
    """

    def __init__(
        self, narrator: Narrator, letters: Mapping[str, str], assumptions: Iterable[str]
    ) -> None:
        self.narrator = narrator
        self.names = self._names(letters)
        """The author's letters, by ours."""
        self._ours = {theirs: ours for ours, theirs in self.names.items()}
        self.assumed: dict[str, Tree] = {}
        """The expressions that replace letters of ours."""
        for assumption in assumptions:
            self._assume(assumption)

    def _names(self, letters: Mapping[str, str]) -> dict[str, str]:
        """Return the author's letters by ours, or refuse them."""
        names: dict[str, str] = {}
        for letter, theirs in letters.items():
            ours = self._known(letter)
            if not re.fullmatch(_LETTER, theirs) or parse_or_none(theirs) != ("name", theirs):
                hint = "use a letter, or a name such as d_model"
                raise UsageError(f"{shorten(theirs)} is not a letter for a size", hint=hint)
            if theirs in self.narrator.taken:
                hint = "use another letter"
                raise UsageError(f"{theirs} is an index in the names of tensors", hint=hint)
            names[ours] = theirs
        fields_by_letter: dict[str, str] = {}
        for letter, field in self.narrator.fields_by_letter.items():
            theirs = names.get(letter, letter)
            if theirs in fields_by_letter:
                raise UsageError(
                    f"two sizes have the letter {theirs}",
                    values={"first": fields_by_letter[theirs], "then": field},
                    hint="give each size a letter of its own",
                )
            fields_by_letter[theirs] = field
        return names

    def _known(self, letter: str) -> str:
        """Return our letter for a letter or a config field."""
        narrator = self.narrator
        ours = narrator.letters.get(letter, letter)
        if ours not in narrator.fields_by_letter:
            known = ", ".join(narrator.fields_by_letter)
            raise UsageError(
                f"this model has no size with the letter {shorten(letter, str)}",
                hint=f"its letters are {known}",
            )
        return ours

    def _assume(self, assumption: str) -> None:
        letter, equals, text = assumption.partition("=")
        written = _written_out(text)
        fraction, tree = parse_or_none(written), parse_or_none(written.replace("/", "//"))
        if not equals or tree is None or fraction is None:
            raise UsageError(
                "an assumption equates a letter and an expression",
                values={"found": assumption},
                hint='for example --assume "F = 4H"',
            )
        letter = self._ours.get(letter.strip(), letter.strip())
        ours = self._known(letter)
        tree = substitute(tree, self._in_our_letters)
        values = self.narrator.values
        actual = values[ours]
        assumed = evaluate(substitute(fraction, self._in_our_letters), values)
        if actual != assumed:
            shown = self.names.get(ours, ours)
            raise UsageError(
                f"the config contradicts the assumption {shown} = {text.strip()}",
                values={shown: actual, text.strip(): assumed},
                hint="leave the assumption out, or change the config with --set",
            )
        tree = substitute(tree, self._assumed_tree)
        if ours in names_in(tree) or ours in self.assumed:
            raise UsageError(
                f"the assumptions say more than once what {shorten(letter, str)} is",
                hint="keep one assumption for each letter",
            )
        known = {ours: tree}
        for other, expression in self.assumed.items():
            self.assumed[other] = substitute(
                expression, lambda name: known.get(name, ("name", name))
            )
        self.assumed[ours] = tree

    def _in_our_letters(self, name: str) -> Tree:
        return ("name", self._known(self._ours.get(name, name)))

    def _assumed_tree(self, name: str) -> Tree:
        return self.assumed.get(name, ("name", name))

    def _renamed(self, name: str) -> Tree:
        return ("name", self.names.get(name, name))

    # Rewriting

    @property
    def values(self) -> dict[str, Any]:
        """The values of all names in rewritten expressions."""
        values = dict(self.narrator.values)
        return values | {theirs: values[ours] for ours, theirs in self.names.items()}

    def assumptions(self) -> Iterator[str]:
        """Yield each assumption as prose, with its value."""
        for letter, tree in self.assumed.items():
            shown = source(substitute(tree, self._renamed))
            yield f"${self.names.get(letter, letter)}$ = ${shown}$ = $={shown}$"

    def blocks(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks of an article with their mathematics rewritten."""
        for block in blocks:
            rewrite = _BLOCKS.get(type(block))
            if rewrite is None or not (self.names or self.assumed):
                yield block
            else:
                yield rewrite(self, block)

    def prose(self, marked: str) -> str:
        """Rewrite the mathematics in prose; prose without any is returned as it is."""
        if "$" not in marked:
            return marked
        return _MATHEMATICS.sub(self._rewritten_mark, marked)

    def _rewritten_mark(self, mark: re.Match[str]) -> str:
        if mark["plain"]:
            return mark[0]
        return f"${self.expression(mark['math'])}$"

    def expression(self, marked: str) -> str:
        """Rewrite an expression as it is marked in prose: ``V*H``, ``#V*H`` or ``=V*H``."""
        prefix = marked[: len(marked) - len(marked.lstrip("=#"))]
        tree = parse(marked.removeprefix(prefix))
        if not self.assumed.keys().isdisjoint(names_in(tree)):
            tree = self.narrator.tidied(substitute(tree, self._assumed_tree))
        return prefix + source(substitute(tree, self._renamed))


_LETTER = r"[A-Za-z]\w*"
_MATHEMATICS = re.compile(r"\\(?P<plain>.)|\$(?P<math>[^$]+)\$", re.DOTALL)


def _rewritten_grid(notation: Notation, block: Grid) -> Grid:
    rows = tuple(tuple(map(notation.prose, row)) for row in block.table.rows)
    return Grid(block.table._replace(rows=rows))


def _rewritten_diagram(notation: Notation, block: Diagram) -> Diagram:
    return block._replace(parts=with_prose(block.parts, notation.prose))


_BLOCKS: dict[type, Callable[[Notation, Any], Block]] = {
    Heading: lambda notation, block: Heading(block.level, notation.prose(block.prose)),
    Paragraph: lambda notation, block: Paragraph(notation.prose(block.prose)),
    Bullets: lambda notation, block: Bullets(tuple(map(notation.prose, block.items))),
    Chain: lambda notation, block: Chain(
        tuple(dict.fromkeys(map(notation.expression, block.parts)))
    ),
    Grid: _rewritten_grid,
    Diagram: _rewritten_diagram,
}


def names_shown(blocks: Iterable[Block]) -> set[str]:
    """Return the names in the mathematics of an article, without those that are only evaluated."""
    names = set[str]()
    for marked in chain.from_iterable(map(_marked, blocks)):
        if not marked.startswith("="):
            names.update(names_in(parse(marked.removeprefix("#"))))
    return names


def _marked(block: Block) -> Iterator[str]:
    """Yield the mathematics in a block, as it is marked."""
    if isinstance(block, Chain):
        yield from block.parts
        return
    texts: Sequence[str] = ()
    if isinstance(block, Heading | Paragraph):
        texts = (block.prose,)
    elif isinstance(block, Bullets):
        texts = block.items
    elif isinstance(block, Grid):
        texts = tuple(chain.from_iterable(block.table.rows))
    elif isinstance(block, Diagram):
        texts = labels(block.parts)
    for text in texts:
        for mark in _MATHEMATICS.finditer(text):
            if mark["math"]:
                yield mark["math"]


# Expressions as people write them


def parse_or_none(text: str) -> Tree | None:
    """Return the tree of an expression; None if it cannot be parsed."""
    try:
        return parse(text)
    except ExpressionError:
        return None


def _written_out(text: str) -> str:
    """Return an expression with the signs that people leave out or write otherwise.

    Example:
        >>> _written_out("4H"), _written_out("2·A×D²/3")
        ('4*H', '2*A*D**2/3')
    """
    text = re.sub(r"[·×]", "*", text.strip()).replace("^", "**").replace("²", "**2")
    text = text.replace("//", "/")
    return re.sub(r"(?<![\w.])(\d+)\s*(?=[A-Za-z(])", r"\1*", text)


# Simplification


def tidied(
    tree: Tree, values: Mapping[str, Any], outside: Sequence[str], order: Sequence[str]
) -> Tree:
    """Return an expression multiplied out, in which each exact division that cancels does.

    Example:
        >>> tree = parse("L * (3 * A * (H // A) * H + 2 * H)")
        >>> source(tidied(tree, {"L": 2, "A": 4, "H": 8}, ["L"], ["L", "A", "H"]))
        'L * (3 * H ** 2 + 2 * H)'
        >>> source(tidied(tree, {"L": 2, "A": 3, "H": 8}, ["L"], ["L", "A", "H"]))
        'L * (3 * A * H * floor(H / A) + 2 * H)'
    """
    try:
        tree = _MultipliedOut(values).polynomial(tree).tree(outside, order)
    except (OverflowError, ExpressionError):  # it is too long
        return tree
    return _with_floors(tree, values)


def _with_floors(tree: Tree, values: Mapping[str, Any]) -> Tree:
    """Return a tree with ``floor(a / b)`` for each division that leaves a remainder."""
    kind, *operands = tree
    if kind in ("name", "value"):
        return tree
    changed = []
    for operand in operands:
        if isinstance(operand, tuple):
            changed.append(_with_floors(operand, values))
        else:
            changed.append(operand)  # the index of a loop
    if kind == "//" and not _is_exact(operands, values):
        return ("floor", ("/", *changed))
    return (kind, *changed)


class _MultipliedOut:
    """Expressions as polynomials, in which a // b times b is a where that leaves no remainder.

    The terms of a long sum meet at each of its additions, and are looked at once.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._cancelled_terms: dict[tuple[Monomial, int], Polynomial] = {}

    def polynomial(self, tree: Tree) -> Polynomial:
        kind, *operands = tree
        if kind == "value" and type(operands[0]) is int:
            return Polynomial({(): operands[0]})
        if kind in _RING:
            return self._cancelled(_RING[kind](*map(self.polynomial, operands)))
        if kind == "**" and type(operands[1][1]) is int:
            return self._cancelled(self.polynomial(operands[0]) ** operands[1][1])
        if kind == "//" and type(operands[1][1]) is int:
            terms, divisor = self.polynomial(operands[0]).terms, operands[1][1]
            if divisor and not any(coefficient % divisor for coefficient in terms.values()):
                return Polynomial({term: terms[term] // divisor for term in terms})
        return Polynomial.whole(tree)

    def _cancelled(self, product: Polynomial) -> Polynomial:
        total: dict[Monomial, int] = {}
        for term in product.terms.items():
            if term not in self._cancelled_terms:
                self._cancelled_terms[term] = self._cancelled_term(*term)
            for monomial, coefficient in self._cancelled_terms[term].terms.items():
                total[monomial] = total.get(monomial, 0) + coefficient
        return Polynomial(total)

    def _cancelled_term(self, monomial: Monomial, coefficient: int) -> Polynomial:
        powers = dict(monomial)
        replaced = Polynomial({(): 1})
        for factor, power in monomial:
            kind, *operands = parse(factor)
            if kind != "//" or not _is_exact(operands, self._values):
                continue
            dividend, divisor = operands
            name = source(divisor)
            if powers.get(name, 0) >= power:
                powers[name] -= power
            elif divisor[0] == "value" and coefficient % divisor[1] ** power == 0:
                coefficient //= divisor[1] ** power
            else:
                continue
            powers[factor] = 0
            replaced *= self.polynomial(dividend) ** power
        rest = tuple(sorted((factor, power) for factor, power in powers.items() if power))
        return replaced * Polynomial({rest: coefficient})


_RING: dict[str, Callable[..., Polynomial]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "neg": lambda operand: -operand,
}


def _is_exact(operands: Sequence[Tree], values: Mapping[str, Any]) -> bool:
    """Whether a division of sizes leaves no remainder."""
    needed = set(chain.from_iterable(map(names_in, operands)))
    if not needed <= values.keys():
        return False
    dividend, divisor = (evaluate(operand, values) for operand in operands)
    return bool(divisor) and bool(dividend % divisor == 0)
