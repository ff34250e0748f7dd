"""Loops over lists of rows that grow, and their comparison with references."""

from collections.abc import Callable, Sequence

import numpy as np
from support.models.control_flow import ADD, BOOL, FLOAT, INT, Graph

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.errors import Error
from neurald.hal.operations.machinery.call import Array

Op = nd.OperationType
WIDTH = 3
#: More turns than are unrolled.
MANY = 300


def number(graph: Graph, value: int) -> int:
    index = graph.builder.add_operand(nd.OperandType.INT32)
    graph.builder.set_operand_value(index, value)
    return index


def results(model: nd.Model, device: nd.Device, *arrays: Array) -> list[Array] | None:
    """Returns the results, or None if the execution fails."""
    try:
        found = nd.CompilationBuilder(model, [device]).finish().run(*arrays)
    except Error:
        return None
    return [np.asarray(each) for each in found]


def assert_same(model: nd.Model, *arrays: Array) -> list[Array]:
    """Compares the results with those of the references."""
    found, wanted = (results(model, device, *arrays) for device in (CpuDevice(), ReferenceDevice()))
    assert found is not None
    assert wanted is not None
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    return found


def over(
    body: Callable[[Graph, int, int], int],
    *,
    shape: Sequence[int] = (0, WIDTH),
    turns: int = 0,
    first: int = 2,
) -> nd.Model:
    """Returns a loop over a counter and a value.

    Args:
        body: adds the body: gets its graph, the counter and the value, and returns the next value.
        shape: of the value in the loop.
        turns: the number of turns; 0 if it is an input.
        first: number of rows before the first turn.
    """
    graph, condition, inner = Graph(), Graph(), Graph()
    kinds = [(INT, (1,)), (FLOAT, shape), (INT, (1,))]
    tested, given = ([each.value(*kind) for kind in kinds] for each in (condition, inner))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [tested[0], tested[2]], [holds])
    counted = inner.binary(ADD, given[0], inner.constant([1], INT), inner.value(INT, (1,)))
    following = body(inner, given[0], given[1])
    models = condition.finish(tested, [holds]), inner.finish(given, [counted, following])
    value, limit = graph.value(FLOAT, (first, *shape[1:])), graph.value(INT, (1,))
    inputs = [value, limit]
    if turns:
        limit = graph.constant([turns], INT)
        inputs = [value]
    outputs = [graph.value(*kind) for kind in kinds[:2]]
    arguments = [*map(graph.model, models), graph.constant([0], INT), value, limit]
    graph.builder.add_operation(Op.WHILE, arguments, outputs)
    return graph.finish(inputs, outputs)


def pushed(graph: Graph, _: int, value: int) -> int:
    """Appends the first row plus 1."""
    row, longer = graph.value(shape=(1, WIDTH)), graph.value(shape=(0, WIDTH))
    first = graph.value(shape=(1, WIDTH))
    limits = [graph.constant(each, INT) for each in ((0, 0), (1, WIDTH))]
    graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [first])
    graph.binary(ADD, first, graph.constant([1.0]), row)
    graph.builder.add_operation(Op.CONCATENATION, [value, row, number(graph, 0)], [longer])
    return longer


def unchanged(graph: Graph, value: int) -> int:
    """Copies a value."""
    result = graph.value(shape=(0, WIDTH))
    graph.builder.add_operation(Op.TFLITE_RESHAPE, [value, graph.constant((-1, WIDTH), INT)], [result])
    return result


def rows(count: int = 2) -> Array:
    return np.arange(count * WIDTH, dtype=np.float32).reshape(count, WIDTH)


def turns(count: int) -> Array:
    return np.array([count], np.int32)
