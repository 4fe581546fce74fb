"""Take away the permission to read a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def forbid(path: Path) -> None:
    """Make a file unreadable; skip the test where this user may read every file."""
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
