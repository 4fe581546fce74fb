"""The command line: parse, one library call, report. No arithmetic.

Data goes to stdout, words about it to stderr. The exit status is 0 when done, 1 when the answer is
no (verify found a difference, guess nothing that fits exactly, reconcile no way, audit a slip,
measure a wrong count), 2 when it could not be answered.
"""

from __future__ import annotations

from weighbridge.cli.program import main, run

__all__ = ["main", "run"]
