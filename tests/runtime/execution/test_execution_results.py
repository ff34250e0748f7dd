"""The results of an execution: shapes and durations."""

import numpy as np
import pytest
from support.errors import error_code
from support.models.small import bound_execution, compiled_add

import neurald as nd

pytestmark = pytest.mark.quick

BAD_DATA, BAD_STATE = nd.ResultCode.BAD_DATA, nd.ResultCode.BAD_STATE


@pytest.fixture(scope="module")
def compilation() -> nd.Compilation:
    return compiled_add()


def test_short_buffer_reports_the_shape_that_is_needed() -> None:
    compilation = compiled_add((0, 3))
    execution = nd.Execution(compilation)
    for position in range(2):
        execution.set_input(position, np.ones((4, 3), np.float32))
    short = np.zeros((2, 3), np.float32)
    execution.set_output(0, short)
    with pytest.raises(nd.OutputInsufficientSize) as caught:
        execution.compute()
    assert caught.value.dimensions == ((4, 3),)
    assert caught.value.code is nd.ResultCode.OUTPUT_INSUFFICIENT_SIZE
    assert execution.output_dimensions(0) == (4, 3)
    assert not short.any()


def test_results_before_completion_and_bad_indexes(compilation: nd.Compilation) -> None:
    execution, _ = bound_execution(compilation)
    assert error_code(lambda: execution.output_dimensions(0)) is BAD_STATE
    assert error_code(lambda: execution.duration(nd.Duration.IN_DRIVER)) is BAD_STATE
    execution.compute()
    assert error_code(lambda: execution.output_dimensions(1)) is BAD_DATA
    assert error_code(lambda: execution.duration(nd.Duration.IN_DRIVER)) is BAD_STATE
    assert error_code(lambda: execution.duration(7)) is BAD_DATA  # type: ignore[arg-type]


def test_durations(compilation: nd.Compilation) -> None:
    execution, _ = bound_execution(compilation)
    execution.set_measure_timing()
    execution.compute()
    on_hardware = execution.duration(nd.Duration.ON_HARDWARE)
    in_driver = execution.duration(nd.Duration.IN_DRIVER)
    assert on_hardware is not None
    assert in_driver is not None
    assert 0 < on_hardware <= in_driver


def test_step_durations(compilation: nd.Compilation) -> None:
    execution, _ = bound_execution(compilation)
    execution.set_measure_timing()
    execution.compute()
    (step,) = execution.step_durations()
    assert (step.step, step.device, step.runs) == (0, "cpu", 1)
    assert 0 < (step.compute_ns or 0) <= step.total_ns
    assert step.queue_ns is not None
    unmeasured, _ = bound_execution(compilation)
    assert error_code(unmeasured.step_durations) is BAD_STATE
    unmeasured.compute()
    assert error_code(unmeasured.step_durations) is BAD_STATE


def test_step_durations_of_a_fenced_execution(compilation: nd.Compilation) -> None:
    execution, _ = bound_execution(compilation)
    execution.set_measure_timing()
    execution.start_compute_with_dependencies().wait()
    (step,) = execution.step_durations()
    assert (step.step, step.device, step.runs, step.transfer_ns) == (0, "cpu", 1, 0)
    assert 0 < (step.compute_ns or 0) <= step.total_ns
