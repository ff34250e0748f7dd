"""Loops and branches whose operations have kernels run natively on the first tier."""

import threading
import time
from typing import Any

import numpy as np
import pytest
from support.cpu.first_tier import prepared, results
from support.models.control_flow import ADD, BOOL, FLOAT, INT, MUL, Graph, arithmetic, below, branching, loop
from support.models.control_flow import counting as counted
from support.models.random_loops import random_loops
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.errors import Cancelled, Error, MissedDeadlineTransient, OpFailed
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.operations.machinery.call import Array
from neurald.hal.sync.cancellation import Cancellation

Op = nd.OperationType
WITHOUT_KERNEL = Op.TFLITE_STABLEHLO_ADD


def native(model: nd.Model) -> NativeModel:
    """Returns a model that runs without references."""
    found = prepared(model)
    assert isinstance(found, CpuPreparedModel)
    return found.native


def run(model: NativeModel, *arrays: Array, **limits: Any) -> list[Array]:
    return model.run_arrays(arrays, **limits)


@sweep("seed", range(10), full=range(10, 100))
def test_random_programs_give_the_bits_of_references(seed: int) -> None:
    model, executions = random_loops(seed, may_fail=seed % 2 == 1)
    found = prepared(model, threads=1 + seed % 3)
    for arrays in executions:
        try:
            expected = results(ReferenceModel(model), model, list(arrays))
        except Error:
            with pytest.raises(Error):
                results(found, model, list(arrays))
            continue
        for one, other in zip(results(found, model, list(arrays)), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_branch() -> None:
    model = native(branching(arithmetic(ADD, 1), arithmetic(MUL, 3)))
    value = np.array([2, -1], np.float32)
    for condition, expected in ((True, value + 1), (False, value * 3)):
        np.testing.assert_array_equal(run(model, np.array([condition]), value)[0], expected)


@pytest.mark.parametrize("turns", [0, 1, 5, 10_000])
def test_turns_run_in_one_native_call(turns: int) -> None:
    model = native(loop(below(float(turns), extra=1), counted(1, 1)))
    counter, value = run(model, np.zeros(1, np.float32), np.ones(2, np.float32))
    assert counter.tolist() == [turns]
    assert value.tolist() == [1, 1]
    labels = {each.label for each in model.profile()}
    assert labels == {"first tier"}


@pytest.mark.timed
def test_limits_end_an_endless_loop() -> None:
    model = native(loop(below(1e30, extra=1), counted(0, 1)))
    arrays = np.zeros(1, np.float32), np.ones(2, np.float32)
    started = time.monotonic()
    with pytest.raises(
        MissedDeadlineTransient,
        match=r"WHILE ran longer than its loop timeout; .* 2 s, and .* takes up to 15 s",
    ):
        run(model, *arrays, loop_timeout_s=0.02)
    with pytest.raises(MissedDeadlineTransient, match="the deadline passed in operation 0"):
        run(model, *arrays, deadline_s=time.monotonic() + 0.02, loop_timeout_s=15.0)
    cancellation = Cancellation()
    timer = threading.Timer(0.02, cancellation.cancel)
    timer.start()
    with pytest.raises(Cancelled, match="in operation 0"):
        run(model, *arrays, cancellation=cancellation, loop_timeout_s=15.0)
    assert time.monotonic() - started < 10


def swapping(body_type: nd.OperationType) -> nd.Model:
    """Builds a loop that swaps two values so many times, and computes with one of them."""
    condition, body, main = below(5, extra=2), Graph(), Graph()
    count, first, second = body.value(shape=(1,)), body.value(), body.value()
    more = body.binary(ADD, count, body.constant([1]), body.value(shape=(1,)))
    if body_type is WITHOUT_KERNEL:
        changed = body.value()
        body.builder.add_operation(body_type, [first, first], [changed])
    else:
        changed = body.binary(body_type, first, body.constant([2]), body.value())
    same = body.binary(ADD, second, body.constant([0]), body.value())
    models = condition, body.finish([count, first, second], [more, same, changed])
    given = [main.value(shape=(1,)), main.value(), main.value()]
    made = [main.value(shape=(1,)), main.value(), main.value()]
    main.builder.add_operation(Op.WHILE, [*map(main.model, models), *given], made)
    return main.finish(given, made)


@pytest.mark.parametrize(("operation", "is_native"), [(MUL, True), (WITHOUT_KERNEL, False)])
def test_values_that_a_loop_swaps(operation: nd.OperationType, is_native: bool) -> None:
    model = swapping(operation)
    found = prepared(model)
    assert isinstance(found, CpuPreparedModel) == is_native
    arrays = [np.zeros(1, np.float32), np.array([1.5, -2], np.float32), np.array([2, 3], np.float32)]
    expected = results(ReferenceModel(model), model, arrays)
    for one, other in zip(results(found, model, arrays), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def writing(rows: int, index: nd.OperandType = INT) -> nd.Model:
    """Builds a loop that doubles rows of a list from an index on by slices and concatenations."""
    condition, body, main = Graph(), Graph(), Graph()
    kinds = ((index, (2,)), (FLOAT, (rows, 3)))
    outer, made = ([main.value(*kind) for kind in kinds] for _ in range(2))
    tested, (place, values) = (
        [condition.value(*kind) for kind in kinds],
        [body.value(*kind) for kind in kinds],
    )
    first = condition.value(index, (1,))
    ends = [condition.constant([each], INT) for each in (0, 1)]
    condition.builder.add_operation(Op.TFLITE_SLICE, [tested[0], *ends], [first])
    holds = condition.value(BOOL, (1,))
    less = Op.LESS if index is INT else Op.TFLITE_LESS
    condition.builder.add_operation(less, [first, condition.constant([4], index)], [holds])
    row, doubled, written = body.value(shape=(1, 3)), body.value(shape=(1, 3)), body.value(shape=(rows, 3))
    body.builder.add_operation(Op.TFLITE_SLICE, [values, place, body.constant([1, 3], index)], [row])
    body.binary(ADD, row, row, doubled)
    body.builder.add_operation(Op.TFLITE_DYNAMIC_UPDATE_SLICE, [values, doubled, place], [written])
    add = ADD if index is INT else Op.TFLITE_ADD
    moved = body.binary(add, place, body.constant([1, 0], index), body.value(index, (2,)))
    models = condition.finish(tested, [holds]), body.finish([place, values], [moved, written])
    main.builder.add_operation(Op.WHILE, [*map(main.model, models), *outer], made)
    return main.finish(outer, made)


@pytest.mark.parametrize("index", [INT, nd.OperandType.TENSOR_INT64])
def test_lists_are_read_and_written_at_an_index(index: nd.OperandType) -> None:
    model, value = native(writing(6, index)), np.arange(18, dtype=np.float32).reshape(6, 3)
    expected = value.copy()
    expected[1:4] *= 2
    place, found = run(model, np.array([1, 0], index.dtype), value)
    np.testing.assert_array_equal(found, expected)
    assert place.tolist() == [4, 0]


@pytest.mark.parametrize(
    ("index", "first"),
    [(INT, 1), (nd.OperandType.TENSOR_INT64, 1), (nd.OperandType.TENSOR_INT64, -(1 << 32))],
)
def test_an_index_outside_of_a_list_is_an_error(index: nd.OperandType, first: int) -> None:
    model, value = native(writing(3, index)), np.arange(9, dtype=np.float32).reshape(3, 3)
    with pytest.raises(OpFailed, match="indexes from 0 to"):
        run(model, np.array([first, 0], index.dtype), value)
