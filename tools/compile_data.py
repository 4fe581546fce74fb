"""Compiles the data as a wheel is built, so that an installed weighbridge reads no TOML to start.

The hook of hatchling that ``pyproject.toml`` names. An editable install is left as it is.
"""

from __future__ import annotations

import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledData(BuildHookInterface[Any]):
    """Puts the compiled tables into a wheel, beside the TOML that they are made of."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile every table into a folder that goes into the wheel."""
        if version == "editable":
            return
        package = Path(self.root, "src", "weighbridge")
        data = runpy.run_path(str(package / "data" / "__init__.py"))
        self.folder = Path(tempfile.mkdtemp())
        for path in data["toml_paths"]():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data["compiled"](path))
        build_data["force_include"][str(self.folder)] = f"weighbridge/data/{data['COMPILED']}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the folder again."""
        if version != "editable":
            shutil.rmtree(self.folder, ignore_errors=True)
