"""The manager when a driver's process is about to end; see also `test_driver_life`."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from neurald.hal.admission.access.sharing import NOBODY_ELSE
from neurald.hal.crashes.breadcrumbs import create_memory
from neurald.hal.process.activation import READY, REFUSED
from neurald.service.crashes.autopsy import DriverEnd
from neurald.service.crashes.investigator import CrashInvestigator
from neurald.service.daemon import notifications
from neurald.service.manager.settings.configuration import DriverSettings
from neurald.service.manager.state import DriverState
from neurald.service.manager.supervision.supervised_driver import SupervisedDriver

_WAIT_S = 60.0


class _Process:
    """Stands for a process that serves, and records what is done with it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.failure = ""
        self.last_lines: deque[str] = deque()
        self.has_begun, self.is_stopping = True, False
        self.ready_s: float | None = 0.0
        self.sandbox, self.sandbox_missing = None, ()
        self.breadcrumbs = create_memory()
        self.helper_deaths = 0
        self.exit_text = "signal SIGKILL"
        self.end = DriverEnd(status=-9)
        self.deeds: list[str] = []

    def begin(self) -> None:
        self.ready_s = None

    def kill_later(self, within_s: float) -> None:
        self.deeds.append(f"kill after {within_s:g} s")

    def stop(self, within_s: float) -> None:
        self.is_stopping = True
        self.deeds.append("stop")

    def describe_sandbox(self, values: object) -> None:
        pass

    def watch_threads(self, values: object) -> None:
        self.deeds.append("watch")


def with_driver(folder: Path, test: Callable[[SupervisedDriver, Any], Coroutine[Any, Any, None]]) -> None:
    """Runs a test of a driver whose process serves."""

    async def run() -> None:
        settings = DriverSettings(driver="adder", idle_s=0.0, drain_s=1.0, spare=False)
        driver = SupervisedDriver(
            "adder", settings, NOBODY_ELSE, folder, folder / "notify", CrashInvestigator(None)
        )
        process: Any = _Process(1001)
        driver._process, driver._record.state = process, DriverState.READY
        async with asyncio.timeout(_WAIT_S):
            await test(driver, process)
        driver._clients._standby.close(removes=True)
        os.close(process.breadcrumbs)

    asyncio.run(run())


def test_one_that_ends_is_not_ready_any_more_and_clients_wait_for_its_end(folder: Path) -> None:
    async def test(driver: SupervisedDriver, process: Any) -> None:
        driver._process_ends(process)
        status = driver.status()
        assert (status.state, status.reason) == (DriverState.BACKOFF, "it ended by itself")
        assert status.deaths == 0
        # If it goes on nevertheless, it cannot serve.
        assert process.deeds == ["kill after 2 s"]
        driver._process_ends(process)
        assert len(process.deeds) == 1
        client = asyncio.ensure_future(driver._clients._activate())
        await asyncio.sleep(0.05)
        assert not client.done()
        started: list[None] = []
        driver._clients._start = lambda: started.append(None)
        driver._process_ended(process)
        await client
        assert started
        assert (driver.status().deaths, driver.status().last_exit) == (1, "signal SIGKILL")

    with_driver(folder, test)


def test_clients_of_one_that_does_not_end_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neurald.service.manager.supervision.driver_clients._MAX_WAIT_S", 0.01)

    async def test(driver: SupervisedDriver, process: Any) -> None:
        driver._process_ends(process)
        assert await driver._clients._activate() == REFUSED + b"it ended by itself\n"

    with_driver(folder, test)


def test_one_that_was_told_to_stop_ends_in_order(folder: Path) -> None:
    async def test(driver: SupervisedDriver, process: Any) -> None:
        process.is_stopping = True
        driver._process_ends(process)
        assert driver.status().state is DriverState.READY
        assert process.deeds == []

    with_driver(folder, test)


def test_a_successor_that_becomes_ready_before_the_end_serves(folder: Path) -> None:
    async def test(driver: SupervisedDriver, process: Any) -> None:
        successor: Any = _Process(1002)
        successor.ready_s = None
        driver._next = successor
        driver._process_ends(process)
        assert driver.notified(1002, {notifications.READY: "1", notifications.THREADS: "1"})
        assert successor.deeds == ["watch"]
        assert driver.status().state is DriverState.READY
        assert await driver._clients._activate() == READY
        await asyncio.gather(*driver._tasks)
        assert driver._clients._standby._server is None, "nothing takes the place of its socket"
        driver._process_ended(process)
        status = driver.status()
        assert (status.state, status.process, status.deaths) == (DriverState.READY, 1002, 0)
        os.close(successor.breadcrumbs)

    with_driver(folder, test)


def test_what_is_no_number_counts_as_nothing(folder: Path) -> None:
    async def test(driver: SupervisedDriver, process: Any) -> None:
        for text in ("", "-1", "\u0663", "x", "1e3"):
            driver.notified(1001, {notifications.SESSIONS: text, notifications.HELPER_DEATHS: text})
            assert driver.status().sessions == 0
        driver.notified(1001, {notifications.SESSIONS: "3"})
        assert driver.status().sessions == 3
        driver._timers.cancel_all()

    with_driver(folder, test)


