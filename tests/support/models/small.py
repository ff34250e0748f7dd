"""Small models that tests of the runtime share."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import neurald as nd
from neurald.hal.model.types import StateVariable
from neurald.runtime.execution.compiled_model import CompiledModel

FLOAT = nd.OperandType.TENSOR_FLOAT32


def add_model(dimensions: Sequence[int] = (2, 3), operations: int = 1) -> nd.Model:
    """`output = first + second (+ second …)`, all of one shape."""
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


def compiled_add(dimensions: Sequence[int] = (2, 3)) -> nd.Compilation:
    """`add_model`, compiled for the CPU device of this process."""
    return nd.CompilationBuilder(add_model(dimensions), [nd.devices()[0]]).finish()


def bound_execution(
    compilation: CompiledModel, *, reusable: bool = False
) -> tuple[nd.Execution, "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"]:
    """An execution of `add_model((2, 3))` with all buffers bound, and its output."""
    execution = nd.Execution(compilation, reusable=reusable)
    execution.set_input(0, np.full((2, 3), 1, np.float32))
    execution.set_input(1, np.full((2, 3), 2, np.float32))
    output = np.zeros((2, 3), np.float32)
    execution.set_output(0, output)
    return execution, output


def accumulator() -> nd.Model:
    """x -> x + total, where the sum is the next total: a model of one input, one output and one variable, which begins as 10."""
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
    """What `accumulator` may add."""
    return np.ones((2, 3), np.float32)
