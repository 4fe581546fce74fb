"""The address of a user's class, ``package.module:Class``, and the name of its family."""

from __future__ import annotations

import os
import re

from weighbridge.errors import UsageError

REMOTE = "remote_code"
"""The package as which the code of a model repository is imported."""
_ADDRESS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_FAMILY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
# the start of each word in a CamelCase name
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z]|[A-Z]{2}(?![a-z]))|(?<=[A-Z])(?=[A-Z][a-z])")


def split(address: str) -> tuple[str, str]:
    """Return the module and the class of an address.

    Raises:
        UsageError: it is not an address.

    Example:
        >>> split("mypackage.mymodel:Outer.Inner")
        ('mypackage.mymodel', 'Outer.Inner')
        >>> split("mypackage/mymodel.py:Inner")
        Traceback (most recent call last):
        weighbridge.errors.UsageError: mypackage/mymodel.py:Inner: is not the address of a class.
        Write mypackage.mymodel:Inner, as in a Python import.
    """
    module, _, name = address.partition(":")
    if not _ADDRESS.fullmatch(address):
        as_imported = module.removesuffix(".py").replace(os.sep, ".").strip(".")
        shown = f"{as_imported}:{name or 'Class'}"
        if not _ADDRESS.fullmatch(shown):
            shown = "package.module:Class"
        raise UsageError(
            "is not the address of a class",
            where=address,
            hint=f"write {shown}, as in a Python import",
        )
    return module, name


def family_of(address: str, given: str | None = None) -> str:
    """Return the family of a user's class: the given one, or the class's name in snake_case.

    Raises:
        UsageError: the address or the given family is malformed.

    Example:
        >>> family_of("mypackage.mymodel:MyGPTModel"), family_of("mymodel:MoE", "sparse_gpt")
        ('my_gpt_model', 'sparse_gpt')
    """
    _, name = split(address)
    if given is None:
        return _WORD_STARTS.sub("_", name.rpartition(".")[2]).lower().strip("_")
    if not _FAMILY.fullmatch(given):
        hint = "use letters, digits, dots, dashes and underscores, as in my_model"
        raise UsageError(
            "is not a valid family name", where="--family", values={"found": given}, hint=hint
        )
    return given
