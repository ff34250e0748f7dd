"""Time limits of plans with several steps are divided over the steps."""

import numpy as np
import pytest
from support.devices.simulated import SimulatedDevice
from support.models.chains import unary_chain

import neurald as nd
from neurald.hal.errors import MissedDeadlineTransient
from neurald.runtime.execution.measurement.step_pace import StepPace
from neurald.runtime.plan.plan import GotoStep

X = np.zeros((2, 3), np.float32)


def compiled(seconds: float) -> tuple[nd.Compilation, dict[str, SimulatedDevice]]:
    kinds = (nd.OperationType.TANH, nd.OperationType.LOGISTIC)
    devices = {
        kind.name: SimulatedDevice(kind.name.lower(), default_s=seconds, supports=(kind,).__contains__)
        for kind in kinds
    }
    return nd.CompilationBuilder(unary_chain(*kinds), [nd.devices()[0], *devices.values()]).finish(), devices


def execution(compilation: nd.Compilation, limit_s: float) -> nd.Execution:
    found = nd.Execution(compilation)
    found.set_input(0, X)
    found.set_output(0, np.zeros_like(X))
    found.set_timeout(limit_s)
    return found


@pytest.mark.timed
def test_the_step_that_used_up_the_time_is_named_and_later_ones_do_not_begin() -> None:
    compilation, devices = compiled(0.1)
    compilation.run(X)
    devices["TANH"].slowness = 5.0
    before = devices["LOGISTIC"].executions
    with pytest.raises(MissedDeadlineTransient, match=r"step 0 on tanh, with 5.* ms, used up the time"):
        execution(compilation, 0.55).compute()
    assert devices["LOGISTIC"].executions == before


@pytest.mark.timed
def test_what_cannot_be_met_does_not_begin() -> None:
    compilation, devices = compiled(0.1)
    compilation.run(X)
    before = devices["TANH"].executions
    with pytest.raises(MissedDeadlineTransient, match=r"are needed at least; time so far: no step has run$"):
        execution(compilation, 0.15).compute()
    assert devices["TANH"].executions == before
    execution(compilation, 5.0).compute()


def test_reserved_times_follow_the_longest_way() -> None:
    compilation, _ = compiled(0.0)
    program = compilation.plan.body.program  # type: ignore[union-attr]
    pace = StepPace([*program, program[0]], [frozenset(), frozenset(), frozenset({0, 1})])
    assert pace.after() == [0.0, 0.0, 0.0]
    for position, seconds in enumerate((1.0, 2.0, 4.0)):
        pace.record(position, seconds + 1)
        pace.record(position, seconds)
        pace.record(position, seconds + 2)
    assert pace.after() == [4.0, 4.0, 0.0]
    sequential = StepPace([*program, program[0]], ())
    for position, seconds in enumerate((1.0, 2.0, 4.0)):
        sequential.record(position, seconds)
    assert sequential.after() == [6.0, 4.0, 0.0]
    flow = StepPace([*program, GotoStep(position=0)], ())
    flow.record(1, 3.0)
    assert flow.after() == [0.0, 0.0, 0.0]
