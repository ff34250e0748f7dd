"""A model that the CPU device compiles in parts."""

import numpy as np

import neurald as nd

FLOAT = nd.OperandType.TENSOR_FLOAT32
Op = nd.OperationType


def in_parts(rows: int) -> nd.Model:
    """Creates a model with an operation that is not compiled between two that are."""
    builder = nd.ModelBuilder()
    source, doubled, result = (builder.add_operand(FLOAT, (rows, 3)) for _ in range(3))
    drawn = builder.add_operand(nd.OperandType.TENSOR_INT32, (rows, 2))
    count, seeds = (
        builder.add_operand(nd.OperandType.INT32),
        builder.add_operand(nd.OperandType.TENSOR_INT32, (2,)),
    )
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.set_operand_value(count, 2)
    builder.set_operand_value(seeds, np.array([1, 2], np.int32))
    builder.add_operation(Op.ADD, [source, source, activation], [doubled])
    builder.add_operation(Op.RANDOM_MULTINOMIAL, [doubled, count, seeds], [drawn])
    builder.add_operation(Op.MUL, [doubled, doubled, activation], [result])
    builder.identify_inputs_and_outputs([source], [result, drawn])
    return builder.finish()
