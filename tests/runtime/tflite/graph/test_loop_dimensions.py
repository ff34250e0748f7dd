"""Loops in `.tflite` files whose values change their shape: bodies are converted once."""

from pathlib import Path

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel
from support.tflite.resources import constant, counts_up_to, loop, stepped

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite

_LENGTH, _TURNS = 5, 3


def _replaced(graph: TfliteGraph, source: int, count: int, following: int) -> int:
    """Replaces an element of a list, as TensorFlow's converter does: by its parts around it."""
    one = constant(graph, [1], "INT32")
    before, rest, element = graph.tensor((1,)), graph.tensor((1,)), graph.tensor((1,))
    size, begin, result = graph.tensor((1,), "INT32"), graph.tensor((1,), "INT32"), graph.tensor((_LENGTH,))
    graph.operator("RESHAPE", (count, one), (size,), "ReshapeOptions", NewShape=[1])
    graph.operator("RESHAPE", (following, one), (begin,), "ReshapeOptions", NewShape=[1])
    graph.operator("SLICE", (source, constant(graph, [0], "INT32"), size), (before,), "SliceOptions")
    graph.operator("SLICE", (source, begin, constant(graph, [-1], "INT32")), (rest,), "SliceOptions")
    graph.operator("CAST", (begin,), (element,), "CastOptions")
    graph.operator("CONCATENATION", (before, element, rest), (result,), "ConcatenationOptions", Axis=0)
    return result


def _squared(graph: TfliteGraph, value: int) -> int:
    result = graph.tensor((_LENGTH,))
    graph.operator("MUL", (value, value), (result,), "MulOptions")
    return result


def _list_loop(path: Path, *, is_nested: bool) -> Model:
    """Loads a loop over a counter, a list of which a turn replaces an element, and its square.

    Args:
        path: for the file.
        is_nested: whether another loop around it runs it once.
    """
    file = TfliteModel()
    main = file.subgraph()
    values = [main.tensor((), "INT32"), *(main.tensor((_LENGTH,)) for _ in range(2))]
    results = [main.tensor((), "INT32"), *(main.tensor((_LENGTH,)) for _ in range(2))]
    main.inputs, main.outputs = tuple(values), tuple(results)
    fields = [{"shape": (_LENGTH,)}] * 2
    if is_nested:
        loop(main, (*values,), (*results,), 1, 2)
        counts_up_to(file, 1, *fields)
        outer = file.subgraph()
        count, following = stepped(outer)
        given = [outer.tensor((_LENGTH,)) for _ in range(2)]
        made = [outer.tensor((), "INT32"), *(outer.tensor((_LENGTH,)) for _ in range(2))]
        loop(outer, (constant(outer, 0, "INT32"), *given), (*made,), 3, 4)
        outer.inputs = (count, *given)
        outer.outputs = (following, _squared(outer, made[1]), made[2])
    else:
        loop(main, (*values,), (*results,), 1, 2)
    counts_up_to(file, _TURNS, *fields)
    body = file.subgraph()
    count, following = stepped(body)
    source, square = body.tensor((_LENGTH,)), body.tensor((_LENGTH,))
    replaced = _replaced(body, source, count, following)
    body.inputs, body.outputs = (count, source, square), (following, replaced, _squared(body, replaced))
    return load_tflite(file.write(path))


@sweep("is_nested", [False, True])
def test_bodies_that_replace_elements_of_lists_are_converted_once(path: Path, is_nested: bool) -> None:
    model = _list_loop(path, is_nested=is_nested)
    assert len(model.referenced) == (4 if is_nested else 2)
    body = model.referenced[0]
    assert [body.operands[index].dimensions for index in body.inputs] == [(), (0,), (0,)]
    values = np.zeros(_LENGTH, np.float32)
    _, found, square = CompilationBuilder(model).finish().run(np.int32(0), values, values)
    expected = np.array([1, 2, 3, 0, 0], np.float32)
    np.testing.assert_array_equal(found, expected**2 if is_nested else expected)
    np.testing.assert_array_equal(square, expected**2)


def test_values_whose_lengths_are_inferred_keep_them(path: Path) -> None:
    """Lengths that follow from shapes are known, whatever the values are."""
    file = TfliteModel()
    main = file.subgraph()
    values, results = ([main.tensor((), "INT32"), main.tensor((4,))] for _ in range(2))
    main.inputs, main.outputs = tuple(values), tuple(results)
    loop(main, (*values,), (*results,), 1, 2)
    counts_up_to(file, _TURNS, {"shape": (4,)})
    body = file.subgraph()
    (count, following), value = stepped(body), body.tensor((4,))
    size, part = body.tensor((1,), "INT32"), body.tensor((1,), shape_signature=(-1,))
    body.operator("SHAPE", (value,), (size,), "ShapeOptions", OutType=2)
    body.operator(
        "SLICE", (_squared(body, value), constant(body, [0], "INT32"), size), (part,), "SliceOptions"
    )
    body.inputs, body.outputs = (count, value), (following, part)
    model = load_tflite(file.write(path))
    assert len(model.referenced) == 2
    for index in model.referenced[0].outputs[1:]:
        assert model.referenced[0].operands[index].dimensions == (4,)
    _, found = CompilationBuilder(model).finish().run(np.int32(0), np.full(4, 2, np.float32))
    np.testing.assert_array_equal(found, [2**8] * 4)


@sweep("inner", [2, 9])
def test_loops_that_run_themselves_or_nothing_are_refused(path: Path, inner: int) -> None:
    file = TfliteModel()
    main = file.subgraph()
    values, results = ([main.tensor((), "INT32"), main.tensor((4,))] for _ in range(2))
    main.inputs, main.outputs = tuple(values), tuple(results)
    loop(main, (*values,), (*results,), 1, 2)
    counts_up_to(file, _TURNS, {"shape": (4,)})
    body = file.subgraph()
    (count, following), value, result = stepped(body), body.tensor((4,)), body.tensor((4,))
    last = body.tensor((), "INT32")
    loop(body, (count, value), (last, result), 1, inner)
    body.inputs, body.outputs = (count, value), (following, result)
    with pytest.raises(BadData, match="subgraph"):
        load_tflite(file.write(path))
