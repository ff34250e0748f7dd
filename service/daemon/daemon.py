"""Driver daemon: serves a device at an address, from start-up to the end of its last call.

A daemon holds a lock beside its socket throughout its life. Of two that start at the same time one
is therefore refused, and the socket of a dead one can be distinguished from a served one. On a stop
request (SIGTERM, SIGINT) it accepts no new work, completes running calls, and removes its sockets;
on a second one it does not wait for them.
"""

import contextlib
import logging
import os
import resource
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, NoReturn

import grpc
from filelock import FileLock, Timeout
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.streams import StreamLimiter
from neurald.hal.errors import BadData, BadState, ResourceExhaustedTransient, error_for
from neurald.hal.process import machine
from neurald.hal.process.garbage import GarbageCollector
from neurald.hal.process.heap import HeapTrimmer
from neurald.hal.process.private_directory import make_directory, open_private
from neurald.hal.process.runtime_directory import address_of, runtime_directory
from neurald.hal.registry import create_device, is_served
from neurald.hal.rpc.server.server import SERVICE, DeviceServer
from neurald.hal.rpc.transport.status import abort, parse
from neurald.service.daemon.health import Health
from neurald.service.daemon.memory_wall import limited_memory
from neurald.service.sandbox.mode import SandboxMode
from neurald.service.sandbox.sandbox import Sandbox

logger = logging.getLogger(__name__)

#: Time limit for running calls when a daemon stops.
DRAIN_S = 30.0
#: Limits on concurrent reflection streams, and on their idle time.
_REFLECTIONS = 8
_REFLECTION_S = 10.0
_REFLECTION_GRACE_S = 0.25
_LOOK_S = 0.5
#: Python's thread switch interval: calls of one client must not delay those of all others.
_SWITCH_S = 2e-4


