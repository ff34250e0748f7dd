"""The interpreter of a small model."""

import pytest
from support.tflite.interpreters import opened
from support.tflite.litert_files import sums

from neurald.litert import Interpreter


@pytest.fixture
def interpreter() -> Interpreter:
    found = opened(sums())
    found.allocate_tensors()
    return found
