"""Models in parts run on arrays as they do on the memory of requests."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from support.cpu.compiled_parts import FLOAT, Op, in_parts
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel
from neurald.hal.device import PrepareOptions
from neurald.hal.memory.pool import HostMemory

GIVEN = np.arange(12, dtype=np.float32).reshape(4, 3)
STRING = nd.OperandType.TENSOR_STRING


@pytest.fixture(scope="module")
def prepared() -> PartlyCompiledModel:
    found = CpuDevice().prepare_model(in_parts(4), PrepareOptions())
    assert isinstance(found, PartlyCompiledModel)
    return found


def test_results(prepared: PartlyCompiledModel) -> None:
    function = prepared.create_array_function([(4, 3)], ())
    assert function is not None
    for _ in range(3):
        found = function(GIVEN)
        assert found is not None
        squares, words = found
        np.testing.assert_array_equal(squares, 4 * GIVEN * GIVEN)
        assert set(words.reshape(-1).tolist()) == {b"number"}
    # Results are not overwritten by later runs.
    squares[:] = 7
    again = function(GIVEN)
    assert again is not None
    np.testing.assert_array_equal(again[0], 4 * GIVEN * GIVEN)


@pytest.mark.parametrize(
    "arrays",
    [
        (),
        (GIVEN, GIVEN),
        (None,),
        (GIVEN.tolist(),),
        (GIVEN.astype(np.float64),),
        (GIVEN[:3],),
        (np.asfortranarray(GIVEN),),
    ],
    ids=["none", "two", "omitted", "list", "type", "shape", "layout"],
)
def test_other_arrays_are_left_to_executions(prepared: PartlyCompiledModel, arrays: tuple[Any, ...]) -> None:
    function = prepared.create_array_function([(4, 3)], ())
    assert function is not None
    assert function(*arrays) is None


def test_models_with_variables_have_no_function(prepared: PartlyCompiledModel) -> None:
    assert prepared.create_array_function([(4, 3)], (HostMemory(bytes(4)),)) is None
    assert prepared.create_array_function([], ()) is None


def _chosen() -> nd.Model:
    """Creates a model that doubles numbers and chooses words by an index."""
    builder = nd.ModelBuilder()
    source, doubled = (builder.add_operand(FLOAT, (2,)) for _ in range(2))
    index = builder.add_operand(nd.OperandType.TENSOR_INT64, (1,))
    words, word = builder.add_operand(STRING, (3,)), builder.add_operand(STRING, (1,))
    zero = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(zero, 0)
    builder.add_operation(Op.ADD, [source, source, zero], [doubled])
    builder.add_operation(Op.TFLITE_GATHER, [words, zero, index, zero], [word])
    builder.identify_inputs_and_outputs([source, words, index], [doubled, word])
    return builder.finish()


def test_failures_are_reported_by_executions() -> None:
    model = _chosen()
    prepared = CpuDevice().prepare_model(model, PrepareOptions())
    assert isinstance(prepared, PartlyCompiledModel)
    function = prepared.create_array_function([(2,), (3,), (1,)], ())
    assert function is not None
    numbers, words = np.ones(2, np.float32), np.array([b"a", b"", b"c"], object)
    assert function(numbers, words, np.array([3])) is None
    assert function(numbers, np.array([b"a", "text", b"c"], object), np.array([1])) is None
    compilation = nd.CompilationBuilder(model, [CpuDevice()]).finish()
    for number in (2, 1, 0):
        found = compilation.run(numbers, words, np.array([number]))
        assert found[1].tolist() == [words[number]]
    with pytest.raises(nd.Error, match="indexes from 0 to 2"):
        compilation.run(numbers, words, np.array([3]))
    # Text is encoded, which an execution does.
    assert compilation.run(numbers, np.array(["a", "b", "ü"]), np.array([2]))[1].tolist() == ["ü".encode()]


def test_repeated_executions_read_their_arrays_again() -> None:
    compilation = nd.CompilationBuilder(in_parts(4), [CpuDevice()]).finish()
    execution = nd.Execution(compilation, reusable=True)
    given, squares, words = GIVEN.copy(), np.empty_like(GIVEN), np.empty((4, 3), object)
    given[0, 0] = np.nan
    execution.set_input(0, given)
    for number, array in enumerate((squares, words)):
        execution.set_output(number, array)
    for factor in (1, 2, 3, 5):
        given[1:] = GIVEN[1:] * factor
        execution.compute()
        np.testing.assert_array_equal(squares, 4 * given * given)
        assert words[0, :2].tolist() == [b"no", b"number"]


@pytest.mark.parametrize("repetition", [1, 2])
def test_executions_succeed_if_their_repetition_fails(
    monkeypatch: pytest.MonkeyPatch, repetition: int
) -> None:
    """The first one is to find out whether executions are short."""
    execution = nd.Execution(nd.CompilationBuilder(in_parts(4), [CpuDevice()]).finish(), reusable=True)
    squares, words = np.empty_like(GIVEN), np.empty((4, 3), object)
    execution.set_input(0, GIVEN)
    for number, array in enumerate((squares, words)):
        execution.set_output(number, array)
    original, calls = PartlyCompiledModel.results, []

    def results(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1 + repetition:
            raise ValueError("the inputs have changed")
        return original(*arguments)

    monkeypatch.setattr(PartlyCompiledModel, "results", results)
    for _ in range(3):
        squares[:] = 0
        execution.compute()
        np.testing.assert_array_equal(squares, 4 * GIVEN * GIVEN)
    assert len(calls) > 2


def test_repeated_executions_on_references() -> None:
    builder = nd.ModelBuilder()
    text, grams = builder.add_operand(STRING, (1,)), builder.add_operand(STRING, (0,))
    size, skip = (builder.add_operand(nd.OperandType.INT32) for _ in range(2))
    shorter = builder.add_operand(nd.OperandType.BOOL)
    for operand, value in ((size, 2), (skip, 500), (shorter, True)):
        builder.set_operand_value(operand, value)
    builder.add_operation(Op.TFLITE_SKIP_GRAM, [text, size, skip, shorter], [grams])
    builder.identify_inputs_and_outputs([text], [grams])
    compilation = nd.CompilationBuilder(builder.finish(), [CpuDevice()]).finish()
    for words, expected in (("a b", 3), ("a b c", 6), ("a b", 3)):
        assert len(compilation.run(np.array([words]))[0]) == expected
    with pytest.raises(nd.Error, match="too many sequences"):
        compilation.run(np.array(["a " * 2000]))
    execution, found = nd.Execution(compilation, reusable=True), np.empty(3, object)
    execution.set_input(0, np.array([b"c d"], object))
    execution.set_output(0, found)
    for _ in range(4):
        found[:] = None
        execution.compute()
        assert found.tolist() == [b"c d", b"c", b"d"]


def _ranges(*outputs: int) -> PartlyCompiledModel:
    """Returns a model on references with these outputs: 0 is a RANGE to its input, 1 the input."""
    file = TfliteModel()
    graph = file.subgraph()
    first, step = (graph.tensor((), data=np.array(each, np.float32), has_rank=True) for each in (0, 1))
    limit = graph.tensor((), has_rank=True)
    numbers, limits = graph.tensor((1,), shape_signature=(-1,)), graph.tensor((1,))
    graph.operator("RANGE", [first, limit, step], [numbers], "RangeOptions")
    shape = graph.tensor((1,), "INT32", data=np.array([1], np.int32))
    graph.operator("RESHAPE", [limit, shape], [limits], "ReshapeOptions")
    graph.inputs, graph.outputs = [limit], [(numbers, limits)[each] for each in outputs]
    return PartlyCompiledModel(nd.load_tflite(file.build()))


def test_a_result_that_only_the_caller_has_is_not_copied() -> None:
    function = _ranges(0).create_array_function([()], ())
    assert function is not None
    count = 1 << 20
    tracemalloc.start()
    try:
        found = function(np.array(count, np.float32))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is not None
    assert found[0].size == count
    assert most < 1.5 * found[0].nbytes


def test_other_results_are_copied() -> None:
    function, limit = _ranges(0, 1).create_array_function([()], ()), np.array(3, np.float32)
    assert function is not None
    found = function(limit)
    assert found is not None
    numbers, limits = found
    assert not np.shares_memory(limits, limit)
    numbers[:], limits[:] = 7, 8
    again = function(limit)
    assert again is not None
    assert [each.tolist() for each in again] == [[0, 1, 2], [3]]
