"""`Compilation.run` with small models and devices without functions that take arrays.

Each thread keeps executions for them.
"""

import threading
from typing import Any

import numpy as np
import pytest
from support.models.small import accumulator, add_model, compiled_add, ones
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.errors import BadData, OpFailed
from neurald.runtime.execution.execution import Execution
from neurald.runtime.execution.quick_runs import MAX_BYTES, MAX_KEPT_BYTES, SIGNATURE_CACHE_SIZE, QuickRuns

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def without_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the CPU device behave like one that offers no functions."""
    monkeypatch.delattr(CpuPreparedModel, "create_array_function")
    monkeypatch.delattr(CpuPreparedModel, "create_short_execution")
    monkeypatch.delattr(SpecializingModel, "create_open_function")


@pytest.fixture
def executions(monkeypatch: pytest.MonkeyPatch) -> list[Execution]:
    """Counts the executions that are created."""
    created: list[Execution] = []
    create = Execution.__init__

    def record(self: Execution, compilation: Any, *, reusable: bool = False) -> None:
        create(self, compilation, reusable=reusable)
        created.append(self)

    monkeypatch.setattr(Execution, "__init__", record)
    return created


def numbers(seed: int, shape: tuple[int, ...] = (2, 3)) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_runs_share_an_execution_but_no_memory(executions: list[Execution]) -> None:
    compilation = compiled_add()
    given = [(numbers(n), numbers(n + 10)) for n in range(5)]
    results = [compilation.run(first, second)[0] for first, second in given]
    for (first, second), result in zip(given, results, strict=True):
        np.testing.assert_array_equal(result, first + second)
    assert len({id(result) for result in results}) == len(results)
    assert len(executions) == 1


def test_what_the_caller_does_with_results_and_inputs_is_its_own() -> None:
    compilation = compiled_add()
    first = numbers(1)
    (result,) = compilation.run(first, first)
    result[:] = 7
    first[:] = 1
    np.testing.assert_array_equal(compilation.run(first, first)[0], np.full((2, 3), 2))


@sweep(
    "given",
    [
        [[1, 2, 3], [4, 5, 6]],
        np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2],
        np.asfortranarray(numbers(2)),
    ],
    ids=["list", "strided", "column-major"],
)
def test_inputs_that_are_converted_share_it_too(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[object] = []
    first_run = QuickRuns.first_run

    def record(*arguments: Any) -> Any:
        created.append(arguments)
        return first_run(*arguments)

    monkeypatch.setattr(QuickRuns, "first_run", record)
    compilation = compiled_add()
    for _ in range(3):
        np.testing.assert_array_equal(
            compilation.run(given, numbers(3))[0], np.asarray(given, np.float32) + numbers(3)
        )
    assert len(created) == 1


@sweep("wrong", [numbers(1).astype(np.float64), numbers(1, (3, 2)), numbers(1, (6,))])
def test_checks_are_those_of_every_run(wrong: Array) -> None:
    compilation = compiled_add()
    compilation.run(numbers(1), numbers(2))
    for _ in range(2):
        with pytest.raises(nd.Error) as caught:
            compilation.run(wrong, numbers(2))
        assert caught.value.code is nd.ResultCode.BAD_DATA
    with pytest.raises(nd.Error):
        compilation.run(numbers(1))


def test_variables_of_the_model() -> None:
    compilation = nd.CompilationBuilder(accumulator(), [nd.devices()[0]]).finish()
    found = [float(compilation.run(ones())[0][0, 0]) for _ in range(4)]
    assert found == [11, 12, 13, 14]
    compilation.state.reset()
    assert compilation.run(ones())[0][0, 0] == 11


def open_model() -> nd.Model:
    """Builds `y = tanh(x)` for any number of elements."""
    builder = nd.ModelBuilder()
    x = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (0,))
    y = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (0,))
    builder.add_operation(nd.OperationType.TANH, [x], [y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()


def test_few_forms_are_kept(executions: list[Execution]) -> None:
    compilation = nd.CompilationBuilder(open_model(), [nd.devices()[0]]).finish()

    def run(*lengths: int) -> int:
        before = len(executions)
        for length in lengths:
            (result,) = compilation.run(numbers(length, (length,)))
            np.testing.assert_allclose(result, np.tanh(numbers(length, (length,))), rtol=1e-5, atol=1e-7)
        return len(executions) - before

    lengths = tuple(range(1, SIGNATURE_CACHE_SIZE + 1))
    assert run(*lengths) == SIGNATURE_CACHE_SIZE
    # Only lengths that come again are worth an execution of their own.
    assert run(*lengths) == SIGNATURE_CACHE_SIZE
    assert run(*lengths, *lengths) == 0
    assert run(99, 99) == 2
    assert run(*lengths[1:], 99) == 0
    assert run(1) == 1


def test_an_execution_is_kept_for_photos(executions: list[Execution]) -> None:
    shape = (224, 224, 3)
    compilation = nd.CompilationBuilder(add_model(shape), [nd.devices()[0]]).finish()
    for number in range(3):
        first = numbers(number, shape)
        (found,) = compilation.run(first, first)
        np.testing.assert_array_equal(found, 2 * first)
    assert len(executions) == 1


def test_kept_arrays_have_a_total_size(executions: list[Execution]) -> None:
    compilation = nd.CompilationBuilder(open_model(), [nd.devices()[0]]).finish()
    # Of each length, an input and an output of less than half of the limit in total.
    longest = MAX_KEPT_BYTES // 2 // 8
    lengths = (longest, longest - 1, longest - 2)
    made = []
    for length in (*lengths, *lengths, *reversed(lengths)):
        before = len(executions)
        compilation.run(np.ones(length, np.float32))
        made.append(len(executions) - before)
    # The first run of a length keeps nothing, and the third length takes the place of the first.
    assert made == [1, 1, 1, 1, 1, 1, 0, 0, 1]


def test_large_arrays_are_not_copied(executions: list[Execution]) -> None:
    shape = (MAX_BYTES // 8,)
    compilation = nd.CompilationBuilder(add_model(shape), [nd.devices()[0]]).finish()
    for _ in range(2):
        np.testing.assert_array_equal(
            compilation.run(numbers(1, shape), numbers(2, shape))[0], numbers(1, shape) + numbers(2, shape)
        )
    assert len(executions) == 2


def test_threads_do_not_meet(executions: list[Execution]) -> None:
    compilation = compiled_add()
    wrong: list[int] = []

    def work(number: int) -> None:
        first = np.full((2, 3), number, np.float32)
        for _ in range(200):
            if not np.array_equal(compilation.run(first, first)[0], 2 * first):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(executions) == len(threads)


def test_a_run_inside_a_run_of_the_same_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signal handlers and finalizers may run a model at any time."""
    compilation = compiled_add()
    compilation.run(numbers(1), numbers(1))
    inner: list[Array] = []
    compute = Execution.compute

    def interrupted(self: Execution, **options: Any) -> None:
        monkeypatch.setattr(Execution, "compute", compute)
        inner.extend(compilation.run(numbers(3), numbers(4)))
        compute(self, **options)

    monkeypatch.setattr(Execution, "compute", interrupted)
    (outer,) = compilation.run(numbers(5), numbers(6))
    np.testing.assert_array_equal(outer, numbers(5) + numbers(6))
    np.testing.assert_array_equal(inner[0], numbers(3) + numbers(4))


