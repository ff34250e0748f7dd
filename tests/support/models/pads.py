"""A model whose shapes are unknown before it runs."""

import numpy as np
from support.models.plans import Array
from support.models.small import FLOAT

import neurald as nd

Op = nd.OperationType
INT = nd.OperandType.TENSOR_INT32


def pads(output: tuple[int, ...] = (), *, relu: bool = False) -> nd.Model:
    """Builds (x, p, q) -> PAD(x, p) + PAD(x, q), whose shapes are unknown before it runs."""
    builder = nd.ModelBuilder()
    source = builder.add_operand(FLOAT, (2, 3))
    paddings = [builder.add_operand(INT, (2, 2)) for _ in range(2)]
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    padded = [builder.add_operand(FLOAT, ()) for _ in range(2)]
    total = builder.add_operand(FLOAT, output)
    builder.add_operation(Op.PAD, [source, paddings[0]], [padded[0]])
    builder.add_operation(Op.PAD, [source, paddings[1]], [padded[1]])
    if relu:
        rectified = builder.add_operand(FLOAT, (0, 0))
        builder.add_operation(Op.RELU, [padded[0]], [rectified])
        padded[0] = rectified
    builder.add_operation(Op.ADD, [*padded, none], [total])
    builder.identify_inputs_and_outputs([source, *paddings], [total])
    return builder.finish()


def amounts(*values: int) -> Array:
    """Returns how much is padded before and after each of two dimensions."""
    return np.array(values, np.int32).reshape(2, 2)
