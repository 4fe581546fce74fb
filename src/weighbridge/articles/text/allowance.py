"""Bounds what searches take in all lines of an article together."""

from __future__ import annotations


class Allowance:
    """Steps that the searches in the lines of an article may take.

    Example:
        >>> allowance = Allowance(100)
        >>> allowance.lend(80), allowance.lend(80), allowance.lend(80)
        (80, 20, 0)
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def lend(self, most: int) -> int:
        """Take steps for the search in one line: so many, or all that are left."""
        lent = min(most, self._steps)
        self._steps -= lent
        return lent

    def take_back(self, steps: int) -> None:
        """Give back the steps that a search did not take."""
        self._steps += max(0, steps)
