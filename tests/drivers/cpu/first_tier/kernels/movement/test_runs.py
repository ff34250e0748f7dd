"""Runs of bytes that the first tier copies are those of references, whatever their lengths are."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE
from support.cpu.layers import BOOL, FLOAT, INT32, INT64, SHORT, LayerBuilder, check, values

import neurald as nd

RUNS = (*range(1, 9), 11, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 300)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [BOOL, SHORT, FLOAT, INT64], ids=lambda kind: kind.name)
@pytest.mark.parametrize(("batches", "repeats"), [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_runs_of_any_length_are_taken(target: str, kind: nd.OperandType, batches: int, repeats: int) -> None:
    rng, scale = np.random.default_rng(0), {"scale": 0.1} if kind is SHORT else {}
    for run in RUNS:
        build, shape, picked = LayerBuilder(0), (batches, repeats, 5, run), (batches, 7)
        given, indexes = build.operand(kind, shape, **scale), build.operand(INT32, picked)
        output = build.operand(kind, (batches, repeats, 7, run), **scale)
        inputs = [given, build.scalar(2), indexes, build.scalar(1)]
        model = build.model(nd.OperationType.TFLITE_GATHER, inputs, output, [given, indexes])
        numbers = rng.integers(0, 5, picked).astype(np.int32)
        check(model, target, threads=2, inputs=[values(rng, kind, shape), numbers])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [BOOL, SHORT, FLOAT, INT64], ids=lambda kind: kind.name)
def test_parts_of_rows_of_any_length_are_moved(target: str, kind: nd.OperandType) -> None:
    rng, scale = np.random.default_rng(0), {"scale": 0.1} if kind is SHORT else {}
    for run in RUNS:
        build, shape = LayerBuilder(0), (3, 5, run + 2)
        given, output = build.operand(kind, shape, **scale), build.operand(kind, (2, 4, run), **scale)
        numbers = (1, 1, int(rng.integers(0, 3))), (2, 4, run)
        constants = [build.constant(INT32, np.array(each, np.int32)) for each in numbers]
        model = build.model(nd.OperationType.TFLITE_SLICE, [given, *constants], output, [given])
        check(model, target, threads=2, inputs=[values(rng, kind, shape)])
