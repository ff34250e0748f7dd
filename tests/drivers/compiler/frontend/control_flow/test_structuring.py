import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import python_path
from support.models.control_flow import ADD, BOOL, INT, MUL, Graph, arithmetic, below, branching, counting
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import FlatGraph
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    BasicBlock,
    Branch,
    Copy,
    Item,
    LengthUpdate,
    StructuredModel,
    Update,
    WhileLoop,
    each_item,
)
from neurald.drivers.compiler.frontend.control_flow.structuring import structure_control_flow
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.model.graph import Operation
from neurald.hal.operations.machinery.call import Array, Call

Op = nd.OperationType


def _results(model: nd.Model, *inputs: Array) -> list[Array]:
    """Returns the results of the references."""
    builder = nd.CompilationBuilder(model, [ReferenceDevice()])
    return [np.asarray(each) for each in builder.finish().run(*inputs)]


def _types(structured: StructuredModel, items: Sequence[Item]) -> list[Op]:
    """Returns the types of the operations in blocks, in order."""
    operations = structured.model.main.operations
    blocks = [each for each in each_item(items) if isinstance(each, BasicBlock)]
    return [operations[position].type for block in blocks for position in block.operations]


def _only(kind: type[Item], items: Sequence[Item]) -> Iterator[Item]:
    return (each for each in each_item(items) if isinstance(each, kind))


def _loop(iterations: float, first: float = 0.0) -> nd.Model:
    """Returns a model with a loop that doubles a value, and adds 1 afterwards."""
    graph = Graph()
    value, doubled, result = graph.value(), graph.value(), graph.value()
    graph.builder.add_operation(
        Op.WHILE,
        [
            graph.model(below(iterations, extra=1)),
            graph.model(counting(1, 2)),
            graph.constant([first]),
            value,
        ],
        [graph.value(shape=(1,)), doubled],
    )
    graph.binary(ADD, doubled, graph.constant([1]), result)
    return graph.finish([value], [result])


@sweep("iterations", [0, 1, 3])
def test_short_loops_with_a_constant_trip_count_are_unrolled(iterations: int) -> None:
    model, value = _loop(iterations), np.array([3, -5], np.float32)
    structured = structure_control_flow(model)
    (block,) = structured.items
    assert isinstance(block, BasicBlock)
    assert _types(structured, [block]) == [MUL] * iterations + [ADD]
    assert structured.origins == (0,) * iterations + (1,)
    assert structured.graphs == (2,) * iterations + (0,)
    for found, expected in zip(_results(structured.model, value), _results(model, value), strict=True):
        np.testing.assert_array_equal(found, expected)


@sweep("iterations", [5, 100_000, np.inf])
def test_longer_loops_are_inlined_once(iterations: float) -> None:
    structured = structure_control_flow(_loop(iterations))
    (loop,) = _only(WhileLoop, structured.items)
    assert isinstance(loop, WhileLoop)
    assert _types(structured, loop.condition) == [Op.LESS]
    assert _types(structured, loop.body) == [ADD, MUL]
    assert len(loop.updates) == 2
    assert _types(structured, structured.items) == [Op.LESS, ADD, MUL, ADD]


def _counted_loop(turns: int) -> nd.Model:
    """Returns a model with a loop whose body has ten operations besides those that count."""
    body, graph = Graph(), Graph()
    counter, first = body.value(shape=(1,)), body.value()
    outputs = [body.binary(ADD, counter, body.constant([1]), body.value(shape=(1,))), first]
    for _ in range(10):
        outputs[1] = body.binary(MUL, outputs[1], body.constant([2]), body.value())
    value, result = graph.value(), graph.value()
    models = graph.model(below(turns, extra=1)), graph.model(body.finish([counter, first], outputs))
    graph.builder.add_operation(
        Op.WHILE, [*models, graph.constant([0]), value], [graph.value(shape=(1,)), result]
    )
    return graph.finish([value], [result])


