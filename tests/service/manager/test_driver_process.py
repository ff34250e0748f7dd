"""A process of a driver as the manager sees it, apart from what drivers do."""

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest

from neurald.service.manager.driver_process import DriverProcess

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
