"""LiteRT's Interpreter: what programs call, and the errors that they see."""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.interpreters import opened
from support.tflite.litert_files import counter, sums, two_signatures
from support.tflite.resources import (
    assign,
    constant,
    counts_up_to,
    initialise,
    loop,
    plus,
    read,
    stepped,
    variable,
)

from neurald.drivers.cpu.native.instances import instance
from neurald.litert import Interpreter, InterpreterWithCustomOps, OpResolverType, load_delegate
from neurald.runtime.execution import execution_settings
from neurald.runtime.litert.interpreter import metrics

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.mark.parametrize("kind", OpResolverType)
def test_a_model_is_computed(kind: OpResolverType) -> None:
    interpreter = opened(sums(), experimental_op_resolver_type=kind, num_threads=2)
    interpreter.allocate_tensors()
    first, second = (each["index"] for each in interpreter.get_input_details())
    interpreter.set_tensor(first, X)
    interpreter.set_tensor(second, X)
    interpreter.invoke()
    (output,) = interpreter.get_output_details()
    np.testing.assert_array_equal(interpreter.get_tensor(output["index"]), 2 * X + 3)
    np.testing.assert_array_equal(interpreter.get_tensor(first), X)
    np.testing.assert_array_equal(interpreter.get_tensor(4), [3])


def test_any_number_of_threads_is_taken() -> None:
    interpreter = opened(sums(), num_threads=2**31 - 1)
    interpreter.allocate_tensors()
    for each in interpreter.get_input_details():
        interpreter.set_tensor(each["index"], X)
    interpreter.invoke()
    (output,) = interpreter.get_output_details()
    np.testing.assert_array_equal(interpreter.get_tensor(output["index"]), 2 * X + 3)


def test_a_path_or_bytes_are_given(tmp_path: Path) -> None:
    path = sums().write(tmp_path / "m.tflite")
    for interpreter in (
        Interpreter(path),
        Interpreter(str(path)),
        Interpreter(str(path).encode()),
        Interpreter(model_content=path.read_bytes()),
    ):
        assert interpreter.num_subgraphs() == 1


def test_wrong_arguments(tmp_path: Path) -> None:
    content = sums().build()
    for arguments, words in (
        ({"num_threads": 0}, "num_threads should >= 1"),
        ({"num_threads": 1.5}, "type of num_threads should be int"),
        ({"experimental_op_resolver_type": "test"}, "Unrecognized passed in op resolver type: test"),
        ({"model_path": "m"}, "Can't both provide `model_path` and `model_content`"),
        ({"model_content": b""}, "`model_path` or `model_content` must be specified."),
        ({"model_content": b"short"}, "The model is not a valid Flatbuffer buffer"),
        ({"model_content": content[:200]}, "The model is not a valid Flatbuffer buffer"),
        ({"experimental_delegates": [1]}, "runs no delegates"),
    ):
        with pytest.raises(ValueError, match=words.replace("(", r"\(")):
            Interpreter(**{"model_content": content, **arguments})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Could not open 'nothing\.tflite'\. No such file"):
        Interpreter("nothing.tflite")
    with pytest.raises(ValueError, match="regular file"):
        Interpreter(tmp_path)
    with pytest.raises(TypeError):
        Interpreter(3)  # type: ignore[arg-type]
    for wrong in ("nothing.tflite", tmp_path, 3):
        with pytest.raises(TypeError, match=r"the content of a model is .*; bytes are expected"):
            Interpreter(model_content=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Failed to load delegate from x\.so"):
        load_delegate("x.so")
    with pytest.raises(OSError, match=r"Failed to load delegate from x\.so"):
        load_delegate("x.so")
    for name, words in (
        ("Registerer", "Looking up symbol 'Registerer' failed"),
        ("json.Registerer", "Looking up symbol 'Registerer' failed: there is no such function in json"),
        ("nothing.Registerer", r"Loading library 'nothing\.so' failed .* no Python module nothing"),
        ("json.nothing.Registerer", r"Loading library 'json\.nothing\.so' failed"),
        ("..Registerer", r"Loading library '\.\.so' failed"),
    ):
        with pytest.raises(ValueError, match=words):
            InterpreterWithCustomOps(custom_op_registerers=[name], model_content=content)
    assert InterpreterWithCustomOps(model_content=content)._safe_to_run()


def test_programs_can_count_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[object] = []
    method = "increase_counter_interpreter_creation"
    monkeypatch.setattr(metrics.TFLiteMetrics, method, lambda self: created.append(self))
    opened(sums())
    assert len(created) == 1


def test_inputs_with_a_value_in_the_file() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    given, x = graph.tensor((2,), name="given", data=[5.0, 6.0]), graph.tensor((2,), name="x")
    y = graph.tensor((2,), name="y")
    graph.operator("ADD", (given, x), (y,), "AddOptions")
    graph.inputs, graph.outputs = (given, x), (y, given)
    interpreter = opened(file)
    for value in ([5.0, 6.0], [7.0, 8.0]):
        interpreter.allocate_tensors()
        interpreter.set_tensor(x, np.ones(2, np.float32))
        interpreter.invoke()
        assert interpreter.get_tensor(y).tolist() == [each + 1 for each in value]
        assert interpreter.get_tensor(given).tolist() == value
        with pytest.raises(RuntimeError, match="fixed-size tensor"):
            interpreter.resize_tensor_input(given, (1,))
        interpreter.set_tensor(given, np.array([7.0, 8.0], np.float32))


def test_nothing_runs_before_allocation() -> None:
    interpreter = opened(sums())
    with pytest.raises(RuntimeError, match="Invoke called on model that is not ready"):
        interpreter.invoke()
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(0)
    with pytest.raises(ValueError, match="Tensor is unallocated"):
        interpreter.set_tensor(0, X)
    interpreter.allocate_tensors()
    interpreter.invoke()
    interpreter.resize_tensor_input(0, (1, 3))
    with pytest.raises(RuntimeError, match="not ready"):
        interpreter.invoke()
    with pytest.raises(ValueError, match="Tensor is unallocated"):
        interpreter.set_tensor(0, X[:1])
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(0)
    interpreter.set_tensor(1, X)  # Its memory is still there.
    np.testing.assert_array_equal(interpreter.get_tensor(1), X)
    interpreter.allocate_tensors()
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(3), X + 3)


