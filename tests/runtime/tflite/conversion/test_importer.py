"""IF, WHILE and STABLEHLO_COMPOSITE: operators that refer to other subgraphs."""

from pathlib import Path

import numpy as np
import pytest
from support.tflite.builder import TfliteGraph, TfliteModel
from support.tflite.resources import branch, constant, counts_up_to, loop, plus, stepped

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite


def run(model: Model, *inputs: object) -> list[Array]:
    return CompilationBuilder(model).finish().run(*inputs)


def branching(shape: tuple[int, ...] = ()) -> tuple[TfliteModel, TfliteGraph, TfliteGraph, TfliteGraph]:
    """Builds `y = x + x if c else x`."""
    file = TfliteModel()
    main, then, other = (file.subgraph() for _ in range(3))
    c, x, y = main.tensor(shape, "BOOL", has_rank=True), main.tensor((2,)), main.tensor((2,), name="y")
    branch(main, (c, x), (y,), 1, 2)
    main.inputs, main.outputs = (c, x), (y,)
    given = then.tensor((2,))
    then.inputs, then.outputs = (given,), (plus(then, given, given, 2),)
    given = other.tensor((2,))
    other.inputs, other.outputs = (given,), (given,)
    return file, main, then, other


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_if(path: Path, shape: tuple[int, ...]) -> None:
    model = load_tflite(branching(shape)[0].write(path))
    assert [operation.type for operation in model.main.operations] == [OperationType.IF]
    x = np.array([1, -3], np.float32)
    assert run(model, np.full(shape, True), x)[0].tolist() == [2, -6]
    assert run(model, np.full(shape, False), x)[0].tolist() == [1, -3]


def test_branches_may_differ_in_shape(path: Path) -> None:
    file, _, then, _ = branching()
    long = then.tensor((4,))
    then.operator("CONCATENATION", (then.inputs[0],) * 2, (long,), "ConcatenationOptions", Axis=0)
    then.outputs = (long,)
    model = load_tflite(file.write(path))
    assert model.main.operands[model.main.outputs[0]].dimensions == (0,)
    x = np.array([1, 2], np.float32)
    assert run(model, True, x)[0].tolist() == [1, 2, 1, 2]
    assert run(model, False, x)[0].tolist() == [1, 2]


def test_a_branch_may_list_an_input_twice(path: Path) -> None:
    # The last of its arguments counts, as in LiteRT.
    file = TfliteModel()
    main, then, other = (file.subgraph() for _ in range(3))
    c, x, z, y = main.tensor((), "BOOL", has_rank=True), *(main.tensor((2,)) for _ in range(3))
    branch(main, (c, x, z, x, z), (y,), 1, 2)
    main.inputs, main.outputs = (c, x, z), (y,)
    given, more = then.tensor((2,)), then.tensor((2,))
    then.inputs, then.outputs = (given, more, given, given), (plus(then, given, more, 2),)
    places = [other.tensor((2,)) for _ in range(4)]
    other.inputs, other.outputs = tuple(places), (plus(other, places[0], places[1], 2),)
    model = load_tflite(file.write(path))
    first, second = np.array([1, -3], np.float32), np.array([10, 20], np.float32)
    assert run(model, True, first, second)[0].tolist() == [20, 40]
    assert run(model, False, first, second)[0].tolist() == [11, 17]


