"""Execution: states, results, and invalid results of devices."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from support.devices.misbehaving import AnsweringDevice, PausedDevice
from support.errors import error_code
from support.models.small import FLOAT, add_model, bound_execution, compiled_add
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import ExecutionResult, OutputShape
from neurald.hal.errors import DeadObject, MissedDeadlinePersistent, UnavailableDevice
from neurald.hal.model.request import Request

pytestmark = pytest.mark.quick

BAD_DATA, BAD_STATE = nd.ResultCode.BAD_DATA, nd.ResultCode.BAD_STATE


@pytest.fixture(scope="module")
def compilation() -> nd.Compilation:
    return compiled_add()


def test_compute(compilation: nd.Compilation) -> None:
    execution, output = bound_execution(compilation)
    execution.compute()
    np.testing.assert_array_equal(output, np.full((2, 3), 3))
    assert execution.output_dimensions(0) == (2, 3)
    assert execution.output_rank(0) == 2


def test_one_shot_computes_once(compilation: nd.Compilation) -> None:
    execution, _ = bound_execution(compilation)
    execution.compute()
    assert error_code(execution.compute) is BAD_STATE
    assert error_code(execution.start_compute) is BAD_STATE


def test_reusable_computes_again_with_the_bound_buffers(compilation: nd.Compilation) -> None:
    execution = nd.Execution(compilation, reusable=True)
    first, second = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    output = np.zeros((2, 3), np.float32)
    execution.set_input(0, first)
    execution.set_input(1, second)
    execution.set_output(0, output)
    for value in range(3):
        first[:] = value
        execution.compute()
        np.testing.assert_array_equal(output, first + 1)


def test_concurrent_use_is_bad_state() -> None:
    device = PausedDevice()
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    execution, output = bound_execution(compilation, reusable=True)
    event = execution.start_compute()
    assert device.started.wait(30)
    assert not event.is_done
    for call in (
        execution.compute,
        execution.start_compute,
        lambda: execution.output_dimensions(0),
        lambda: execution.duration(nd.Duration.IN_DRIVER),
        lambda: execution.set_reusable(False),
    ):
        assert error_code(call) is BAD_STATE
    device.proceed.set()
    event.wait()
    event.wait()
    assert event.code is nd.ResultCode.NO_ERROR
    np.testing.assert_array_equal(output, np.full((2, 3), 3))
    execution.compute()


def test_many_threads_on_one_reusable_execution(compilation: nd.Compilation) -> None:
    execution, _ = bound_execution(compilation, reusable=True)
    codes: list[nd.ResultCode] = []

    def work() -> None:
        for _ in range(50):
            try:
                execution.compute()
                codes.append(nd.ResultCode.NO_ERROR)
            except nd.Error as error:
                codes.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) <= {nd.ResultCode.NO_ERROR, BAD_STATE}
    assert nd.ResultCode.NO_ERROR in codes


def open_shape_model(dimensions: tuple[int, ...] = (0, 3)) -> nd.Compilation:
    return compiled_add(dimensions)


@sweep("rows", [1, 2, 7])
def test_open_shapes_take_any_size(rows: int) -> None:
    compilation = open_shape_model()
    first = np.ones((rows, 3), np.float32)
    (result,) = compilation.run(first, first)
    np.testing.assert_array_equal(result, np.full((rows, 3), 2))


def test_unknown_rank() -> None:
    builder = nd.ModelBuilder()
    first, second = builder.add_operand(FLOAT), builder.add_operand(FLOAT)
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    output = builder.add_operand(FLOAT)
    builder.add_operation(nd.OperationType.ADD, [first, second, none], [output])
    builder.identify_inputs_and_outputs([first, second], [output])
    compilation = nd.CompilationBuilder(builder.finish()).finish()
    (result,) = compilation.run(np.ones((4, 1), np.float32), np.ones(5, np.float32))
    np.testing.assert_array_equal(result, np.full((4, 5), 2))


def test_run_checks_its_arguments(compilation: nd.Compilation) -> None:
    good = np.ones((2, 3), np.float32)
    for arrays in ((good,), (good, good, good), (good, good.astype(np.float64)), (good, "text")):
        assert error_code(compilation.run, *arrays) is BAD_DATA
    (result,) = compilation.run(good.T.copy().T, [[1, 2, 3]] * 2)
    np.testing.assert_array_equal(result, [[2, 3, 4]] * 2)


def test_omitting_an_input_that_is_not_optional(compilation: nd.Compilation) -> None:
    assert error_code(lambda: compilation.run(np.ones((2, 3), np.float32), None)) is BAD_DATA


def test_a_deadline_that_cannot_be_met(compilation: nd.Compilation) -> None:
    execution, _ = bound_execution(compilation)
    execution.set_timeout(1e-9)
    assert error_code(execution.compute) in (
        nd.ResultCode.MISSED_DEADLINE_TRANSIENT,
        nd.ResultCode.MISSED_DEADLINE_PERSISTENT,
    )
    assert error_code(lambda: execution.output_dimensions(0)) is BAD_STATE


def answers(shapes: list[tuple[tuple[int, ...] | None, bool]]) -> Callable[[Request], ExecutionResult]:
    result = ExecutionResult(
        output_shapes=tuple(OutputShape(dimensions=d, sufficient=ok) for d, ok in shapes)
    )
    return lambda _: result


@sweep(
    ("shapes", "code"),
    [
        ([((2, 3), True)], nd.ResultCode.NO_ERROR),
        ([], nd.ResultCode.OP_FAILED),
        ([((2, 3), True), ((2, 3), True)], nd.ResultCode.OP_FAILED),
        ([((2, 4), True)], nd.ResultCode.OP_FAILED),
        ([((2, 3, 1), True)], nd.ResultCode.OP_FAILED),
        ([((-2, 3), True)], nd.ResultCode.OP_FAILED),
        ([((2, 3), False)], nd.ResultCode.OUTPUT_INSUFFICIENT_SIZE),
        ([(None, False)], nd.ResultCode.OUTPUT_INSUFFICIENT_SIZE),
        ([((2, 4), False)], nd.ResultCode.OP_FAILED),
    ],
)
def test_what_a_device_says_of_shapes_is_checked(
    shapes: list[tuple[tuple[int, ...] | None, bool]], code: nd.ResultCode
) -> None:
    device = AnsweringDevice(answers(shapes))
    execution, _ = bound_execution(nd.CompilationBuilder(add_model(), [device]).finish())
    event = execution.start_compute()
    assert event.code is code
    if code is nd.ResultCode.NO_ERROR:
        event.wait()
    else:
        assert error_code(event.wait) is code


@sweep("error", [DeadObject, MissedDeadlinePersistent, UnavailableDevice])
def test_errors_of_an_explicit_device_reach_the_caller(error: type[nd.Error]) -> None:
    def fail(_: Request) -> ExecutionResult:
        raise error("as told")

    compilation = nd.CompilationBuilder(add_model(), [AnsweringDevice(fail)]).finish()
    for start in (nd.Execution.compute, lambda e: e.start_compute().wait()):
        execution, _ = bound_execution(compilation)
        assert error_code(start, execution) is error.code


def test_a_burst_that_is_none(compilation: nd.Compilation) -> None:
    execution, _ = bound_execution(compilation)
    assert error_code(lambda: execution.compute(burst=compilation)) is BAD_DATA  # type: ignore[arg-type]
