"""The socket that stands in for a driver that does not run."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from neurald.hal.process.activation import GREETING, STATE, is_served
from neurald.hal.process.files.own_file import OwnFile
from neurald.hal.process.peer import Peer, peer_of
from neurald.service.manager.conversations import ConversationLimit

#: Maximum number of clients that wait, of all users and of one, and the time in which each has to
#: send its request.
_MAX_CLIENTS: Final = 256
_MAX_USER_CLIENTS: Final = 192
_REQUEST_S: Final = 10.0
_PRIVATE: Final = 0o600


class StandbySocket:
    """Listens at the path of a driver's socket, and asks for the driver when a client does.

    `neurald.hal.process.activation` describes the conversation. Clients that speak another
    protocol, such as gRPC's own tools, start the driver, too, and find it when they connect again.

    A driver's process puts a socket of its own at the path. The file of a socket that a supervisor
    passed must come back afterwards, so it gets a second name for as long as the manager runs, or
    until the next manager comes.

    Args:
        path: the path of the driver's socket.
        activate: starts the driver; returns the line that tells a client what came of it.
        describe: returns the line for a client that only asks whether the driver can be started.
        refusal: returns the line for a process that may not start it; empty for others.
        mode: permissions of the socket's file.
        received: a socket at the path at which a supervisor listens; None for one of its own.
    """

    def __init__(
        self,
        path: Path,
        activate: Callable[[], Awaitable[bytes]],
        describe: Callable[[], bytes],
        refusal: Callable[[Peer], bytes],
        mode: int = 0o600,
        received: socket.socket | None = None,
    ) -> None:
        self._path = path
        self._activate = activate
        self._describe = describe
        self._refusal = refusal
        self._mode = mode
        self._received = received
        self._second_name = path.with_name(f".{path.name}.listening")
        self._server: asyncio.Server | None = None
        #: The file of its own socket, while it listens.
        self._file: OwnFile | None = None
        #: How often it was closed.
        self._closings = 0
        self._opening = asyncio.Lock()
        self._limit = ConversationLimit(total=_MAX_CLIENTS, of_user=_MAX_USER_CLIENTS)

    async def open(self) -> bool:
        """Listens, in the place of whatever is at the path, unless it is closed meanwhile.

        Returns:
            Whether it listens now.

        Raises:
            OSError: the socket cannot be created.
        """
        async with self._opening:
            if self._server is not None:
                return True
            closings = self._closings
            staging = self._path.with_name(f".{os.getpid()}-{self._path.stem}")
            listener = bind_private(staging) if self._received is None else self._received.dup()
            try:
                if self._received is None and self._mode != _PRIVATE:
                    staging.chmod(self._mode)
                server = await serve_unix(self._converse, listener)
                if self._closings != closings:
                    # A process listens at the path by now.
                    server.close()
                    staging.unlink(missing_ok=True)
                    return False
                self._server = server
                if self._received is not None:
                    self._name_received(staging)
                    staging.replace(self._path)
                else:
                    self._file = OwnFile(staging)
                    self._file.move(self._path)
            except OSError:
                self.close()
                listener.close()
                staging.unlink(missing_ok=True)
                raise
            # Two names of one file are not replaced by each other.
            staging.unlink(missing_ok=True)
            return True

    def _name_received(self, staging: Path) -> None:
        """Gives the supervisor's socket file its second name, and another beside the path."""
        if not is_served(self._second_name):
            # If it exists, the supervisor has created another socket since.
            self._second_name.unlink(missing_ok=True)
            os.link(self._path, self._second_name)
        staging.unlink(missing_ok=True)
        os.link(self._second_name, staging)

    def set_mode(self, mode: int) -> None:
        """Changes the permissions of the socket's file, unless a supervisor has made it."""
        if self._received is None and mode != self._mode:
            self._mode = mode
            if self._server is not None:
                self._path.chmod(mode)

    def close(self, *, removes: bool = False) -> None:
        """Stops listening. Clients that wait still get their answer.

        Args:
            removes: whether to remove the socket's file, if it is not another process's yet.
        """
        self._closings += 1
        if self._server is not None:
            self._server.close()
            self._server = None
            if self._received is not None:
                _refuse_waiting(self._received)
        if self._file is not None:
            if removes:
                self._file.remove()
            self._file.forget()
            self._file = None
        if removes and self._received is not None:
            self._second_name.unlink(missing_ok=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._limit.counted(writer) as is_allowed, contextlib.suppress(OSError, TimeoutError):
            if not is_allowed:
                return
            writer.write(GREETING)
            async with asyncio.timeout(_REQUEST_S):
                request = await reader.read(len(STATE))
            if request:
                peer = peer_of(writer.get_extra_info("socket"))
                answer = self._refusal(peer)
                if not answer:
                    answer = self._describe() if request == STATE else await self._activate()
                writer.write(answer)
                async with asyncio.timeout(_REQUEST_S):
                    await writer.drain()


async def serve_unix(
    converse: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], listener: socket.socket
) -> asyncio.Server:
    """Serves a UNIX socket, whose file remains when the server is closed."""
    if sys.version_info >= (3, 13):
        return await asyncio.start_unix_server(converse, sock=listener, cleanup_socket=False)
    return await asyncio.start_unix_server(converse, sock=listener)


def _refuse_waiting(listener: socket.socket) -> None:
    """Ends the connections that nobody has accepted, so that their clients connect again."""
    with contextlib.suppress(OSError):
        while True:
            listener.accept()[0].close()


def bind_private(path: Path, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """Binds a UNIX socket that only this user can open; replaces what is at the path.

    Raises:
        OSError: it cannot be bound.
    """
    path.unlink(missing_ok=True)
    opened = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK)
    try:
        # The file gets this mode, less the umask of the process.
        os.fchmod(opened.fileno(), _PRIVATE)
        opened.bind(str(path))
    except OSError:
        opened.close()
        raise
    return opened
