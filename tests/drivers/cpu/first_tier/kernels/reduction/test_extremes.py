"""Positions of extremes in the first tier are those that references find."""

import numpy as np
import pytest
from hypothesis import given as generated
from hypothesis import settings
from hypothesis import strategies as st
from support.cpu.first_tier import TARGETS_HERE, prepared, results
from support.cpu.layers import FLOAT, INT32, SIGNED, UNSIGNED, LayerBuilder, check
from support.cpu.special_arrays import special_arrays

import neurald as nd
from neurald.hal.execution.reference_model import ReferenceModel

INT64 = nd.OperandType.TENSOR_INT64
KINDS = (FLOAT, INT32, SIGNED, UNSIGNED)


def model_of(kind: nd.OperandType, shape: tuple[int, ...], axis: int, operation: str) -> nd.Model:
    build = LayerBuilder(0)
    given = build.operand(kind, shape)
    reduced = shape[:axis] + shape[axis + 1 :]
    if operation.startswith("TFLITE"):
        output = build.operand(INT64, reduced)
    else:
        output = build.operand(INT32, reduced or (1,))
    inputs = [given, build.scalar(axis)]
    return build.model(nd.OperationType[operation], inputs, output, [given])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("operation", ["ARGMAX", "ARGMIN", "TFLITE_ARG_MAX", "TFLITE_ARG_MIN"])
def test_positions_along_each_axis(target: str, kind: nd.OperandType, operation: str) -> None:
    for shape, axis in (
        *(((3, 67), 1), ((2, 5, 37), 1), ((1, 65), 1), ((4, 1, 3), 0), ((1, 1), 1)),
        *(((4, 1, 3), 1), ((5000, 1), 1)),
    ):
        check(model_of(kind, shape, axis, operation), target, threads=2)


@pytest.mark.parametrize("operation", ["ARGMAX", "ARGMIN"])
@settings(max_examples=30)
@generated(data=st.data())
def test_equal_and_special_elements(operation: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    shape = data.draw(st.sampled_from([(1, 9), (3, 40), (2, 17), (40, 3)]))
    array = data.draw(special_arrays(kind, shape))
    for axis in (0, 1):
        model = model_of(kind, shape, axis, operation)
        (expected,) = results(ReferenceModel(model), model, [array])
        (found,) = results(prepared(model, TARGETS_HERE[-1]), model, [array])
        np.testing.assert_array_equal(found, expected)
