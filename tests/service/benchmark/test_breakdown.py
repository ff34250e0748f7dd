"""The split of a run into its parts."""

import pytest

from neurald.hal.device import StepDuration
from neurald.runtime.tracing.span import Span
from neurald.service.benchmark.breakdown import inward_share, parts_ms


def duration(step: int, compute_ns: int | None, transfer_ns: int) -> StepDuration:
    known = None if compute_ns is None else 1_000_000
    return StepDuration(
        step=step,
        device="d",
        runs=1,
        compute_ns=compute_ns,
        overhead_ns=known,
        queue_ns=known,
        transfer_ns=transfer_ns,
    )


def step(start_ns: int, end_ns: int, call: int = 1) -> Span:
    return Span("step on d", "step", start_ns, end_ns, 7, 7, call, {"operations": 1})


def of_daemon(name: str, start_ns: int, end_ns: int, call: int = 1) -> Span:
    return Span(name, "daemon", start_ns, end_ns, 8, 8, call)


def test_transfers_between_processes_and_copies_add_up() -> None:
    runs = [[duration(0, 5_000_000, 4_000_000), duration(1, 1_000_000, 9_000_000)]]
    found = parts_ms(runs, [True, False], 0.25, (0.5, 1.5))
    expected = {
        "compute_ms": 6 - 2,
        "driver_ms": 2,
        "queue_ms": 2,
        "transfer_in_ms": 1.5,
        "transfer_out_ms": 4.5,
    }
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("is_remote", [True, False])
def test_a_device_that_measures_nothing(is_remote: bool) -> None:
    found = parts_ms([[duration(0, None, 10)]], [is_remote], None, (0.0, 0.0))
    moved = None if is_remote else 0.0
    assert found == {
        "compute_ms": None,
        "driver_ms": None,
        "queue_ms": None,
        "transfer_in_ms": moved,
        "transfer_out_ms": moved,
    }


def test_what_is_before_a_driver_is_inward_but_for_the_wait() -> None:
    spans = [
        step(0, 100),
        step(10, 60),
        of_daemon("wait for the device", 15, 25),
        of_daemon("driver", 30, 50),
        step(0, 100, call=2),
        of_daemon("driver", 20, 100, call=2),
        of_daemon("driver", 0, 5, call=3),
    ]
    # Of the first call 10 before and 10 after, of the second one 20 before.
    assert inward_share(spans) == pytest.approx(0.75)
    assert inward_share([step(0, 100)]) is None
