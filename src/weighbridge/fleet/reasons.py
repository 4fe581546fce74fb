"""Why a checkpoint or its config was not read, in a form that a row can carry."""

from __future__ import annotations

import os

from weighbridge.errors import WeighbridgeError
from weighbridge.render.messages import error_message


class ReasonError(WeighbridgeError):
    """The texts of an error's message. The error itself holds on to all that was read for it."""

    @property
    def shown_values(self) -> dict[str, str]:
        """The values, which are texts already."""
        return {name: str(value) for name, value in self.values.items()}


def reason_of(error: WeighbridgeError) -> ReasonError:
    """Return the texts of an error's message.

    Example:
        >>> error = WeighbridgeError("is not UTF-8 text", where="a.bin", values={"bytes": 3})
        >>> str(reason_of(error)) == str(error)
        True
    """
    return ReasonError(error.what, where=error.where, values=error.shown_values, hint=error.hint)


def reason_in_brief(reason: ReasonError, path: str, lang: str) -> str:
    """Return the message in a language, beside the path of the checkpoint, which is not repeated.

    Example:
        >>> reason_in_brief(ReasonError("is not UTF-8 text", where="a.bin"), "a.bin", "en")
        'is not UTF-8 text.'
    """
    where = reason.where
    if where == path:
        where = ""
    elif os.path.isabs(where):
        where = os.path.relpath(where)
    placed = ReasonError(reason.what, where=where, values=reason.values, hint=reason.hint)
    return error_message(placed, lang)
