"""The text of a folded program: a line for each step, as code would write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weighbridge.derive.flows.folding import OLDER, FoldedLoop
from weighbridge.derive.flows.recording import OPERATION, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weighbridge.derive.flows.folding import Arg, Folded, FoldedStep, Item

_INDENT = "  "
_SYMBOLS = "+-*/@"


class Line(NamedTuple):
    """A line of a program; in a loop, with what is called and with the turns in which it runs.

    ``letter`` is the index of the loop and ``turns`` has all its values.
    """

    text: str
    slot: str
    letter: str = ""
    places: frozenset[int] = frozenset()
    turns: frozenset[int] = frozenset()


def program_lines(folded: Folded) -> list[Line]:
    """Return the lines of a program: values are numbered, and results by part where they differ."""
    return [*_ProgramWriter(folded).lines()]


class _ProgramWriter:
    def __init__(self, folded: Folded) -> None:
        self._folded = folded
        self._names: dict[int | str, str] = {}
        steps = [*_steps(folded.items)]
        for at, step in enumerate(steps):
            self._names[step.number] = f"v{at}"
        self._parts: dict[int | str, set[str]] = {}
        refs = [*folded.returned]
        for step in steps:
            for case in step.cases:
                for _, arg in case.arguments:
                    refs += [ref for ref in arg if ref is not None]
        for ref in refs:
            self._parts.setdefault(ref.source, set()).add(ref.part.removeprefix(OLDER))

    def lines(self) -> Iterator[Line]:
        yield from self._items(self._folded.items, "", FoldedLoop("", ()))
        if self._folded.returned:
            text = f"return {', '.join(map(self._ref, self._folded.returned))}"
            yield Line(text, text)

    def _items(self, items: Iterable[Item], indent: str, loop: FoldedLoop) -> Iterator[Line]:
        turns = frozenset[int]()
        if loop.letter:
            turns = turns.union(*[case.places for step in _steps(items) for case in step.cases])
        for item in items:
            if isinstance(item, FoldedLoop):
                head = f"{indent}for {{{item.letter}}}:" if item.letter else f"{indent}loop:"
                yield Line(head, head)
                inner = item if item.letter else item._replace(letter=loop.letter)
                yield from self._items(item.steps, indent + _INDENT, inner)
            else:
                yield from self._of_step(item, indent, loop.letter, turns)

    def _of_step(
        self, step: FoldedStep, indent: str, letter: str, turns: frozenset[int]
    ) -> Iterator[Line]:
        begin = f"{indent}{self._names[step.number]} = "
        for case in step.cases:
            text = begin + self._call(step, case.arguments)
            if letter:
                yield Line(text, begin + step.called, letter, case.places, turns)
            else:
                yield Line(text, text)

    def _call(self, step: FoldedStep, arguments: Iterable[tuple[str, Arg]]) -> str:
        shown = [*dict.fromkeys(self._arg(arg) for _, arg in arguments)]
        if step.kind == OPERATION and step.called in _SYMBOLS and len(shown) == 2:
            return f" {step.called} ".join(shown)
        called = step.called
        if step.kind == OPERATION and called in _SYMBOLS:
            called = {"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul"}[called]
        return f"{called}({', '.join(shown)})"

    def _arg(self, arg: Arg) -> str:
        if arg.again is None:
            return "" if arg.first is None else self._ref(arg.first)
        first = "" if arg.first is None else self._ref(arg.first)
        return f"{first}|{self._ref(arg.again)}"

    def _ref(self, ref: Ref) -> str:
        name = self._names.get(ref.source, str(ref.source))
        part = ref.part.removeprefix(OLDER)
        if part != ref.part:
            name += OLDER
        if part and (len(self._parts.get(ref.source, ())) > 1 or isinstance(ref.source, str)):
            return f"{name}.{part}"
        return name


def _steps(items: Iterable[Item]) -> Iterator[FoldedStep]:
    for item in items:
        if isinstance(item, FoldedLoop):
            yield from _steps(item.steps)
        else:
            yield item
