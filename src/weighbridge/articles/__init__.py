"""Reads articles that derive a count of parameters, and checks what they say.

`examination` has the order in which the rooms work: `text` has the lines, `sizes` the sizes and the
model, and `arithmetic`, `tables` and `printouts` check what is stated.
"""

from weighbridge.articles.examination import Examination, examine

__all__ = ["Examination", "examine"]
