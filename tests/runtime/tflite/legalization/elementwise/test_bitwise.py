import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, shaped
from support.tflite.results import run_with_kernels


def test_bitwise_xor(load: Load) -> None:
    xor = load("BITWISE_XOR", (shaped(2, type_="INT32"),) * 2, shaped(2, type_="INT32"))
    assert run_references(xor, [5, -1], [3, 1])[0].tolist() == [6, -2]


@pytest.mark.parametrize(
    ("code", "function"),
    [
        ("BITWISE_XOR", np.bitwise_xor),
        ("RIGHT_SHIFT", np.right_shift),
        ("STABLEHLO_AND", np.bitwise_and),
        ("STABLEHLO_SHIFT_LEFT", np.left_shift),
    ],
)
def test_bits_of_int16_with_a_zero_point(load: Load, code: str, function: np.ufunc) -> None:
    source = shaped(3, type_="INT16", scale=0.5, zero_point=40)
    x, y = np.array([300, -7, 12], np.int16), np.array([1, 2, 3], np.int16)
    np.testing.assert_array_equal(
        run_with_kernels(load(code, (source, source), source), x, y), function(x, y)
    )