def test_a_long_loop_is_not_inlined_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its turns are counted without what does not count them, and what changes is known before."""
    structured, added = _structured(monkeypatch, _counted_loop(100))
    assert len([*_only(WhileLoop, structured.items)]) == 1
    assert added.count(MUL) == 10


def test_the_conditions_of_a_short_loop_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[Op] = []
    known_results = FlatGraph.known_results

    def counted(flat: FlatGraph, call: Call) -> Sequence[Array] | None:
        evaluated.append(call.binding.type)
        return known_results(flat, call)

    monkeypatch.setattr(FlatGraph, "known_results", counted)
    structured, added = _structured(monkeypatch, _counted_loop(3))
    assert not [*_only(WhileLoop, structured.items)]
    assert added.count(MUL) == 30
    assert evaluated.count(Op.LESS) == 4


def _structured(monkeypatch: pytest.MonkeyPatch, model: nd.Model) -> tuple[StructuredModel, list[Op]]:
    """Returns a structured model, and what was added for it, also in vain."""
    added: list[Op] = []
    add = FlatGraph.append

    def counted(flat: FlatGraph, operation: Operation, *arguments: Any) -> None:
        added.append(operation.type)
        add(flat, operation, *arguments)

    monkeypatch.setattr(FlatGraph, "append", counted)
    return structure_control_flow(model), added


@sweep("first", [0.0, None])
def test_a_loop_whose_turns_follow_from_data_is_not_inlined_in_vain(
    first: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is a value that the body computes and reshapes tried as one that does not change."""
    body, graph = Graph(), Graph()
    limited, second = body.value(shape=(1,)), body.value(shape=(1,))
    product = second
    for _ in range(10):
        product = body.binary(MUL, product, body.constant([2]), body.value(shape=(1,)))
    outputs = [body.binary(ADD, limited, second, body.value(shape=(1,))), _copied(body, product, (1,))]
    value, result = graph.value(shape=(1,)), graph.value(shape=(1,))
    condition = Graph()
    inputs = [condition.value(shape=(1,)) for _ in range(2)]
    is_below = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [inputs[0], condition.constant([9])], [is_below])
    models = (
        graph.model(condition.finish(inputs, [is_below])),
        graph.model(body.finish([limited, second], outputs)),
    )
    begin = value if first is None else graph.constant([first])
    graph.builder.add_operation(Op.WHILE, [*models, begin, value], [graph.value(shape=(1,)), result])
    structured, added = _structured(monkeypatch, graph.finish([value], [result]))
    assert len([*_only(WhileLoop, structured.items)]) == 1
    assert (added.count(MUL), added.count(Op.LESS)) == (10, 1)


def test_nested_loops_are_inlined_once() -> None:
    """Neither unrolling nor the search for unchanged values multiplies with the depth."""
    depth = 12
    body = counting(1, 0.5)
    for _ in range(depth):
        graph = Graph()
        counter, value = graph.value(shape=(1,)), graph.value()
        outputs = [graph.value(shape=(1,)), graph.value()]
        models = graph.model(below(9, extra=1)), graph.model(body)
        graph.builder.add_operation(Op.WHILE, [*models, graph.constant([0]), value], outputs)
        results = [
            graph.binary(ADD, counter, graph.constant([1]), graph.value(shape=(1,))),
            graph.binary(ADD, outputs[1], graph.constant([0]), graph.value()),
        ]
        body = graph.finish([counter, value], results)
    outer = Graph()
    value, result = outer.value(), outer.value()
    arguments = [outer.model(below(9, extra=1)), outer.model(body), outer.constant([0]), value]
    outer.builder.add_operation(Op.WHILE, arguments, [outer.value(shape=(1,)), result])
    structured = structure_control_flow(outer.finish([value], [result]))
    assert len([*_only(WhileLoop, structured.items)]) == depth + 1
    assert len(structured.model.main.operations) == 3 * depth + 3


def test_outputs_have_memory_of_their_own() -> None:
    """A loop of no turns returns its arguments: a constant and an input."""
    graph = Graph()
    value = graph.value()
    outputs = [graph.value(shape=(1,)), graph.value()]
    models = graph.model(below(0, extra=1)), graph.model(counting(1, 2))
    graph.builder.add_operation(Op.WHILE, [*models, graph.constant([7]), value], outputs)
    model = graph.finish([value], outputs)
    structured = structure_control_flow(model)
    assert [type(each) for each in structured.items] == [Copy, Copy]
    main = structured.model.main
    assert len({*main.inputs, *main.outputs}) == 3
    compilation = nd.CompilationBuilder(model, [CpuDevice()]).finish()
    found = compilation.run(np.array([1, 2], np.float32))
    assert [each.tolist() for each in found] == [[7], [1, 2]]


