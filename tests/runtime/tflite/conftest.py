from functools import partial
from pathlib import Path

import pytest
from support.tflite.operator import Load, load_operator


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Returns `load_operator` for a temporary folder."""
    return partial(load_operator, tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Returns the path of a file that does not exist yet."""
    return tmp_path / "model.tflite"
