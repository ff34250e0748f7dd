"""An execution takes buffers and settings before it computes, and only then."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.errors import error_code
from support.models.small import bound_execution, compiled_add
from support.sweeps import sweep
from support.tflite.litert_files import sums

import neurald as nd
from neurald.hal.errors import BadData

pytestmark = pytest.mark.quick

BAD_DATA, BAD_STATE = nd.ResultCode.BAD_DATA, nd.ResultCode.BAD_STATE


@pytest.fixture(scope="module")
def compilation() -> nd.Compilation:
    return compiled_add()


def test_missing_arguments_can_be_bound_afterwards(compilation: nd.Compilation) -> None:
    execution = nd.Execution(compilation)
    execution.set_input(0, np.ones((2, 3), np.float32))
    with pytest.raises(nd.Error, match="input 1 is not bound"):
        execution.compute()
    execution.set_input(1, np.ones((2, 3), np.float32))
    assert error_code(execution.compute) is BAD_DATA
    output = np.zeros((2, 3), np.float32)
    execution.set_output(0, output)
    execution.compute()
    np.testing.assert_array_equal(output, np.full((2, 3), 2))


@sweep(
    "array",
    [
        np.zeros((2, 2), np.float32),
        np.zeros((3, 2), np.float32),
        np.zeros(6, np.float32),
        np.zeros((2, 3), np.float64),
        np.zeros((2, 3), np.int32),
        np.zeros((3, 2), np.float32).T,
        [[0.0] * 3] * 2,
    ],
    ids=str,
)
def test_wrong_arrays(compilation: nd.Compilation, array: Any) -> None:
    execution, _ = bound_execution(compilation)
    fresh = nd.Execution(compilation)
    assert error_code(lambda: fresh.set_input(0, array)) is BAD_DATA
    fresh.set_input(0, np.zeros((2, 3), np.float32))
    assert error_code(lambda: execution.set_input(0, array)) is BAD_STATE


def test_masked_elements_are_refused_everywhere(compilation: nd.Compilation) -> None:
    masked = np.ma.masked_equal(np.arange(6, dtype=np.float32).reshape(2, 3), 3)
    whole = masked.filled(0)
    builder = nd.ModelBuilder()
    constant = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (2, 3))
    for take in (
        lambda: nd.Execution(compilation).set_input(1, masked),
        lambda: compilation.run(whole, masked),
        lambda: builder.set_operand_value(constant, masked),
    ):
        with pytest.raises(BadData, match=r"with 1 masked elements; .* method filled"):
            take()
    compilation.run(np.ma.masked_array(whole), np.ma.masked_array(whole))


def test_messages_name_inputs_and_outputs_by_the_names_of_their_model() -> None:
    compilation = nd.compile(sums().build(), "cpu").compilation
    execution = nd.Execution(compilation)
    array = np.zeros((2, 3), np.float32)
    for take, words in (
        (lambda: execution.set_input(1, array.astype(int)), r"input 1 \('y'\) is an array of int64"),
        (
            lambda: execution.set_output(0, array.astype(int)),
            r"output 0 \('[a-z_0-9]+'\) is an array of int64",
        ),
        (lambda: compilation.run(array, array.astype(int)), r"input 1 \('y'\) is an array of int64"),
        (execution.compute, r"input 0 \('x'\), input 1 \('y'\) are not bound; call set_input or"),
    ):
        with pytest.raises(BadData, match=words):
            take()


def test_wrong_indexes_and_outputs(compilation: nd.Compilation) -> None:
    execution = nd.Execution(compilation)
    good = np.zeros((2, 3), np.float32)
    for index in (-1, 2, 1 << 40):
        assert error_code(execution.set_input, index, good) is BAD_DATA
    assert error_code(lambda: execution.set_output(1, good)) is BAD_DATA
    assert error_code(lambda: execution.set_output(0, np.zeros((2, 2), np.float32))) is BAD_DATA
    good.flags.writeable = False
    assert error_code(lambda: execution.set_output(0, good)) is BAD_DATA
    assert error_code(execution.set_output, 0, None) is nd.ResultCode.UNEXPECTED_NULL


def test_set_twice_and_after_start(compilation: nd.Compilation) -> None:
    execution, _ = bound_execution(compilation, reusable=True)
    good = np.zeros((2, 3), np.float32)
    memory = nd.Memory.allocate(64)
    calls: list[Callable[[], Any]] = [
        lambda: execution.set_input(0, good),
        lambda: execution.set_output(0, good),
        lambda: execution.set_input_from_memory(1, memory, 0, 24),
        lambda: execution.set_output_from_memory(0, memory, 0, 24),
    ]
    for call in calls:
        assert error_code(call) is BAD_STATE
    execution.compute()
    for call in (
        *calls,
        lambda: execution.set_reusable(True),
        lambda: execution.set_measure_timing(True),
        lambda: execution.set_timeout(1),
        lambda: execution.set_loop_timeout(1),
    ):
        assert error_code(call) is BAD_STATE


def test_memory_arguments(compilation: nd.Compilation) -> None:
    memory = nd.Memory.allocate(192)
    np.frombuffer(memory.view(0, 24), np.float32)[:] = 4
    np.frombuffer(memory.view(64, 24), np.float32)[:] = 5
    execution = nd.Execution(compilation)
    for offset, length in ((0, 20), (0, 28), (180, 24), (-8, 24)):
        assert error_code(execution.set_input_from_memory, 0, memory, offset, length) is BAD_DATA
    execution.set_input_from_memory(0, memory, 0, 24)
    execution.set_input_from_memory(1, memory, 64, 24)
    execution.set_output_from_memory(0, memory, 128, 24)
    execution.compute()
    np.testing.assert_array_equal(np.frombuffer(memory.view(128, 24), np.float32), 9)


def test_open_shapes_that_contradict_the_model() -> None:
    compilation = compiled_add((0, 3))
    execution = nd.Execution(compilation)
    for shape in ((2, 4), (3,), (1, 2, 3)):
        assert error_code(execution.set_input, 0, np.ones(shape, np.float32)) is BAD_DATA
    memory = nd.Memory.allocate(64)
    assert error_code(lambda: execution.set_input_from_memory(0, memory, 0, 24)) is BAD_DATA
    execution.set_input_from_memory(0, memory, 0, 24, (2, 3))


def test_null_compilation() -> None:
    assert error_code(nd.Execution, None) is nd.ResultCode.UNEXPECTED_NULL


@sweep(("first", "second", "output"), [(0, 64, 0), (0, 64, 8), (0, 64, 60), (0, 0, 20)])
def test_an_output_where_an_input_lies_is_refused(
    compilation: nd.Compilation, first: int, second: int, output: int
) -> None:
    memory = nd.Memory.allocate(256)
    execution = nd.Execution(compilation)
    execution.set_input_from_memory(0, memory, first, 24)
    execution.set_input_from_memory(1, memory, second, 24)
    execution.set_output_from_memory(0, memory, output, 24)
    with pytest.raises(BadData, match=r"output 0 overlaps input|input . overlaps output 0"):
        execution.compute()


def test_inputs_may_lie_in_one_place(compilation: nd.Compilation) -> None:
    values = np.ones((2, 3), np.float32)
    execution = nd.Execution(compilation)
    execution.set_input(0, values)
    execution.set_input(1, values)
    output = np.zeros((2, 3), np.float32)
    execution.set_output(0, output)
    execution.compute()
    np.testing.assert_array_equal(output, values + values)