def test_one_that_ends_while_it_is_retired_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(driver: SupervisedDriver, process: Any) -> None:
        retiring = asyncio.ensure_future(driver._retire("it had no clients"))
        await asyncio.sleep(0)
        driver._process_ends(process)
        await retiring
        assert driver.status().state is DriverState.DRAINING
        driver._process_ended(process)
        assert driver.status().state is DriverState.STOPPED
        # Its successor is not taken for one that ends.
        successor: Any = _Process(1002)
        driver._process = successor
        driver._became_ready(successor)
        assert await driver._clients._activate() == READY
        driver.notified(1002, {notifications.SESSIONS: "3"})
        assert driver.status().sessions == 3
        driver._timers.cancel_all()
        os.close(successor.breadcrumbs)

    with_driver(folder, test)


def test_one_that_is_replaced_while_it_is_retired_serves_on(folder: Path) -> None:
    async def test(driver: SupervisedDriver, process: Any) -> None:
        successor: Any = _Process(1002)
        driver._next = successor
        retiring = asyncio.ensure_future(driver._retire("it had no clients"))
        await asyncio.sleep(0)
        driver._became_ready(successor)
        await retiring
        assert (process.deeds, successor.deeds) == (["stop"], [])
        assert driver.status().process == 1002
        assert await driver._clients._activate() == READY
        driver._timers.cancel_all()
        os.close(successor.breadcrumbs)

    with_driver(folder, test)


@pytest.mark.parametrize("becomes_ready", [True, False])
def test_why_a_new_process_was_given_up_is_not_said_of_later_ones(
    folder: Path, *, becomes_ready: bool
) -> None:
    """It may become ready, or be told to stop with the old one, before it has ended."""

    async def test(driver: SupervisedDriver, process: Any) -> None:
        late, later = _Process(1002), _Process(1003)
        driver._next = late  # type: ignore[assignment]
        late.abort = lambda: None  # type: ignore[attr-defined]
        driver._start_took_too_long(late, 0.5)  # type: ignore[arg-type]
        if becomes_ready:
            driver._became_ready(late)  # type: ignore[arg-type]
        else:
            await driver._retire("it had no clients")
        driver._next = later  # type: ignore[assignment]
        driver._process_ended(later)  # type: ignore[arg-type]
        assert driver.status().reason == "a new process ended before it was ready (signal SIGKILL)"
        driver._timers.cancel_all()
        for each in (late, later):
            os.close(each.breadcrumbs)

    with_driver(folder, test)


def successors(driver: SupervisedDriver, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The processes that a driver creates from now on."""
    created: list[Any] = []

    def create() -> Any:
        created.append(_Process(2000 + len(created)))
        return created[-1]

    monkeypatch.setattr(driver, "_create_process", create)
    return created


@pytest.mark.parametrize("ends", [True, False])
def test_a_restart_meanwhile_replaces_what_is_about_to_serve(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    """A process that starts already has the earlier settings, and perhaps the earlier version."""

    async def test(driver: SupervisedDriver, process: Any) -> None:
        created = successors(driver, monkeypatch)
        both = driver.restart(), driver.restart(DriverSettings(driver="adder", drain_s=2.0, spare=False))
        assert len(created) == 1
        if ends:
            driver._process_ended(created[0])
        else:
            driver._became_ready(created[0])
        assert len(created) == 2
        assert not any(each.done() for each in both)
        driver._became_ready(created[1])
        assert [each.result().text for each in both] == ["adder: process 2001 serves"] * 2
        assert len(created) == 2
        driver._timers.cancel_all()
        for each in created:
            os.close(each.breadcrumbs)

    with_driver(folder, test)


def test_one_that_starts_is_replaced_when_it_is_ready(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(driver: SupervisedDriver, process: Any) -> None:
        created = successors(driver, monkeypatch)
        process.ready_s = None
        driver._record.state = DriverState.STARTING
        outcome = driver.restart(DriverSettings(driver="adder", drain_s=2.0, spare=False))
        assert not created
        driver._became_ready(process)
        driver._process_ended(created[0])
        assert outcome.result().refusal == (
            "adder: a new process ended before it was ready (signal SIGKILL); the old one stays"
        )
        driver._timers.cancel_all()
        os.close(created[0].breadcrumbs)

    with_driver(folder, test)


def test_what_comes_of_a_restart_is_told_in_each_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(driver: SupervisedDriver, process: Any) -> None:
        created = successors(driver, monkeypatch)
        outcome = driver.restart()
        await driver._retire("it had no clients")
        assert outcome.result().text == "adder: it stops, since it had no clients"
        assert driver.restart().result().text == "adder: it does not run, and starts at its next connection"
        driver._process, driver._record.state = driver._create_process(), DriverState.STARTING
        created[1].begin()
        outcome = driver.restart()
        driver._process_ended(created[1])
        assert outcome.result().refusal.startswith("adder: it did not become ready (signal SIGKILL)")
        driver._timers.cancel_all()
        for each in created:
            os.close(each.breadcrumbs)

    with_driver(folder, test)
