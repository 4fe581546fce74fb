"""Shows commands with their real output in the docs; for use in cog blocks.

In a Markdown file::

    <!-- [[[cog
    from shown import shown
    shown("weighbridge models chinese")
    ]]] -->
    <!-- [[[end]]] -->
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import cog


def shown(
    command: str,
    lines: int | None = None,
    expect: int = 0,
    cwd: str | os.PathLike[str] | None = None,
) -> None:
    """Write a weighbridge command and the first ``lines`` lines of its output, as Markdown.

    The command runs in ``cwd``.
    """
    program, *arguments = shlex.split(command)
    if program != "weighbridge":
        raise SystemExit(f"shown() runs weighbridge, not {program}")
    done = subprocess.run(
        [sys.executable, "-m", "weighbridge", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
    )
    if done.returncode != expect:
        raise SystemExit(f"{command}: exit {done.returncode}, not {expect}: {done.stderr}")
    printed = (done.stdout + done.stderr).rstrip().splitlines()
    if lines is not None and len(printed) > lines:
        printed = [*printed[:lines], "…"]
    cog.outl("```console")
    cog.outl("\n".join(line.rstrip() for line in [f"$ {command}", *printed]))
    cog.outl("```")


def pictured(model: str, name: str, file: str) -> None:
    """Write a diagram of an article to a file of the docs, and show it, as Markdown."""
    from weighbridge.answers.explain import explain  # noqa: PLC0415  # most docs show commands
    from weighbridge.render.diagram_svg import svg_file  # noqa: PLC0415
    from weighbridge.render.document import Diagram, Document, write  # noqa: PLC0415

    document = explain(model).document("en")
    for block in document.blocks:
        if isinstance(block, Diagram) and block.name == name:
            svg = svg_file(block, document.values, "en")
            Path("docs", file).write_text(svg, encoding="utf-8")
            shown_block = Document((block._replace(file=file),), "en", document.values)
            cog.outl(write(shown_block, "markdown"))
