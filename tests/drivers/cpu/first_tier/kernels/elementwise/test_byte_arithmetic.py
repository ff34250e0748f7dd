"""Arithmetic on bytes in the first tier gives the results of references."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared
from support.cpu.layers import SIGNED, UNSIGNED, LayerBuilder, check

import neurald as nd
from neurald.hal.execution.reference_model import ReferenceModel


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("name", ["TFLITE_SQUARED_DIFFERENCE", "TFLITE_SUB"])
def test_differences_of_bytes(target: str, name: str) -> None:
    build = LayerBuilder(4)
    one, other = build.operand(SIGNED, (3, 5, 70)), build.operand(SIGNED, (3, 5, 1))
    output = build.operand(SIGNED, (3, 5, 70), scale=0.9, zero_point=-100)
    inputs = [one, other] if "SQUARED" in name else [one, other, build.scalar(0)]
    check(build.model(nd.OperationType[name], inputs, output, [one, other]), target)


def of_all_bytes(name: str, kind: nd.OperandType, scales: Sequence[float], seed: int) -> nd.Model:
    """Builds a model of an operation on all pairs of bytes."""
    build = LayerBuilder(seed)
    low = 0 if kind is UNSIGNED else -128
    one, other, output = (
        build.operand(kind, shape, scale=scale, zero_point=int(build.rng.integers(low, low + 256)))
        for shape, scale in zip(((256, 1), (256,), (256, 256)), scales, strict=True)
    )
    activation = [] if "SQUARED" in name or "PRELU" in name else [build.scalar(int(build.rng.integers(0, 4)))]
    return build.model(nd.OperationType[name], [one, other, *activation], output, [one, other])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED], ids=lambda kind: kind.name)
def test_all_pairs_of_bytes_with_any_scales(target: str, kind: nd.OperandType) -> None:
    rng = np.random.default_rng(5)
    pairs = [np.arange(256, dtype=np.uint8).view(kind.dtype).reshape(shape) for shape in ((256, 1), (256,))]
    names = ("TFLITE_ADD", "TFLITE_SUB", "TFLITE_MUL", "TFLITE_SQUARED_DIFFERENCE", "PRELU")
    # Sums of equal scales are between two results in half of all pairs.
    scales = [(1.0, 1.0, 1.0), (1.0, 1.0, 2.0), (0.5, 1.0, 1.0), (1.0, 1e-7, 1.0), (1e-9, 1.0, 0.3)]
    scales += [(1e-6, 1e-6, 1.0), (1.0, 1.0, 0.001)]
    for spread in (0.3, 0.3, 0.3, 2, 2, 2, 6, 6):
        first, second, third = np.exp(rng.normal(0, spread, 3)).tolist()
        scales.append((first, second, third * max(first, second)))
    for seed, (each, name) in enumerate(itertools.product(scales, names)):
        check(of_all_bytes(name, kind, each, seed), target, inputs=pairs)


def test_sums_of_bytes_that_may_exceed_32_bits_have_no_kernel() -> None:
    for scales, has_kernel in (((1.0, 1.0, 1e-6), True), ((1.0, 1.0, 1e-8), False)):
        found = prepared(of_all_bytes("TFLITE_ADD", SIGNED, scales, 0))
        assert isinstance(found, ReferenceModel) is not has_kernel
