import numpy as np
import pytest

from neurald.hal.model.graph import ChannelQuant, Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime, OperandType
from neurald.runtime.function.tensor_info import inputs_of


@pytest.mark.parametrize(
    ("names", "unique"),
    [
        (("x", "", "x", "y"), ["x_0", "input_1", "x_2", "y"]),
        (("x", "x", "x_0"), ["x_0_", "x_1", "x_0"]),
        (("", "input_0", "x_3", "x", "x"), ["input_0_", "input_0", "x_3", "x_3_", "x_4"]),
    ],
)
def test_names_are_made_unique(names: tuple[str, ...], unique: list[str]) -> None:
    operands = [
        Operand(
            type=OperandType.TENSOR_FLOAT32, dimensions=(0, 3), lifetime=Lifetime.SUBGRAPH_INPUT, name=name
        )
        for name in names
    ]
    inputs = tuple(range(len(names)))
    model = Model(main=Subgraph(operands=tuple(operands), operations=(), inputs=inputs, outputs=()))
    assert [info.name for info in inputs_of(model)] == unique


def test_kinds_of_tensors() -> None:
    channels = ChannelQuant(dimension=1, scales=(1.0, 2.0))
    operands = (
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=None),
        Operand(type=OperandType.TENSOR_QUANT8_ASYMM, dimensions=(2, 0), scale=0.5, zero_point=3),
        Operand(type=OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, dimensions=(1, 2), channel_quant=channels),
        Operand(type=OperandType.TENSOR_STRING, dimensions=()),
    )
    model = Model(main=Subgraph(operands=operands, operations=(), inputs=(0, 1, 2, 3), outputs=()))
    rank, quantized, several, text = inputs_of(model)
    assert rank.shape is None
    assert "of any rank" in str(rank)
    assert (quantized.shape, quantized.is_quantized) == ((2, None), True)
    assert quantized.dtype == np.uint8
    assert str(quantized) == "input_1: uint8 2×?, 0.5 × (q − 3)"
    assert (several.scales, several.quantized_dimension, several.is_quantized) == ((1.0, 2.0), 1, True)
    assert str(text) == "input_3: string scalar"
