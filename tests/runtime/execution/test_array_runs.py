"""`Compilation.run` by functions of the device, and executions that are short ones."""

import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.errors import error_code
from support.models.small import accumulator, add_model, bound_execution, compiled_add, ones
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
from neurald.drivers.cpu.native.instances import short_steps
from neurald.drivers.cpu.native.python_calls.python_call import python_table
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.runtime.execution.array_runs import _CACHE_SIZE
from neurald.runtime.execution.recovery.recovering_step import RecoveringStep
from neurald.runtime.execution.variables import variables_in_place

pytestmark = pytest.mark.skipif(not python_table(), reason="this interpreter does not support functions")

Array = np.ndarray[Any, Any]
FLOAT, INT = nd.OperandType.TENSOR_FLOAT32, nd.OperandType.TENSOR_INT32


@pytest.fixture(params=["short", "long"])
def limit_ns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes all steps short ones, which keep the GIL, or none."""
    monkeypatch.setattr(short_steps, "_MAX_SHORT_NS", 1 << 40 if request.param == "short" else -1)


@pytest.fixture
def regular(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Counts the executions on the regular path."""
    found: list[object] = []
    execute = CpuPreparedModel.execute

    def record(self: CpuPreparedModel, *arguments: Any) -> Any:
        found.append(arguments)
        return execute(self, *arguments)

    monkeypatch.setattr(CpuPreparedModel, "execute", record)
    return found


def numbers(seed: int, shape: tuple[int, ...] = (2, 3)) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def compiled(model: nd.Model) -> nd.Compilation:
    """Compiles a model. A message for an omitted input would depend on whether it was cached."""
    builder = nd.CompilationBuilder(model, [nd.devices()[0]])
    builder.set_caching(None)
    return builder.finish()


def gathering() -> nd.Model:
    """Builds a model that refuses indices outside of its first input."""
    builder = nd.ModelBuilder()
    rows, axis = builder.add_operand(FLOAT, (4, 3)), builder.add_operand(nd.OperandType.INT32)
    indices, found = builder.add_operand(INT, (2,)), builder.add_operand(FLOAT, (2, 3))
    builder.set_operand_value(axis, 0)
    builder.add_operation(nd.OperationType.GATHER, [rows, axis, indices], [found])
    builder.identify_inputs_and_outputs([rows, indices], [found])
    return builder.finish()


