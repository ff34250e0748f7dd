"""Executions that do not end: clients are told, slots go to others, and the daemon recovers."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.addition import AddingDevice, addition, request
from support.process.threads import refuse_threads
from support.waiting import wait_until

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.executions import watchdog
from neurald.hal.admission.executions.watchdog import Watchdog
from neurald.hal.device import ExecuteOptions, KernelTime, PrepareOptions
from neurald.hal.errors import DeadObject, MissedDeadlineTransient, UnavailableDevice
from neurald.hal.model.request import Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.wire.device import DeviceStatus

NOW = PrepareOptions()
RUN = ExecuteOptions()
LIMIT_S = 1
MODEL = addition(np.zeros(3))
ENDLESS = np.full(3, -1, np.float32)
SHORT = np.ones(3, np.float32)


class Hanging(AddingDevice):
    """A device that executes inputs beginning with -1, and profiles, until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

        def on_execute(request: Request, options: ExecuteOptions) -> None:
            source = request.inputs[0]
            assert source.pool is not None
            (first,) = np.frombuffer(request.pools[source.pool].view(source.offset, 4), np.float32)
            if first < 0:
                self.go_on.wait()

        def on_profile() -> tuple[KernelTime, ...]:
            self.go_on.wait()
            return ()

        self.on_execute, self.on_profile = on_execute, on_profile


@pytest.fixture
def device() -> Iterator[Hanging]:
    device = Hanging()
    yield device
    device.go_on.set()


@pytest.fixture(params=["unix", "tcp"])
def address(request: pytest.FixtureRequest, tmp_path: Path, device: Hanging) -> Iterator[str]:
    place = f"unix://{tmp_path}/d.sock" if request.param == "unix" else "127.0.0.1:0"
    server = DeviceServer(device, Address.parse(place), limits=Limits(execution_s=LIMIT_S))
    server.start()
    yield str(server.address)
    device.go_on.set()
    server.stop()


def short(prepared: Any) -> list[float]:
    result = np.zeros(3, np.float32)
    prepared.execute(request(SHORT, result), RUN)
    return [float(each) for each in result]


def endless(mode: str, address: str) -> Callable[[], Any]:
    prepared = connect(address).prepare_model(MODEL, NOW)
    wanted = request(ENDLESS, np.zeros(3, np.float32))
    if mode == "burst":
        burst = prepared.create_burst()
        return lambda: burst.execute(wanted, RUN)
    if mode == "fenced":
        return lambda: prepared.execute_fenced(wanted, (), RUN).result()
    if mode == "profile":
        return prepared.profile
    return lambda: prepared.execute(wanted, RUN)


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["execute", "burst", "fenced", "profile"])
@pytest.mark.sampled(2)
def test_who_waits_is_told(mode: str, address: str, device: Hanging) -> None:
    other = connect(address)
    prepared = other.prepare_model(MODEL, NOW)
    call = endless(mode, address)
    started = time.monotonic()
    with pytest.raises(DeadObject, match=r"hangs: an execution has not ended within 1\.\d s"):
        call()
    assert LIMIT_S <= time.monotonic() - started < LIMIT_S + 2
    # Others go on with what they have, and nothing more is taken.
    assert short(prepared) == [1, 1, 1]
    assert other.status().device is DeviceStatus.OFFLINE
    for refused in (
        lambda: other.prepare_model(MODEL, NOW),
        lambda: other.supported_operations(MODEL),
    ):
        with pytest.raises(UnavailableDevice, match="adder hangs"):
            refused()
    device.go_on.set()
    end = time.monotonic() + 10
    while other.status().device is DeviceStatus.OFFLINE:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert short(other.prepare_model(MODEL, NOW)) == [1, 1, 1]
    # The call that hung and its session end a little after the device answers again.
    wait_until(lambda: (other.status().calls, other.status().sessions) == (0, 1))


@pytest.mark.slow
def test_turns_are_not_lost(address: str, device: Hanging) -> None:
    """More executions hang than the device runs at the same time."""
    other = connect(address)
    prepared = other.prepare_model(MODEL, NOW)
    calls = [endless("execute", address) for _ in range(24)]
    outcomes: list[str] = []

    def work(call: Callable[[], Any]) -> None:
        try:
            call()
        except DeadObject as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(outcomes) == len(calls)
    assert short(prepared) == [1, 1, 1]
    # A client has its answer before the daemon has counted the call as ended.
    wait_until(lambda: other.status().calls == 0)


