"""Steps wait for those whose results they need, and for no others."""

from collections.abc import Sequence

from support.devices.misbehaving import SampleDevice
from support.models.small import add_model

import neurald as nd
from neurald.hal.device import PrepareOptions
from neurald.runtime.plan.plan import ExecutionStep, GotoStep, PlanStep
from neurald.runtime.plan.step_order import steps_to_wait_for

A, B = SampleDevice("a"), SampleDevice("b")
MODEL = add_model()
PREPARED = A.prepare_model(MODEL, PrepareOptions())


def step(device: nd.Device, reads: Sequence[int], writes: Sequence[int]) -> ExecutionStep:
    return ExecutionStep(
        device=device,
        operations=(0,),
        model=MODEL,
        prepared_model=PREPARED,
        reads=tuple(reads),
        writes=tuple(writes),
    )


def waits(*steps: PlanStep) -> list[list[int]]:
    return [sorted(each) for each in steps_to_wait_for(steps)]


def test_independent_steps_of_different_devices_do_not_wait() -> None:
    assert waits(step(A, [0], [1]), step(B, [0], [2]), step(A, [1, 2], [3])) == [[], [], [0, 1]]


def test_a_device_runs_one_step_at_a_time() -> None:
    found = waits(step(A, [0], [1]), step(A, [0], [2]), step(B, [0], [3]))
    assert found == [[], [0], []]


def test_chains_and_control_flow_have_no_order_of_their_own() -> None:
    assert waits(step(A, [0], [1]), step(B, [1], [2]), step(A, [2], [3])) == []
    assert waits(step(A, [0], [1]), step(A, [0], [2])) == []
    assert waits(step(A, [0], [1]), step(B, [0], [2]), GotoStep(position=0)) == []
    assert waits() == []
