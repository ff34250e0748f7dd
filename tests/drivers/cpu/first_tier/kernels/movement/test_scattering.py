"""Rows that the first tier scatters, and places that it marks, are those of references."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results
from support.cpu.layers import BOOL, FLOAT, INT32, INT64, SHORT, SIGNED, UNSIGNED, LayerBuilder, check

import neurald as nd
from neurald.hal.errors import Error
from neurald.hal.execution.reference_model import ReferenceModel

Op = nd.OperationType
SEGMENTS = [nd.OperationType[f"TFLITE_UNSORTED_SEGMENT_{name}"] for name in ("SUM", "PROD", "MAX", "MIN")]


def scatter(kind: nd.OperandType, index: nd.OperandType, shape: tuple[int, ...], depth: int) -> nd.Model:
    build = LayerBuilder(0)
    indices = build.operand(index, (5, 2, depth))
    scale: dict[str, float] = {"scale": 0.5} if kind in (SIGNED, UNSIGNED, SHORT) else {}
    updates = build.operand(kind, (5, 2, *shape[depth:]), **scale)
    inputs = [indices, updates, build.constant(INT32, np.array(shape, np.int32))]
    return build.model(Op.TFLITE_SCATTER_ND, inputs, build.operand(kind, shape, **scale), [indices, updates])


def segmented(operation: nd.OperationType, kind: nd.OperandType, count: int = 4) -> nd.Model:
    build = LayerBuilder(0)
    given, segments = build.operand(kind, (7, 2, 35)), build.operand(INT32, (7, 2))
    output = build.operand(kind, (count, 35))
    inputs = [given, segments, build.constant(INT32, np.array([count], np.int32))]
    return build.model(operation, inputs, output, [given, segments])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(
    "kind", [FLOAT, INT32, INT64, SIGNED, UNSIGNED, SHORT, BOOL], ids=lambda kind: kind.name
)
def test_rows_are_added_at_their_places(target: str, kind: nd.OperandType) -> None:
    rng = np.random.default_rng(1)
    for index in (INT32, INT64):
        for shape, depth in (((6, 3000), 1), ((3, 4, 9), 2), ((3, 4), 2)):
            places = rng.integers(0, shape[:depth], (5, 2, depth)).astype(index.dtype)
            # Sums of bytes wrap around.
            updates = rng.integers(-99, 99, (5, 2, *shape[depth:])).astype(kind.dtype)
            if kind is BOOL:
                updates = rng.integers(0, 3, updates.shape) == 0
            check(scatter(kind, index, shape, depth), target, threads=2, inputs=[places, updates])


@pytest.mark.parametrize("operation", SEGMENTS, ids=lambda operation: operation.name)
@pytest.mark.parametrize("kind", [FLOAT, INT32], ids=lambda kind: kind.name)
def test_segments_without_rows_and_rows_without_segments(
    operation: nd.OperationType, kind: nd.OperandType
) -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(-3, 4, (7, 2, 35)).astype(kind.dtype)
    segments = rng.choice([-5, -1, 0, 1, 3], (7, 2)).astype(np.int32)
    for target in TARGETS_HERE:
        check(segmented(operation, kind), target, inputs=[values, segments])


@pytest.mark.parametrize("wrong", [-1, 6, 1 << 30])
def test_places_outside_are_errors(wrong: int) -> None:
    model = scatter(FLOAT, INT32, (6, 3), 1)
    places = np.zeros((5, 2, 1), np.int32)
    places[3, 1] = wrong
    with pytest.raises(Error, match="index outside"):
        results(prepared(model), model, [places, np.ones((5, 2, 3), np.float32)])


def test_segments_beyond_the_last_are_errors() -> None:
    model = segmented(SEGMENTS[0], FLOAT)
    segments = np.full((7, 2), 4, np.int32)
    with pytest.raises(Error, match="index outside"):
        results(prepared(model), model, [np.ones((7, 2, 35), np.float32), segments])


def one_hot(kind: nd.OperandType, index: nd.OperandType, axis: int) -> nd.Model:
    build = LayerBuilder(0)
    indices, on, off = build.operand(index, (3, 20)), build.operand(kind, (1,)), build.operand(kind, (1,))
    shape = [3, 20]
    shape.insert(axis % 3, 5)
    inputs = [indices, build.scalar(5), on, off, build.scalar(axis)]
    return build.model(Op.TFLITE_ONE_HOT, inputs, build.operand(kind, shape), [indices, on, off])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, INT32, BOOL, SIGNED], ids=lambda kind: kind.name)
def test_marked_places(target: str, kind: nd.OperandType) -> None:
    indices = np.random.default_rng(3).integers(-1, 6, (3, 20))
    values = [np.array([value], kind.dtype) for value in (1, 0)]
    for index in (INT32, INT64):
        for axis in (0, 1, -1):
            check(one_hot(kind, index, axis), target, inputs=[indices.astype(index.dtype), *values])


def test_wide_elements_run_on_references() -> None:
    assert isinstance(prepared(one_hot(INT64, INT32, 0)), ReferenceModel)
