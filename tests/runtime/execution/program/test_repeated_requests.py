"""Requests that come again, in loops and in reusable executions."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from support.devices.recording import RecordingDevice
from support.models.control_flow import below, counting, loop
from support.models.plans import compiled, cpu, only, request_for
from support.models.small import FLOAT

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape
from neurald.hal.errors import OpFailed
from neurald.hal.model.request import Request
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.execution.program import compound_executor
from neurald.runtime.execution.program.executor import plan_executor
from neurald.runtime.execution.program.temporaries import Temporaries
from neurald.runtime.plan.plan import CompoundBody, ExecutionPlan

Op = nd.OperationType
VALUE = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def test_what_comes_again_is_the_same_request() -> None:
    """This applies to iterations of a loop and to executions that compute again, as long as these
    live.
    """
    device = RecordingDevice("counting", [Op.ADD, Op.MUL, Op.LESS])
    compilation = compiled(loop(below(9.0, extra=1), counting(1.0, 2.0)), cpu(), device)
    execution = nd.Execution(compilation, reusable=True)
    counter, value = np.zeros(1, np.float32), np.ones(2, np.float32)
    results = np.empty(1, np.float32), np.empty(2, np.float32)
    for number, array in enumerate((counter, value)):
        execution.set_input(number, array)
        execution.set_output(number, results[number])
    for turn in range(3):
        counter[:], value[:] = turn, 3
        execution.compute()
        assert results[0] == 9
        np.testing.assert_array_equal(results[1], np.full(2, 3 * 2.0 ** (9 - turn)))
    assert len(device.requests) == sum(2 * turns + 1 for turns in (9, 8, 7))
    distinct = list({id(request): weakref.ref(request) for request in device.requests}.values())
    assert len(distinct) <= 8
    device.requests.clear()
    del execution
    gc.collect()
    assert [each() for each in distinct] == [None] * len(distinct)


def branches() -> nd.Model:
    """Builds x -> TANH(x) + LOGISTIC(x), of known sizes."""
    builder = nd.ModelBuilder()
    x, a, b, y = (builder.add_operand(FLOAT, (2, 3)) for _ in range(4))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(Op.TANH, [x], [a])
    builder.add_operation(Op.LOGISTIC, [x], [b])
    builder.add_operation(Op.ADD, [a, b, activation], [y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()


@pytest.mark.parametrize("is_overlapping", [True, False])
def test_a_request_that_comes_again_needs_no_search_for_values(
    is_overlapping: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [0]

    class Counted(Temporaries):
        def __init__(self, *arguments: Any) -> None:
            made[0] += 1
            super().__init__(*arguments)

    monkeypatch.setattr(compound_executor, "Temporaries", Counted)
    tanh, logistic = RecordingDevice("tanh", [Op.TANH]), RecordingDevice("logistic", [Op.LOGISTIC])
    compilation = compiled(branches(), tanh, logistic, cpu())
    body = compilation.plan.body
    assert isinstance(body, CompoundBody)
    assert body.waits_for
    body = body if is_overlapping else replace(body, waits_for=())
    executor = plan_executor(ExecutionPlan(compilation.model, body))
    source, result = VALUE.copy(), np.empty_like(VALUE)
    request = request_for([source], [result])
    for number in range(4):
        source[...] = VALUE * number
        found = executor.execute(request, ExecuteOptions(measure=True))
        np.testing.assert_allclose(result, np.tanh(source) + 1 / (1 + np.exp(-source)), rtol=1e-5)
        assert found.output_shapes == (OutputShape(dimensions=(2, 3)),)
        assert [each.runs for each in found.step_durations] == [1, 1, 1]
    assert made == [1]
    assert len({id(each) for each in tanh.requests}) == 1
    other = np.empty_like(VALUE)
    executor.execute(request_for([source], [other]), ExecuteOptions())
    assert np.array_equal(other, result)
    assert made == [2]


def test_a_request_that_comes_again_keeps_its_limits() -> None:
    compilation = compiled(branches(), only("tanh", Op.TANH), only("logistic", Op.LOGISTIC), cpu())
    executor = plan_executor(compilation.plan)
    request = request_for([VALUE], [np.empty_like(VALUE)])
    for _ in range(2):
        executor.execute(request, ExecuteOptions())
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(nd.Error, match="the execution was cancelled before step 0 on"):
        executor.execute(request, ExecuteOptions(cancellation=cancellation))


def test_memory_of_the_declared_size_cannot_be_too_small() -> None:
    lies = [False]

    def lie(_: Request, result: ExecutionResult) -> ExecutionResult:
        return (
            ExecutionResult(output_shapes=(OutputShape(dimensions=None, sufficient=False),))
            if lies[0]
            else result
        )

    compilation = compiled(
        branches(), RecordingDevice("tanh", [Op.TANH], lie), only("logistic", Op.LOGISTIC), cpu()
    )
    executor = plan_executor(compilation.plan)
    request = request_for([VALUE], [np.empty_like(VALUE)])
    executor.execute(request, ExecuteOptions())
    lies[0] = True
    with pytest.raises(OpFailed, match="memory of the declared size is too small"):
        executor.execute(request, ExecuteOptions())
