"""Models of operations in a row."""

from collections.abc import Sequence

import numpy as np

import neurald as nd

_WITH_CONSTANT = ("ADD", "SUB", "MUL")


def chain(kinds: Sequence[str], *, size: int = 64, relaxed: bool = False) -> nd.Model:
    """Builds a model that applies operations of these types one after the other.

    ADD, SUB and MUL have a constant as second operand.
    """
    builder = nd.ModelBuilder()
    shape = (1, size)

    def tensor() -> int:
        return builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape)

    first = value = tensor()
    constant, activation = tensor(), builder.add_operand(nd.OperandType.INT32, ())
    builder.set_operand_value(constant, np.linspace(0.5, 1.5, size, dtype=np.float32).reshape(shape))
    builder.set_operand_value(activation, 0)
    for kind in kinds:
        result = tensor()
        inputs = [value, constant, activation] if kind in _WITH_CONSTANT else [value]
        builder.add_operation(nd.OperationType[kind], inputs=inputs, outputs=[result])
        value = result
    builder.identify_inputs_and_outputs([first], [value])
    if relaxed:
        builder.relax_computation_float32_to_float16(True)
    return builder.finish()


def unary_chain(*types: nd.OperationType, shape: tuple[int, ...] = (2, 3), between: bool = False) -> nd.Model:
    """Builds a chain of operations on x; with `between`, all intermediate results are outputs."""
    builder = nd.ModelBuilder()
    values = [builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape) for _ in range(len(types) + 1)]
    for position, kind in enumerate(types):
        builder.add_operation(kind, [values[position]], [values[position + 1]])
    builder.identify_inputs_and_outputs(values[:1], values[1:] if between else values[-1:])
    return builder.finish()


def ramp(size: int = 64) -> "np.ndarray":
    """Returns an input of such a model."""
    return np.linspace(-1, 1, size, dtype=np.float32).reshape(1, size)
