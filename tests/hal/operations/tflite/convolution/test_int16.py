"""Tests what weighted sums of 16-bit activations have in common."""

import subprocess
import sys

import pytest

from neurald.hal.operations.tflite.convolution import convolution, fully_connected
from neurald.hal.operations.tflite.convolution.int16 import INT16_ROWS

_PROGRAM = """
import sys
import neurald.hal.operations.tflite.convolution.fully_connected
print(sorted(name for name in sys.modules if name.startswith("neurald.") and name.endswith("convolution")))
"""


@pytest.mark.parametrize("definition", [convolution.DEFINITIONS[0], fully_connected.DEFINITIONS[0]])
def test_they_are_forms_of_convolutions_and_matrices(definition: object) -> None:
    accepted = [each.types for each in definition.rows]  # type: ignore[attr-defined]
    for one in INT16_ROWS:
        assert any(one.types.items() <= each.items() for each in accepted)


def test_matrices_need_no_convolutions() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    packages = ["neurald.hal.operations.convolution", "neurald.hal.operations.tflite.convolution"]
    assert done.stdout.strip() == str(packages)
