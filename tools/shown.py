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
