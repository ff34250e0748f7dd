"""A link to a daemon that can be cut, stalled, delayed and slowed down: a proxy on TCP."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Self

_CHUNK_BYTES = 1 << 16


class Link:
    """Forwards connections at a port of this host to a daemon.

    Args:
        target: the port of the daemon.

    Attributes:
        address: to connect to.
        delay_s: how long bytes take in each direction.
        bytes_per_s: how many bytes pass in each direction; None for no limit.
        connections: how many connections were made so far.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.delay_s = 0.0
        self.bytes_per_s: float | None = None
        self.connections = 0
        self._is_refusing = False
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._flows.set()
        self.cut()

    def cut(self, *, refuse: bool = False) -> None:
        """Cuts all connections; with `refuse` new ones are cut as well, until `restore`."""
        with self._lock:
            self._is_refusing = refuse
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            _reset(each)

    def restore(self) -> None:
        """Lets new connections pass again."""
        self._is_refusing = False

    def stall(self) -> None:
        """Lets no bytes pass until `resume`; connections stay open."""
        self._flows.clear()

    def resume(self) -> None:
        """Lets bytes pass again."""
        self._flows.set()

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=run, args=arguments, daemon=True, name="test link").start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_refusing:
                _reset(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _reset(client)
                continue
            self.connections += 1
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets += [client, server]
            self._start(self._pump, client, server)
            self._start(self._pump, server, client)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        free_at = time.monotonic()
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                now = time.monotonic()
                if self.bytes_per_s is not None:
                    free_at = max(free_at, now) + len(data) / self.bytes_per_s
                    now = free_at
                # Later bytes wait longer, so that the delay does not limit the speed.
                left_s = now + self.delay_s - time.monotonic()
                if left_s > 0:
                    time.sleep(left_s)
                self._flows.wait()
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _reset(connection: socket.socket) -> None:
    """Closes a connection so that the peer gets an error at once."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
