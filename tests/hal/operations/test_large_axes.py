"""Axes too long for the index type of the result. Nothing of that size is allocated."""

from collections.abc import Sequence

import numpy as np
import pytest
from support.operations.single_operation import Given, call_of, scalars, wanted
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS

_T = OperationType
_INT16, _INT32, _INT64 = (
    OperandType.TENSOR_QUANT16_SYMM,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_INT64,
)


def _large(*shape: int) -> Given:
    """Returns an input with that many quantised values, all in the same byte of memory."""
    kind = OperandType.TENSOR_QUANT8_ASYMM
    operand = Operand(type=kind, dimensions=shape, scale=1.0, lifetime=Lifetime.SUBGRAPH_INPUT)
    return Given(operand=operand, value=np.broadcast_to(np.uint8(0), shape))


def _outputs(operation: OperationType, indexes: OperandType) -> list[Operand]:
    scale = 1.0 if indexes is _INT16 else 0.0
    values = [wanted(OperandType.TENSOR_QUANT8_ASYMM, 1.0)] if operation.name.endswith("TOPK_V2") else []
    return [*values, wanted(indexes, scale)]


def _shapes(operation: OperationType, shape: Sequence[int], indexes: OperandType) -> object:
    steering = () if operation is _T.TFLITE_SHAPE else scalars(len(shape) - 1)
    if operation.name.endswith("TOPK_V2"):
        steering = scalars(3)
    call = call_of(operation, [_large(*shape), *steering], *_outputs(operation, indexes))
    return DEFINITIONS[operation].output_shapes(call)


_MAX_INT32 = 2**31 - 1
#: Operation, the type of its indexes, and the longest axis.
_CASES = [
    (_T.ARGMAX, _INT32, _MAX_INT32 + 1),
    (_T.ARGMIN, _INT32, _MAX_INT32 + 1),
    (_T.TOPK_V2, _INT32, _MAX_INT32 + 1),
    (_T.TFLITE_ARG_MAX, _INT32, _MAX_INT32 + 1),
    (_T.TFLITE_ARG_MIN, _INT32, _MAX_INT32 + 1),
    (_T.TFLITE_TOPK_V2, _INT32, _MAX_INT32 + 1),
    (_T.TFLITE_TOPK_V2, _INT16, 2**15),
    (_T.TFLITE_SHAPE, _INT32, _MAX_INT32),
]


@sweep(("operation", "indexes", "longest"), _CASES)
def test_an_axis_too_long_for_the_index_type_is_refused(
    operation: OperationType, indexes: OperandType, longest: int
) -> None:
    _shapes(operation, (longest,), indexes)
    with pytest.raises(BadData, match=rf"which holds numbers up to \d+; input \[{longest + 1}\] needs"):
        _shapes(operation, (longest + 1,), indexes)


@sweep("operation", [_T.TFLITE_ARG_MAX, _T.TFLITE_TOPK_V2, _T.TFLITE_SHAPE])
def test_wider_index_types_are_accepted(operation: OperationType) -> None:
    _shapes(operation, (2**32 - 1,), _INT64)


def test_only_the_length_of_the_axis_matters() -> None:
    _shapes(_T.ARGMAX, (3 << 28, 4), _INT32)


def test_a_model_is_refused_when_it_is_built() -> None:
    builder = nd.ModelBuilder()
    value = builder.add_operand(OperandType.TENSOR_QUANT8_ASYMM, (3 << 30,), scale=1.0)
    count = builder.add_operand(OperandType.INT32)
    builder.set_operand_value(count, 3)
    largest = builder.add_operand(OperandType.TENSOR_QUANT8_ASYMM, (3,), scale=1.0)
    positions = builder.add_operand(_INT32, (3,))
    builder.add_operation(_T.TOPK_V2, [value, count], [largest, positions])
    builder.identify_inputs_and_outputs([value], [largest, positions])
    with pytest.raises(BadData, match=r"operation 0 TOPK_V2.*holds numbers up to 2147483647"):
        builder.finish()
