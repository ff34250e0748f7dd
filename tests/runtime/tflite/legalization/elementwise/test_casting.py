import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, shaped, types
from support.tflite.results import run_operator, run_with_kernels

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.schema import INT2, UINT4


def test_cast(load: Load) -> None:
    cast = load("CAST", (shaped(3),), shaped(3, type_="INT32"))
    assert types(cast) == [OperationType.CAST]
    assert run_references(cast, [1.5, -1.5, 1e20])[0].tolist() == [1, -1, 2**31 - 1]
    wrapped = load("CAST", (shaped(2, type_="INT32"),), shaped(2, type_="UINT8"))
    assert run_references(wrapped, [300, -1])[0].tolist() == [44, 255]


def test_bitcast(load: Load) -> None:
    bits = load("BITCAST", (shaped(1),), shaped(1, 4, type_="UINT8"))
    assert run_references(bits, [1.0])[0].tolist() == [[0, 0, 128, 63]]


def test_parts_of_complex_numbers(load: Load) -> None:
    number = shaped(2, type_="COMPLEX64")
    for code, expected in (("REAL", [3, 0]), ("IMAG", [4, -1]), ("COMPLEX_ABS", [5, 1])):
        assert run_references(load(code, (number,), shaped(2)), [3 + 4j, -1j])[0].tolist() == expected


def test_parts_of_numbers_of_double_precision(load: Load) -> None:
    numbers = np.array([3 + 4j, 1e200 * (1 + 1j), 1 / 3 - 2j])
    inputs = [shaped(3, type_="COMPLEX128")]
    for code, function in (("REAL", np.real), ("IMAG", np.imag), ("COMPLEX_ABS", np.abs)):
        model = load(code, inputs, shaped(3, type_="FLOAT64"))
        np.testing.assert_allclose(run_with_kernels(model, numbers), function(numbers), rtol=1e-15)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("INT4", [-8, -8, -1, 0, 1, 7, 7]),
        (INT2, [-2, -2, -1, 0, 1, 1, 1]),
        (UINT4, [0, 0, 0, 0, 1, 15, 15]),
    ],
)
def test_casts_to_narrow_types(load: Load, kind: str | int, expected: list[int]) -> None:
    x = np.array([-1e20, -9.5, -1.5, 0.5, 1.5, 15.5, np.inf], np.float32)
    assert run_operator(load, x, code="CAST", inputs=[shaped(7)], output=shaped(7, type_=kind)) == expected


def test_bits_of_complex_numbers(load: Load) -> None:
    x = np.array([1.5 - 2j, 0], np.complex64)
    inputs, output = [shaped(2, type_="COMPLEX64")], shaped(2, type_="INT64")
    assert run_operator(load, x, code="BITCAST", inputs=inputs, output=output) == x.view(np.int64).tolist()