def test_values_that_do_not_go_with_their_tensor(interpreter: Interpreter) -> None:
    for index, value, words in (
        (0, np.zeros((2, 3)), "Got value of type FLOAT64 but expected type FLOAT32 for input 0, name: x "),
        (0, np.zeros((2, 3), np.int64), "Got value of type INT64"),
        (0, "x", "Got value of type STRING"),
        (0, np.zeros(3, np.float32), "Dimension mismatch. Got 1 but expected 2 for input 0."),
        (0, np.zeros((2, 4), np.float32), "Got 4 but expected 3 for dimension 1 of input 0."),
        (99, X, "Invalid tensor index 99 exceeds max tensor index 5"),
        (-1, X, "Invalid tensor index -1"),
        (4, np.zeros(1, np.float32), "is a constant"),
    ):
        with pytest.raises(ValueError, match=words):
            interpreter.set_tensor(index, value)
    with pytest.raises(ValueError, match="Invalid tensor index 7"):
        interpreter.get_tensor(7)
    with pytest.raises(ValueError, match="Invalid subgraph index 2"):
        interpreter.get_tensor(0, 2)


def test_inputs_are_resized() -> None:
    interpreter = opened(sums(None))
    interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match="Attempting to resize dimension 0 of tensor 0 with value 2 to 5"):
        interpreter.resize_tensor_input(0, (5, 3), strict=True)
    for shape in ((5, 3), (7,), (2, 2, 2), ()):  # the rank changes, too
        for index in (0, 1):
            interpreter.resize_tensor_input(index, shape)
        interpreter.allocate_tensors()
        assert interpreter.get_input_details()[0]["shape"].tolist() == list(shape)
        value = np.ones(shape, np.float32)
        for index in (0, 1):
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(3), np.broadcast_to(5, shape or (1,)))


def test_a_first_tier_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURALD_STARTUP", raising=False)
    for kind, startup in ((OpResolverType.AUTO, "instant"), (OpResolverType.BUILTIN_REF, "optimized")):
        interpreter = opened(sums(), experimental_op_resolver_type=kind)
        interpreter.allocate_tensors()
        compilation = interpreter._main.compilation
        assert compilation is not None
        assert compilation.status.startup.value == startup
        for index in (0, 1):
            interpreter.set_tensor(index, X)
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(3), 2 * X + 3)
        assert compilation.wait_until_optimized(120.0)


