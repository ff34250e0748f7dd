"""Kernels of rescaled products give the interpreter's integers."""

import numpy as np
import pytest
from support.cpu.procedures import TARGETS, Case, case_of, expect_same
from support.models.control_flow import Graph, T
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.ir.algorithm import RescaledProduct
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import Target
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions

generator = np.random.default_rng(20)


def _case(count: int, width: int, multiplier: int, bits: int, largest: int) -> Case:
    factors = generator.integers(-largest, largest + 1, (count, width)).astype(np.int32)
    return case_of(RescaledProduct(multiplier=multiplier, bits=bits), factors, output=(width,))


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_products(target: Target) -> None:
    cases = [
        _case(count, width, multiplier, bits, largest)
        for count, width in ((1, 8), (2, 16), (70, 8), (301, 40), (33, 64), (1, 1), (300, 1))
        for multiplier, bits in ((32767, 20), (20001, 16), (32767, 62), (1, 1), (0, 5))
        for largest in (3, 255, 65535)
    ]
    expect_same(cases, target)


@sweep("kind", [T.TENSOR_QUANT8_ASYMM_SIGNED, T.TENSOR_QUANT8_ASYMM, T.TENSOR_QUANT16_SYMM])
@sweep(
    ("shape", "axes"),
    [((3, 70), (1,)), ((100, 5), (0,)), ((9, 3, 11), (0, 2)), ((70, 64), (0,)), ((2, 600), (0, 1))],
)
def test_models(kind: nd.OperandType, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Products of more values than an expression has are compiled."""
    is_short = kind is T.TENSOR_QUANT16_SYMM
    kept = tuple(length for dimension, length in enumerate(shape) if dimension not in axes)
    graph = Graph()
    scale, zero = (1 / 30000, 0) if is_short else (0.0085, 3)
    source = graph.builder.add_operand(kind, shape, scale=scale, zero_point=zero)
    result = graph.builder.add_operand(kind, kept or (1,) * len(shape), scale=scale * 2, zero_point=zero)
    dimensions = graph.builder.add_operand(T.TENSOR_INT32, (len(axes),))
    graph.builder.set_operand_value(dimensions, np.array(axes, np.int32))
    keeps = graph.builder.add_operand(T.BOOL)
    graph.builder.set_operand_value(keeps, not kept)
    graph.builder.add_operation(nd.OperationType.TFLITE_REDUCE_PROD, [source, dimensions, keeps], [result])
    model = graph.finish([source], [result])
    limits = np.iinfo(kind.dtype.name)
    assert isinstance(CpuDevice().prepare_model(model, PrepareOptions()), CpuPreparedModel)
    compiled, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    for low in (limits.min, limits.max - 9):
        values = generator.integers(low, limits.max + 1, shape).astype(kind.dtype)
        np.testing.assert_array_equal(compiled.run(values)[0], reference.run(values)[0])
