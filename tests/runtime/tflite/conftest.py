from functools import partial
from pathlib import Path

import pytest
from support.tflite.operator import Load, load_operator


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Returns `load_operator` for a temporary folder."""
    return partial(load_operator, tmp_path)
