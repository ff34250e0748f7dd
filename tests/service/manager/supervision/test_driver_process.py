"""A process of a driver as the manager sees it, apart from what drivers do."""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable

import pytest
from support.daemon.processes import is_alive
from support.process.processes import has_pidfds_of_threads

from neurald.service.daemon.notifications import THREADS
from neurald.service.manager.supervision.driver_process import DriverProcess

_WAIT_S = 60.0


async def _ended(launch: Callable[[int, int, int], Awaitable[int]]) -> DriverProcess:
    """Starts a process, and waits for its end."""
    ends = asyncio.Event()
    process = DriverProcess(launch, lambda text, level: None, lambda _: ends.set())
    async with asyncio.timeout(_WAIT_S):
        await ends.wait()
    return process


def test_one_that_has_ended_is_neither_aborted_nor_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its id may be another process's by then."""

    async def launch(*_: int) -> int:
        return os.posix_spawn("/bin/true", ["true"], {}, setsid=True)

    async def test() -> None:
        process = await _ended(launch)
        assert process.exit_text == "status 0"
        killed: list[int] = []
        monkeypatch.setattr(os, "killpg", lambda group, number: killed.append(group))
        process.kill()
        process.abort()
        await asyncio.sleep(0.5)  # longer than it has for writing its stacks
        assert not killed

    asyncio.run(test())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(11, "Resource temporarily unavailable"), "Resource temporarily unavailable"),
        (ValueError("embedded null byte"), "embedded null byte"),
        (NotImplementedError(), "NotImplementedError"),
    ],
)
def test_one_that_cannot_be_started_says_why(error: Exception, reason: str) -> None:
    async def launch(*_: int) -> int:
        raise error

    async def test() -> None:
        process = await _ended(launch)
        assert process.pid is None
        assert process.failure == f"it could not be started: {reason}"

    asyncio.run(test())


#: Its thread ends with standard input, and it ends a minute later.
_THREAD_ENDS_FIRST = """
import os, sys, threading, time
def run():
    os.write(2, f"{threading.get_native_id()}\\n".encode())
    os.read(0, 1)
threading.Thread(target=run).start()
time.sleep(60)
"""


@pytest.mark.skipif(not has_pidfds_of_threads(), reason="needs Linux 6.9, which tells the end of threads")
def test_the_end_of_a_thread_that_serves_is_noticed_before_that_of_the_process() -> None:
    async def launch(stdin: int, stderr: int, _: int) -> int:
        files = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stderr, 2)]
        command = [sys.executable, "-c", _THREAD_ENDS_FIRST]
        return os.posix_spawn(sys.executable, command, {}, file_actions=files, setsid=True)

    async def test() -> None:
        said: asyncio.Queue[str] = asyncio.Queue()
        ended, ends = asyncio.Event(), asyncio.Event()
        process = DriverProcess(
            launch, lambda text, _: said.put_nowait(text), lambda _: ended.set(), lambda _: ends.set()
        )
        async with asyncio.timeout(_WAIT_S):
            thread = await said.get()
            process.watch_threads({THREADS: f"{thread},{thread},{threading.get_native_id()}"})
            await asyncio.sleep(0.1)
            assert not ends.is_set()
            process.begin()  # closes standard input
            await ends.wait()
            assert process.pid is not None
            assert is_alive(process.pid)
            assert not ended.is_set()
            process.kill_later(0.0)
            await ended.wait()

    asyncio.run(test())


@pytest.mark.parametrize("threads", ["", ",", "0", "-1", "9" * 30, "\u0663", "x", "1," * 1000])
def test_what_is_no_thread_is_not_watched(threads: str) -> None:
    async def launch(*_: int) -> int:
        return os.posix_spawn("/bin/true", ["true"], {}, setsid=True)

    async def test() -> None:
        ended, ends = asyncio.Event(), asyncio.Event()
        process = DriverProcess(launch, lambda *_: None, lambda _: ended.set(), lambda _: ends.set())
        process.watch_threads({THREADS: threads})
        async with asyncio.timeout(_WAIT_S):
            await ended.wait()
        assert not ends.is_set()

    asyncio.run(test())
