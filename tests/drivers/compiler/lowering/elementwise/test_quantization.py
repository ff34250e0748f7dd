import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.pointwise import SHAPES, label, numbers, result, rows
from support.operations.single_operation import given
from support.sweeps import sweep

from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL


@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows([OperationType.QUANTIZE]), ids=label)
def test_quantize(operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...]) -> None:
    expect_same(operation, [numbers(types["T"], shape)], result(types["U"], 0.125))


@sweep("shape", SHAPES[:3])
@sweep(("operation", "types"), rows([OperationType.DEQUANTIZE]), ids=label)
def test_dequantize(operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...]) -> None:
    if types["T"] is not PER_CHANNEL:
        expect_same(operation, [numbers(types["T"], shape)], result(types["U"]), compare=close)


@sweep("dimension", [0, 1, 2])
@sweep("real", [OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16])
def test_channels(real: OperandType, dimension: int) -> None:
    values = np.random.default_rng(0).integers(-127, 128, (2, 3, 5))
    scales = tuple(0.1 * (channel + 1) for channel in range(values.shape[dimension]))
    x = given(PER_CHANNEL, values, channel_quant=ChannelQuant(dimension=dimension, scales=scales))
    expect_same(OperationType.DEQUANTIZE, [x], result(real), compare=close)
