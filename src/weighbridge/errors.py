"""The exceptions that weighbridge raises on purpose.

Every error is one message that a person can act on: where it happened, what is wrong, the values
involved, and what to do next. The command line prints it on stderr and exits with status 2.
"""

from __future__ import annotations

from types import MappingProxyType

from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sized

_LONGEST_VALUE = 60  # characters: a message stays one line
_LONGEST_PLACE = 200  # paths are longer than values


class WeighbridgeError(Exception):
    """A question that could not be answered.

    Args:
        what: the problem, in one sentence without its full stop.
        where: the file, model or field that it concerns.
        values: the values involved, by name; long ones are shortened.
        hint: what to do next, in one sentence without its full stop; a question keeps its mark.

    Example:
        >>> print(WeighbridgeError("a size must be a positive integer", where="config.json",
        ...                        values={"hidden_size": -1},
        ...                        hint="give hidden_size as 1 or more"))
        config.json: a size must be a positive integer (hidden_size = -1).
        Give hidden_size as 1 or more.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        values: Mapping[str, object] | None = None,
        hint: str = "",
    ) -> None:
        self.what, self.where, self.values, self.hint = what, where, dict(values or {}), hint
        super().__init__(what)

    @property
    def shown_where(self) -> str:
        """The place as the message shows it: printable, and not too long."""
        return shorten(self.where, str, _LONGEST_PLACE)

    @property
    def shown_values(self) -> dict[str, str]:
        """The values as the message shows them, by name."""
        return {name: shorten(value) for name, value in self.values.items()}

    def __str__(self) -> str:
        message = self.what
        if self.where:
            message = f"{self.shown_where}: {message}"
        if self.values:
            values = (f"{name} = {value}" for name, value in self.shown_values.items())
            message += f" ({', '.join(values)})"
        message += "."
        if self.hint:
            message += f" {self.hint[0].upper()}{self.hint[1:]}"
            if not self.hint.endswith("?"):
                message += "."
        return message


class UsageError(WeighbridgeError):
    """The question itself is malformed: an unknown option, format or field."""


class ModelError(WeighbridgeError):
    """A model, family, class or file that does not exist or does not fit."""


class UnknownNameError(ModelError):
    """A word that is the name of no model, or that may be the name of several."""


class SeveralModelsError(UnknownNameError):
    """A word that several models' names begin with."""


class ConfigError(WeighbridgeError):
    """A config that cannot be read, or that does not describe a model."""


class BlueprintError(WeighbridgeError):
    """A blueprint file that breaks the law of its format."""


class ExpressionError(WeighbridgeError):
    """Text that is not an expression, or an expression that has no value."""


class LongLoopError(ExpressionError):
    """An expression whose loops have more rounds than are allowed; its value is not known."""


class ArticleError(WeighbridgeError):
    """An article that cannot be read, or that contains nothing to check."""


class CheckpointError(WeighbridgeError):
    """A checkpoint that cannot be read or breaks a rule; the rule's name comes first."""

    @property
    def rule(self) -> str:
        """The name of the broken rule."""
        return self.what.partition(":")[0]


def shorten(value: object, show: type[str] | None = None, longest: int = _LONGEST_VALUE) -> str:
    """Return an untrusted value as one printable line of at most ``longest`` characters.

    Example:
        >>> shorten(10**100), shorten("x" * 100, longest=9), shorten([1, 2]), shorten(None)
        ('an integer of 333 bits', "'xxxxx...", 'a list of 2', 'null')
    """
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 4 * longest:
        return f"an integer of {value.bit_length()} bits"
    text = printable(_shown_value(value, show, longest))
    if len(text) > longest:
        text = text[: longest - 3] + "..."
    return text


def _shown_value(value: object, show: type[str] | None, longest: int) -> str:
    if show is str and isinstance(value, str):
        return value
    try:
        return _repr(value, longest)
    except Exception:
        # The value's own code may fail in any way; that must not hide the actual error.
        return f"a {type(value).__name__} that cannot be shown"


def printable(text: str) -> str:
    r"""Return an untrusted text with a replacement for each unprintable character.

    Example:
        >>> printable("model\x1b[31m.json")
        'model�[31m.json'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _repr(value: object, longest: int) -> str:
    """Return ``repr(value)``, but only the type and length of a container."""
    if isinstance(value, str):
        return repr(value[: longest + 1])
    for kind, name in _CONTAINERS.items():
        if isinstance(value, kind):
            return f"{name} of {len(value)}"
    shown = repr(value)
    return {"True": "true", "False": "false", "None": "null"}.get(shown, shown)


_CONTAINERS: dict[type[Sized], str] = {
    list: "a list",
    tuple: "a tuple",
    dict: "an object",
    MappingProxyType: "an object",
    set: "a set",
    frozenset: "a set",
}


def nearest(names: Iterable[str], wanted: str, most: int = 3) -> list[str]:
    """Return the names closest to a misspelt one, best first, as suggestions for a message.

    Example:
        >>> nearest(["hidden_size", "vocab_size"], "hiden_size")
        ['hidden_size']
    """
    import difflib  # noqa: PLC0415  # only needed for a wrong name

    by_lower = {name.lower(): name for name in names}
    return [
        by_lower[name]
        for name in difflib.get_close_matches(wanted[:200].lower(), by_lower, n=most, cutoff=0.75)
    ]


def either(names: Iterable[str]) -> str:
    """Return names as alternatives, for a message.

    Example:
        >>> either(["a"]), either(["a", "b"]), either(["a", "b", "c"])
        ('a', 'a or b', 'a, b or c')
    """
    *others, last = names
    if not others:
        return last
    return f"{', '.join(others)} or {last}"