class Daemon:
    """Driver served at an address: `startup`, `serve` until `stop` is called, `shutdown`.

    Args:
        driver: the name of a driver, or `module:factory`.
        listen: `unix:///path` or `host:port`; None for a socket in the runtime directory.
        insecure: whether to listen beyond this host, although without TLS.
        limits: the limits on sessions.
        drain_s: the time limit for running calls during shutdown.
        sandbox: the restrictions of the process, which are completed before clients are served.

    Raises:
        BadData: the address is invalid.
    """

    def __init__(
        self,
        driver: str,
        listen: str | None = None,
        *,
        insecure: bool = False,
        limits: Limits | None = None,
        drain_s: float = DRAIN_S,
        sandbox: Sandbox | None = None,
    ) -> None:
        self._driver = driver
        self._sandbox = sandbox or Sandbox(mode=SandboxMode.OFF)
        self._address = address_of(driver, listen)
        self._insecure = insecure
        self._limits = limits
        self._drain_s = drain_s
        # Safe for signal handlers, unlike an event, whose lock the interrupted thread may hold.
        self._stops: SimpleQueue[None] = SimpleQueue()
        self._garbage = GarbageCollector()
        self._cleanup = contextlib.ExitStack()

    @property
    def address(self) -> str:
        """Address that is served, with the actual port after `startup`."""
        return str(self._address)

    def startup(self) -> None:
        """Acquires the address, creates the device and serves it.

        Raises:
            BadState: another process serves this address, or the location is not safe.
            BadData: other hosts can reach the address, and it is not `insecure`.
            UnavailableDevice: there is no such driver, or its device is unavailable.
        """
        _raise_descriptor_limit()
        with contextlib.ExitStack() as cleanup:
            path = self._address.path
            if path is not None:
                _prepare_directory(path.parent)
                cleanup.callback(_release, _lock(path))
                _remove_stale(path)
                _remove_stale(self._address.memory_path)
            device = self._device = create_device(self._driver)
            # some devices measure on the first call: do it before clients wait
            device.capabilities()
            self._server = DeviceServer(
                device,
                self._address,
                limits=self._limits,
                insecure=self._insecure,
                driver=self._driver,
            )
            cleanup.callback(self._server.stop)
            self._health = _add_health(self._server, cleanup)
            self._sandbox.close()
            self._server.handler.sandbox = self._sandbox.parts
            self._server.start()
            self._address = self._server.address
            self._tell_health(health_pb2.HealthCheckResponse.SERVING)
            self._cleanup = cleanup.pop_all()
        logger.info("%s serves at %s", device.name, self.address)

    def serve(self) -> None:
        """Waits until `stop` is called, and keeps the health service up to date.

        The state depends on whether the device completes its executions.

        It also returns the memory that clients have released to the system.
        """
        was_hanging = False
        heap = HeapTrimmer()
        while True:
            # A signal that arrives just before the wait, or in another thread, does not interrupt
            # it.
            with contextlib.suppress(Empty):
                return self._stops.get(timeout=_LOOK_S)
            if not self._server.is_serving:
                _give_up()
            is_hanging = self._server.handler.admission.is_hanging
            if is_hanging != was_hanging:
                states = health_pb2.HealthCheckResponse
                self._tell_health(states.NOT_SERVING if is_hanging else states.SERVING)
                was_hanging = is_hanging
            self._garbage.collect_if_due()
            heap.trim_if_due()

    def limit_memory(self) -> contextlib.AbstractContextManager[None]:
        """Limits the memory of the whole process during the block; use it after `startup`."""
        return limited_memory(self._device, self._limits or Limits())

    def collect_seldom(self) -> contextlib.AbstractContextManager[None]:
        """Reduces garbage collections during the block and leaves them to `serve`."""
        return self._garbage.full_collections_on_demand()

    def stop(self) -> None:
        """Makes `serve` return; a second call makes `shutdown` not wait.

        May be called by signal handlers.
        """
        self._stops.put(None)

    def shutdown(self) -> bool:
        """Refuses new work, completes running calls, and removes sockets and locks.

        Returns:
            True if all calls finished. False also if hanging calls were abandoned: their threads
                still run, and the interpreter cannot exit before them.
            interpreter ends before them.
        """
        self._tell_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        logger.info("stopping; calls under way have %g s", self._drain_s)
        is_done = self._server.handler.admission.drain(self._drain_s, lambda: not self._stops.empty())
        if not is_done:
            logger.warning("stopping though calls are under way")
        is_hanging = self._server.handler.admission.is_hanging
        self._cleanup.close()
        logger.info("stopped")
        return is_done and not is_hanging

    def _tell_health(self, status: Any) -> None:
        for name in ("", SERVICE):
            self._health.set(name, status)


def _give_up() -> NoReturn:
    """Ends the process at once, which its parent or supervisor notices."""
    logger.critical("the thread that serves clients has ended; the daemon ends too")
    logging.shutdown()
    os._exit(os.EX_SOFTWARE)


class _Reflection(reflection.ReflectionServicer):  # type: ignore[misc]
    """Reflection service with a limit on streams, each of which takes a thread without a session.

    Streams that stall are cut off.
    """

    def __init__(self, streams: StreamLimiter) -> None:
        super().__init__((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME))
        self._streams = streams

    def handlers(self) -> grpc.GenericRpcHandler:
        """Returns a handler that receives requests as bytes.

        gRPC loses track of streams whose requests it cannot parse.
        """
        service = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
        (method,) = service.methods
        call: Any = grpc.stream_stream_rpc_method_handler(
            getattr(self, method.name), response_serializer=lambda reply: reply.SerializeToString()
        )
        return grpc.method_handlers_generic_handler(service.full_name, {method.name: call})

    def ServerReflectionInfo(  # noqa: N802 - name from the protocol
        self, request_iterator: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[Any]:
        """Answers questions about the services."""
        try:
            with self._streams.open(None, context) as stream:

                def moving() -> Iterator[Any]:
                    for data in request_iterator:
                        stream.moves()
                        yield parse(reflection_pb2.ServerReflectionRequest, data)

                for reply in super().ServerReflectionInfo(moving(), context):
                    yield reply
                    stream.moves()
        except (BadData, ResourceExhaustedTransient) as error:
            failure = error_for(error.code, str(error))
        else:
            return
        abort(context, failure)


def _add_health(server: DeviceServer, cleanup: contextlib.ExitStack) -> Health:
    """Adds the standard services: health, and reflection for inspection tools."""
    servicer = Health()
    cleanup.callback(servicer.close)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server.grpc)
    # A separate limit, so that they cannot use up the streams that memories need.
    streams = StreamLimiter(limit=_REFLECTIONS, patience_s=_REFLECTION_S, grace_s=_REFLECTION_GRACE_S)
    server.grpc.add_generic_rpc_handlers((_Reflection(streams).handlers(),))
    return servicer


