"""What every public question returns: an answer, which computes and lays nothing out."""

from __future__ import annotations

from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.document import Document, Lines, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    class Answer(Protocol):
        """What the command line needs to know of an answer.

        One that may be shown in several ways takes those as further options of `to_dict` and
        `document`, the same of both, all of which may be left out.
        """

        @property
        def status(self) -> int:
            """The exit status of the command: 0 when done, 1 when the answer is no."""

        @property
        def notes(self) -> Sequence[str]:
            """What the user should know of the question; the command says it on stderr."""

        def to_dict(self) -> Any:
            """Return everything, ready for JSON."""

        def document(self, lang: str = "en") -> Document:
            """Return the answer as a document in a language, to be written in any format."""


class AnswerBase:
    """The base of answers: done, with nothing to note, shown in Python as in a terminal."""

    @property
    def status(self) -> int:
        """The exit status of the command: 0 when done, 1 when the answer is no."""
        return 0

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know of the question."""
        return ()

    def document(self, lang: str = "en") -> Document:
        """Return the answer as a document in a language."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return write(self.document(), "text")

    def _repr_html_(self) -> str:
        from weighbridge.render import html  # noqa: PLC0415  # only a notebook asks for it

        return html.as_in_terminal(self.document())


class Report(AnswerBase):
    """An answer that is shown in one way, in any language."""

    def text(self, lang: str = "en") -> str:
        """Write it for a terminal."""
        return write(self.document(lang), "text")


class Message(Report):
    """An answer that is text already, and has no more to it."""

    def __init__(self, text: str, status: int = 0, notes: Sequence[str] = ()) -> None:
        self._text, self._status, self._notes = text, status, notes

    @property
    def status(self) -> int:
        """The exit status of the command."""
        return self._status

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know of it."""
        return self._notes

    def to_dict(self) -> str:
        """Return the text."""
        return self._text

    def document(self, lang: str = "en") -> Document:
        """Return the text, in lines as it is; ``lang`` changes nothing."""
        return Document((Lines(self._text),), lang)


class Data(Report):
    """An answer that is ready for JSON already."""

    def __init__(self, value: object, status: int = 0) -> None:
        self._value, self._status = value, status

    @property
    def status(self) -> int:
        """The exit status of the command."""
        return self._status

    def to_dict(self) -> Any:
        """Return the value."""
        return self._value

    def document(self, lang: str = "en") -> Document:
        """Return the value as Python writes it; ``lang`` changes nothing."""
        return Document((Lines(repr(self._value)),), lang)