def test_open_dimensions_are_resized_strictly(interpreter: Interpreter) -> None:
    for index in (0, 1):
        interpreter.resize_tensor_input(index, (1, 3), strict=True)
    interpreter.allocate_tensors()
    (details,) = interpreter.get_output_details()
    assert details["shape"].tolist() == [1, 3]
    assert details["shape_signature"].tolist() == [-1, 3]
    with pytest.raises(RuntimeError, match="dimension 1"):
        interpreter.resize_tensor_input(0, (1, 4), strict=True)
    with pytest.raises(RuntimeError, match="rank 2 to 1"):
        interpreter.resize_tensor_input(0, (3,), strict=True)


def test_shapes_that_cannot_be(interpreter: Interpreter) -> None:
    with pytest.raises(RuntimeError, match="negative or too large"):
        interpreter.resize_tensor_input(0, (-1, 3))
    with pytest.raises(OverflowError):
        interpreter.resize_tensor_input(0, (2**40,))
    with pytest.raises(ValueError, match=r"Shape should be 1D instead of 0\."):
        interpreter.resize_tensor_input(0, 3)  # type: ignore[arg-type]
    for index in ("x", 2**31, None):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            interpreter.get_tensor(index)  # type: ignore[arg-type]
    for index in (5, -1):
        with pytest.raises(RuntimeError, match=f"There is no tensor {index} to be resized"):
            interpreter.resize_tensor_input(index, (2, 3))
    interpreter.resize_tensor_input(0, (5, 3))
    with pytest.raises(RuntimeError):
        interpreter.allocate_tensors()  # y still has two rows
    interpreter.resize_tensor_input(0, (2, 3))
    interpreter.allocate_tensors()
    interpreter.invoke()


def test_views_keep_the_memory_where_it_is(interpreter: Interpreter) -> None:
    accessor = interpreter.tensor(0)
    assert interpreter._safe_to_run()
    view = accessor()
    view[...] = X
    part = view[0]
    del view
    for action in (
        interpreter.invoke,
        interpreter.allocate_tensors,
        lambda: interpreter.resize_tensor_input(0, (4, 3)),
    ):
        with pytest.raises(RuntimeError, match="There is at least 1 reference"):
            action()
    del part
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(3), X + 3)


