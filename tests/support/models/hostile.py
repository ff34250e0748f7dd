"""Small models with a high cost: endless loops, much memory, or long compilation."""

import numpy as np
from support.models.control_flow import FLOAT, INT, Graph, T, below, counting, loop

import neurald as nd

#: The bytes of the inputs and of the outputs of `endless`.
ENDLESS_BYTES = (4, 8)


def endless() -> nd.Model:
    """Creates a loop whose counter never changes."""
    return loop(below(1.0, extra=1), counting(0.0, 1.0))


def swelling(elements: int) -> nd.Model:
    """Creates a model with `elements` intermediate elements, but only one input and two outputs."""
    graph = Graph()
    source, swollen = graph.value(shape=(1,)), graph.value(shape=(elements,))
    graph.builder.add_operation(nd.OperationType.TILE, [source, graph.constant([elements], INT)], [swollen])
    count = graph.builder.add_operand(T.INT32)
    graph.builder.set_operand_value(count, 1)
    value, index = graph.value(shape=(1,)), graph.value(INT, (1,))
    graph.builder.add_operation(nd.OperationType.TOPK_V2, [swollen, count], [value, index])
    return graph.finish([source], [value, index])


def chain(operations: int, elements: int = 8) -> nd.Model:
    """Creates a chain of TANH, which can be fused into one kernel."""
    graph = Graph()
    first = value = graph.value(shape=(elements,))
    for _ in range(operations):
        output = graph.value(shape=(elements,))
        graph.builder.add_operation(nd.OperationType.TANH, [value], [output])
        value = output
    return graph.finish([first], [value])


def slow_steps(size: int, steps: int) -> nd.Model:
    """Creates a chain of FULLY_CONNECTED of square matrices, with weights as inputs."""
    graph = Graph()
    source, weights = graph.value(FLOAT, (size, size)), graph.value(FLOAT, (size, size))
    bias = graph.builder.add_operand(FLOAT, (size,))
    graph.builder.set_operand_value(bias, np.zeros(size, np.float32))
    value = source
    for _ in range(steps):
        output = graph.value(FLOAT, (size, size))
        graph.builder.add_operation(
            nd.OperationType.FULLY_CONNECTED, [value, weights, bias, graph.none], [output]
        )
        value = output
    return graph.finish([source, weights], [value])


def weighted(size: int, seed: int) -> nd.Model:
    """Creates a product with constant random weights of `4 * size * size` bytes."""
    graph = Graph()
    source, output = graph.value(FLOAT, (1, size)), graph.value(FLOAT, (1, size))
    generator = np.random.default_rng(seed)
    operands = []
    for shape in ((size, size), (size,)):
        operands.append(graph.builder.add_operand(FLOAT, shape))
        graph.builder.set_operand_value(operands[-1], generator.standard_normal(shape, np.float32))
    graph.builder.add_operation(nd.OperationType.FULLY_CONNECTED, [source, *operands, graph.none], [output])
    return graph.finish([source], [output])