@pytest.mark.slow
def test_an_execution_with_a_deadline_is_late_before_it_hangs(address: str) -> None:
    prepared = connect(address).prepare_model(MODEL, NOW)
    with pytest.raises(MissedDeadlineTransient):
        prepared.execute(
            request(ENDLESS, np.zeros(3, np.float32)), ExecuteOptions(deadline_s=time.monotonic() + 0.2)
        )


def test_a_deadline_has_a_grace_period() -> None:
    found: list[float] = []
    dog: Watchdog[str] = Watchdog(60, 0.3, lambda owner, taken_s, thread: found.append(taken_s))
    dog.begin("late", time.monotonic() + 0.1)
    end = time.monotonic() + 10
    while not found:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert found[0] >= 0.4
    dog.end()
    dog.begin("in time", time.monotonic() + 60)
    time.sleep(0.5)
    assert dog.end()


def test_short_executions_are_never_found() -> None:
    found: list[str] = []
    dog: Watchdog[str] = Watchdog(60, 1, lambda owner, taken_s, thread: found.append(owner))
    for _ in range(1000):
        dog.begin("short", None)
        assert dog.end()
    assert not found
    assert not dog.hanging


def test_executions_are_watched_as_soon_as_there_is_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    watchdog = Watchdog[str](0.05, 0.0, lambda owner, seconds, thread: found.append(owner))
    refuse_threads(monkeypatch)
    watchdog.begin("first", None)
    assert watchdog.end()
    monkeypatch.undo()
    watchdog.begin("second", None)
    wait_until(lambda: found == ["second"])
    assert not watchdog.end()


def test_an_execution_is_found_once() -> None:
    found: list[str] = []
    dog: Watchdog[str] = Watchdog(0.05, 1, lambda owner, taken_s, thread: found.append(owner))
    dog.begin("long", None)
    end = time.monotonic() + 10
    while not found:
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(0.1)
    assert found == ["long"]
    assert dog.hanging == 1
    assert not dog.end()
    assert dog.hanging == 0
    dog.begin("again", None)
    assert dog.end()


class Running:
    """Executions of native code, one of which has run for long."""

    def __init__(self, *, has_ended: bool) -> None:
        self.started_ns = time.monotonic_ns() - 10_000_000_000
        self.asked = threading.Event()
        self._has_ended = has_ended

    def give_up(self, started_ns: int) -> bool:
        assert started_ns == self.started_ns
        self.started_ns = 0
        self.asked.set()
        return not self._has_ended


@pytest.mark.parametrize("has_ended", [False, True])
def test_executions_of_native_code_are_given_up_unless_they_have_ended(has_ended: bool) -> None:
    found: list[str] = []
    watchdog: Watchdog[str] = Watchdog(5.0, 0.0, lambda owner, taken_s, thread: found.append(owner))
    watchdog._interval_s = 0.001
    runs = Running(has_ended=has_ended)
    watchdog.begin_native("owner", runs)
    assert runs.asked.wait(30)
    if has_ended:
        wait_until(lambda: watchdog.hanging == 0)
        assert not found
    else:
        wait_until(lambda: found)
        assert watchdog.hanging == 1
    watchdog.end_native()
    assert watchdog.hanging == 0


def test_the_thread_ends_when_it_is_idle_and_another_one_watches_what_begins_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "_IDLE_S", 1e-4)
    monkeypatch.setattr(watchdog, "_MIN_INTERVAL_S", 1e-4)
    found: list[int] = []
    watched: Watchdog[int] = Watchdog(1e-3, 0.0, lambda owner, *_: found.append(owner))
    for number in range(300):
        if number % 10 == 0:
            wait_until(lambda: watched._thread is None)
        watched.begin(number, None)
        # It hangs, whatever the last thread was doing.
        wait_until(lambda number=number: found[-1:] == [number])  # type: ignore[misc]
        assert not watched.end()
    wait_until(lambda: watched._thread is None)
    assert found == list(range(300))
