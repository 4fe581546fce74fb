from pathlib import Path

import pytest
import wheels


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Return the folder of all-MiniLM-L6-v2: config.json and model.safetensors."""
    return wheels.model(wheels.MINILM)


@pytest.fixture(scope="session")
def bert_tiny() -> Path:
    """Return the folder of a bert-tiny classifier: config.json and model.safetensors."""
    return wheels.model(wheels.BERT_TINY)
