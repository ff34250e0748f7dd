import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same, lowered_all
from support.operations.single_operation import given, ints, scalars, wanted
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT, INT64, UINT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT64, OperandType.TENSOR_UINT64
UNIFORM, NORMAL = OperationType.TFLITE_RANDOM_UNIFORM, OperationType.TFLITE_RANDOM_STANDARD_NORMAL
MULTINOMIAL = OperationType.TFLITE_MULTINOMIAL
BITS = OperationType.TFLITE_STABLEHLO_RNG_BIT_GENERATOR


@sweep("operation", [UNIFORM, NORMAL])
@sweep("seeds", [(1, 2), (-3, 2**40), (0, 7)])
def test_given_seeds(operation: OperationType, seeds: tuple[int, int]) -> None:
    for shape in ((), (1,), (3, 5), (2, 0), (20_000,)):
        inputs = [ints(*shape), given(INT64, seeds)]
        expect_same(operation, inputs, wanted(FLOAT), data=(), compare=close)
        expect_same(operation, inputs, wanted(FLOAT), data=(1,), compare=close)


@sweep("operation", [UNIFORM, NORMAL])
def test_two_zeros_are_random_seeds(operation: OperationType) -> None:
    inputs = [ints(1000), given(INT64, (0, 0))]
    for data in ((), (1,)):
        first, second = (lowered_all(operation, inputs, wanted(FLOAT), data=data)[0] for _ in range(2))
        assert (first != second).mean() > 0.9
        assert abs(first.mean() - (0.5 if operation is UNIFORM else 0)) < 0.2


@sweep("output", [OperandType.TENSOR_INT32, INT64])
@sweep("seeds", [(1, 2), (-3, 2**40), (0, 7)])
def test_classes(seeds: tuple[int, int], output: OperandType) -> None:
    generator = np.random.default_rng(4)
    for rows, classes, samples in ((1, 1, 1), (3, 7, 11), (2, 300, 1000), (1, 5, 0), (0, 5, 3)):
        logits = generator.normal(0, 3, (rows, classes))
        logits[generator.random(logits.shape) < 0.2] = -np.inf
        logits[generator.random(logits.shape) < 0.1] = np.nan
        logits[:, 0] = 1
        inputs = [given(FLOAT, logits), ints(samples), given(INT64, seeds)]
        for data in ((0,), (0, 2)):
            expect_same(MULTINOMIAL, inputs, wanted(output), data=data)


@sweep("algorithm", [0, 1, 2])
@sweep("kind", ["INT32", "INT64", "UINT32", "UINT64"])
def test_bits(kind: str, algorithm: int) -> None:
    output = OperandType[f"TENSOR_{kind}"]
    for state in ([1, 2], [2**63, 2**64 - 1], [5, 6, 7]):
        if len(state) == 3 and algorithm == 2:
            continue
        for shape in ((), (1,), (3, 5)):
            inputs = [given(UINT64, np.array(state, np.uint64)), ints(*shape), *scalars(algorithm)]
            expect_same(BITS, inputs, wanted(UINT64), wanted(output), data=(0,))


def test_wrong_seeds() -> None:
    with pytest.raises(BadData, match="is expected"):
        lowered_all(UNIFORM, [ints(3), given(INT64, (1, 2, 3))], wanted(FLOAT), data=(1,))


def test_compiled_seeds_differ_between_executions() -> None:
    builder = nd.ModelBuilder()
    shape = builder.add_operand(nd.OperandType.TENSOR_INT32, (1,))
    builder.set_operand_value(shape, np.array([500], np.int32))
    seeds = builder.add_operand(INT64, (2,))
    result = builder.add_operand(FLOAT, (500,))
    builder.add_operation(UNIFORM, [shape, seeds], [result])
    builder.identify_inputs_and_outputs([seeds], [result])
    compilation = nd.CompilationBuilder(builder.finish(), [CpuDevice()]).finish()
    given_seeds = np.array([3, 4], np.int64)
    np.testing.assert_array_equal(compilation.run(given_seeds)[0], compilation.run(given_seeds)[0])
    first, second = (compilation.run(np.zeros(2, np.int64))[0] for _ in range(2))
    assert (first != second).mean() > 0.9
    assert not any(kernel.is_reference for step in compilation.profile() for kernel in step.kernels)
