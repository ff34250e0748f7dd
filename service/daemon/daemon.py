"""Daemon: serves a device at an address, from start-up to the end of its last call.

As long as it lives, a daemon holds a lock on a file beside its socket. Therefore one of two daemons
that start at the same time is refused, and the socket of a dead daemon can be distinguished from
that of a living one. On a stop request (SIGTERM or SIGINT) a daemon accepts no new work, completes
running calls, and removes its sockets. On a second request it does not wait for running calls.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

import msgspec
from grpc_health.v1 import health_pb2, health_pb2_grpc

from neurald.hal.accounting.events import event_counts
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.access.served_clients import OWN_USER, ServedClients
from neurald.hal.admission.admission import Admission
from neurald.hal.admission.calls.streams import StreamLimiter
from neurald.hal.crashes.breadcrumbs import Breadcrumbs
from neurald.hal.crashes.guard import CrashGuard
from neurald.hal.crashes.records import CrashRecords
from neurald.hal.crashes.watch import CrashWatch
from neurald.hal.device import Device
from neurald.hal.errors import BadData, UnavailableDevice
from neurald.hal.process.address import Address
from neurald.hal.process.descriptors import raise_descriptor_limit
from neurald.hal.process.files.runtime_directory import address_of, prepare_directory
from neurald.hal.process.memory.garbage import GarbageCollector
from neurald.hal.process.memory.heap import HeapTrimmer
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.records import replace
from neurald.hal.registry import create_device
from neurald.hal.rpc.server.grpc_service import SERVICE
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.validation.device_rules import validate_description
from neurald.service.daemon.health import Health
from neurald.service.daemon.memory_limit import limited_memory
from neurald.service.daemon.notifications import (
    HANGING,
    HELPER_DEATHS,
    LOST,
    METRICS,
    READY,
    SANDBOX,
    SANDBOX_MISSING,
    SESSIONS,
    STATUS,
    STOPPING,
    THREADS,
    WATCHDOG,
    Notifier,
)
from neurald.service.daemon.reflection import Reflection
from neurald.service.daemon.socket_files import lock_socket, release_socket, remove_stale
from neurald.service.sandbox.mode import SandboxMode
from neurald.service.sandbox.sandbox import Sandbox

logger = logging.getLogger(__name__)

#: Default time limit for running calls when a daemon stops.
DEFAULT_DRAIN_S = 30.0
#: Maximum number of concurrent reflection streams, and maximum idle time of one.
_MAX_REFLECTION_STREAMS = 8
_MAX_REFLECTION_IDLE_S = 10.0
_REFLECTION_GRACE_S = 0.25
_CHECK_INTERVAL_S = 0.5
#: How long it waits for running calls before it says so.
_TELLS_AFTER_S = 1.0
#: Longest description of metrics for the supervisor, which takes no more in a message.
_MAX_METRICS_BYTES = 3000


class Daemon:
    """Serves a driver's device at an address.

    Call `startup`, then `serve`, which returns after `stop` was called, then `shutdown`; or have
    `neurald.service.daemon.running.run_daemon` do so.

    Args:
        driver: name of a driver, or `module:factory`.
        listen: `unix:///path` or `host:port`; None for a socket in the runtime directory.
        listen_tls: a second address, on TCP, for clients with certificates; None without one.
        clients: who is served: at both addresses together, if there are two.
        limits: the limits on sessions.
        drain_s: time limit for running calls during shutdown.
        sandbox: the sandbox of the process, which is closed before clients are served.
        takes_over: replace the process that serves the address, without a gap, once everything else
            is ready. The caller ensures that no third process does so at the same time.
        notifier: tells a supervisor about the daemon's state; None if no supervisor has started it.

    Attributes:
        sandbox: the sandbox of the process.

    Raises:
        BadData: the address is invalid.
    """

    def __init__(
        self,
        driver: str,
        listen: str | None = None,
        *,
        listen_tls: Address | None = None,
        clients: ServedClients = OWN_USER,
        limits: Limits | None = None,
        drain_s: float = DEFAULT_DRAIN_S,
        sandbox: Sandbox | None = None,
        takes_over: bool = False,
        notifier: Notifier | None = None,
    ) -> None:
        if listen_tls is not None and clients.tls is None:
            raise BadData(f"{listen_tls} is for clients with certificates, which needs --tls FOLDER")
        self._driver = driver
        self.sandbox = sandbox or Sandbox(mode=SandboxMode.OFF)
        self._address = address_of(driver, listen)
        self._listen_tls = listen_tls
        self._clients = clients
        self._limits = limits
        self._drain_s = drain_s
        self._takes_over = takes_over
        self._notifier = notifier or Notifier(None)
        # A signal handler may use a SimpleQueue, but not an event, whose lock the interrupted
        # thread may hold.
        self._stops: SimpleQueue[None] = SimpleQueue()
        self._reporting = threading.Lock()
        self._is_healthy = True
        self._garbage = GarbageCollector()
        self._breadcrumbs = Breadcrumbs.inherited()
        self._cleanup = contextlib.ExitStack()

    @property
    def address(self) -> str:
        """The address that is served; after `startup` with the actual port."""
        return str(self._address)

    def startup(self) -> None:
        """Acquires the address, creates the device and serves it.

        Raises:
            BadState: another process serves this address, or other users can replace the directory
                of the socket.
            BadData: see `ServedClients.require_guarded`; or the device says something of itself
                that no device may.
            UnavailableDevice: there is no such driver, or its device is unavailable.
        """
        raise_descriptor_limit()
        with contextlib.ExitStack() as cleanup:
            path = self._address.path
            if path is not None:
                prepare_directory(path.parent)
                if not self._takes_over:
                    cleanup.callback(release_socket, lock_socket(path))
                    remove_stale(path)
                    remove_stale(self._address.memory_path)
            self.sandbox.close()
            device = self._device = self._create_device()
            # Measuring must not make clients wait.
            if (measure := getattr(device, "measure", None)) is not None:
                measure()
            validate_description(device, self._driver)
            watch = self._crash_watch(device.version)
            self._server = DeviceServer(
                device,
                self._address,
                limits=self._limits,
                clients=self._clients if self._listen_tls is None else replace(self._clients, tls=None),
                driver=self._driver,
                takes_over=self._takes_over,
                watch=watch,
            )
            cleanup.callback(self._server.stop)
            self._servers = [self._server]
            if self._listen_tls is not None:
                remote = DeviceServer(
                    device,
                    self._listen_tls,
                    limits=self._limits,
                    clients=ServedClients(tls=self._clients.tls),
                    takes_over=self._takes_over,
                    beside=self._server,
                )
                cleanup.callback(remote.stop)
                # Last comes the socket that clients of this host find.
                self._servers.insert(0, remote)
            self._health = [_add_health(each, cleanup) for each in self._servers]
            # Threads are restricted only if they start after that.
            _open_ahead(device)
            self._server.handler.sandbox = self.sandbox.parts
            for each in self._servers:
                each.start()
            self._address = self._server.address
            self._set_health(health_pb2.HealthCheckResponse.SERVING)
            self._server.handler.admission.report = self._report
            self._cleanup = cleanup.pop_all()
        self._notifier.send(
            **{
                READY: 1,
                STATUS: f"serving {device.name} at {self.address}",
                SANDBOX: self.sandbox.state,
                SANDBOX_MISSING: ",".join(self.sandbox.missing),
                THREADS: ",".join(str(each) for server in self._servers for each in server.thread_ids),
            }
        )
        logger.info("%s listens at %s", device.name, self.address)

    def _create_device(self) -> Device:
        """Creates the device; an error says so if the sandbox may be the reason."""
        try:
            return create_device(self._driver)
        except UnavailableDevice as error:
            if not self.sandbox.parts or not isinstance(error.__cause__, PermissionError | ImportError):
                raise
            raise UnavailableDevice(
                f"{error}; the sandbox hides the files of users from drivers, and --readable PATH shows them"
            ) from error.__cause__

    def serve(self) -> None:
        """Waits until `stop` is called.

        In the meantime it reports to the health service and to a supervisor whether the device
        completes its executions, and returns memory that clients have released to the system.
        """
        heap = HeapTrimmer()
        while True:
            # The wait has a timeout, because a signal that arrives just before it, or in another
            # thread, does not interrupt it.
            with contextlib.suppress(Empty):
                return self._stops.get(timeout=_CHECK_INTERVAL_S)
            if not all(each.is_serving for each in self._servers):
                _exit_at_once()
            for each in self._servers:
                each.check_certificates()
            self._report()
            self._garbage.collect_if_due()
            heap.trim_if_due()

    def _report(self) -> None:
        """Reports to the health service and to the supervisor how the device is.

        The watchdog of executions calls this, too.
        """
        admission = self._server.handler.admission
        is_hanging, is_lost = admission.is_hanging, admission.is_lost
        states = health_pb2.HealthCheckResponse
        with self._reporting:
            if self._is_healthy == (is_hanging or is_lost):
                self._is_healthy = not self._is_healthy
                self._set_health(states.SERVING if self._is_healthy else states.NOT_SERVING)
        sessions = len(self._server.handler.sessions.all())
        self._notifier.send(
            **{
                WATCHDOG: 1,
                SESSIONS: sessions,
                HANGING: int(is_hanging),
                LOST: int(is_lost),
                HELPER_DEATHS: self._breadcrumbs.helper_deaths,
                METRICS: _metrics(admission),
            }
        )

    def _crash_watch(self, version: str) -> CrashWatch:
        """Creates the watch for models that may kill the driver."""
        breadcrumbs = self._breadcrumbs
        breadcrumbs.set_version(version)

        def notify() -> None:
            self._notifier.send(**{HELPER_DEATHS: breadcrumbs.helper_deaths})

        guard = CrashGuard(CrashRecords.of_user(), self._driver, version)
        return CrashWatch(breadcrumbs, guard, notify if breadcrumbs.is_supervised else None)

    def limit_memory(self) -> contextlib.AbstractContextManager[None]:
        """Limits the memory of the whole process during the block. Call it after `startup`."""
        return limited_memory(self._device, self._limits or Limits())

    def reduced_garbage_collection(self) -> contextlib.AbstractContextManager[None]:
        """Leaves full garbage collections during the block to `serve`, which runs them rarely."""
        return self._garbage.full_collections_on_demand()

    def stop(self) -> None:
        """Makes `serve` return. After a second call, `shutdown` does not wait for running calls.

        Signal handlers may call this.
        """
        self._stops.put(None)

    def shutdown(self) -> bool:
        """Refuses new work, completes running calls, and removes sockets and locks.

        Returns:
            True if all calls have finished. False if calls were abandoned: their threads still run,
                and the interpreter cannot exit before they end.
        """
        sessions = len(self._server.handler.sessions.all())
        self._notifier.send(**{STOPPING: 1, SESSIONS: sessions})
        self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        logger.info("stopping; running calls have %g s to finish", self._drain_s)
        is_done = self._server.handler.admission.drain(self._drain_s, self._reports_while_it_drains())
        self._notifier.send(**{STOPPING: 1})
        if not is_done:
            logger.warning("stopping although calls are still running")
        is_hanging = self._server.handler.admission.is_hanging
        self._cleanup.close()
        logger.info("stopped")
        return is_done and not is_hanging

    def _reports_while_it_drains(self) -> Callable[[], bool]:
        """Returns what is called repeatedly while the daemon drains: it says whether to stop that.

        A supervisor must find out if the process does not drain but is stopped, and a person at a
        terminal why it does not end.
        """
        reported_s, began_s, is_told = 0.0, time.monotonic(), False

        def is_forced() -> bool:
            nonlocal reported_s, is_told
            if not is_told and time.monotonic() >= began_s + _TELLS_AFTER_S:
                is_told = True
                logger.warning(
                    "waiting for running calls, for %g s at most; a second signal ends them at once",
                    self._drain_s,
                )
            if (now_s := time.monotonic()) >= reported_s + _CHECK_INTERVAL_S:
                reported_s = now_s
                self._notifier.send(**{WATCHDOG: 1})
            return not self._stops.empty()

        return is_forced

    def _set_health(self, status: Any) -> None:
        for health_service in self._health:
            for name in ("", SERVICE):
                health_service.set(name, status)


def _open_ahead(device: Device) -> None:
    """Makes a thread open a device that would otherwise be opened for the first model."""
    open_ahead = getattr(device, "open_ahead", None)
    if open_ahead is None:
        return

    def run() -> None:
        try:
            open_ahead()
        except Exception as error:  # those who need the device get an error of their own
            logger.info("%s could not be opened ahead: %s", device.name, error)

    CheckedThread(target=run, name="neurald opening", daemon=True).start()


def _exit_at_once() -> NoReturn:
    """Ends the process at once, so that its parent or supervisor notices."""
    logger.critical("the thread that serves clients has ended unexpectedly; exiting")
    logging.shutdown()
    os._exit(os.EX_SOFTWARE)


def _add_health(server: DeviceServer, cleanup: contextlib.ExitStack) -> Health:
    """Adds the standard services: health, and reflection for inspection tools."""
    servicer = Health()
    cleanup.callback(servicer.close)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server.grpc)
    # Reflection has a limit of its own, so that it cannot use up the streams for memories.
    streams = StreamLimiter(
        limit=_MAX_REFLECTION_STREAMS, patience_s=_MAX_REFLECTION_IDLE_S, grace_s=_REFLECTION_GRACE_S
    )
    server.grpc.add_generic_rpc_handlers(Reflection(streams).handlers())
    return servicer


def _metrics(admission: Admission) -> str:
    """Describes what this process has done; see `neurald.service.manager.state.DriverMetrics`."""
    events = [(event.value, reason, count) for (event, reason), count in event_counts().items()]
    while True:
        text = msgspec.json.encode(
            {
                "executions": admission.executions,
                "busy_s": admission.busy_s,
                "queue_s": admission.queue_s,
                "waiting": admission.waiting,
                "events": events,
            }
        )
        if len(text) <= _MAX_METRICS_BYTES:
            return text.decode()
        events.pop()
