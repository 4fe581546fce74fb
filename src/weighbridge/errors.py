"""What weighbridge raises on purpose, and nothing else.

Every error is one message a person can act on: where it happened, what is wrong, the values at
hand, what to do next. The command line prints it on stderr and exits with 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sized

_LONGEST_VALUE = 60


class WeighbridgeError(Exception):
    """A question that could not be answered.

    Args:
        what: the rule that does not hold, in one sentence without its full stop.
        where: the file, model or field it concerns.
        values: the values at hand, by name; long ones are shortened.
        hint: what to do next, in one sentence without its full stop; a question keeps its mark.

    Example:
        >>> print(WeighbridgeError("a size must be a positive integer", where="config.json",
        ...                        values={"hidden_size": -1}, hint="give hidden_size as 1 or more"))
        config.json: a size must be a positive integer (hidden_size = -1). Give hidden_size as 1 or more.
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

    def __str__(self) -> str:
        bound = ", ".join(f"{name} = {shorten(value)}" for name, value in self.values.items())
        parts = (
            f"{shorten(self.where, str, 200)}: " if self.where else "",
            self.what,
            f" ({bound})" if bound else "",
            ".",
            f" {self.hint[0].upper()}{self.hint[1:]}{'' if self.hint.endswith('?') else '.'}"
            if self.hint
            else "",
        )
        return "".join(parts)


class UsageError(WeighbridgeError):
    """The question itself is malformed: an unknown option, format or field."""


class ModelError(WeighbridgeError):
    """No such model, family, class or file."""


class ConfigError(WeighbridgeError):
    """A config that cannot be read, or that describes no buildable model."""


class BlueprintError(WeighbridgeError):
    """A blueprint file that breaks the law of its format."""


class ExpressionError(WeighbridgeError):
    """Text that is not an expression, or an expression that has no value."""


class ArticleError(WeighbridgeError):
    """An article that cannot be read, or that has nothing to check."""


class CheckpointError(WeighbridgeError):
    """A checkpoint that cannot be read, or whose header cannot be trusted: it breaks a rule, whose name comes first."""

    @property
    def rule(self) -> str:
        """The name of the rule that is broken."""
        return self.what.partition(":")[0]


def shorten(value: object, show: type[str] | None = None, longest: int = _LONGEST_VALUE) -> str:
    """Show a value from outside on one line, printable, at most ``longest`` characters.

    Example:
        >>> shorten(10**100), shorten("x" * 100, longest=9), shorten([1, 2]), shorten(None)
        ('an integer of 333 bits', "'xxxxx...", 'a list of 2', 'null')
    """
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 4 * longest:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = value if show is str and isinstance(value, str) else _repr(value, longest)
    except (
        Exception
    ):  # a value's own code may fail in any way, and must not hide what was wrong with it
        text = f"a {type(value).__name__} that cannot be shown"
    text = printable(text)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def printable(text: str) -> str:
    r"""Return a text from outside as a terminal may be shown it: what is no printable character is replaced.

    Example:
        >>> printable("model\x1b[31m.json")
        'model�[31m.json'
    """
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    )


def _repr(value: object, longest: int) -> str:
    """Return ``repr(value)`` without building a huge or deep one: containers are named by their size."""
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
    set: "a set",
    frozenset: "a set",
}


def nearest(names: Iterable[str], wanted: str, most: int = 3) -> list[str]:
    """Return the names nearest to one that is not among them, nearest first: what a message suggests.

    Example:
        >>> nearest(["hidden_size", "vocab_size"], "hiden_size")
        ['hidden_size']
    """
    import difflib  # noqa: PLC0415  # only ever needed for a name that is wrong

    by_lower = {name.lower(): name for name in names}
    return [
        by_lower[name]
        for name in difflib.get_close_matches(wanted[:200].lower(), by_lower, n=most, cutoff=0.75)
    ]
