"""Quantisation in the first tier gives the results of references."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE
from support.cpu.layers import FLOAT, SHORT, SIGNED, UNSIGNED, LayerBuilder, check

import neurald as nd


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_bytes_become_16_bits_and_back(target: str) -> None:
    for source, result in ((SIGNED, SHORT), (SHORT, SIGNED)):
        build, shape = LayerBuilder(0), (3, 1371)
        given = build.operand(source, shape, scale=0.003 if source is SHORT else 0.1, zero_point=0)
        output = build.operand(result, shape, scale=0.003 if result is SHORT else 0.1, zero_point=0)
        check(build.model(nd.OperationType.TFLITE_QUANTIZE, [given], output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_floats_become_16_bits_and_back(target: str) -> None:
    array = np.array([0, -0.0, 1e9, -1e9, np.inf, -np.inf, 0.05, -0.15, 3.7, *np.linspace(-900, 900, 77)])
    build = LayerBuilder(0)
    given = build.operand(FLOAT, array.shape)
    output = build.operand(SHORT, array.shape, scale=0.02)
    model = build.model(nd.OperationType.TFLITE_QUANTIZE, [given], output, [given])
    check(model, target, inputs=[array.astype(np.float32)])
    build = LayerBuilder(0)
    given = build.operand(SHORT, (5, 77), scale=0.02)
    output = build.operand(FLOAT, (5, 77))
    check(build.model(nd.OperationType.TFLITE_DEQUANTIZE, [given], output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED], ids=lambda kind: kind.name)
def test_conversions_to_bytes_and_back(target: str, kind: nd.OperandType) -> None:
    build = LayerBuilder(0)
    given, output = build.operand(FLOAT, (3, 75)), build.operand(kind, (3, 75), scale=0.02, zero_point=7)
    model = build.model(nd.OperationType.QUANTIZE, [given], output, [given])
    check(model, target)
    special = np.array([np.nan, np.inf, -np.inf, 0.01, -0.01, 0.03, 1e30, -0.0, 2.55], np.float32)
    check(model, target, inputs=[np.resize(special, (3, 75))])
    build = LayerBuilder(0)
    given, output = build.operand(kind, (3, 75), scale=0.02, zero_point=7), build.operand(FLOAT, (3, 75))
    check(build.model(nd.OperationType.DEQUANTIZE, [given], output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(("low", "high", "bits"), [(-6.0, 6.0, 8), (0.0, 5.7, 2), (-0.1, 2.9, 16)])
def test_floats_are_rounded_as_if_quantised(target: str, low: float, high: float, bits: int) -> None:
    build, shape = LayerBuilder(0), (9, 321)
    given, output = build.operand(FLOAT, shape), build.operand(FLOAT, shape)
    ends = [build.scalar(each, nd.OperandType.FLOAT32) for each in (low, high)]
    inputs = [given, *ends, build.scalar(bits)]
    model = build.model(nd.OperationType.TFLITE_FAKE_QUANT, inputs, output, [given])
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32) * 5
    array[0, :5] = np.nan, np.inf, -np.inf, 0, -0.0
    check(model, target, rtol=0, inputs=[array])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(
    ("scale", "zero_point"), [(0.0235, -128), (1 / 3, 7), (0.05, 127), (0.5, 0), (2e-38, 3), (3e38, -5)]
)
def test_quotients_near_halves_are_rounded_as_divided(target: str, scale: float, zero_point: int) -> None:
    with np.errstate(over="ignore"):
        halves = np.float32(scale) * np.arange(-300, 300.5, 0.5).astype(np.float32)
    below, above = np.nextafter(halves, np.float32(-np.inf)), np.nextafter(halves, np.float32(np.inf))
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0, -0.0, 1e-45, -1e-45, 3e38, -3e38], np.float32)
    array = np.concatenate([halves, below, above, special])
    build = LayerBuilder(0)
    given = build.operand(FLOAT, array.shape)
    output = build.operand(SIGNED, array.shape, scale=scale, zero_point=zero_point)
    model = build.model(nd.OperationType.QUANTIZE, [given], output, [given])
    check(model, target, inputs=[array])
    # Each alone and in other lanes.
    check(model, target, inputs=[np.random.default_rng(0).permutation(array)])
