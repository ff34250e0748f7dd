"""The split of a run into its parts."""

import numpy as np
import pytest
from support.models.small import add_model

import neurald as nd
from neurald.hal.device import StepDuration
from neurald.runtime.tracing.span import Span
from neurald.service.benchmark.breakdown import Copies, RunTimes, parts_ms, run_times, time_parts


def duration(step: int, compute_ns: int | None) -> StepDuration:
    known = None if compute_ns is None else 1_000_000
    return StepDuration(
        step=step,
        device="d",
        runs=1,
        compute_ns=compute_ns,
        overhead_ns=known,
        queue_ns=known,
        transfer_ns=9_000_000,
    )


def call(steps_ns: int, inward_ns: int = 0, outward_ns: int = 0, drivers: int = 0) -> RunTimes:
    return RunTimes(
        total_ns=steps_ns + 1, steps_ns=steps_ns, inward_ns=inward_ns, outward_ns=outward_ns, drivers=drivers
    )


def step(start_ns: int, end_ns: int, call: int = 1) -> Span:
    return Span("step on d", "step", start_ns, end_ns, 7, 7, call, {"operations": 1})


def of_daemon(name: str, start_ns: int, end_ns: int, call: int = 1) -> Span:
    return Span(name, "daemon", start_ns, end_ns, 8, 8, call)


def test_the_parts_are_those_of_the_run_however_slow_runs_that_devices_time_are() -> None:
    # Devices measured 6, 2 and 2 ms, and drivers took 5 of the 8 ms that steps took.
    durations = [[duration(0, 5_000_000), duration(1, 1_000_000)]]
    copies = Copies(inward_ms=0.5, outward_ms=1.5, total_ms=2.5)
    found = parts_ms([call(8_000_000, 1_000_000, 2_000_000, drivers=1)], durations, 1, copies)
    expected = {
        "compute_ms": 3 - 2,
        "driver_ms": 1,
        "queue_ms": 1,
        "transfer_in_ms": 1 + 0.5,
        "transfer_out_ms": 2 + 1.5,
    }
    assert found == pytest.approx(expected)
    assert sum(part or 0 for part in found.values()) == pytest.approx(8)


def test_copies_that_take_longer_one_by_one_are_shortened_to_fit() -> None:
    copies = Copies(inward_ms=60, outward_ms=30, total_ms=120)
    found = parts_ms([call(8_000_000)], [[duration(0, 6_000_000)]], 0, copies)
    assert sum(part or 0 for part in found.values()) == pytest.approx(8)
    computing = 8 * 6 / 8
    assert found["compute_ms"] == pytest.approx(computing / 4)
    assert found["transfer_in_ms"] == pytest.approx(computing / 2)
    # A device that measures nothing has no more time than its steps.
    found = parts_ms([call(8_000_000)], [[duration(0, None)]], 0, copies)
    assert found["transfer_in_ms"] == pytest.approx(4)
    assert found["transfer_out_ms"] == pytest.approx(2)


def test_a_driver_that_does_not_tell_when_it_ran() -> None:
    found = parts_ms([call(90_000_000)], [[duration(0, 5_000_000)]], 1, Copies())
    assert (found["compute_ms"], found["driver_ms"], found["queue_ms"]) == (5, 1, 1)
    assert (found["transfer_in_ms"], found["transfer_out_ms"]) == (None, None)


@pytest.mark.parametrize("remote_steps", [1, 0])
def test_a_device_that_measures_nothing(remote_steps: int) -> None:
    found = parts_ms([call(10)], [[duration(0, None)]], remote_steps, Copies())
    moved = None if remote_steps else 0.0
    assert found == {
        "compute_ms": None,
        "driver_ms": None,
        "queue_ms": None,
        "transfer_in_ms": moved,
        "transfer_out_ms": moved,
    }


def test_what_is_before_a_driver_is_inward_but_for_the_wait() -> None:
    def whole(end_ns: int, call: int) -> Span:
        return Span("compute", "call", 0, end_ns, 7, 7, call)

    spans = [
        whole(110, 1),
        step(0, 100),
        step(10, 60),
        of_daemon("wait for the device", 15, 25),
        of_daemon("driver", 30, 50),
        whole(105, 2),
        step(0, 100, call=2),
        of_daemon("driver", 20, 100, call=2),
        of_daemon("driver", 0, 5, call=3),
    ]
    assert run_times(spans) == [
        RunTimes(total_ns=110, steps_ns=100, inward_ns=10, outward_ns=10, drivers=1),
        RunTimes(total_ns=105, steps_ns=100, inward_ns=20, outward_ns=0, drivers=1),
    ]
    assert run_times([whole(9, 1)]) == [
        RunTimes(total_ns=9, steps_ns=0, inward_ns=0, outward_ns=0, drivers=0)
    ]


def test_the_parts_of_real_runs_add_up() -> None:
    builder = nd.CompilationBuilder(add_model((2,)), nd.devices()[:1])
    compilation = builder.finish()
    inputs = [np.ones(2, np.float32)] * 2
    found = time_parts(compilation, inputs, compilation.run(*inputs))
    total = found.pop("total_ms")
    assert total is not None
    assert total > 0
    assert sum(part or 0 for part in found.values()) == pytest.approx(total)
