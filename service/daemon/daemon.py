"""One driver daemon: a device at an address, from its start to the end of its last call.

A daemon holds a lock beside its socket for as long as it lives, so that of two that start at the same time
one is refused, and a socket that is left of a dead one can be told from one that is served. When it is told
to stop (SIGTERM, SIGINT) it takes no new work, lets the calls under way finish, and removes its sockets;
told again, it does not wait for them.
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
from neurald.hal.admission.streams import Streams
from neurald.hal.errors import BadData, BadState, ResourceExhaustedTransient, error_for
from neurald.hal.process import machine
from neurald.hal.process.garbage import Garbage
from neurald.hal.process.heap import Heap
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

#: How long calls under way may take once a daemon is to stop.
DRAIN_S = 30.0
#: How many may ask about the services at the same time, and how long they may think about it.
_REFLECTIONS = 8
_REFLECTION_S = 10.0
_REFLECTION_GRACE_S = 0.25
_LOOK_S = 0.5
#: How long a thread of Python may keep others waiting who want to run: calls of one client are not to be felt by all others.
_SWITCH_S = 2e-4


class Daemon:
    """A driver served at an address: `startup`, `serve` until somebody calls `stop`, `shutdown`.

    Args:
        driver: name of a driver, or `module:factory`.
        listen: `unix:///path` or `host:port`; None for a socket in the runtime directory.
        insecure: listen beyond this host, though without TLS.
        limits: what a session may hold.
        drain_s: how long the calls under way may take once it is to stop.
        sandbox: what the process is restricted by; it is closed before clients are served.

    Raises:
        BadData: the address is none.
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
        # What signal handlers may use: an event can be locked by the very thread that they interrupt.
        self._stops: SimpleQueue[None] = SimpleQueue()
        self._garbage = Garbage()
        self._cleanup = contextlib.ExitStack()

    @property
    def address(self) -> str:
        """Where it serves; with the real port after `startup`."""
        return str(self._address)

    def startup(self) -> None:
        """Takes the address, makes the device and serves it.

        Raises:
            BadState: somebody serves there, or the place is not safe.
            BadData: other hosts can reach the address, and it is not `insecure`.
            UnavailableDevice: there is no such driver, or its device cannot be had.
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
            device.capabilities()  # which some devices measure the first time: before clients wait for it
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
        """Waits until `stop` is called. Meanwhile the health service tells whether the device ends what it executes.

        What clients leave behind in memory goes back to the system.
        """
        was_hanging = False
        heap = Heap()
        while True:
            # A signal that comes just before the wait begins, or to another thread, does not end it.
            with contextlib.suppress(Empty):
                return self._stops.get(timeout=_LOOK_S)
            if not self._server.is_serving:
                _give_up()
            is_hanging = self._server.handler.is_hanging
            if is_hanging != was_hanging:
                states = health_pb2.HealthCheckResponse
                self._tell_health(states.NOT_SERVING if is_hanging else states.SERVING)
                was_hanging = is_hanging
            self._garbage.look()
            heap.look()

    def limit_memory(self) -> contextlib.AbstractContextManager[None]:
        """Limits the memory of the whole process meanwhile; for one that does nothing else then, after `startup`."""
        return limited_memory(self._device, self._limits or Limits())

    def collect_seldom(self) -> contextlib.AbstractContextManager[None]:
        """Leaves it to `serve` when the process collects its garbage; for one that does nothing else, after `startup`."""
        return self._garbage.collected_seldom()

    def stop(self) -> None:
        """Has `serve` return; called again, has `shutdown` not wait. May be called by signal handlers."""
        self._stops.put(None)

    def shutdown(self) -> bool:
        """Refuses new work, lets calls finish, and leaves nothing behind.

        Returns:
            Whether they all finished, also those that were given up since they hang. Threads still work for the others; no
            interpreter ends before them.
        """
        self._tell_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        logger.info("stopping; calls under way have %g s", self._drain_s)
        is_done = self._server.handler.drain(self._drain_s, lambda: not self._stops.empty())
        if not is_done:
            logger.warning("stopping though calls are under way")
        is_hanging = self._server.handler.is_hanging
        self._cleanup.close()
        logger.info("stopped")
        return is_done and not is_hanging

    def _tell_health(self, status: Any) -> None:
        for name in ("", SERVICE):
            self._health.set(name, status)


def _give_up() -> NoReturn:
    """Ends the process at once: whoever waits for it learns of that, and whoever watches over it starts another one."""
    logger.critical("the thread that serves clients has ended; the daemon ends too")
    logging.shutdown()
    os._exit(os.EX_SOFTWARE)


class _Reflection(reflection.ReflectionServicer):  # type: ignore[misc]
    """Reflection whose streams are counted, and cut off when they stand still: each takes a thread, and needs no session."""

    def __init__(self, streams: Streams) -> None:
        super().__init__((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME))
        self._streams = streams

    def handlers(self) -> grpc.GenericRpcHandler:
        """A handler whose requests arrive as bytes: gRPC loses sight of streams whose requests it cannot parse."""
        service = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
        (method,) = service.methods
        call: Any = grpc.stream_stream_rpc_method_handler(
            getattr(self, method.name), response_serializer=lambda reply: reply.SerializeToString()
        )
        return grpc.method_handlers_generic_handler(service.full_name, {method.name: call})

    def ServerReflectionInfo(  # noqa: N802 - as the contract has it
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
    """Adds the standard services beside ours: health, and reflection for tools that look around."""
    servicer = Health()
    cleanup.callback(servicer.close)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server.grpc)
    # Of their own, so that they cannot take those that memories need.
    streams = Streams(most=_REFLECTIONS, patience_s=_REFLECTION_S, grace_s=_REFLECTION_GRACE_S)
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
    """Runs a daemon until SIGTERM or SIGINT, in the main thread. Arguments are those of `Daemon`.

    When it returns, the process's signal handlers and limits of memory are what they were before. If calls do not finish in
    time, it ends the process instead, also with status 0.

    Args:
        ready: called with the address once it serves.
        until_exit_of: a process; the daemon stops when that ends, however it ends.

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
    """Calls `stop` when a process ends, also when it is killed.

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
    """Every memory of a client takes a descriptor while it is mapped."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = machine.descriptors()
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _prepare_directory(directory: Path) -> None:
    """Makes the directory of a socket, for its user alone; refuses one in which others could replace it."""
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
        raise BadState(f"a daemon serves unix://{path} already, or is about to") from None
    except OSError as error:
        raise BadState(f"{lock.lock_file} cannot be locked: {error.strerror}") from None
    return lock


def _release(lock: FileLock) -> None:
    """Removes the lock file while it is held, then releases it; `FileLock` notices when a file it waited for is gone."""
    with contextlib.suppress(OSError):
        Path(lock.lock_file).unlink()
    lock.release()


def _remove_stale(path: Path) -> None:
    """Removes the socket that a dead daemon left; the lock is held."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise BadState(f"{path} is no socket; nothing else is replaced")
    if is_served(path):
        raise BadState(f"somebody else serves unix://{path}")
    path.unlink()
