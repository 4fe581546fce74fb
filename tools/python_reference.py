"""Writes the reference of the Python functions from their docstrings; for use in a cog block.

In a Markdown file::

    <!-- [[[cog
    from python_reference import written
    written()
    ]]] -->
    <!-- [[[end]]] -->
"""

from __future__ import annotations

import inspect
import re
import textwrap

import cog

import weighbridge

SECTIONS = {"Args": "Arguments", "Returns": "Returns", "Raises": "Errors", "Example": ""}
HEADING = re.compile(rf"^({'|'.join(SECTIONS)}):$", re.MULTILINE)
NAMED = re.compile(r"^(\w+): ", re.MULTILINE)


def written() -> None:
    """Write a section for each public name, in the order of the alphabet."""
    for name in weighbridge.__all__:
        if name == "__version__":
            continue
        cog.outl(f"## {name}\n")
        cog.outl("\n".join(section(name, getattr(weighbridge, name))))


def section(name: str, described: object) -> list[str]:
    """Return the lines of a name's section: its call, its docstring, an example that runs."""
    lines = [] if isinstance(described, type) else ["```python", *call(name, described), "```", ""]
    text, *parts = HEADING.split(inspect.getdoc(described) or "")
    lines += [marked(text.strip()), ""]
    for heading, part in zip(parts[::2], parts[1::2], strict=True):
        body = textwrap.dedent(part.strip("\n")).rstrip()
        if heading == "Example":
            lines += ["```python", ">>> from weighbridge import *", body, "", "```", ""]
        else:
            lines += [f"{SECTIONS[heading]}:", "", *items(body), ""]
    return lines


def call(name: str, function: object) -> list[str]:
    """Return the lines of a call: one for each parameter, with its type and its default."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    lines, keyword_only = [f"{name}("], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            lines.append("    *,")
        lines.append("    " + str(parameter).replace("'", "") + ",")
    return [*lines, f") -> {str(signature.return_annotation).strip(chr(39))}"]


def items(body: str) -> list[str]:
    """Return a list in Markdown of what a docstring names, each with its text on one line."""
    _, *parts = NAMED.split(body)
    if not parts:
        return [marked(body)]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [f"- `{name}`: {marked(' '.join(text.split()))}" for name, text in pairs]


def marked(text: str) -> str:
    """Return a docstring's text with the marks of Markdown."""
    return text.replace("``", "`")
