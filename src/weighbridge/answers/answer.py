"""The base of the answers that public questions return; they leave layout to `render`."""

from __future__ import annotations

from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.document import Document, Lines, write
from weighbridge.render.safe import json_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from weighbridge.answers.data_table import DataTable
    from weighbridge.render.document import Block


class Answer:
    """The base of answers: no notes, exit status 0, and the same text in Python and terminals.

    An answer with several forms takes the choice as further arguments of `to_dict` and `document`,
    the same for both, and all optional.
    """

    lang: str = "en"
    """The default language. Set it here to change it for all answers."""

    keys_are_data: bool = False
    """Whether the keys of `to_dict` are data, such as names of models, or those of a config."""

    @property
    def status(self) -> int:
        """The exit status of the command: 0 when done, 1 when the answer is no."""
        return 0

    @property
    def notes(self) -> list[str]:
        """Notes for the user on the question; the command writes them to stderr."""
        return []

    def to_dict(self) -> Any:
        """Return everything, ready for JSON."""
        raise NotImplementedError

    def document(self, lang: str = "en") -> Document:
        """Return the answer as a document in a language."""
        raise NotImplementedError

    def text(self, lang: str | None = None, **choices: Any) -> str:
        """Write it for a terminal, as the command prints it.

        Args:
            lang: ``"en"`` or ``"zh"``; the answer's own `lang` if left out.
            choices: the further arguments of the answer's `document`, such as ``by="role"``.

        Raises:
            UsageError: the language or a choice is unknown.
        """
        return write(self._in_language(lang, choices), "text")

    def markdown(self, lang: str | None = None, **choices: Any) -> str:
        """Write it in Markdown; see `text`."""
        return write(self._in_language(lang, choices), "markdown")

    def latex(self, lang: str | None = None, **choices: Any) -> str:
        """Write it as a LaTeX document that compiles; see `text`."""
        return write(self._in_language(lang, choices), "latex")

    def page(self, lang: str | None = None, **choices: Any) -> str:
        """Write it as a self-contained HTML page; see `text`."""
        return write(self._in_html(lang, choices), "html")

    def html(self, lang: str | None = None, **choices: Any) -> str:
        """Write it as a piece of HTML, without scripts or styles of its own; see `text`."""
        from weighbridge.render import html  # noqa: PLC0415  # a terminal does without

        return html.fragment(self._in_html(lang, choices))

    def pictures(self, lang: str) -> Sequence[Block]:  # noqa: ARG002  # most answers have none
        """Return the blocks in a language that HTML alone shows, below the others."""
        return ()

    def _in_html(self, lang: str | None, choices: Mapping[str, Any]) -> Document:
        document = self._in_language(lang, choices)
        return document._replace(blocks=(*document.blocks, *self.pictures(document.lang)))

    def _in_language(self, lang: str | None, choices: Mapping[str, Any]) -> Document:
        if lang is None:
            lang = self.lang
        document: Any = self.document  # each answer has its own choices
        written: Document = document(lang, **choices)
        return written

    def __repr__(self) -> str:
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([*notes, self.text()])

    def _repr_html_(self) -> str:
        """Return the answer for a notebook, with the notes of the command below it."""
        from weighbridge.render import html  # noqa: PLC0415  # only a notebook asks for it
        from weighbridge.render.messages import in_language  # noqa: PLC0415

        notes = [in_language(f"note: {note}", self.lang) for note in self.notes]
        return html.fragment(self._in_html(None, {}), notes)


class TabularAnswer(Answer):
    """An answer that is also a table, for CSV, pandas and Arrow."""

    groupings: tuple[str, ...] = ()
    """The possible meanings of a row; the first is the default."""

    def data_table(self, by: str | None = None) -> DataTable:
        """Return the table; its values are numbers, texts and lists of these.

        Args:
            by: the meaning of a row, one of `groupings`.

        Raises:
            UsageError: the grouping is unknown.
        """
        if by is None:
            by = self.groupings[0]
        if by not in self.groupings:
            raise UsageError(
                "there is no such grouping",
                values={"by": by},
                hint=f"use one of {', '.join(self.groupings)}",
            )
        return self._data_table(by)

    def _data_table(self, by: str) -> DataTable:
        raise NotImplementedError

    def records(self, by: str | None = None) -> list[dict[str, Any]]:
        """Return a dict for each row of the table, in the order of the answer; see `data_table`."""
        return self.data_table(by).records()

    def csv(self, by: str | None = None) -> str:
        """Write the table as CSV, without a total; see `data_table`."""
        return self.data_table(by).csv()

    def to_pandas(self, by: str | None = None) -> Any:
        """Return the table as a ``pandas.DataFrame``; see `data_table`.

        Raises:
            UsageError: the grouping is unknown, or pandas is not installed.
        """
        return self.data_table(by).to_pandas()

    def to_arrow(self, by: str | None = None) -> Any:
        """Return the table as a ``pyarrow.Table``; see `data_table`.

        Raises:
            UsageError: the grouping is unknown, or pyarrow is not installed.
        """
        return self.data_table(by).to_arrow()


class Message(Answer):
    """An answer that is only a text."""

    def __init__(self, text: str, status: int = 0, notes: Sequence[str] = ()) -> None:
        self._text, self._status, self._notes = text, status, list(notes)

    @property
    def status(self) -> int:
        """The exit status of the command."""
        return self._status

    @property
    def notes(self) -> list[str]:
        """Notes for the user."""
        return self._notes

    def to_dict(self) -> str:
        """Return the text."""
        return self._text

    def document(self, lang: str = "en") -> Document:
        """Return the text with its lines unchanged; ``lang`` has no effect."""
        return Document((Lines(self._text),), lang)


class Data(Answer):
    """An answer that is plain data for JSON."""

    keys_are_data = True

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
        """Return the value as JSON; ``lang`` has no effect."""
        return Document((Lines(json_text(self._value)),), lang)