def open_model() -> nd.Model:
    """Builds `y = tanh(x)` for any number of elements."""
    builder = nd.ModelBuilder()
    x, y = builder.add_operand(FLOAT, (0,)), builder.add_operand(FLOAT, (0,))
    builder.add_operation(nd.OperationType.TANH, [x], [y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()


@pytest.mark.usefixtures("limit_ns")
@sweep("shape", [(1,), (2, 3), (7, 11, 13), (100, 1000)])
def test_results_are_right_and_new(shape: tuple[int, ...], regular: list[object]) -> None:
    compilation = compiled(add_model(shape))
    given = [(numbers(n, shape), numbers(n + 10, shape)) for n in range(4)]
    results = [compilation.run(first, second)[0] for first, second in given]
    for (first, second), result in zip(given, results, strict=True):
        np.testing.assert_array_equal(result, first + second)
    expected = [first + second for first, second in given]
    results[0][...] = 5
    for (first, second), result, sum_ in zip(given[1:], results[1:], expected[1:], strict=True):
        first[...] = second[...] = 0
        np.testing.assert_array_equal(result, sum_)
    assert not regular


def test_other_values_are_converted(regular: list[object]) -> None:
    compilation, second = compiled_add(), numbers(3)
    wide = np.arange(12, dtype=np.float32).reshape(2, 6)
    for given in ([[1, 2, 3], [4, 5, 6]], wide[:, ::2], np.asfortranarray(numbers(2)), wide[:, :3]):
        (result,) = compilation.run(given, second)
        np.testing.assert_array_equal(result, np.asarray(given, np.float32) + second)
    assert not regular


@pytest.mark.usefixtures("limit_ns")
@pytest.mark.parametrize("shape", [(2, 3), (0, 3)])
def test_errors_are_those_of_the_regular_path(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: list[tuple[Any, ...]] = [
        (numbers(1).astype(np.float64), numbers(2)),
        (numbers(1, (3, 2)), numbers(2)),
        (numbers(1, (6,)), numbers(2)),
        (numbers(1),),
        (numbers(1), numbers(2), numbers(3)),
        (None, numbers(2)),
        ("text", numbers(2)),
        ([[1, 2], [3]], numbers(2)),
        (SimpleNamespace(shape=[2, 3]), numbers(2)),
    ]

    def messages() -> list[str]:
        compilation = compiled(add_model(shape))
        for rows in (5, 2) if shape[0] == 0 else (2,):
            compilation.run(numbers(1, (rows, 3)), numbers(2, (rows, 3)))
        found = []
        for arrays in wrong:
            with pytest.raises(nd.Error) as caught:
                compilation.run(*arrays)
            assert caught.value.code is nd.ResultCode.BAD_DATA or arrays[0] is None
            found.append(str(caught.value))
        return found

    direct = messages()
    monkeypatch.delattr(CpuPreparedModel, "create_array_function")
    monkeypatch.delattr(SpecializingModel, "create_open_function")
    assert direct == messages()


@pytest.mark.usefixtures("limit_ns")
def test_requirements_that_do_not_hold() -> None:
    compilation = compiled(gathering())
    rows, output = np.arange(12, dtype=np.float32).reshape(4, 3), np.zeros((2, 3), np.float32)
    indices = np.array([3, 0], np.int32)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, rows)
    execution.set_input(1, indices)
    execution.set_output(0, output)
    for _ in range(3):
        indices[:] = 3, 0
        execution.compute()
        np.testing.assert_array_equal(output, rows[[3, 0]])
        np.testing.assert_array_equal(compilation.run(rows, indices)[0], rows[[3, 0]])
        indices[1] = 4
        for call in (execution.compute, lambda: compilation.run(rows, indices)):
            with pytest.raises(nd.Error, match="GATHER") as caught:
                call()
            assert caught.value.code is nd.ResultCode.OP_FAILED
        assert error_code(execution.output_shapes) is nd.ResultCode.BAD_STATE


@pytest.mark.usefixtures("limit_ns")
def test_open_dimensions(regular: list[object]) -> None:
    compilation = compiled(open_model())
    lengths = range(1, _CACHE_SIZE + 3)
    for length in (*lengths, *lengths, *lengths):
        values = numbers(length, (length,))
        (result,) = compilation.run(values)
        np.testing.assert_allclose(result, np.tanh(values), rtol=1e-5, atol=1e-7)
    before = len(regular)
    for _ in range(5):
        compilation.run(numbers(1, (5,)))
    assert len(regular) <= before + 1


def test_the_first_runs_of_any_sizes_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation, noted = compiled(open_model()), []
    compilation.run(numbers(0, (5,)))
    monkeypatch.setattr(RecoveringStep, "note_time", lambda _, seconds: noted.append(seconds))
    for length in range(2, 60):
        compilation.run(numbers(length, (length,)))
    assert 3 <= len(noted) <= 20


@pytest.mark.usefixtures("limit_ns")
@sweep("limit", [0, 1 << 10])
def test_variables(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables_in_place, "_MAX_BYTES", limit)
    first = compiled(accumulator())
    builder = nd.CompilationBuilder(accumulator(), [nd.devices()[0]])
    builder.share_state(first)
    second = builder.finish()
    execution, output = nd.Execution(first, reusable=True), np.zeros((2, 3), np.float32)
    execution.set_input(0, ones())
    execution.set_output(0, output)

    def computed() -> Array:
        execution.compute()
        return output

    def started() -> Array:
        execution.start_compute().wait()
        return output

    calls: list[Callable[[], Array]] = [
        computed,
        lambda: first.run(ones())[0],
        lambda: second.run(ones())[0],
        started,
    ]
    total, rng = 10, np.random.default_rng(0)
    for turn in range(200):
        total += 1
        assert (calls[rng.integers(len(calls))]() == total).all()
        assert (first.state.value("total") == total).all()
        if turn % 50 == 49:
            second.state.reset()
            total = 10


def test_threads_lose_no_update_of_a_variable() -> None:
    compilation = compiled(accumulator())

    def work(number: int) -> None:
        if number % 2:
            for _ in range(200):
                compilation.run(ones())
            return
        execution, output = nd.Execution(compilation, reusable=True), np.zeros((2, 3), np.float32)
        execution.set_input(0, ones())
        execution.set_output(0, output)
        for _ in range(200):
            execution.compute()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (compilation.state.value("total") == 810).all()


def test_a_short_execution_is_not_repeated_after_other_ways_to_compute() -> None:
    compilation = compiled_add()
    execution, output = bound_execution(compilation, reusable=True)
    with compilation.create_burst() as burst:
        ways: tuple[Callable[[], object], ...] = (
            execution.compute,
            lambda: execution.compute(burst=burst),
            lambda: execution.start_compute().wait(),
            lambda: execution.start_compute_with_dependencies().wait(),
        )
        for turn in range(4):
            for compute in ways:
                output[:] = turn
                compute()
                assert (output == 3).all()
                assert execution.output_dimensions(0) == (2, 3)
    with pytest.raises(nd.Error, match="closed"):
        execution.compute(burst=burst)


@sweep("way", ["start_compute", "start_compute_with_dependencies"])
def test_what_only_ever_computes_in_the_background_is_repeated_as_a_short_execution(
    way: str, regular: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_steps, "_MAX_SHORT_NS", 1 << 40)
    execution, output = bound_execution(compiled_add(), reusable=True)
    regular.clear()
    for turn in range(4):
        output[:] = turn
        getattr(execution, way)().wait()
        assert (output == 3).all()
        assert execution.output_dimensions(0) == (2, 3)
    assert len(regular) == 1


@sweep("way", ["start_compute", "start_compute_with_dependencies"])
def test_a_computation_in_the_background_succeeds_although_it_cannot_be_repeated_fast(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no short execution")

    monkeypatch.setattr(CpuPreparedModel, "create_short_execution", fail)
    execution, output = bound_execution(compiled_add(), reusable=True)
    for turn in range(3):
        output[:] = turn
        getattr(execution, way)().wait(30)
        assert (output == 3).all()


def test_everything_is_released_with_the_last_reference() -> None:
    compilation = compiled_add()
    execution, output = bound_execution(compilation, reusable=True)
    for _ in range(3):
        execution.compute()
        compilation.run(numbers(1), numbers(2))
    gc.disable()
    try:
        owners = [weakref.ref(each) for each in (execution, compilation, output)]
        del execution, output
        assert owners[0]() is owners[2]() is None
        del compilation
        assert owners[1]() is None
    finally:
        gc.enable()


#: What `run` may allocate beyond its output and an input that it has to convert.
_FEW_BYTES = 50_000
_LARGE = (256, 256)


def large_inputs() -> dict[str, tuple[Any, int, bool]]:
    """Returns inputs of all kinds: (input, needed copies of it, whether it is accepted)."""
    values = numbers(3, _LARGE)
    constant = values.copy()
    constant.flags.writeable = False
    wide = np.zeros((_LARGE[0], 2 * _LARGE[1]), np.float32)
    unaligned = np.frombuffer(bytes(values.nbytes + 1), np.uint8)[1:].view(np.float32).reshape(_LARGE)
    return {
        "array": (values, 0, True),
        "read-only": (constant, 0, True),
        "strided": (wide[:, ::2], 1, True),
        "column-major": (np.asfortranarray(values), 1, True),
        "unaligned": (unaligned, 1, True),
        "list": (values.tolist(), 1, True),
        "another type": (values.astype(np.float64), 0, False),
        "swapped bytes": (values.astype(">f4"), 0, False),
        "another shape": (values[1:], 0, False),
        "no array": (object(), 0, False),
    }


@pytest.mark.parametrize("has_functions", [True, False], ids=["functions", "regular"])
def test_a_large_run_allocates_its_output_once(has_functions: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_functions:
        monkeypatch.delattr(CpuPreparedModel, "create_array_function")
        monkeypatch.delattr(CpuPreparedModel, "create_short_execution")
    compilation = compiled(add_model(_LARGE))
    other = np.zeros(_LARGE, np.float32)
    size = other.nbytes
    found = {}
    for name, (given, copies, is_accepted) in large_inputs().items():
        result: Any = None
        for is_counted in (False, False, True):
            del result
            if is_counted:
                tracemalloc.start()
            result = nd.BadData("")
            try:
                (result,) = compilation.run(given, other)
            except nd.BadData as error:
                result = error.with_traceback(None)
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert isinstance(result, np.ndarray) is is_accepted, (name, result)
        allowed = size * (1 + copies) + _FEW_BYTES
        if peak > allowed or held > size * is_accepted + _FEW_BYTES:
            found[name] = peak / size, held / size
    assert not found, "(peak, held), in sizes of the output"
