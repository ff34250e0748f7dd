"""Results inside of a model are kept on request, or computed when they are read."""

from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.interpreters import opened
from support.tflite.litert_files import composite, counter, sums
from support.tflite.resources import (
    constant,
)

from neurald.litert import Interpreter
from neurald.runtime.compilation import Compilation

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def test_results_inside_are_kept_on_request() -> None:
    with pytest.warns(UserWarning, match="debugging"):
        interpreter = opened(sums(), experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(2), X)
    np.testing.assert_array_equal(interpreter.get_tensor(3), X + 3)


def test_results_inside_of_composites_are_kept_on_request() -> None:
    with pytest.warns(UserWarning, match="debugging"):
        interpreter = opened(composite(), experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array([1, 2, 3], np.float32))
    interpreter.invoke()
    assert [interpreter.get_tensor(tensor, 1).tolist() for tensor in range(3)] == [
        [1, 2, 3],
        [2, 4, 6],
        [4, 8, 12],
    ]


def test_results_inside_have_memory_until_they_are_computed() -> None:
    interpreter = opened(sums())
    with pytest.raises(ValueError, match="Tensor is unallocated"):
        interpreter.set_tensor(2, X)
    interpreter.allocate_tensors()
    interpreter.set_tensor(2, X)
    np.testing.assert_array_equal(interpreter.get_tensor(2), X)
    for index in (0, 1):
        interpreter.set_tensor(index, X)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(2), 2 * X)
    view = interpreter.tensor(2)()
    np.testing.assert_array_equal(view, 2 * X)
    with pytest.raises(RuntimeError, match="reference to internal data"):
        interpreter.invoke()
    del view
    interpreter.set_tensor(0, 3 * X)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(2), 4 * X)


def test_results_inside_of_the_last_run_after_a_resize(interpreter: Interpreter) -> None:
    interpreter.allocate_tensors()
    for index in (0, 1):
        interpreter.set_tensor(index, X)
    interpreter.invoke()
    interpreter.resize_tensor_input(0, [4, 3])
    np.testing.assert_array_equal(interpreter.get_tensor(2), 2 * X)
    interpreter.resize_tensor_input(2, [4])
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(2)


def test_results_inside_of_the_model_are_computed_when_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interpreter = opened(sums())
    runs: list[Compilation] = []
    run = Compilation.run

    def counted(self: Compilation, *inputs: Any, **options: Any) -> Any:
        runs.append(self)
        return run(self, *inputs, **options)

    monkeypatch.setattr(Compilation, "run", counted)
    for rows in (1, 2):
        for index in (0, 1):
            interpreter.resize_tensor_input(index, [rows, 3])
        interpreter.allocate_tensors()
        with pytest.raises(ValueError, match="Tensor data is null"):
            interpreter.get_tensor(2)
        for value in (X[:rows], 2 * X[:rows]):
            interpreter.set_tensor(0, value)
            interpreter.set_tensor(1, X[:rows])
            interpreter.invoke()
            runs.clear()
            for _ in range(2):
                np.testing.assert_array_equal(interpreter.get_tensor(2), value + X[:rows])
            assert len(runs) == 1
    interpreter.set_tensor(0, X)
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(2)  # it belongs to the earlier input


def test_results_inside_of_a_model_with_variables_are_not_computed_again() -> None:
    interpreter = opened(counter())
    interpreter.allocate_tensors()
    interpreter.invoke()
    (read,) = (each for each in interpreter._get_ops_details() if each["op_name"] == "READ_VARIABLE")
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(read["outputs"][0])


def test_random_results_are_not_drawn_again() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    shape, inside, total = constant(graph, [2], "INT32"), graph.tensor((2,)), graph.tensor((2,))
    graph.operator("RANDOM_UNIFORM", (shape,), (inside,), "RandomOptions", Seed=5)
    graph.operator("ADD", (inside, inside), (total,), "AddOptions")
    graph.outputs = (total,)
    interpreter = opened(file)
    interpreter.allocate_tensors()
    interpreter.invoke()
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(inside)
