"""Ranges of tensors, as AI Edge Quantizer asks for them."""

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.litert_files import composite, sums

from neurald.litert import Interpreter
from neurald.runtime.litert.interpreter.calibration import InvokeWithCalibration, Range


def ranges(file: TfliteModel, *inputs: np.ndarray) -> dict[str, Range]:
    interpreter = Interpreter(model_content=file.build())
    interpreter.allocate_tensors()
    for details, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(details["index"], value)
    return InvokeWithCalibration(interpreter._native_handle(), 0)


def test_inputs_and_all_results_have_ranges() -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    assert ranges(sums(), x, -2 * x) == {
        "x": Range(1, 6),
        "y": Range(-12, -2),
        "between": Range(-6, -1),
        "z": Range(-3, 2),
    }


def test_results_inside_of_composites_have_ranges() -> None:
    x = np.array([1, 2, 3], np.float32)
    found = ranges(composite(), x)
    assert found["inner"] == Range(2, 6)
    assert found["z"] == Range(4, 12)


def test_other_numbers_are_no_handles() -> None:
    with pytest.raises(ValueError, match="not the handle of an interpreter"):
        InvokeWithCalibration(12345, 0)
