"""Reductions, softmax and norms of the first tier give the results of references."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results
from support.cpu.layers import BOOL, FLOAT, INT32, INT64, SHORT, SIGNED, UNSIGNED, LayerBuilder, check, values

import neurald as nd
from neurald.hal.execution.reference_model import ReferenceModel


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 5, 64), (1, 1001)])
def test_softmax_and_means_of_rows(target: str, shape: tuple[int, ...]) -> None:
    build = LayerBuilder(0)
    given, output = build.operand(FLOAT, shape), build.operand(FLOAT, shape)
    beta = build.builder.add_operand(nd.OperandType.FLOAT32)
    build.builder.set_operand_value(beta, 0.7)
    model = build.model(nd.OperationType.SOFTMAX, [given, beta], output, [given])
    check(model, target, threads=2)
    array = values(np.random.default_rng(1), FLOAT, shape)
    for special in (np.nan, np.inf, -np.inf, 1e30):
        array.reshape(-1)[0] = special
        (expected,) = results(ReferenceModel(model), model, [array])
        np.testing.assert_allclose(results(prepared(model, target), model, [array])[0], expected, atol=1e-6)
    build = LayerBuilder(0)
    given, output = build.operand(FLOAT, shape), build.operand(FLOAT, (*shape[:-1], 1))
    inputs = [given, build.constant(INT32, np.array([-1], np.int32)), build.scalar(1)]
    check(build.model(nd.OperationType.MEAN, inputs, output, [given]), target, threads=2)


REDUCTIONS = {
    FLOAT: ("TFLITE_MEAN", "TFLITE_SUM", "TFLITE_REDUCE_PROD", "TFLITE_REDUCE_MAX", "TFLITE_REDUCE_MIN"),
    INT32: ("TFLITE_MEAN", "TFLITE_SUM", "TFLITE_REDUCE_PROD", "TFLITE_REDUCE_MAX", "TFLITE_REDUCE_MIN"),
    INT64: ("TFLITE_MEAN", "TFLITE_SUM", "TFLITE_REDUCE_PROD", "TFLITE_REDUCE_MAX", "TFLITE_REDUCE_MIN"),
    SIGNED: ("TFLITE_MEAN", "TFLITE_SUM"),
    UNSIGNED: ("TFLITE_MEAN", "TFLITE_SUM"),
    SHORT: ("TFLITE_MEAN", "TFLITE_REDUCE_MAX", "TFLITE_REDUCE_MIN"),
    BOOL: ("TFLITE_REDUCE_ANY", "TFLITE_REDUCE_ALL"),
}


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", REDUCTIONS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("axes", [(3,), (1, 2), (0,), (0, 2), (0, 1, 2, 3), (1, -1)], ids=str)
def test_reductions(target: str, kind: nd.OperandType, axes: tuple[int, ...]) -> None:
    shape = (2, 3, 5, 67)
    reduced = tuple(1 if n in axes or n - 4 in axes else length for n, length in enumerate(shape))
    for name in REDUCTIONS[kind]:
        build = LayerBuilder(1)
        has_scale = kind in (SIGNED, UNSIGNED, SHORT, FLOAT)
        given = build.given(kind, shape) if has_scale else build.operand(kind, shape)
        scale = {"scale": 0.4, "zero_point": 11} if kind in (SIGNED, UNSIGNED) else {}
        if kind is SHORT:
            scale = {"scale": 0.003 if "MEAN" in name else build.input_scale}
        output = build.operand(kind, reduced, **scale)
        keeps = build.scalar(1, nd.OperandType.INT32 if "MEAN" in name else nd.OperandType.BOOL)
        inputs = [given, build.constant(INT32, np.array(axes, np.int32)), keeps]
        check(build.model(nd.OperationType[name], inputs, output, [given]), target, threads=2)


@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED], ids=lambda kind: kind.name)
def test_extremes_of_bytes(kind: nd.OperandType) -> None:
    for name in ("REDUCE_MAX", "REDUCE_MIN"):
        build = LayerBuilder(1)
        given = build.operand(kind, (3, 70, 5), scale=0.1, zero_point=3)
        output = build.operand(kind, (3, 5), scale=0.1, zero_point=3)
        axes = build.constant(INT32, np.array([1], np.int32))
        inputs = [given, axes, build.scalar(False, nd.OperandType.BOOL)]
        model = build.model(nd.OperationType[name], inputs, output, [given])
        for target in TARGETS_HERE:
            check(model, target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 2, 5, 64), (1, 1001)])
def test_softmax_of_bytes(target: str, kind: nd.OperandType, shape: tuple[int, ...]) -> None:
    build = LayerBuilder(1)
    given = build.given(kind, shape)
    output = build.operand(kind, shape, scale=1 / 256, zero_point=-128 if kind is SIGNED else 0)
    inputs = [given, build.scalar(1.3, nd.OperandType.FLOAT32)]
    check(build.model(nd.OperationType.SOFTMAX, inputs, output, [given]), target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_logarithms_of_softmax_and_norms(target: str) -> None:
    for shape in ((2, 2, 3, 70), (1, 1, 1, 1)):
        build = LayerBuilder(0)
        given, output = build.operand(FLOAT, shape), build.operand(FLOAT, shape)
        inputs = [given, build.scalar(0.7, nd.OperandType.FLOAT32), build.scalar(-1)]
        check(build.model(nd.OperationType.LOG_SOFTMAX, inputs, output, [given]), target)
        build = LayerBuilder(0)
        given, output = build.operand(FLOAT, shape), build.operand(FLOAT, shape)
        model = build.model(nd.OperationType.L2_NORMALIZATION, [given], output, [given])
        check(model, target)
        check(model, target, inputs=[np.zeros(shape, np.float32)])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("name", ["TFLITE_REDUCE_MAX", "TFLITE_REDUCE_MIN"])
@pytest.mark.parametrize("axis", [0, 1])
def test_extremes_of_floats_are_nan_if_any_is(target: str, name: str, axis: int) -> None:
    # The widths of four registers and of everything shorter, each with a NaN in another place.
    count = 64 + 32 + 16 + 8 + 3
    array = np.random.default_rng(0).normal(size=(count + 1, count)).astype(np.float32)
    np.fill_diagonal(array, np.nan)
    array[-1, ::3], array[-1, 1::3] = np.inf, -np.inf
    array = array if axis else np.ascontiguousarray(array.T)
    build = LayerBuilder(0)
    given, output = build.operand(FLOAT, array.shape), build.operand(FLOAT, (count + 1,))
    inputs = [given, build.constant(INT32, np.array([axis], np.int32))]
    inputs.append(build.scalar(False, nd.OperandType.BOOL))
    model = build.model(nd.OperationType[name], inputs, output, [given])
    check(model, target, inputs=[array])
