"""How deep parsed values nest: counted, because a deep one can end the process.

What recurses in C, such as `repr` or a generator inside a generator, needs stack at each level.
Where the stack is smaller than Python believes, as in a browser, no `RecursionError` comes.
"""

from __future__ import annotations

from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

MOST_NESTED = 64  # lists and objects in each other; no header or config needs ten


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table in a TOML text that a user wrote.

    The parser itself is written in Python, which counts its own levels.

    Raises:
        RecursionError: its lists and tables nest more than `MOST_NESTED` deep.
        ValueError: it is not TOML, or has an integer of too many digits.

    Example:
        >>> parse_toml("a.b = [1]")
        {'a': {'b': [1]}}
        >>> parse_toml(".".join(70 * "a") + " = 1")
        Traceback (most recent call last):
        RecursionError: nests more than 64 deep
    """
    import tomllib  # noqa: PLC0415  # few commands read such a file

    table = tomllib.loads(text)
    if is_deeper(table, MOST_NESTED):
        raise RecursionError(f"nests more than {MOST_NESTED} deep")
    return table


def is_deeper(value: Any, most: int) -> bool:
    """Return whether lists and dicts nest more than ``most`` deep in a value.

    Example:
        >>> is_deeper({"a": [1]}, 2), is_deeper({"a": [1]}, 1), is_deeper(1, 0)
        (False, True, False)
    """
    level = [value]
    for _ in range(most + 1):
        containers = [found for found in level if isinstance(found, dict | list)]
        if not containers:
            return False
        level = []
        for container in containers:
            level += container.values() if isinstance(container, dict) else container
    return True
