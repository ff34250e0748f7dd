"""Processes that drain: each may take the drain time, and is terminated if it is silent."""

import asyncio
from typing import Any

from neurald.service.daemon import notifications
from neurald.service.manager.settings.configuration import DriverSettings
from neurald.service.manager.supervision.draining_processes import STOP_SLACK_S, DrainingProcesses
from neurald.service.manager.supervision.timers import NamedTimers

_SETTINGS = DriverSettings(driver="adder", drain_s=2.0)


class _Process:
    """Stands for a process, and records what is done with it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.within_s: float | None = None
        self.was_aborted = asyncio.Event()

    def stop(self, within_s: float) -> None:
        self.within_s = within_s

    def abort(self) -> None:
        self.was_aborted.set()


def test_a_process_drains_until_it_has_ended() -> None:
    async def test() -> None:
        leaving = DrainingProcesses(NamedTimers(asyncio.get_running_loop()))
        one: Any = _Process(1)
        other: Any = _Process(2)
        assert not leaving
        assert not leaving.ended(one), "it did not drain"
        leaving.drain(one, _SETTINGS)
        assert leaving
        assert list(leaving) == [one]
        assert one.within_s == 2.0 + STOP_SLACK_S
        assert [leaving.find(pid) == one for pid in (1, 2)] == [True, False]
        assert not leaving.ended(other)
        assert leaving.ended(one)
        assert not leaving
        leaving.drain(other, DriverSettings(driver="adder", drain_s=None))
        assert other.within_s == STOP_SLACK_S

    asyncio.run(test())


def test_a_process_that_becomes_silent_while_it_drains_is_terminated() -> None:
    async def test() -> None:
        leaving = DrainingProcesses(NamedTimers(asyncio.get_running_loop()))
        silent: Any = _Process(1)
        done: Any = _Process(2)
        over: Any = _Process(3)
        for process in (silent, done, over):
            leaving.drain(process, _SETTINGS)
            leaving.notified(process, {notifications.WATCHDOG: "1"}, 0.01)
        leaving.notified(done, {notifications.STOPPING: "1"}, 0.01)
        leaving.ended(over)
        async with asyncio.timeout(60):
            await silent.was_aborted.wait()
        await asyncio.sleep(0.03)
        assert not done.was_aborted.is_set()
        assert not over.was_aborted.is_set()

    asyncio.run(test())