def test_a_failed_execution_is_not_used_again(
    executions: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    compilation = compiled_add()
    compilation.run(numbers(1), numbers(1))

    def fail(self: Execution) -> None:
        raise OpFailed("a device has failed")

    with monkeypatch.context() as patch:
        patch.setattr(Execution, "compute", fail)
        with pytest.raises(OpFailed):
            compilation.run(numbers(1), numbers(1))
    np.testing.assert_array_equal(compilation.run(numbers(1), numbers(2))[0], numbers(1) + numbers(2))
    assert len(executions) == 2


def test_masked_elements_are_not_taken_for_values(executions: list[Execution]) -> None:
    compilation = compiled_add()
    array = numbers(0)
    for _ in range(3):
        compilation.run(array, array)
        with pytest.raises(BadData, match="input 1 is an array with 2 masked elements"):
            compilation.run(array, np.ma.masked_array(array, [[True, False, False], [False, True, False]]))
    assert len(executions) == 1


def test_arrays_of_derived_classes_are_taken(executions: list[Execution]) -> None:
    compilation = compiled_add()
    array = numbers(0)
    for given in (array, np.ma.masked_array(array), array.view(np.recarray)):
        np.testing.assert_array_equal(compilation.run(given, array)[0], array + array)
    assert len(executions) == 1
