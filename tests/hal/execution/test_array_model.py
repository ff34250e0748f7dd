"""The helper for drivers: requests become arrays, and arrays become outputs."""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.models.addition import addition, request
from support.sweeps import sweep

from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import Cancelled, MissedDeadlinePersistent, MissedDeadlineTransient, OpFailed
from neurald.hal.execution.array_model import ArrayModel, ExecutionLimits
from neurald.hal.execution.reference_executor import ReferenceExecutor
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.hal.sync.cancellation import Cancellation

ONES = np.ones((2, 3), np.float32)


class Returning(ArrayModel):
    """A model that returns given results."""

    results: Sequence[Array] = ()
    given: Sequence[Array | None] = ()

    def run(self, inputs: Sequence[Array | None], limits: ExecutionLimits) -> Sequence[Array]:
        self.given = inputs
        return self.results


def returning(*results: Array) -> Returning:
    model = Returning(addition(ONES))
    model.results = results
    return model


def test_inputs_are_views_that_cannot_be_written() -> None:
    model, result = returning(ONES * 5), np.zeros((2, 3), np.float32)
    found = model.execute(request(ONES, result), ExecuteOptions())
    assert found.output_shapes[0].dimensions == (2, 3)
    np.testing.assert_array_equal(result, ONES * 5)
    (given,) = model.given
    assert given is not None
    np.testing.assert_array_equal(given, ONES)
    with pytest.raises(ValueError, match="read-only"):
        given[0] = 0


def test_an_output_that_does_not_fit_is_not_written() -> None:
    short = np.zeros(5, np.float32)
    found = returning(ONES).execute(request(ONES, short), ExecuteOptions())
    assert not found.is_sufficient
    assert found.output_shapes[0].dimensions == (2, 3)
    np.testing.assert_array_equal(short, 0)


@sweep("results", [(), (ONES, ONES), (ONES.T,), (ONES[:1],)])
def test_wrong_results_are_refused(results: Sequence[Array]) -> None:
    target = np.zeros((2, 3), np.float32)
    with pytest.raises(OpFailed):
        returning(*results).execute(request(ONES, target), ExecuteOptions())
    np.testing.assert_array_equal(target, 0)


@pytest.mark.parametrize("results", [None, np.zeros((1, 2, 3), np.float32), 1.0, {"y": ONES}])
def test_what_is_no_list_of_results_is_named(results: Any) -> None:
    class Careless(ArrayModel):
        def run(self, inputs: Any, limits: Any) -> Any:
            return results

    target = np.zeros((2, 3), np.float32)
    with pytest.raises(OpFailed, match="a list with an array for each output is expected"):
        Careless(returning(ONES).model).execute(request(ONES, target), ExecuteOptions())


@pytest.mark.parametrize("result", [None, [1.0, 2.0], "text"])
def test_results_that_are_no_arrays_are_named(result: Any) -> None:
    with pytest.raises(
        OpFailed, match=r"the driver returned .* for output 0; an array of float32 is expected"
    ):
        returning(result).execute(request(ONES, np.zeros_like(ONES)), ExecuteOptions())


def test_limits() -> None:
    cancelled = Cancellation()
    cancelled.cancel()
    with pytest.raises(Cancelled, match="before operation 3"):
        ExecutionLimits(ExecuteOptions(cancellation=cancelled)).check("before operation 3")
    with pytest.raises(MissedDeadlineTransient, match="before operation 3"):
        ExecutionLimits(ExecuteOptions(deadline_s=time.monotonic())).check("before operation 3")
    ExecutionLimits(ExecuteOptions(deadline_s=time.monotonic() + 60, cancellation=Cancellation())).check(
        "here"
    )
    assert ExecutionLimits(ExecuteOptions(loop_timeout_s=math.inf)).loop_deadline_s() == math.inf
    target = np.zeros((2, 3), np.float32)
    with pytest.raises(MissedDeadlinePersistent):
        returning(ONES).execute(request(ONES, target), ExecuteOptions(deadline_s=0.0))
    with pytest.raises(Cancelled):
        returning(ONES).execute(request(ONES, target), ExecuteOptions(cancellation=cancelled))


def test_kernels_stand_for_references() -> None:
    limits = ExecutionLimits(ExecuteOptions())
    (right,) = ReferenceExecutor(addition(ONES)).run([ONES], limits)
    np.testing.assert_array_equal(right, ONES * 2)
    kernels = {OperationType.ADD: lambda call: (call.array("input1") * 7,)}
    (other,) = ReferenceExecutor(addition(ONES), kernels).run([ONES], limits)
    np.testing.assert_array_equal(other, ONES * 7)
