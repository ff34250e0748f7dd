import numpy as np
import pytest
from support.lowering_beside_reference import expect_same, lowered_all
from support.pointwise import label, numbers, result, rows
from support.single_operation import given

from neurald.drivers.compiler.builder import Unsupported
from neurald.hal.operation_type import OperationType
from neurald.hal.types import OperandType

CAST, BITCAST = OperationType.TFLITE_CAST, OperationType.TFLITE_BITCAST
FLOAT = OperandType.TENSOR_FLOAT32


@pytest.mark.parametrize(("operation", "types"), rows([CAST]), ids=label)
def test_every_pair(operation: OperationType, types: dict[str, OperandType]) -> None:
    expect_same(operation, [numbers(types["T"], (3, 7))], result(types["U"]))


@pytest.mark.parametrize(("operation", "types"), rows([BITCAST]), ids=label)
def test_bits_of_every_pair(operation: OperationType, types: dict[str, OperandType]) -> None:
    source, target = (types[name].dtype.itemsize for name in "TU")
    shape = (2, 5) if source >= target else (2, 5, target // source)
    stored = np.random.default_rng(0).integers(0, 100, (*shape, source), np.uint8)
    values = stored.view(types["T"].dtype).reshape(shape)
    expect_same(operation, [given(types["T"], values)], result(types["U"]))


@pytest.mark.parametrize("operation", [CAST, BITCAST])
def test_complex_numbers_are_refused(operation: OperationType) -> None:
    with pytest.raises(Unsupported, match="complex"):
        lowered_all(operation, [given(FLOAT, np.zeros((3, 2)))], result(OperandType.TENSOR_COMPLEX64))