def test_a_model_without_operators() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, c = graph.tensor((2,), name="x"), graph.tensor((1,), name="c", data=[3.0])
    graph.inputs, graph.outputs = (x,), (x, c)
    interpreter = opened(file)
    with pytest.raises(RuntimeError, match="not ready"):
        interpreter.invoke()
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.array([1, 2], np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(x).tolist() == [1, 2]
    assert interpreter.get_tensor(c).tolist() == [3]
    empty = TfliteModel()
    empty.subgraph()
    interpreter = opened(empty)
    interpreter.allocate_tensors()
    interpreter.invoke()


def test_single_numbers_are_scalars() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, y = (graph.tensor((), name=name, has_rank=True) for name in "xy")
    graph.operator("NEG", (x,), (y,), "NegOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    interpreter = opened(file)
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.array(2, np.float32))
    interpreter.invoke()
    for found in (interpreter.get_tensor(y), interpreter.tensor(y)()):
        assert type(found).__name__ == "float32"
        assert found == -2


def test_variables_have_no_values_before_allocation() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, y = graph.tensor((2,), name="x"), graph.tensor((2,), name="y")
    graph.tensor((2,), name="state", is_variable=True)
    graph.operator("NEG", (x,), (y,), "NegOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    interpreter = opened(file)
    with pytest.raises(RuntimeError, match="Run allocate_tensors"):
        interpreter.reset_all_variables()
    interpreter.allocate_tensors()
    interpreter.reset_all_variables()


def test_loops_may_take_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "LOOP_TIMEOUT_NS", 1_000)
    monkeypatch.setattr(execution_settings, "DEFAULT_LOOP_TIMEOUT_S", 1e-6)
    file = TfliteModel()
    main, condition, body = file.subgraph(), counts_up_to(file, 300_000), file.subgraph()
    count, after = stepped(body)
    body.inputs, body.outputs = (count,), (after,)
    first, total = main.tensor((), "INT32"), main.tensor((), "INT32")
    loop(main, (first,), (total,), file.graphs.index(condition), file.graphs.index(body))
    initialise(file, main, runs=np.zeros(1, np.float32))
    handle = variable(main, "runs")
    runs = plus(main, read(main, handle, 1), constant(main, [1.0]), 1)
    assign(main, handle, runs)
    main.inputs, main.outputs = (first,), (total, runs)
    interpreter = opened(file)
    interpreter.allocate_tensors()
    for run, start in enumerate((299_999, 299_998, 0, 1), 1):
        interpreter.set_tensor(first, np.array(start, np.int32))
        interpreter.invoke()
        assert interpreter.get_tensor(total) == 300_000
        assert interpreter.get_tensor(runs) == run


def test_signatures(interpreter: Interpreter) -> None:
    assert interpreter.get_signature_list() == {}
    with pytest.raises(ValueError, match="signature_key is None and model has 0 Signatures"):
        interpreter.get_signature_runner()
    two = opened(two_signatures())
    assert two.num_subgraphs() == 2
    assert two.get_signature_list() == {
        "add": {"inputs": ["a"], "outputs": ["z"]},
        "double": {"inputs": ["b"], "outputs": ["w"]},
    }
    assert two._get_full_signature_list()["double"] == {"inputs": {"b": 0}, "outputs": {"w": 1}}
    with pytest.raises(ValueError, match='Invalid signature_key provided: "zz"'):
        two.get_signature_runner("zz")


def test_variables_keep_their_values() -> None:
    interpreter = opened(counter())
    add, get = (interpreter.get_signature_runner(name) for name in ("add", "get"))
    assert add(x=np.array([2], np.float32))["total"] == [7]
    # As in LiteRT the first run of a signature initialises, if it has a subgraph of its own for
    # that.
    assert get()["total"] == [5]
    assert add(x=np.array([1], np.float32))["total"] == [6]
    assert get()["total"] == [6]
    # LiteRT resets variable tensors only.
    interpreter.reset_all_variables()
    assert get()["total"] == [6]


def test_a_new_allocation_gives_variable_tensors_their_initial_values() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, output = graph.tensor((1, 2)), graph.tensor((1, 2))
    weights = (constant(graph, np.eye(2, dtype=np.float32)) for _ in range(2))
    inputs = (x, *weights, constant(graph, np.zeros(2, np.float32)), graph.tensor((1, 2), is_variable=True))
    graph.operator("RNN", inputs, (output,), "RNNOptions", FusedActivationFunction=1)
    graph.inputs, graph.outputs = (x,), (output,)
    interpreter = opened(file)
    interpreter.allocate_tensors()

    def run() -> list[float]:
        interpreter.set_tensor(x, np.array([[1, 2]], np.float32))
        interpreter.invoke()
        found: list[float] = interpreter.get_tensor(output)[0].tolist()
        return found

    assert [run(), run()] == [[1, 2], [2, 4]]
    # Nothing is allocated, since no shape has changed.
    interpreter.resize_tensor_input(x, [1, 2])
    interpreter.allocate_tensors()
    assert run() == [3, 6]
    interpreter.resize_tensor_input(x, [2, 2])
    interpreter.resize_tensor_input(x, [1, 2])
    interpreter.allocate_tensors()
    assert run() == [1, 2]


def test_operators_are_described(interpreter: Interpreter) -> None:
    first, second = interpreter._get_ops_details()
    assert first["op_name"] == second["op_name"] == "ADD"
    assert interpreter._get_op_details(1)["inputs"].tolist() == [2, 4]
    assert first["operand_types"] == [np.float32] * 2
    assert first["result_types"] == [np.float32]
    for index in (-1, 2):
        with pytest.raises(ValueError, match="Invalid node index"):
            interpreter._get_op_details(index)
    with pytest.raises(ValueError, match="subgraph_index is out of range: 1"):
        interpreter.get_tensor_details(1)


def test_tensors_without_elements_need_no_memory() -> None:
    interpreter = opened(sums())
    for _ in range(2):
        for index in (0, 1):
            interpreter.resize_tensor_input(index, [0, 3])
            assert interpreter.get_tensor(index).shape == (0, 3)
            assert interpreter.tensor(index)().shape == (0, 3)
            interpreter.set_tensor(index, np.zeros((0, 3), np.float32))
        with pytest.raises(RuntimeError, match="not ready"):
            interpreter.invoke()
        interpreter.allocate_tensors()
        assert interpreter.get_tensor(3).shape == (0, 3)
        interpreter.invoke()
        assert interpreter.get_tensor(3).shape == (0, 3)
        for index in (0, 1):
            interpreter.resize_tensor_input(index, [2, 3])
        with pytest.raises(ValueError, match="Tensor data is null"):
            interpreter.get_tensor(0)
        interpreter.allocate_tensors()
        assert interpreter.get_tensor(3).tolist() == [[0] * 3] * 2


def test_an_unsupported_operator_is_told_at_allocation() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, z = graph.tensor((1,)), graph.tensor((1,))
    graph.operator("CUSTOM", (x,), (z,), custom_code="Mine")
    graph.inputs, graph.outputs = (x,), (z,)
    interpreter = opened(file)
    assert interpreter._get_op_details(0)["op_name"] == "Mine"
    with pytest.raises(RuntimeError, match="CUSTOM 'Mine': it is not supported"):
        interpreter.allocate_tensors()


@pytest.mark.parametrize("preserves", [False, True])
def test_the_value_of_a_variable_tensor(*, preserves: bool) -> None:
    """The state that a cell keeps for the next run can be read between two runs."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, 2))
    weights = (constant(graph, np.eye(2, dtype=np.float32)) for _ in range(2))
    inputs = (x, *weights, constant(graph, np.zeros(2, np.float32)), graph.tensor((1, 2), is_variable=True))
    output = graph.tensor((1, 2))
    graph.operator("RNN", inputs, (output,), "RNNOptions", FusedActivationFunction=1)
    graph.inputs, graph.outputs = (x,), (output,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpreter = opened(file, experimental_preserve_all_tensors=preserves)
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(inputs[-1])
    interpreter.allocate_tensors()
    np.testing.assert_array_equal(interpreter.get_tensor(inputs[-1]), [[0, 0]])
    for run in (1, 2):
        interpreter.set_tensor(x, np.array([[1, 2]], np.float32))
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(inputs[-1]), [[run, 2 * run]])
    interpreter.reset_all_variables()
    np.testing.assert_array_equal(interpreter.get_tensor(inputs[-1]), [[0, 0]])


@pytest.mark.parametrize("kind", [np.float32, np.array, np.uint8])
def test_numbers_of_tensors_are_converted(interpreter: Interpreter, kind: Any) -> None:
    interpreter.resize_tensor_input(kind(0), [1, 3])
    interpreter.resize_tensor_input(kind(1), [1, 3])
    interpreter.allocate_tensors()
    interpreter.set_tensor(kind(0), X[:1])
    np.testing.assert_array_equal(interpreter.get_tensor(kind(0), kind(0)), X[:1])
    np.testing.assert_array_equal(interpreter.tensor(kind(0))(), X[:1])
    assert interpreter._get_op_details(kind(0))["index"] == 0
    assert interpreter._get_tensor_details(kind(0), kind(0))["index"] == 0


def test_numbers_of_wrong_types(interpreter: Interpreter) -> None:
    wrong: tuple[Any, ...] = (1.0, "0", None, [0])
    for number in wrong:
        for call in (
            lambda number: interpreter.set_tensor(number, X),
            interpreter.get_tensor,
            lambda number: interpreter.get_tensor(0, number),
            lambda number: interpreter.resize_tensor_input(number, [2, 3]),
            interpreter._get_op_details,
            lambda _: interpreter.resize_tensor_input(0, [2, 3], "x"),  # type: ignore[arg-type]
            lambda number: interpreter.tensor(number)(),
        ):
            with pytest.raises(TypeError):
                call(number)


def test_a_resized_result_has_its_shape_until_the_next_allocation(interpreter: Interpreter) -> None:
    interpreter.allocate_tensors()
    interpreter.resize_tensor_input(3, [7])
    assert interpreter.get_output_details()[0]["shape"].tolist() == [7]
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(3)
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_output_details()[0]["shape"].tolist() == [2, 3]
    assert interpreter.get_tensor(3).shape == (2, 3)


def test_arguments_of_other_types() -> None:
    wrong: Any = 3
    content = sums().build()
    for named in ({"experimental_delegates": wrong}, {"num_threads": 2**31}, {"num_threads": 2**40}):
        with pytest.raises(TypeError):
            Interpreter(model_content=content, **named)
    with pytest.raises(TypeError):
        InterpreterWithCustomOps(custom_op_registerers=[wrong], model_content=content)
    with pytest.raises(TypeError, match="Open the file again where it is used"):
        pickle.dumps(Interpreter(model_content=content))


@pytest.mark.parametrize(
    ("tensor", "shape", "words"),
    [(4, [2], "fixed-size"), (0, [-1, 3], "negative"), (3, [-1], "negative")],
)
def test_a_resize_that_fails_asks_for_an_allocation(
    interpreter: Interpreter, tensor: int, shape: list[int], words: str
) -> None:
    with pytest.raises(RuntimeError, match=words):
        interpreter.resize_tensor_input(tensor, shape)
    with pytest.raises(RuntimeError, match="not ready"):
        interpreter.invoke()
    interpreter.allocate_tensors()
    interpreter.invoke()
