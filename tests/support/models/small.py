"""Small models for tests of the runtime."""

from collections.abc import Sequence

import numpy as np

import neurald as nd
from neurald.hal.model.model import StateVariable
from neurald.hal.records import replace
from neurald.runtime.execution.compiled_model import CompiledModel

FLOAT = nd.OperandType.TENSOR_FLOAT32


def add_model(dimensions: Sequence[int] = (2, 3), operations: int = 1) -> nd.Model:
    """Creates `output = first + second (+ second …)`, with operands of one shape."""
    builder = nd.ModelBuilder()
    first = builder.add_operand(FLOAT, dimensions)
    second = builder.add_operand(FLOAT, dimensions)
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    total = first
    for _ in range(operations):
        output = builder.add_operand(FLOAT, dimensions)
        builder.add_operation(nd.OperationType.ADD, [total, second, activation], [output])
        total = output
    builder.identify_inputs_and_outputs([first, second], [total])
    return builder.finish()


def branching_model() -> nd.Model:
    """Creates `output = tanh(x) + logistic(x)`: the first two operations do not need each other."""
    builder = nd.ModelBuilder()
    x, a, b, y = (builder.add_operand(FLOAT, (2, 3)) for _ in range(4))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(nd.OperationType.TANH, [x], [a])
    builder.add_operation(nd.OperationType.LOGISTIC, [x], [b])
    builder.add_operation(nd.OperationType.ADD, [a, b, activation], [y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()


def compiled_add(dimensions: Sequence[int] = (2, 3)) -> nd.Compilation:
    """Compiles `add_model` for the CPU device of this process."""
    return nd.CompilationBuilder(add_model(dimensions), [nd.devices()[0]]).finish()


def bound_execution(
    compilation: CompiledModel, *, reusable: bool = False
) -> tuple[nd.Execution, "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"]:
    """Creates an execution of `add_model((2, 3))` with all buffers; returns it and its output."""
    execution = nd.Execution(compilation, reusable=reusable)
    execution.set_input(0, np.full((2, 3), 1, np.float32))
    execution.set_input(1, np.full((2, 3), 2, np.float32))
    output = np.zeros((2, 3), np.float32)
    execution.set_output(0, output)
    return execution, output


def accumulator() -> nd.Model:
    """Creates a stateful model: x -> x + total, which is also the next total.

    The variable is initially 10.
    """
    model = add_model()
    graph = model.main
    copy = len(graph.operands)
    operands = (*graph.operands, graph.operands[graph.outputs[0]])
    operations = (*graph.operations, replace(graph.operations[0], outputs=(copy,)))
    return replace(
        model,
        main=replace(graph, operands=operands, operations=operations, outputs=(*graph.outputs, copy)),
        state=(StateVariable(name="total", initial=np.full((2, 3), 10, np.float32)),),
        input_names=("x",),
        output_names=("sum",),
    )


def ones() -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    """Returns an input for `accumulator`."""
    return np.ones((2, 3), np.float32)


def pooling(stride: int = 1) -> nd.Model:
    """Creates an average pooling of int8, whose arguments of the same number are one operand."""
    builder = nd.ModelBuilder()
    x, y = (
        builder.add_operand(
            nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED, (1, length, length, 1), scale=0.5, zero_point=3
        )
        for length in (2, 2 // stride)
    )
    numbers = {number: builder.add_operand(nd.OperandType.INT32) for number in sorted({1, stride})}
    for number, operand in numbers.items():
        builder.set_operand_value(operand, number)
    one, step = numbers[1], numbers[stride]
    # The scheme of padding, strides, sizes of the window, and the activation.
    arguments = [x, one, step, step, one, one, one]
    builder.add_operation(nd.OperationType.AVERAGE_POOL_2D, arguments, [y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()
