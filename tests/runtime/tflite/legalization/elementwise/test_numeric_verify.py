from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite.custom import numeric_verify, results_of

from neurald.hal.errors import BadData
from neurald.runtime.tflite import load_tflite

REFERENCE = np.array([[0.5, 1, 7], [-3, 0, 2]], np.float32)


@pytest.mark.parametrize(
    ("kind", "zero_point", "dtype"),
    [("INT8", 3, np.int8), ("UINT8", 3, np.uint8), ("INT16", 0, np.int16), ("FLOAT16", 0, np.float16)],
)
def test_differences_are_returned(tmp_path: Path, kind: str, zero_point: int, dtype: type) -> None:
    values: np.ndarray[Any, Any] = np.array([[1, 2, 3], [4, 5, 6]], dtype)
    real = values.astype(np.float32)
    real = real if kind == "FLOAT16" else (real - zero_point) * np.float32(0.5)
    (found,) = results_of(numeric_verify(kind, zero_point), tmp_path, values, REFERENCE)
    np.testing.assert_array_equal(found, real - REFERENCE)


def test_differences_are_floats_whatever_type_the_file_declares(tmp_path: Path) -> None:
    values = np.array([[1, 2, 3], [4, 5, 6]], np.int8)
    (found,) = results_of(numeric_verify("INT8", 3, "INT8"), tmp_path, values, REFERENCE)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (values.astype(np.float32) - 3) * np.float32(0.5) - REFERENCE)


def test_plain_numbers_are_refused() -> None:
    file = numeric_verify("FLOAT32")
    with pytest.raises(BadData, match="a quantised type is expected"):
        load_tflite(file.build())
