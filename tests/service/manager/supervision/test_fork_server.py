"""The fork server as the manager sees it: it forks, or fails with a reason, and never hangs."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import pytest
from support.daemon.processes import bare_environment, is_alive
from support.waiting import wait_until

from neurald.hal.crashes.breadcrumbs import create_memory
from neurald.service.manager.supervision import fork_server
from neurald.service.manager.supervision.fork_server import ForkServer

_WAIT_S = 60.0


def _run(test: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(_WAIT_S):
            await test

    asyncio.run(limited())


class _Servers:
    """Creates servers, and waits for their ends."""

    def __init__(self) -> None:
        self.ended: list[ForkServer] = []

    def start(self, *program: str) -> ForkServer:
        """Starts one with a program in Python; without one, that of a driver."""
        command = [sys.executable, "-c", *program] if program else _command()
        return ForkServer(command, bare_environment(), self.ended.append)

    async def wait(self, count: int) -> None:
        """Waits until this many have ended."""
        while len(self.ended) < count:
            await asyncio.sleep(0.01)


def _command() -> list[str]:
    command = [sys.executable, "-m", "neurald", "driver", "sample-all", "--await-start"]
    return [*command, "--sandbox", "off", "--fork"]


async def _forked(server: ForkServer) -> tuple[int, int]:
    """Has it fork a process; returns its id, and the descriptor whose end it waits for."""
    its_stdin, stdin = os.pipe()
    its_stderr, breadcrumbs = os.open(os.devnull, os.O_WRONLY), create_memory()
    try:
        return await server.fork(its_stdin, its_stderr, breadcrumbs), stdin
    except BaseException:
        os.close(stdin)
        raise
    finally:
        for descriptor in (its_stdin, its_stderr, breadcrumbs):
            os.close(descriptor)


def test_processes_are_forked_one_after_another() -> None:
    async def test() -> None:
        servers = _Servers()
        server = servers.start()
        forked = await asyncio.gather(*(_forked(server) for _ in range(3)))
        assert len({pid for pid, _ in forked}) == 3
        server.kill()
        await servers.wait(1)
        assert all(is_alive(pid) for pid, _ in forked)
        for pid, stdin in forked:
            os.close(stdin)
            wait_until(lambda: not is_alive(pid))  # noqa: B023 - it is called at once

    _run(test())


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("pass", "it has ended"),
        ("import socket; socket.socket(fileno=0).send(b'it has threads')", "it has threads"),
        (
            "import socket; s = socket.socket(fileno=0); s.send(b'forks'); s.recv(9); s.send(b'no memory')",
            "no memory",
        ),
    ],
)
def test_one_that_cannot_fork_says_why(program: str, reason: str) -> None:
    async def test() -> None:
        servers = _Servers()
        with pytest.raises(OSError, match=reason):
            await _forked(servers.start(program))
        await servers.wait(1)

    _run(test())


def test_one_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_ANSWER_S", 0.2)

    async def test() -> None:
        servers = _Servers()
        server = servers.start()
        pid, stdin = await _forked(server)
        os.close(stdin)
        os.kill(server.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError, match=r"does not answer within 0\.2 s"):
            await _forked(server)
        await servers.wait(1)
        wait_until(lambda: not is_alive(pid))

    _run(test())


def test_a_request_that_is_cancelled_ends_it() -> None:
    async def test() -> None:
        servers = _Servers()
        task = asyncio.create_task(_forked(servers.start("import time; time.sleep(600)")))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await servers.wait(1)

    _run(test())
