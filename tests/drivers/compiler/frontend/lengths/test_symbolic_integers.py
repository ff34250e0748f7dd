import numpy as np
import pytest

from neurald.drivers.compiler.frontend.lengths.symbolic_integers import (
    Sum,
    constant_sums,
    sums_of_result,
    unknown_sums,
)
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType as Op
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue

INT = OperandType.TENSOR_INT32
#: Unknown integers: a scalar-like vector, and a vector of three.
COUNTER, VECTOR = 0, 1


def constant(values: object) -> Operand:
    array = np.array(values, np.int32)
    return Operand(type=INT, dimensions=array.shape, lifetime=Lifetime.CONSTANT_COPY, value=array.tobytes())


def number(value: int) -> Operand:
    return Operand(type=OperandType.INT32, lifetime=Lifetime.CONSTANT_COPY, value=np.int32(value).tobytes())


def computed(kind: Op, inputs: list[Operand | int], shape: tuple[int, ...] = (3,)) -> object:
    """Returns an operation's sums of unknown integers and constants as a list, or None."""
    operands = [Operand(type=INT, dimensions=(1,)), Operand(type=INT, dimensions=(3,))]
    values: dict[int, Array] = {}
    indexes = []
    for each in inputs:
        if isinstance(each, int):
            indexes.append(each)
            continue
        values[len(operands)] = np.frombuffer(each.value, np.int32).reshape(each.dimensions or ())
        indexes.append(len(operands))
        operands.append(each)
    operands.append(Operand(type=INT, dimensions=shape))
    operation = Operation(type=kind, inputs=tuple(indexes), outputs=(len(operands) - 1,))
    binding = DEFINITIONS[kind].bind(operation, operands)
    call = Call(binding, operands, lambda index: operands[index].dimensions, values.get)

    def sums_of(index: int) -> np.ndarray:
        if index in values:
            return constant_sums(values[index])
        return unknown_sums(index, operands[index].dimensions or ())

    sums = sums_of_result(call, sums_of)
    return None if sums is None else sums.tolist()


def element(operand: int, position: int = 0, factor: int = 1, constant: int = 0) -> Sum:
    return Sum(constant, (((operand, position), factor),))


def test_sums() -> None:
    one, other = element(COUNTER, factor=2, constant=3), element(VECTOR, 1)
    assert one + Sum(4) == element(COUNTER, factor=2, constant=7)
    assert one - one == Sum(0)
    assert (one + other) - other == one
    assert one * Sum(-2) == element(COUNTER, factor=-4, constant=-6)
    assert Sum(0) * other == Sum(0)
    with pytest.raises(UnknownValue):
        one * other


def test_arithmetic() -> None:
    none = number(0)
    assert computed(Op.ADD, [COUNTER, constant([5]), none], (1,)) == [element(COUNTER, constant=5)]
    assert computed(Op.SUB, [VECTOR, COUNTER, none]) == [
        element(VECTOR, n) - element(COUNTER) for n in range(3)
    ]
    assert computed(Op.MUL, [COUNTER, constant([1, 0, -2]), none]) == [
        element(COUNTER),
        Sum(0),
        element(COUNTER, factor=-2),
    ]
    # Products and activations are not sums.
    assert computed(Op.MUL, [COUNTER, VECTOR, none]) is None
    assert computed(Op.ADD, [COUNTER, VECTOR, number(1)]) is None


def test_movement() -> None:
    assert computed(Op.RESHAPE, [VECTOR, constant([3, 1])], (3, 1)) == [
        [element(VECTOR, n)] for n in range(3)
    ]
    joined = computed(Op.TFLITE_CONCATENATION, [COUNTER, constant([-1, 7]), COUNTER, number(0)], (4,))
    assert joined == [element(COUNTER), Sum(-1), Sum(7), element(COUNTER)]
    assert computed(Op.SLICE, [VECTOR, constant([1]), constant([2])], (2,)) == [
        element(VECTOR, 1),
        element(VECTOR, 2),
    ]
    assert computed(Op.GATHER, [VECTOR, number(0), constant([2, 0])], (2,)) == [
        element(VECTOR, 2),
        element(VECTOR, 0),
    ]
    # Where it begins is not known.
    assert computed(Op.SLICE, [VECTOR, COUNTER, constant([2])], (2,)) is None
    assert computed(Op.MAXIMUM, [VECTOR, COUNTER]) is None