@sweep("condition", [False, True])
def test_branches_on_constants_are_inlined(condition: bool) -> None:
    graph = Graph()
    value, output = graph.value(), graph.value()
    graph.builder.add_operation(
        Op.IF,
        [
            graph.constant([condition], BOOL),
            graph.model(arithmetic(ADD, 1)),
            graph.model(arithmetic(MUL, 3)),
            value,
        ],
        [output],
    )
    structured = structure_control_flow(graph.finish([value], [output]))
    assert _types(structured, structured.items) == [ADD if condition else MUL]
    (found,) = _results(structured.model, np.array([2, 7], np.float32))
    assert found.tolist() == ([3, 8] if condition else [6, 21])


def test_branches_on_data() -> None:
    structured = structure_control_flow(branching(arithmetic(ADD, 1), arithmetic(MUL, 3)))
    (branch,) = structured.items
    assert isinstance(branch, Branch)
    assert _types(structured, branch.then) == [ADD]
    assert _types(structured, branch.otherwise) == [MUL]


def _over(
    values: Sequence[tuple[nd.OperandType, Sequence[int]]],
    make: Callable[..., Sequence[int]],
    limit: int = 20,
    *,
    open_shape: tuple[int, ...] | None = None,
) -> StructuredModel:
    """Structures a loop over a counter and values that are the model's inputs.

    Args:
        values: type and shape of each value.
        make: adds the body: gets its graph, the counter and the values, and returns the results.
        limit: the number of turns.
        open_shape: of the values, if the model leaves it open.
    """
    graph, condition, body = Graph(), Graph(), Graph()
    kinds = [(INT, (1,)), *values]
    outer, tested, inner = ([each.value(*kind) for kind in kinds] for each in (graph, condition, body))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [tested[0], condition.constant([limit], INT)], [holds])
    counted = body.binary(ADD, inner[0], body.constant([1], INT), body.value(INT, (1,)))
    results = [counted, *make(body, *inner)]
    models = condition.finish(tested, [holds]), body.finish(inner, results)
    outputs = [graph.value(*kind) for kind in kinds[: len(results)]]
    arguments = [graph.constant([0], INT), *outer[1:]]
    graph.builder.add_operation(Op.WHILE, [*(graph.model(each) for each in models), *arguments], outputs)
    model = graph.finish(outer[1:], outputs)
    shapes = None if open_shape is None else dict.fromkeys(model.main.inputs, open_shape)
    return structure_control_flow(model, shapes)


def _copied(graph: Graph, value: int, shape: Sequence[int]) -> int:
    """Returns the value as the result of a RESHAPE to its own shape."""
    result = graph.value(shape=shape)
    graph.builder.add_operation(Op.RESHAPE, [value, graph.constant(shape, INT)], [result])
    return result


def test_values_that_do_not_change_are_no_variables() -> None:
    structured = _over(
        [(nd.OperandType.TENSOR_FLOAT32, (2,))] * 2,
        lambda body, _, first, second: [
            _copied(body, first, (2,)),
            body.binary(ADD, first, second, body.value()),
        ],
    )
    (loop,) = _only(WhileLoop, structured.items)
    assert isinstance(loop, WhileLoop)
    first, _ = structured.model.main.inputs
    # The counter and the second value.
    assert len(loop.updates) == 2
    assert first not in [each.target for each in loop.updates]
    assert Copy(target=structured.model.main.outputs[1], source=first) in structured.items


def test_operations_on_values_that_do_not_change_leave_the_loop() -> None:
    def body(graph: Graph, _: int, first: int, second: int) -> list[int]:
        product = graph.binary(MUL, first, first, graph.value())
        return [_copied(graph, first, (2,)), graph.binary(ADD, product, second, graph.value())]

    structured = _over([(nd.OperandType.TENSOR_FLOAT32, (2,))] * 2, body)
    (loop,) = _only(WhileLoop, structured.items)
    assert isinstance(loop, WhileLoop)
    assert MUL not in _types(structured, loop.body)
    assert _types(structured, structured.items)[0] is MUL


@sweep("turns", [30, 129])
def test_loops_whose_shapes_change_are_unrolled_or_have_open_lengths(turns: int) -> None:
    def body(graph: Graph, _: int, value: int) -> list[int]:
        longer = graph.value(shape=(0,))
        arguments = [value, graph.constant([1]), graph.builder.add_operand(nd.OperandType.INT32)]
        graph.builder.set_operand_value(arguments[-1], 0)
        graph.builder.add_operation(Op.CONCATENATION, arguments, [longer])
        return [longer]

    def structured() -> StructuredModel:
        return _over([(nd.OperandType.TENSOR_FLOAT32, (0,))], body, turns, open_shape=(2,))

    found = structured()
    main = found.model.main
    (length,) = main.operands[main.outputs[1]].dimensions or ()
    if turns > 128:
        (loop,) = _only(WhileLoop, found.items)
        assert isinstance(loop, WhileLoop)
        assert found.scope is not None
        (symbol,) = found.scope.symbols
        assert length is symbol
        assert loop.lengths == LengthUpdate(lengths=((0, symbol + 1),))
        first = LengthUpdate(lengths=((0, 2),))
        assert first in found.items
    else:
        assert length == 32


