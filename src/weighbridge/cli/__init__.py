"""The command line: parse, call the library once, report; no arithmetic.

Data goes to stdout, notes and errors to stderr. The exit status is 0 for success, 1 if the answer
is no (verify finds a difference, guess no exact fit, reconcile no way, audit a slip, measure a
wrong count), and 2 if there is no answer.
"""

from __future__ import annotations

from weighbridge.cli.program import main, run

__all__ = ["main", "run"]
