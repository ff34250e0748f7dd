"""Connections to driver daemons, one device per address."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from neurald.hal.errors import AnotherDevice, DeadObject, Error, UnavailableDevice
from neurald.hal.process.address import Address
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.deadline import remaining_s

if TYPE_CHECKING:
    from neurald.hal.rpc.client.device import RemoteDevice

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")

#: A daemon whose failed connection attempt took longer than this is not retried for a while. One
#: that refuses immediately costs nothing and may be back at any time.
_SLOW_FAILURE_S = 0.5
_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 30.0


class DaemonConnection:
    """Connection state of the daemon at one address. Thread-safe.

    Args:
        address: of the daemon.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._token_file: Path | None = None
        self._lock = forkable_lock()
        self._device: RemoteDevice | None = None
        self._pause_s = 0.0
        self._retry_at = 0.0

    @property
    def is_in_use(self) -> bool:
        """True if the application has connected to it and not closed the device."""
        device = self._device
        return device is not None and not device.is_closed

    @property
    def is_backing_off(self) -> bool:
        """True if the daemon recently did not answer and it is too early to retry."""
        return time.monotonic() < self._retry_at

    def connect(self, deadline_s: float | None = None, token_file: Path | None = None) -> "RemoteDevice":
        """Returns the daemon's device: the same object until another device is served there.

        Args:
            deadline_s: by when it must answer, on the clock of `time.monotonic()`.
            token_file: copy of its token file to use from now on; None for the current one.

        Raises:
            UnavailableDevice: it cannot be reached; the message says why.
            Error: it refuses a session.
        """
        device = self._device
        if device is not None and device.is_alive:
            return device
        with self._lock:
            self._token_file = token_file or self._token_file
            started = time.monotonic()
            try:
                self._device = self._connected(deadline_s)
            except Error:
                now = time.monotonic()
                if now > started + _SLOW_FAILURE_S:
                    self._pause_s = min(_MAX_PAUSE_S, max(_FIRST_PAUSE_S, self._pause_s * 2))
                    self._retry_at = now + self._pause_s
                raise
            self._pause_s = self._retry_at = 0.0
            return self._device

    def _connected(self, deadline_s: float | None) -> "RemoteDevice":
        from neurald.hal.rpc.client.device import connect  # gRPC is slow to import

        device = self._device
        if device is not None:
            try:
                device.token_file = self._token_file
                device.reconnect(deadline_s, at_once=True)
            except AnotherDevice:
                _LOGGER.info("another device is served at %s now", self.address)
            except DeadObject as error:
                raise UnavailableDevice(str(error)) from None
            else:
                return device
        return connect(self.address, deadline_s, self._token_file)


_lock = forkable_lock()
_daemons: dict[str, DaemonConnection] = {}


def connection_to(address: str) -> DaemonConnection:
    """Returns the state of the daemon at an address, in any spelling.

    Raises:
        BadData: the address is invalid.
    """
    spelled = str(Address.parse(address))
    with _lock:
        return _daemons.setdefault(spelled, DaemonConnection(spelled))


def connected_addresses() -> tuple[str, ...]:
    """Returns the addresses of the connected daemons, including lost ones."""
    with _lock:
        return tuple(daemon.address for daemon in _daemons.values() if daemon.is_in_use)


def run_concurrently(
    calls: Sequence[Callable[[], _T]], deadline_s: float | None = None
) -> list[_T | Error | None]:
    """Runs calls concurrently; returns their results or the errors that they raise.

    Args:
        calls: none of them may depend on the calling thread.
        deadline_s: how long to wait, on the clock of `time.monotonic()`.

    Returns:
        One result per call; None for a call that has not returned by then. It continues, but its
            result is dropped.
    """
    results: list[_T | Error | None] = [None] * len(calls)

    def run(number: int) -> None:
        try:
            results[number] = calls[number]()
        except Error as error:
            results[number] = error.with_traceback(None)

    if len(calls) == 1 and deadline_s is None:
        run(0)
        return results
    threads = [
        threading.Thread(target=run, args=(number,), name="neurald asks a device", daemon=True)
        for number in range(len(calls))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(remaining_s(deadline_s))
    return list(results)
