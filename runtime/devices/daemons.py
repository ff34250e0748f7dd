"""Manages the connections to driver daemons, each of which serves one device at an address."""

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
    from neurald.hal.rpc.transport.tls_files import TlsFiles

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")

#: A daemon is not retried for a while if a failed connection attempt took longer than this. An
#: attempt that fails immediately costs nothing, and the daemon may be back at any time.
_SLOW_FAILURE_S = 0.5
_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 30.0


class DaemonConnection:
    """The connection to the daemon at one address. Thread-safe.

    Args:
        address: of the daemon.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._token_file: Path | None = None
        self._tls: TlsFiles | None = None
        self._lock = forkable_lock()
        self._device: RemoteDevice | None = None
        self._reported = ""
        self._pause_s = 0.0
        self._retry_at = 0.0

    @property
    def is_in_use(self) -> bool:
        """True if the application has connected to the daemon and not closed its device."""
        device = self._device
        return device is not None and not device.is_closed

    def fails_anew(self, error: Error) -> bool:
        """Returns False if the last failure that was reported here had the same message."""
        is_new, self._reported = self._reported != str(error), str(error)
        return is_new

    @property
    def is_backing_off(self) -> bool:
        """True if the daemon did not answer recently and it is too early to retry."""
        return time.monotonic() < self._retry_at

    def connect(
        self,
        deadline_s: float | None = None,
        token_file: Path | None = None,
        tls: "TlsFiles | None" = None,
    ) -> "RemoteDevice":
        """Connects to the daemon, if necessary, and returns its device.

        Returns the same object until another device is served at the address.

        Args:
            deadline_s: when the daemon must have answered, on the clock of `time.monotonic()`.
            token_file: copy of the daemon's token file to use from now on; None for no change.
            tls: the client's files for mutual TLS, to use from now on; None for no change.

        Raises:
            UnavailableDevice: the daemon cannot be reached; the message says why.
            Error: the daemon refuses a session.
        """
        device = self._device
        if device is not None and device.is_alive:
            return device
        with self._lock:
            self._token_file = token_file or self._token_file
            self._tls = tls or self._tls
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
            self._reported = ""
            return self._device

    def _connected(self, deadline_s: float | None) -> "RemoteDevice":
        from neurald.hal.rpc.client.device import connect  # gRPC is slow to import

        device = self._device
        if device is not None:
            try:
                device.token_file, device.tls = self._token_file, self._tls
                device.reconnect(deadline_s, at_once=True)
            except AnotherDevice:
                _LOGGER.info("the daemon at %s serves another device now", self.address)
            except DeadObject as error:
                raise UnavailableDevice(str(error)) from None
            else:
                return device
        return connect(self.address, deadline_s, self._token_file, self._tls)


_lock = forkable_lock()
_daemons: dict[str, DaemonConnection] = {}


def connection_to(address: str) -> DaemonConnection:
    """Returns the connection to the daemon at an address; any spelling gives the same object.

    Raises:
        BadData: the address is invalid.
    """
    normalized = str(Address.parse(address))
    with _lock:
        return _daemons.setdefault(normalized, DaemonConnection(normalized))


def connected_addresses() -> tuple[str, ...]:
    """Returns the addresses of the daemons that the application uses, including lost ones."""
    with _lock:
        return tuple(daemon.address for daemon in _daemons.values() if daemon.is_in_use)


def run_concurrently(
    calls: Sequence[Callable[[], _T]], deadline_s: float | None = None
) -> list[_T | Error | None]:
    """Runs calls concurrently and returns their results, or the errors that they raise.

    Args:
        calls: functions that do not depend on the calling thread.
        deadline_s: when to stop waiting, on the clock of `time.monotonic()`.

    Returns:
        One result per call; None for a call that has not returned by the deadline. Such a call
            continues, but its result is dropped.
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
        threading.Thread(target=run, args=(number,), name="neurald device query", daemon=True)
        for number in range(len(calls))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(remaining_s(deadline_s))
    return list(results)
