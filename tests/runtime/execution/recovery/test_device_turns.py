import threading
import time
from collections import Counter
from contextlib import AbstractContextManager

import numpy as np
import pytest
from support.daemon.forking import in_child
from support.devices.simulated import SimulatedDevice
from support.models.chains import chain, ramp

import neurald as nd
from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import Error, MissedDeadlineTransient
from neurald.hal.model.types import Priority
from neurald.runtime.execution.recovery.device_turns import DeviceTurns


def compilation(device: SimulatedDevice) -> nd.Compilation:
    builder = nd.CompilationBuilder(chain(["TANH"]), [device])
    builder.set_caching(None)
    return builder.finish()


def execution(subject: nd.Compilation, limit_s: float | None) -> nd.Execution:
    found = nd.Execution(subject)
    found.set_input(0, ramp())
    found.set_output(0, np.empty((1, 64), np.float32))
    found.set_timeout(limit_s)
    return found


def test_what_cannot_end_in_time_is_not_begun() -> None:
    device = SimulatedDevice("turns of one", default_s=0.2)
    device.executions_at_once = 1  # type: ignore[attr-defined]
    subject = compilation(device)
    execution(subject, 60.0).compute()
    first = threading.Thread(target=execution(subject, 60.0).compute)
    first.start()
    while not device.is_busy:
        time.sleep(0.001)
    with pytest.raises(MissedDeadlineTransient, match=r"step 0 on turns of one: .* it was not begun"):
        execution(subject, 0.19).compute()
    assert device.is_busy, "it was refused before the device was free"
    first.join()
    assert device.executions == 2
    # Nothing is in its way any more.
    execution(subject, 60.0).compute()
    assert device.executions == 3


def test_executions_without_a_time_limit_do_not_wait() -> None:
    device = SimulatedDevice("turns of nobody", default_s=0.0)
    device.executions_at_once = 1  # type: ignore[attr-defined]
    subject = compilation(device)
    turns = DeviceTurns(device, Priority.MEDIUM)
    with turns.turn(ExecuteOptions(deadline_s=time.monotonic() + 60.0)):
        execution(subject, None).compute()
        with pytest.raises(MissedDeadlineTransient, match="waiting for other executions"):
            execution(subject, 0.02).compute()
    assert device.executions == 1


def test_most_short_executions_with_ample_time_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """To wait would take longer than they do."""
    device = SimulatedDevice("turns of short ones")
    turns, now_s = DeviceTurns(device, Priority.MEDIUM), time.monotonic()
    assert turns.is_needed(now_s + 60.0), "nothing is known yet"
    turns._pace.add(1e-4)
    needed = [turns.is_needed(now_s + 60.0) for _ in range(160)]
    assert sum(needed) == 10
    assert turns.is_needed(now_s)
    turns._pace.add(10.0)
    assert all(turns.is_needed(now_s + 60.0) for _ in range(20))
    # The step asks.
    subject = compilation(device)
    waited: list[bool] = []
    turn = DeviceTurns.turn

    def noting(turns: DeviceTurns, options: ExecuteOptions) -> AbstractContextManager[None]:
        waited.append(True)
        return turn(turns, options)

    monkeypatch.setattr(DeviceTurns, "turn", noting)
    for is_needed in (False, True):
        monkeypatch.setattr(DeviceTurns, "is_needed", lambda *_, needed=is_needed: needed)
        execution(subject, 60.0).compute()
        assert waited == [True] * is_needed


@pytest.mark.forks
def test_a_child_process_waits_for_no_thread_of_its_parent() -> None:
    device = SimulatedDevice("turns of parents")
    device.executions_at_once = 1  # type: ignore[attr-defined]
    turns, options = DeviceTurns(device, Priority.MEDIUM), ExecuteOptions(deadline_s=time.monotonic() + 10.0)

    def take() -> None:
        with turns.turn(options):
            pass

    with turns.turn(options):
        in_child(take)


@pytest.mark.timed
def test_at_twice_the_load_most_of_the_goodput_stays() -> None:
    """The device takes several executions at once, and runs one after another."""
    run_s, limit_s, count = 0.01, 0.06, 300
    device = SimulatedDevice("turns under load", default_s=run_s)
    subject = compilation(device)
    execution(subject, 60.0).compute()
    ends: Counter[str] = Counter()

    def ask() -> None:
        asked, begun_s = execution(subject, limit_s), time.perf_counter()
        try:
            asked.compute()
        except Error:
            ends["refused"] += 1
        else:
            ends["in time" if time.perf_counter() - begun_s <= limit_s else "late"] += 1

    begun_s = time.perf_counter()
    threads = [threading.Thread(target=ask) for _ in range(count)]
    for number, thread in enumerate(threads):
        time.sleep(max(0.0, begun_s + number * run_s / 2 - time.perf_counter()))
        thread.start()
    for thread in threads:
        thread.join()
    # It is 0.45 of them and more on a machine that has nothing else to do, 0.24 was seen on a busy
    # one, and it was 0.05.
    assert ends["in time"] >= 0.15 * count, ends
