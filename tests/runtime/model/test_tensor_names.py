"""Inputs and outputs that are given by name."""

from typing import Any

import numpy as np
import pytest
from support.models.small import add_model
from support.tflite.litert_files import sums

import neurald as nd
from neurald.runtime.model.tensor_names import tensor_names, tensor_position

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def _execution() -> nd.Execution:
    return nd.Execution(nd.CompilationBuilder(nd.load_tflite(sums().build()), devices=["cpu"]).finish())


def test_arrays_are_bound_by_name() -> None:
    execution, total = _execution(), np.zeros((2, 3), np.float32)
    execution.set_output("z", total)
    execution.set_input("y", X)
    execution.set_input("x", X + 1)
    execution.compute()
    np.testing.assert_array_equal(total, 2 * X + 4)
    assert execution.output_dimensions("z") == (2, 3)
    assert execution.output_rank("z") == 2


def test_memories_are_bound_by_name() -> None:
    execution = _execution()
    given, total = nd.Memory.allocate(X.nbytes), nd.Memory.allocate(X.nbytes)
    np.asarray(given.view()).view(np.float32)[:] = X.ravel()
    for name in ("x", "y"):
        execution.set_input_from_memory(name, given, 0, given.size, (2, 3))
    execution.set_output_from_memory("z", total, 0, total.size)
    execution.compute()
    np.testing.assert_array_equal(np.frombuffer(total.view(), np.float32).reshape(2, 3), 2 * X + 3)


def test_wrong_names_are_told_the_right_ones() -> None:
    execution = _execution()
    calls: list[Any] = [
        lambda: execution.set_input("q", X),
        lambda: execution.set_input_from_memory("q", nd.Memory.allocate(24), 0, 24),
        lambda: execution.set_output("q", X.copy()),
        lambda: execution.set_output_from_memory("q", nd.Memory.allocate(24), 0, 24),
        lambda: execution.output_dimensions("q"),
    ]
    for call in calls:
        with pytest.raises(nd.BadData, match=r"there is no \w+ 'q'; there are: '[xz]'"):
            call()
    execution.set_input("x", X)
    with pytest.raises(nd.BadState, match="input 0 is already bound"):
        execution.set_input(0, X)


def test_names_are_those_of_the_description() -> None:
    model = add_model()
    function = nd.compile(model, "cpu")
    assert tensor_names(model, "input") == tuple(info.name for info in function.inputs_info)
    assert [tensor_position(model, info.name, "input") for info in function.inputs_info] == [0, 1]
    assert tensor_position(model, 1, "input") == 1
