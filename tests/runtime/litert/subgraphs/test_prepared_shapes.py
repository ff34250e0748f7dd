"""Little is compiled for ever new shapes of inputs, and wrong shapes in files are ignored."""

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.interpreters import opened
from support.tflite.litert_files import sums
from support.tflite.resources import constant

from neurald.hal.model.model import Model
from neurald.litert import OpResolverType
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite


@pytest.mark.parametrize("declared", [(2, 0), ()])
def test_wrong_shapes_of_empty_results_are_ignored(declared: tuple[int, ...]) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, one = graph.tensor(declared, name="x"), constant(graph, [[1.0], [1.0]])
    y, total = graph.tensor((1,), name="y"), graph.tensor((1, 1), name="total")
    graph.operator("ADD", (x, one), (y,), "AddOptions")
    axes = graph.tensor((1,), "INT32", data=[1])
    graph.operator("SUM", (y, axes), (total,), "ReducerOptions")
    graph.inputs, graph.outputs = (x,), (y, total)
    interpreter = opened(file)
    interpreter.resize_tensor_input(x, (2, 0))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(y).shape == (2, 0)
    assert interpreter.get_tensor(total).tolist() == [0, 0]
    if declared:
        model = load_tflite(file.build())
        results = CompilationBuilder(model).finish().run(np.zeros((2, 0), np.float32))
        assert [each.shape for each in results] == [(2, 0), (2,)]


def test_ever_new_shapes_are_compiled_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[Model] = []
    finish = CompilationBuilder.finish

    def counted(builder: CompilationBuilder) -> Compilation:
        models.append(builder._model)
        return finish(builder)

    monkeypatch.setattr(CompilationBuilder, "finish", counted)
    interpreter = opened(sums(None))
    for length in (3, 4, 5, 6, 7, 3, 4, 200):
        for index in (0, 1):
            interpreter.resize_tensor_input(index, (2, length))
        interpreter.allocate_tensors()
        value = np.arange(2 * length, dtype=np.float32).reshape(2, length)
        for index in (0, 1):
            interpreter.set_tensor(index, value)
        (details,) = interpreter.get_output_details()
        assert details["shape"].tolist() == [2, length]
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(3), 2 * value + 3)
    declared = [[each.main.operands[index].dimensions for index in each.inputs] for each in models]
    assert declared == [[(2, 3)] * 2, [(2, 4)] * 2, [(2, 0)] * 2]


def test_shapes_that_cannot_be_open_are_compiled_each_time() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, y = graph.tensor((2, 3), name="x"), graph.tensor((2, 3), name="y")
    paddings = graph.tensor((2, 2), "INT32", data=[0, 0, 1, 1])
    padded = graph.tensor((2, 5))
    graph.operator("PAD", (x, paddings), (padded,), "PadOptions")
    graph.operator("ADD", (padded, padded), (y,), "AddOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    interpreter = opened(file)
    for shape in ((2, 3), (1, 1), (4, 2), (7, 9), (2, 3), (3, 3), (5, 1)):
        interpreter.resize_tensor_input(0, shape)
        interpreter.allocate_tensors()
        value = np.random.default_rng(1).random(shape, np.float32)
        interpreter.set_tensor(0, value)
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(1), 2 * np.pad(value, ((0, 0), (1, 1))))


def test_lengths_that_only_stand_for_others_are_not_compared() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, 1, 4), name="x", shape_signature=(-1, -1, 4))
    begin, size = (graph.tensor((1,), "INT32", name=n, shape_signature=(-1,)) for n in ("begin", "size"))
    y = graph.tensor((1, 1, 4), name="y", shape_signature=(-1, -1, -1))
    graph.operator("SLICE", (x, begin, size), (y,), "SliceOptions")
    graph.inputs, graph.outputs = (x, begin, size), (y,)
    interpreter = opened(file)
    interpreter.allocate_tensors()  # three numbers are needed for rank 3, one is declared
    with pytest.raises(RuntimeError, match=r"has shape \[1\]"):
        interpreter.invoke()
    for index, shape in ((x, (2, 3, 4)), (begin, (3,)), (size, (3,))):
        interpreter.resize_tensor_input(index, shape)
    interpreter.allocate_tensors()
    value = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    interpreter.set_tensor(x, value)
    interpreter.set_tensor(begin, np.array([1, 0, 2], np.int32))
    interpreter.set_tensor(size, np.array([1, 2, -1], np.int32))
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(y)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(y), value[1:, :2, 2:])


@pytest.mark.parametrize("length", [3, None])
def test_results_inside_have_the_shapes_that_follow_from_the_inputs(length: int | None) -> None:
    interpreter = opened(sums(length))
    for rows in (4, 2, 1):
        for index in (0, 1):
            interpreter.resize_tensor_input(index, (rows, 3))
        interpreter.allocate_tensors()
        shapes = [each["shape"].tolist() for each in interpreter.get_tensor_details()]
        assert shapes == [[rows, 3], [rows, 3], [rows, 3], [rows, 3], [1]]
    interpreter.resize_tensor_input(0, (5, 3))
    assert interpreter.get_tensor_details()[2]["shape"].tolist() == [1, 3]  # until `allocate_tensors`


@pytest.mark.parametrize("kind", [OpResolverType.AUTO, OpResolverType.BUILTIN_REF])
def test_results_that_a_file_declares_with_a_wrong_rank(kind: OpResolverType) -> None:
    """LiteRT reads no shapes of results."""
    for code, options, result, expected in (
        ("WHERE", "WhereOptions", "INT64", [[0, 0], [0, 2]]),
        ("NEG", None, "FLOAT32", [[-1.0, 0.0, -2.0]]),
    ):
        file = TfliteModel()
        graph = file.subgraph()
        x, z = graph.tensor((1, 3), name="x"), graph.tensor((), result, name="z", has_rank=True)
        graph.operator(code, (x,), (z,), options)
        graph.inputs, graph.outputs = (x,), (z,)
        interpreter = opened(file, experimental_op_resolver_type=kind)
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.array([[1, 0, 2]], np.float32))
        interpreter.invoke()
        assert interpreter.get_tensor(1).tolist() == expected