def test_a_loop_may_list_an_input_twice(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    counts_up_to(file, 3, {"shape": (2,)}, {"shape": (2,)})
    body = file.subgraph()
    count, x, z = main.tensor((), "INT32"), main.tensor((2,)), main.tensor((2,))
    results = main.tensor((), "INT32"), main.tensor((2,)), main.tensor((2,))
    loop(main, (count, x, z), results, 1, 2)
    main.inputs, main.outputs = (count, x, z), results
    (step, following), value = stepped(body), body.tensor((2,))
    body.inputs = (step, value, value)
    body.outputs = (following, value, plus(body, value, value, 2))
    first, second = np.array([5, 7], np.float32), np.array([1, -2], np.float32)
    outputs = run(load_tflite(file.write(path)), np.int32(0), first, second)
    assert [each.tolist() for each in outputs] == [3, [4, -8], [8, -16]]


def test_a_subgraph_is_converted_once_for_equal_arguments(path: Path) -> None:
    file, main, _, _ = branching()
    c, _ = main.inputs
    again = main.tensor((2,))
    branch(main, (c, main.outputs[0]), (again,), 1, 2)
    main.outputs = (again,)
    model = load_tflite(file.write(path))
    assert len(model.main.operations) == 2
    assert len(model.referenced) == 2
    assert run(model, True, np.ones(2, np.float32))[0].tolist() == [4, 4]


def test_while(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    n, x, last, y = main.tensor((), "INT32"), main.tensor((3,)), main.tensor((), "INT32"), main.tensor((3,))
    loop(main, (n, x), (last, y), 1, 2)
    main.inputs, main.outputs = (n, x), (last, y)
    counts_up_to(file, 3, {"shape": (3,)})
    body = file.subgraph()
    (count, following), value = stepped(body), body.tensor((3,))
    body.inputs, body.outputs = (count, value), (following, plus(body, value, value, 3))
    model = load_tflite(file.write(path))
    x_value = np.arange(3, dtype=np.float32)
    for start in (0, 1, 3, 7):
        last_value, y_value = run(model, np.int32(start), x_value)
        assert last_value == max(start, 3)
        np.testing.assert_array_equal(y_value, x_value * 2 ** max(3 - start, 0))


@pytest.mark.parametrize("signature", [None, (-1,)])
def test_a_loop_may_change_the_shape_of_a_value(path: Path, signature: tuple[int, ...] | None) -> None:
    file = TfliteModel()
    main = file.subgraph()
    n, x, last, y = (main.tensor((), "INT32"), main.tensor((1,)), main.tensor((), "INT32"), main.tensor((1,)))
    loop(main, (n, x), (last, y), 1, 2)
    main.inputs, main.outputs = (n, x), (last, y)
    counts_up_to(file, 3, {"shape": (1,), "shape_signature": signature})
    body = file.subgraph()
    (count, following), value = stepped(body), body.tensor((1,), shape_signature=signature)
    longer = body.tensor((2,), shape_signature=signature)
    body.operator("CONCATENATION", (value, value), (longer,), "ConcatenationOptions", Axis=0)
    body.inputs, body.outputs = (count, value), (following, longer)
    model = load_tflite(file.write(path))
    for start in (0, 2, 3):
        _, result = run(model, np.int32(start), np.array([5], np.float32))
        assert result.tolist() == [5] * 2 ** (3 - start)


def test_loops_in_loops(path: Path) -> None:
    """The inner loop adds 1 twice, the outer loop runs it three times."""
    file = TfliteModel()
    main = file.subgraph()
    n, x, last, y = (main.tensor((), "INT32") for _ in range(4))
    loop(main, (n, x), (last, y), 1, 2)
    main.inputs, main.outputs = (n, x), (last, y)
    counts_up_to(file, 3, {"shape": (), "type_": "INT32"})
    body = file.subgraph()
    counts_up_to(file, 2, {"shape": (), "type_": "INT32"})
    inner = file.subgraph()
    (count, following), value = stepped(body), body.tensor((), "INT32")
    twice, result = body.tensor((), "INT32"), body.tensor((), "INT32")
    loop(body, (constant(body, 0, "INT32"), value), (twice, result), 3, 4)
    body.inputs, body.outputs = (count, value), (following, result)
    (count, following), (value, more) = stepped(inner), stepped(inner)
    inner.inputs, inner.outputs = (count, value), (following, more)
    model = load_tflite(file.write(path))
    assert [int(value) for value in run(model, np.int32(0), np.int32(10))] == [3, 16]


def test_parts_of_subgraphs_that_are_not_supported_are_listed_once(path: Path) -> None:
    file, main, then, _ = branching()
    (x,) = then.inputs
    y = then.tensor((2,))
    then.operator("CUSTOM", (x,), (y,), custom_code="Foo")
    then.outputs = (y,)
    branch(main, tuple(main.inputs), (main.tensor((2,)),), 1, 2)
    with pytest.raises(BadData) as caught:
        load_tflite(file.write(path))
    assert str(caught.value).splitlines()[1:] == [
        "  subgraph 1, operator 1 CUSTOM 'Foo': it is not supported",
        "  operator 0 IF: subgraph 1 has unsupported parts",
        "  operator 1 IF: subgraph 1 has unsupported parts",
    ]


def test_a_subgraph_that_calls_itself(path: Path) -> None:
    file, _, then, _ = branching()
    c, x, y = constant(then, True, "BOOL"), then.inputs[0], then.tensor((2,))
    branch(then, (c, x), (y,), 1, 2)
    with pytest.raises(BadData, match="subgraph 1 calls itself"):
        load_tflite(file.write(path))


def test_subgraphs_that_are_nested_too_deeply(path: Path) -> None:
    file = TfliteModel()
    depth = 200
    for index in range(depth):
        graph = file.subgraph()
        x, y = graph.tensor((2,)), graph.tensor((2,))
        if index < depth - 1:
            branch(graph, (constant(graph, True, "BOOL"), x), (y,), index + 1, index + 1)
        else:
            graph.operator("TANH", (x,), (y,))
        graph.inputs, graph.outputs = (x,), (y,)
    with pytest.raises(BadData, match="32 deep"):
        load_tflite(file.write(path))


@pytest.mark.parametrize("index", [3, -1, 2**31 - 1])
def test_a_missing_subgraph(path: Path, index: int) -> None:
    file, main, _, _ = branching()
    main.operators[0].values = {"ThenSubgraphIndex": index, "ElseSubgraphIndex": 2}
    with pytest.raises(BadData, match=f"refers to subgraph {index}; there are 3"):
        load_tflite(file.write(path))


def test_refuses_arguments(path: Path) -> None:
    file, _, then, _ = branching()
    then.inputs = (*then.inputs, then.tensor((2,)))
    with pytest.raises(BadData, match="operator 0 IF: it gives 1 values to subgraph 1, which has 2 inputs"):
        load_tflite(file.write(path))
    file, _, then, _ = branching()
    then.tensors[then.inputs[0]].type = "INT32"
    with pytest.raises(BadData, match="operator 0 IF: "):
        load_tflite(file.write(path))
    file, _, then, _ = branching()
    then.outputs = ()
    with pytest.raises(BadData, match="operator 0 IF: "):
        load_tflite(file.write(path))


def composite(graph: TfliteGraph, inputs: tuple[int, ...], outputs: tuple[int, ...], index: int) -> None:
    graph.operator(
        "STABLEHLO_COMPOSITE", inputs, outputs, "StableHLOCompositeOptions", DecompositionSubgraphIndex=index
    )


def test_composites_are_replaced_by_their_decompositions(path: Path) -> None:
    """Nested composites with swapped inputs; outputs are inputs, constants or duplicates."""
    file = TfliteModel()
    main, outer, inner = (file.subgraph() for _ in range(3))
    x, y = main.tensor((2,), name="x"), main.tensor((2,), name="y")
    results = tuple(main.tensor((2,)) for _ in range(4))
    composite(main, (x, y), results, 1)
    main.inputs, main.outputs = (x, y), (*results, plus(main, results[0], results[1], 2))
    a, b, c = (outer.tensor((2,)) for _ in range(3))
    composite(outer, (b, a), (c,), 2)
    outer.inputs, outer.outputs = (a, b), (c, a, constant(outer, [3, 4]), c)
    a, b, c = (inner.tensor((2,)) for _ in range(3))
    inner.operator("SUB", (a, b), (c,), "SubOptions")
    inner.inputs, inner.outputs = (a, b), (c,)
    file.signature("named", {"x": x, "y": y}, {"a": results[1], "b": results[3]})
    x_value, y_value = np.array([1, 2], np.float32), np.array([10, 30], np.float32)
    found = [result.tolist() for result in run(load_tflite(file.write(path)), x_value, y_value)]
    assert found == [[9, 28], [1, 2], [3, 4], [9, 28], [10, 30]]
    found = [result.tolist() for result in run(load_tflite(path, "named"), x_value, y_value)]
    assert found == [[1, 2], [9, 28]]


def test_refuses_composites(path: Path) -> None:
    file = TfliteModel()
    main, inner = file.subgraph(), file.subgraph()
    x, y = main.tensor((2,)), main.tensor((2,))
    composite(main, (x,), (y,), 1)
    main.inputs, main.outputs = (x,), (y,)
    with pytest.raises(BadData, match="has 1 input and 1 output; its decomposition has 0 and 0"):
        load_tflite(file.write(path))
    a, b = inner.tensor((2,)), inner.tensor((2,))
    inner.inputs, inner.outputs = (a,), (b,)
    composite(inner, (a,), (b,), 1)
    with pytest.raises(BadData, match="part of its own decomposition"):
        load_tflite(file.write(path))
    main.operators[0].options = None
    with pytest.raises(BadData, match="does not name the subgraph"):
        load_tflite(file.write(path))


def test_recursive_composites(path: Path) -> None:
    file = TfliteModel()
    for index in range(25):
        graph = file.subgraph()
        x, y, z = (graph.tensor((2,)) for _ in range(3))
        if index < 24:
            composite(graph, (x,), (y,), index + 1)
            composite(graph, (y,), (z,), index + 1)
        else:
            graph.operator("TANH", (x,), (z,))
        graph.inputs, graph.outputs = (x,), (z,)
    with pytest.raises(BadData, match="decompositions included"):
        load_tflite(file.write(path))
