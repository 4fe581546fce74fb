"""Reads articles that derive a count of parameters, and checks what they say.

`examination` has the order in which the other modules work.
"""

from weighbridge.articles.examination import Examination, examine

__all__ = ["Examination", "examine"]
