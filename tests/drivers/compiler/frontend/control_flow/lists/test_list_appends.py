"""Concatenations in loops that append to a list become items of their own."""

from collections.abc import Callable, Sequence

from support.models.control_flow import ADD, BOOL, FLOAT, INT, Graph

import neurald as nd
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    Append,
    BasicBlock,
    Copy,
    StructuredModel,
    WhileLoop,
    each_item,
)
from neurald.drivers.compiler.frontend.control_flow.structuring import structure_control_flow

Op = nd.OperationType
WIDTH = 3


def number(graph: Graph, value: int) -> int:
    index = graph.builder.add_operand(nd.OperandType.INT32)
    graph.builder.set_operand_value(index, value)
    return index


def concatenated(graph: Graph, parts: Sequence[int], shape: Sequence[int], axis: int) -> int:
    result = graph.value(shape=shape)
    graph.builder.add_operation(Op.CONCATENATION, [*parts, number(graph, axis)], [result])
    return result


def reshaped(graph: Graph, source: int, *shape: int) -> int:
    result = graph.value(shape=[0 if each < 0 else each for each in shape])
    graph.builder.add_operation(Op.TFLITE_RESHAPE, [source, graph.constant(shape, INT)], [result])
    return result


def structured(
    body: Callable[[Graph, int, int], int], shape: Sequence[int], fixed: Sequence[int]
) -> StructuredModel:
    """Structures a loop over a list.

    Args:
        body: adds the body: gets its graph, the list, and a fixed value; returns the next list.
        shape: of the list; lengths of 0 change.
        fixed: the shape of the fixed value.
    """
    graph, condition, inner = Graph(), Graph(), Graph()
    kinds = [(INT, (1,)), (FLOAT, shape), (INT, (1,)), (FLOAT, fixed)]
    tested, given = ([each.value(*kind) for kind in kinds] for each in (condition, inner))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [tested[0], tested[2]], [holds])
    counted = inner.binary(ADD, given[0], inner.constant([1], INT), inner.value(INT, (1,)))
    results = [counted, body(inner, given[1], given[3])]
    models = condition.finish(tested, [holds]), inner.finish(given, results)
    values = [
        graph.value(FLOAT, [each or 2 for each in shape]),
        graph.value(INT, (1,)),
        graph.value(FLOAT, fixed),
    ]
    outputs = [graph.value(*kind) for kind in kinds[:2]]
    arguments = [*map(graph.model, models), graph.constant([0], INT), *values]
    graph.builder.add_operation(Op.WHILE, arguments, outputs)
    return structure_control_flow(graph.finish(values, outputs))


def appends(model: StructuredModel) -> list[Append]:
    return [each for each in each_item(model.items) if isinstance(each, Append)]


def test_an_element_is_appended() -> None:
    def body(graph: Graph, value: int, fixed: int) -> int:
        first = graph.value(shape=(1, WIDTH))
        limits = [graph.constant(each, INT) for each in ((0, 0), (1, WIDTH))]
        graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [first])
        row = graph.binary(ADD, first, fixed, graph.value(shape=(1, WIDTH)))
        return concatenated(graph, [value, row], (0, WIDTH), 0)

    model = structured(body, (0, WIDTH), (1, WIDTH))
    (append,) = appends(model)
    operands = model.model.main.operands
    assert model.scope is not None
    (symbol,) = model.scope.symbols
    shapes = [operands[each].dimensions for each in (append.source, append.target)]
    assert shapes == [(symbol, WIDTH), (symbol + 1, WIDTH)]
    (loop,) = (each for each in model.items if isinstance(each, WhileLoop))
    # The concatenation is in no block any more.
    kinds = [
        model.model.main.operations[position].type
        for each in loop.body
        if isinstance(each, BasicBlock)
        for position in each.operations
    ]
    assert Op.CONCATENATION not in kinds
    assert Op.ADD in kinds


def test_several_elements_are_appended_one_after_another() -> None:
    def body(graph: Graph, value: int, fixed: int) -> int:
        constant = reshaped(graph, graph.constant([1.0] * 2 * WIDTH), 2, WIDTH)
        return concatenated(graph, [value, fixed, constant, value], (0, WIDTH), 0)

    model = structured(body, (0, WIDTH), (1, WIDTH))
    first, second, third = appends(model)
    assert (second.source, third.source) == (first.target, second.target)
    assert third.part == first.source
    lengths = [model.model.main.operands[each.target].dimensions for each in (first, second, third)]
    assert model.scope is not None
    (symbol,) = model.scope.symbols
    assert [shape is not None and shape[0] for shape in lengths] == [symbol + 1, symbol + 3, 2 * symbol + 3]


def test_changes_of_the_shape_are_copies() -> None:
    """A batch of one is added and removed in each turn."""

    def body(graph: Graph, value: int, fixed: int) -> int:
        batch, row = reshaped(graph, value, 1, -1, WIDTH), reshaped(graph, fixed, 1, 1, WIDTH)
        return reshaped(graph, concatenated(graph, [batch, row], (1, 0, WIDTH), 1), -1, WIDTH)

    model = structured(body, (0, WIDTH), (WIDTH,))
    (append,) = appends(model)
    copies = {each.target: each.source for each in each_item(model.items) if isinstance(each, Copy)}
    operands = model.model.main.operands
    assert operands[copies[append.source]].dimensions is not None
    assert append.target in copies.values()


def test_what_does_not_append_to_a_list_of_the_loop() -> None:
    def prepended(graph: Graph, value: int, fixed: int) -> int:
        return concatenated(graph, [fixed, value], (0, WIDTH), 0)

    def replaced(graph: Graph, value: int, fixed: int) -> int:
        """The longer list is only read."""
        longer = concatenated(graph, [value, fixed], (0, WIDTH), 0)
        rows = graph.value(shape=(0, WIDTH))
        limits = [graph.constant(each, INT) for each in ((2, 0), (-1, -1))]
        graph.builder.add_operation(Op.TFLITE_SLICE, [longer, *limits], [rows])
        return graph.binary(ADD, rows, fixed, graph.value(shape=(0, WIDTH)))

    def widened(graph: Graph, value: int, fixed: int) -> int:
        return concatenated(graph, [value, fixed], (2, 0), 1)

    assert not appends(structured(prepended, (0, WIDTH), (1, WIDTH)))
    assert not appends(structured(replaced, (0, WIDTH), (1, WIDTH)))
    assert not appends(structured(widened, (2, 0), (2, 1)))
