"""The models that the CPU device runs on inputs that may change during the execution."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.device import PrepareOptions
from neurald.hal.operations import DEFINITIONS

FLOATS, INTEGERS = nd.OperandType.TENSOR_FLOAT32, nd.OperandType.TENSOR_INT32


def is_tolerant(model: nd.Model) -> bool:
    return CpuDevice().prepare_model(model, PrepareOptions()).tolerates_changing_inputs


def model_of(
    operation: nd.OperationType,
    inputs: Sequence[tuple[Any, tuple[int, ...], Any]],
    result: Any,
    shape: tuple[int, ...],
) -> nd.Model:
    """Returns a model of one operation; inputs are type, shape, and value or None."""
    builder = nd.ModelBuilder()
    operands = [builder.add_operand(kind, dimensions) for kind, dimensions, _ in inputs]
    for index, (_, _, value) in zip(operands, inputs, strict=True):
        if value is not None:
            builder.set_operand_value(index, value)
    output = builder.add_operand(result, shape)
    builder.add_operation(operation, inputs=operands, outputs=[output])
    free = [index for index, (_, _, value) in zip(operands, inputs, strict=True) if value is None]
    builder.identify_inputs_and_outputs(free, [output])
    return builder.finish()


def test_inputs_of_arithmetic_only() -> None:
    none = (nd.OperandType.INT32, (), np.int32(0))
    of_two = [(FLOATS, (4,), None), (FLOATS, (4,), None), none]
    assert is_tolerant(model_of(nd.OperationType.ADD, of_two, FLOATS, (4,)))
    assert is_tolerant(model_of(nd.OperationType.RELU, [(FLOATS, (4,), None)], FLOATS, (4,)))


def test_inputs_of_arithmetic_with_types_of_tflite() -> None:
    types = nd.OperationType
    for operation in (types.TFLITE_LOGISTIC, types.TFLITE_TANH, types.TFLITE_LOG):
        assert is_tolerant(model_of(operation, [(FLOATS, (4,), None)], FLOATS, (4,)))
    two = [(INTEGERS, (4,), None), (INTEGERS, (4,), None)]
    for operation in (types.TFLITE_MAXIMUM, types.TFLITE_SQUARED_DIFFERENCE):
        assert is_tolerant(model_of(operation, two, INTEGERS, (4,)))
    for operation in (types.TFLITE_FLOOR_DIV, types.TFLITE_FLOOR_MOD):
        assert not is_tolerant(model_of(operation, two, INTEGERS, (4,)))


def test_integer_divisors() -> None:
    none = (nd.OperandType.INT32, (), np.int32(0))
    of_two = [(INTEGERS, (4,), None), (INTEGERS, (4,), None), none]
    assert not is_tolerant(model_of(nd.OperationType.DIV, of_two, INTEGERS, (4,)))


def test_input_shapes_and_indices() -> None:
    target = np.array([2, 2], np.int32)
    for value in (target, None):
        inputs = [(FLOATS, (4,), None), (INTEGERS, (2,), value)]
        reshaping = model_of(nd.OperationType.RESHAPE, inputs, FLOATS, (2, 2))
        assert is_tolerant(reshaping) == (value is not None)
    axis = (nd.OperandType.INT32, (), np.int32(0))
    gathering = [(FLOATS, (4,), None), axis, (INTEGERS, (2,), None)]
    assert not is_tolerant(model_of(nd.OperationType.GATHER, gathering, FLOATS, (2,)))


def test_input_scalars() -> None:
    inputs = [(FLOATS, (4,), None), (FLOATS, (4,), None), (nd.OperandType.INT32, (), None)]
    assert not is_tolerant(model_of(nd.OperationType.ADD, inputs, FLOATS, (4,)))


def test_declared_inputs_exist() -> None:
    for definition in DEFINITIONS.values():
        names = {parameter.name for form in definition.forms for parameter in form.inputs}
        assert definition.arithmetic <= names, definition.type
