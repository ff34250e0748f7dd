import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.pointwise import SHAPES, label, numbers, result, rows
from support.operations.single_operation import given
from support.sweeps import sweep

from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32 = OperandType.TENSOR_INT32
PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
FLOAT = OperandType.TENSOR_FLOAT32


@sweep("output_scale", [0.05, 0.125])
@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows([OperationType.TFLITE_QUANTIZE]), ids=label)
def test_quantize(
    operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...], output_scale: float
) -> None:
    inputs = [numbers(types["T"], shape)]
    if INT32 in types.values():
        inputs += [given(OperandType.FLOAT32, 0.002), given(OperandType.INT32, 3)]
    expect_same(operation, inputs, result(types["U"], output_scale))


@sweep(("operation", "types"), rows([OperationType.TFLITE_DEQUANTIZE]), ids=label)
def test_dequantize(operation: OperationType, types: dict[str, OperandType]) -> None:
    if types["T"] is PER_CHANNEL:
        scales = ChannelQuant(dimension=1, scales=(0.5, 0.25, 0.1))
        x = given(PER_CHANNEL, np.arange(-6, 6).reshape(4, 3), channel_quant=scales)
    else:
        x = numbers(types["T"], (4, 3))
    expect_same(operation, [x], result(types["U"]), compare=close)


@sweep("limits", [(-1.0, 1.0), (0.0, 6.0), (-3.3, 7.1)])
@sweep("bits", [2, 8, 16])
def test_fake_quant(bits: int, limits: tuple[float, float]) -> None:
    ends = [given(OperandType.FLOAT32, end) for end in limits]
    inputs = [numbers(FLOAT, (5, 7)), *ends, given(OperandType.INT32, bits)]
    expect_same(OperationType.TFLITE_FAKE_QUANT, inputs, result(FLOAT), compare=close)