def serve(
    driver: str,
    listen: str | None = None,
    *,
    insecure: bool = False,
    limits: Limits | None = None,
    drain_s: float = DRAIN_S,
    sandbox: Sandbox | None = None,
    ready: Callable[[str], None] | None = None,
    until_exit_of: int | None = None,
) -> int:
    """Runs a daemon until SIGTERM or SIGINT, in the main thread.

    See `Daemon` for other arguments.

    On return, the process's signal handlers and memory limits are restored. If calls do not finish
    in time, it ends the process instead, also with status 0.

    Args:
        ready: called with the address when the daemon serves.
        until_exit_of: a process id; the daemon stops when that process ends for any reason.

    Returns:
        The exit status, 0.

    Raises:
        Error: the daemon cannot start; the message says why.
    """
    daemon = Daemon(driver, listen, insecure=insecure, limits=limits, drain_s=drain_s, sandbox=sandbox)
    with contextlib.ExitStack() as cleanup:
        if sandbox is not None:
            cleanup.callback(sandbox.leave_nothing)
        cleanup.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(_SWITCH_S)
        cleanup.enter_context(_signals(daemon.stop))
        if until_exit_of is not None:
            _stop_at_exit(until_exit_of, daemon.stop)
        daemon.startup()
        cleanup.enter_context(daemon.collect_seldom())
        with daemon.limit_memory():
            try:
                if ready is not None:
                    ready(daemon.address)
                daemon.serve()
            finally:
                is_done = daemon.shutdown()
    if not is_done:
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)
    return 0


def _stop_at_exit(process: int, stop: Callable[[], None]) -> None:
    """Calls `stop` when a process ends, even if it is killed.

    Raises:
        BadState: there is no such process, or it cannot be watched.
    """
    try:
        descriptor = os.pidfd_open(process)
    except OSError as error:
        raise BadState(f"process {process} cannot be watched: {error.strerror}") from None

    def watch() -> None:
        try:
            select.select([descriptor], [], [])
        finally:
            os.close(descriptor)
        stop()

    threading.Thread(target=watch, name="neurald parent", daemon=True).start()


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    def handle(number: int, frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_descriptor_limit() -> None:
    """Raises the soft limit on descriptors: every mapped memory of a client takes one."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = machine.descriptors()
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _prepare_directory(directory: Path) -> None:
    """Creates the directory of a socket with access for its user only.

    Raises:
        BadState: other users could replace the directory or it cannot be used.
    """
    is_ours = directory == runtime_directory()
    try:
        make_directory(directory)
        descriptor = open_private(directory, may_be_link=not is_ours)
        try:
            status = os.fstat(descriptor)
            if is_ours and status.st_uid == os.geteuid() and status.st_mode & 0o077:
                os.fchmod(descriptor, 0o700)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BadState(f"{directory} cannot be used for a socket: {error.strerror or error}") from None


def _lock(path: Path) -> FileLock:
    lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise BadState(f"another daemon already serves unix://{path}, or is starting") from None
    except OSError as error:
        raise BadState(f"{lock.lock_file} cannot be locked: {error.strerror}") from None
    return lock


def _release(lock: FileLock) -> None:
    """Removes the lock file while holding it, then releases it.

    `FileLock` notices if a file that it waited for was removed.
    """
    with contextlib.suppress(OSError):
        Path(lock.lock_file).unlink()
    lock.release()


def _remove_stale(path: Path) -> None:
    """Removes the socket of a dead daemon; the caller holds the lock."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise BadState(f"{path} exists and is not a socket; remove it or choose another address")
    if is_served(path):
        raise BadState(f"another process serves unix://{path}")
    path.unlink()
