import numpy as np
from support.sweeps import sweep

from neurald.drivers.compiler.ir.complex_numbers import as_numbers, as_pairs, operand_shape, value_shape
from neurald.hal.model.types import OperandType

COMPLEX = OperandType.TENSOR_COMPLEX64


@sweep("shape", [(), (1,), (3,), (2, 3), (2, 0)])
def test_complex_numbers_are_converted_to_pairs_and_back(shape: tuple[int, ...]) -> None:
    parts = np.arange(2 * np.prod(shape, dtype=int)).astype(np.float32).reshape(*shape, 2)
    numbers = np.asarray(parts[..., 0] + 1j * parts[..., 1], np.complex64)
    pairs = as_pairs(numbers)
    assert pairs.shape == value_shape(COMPLEX, shape) == parts.shape
    assert pairs.tolist() == parts.tolist()
    assert operand_shape(COMPLEX, pairs.shape) == shape
    assert as_numbers(COMPLEX, pairs).shape == shape
    assert as_numbers(COMPLEX, pairs).tolist() == numbers.tolist()


def test_other_elements_are_not_converted() -> None:
    array = np.arange(6, dtype=np.float32)
    assert as_pairs(array) is array
    assert as_numbers(OperandType.TENSOR_FLOAT32, array) is array
    assert (
        value_shape(OperandType.TENSOR_FLOAT32, (6,))
        == operand_shape(OperandType.TENSOR_FLOAT32, (6,))
        == (6,)
    )
