"""A model that the CPU device compiles in parts."""

import numpy as np

import neurald as nd

FLOAT = nd.OperandType.TENSOR_FLOAT32
Op = nd.OperationType

_INT64, _STRING = nd.OperandType.TENSOR_INT64, nd.OperandType.TENSOR_STRING
_BOOL, _INT32 = nd.OperandType.TENSOR_BOOL8, nd.OperandType.INT32


def in_parts(rows: int) -> nd.Model:
    """Creates a model of compiled operations, and of one that makes strings and is not."""
    builder = nd.ModelBuilder()

    def constant(kind: nd.OperandType, value: object, *shape: int) -> int:
        operand = builder.add_operand(kind, shape) if shape else builder.add_operand(kind)
        builder.set_operand_value(operand, np.array(value, kind.dtype).reshape(shape))
        return operand

    source, doubled, result = (builder.add_operand(FLOAT, (rows, 3)) for _ in range(3))
    same, chosen, words = (builder.add_operand(kind, (rows, 3)) for kind in (_BOOL, _INT64, _STRING))
    zero, text = constant(_INT32, 0), constant(_STRING, [b"no number"], 1)
    one, names = constant(_INT32, 1), builder.add_operand(_STRING, (2,))
    longest = builder.add_operand(nd.OperandType.BOOL)
    builder.set_operand_value(longest, False)
    builder.add_operation(Op.ADD, [source, source, zero], [doubled])
    builder.add_operation(Op.EQUAL, [doubled, doubled], [same])
    builder.add_operation(Op.TFLITE_CAST, [same], [chosen])
    builder.add_operation(Op.TFLITE_SKIP_GRAM, [text, one, zero, longest], [names])
    builder.add_operation(Op.TFLITE_GATHER, [names, zero, chosen, zero], [words])
    builder.add_operation(Op.MUL, [doubled, doubled, zero], [result])
    builder.identify_inputs_and_outputs([source], [result, words])
    return builder.finish()
