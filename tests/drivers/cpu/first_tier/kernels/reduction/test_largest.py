"""The largest elements of rows in the first tier are those that references find, in their order."""

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
#: The types of elements of each operation.
OPERATIONS = {"TOPK_V2": KINDS, "TFLITE_TOPK_V2": (*KINDS, INT64)}


def model_of(
    kind: nd.OperandType,
    shape: tuple[int, ...],
    count: int,
    operation: str,
    positions: nd.OperandType = INT32,
) -> nd.Model:
    build = LayerBuilder(0)
    quantization = {"scale": 0.5, "zero_point": 3} if kind in (SIGNED, UNSIGNED) else {}
    given = build.operand(kind, shape, **quantization)
    found = (*shape[:-1], count)
    outputs = [build.operand(kind, found, **quantization), build.operand(positions, found)]
    build.builder.add_operation(nd.OperationType[operation], [given, build.scalar(count)], outputs)
    build.builder.identify_inputs_and_outputs([given], outputs)
    return build.builder.finish()


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(
    ("operation", "kind"), [(name, kind) for name, kinds in OPERATIONS.items() for kind in kinds]
)
def test_largest_of_rows(target: str, operation: str, kind: nd.OperandType) -> None:
    for shape, count in (
        ((3, 67), 5),
        ((2, 5, 37), 37),
        ((1000,), 10),
        ((1, 65), 1),
        ((1, 1), 1),
        ((40, 3), 2),
    ):
        check(model_of(kind, shape, count, operation), target, threads=2)


def test_wide_positions() -> None:
    check(model_of(FLOAT, (3, 50), 7, "TFLITE_TOPK_V2", INT64), TARGETS_HERE[-1])


@pytest.mark.parametrize("order", [1, -1])
def test_long_rows_in_order(order: int) -> None:
    array = np.sort(np.random.default_rng(1).standard_normal((2, 20_000)).astype(np.float32))[:, ::order]
    model = model_of(FLOAT, array.shape, 300, "TOPK_V2")
    check(model, TARGETS_HERE[-1], inputs=[np.ascontiguousarray(array)])


def test_no_elements_run_on_references() -> None:
    model = model_of(FLOAT, (3, 4), 0, "TFLITE_TOPK_V2")
    assert isinstance(prepared(model), ReferenceModel)


@pytest.mark.parametrize("operation", ["TOPK_V2", "TFLITE_TOPK_V2"])
@settings(max_examples=40)
@generated(data=st.data())
def test_equal_and_special_elements(operation: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(OPERATIONS[operation]))
    shape = data.draw(st.sampled_from([(1, 9), (3, 40), (2, 17), (40, 3), (1, 100)]))
    array = data.draw(special_arrays(kind, shape))
    model = model_of(kind, shape, data.draw(st.integers(1, shape[-1])), operation)
    expected = results(ReferenceModel(model), model, [array])
    found = results(prepared(model, TARGETS_HERE[-1]), model, [array])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
