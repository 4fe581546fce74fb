"""Compiles the data while a wheel is built: an installed weighbridge starts without reading TOML.

This is the hatchling hook that ``pyproject.toml`` names. It skips editable installs.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledData(BuildHookInterface[Any]):
    """Puts the compiled tables into a wheel, beside their TOML sources."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile every table into a folder that goes into the wheel."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        from weighbridge import data  # noqa: PLC0415  # not installed yet
        from weighbridge.models.compiled import compiled_tables  # noqa: PLC0415

        self.folder = Path(tempfile.mkdtemp())
        for path, content in compiled_tables():
            self.write(path, content)
        build_data["force_include"][str(self.folder)] = f"weighbridge/data/{data.COMPILED}"

    def write(self, path: str, content: bytes) -> None:
        """Write one file of the folder."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the folder."""
        if version != "editable":
            shutil.rmtree(self.folder, ignore_errors=True)
