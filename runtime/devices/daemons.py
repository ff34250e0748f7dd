"""Manages the connections to driver daemons, each of which serves one device at an address.

A daemon that a service manager starts on demand has a device before it has a process: one with the
properties that were measured the last time (`neurald.runtime.devices.on_demand`).
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from neurald.hal.device import Device
from neurald.hal.errors import (
    AnotherDevice,
    BadState,
    DeadObject,
    DriverUnable,
    Error,
    ResourceExhaustedTransient,
    UnavailableDevice,
)
from neurald.hal.process.activation import MANAGER_SOCKET, is_managed, is_served, is_standing_by
from neurald.hal.process.address import Address
from neurald.hal.process.autostart import ensure_manager
from neurald.hal.process.files.runtime_directory import runtime_directory
from neurald.hal.process.fork import forkable_lock, grpc_obstacle
from neurald.hal.process.grpc_import import import_grpc
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.sync.deadline import remaining_s
from neurald.runtime.devices import measurements
from neurald.runtime.devices.measurements import Failure, Measurement
from neurald.runtime.devices.on_demand import OnDemandDevice

if TYPE_CHECKING:
    from neurald.hal.rpc.client.device import RemoteDevice
    from neurald.hal.rpc.transport.tls_files import TlsFiles

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")

#: A daemon is not retried for a while if a failed connection attempt took longer than this. An
#: attempt that fails immediately costs nothing, and the daemon may be back at any time.
_SLOW_FAILURE_S = 0.5
#: The same for an attempt to start a driver.
_SLOW_START_S = 0.05
_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 30.0
#: How long a driver may take to start, and how often a manager that is just ending is replaced.
_START_S = 20.0
_STARTS = 3
#: How long a daemon on another host may take to open a session when devices are listed.
_HOST_S = 2.0
#: How long a daemon may take to say whether its device is ready. One that is busy is regarded as
#: ready.
_READY_S = 0.2


class DaemonConnection:
    """The connection to the daemon at one address. Thread-safe.

    Args:
        address: the address of the daemon.

    Attributes:
        starts_manager: whether a service manager is started for the daemon if none runs.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.starts_manager = False
        self._parsed = Address.parse(address)
        self._on_demand: OnDemandDevice | None = None
        self._token_file: Path | None = None
        self._tls: TlsFiles | None = None
        self._lock = forkable_lock()
        self._device: RemoteDevice | None = None
        self._reported = ""
        self._pause_s = 0.0
        self._retry_at = 0.0

    def use_tls(self, files: "TlsFiles | None") -> None:
        """Uses files for mutual TLS from now on, unless the application has chosen some."""
        self._tls = self._tls or files

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

    @property
    def is_new(self) -> bool:
        """True if the driver starts on demand, and nothing is known about its device yet."""
        if not self.starts_manager or self._device is not None or self._known() is not None:
            return False
        try:
            return self._starts_when_needed()
        except UnavailableDevice:
            return False

    @property
    def is_to_be_retried(self) -> bool:
        """True if the driver could not start some time ago, and might now."""
        known = self._known() if self.starts_manager else None
        return isinstance(known, Failure) and known.is_due

    @property
    def failure(self) -> str:
        """The reason why the driver cannot start; empty if nothing is known to prevent it."""
        known = self._known()
        return known.reason if isinstance(known, Failure) else ""

    def keep_failure(self, reason: str) -> None:
        """Remembers that the driver could not start, unless its device is known."""
        if not isinstance(self._known(), Measurement):
            measurements.store_failure(self._parsed, reason)

    def find(self, deadline_s: float | None = None) -> "Device":
        """Returns the device, if it is ready, without starting its driver.

        Args:
            deadline_s: when the daemon must have answered, on the clock of `time.monotonic()`.

        Raises:
            UnavailableDevice: the daemon cannot be reached, or its device is not ready; the message
                says why.
            Error: the daemon refuses a session.
        """
        device = self._device
        if device is not None and device.is_alive:
            device.require_ready(_READY_S)
            return self._on_demand or device
        if not self._starts_when_needed():
            if not self._parsed.is_loopback:
                # Listing devices must not wait long for a host that is switched off.
                limit_s = time.monotonic() + _HOST_S
                deadline_s = limit_s if deadline_s is None else min(limit_s, deadline_s)
            return self._same(self.connect(deadline_s))
        if cause := grpc_obstacle():
            raise UnavailableDevice(cause)
        known = self._known()
        if isinstance(known, Failure):
            raise UnavailableDevice(f"the driver at {self.address} cannot start: {known.reason}")
        if known is None:
            return self._same(self.connect(deadline_s))
        with self._lock:
            if self._on_demand is None or not self._on_demand.is_like(known):
                self._on_demand = OnDemandDevice(self._parsed, known, self.connect)
            return self._on_demand

    def _same(self, device: "RemoteDevice") -> "Device":
        """Returns the device as the application knows it."""
        known = self._on_demand
        return known if known is not None and known.name == device.name else device

    def _starts_when_needed(self) -> bool:
        """Returns whether a manager stands in for the daemon, or could if it was started.

        Raises:
            UnavailableDevice: there is one, and it does not start the driver now.
        """
        if is_standing_by(self._parsed):
            return True
        path = self._parsed.path
        return self.starts_manager and path is not None and not is_served(path)

    def _known(self) -> "Measurement | Failure | None":
        return measurements.load(self._parsed)

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
            BadState: it is connected with another certificate, or without one.
            Error: the daemon refuses a session.
        """
        alive = self._alive(tls)
        if alive is not None:
            return alive
        with self._lock:
            alive = self._alive(tls)  # Another thread may have connected meanwhile.
            if alive is not None:
                return alive
            before = self._token_file, self._tls
            self._token_file = token_file or self._token_file
            self._tls = tls or self._tls
            started = time.monotonic()
            try:
                self._device = self._connected(deadline_s)
            except Error:
                self._token_file, self._tls = before
                if self._device is not None:
                    self._device.token_file, self._device.tls = before
                now = time.monotonic()
                limit_s = _SLOW_START_S if self.starts_manager else _SLOW_FAILURE_S
                if now > started + limit_s:
                    self._pause_s = min(_MAX_PAUSE_S, max(_FIRST_PAUSE_S, self._pause_s * 2))
                    self._retry_at = now + self._pause_s
                raise
            self._pause_s = self._retry_at = 0.0
            self._reported = ""
            return self._device

    def _alive(self, tls: "TlsFiles | None") -> "RemoteDevice | None":
        """Returns the device if the application is connected.

        Raises:
            BadState: it is connected with another certificate than `tls`, or without one.
        """
        device = self._device
        if device is None or not device.is_alive:
            return None
        if tls is not None and tls != self._tls:
            raise BadState(
                f"the application is connected to {self.address} without the certificate {tls.certificate}; close "
                "that device before you connect with this one"
            )
        return device

    def _connected(self, deadline_s: float | None) -> "RemoteDevice":
        if not self.starts_manager:
            return self._remembered(self._connected_once(deadline_s))
        limit_s = time.monotonic() + _START_S
        limit_s = limit_s if deadline_s is None else min(limit_s, deadline_s)
        for attempt in range(1, _STARTS + 1):
            path = self._parsed.path
            if path is None or not is_served(path):
                ensure_manager(limit_s)
            try:
                return self._remembered(self._connected_once(limit_s))
            except DriverUnable as error:
                measurements.store_failure(self._parsed, str(error))
                raise
            except UnavailableDevice:
                # The manager may have been about to end.
                if attempt == _STARTS or (path is not None and is_served(path.with_name(MANAGER_SOCKET))):
                    raise
        raise AssertionError("unreachable")

    def _remembered(self, device: "RemoteDevice") -> "RemoteDevice":
        """Returns the device after keeping its properties, if a manager starts its driver."""
        path = self._parsed.path
        if path is not None and path.parent == runtime_directory() and is_managed(path):
            measurements.store(self._parsed, device)
        return device

    def _connected_once(self, deadline_s: float | None) -> "RemoteDevice":
        import_grpc()  # here, since it takes long
        from neurald.hal.rpc.client.device import connect

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
            continues, but its result is dropped. ResourceExhaustedTransient for a call for which no
            thread can be started.
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
    threads = []
    for number in range(len(calls)):
        thread = CheckedThread(target=run, args=(number,), name="neurald device query", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            results[number] = ResourceExhaustedTransient(f"a device cannot be asked: {error}")
        else:
            threads.append(thread)
    for thread in threads:
        thread.join(remaining_s(deadline_s))
    return list(results)
