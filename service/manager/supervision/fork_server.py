"""The process that forks the processes of a driver, as the service manager sees it."""

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from neurald.hal.process.orphans import ORPHANS
from neurald.service.daemon.forking import FORKS, MAX_ANSWER_BYTES, REQUEST

#: A server that does not answer for this long is not used any more.
_ANSWER_S: Final = 5.0


class ForkServer:
    """A process that has loaded the modules of a daemon, and forks one whenever it is asked.

    Args:
        command: the command of the server.
        environment: the environment of the server and the processes that it forks.
        ended: the function that is called once it has ended.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        ended: Callable[["ForkServer"], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = ended
        self._asking = asyncio.Lock()
        self._is_ready = False
        with contextlib.ExitStack() as cleanup:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            cleanup.callback(ours.close)
            with its:
                self._process = subprocess.Popen(  # noqa: S603 - this program
                    command,
                    env=environment,
                    stdin=its.fileno(),
                    stdout=subprocess.DEVNULL,
                    # What makes it fail makes a process fail that is not forked, too, and tells.
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            cleanup.callback(self._process.wait)
            cleanup.callback(self._process.kill)
            self._pidfd = os.pidfd_open(self._process.pid)
            cleanup.pop_all()
        ORPHANS.started(self._process.pid)
        ours.setblocking(False)
        self._connection = ours
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    async def fork(self, stdin: int, stderr: int, breadcrumbs: int) -> int:
        """Makes the server fork a process with these descriptors; returns the id of this new child.

        Raises:
            OSError: it cannot fork, or has ended.
        """
        try:
            async with self._asking:
                return await self._fork([stdin, stderr, breadcrumbs])
        except BaseException:
            # It may still answer, which nobody would wait for.
            self.kill()
            raise
        finally:
            self._close_at_end()

    async def _fork(self, descriptors: list[int]) -> int:
        if not self._is_ready:
            if (answer := await self._receive()) != FORKS:
                raise OSError(_reason(answer))
            self._is_ready = True
        # The process becomes a child of this one before its id is known.
        with ORPHANS.starting():
            socket.send_fds(self._connection, [REQUEST], descriptors)
            try:
                async with asyncio.timeout(_ANSWER_S):
                    answer = await self._receive()
            except TimeoutError:
                raise TimeoutError(f"it does not answer within {_ANSWER_S:g} s") from None
            if not answer.isdigit():
                raise OSError(_reason(answer))
            ORPHANS.started(int(answer))
        return int(answer)

    async def _receive(self) -> bytes:
        return await self._loop.sock_recv(self._connection, MAX_ANSWER_BYTES)

    def _close_at_end(self) -> None:
        """Closes the connection once the server has ended and nobody waits for an answer."""
        if self._process.returncode is not None and not self._asking.locked():
            self._connection.close()

    def kill(self) -> None:
        """Ends the server; the processes that it has forked go on."""
        if self._process.returncode is None:
            self._process.kill()

    def _reap(self) -> None:
        self._process.wait()
        ORPHANS.ended(self._process.pid)
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._close_at_end()
        self._ended(self)


def _reason(answer: bytes) -> str:
    """Returns the reason that an answer, or its lack, gives."""
    return answer.decode(errors="replace") or "it has ended"
