"""Functions of rows of bytes in the first tier have the results of references and compiled code."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results
from support.cpu.layers import SIGNED, UNSIGNED, LayerBuilder, check, values

import neurald as nd
from neurald.drivers.cpu.device import process_settings
from neurald.drivers.cpu.preparation import Preparation
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import host_target

SHAPES = ((1, 1), (3, 7), (2, 2, 5, 64), (1, 1001), (40, 3))


def logarithm(kind: nd.OperandType, shape: tuple[int, ...], name: str) -> nd.Model:
    build = LayerBuilder(len(shape))
    given = build.given(kind, shape)
    output = build.operand(kind, shape, scale=16 / 256, zero_point=127 if kind is SIGNED else 255)
    inputs = [given, build.scalar(1.0, nd.OperandType.FLOAT32), build.scalar(-1)]
    return build.model(nd.OperationType[name], inputs, output, [given])


def unit_rows(kind: nd.OperandType, shape: tuple[int, ...], name: str) -> nd.Model:
    build = LayerBuilder(len(shape))
    given = build.given(kind, shape)
    output = build.operand(kind, shape, scale=1 / 128, zero_point=0 if kind is SIGNED else 128)
    return build.model(nd.OperationType[name], [given], output, [given])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["L2_NORMALIZATION", "TFLITE_L2_NORMALIZATION"])
def test_rows_of_length_one(target: str, kind: nd.OperandType, shape: tuple[int, ...], name: str) -> None:
    model = unit_rows(kind, shape, name)
    check(model, target, threads=2)
    zero_point = model.main.operands[model.main.inputs[0]].zero_point
    # Nothing, and the least that there can be.
    array = np.full(shape, zero_point, kind.dtype)
    check(model, target, inputs=[array])
    array.reshape(-1)[-1] ^= 1
    check(model, target, inputs=[array])


@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_logarithms_of_softmax(kind: nd.OperandType, shape: tuple[int, ...]) -> None:
    model = logarithm(kind, shape, "TFLITE_LOG_SOFTMAX")
    array = values(np.random.default_rng(5), kind, shape)
    compiled = Preparation(host_target(process_settings()), 1, keeps_artifact=False).prepare(model)
    assert isinstance(compiled, CpuPreparedModel)
    (expected,) = results(compiled, model, [array])
    for target in TARGETS_HERE:
        found = prepared(model, target, 2)
        assert isinstance(found, CpuPreparedModel)
        np.testing.assert_array_equal(results(found, model, [array])[0], expected)