def _element(graph: Graph, source: int, counter: int) -> int:
    """Reads x[t:t + 1] of a list by a STRIDED_SLICE."""
    end = graph.binary(ADD, counter, graph.constant([1], INT), graph.value(INT, (1,)))
    numbers = [graph.builder.add_operand(nd.OperandType.INT32) for _ in range(3)]
    for number, value in zip(numbers, (2, 2, 0), strict=True):
        graph.builder.set_operand_value(number, value)
    begins = []
    for part in (counter, end):
        both = graph.value(INT, (2,))
        zero = graph.builder.add_operand(nd.OperandType.INT32)
        graph.builder.set_operand_value(zero, 0)
        graph.builder.add_operation(Op.TFLITE_CONCATENATION, [part, graph.constant([0], INT), zero], [both])
        begins.append(both)
    result = graph.value(shape=(1, 2))
    graph.builder.add_operation(
        Op.STRIDED_SLICE, [source, *begins, graph.constant([1, 1], INT), *numbers], [result]
    )
    return result


def test_slices_at_a_counter_have_a_known_length() -> None:
    structured = _over(
        [(nd.OperandType.TENSOR_FLOAT32, (20, 2)), (nd.OperandType.TENSOR_FLOAT32, (1, 2))],
        lambda body, counter, values, total: [
            _copied(body, values, (20, 2)),
            body.binary(ADD, _element(body, values, counter), total, body.value(shape=(1, 2))),
        ],
    )
    assert Op.TFLITE_SLICE in _types(structured, structured.items)
    assert Op.STRIDED_SLICE not in _types(structured, structured.items)


def test_elements_of_lists_are_updated() -> None:
    def body(graph: Graph, counter: int, values: int) -> list[int]:
        zero = graph.builder.add_operand(nd.OperandType.INT32)
        graph.builder.set_operand_value(zero, 0)
        following = graph.binary(ADD, counter, graph.constant([1], INT), graph.value(INT, (1,)))
        size, begin = graph.value(INT, (2,)), graph.value(INT, (2,))
        for part, other, both in ((counter, -1, size), (following, 0, begin)):
            graph.builder.add_operation(
                Op.TFLITE_CONCATENATION, [part, graph.constant([other], INT), zero], [both]
            )
        head, tail, joined = graph.value(shape=(0, 2)), graph.value(shape=(0, 2)), graph.value(shape=(0, 2))
        graph.builder.add_operation(Op.SLICE, [values, graph.constant([0, 0], INT), size], [head])
        graph.builder.add_operation(Op.SLICE, [values, begin, graph.constant([-1, -1], INT)], [tail])
        item = graph.builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (1, 2))
        graph.builder.set_operand_value(item, [[1, 2]])
        graph.builder.add_operation(Op.CONCATENATION, [head, item, tail, zero], [joined])
        return [joined]

    structured = _over([(nd.OperandType.TENSOR_FLOAT32, (20, 2))], body)
    (update,) = _only(Update, structured.items)
    assert isinstance(update, Update)
    assert "length 20" in update.message
    assert Op.CONCATENATION not in _types(structured, structured.items)


def test_models_without_control_flow_are_one_block() -> None:
    (block,) = structure_control_flow(arithmetic(ADD, 1)).items
    assert block == BasicBlock(operations=(0,))


def test_loops_in_which_no_list_grows_need_little() -> None:
    program = """
import sys
import neurald as nd
from neurald.drivers.compiler.frontend.control_flow.structuring import structure_control_flow
from support.models.control_flow import below, counting, loop
structure_control_flow(loop(below(5.0, extra=1), counting(1.0, 2.0)), splits_sequences=False)
names = ("growing_layouts", "list_appends", "sequence_loops")
print(*(name for name in sys.modules if name.endswith(names)))
"""
    environment = {**os.environ, "PYTHONPATH": python_path()}
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, env=environment, capture_output=True, text=True
    )
    assert found.stdout.split() == []
