"""The front end: listens for clients, and serves the models of a repository until it is stopped."""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health_pb2_grpc

from neurald.hal.errors import BadData, BadState, UnavailableDevice
from neurald.hal.process.address import Address
from neurald.hal.process.descriptors import connection_limit
from neurald.hal.process.memory.garbage import GarbageCollector
from neurald.hal.process.memory.heap import HeapTrimmer
from neurald.hal.records import replace
from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.service.inference.models.model_choices import ModelChoices
from neurald.service.inference.models.registry import Registry
from neurald.service.inference.models.repository_polling import RepositoryPolling
from neurald.service.inference.models.served_version import VersionOptions
from neurald.service.inference.models.statistics.latencies import MeasuredLatencies
from neurald.service.inference.models.workers.worker_pool import WorkerPool
from neurald.service.inference.repository.folders import Repository
from neurald.service.inference.server.admission.header_forwarding import ForwardedHeaders
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.admission.restrictions import Restrictions
from neurald.service.inference.server.calls.calls import Calls
from neurald.service.inference.server.calls.log_settings import LogSettings
from neurald.service.inference.server.client_choices import ClientChoices
from neurald.service.inference.server.front_end_report import FrontEndReport
from neurald.service.inference.server.grpc.grpc_server import GrpcServer, connection_limits
from neurald.service.inference.server.grpc.grpc_service import GRPC_HEADER_PREFIX, V2Service
from neurald.service.inference.server.grpc.health import ReadinessHealth
from neurald.service.inference.server.grpc.reflection import reflection_handlers
from neurald.service.inference.server.lane_listener import LaneListener
from neurald.service.inference.server.regions.region_calls import RegionCalls
from neurald.service.inference.server.regions.shared_memory import SharedMemoryRegions
from neurald.service.inference.server.settings import ServiceSettings
from neurald.service.inference.server.started_threads import started_threads
from neurald.service.inference.server.tracing.trace_settings import TraceSettings
from neurald.service.inference.server.tracing.traces import RequestTraces
from neurald.service.manager.state import ServiceStatus
from neurald.service.sandbox.temporary_directory import remove_abandoned, shared_directory

if TYPE_CHECKING:
    from neurald.service.inference.server.http.http_server import HttpServer

logger = logging.getLogger(__name__)

#: What to do about an address that cannot be had.
_HINTS: Final = {
    errno.EADDRINUSE: "; stop the process that listens there, or name another address",
    errno.EADDRNOTAVAIL: "; name an address of this host",
    errno.EACCES: "; name a port from 1024",
}
#: How often it is examined whether the state has changed.
_REPORT_S: Final = 0.1
#: What a message may have in addition to the bytes of its tensors.
_ENVELOPE_BYTES: Final = 64 << 10
#: How many connections of browsers there may be.
_MAX_WEB_CONNECTIONS: Final = 64
#: Connections of gRPC take one in this many of the descriptors at most, and so do those of HTTP.
#: The others are for workers, their clients, and regions of shared memory.
_CONNECTION_SHARE: Final = 4


class FrontEnd:
    """Serves models. Call `run`, which returns after `stop` was called.

    Args:
        settings: the settings of the service.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._stops = asyncio.Event()
        self._addresses: dict[str, str] = {}
        self._most_connections = connection_limit(settings.limits.connections, _CONNECTION_SHARE)
        self._connections: Callable[[], int] = lambda: 0

    def stop(self) -> None:
        """Makes `run` return when running requests have ended."""
        self._stops.set()

    async def run(self, report: Callable[[FrontEndReport], None]) -> None:
        """Serves until `stop` is called.

        Args:
            report: the function that is called whenever the state of the service has changed, or
                what clients have chosen.

        Raises:
            Error: it cannot listen, a setting is not valid, or its threads cannot be started.
        """
        settings = self._settings
        asyncio.get_running_loop().set_default_executor(started_threads())
        async with contextlib.AsyncExitStack() as cleanup:
            collector = GarbageCollector()
            cleanup.enter_context(collector.full_collections_on_demand())
            # Workers are killed, and leave their temporary files.
            cleanup.callback(remove_abandoned, shared_directory())
            repository = Repository([Path(each) for each in settings.repositories])
            cleanup.callback(repository.close)
            workers = WorkerPool(settings.workers)
            cleanup.callback(workers.close)
            models = ModelChoices(settings.choices.models)
            registry = Registry(
                repository,
                workers,
                VersionOptions(
                    queue_size=settings.limits.queue,
                    load_s=settings.limits.load_s,
                    measured=MeasuredLatencies(
                        histogram=settings.metrics.histogram_latencies, quantiles=settings.metrics.quantiles
                    ),
                ),
                given_bytes=settings.limits.total_bytes,
                choices=models,
            )
            registry.is_starting = True
            shared = SharedMemoryRegions(settings.choices.regions) if settings.allow_client_shm else None
            if shared is not None:
                cleanup.callback(shared.close)
            log_settings = LogSettings(settings.choices.log)
            cleanup.callback(log_settings.close)
            traces = RequestTraces(settings.trace, settings.choices.traces)
            cleanup.callback(traces.close)
            calls = Calls(registry, shared, traces, log_settings, allow_control=settings.allow_control)
            regions = RegionCalls(shared)
            budget = RequestBudget(settings.limits.total_bytes)
            cleanup.push_async_callback(registry.close, settings.drain_s)
            if settings.grpc:
                await self._serve_grpc(calls, regions, budget, cleanup)
            if settings.http:
                await self._serve_http(calls, regions, budget, cleanup)
            if settings.web:
                await self._serve_web(registry, budget, cleanup)
            if settings.socket:
                listener = LaneListener(Path(settings.socket), registry)
                cleanup.callback(listener.close)
            polling = RepositoryPolling(registry, repository, settings.load)
            loading = asyncio.create_task(self._load(registry, calls, polling))
            cleanup.callback(loading.cancel)

            def report_choices() -> None:
                report(FrontEndReport(choices=_choices(models, log_settings, traces.settings, shared)))

            # A client that is told that a model was unloaded never sees it come back.
            models.report = log_settings.report = traces.settings.report = report_choices
            if shared is not None:
                shared.report = report_choices
            state = partial(self._state, registry, calls)
            reporting = asyncio.create_task(self._report(state, traces.settings, report, collector))
            cleanup.callback(reporting.cancel)
            with _signals(self.stop):
                await self._stops.wait()
            # New calls are refused, running ones end.
            calls.is_open = False

    async def _load(self, registry: Registry, calls: Calls, polling: RepositoryPolling) -> None:
        """Loads models at the start, and, if it is wanted, whenever the repository changes."""
        try:
            if self._settings.poll_s:
                await polling.note()
            await registry.load_all(self._settings.load)
            calls.is_open = True
            while self._settings.poll_s:
                await asyncio.sleep(self._settings.poll_s)
                await polling.look()
        except Exception:
            logger.exception("the models cannot be loaded")
            self.stop()

    def _state(self, registry: Registry, calls: Calls) -> ServiceStatus:
        """Describes the service as it is now."""
        return ServiceStatus(
            process=os.getpid(),
            addresses=dict(self._addresses),
            is_ready=calls.is_ready,
            models=registry.statuses(),
        )

    async def _report(
        self,
        state: Callable[[], ServiceStatus],
        traces: TraceSettings,
        report: Callable[[FrontEndReport], None],
        collector: GarbageCollector,
    ) -> None:
        """Reports the state and counts of traces when they have changed, and collects garbage."""
        heap = HeapTrimmer()
        last: ServiceStatus | None = None
        while True:
            status = state()
            if status != last:
                report(FrontEndReport(status=status))
                last = status
            traces.report_counts()
            collector.collect_if_due()
            heap.trim_if_due()
            await asyncio.sleep(_REPORT_S)

    async def _serve_grpc(
        self,
        calls: Calls,
        regions: RegionCalls,
        budget: RequestBudget,
        cleanup: contextlib.AsyncExitStack,
    ) -> None:
        settings = self._settings
        address = checked_address(settings.grpc, settings)
        server = GrpcServer(
            (
                ("grpc.max_receive_message_length", settings.limits.message_bytes + _ENVELOPE_BYTES),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", settings.limits.streams),
                ("grpc.max_metadata_size", 16 << 10),
                ("grpc.so_reuseport", 0),
                *connection_limits(self._most_connections),
            ),
            calls=settings.limits.queue + self._most_connections,
        )
        restrictions = Restrictions(
            settings.grpc_restricted_protocol, noun="protocol", prefix=GRPC_HEADER_PREFIX
        )
        forwarded = ForwardedHeaders(
            settings.grpc_header_forward_pattern,
            option="--grpc-header-forward-pattern",
            secret=restrictions.header_names,
        )
        service = V2Service(calls, regions, budget, settings.token, restrictions, forwarded)
        server.add_generic_rpc_handlers((service.handlers(),))
        readiness = ReadinessHealth(lambda: calls.is_ready)
        health_pb2_grpc.add_HealthServicer_to_server(readiness, server)
        server.add_generic_rpc_handlers(reflection_handlers())
        try:
            credentials = _grpc_credentials(settings) if settings.tls_certificate else None
            port = server.add_port(address.numeric.target, credentials)
        except RuntimeError as error:
            if address.path is None:
                # gRPC does not say why, and another socket fails for the same reason.
                _listening(address, "gRPC").close()
            raise BadState(f"gRPC cannot be served at {address}: {error}") from None
        server.start()
        if address.path is not None:
            address.path.chmod(0o600)
        self._addresses["grpc"] = str(address) if address.path is not None else f"{address.host}:{port}"
        cleanup.push_async_callback(server.stop, settings.drain_s)

    async def _serve_http(
        self,
        calls: Calls,
        regions: RegionCalls,
        budget: RequestBudget,
        cleanup: contextlib.AsyncExitStack,
    ) -> None:
        from neurald.service.inference.server.http.http_app import HttpApp

        settings = self._settings
        address = checked_address(settings.http, settings)
        restrictions = Restrictions(settings.http_restricted_api, noun="API")
        app = HttpApp(
            calls,
            regions,
            budget,
            message_bytes=settings.limits.message_bytes,
            token=settings.token,
            restrictions=restrictions,
            forwarded=ForwardedHeaders(
                settings.http_header_forward_pattern,
                option="--http-header-forward-pattern",
                secret=restrictions.header_names,
            ),
            counts_latencies=settings.metrics.counter_latencies,
        )
        listener = _listening(address, "HTTP")
        server = _http_server(app, listener, settings, self._most_connections)
        self._connections = lambda: len(server.server_state.connections)
        await server.start()
        self._addresses["http"] = f"{address.host}:{listener.getsockname()[1]}"
        cleanup.push_async_callback(server.stop)

    async def _serve_web(
        self, registry: Registry, budget: RequestBudget, cleanup: contextlib.AsyncExitStack
    ) -> None:
        from neurald.service.inference.server.web.live_state import LiveState
        from neurald.service.inference.server.web.web_app import WebApp

        settings = self._settings
        address = checked_address(settings.web, settings)
        listener = _listening(address, "the live page")
        port: int = listener.getsockname()[1]
        app = WebApp(
            registry,
            LiveState(registry, budget, lambda: self._connections(), system=settings.system),
            replace(address, port=port),
            token=settings.token,
            is_encrypted=bool(settings.tls_certificate),
        )
        server = _http_server(app, listener, settings, _MAX_WEB_CONNECTIONS)
        await server.start()
        self._addresses["web"] = f"{address.host}:{port}"
        cleanup.push_async_callback(server.stop)


def _choices(
    models: ModelChoices, log: LogSettings, traces: TraceSettings, regions: SharedMemoryRegions | None
) -> ClientChoices:
    """Returns what the next front end is given if this one dies."""
    return ClientChoices(
        models=models.current(),
        log=log.changed(),
        traces=traces.changed(),
        regions={} if regions is None else regions.choices(),
    )


def checked_address(text: str, settings: ServiceSettings) -> Address:
    """Returns the address to listen at.

    Raises:
        BadData: it is not an address, or other hosts could connect without TLS or a token.
    """
    address = Address.parse(text)
    if address.is_loopback or settings.insecure or settings.tls_certificate:
        return address
    raise BadData(
        f"{text}: other hosts can connect there, which needs --tls FOLDER, or --insecure to serve everyone "
        "without encryption"
    )


def _http_server(
    app: Any, listener: socket.socket, settings: ServiceSettings, connections: int
) -> "HttpServer":
    try:
        from neurald.service.inference.server.http.http_server import HttpServer
    except ModuleNotFoundError as error:
        listener.close()
        raise UnavailableDevice(
            f"HTTP needs the package {error.name}; install it with: pip install 'neurald[serve]'"
        ) from None
    return HttpServer(
        app, listener, connections=connections, drain_s=settings.drain_s, tls=_tls_context(settings)
    )


def _listening(address: Address, what: str) -> socket.socket:
    """Returns a socket with an address.

    Raises:
        BadData: it is a path.
        BadState: it cannot be had.
    """
    if address.path is not None:
        raise BadData(f"{address}: {what} is served on TCP, at host:port")
    try:
        (family, kind, protocol, _, place), *_ = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "")
        raise BadState(f"{what} cannot be served at {address}: {error.strerror or error}{hint}") from None


def _files(settings: ServiceSettings) -> TlsFiles:
    return TlsFiles(
        certificate=Path(settings.tls_certificate),
        key=Path(settings.tls_key),
        authority=Path(settings.tls_authority),
    )


def _grpc_credentials(settings: ServiceSettings) -> grpc.ServerCredentials:
    """Returns credentials that demand a certificate of clients, unless they must send a token."""
    from neurald.hal.rpc.transport.tls_credentials import server_credentials

    if not settings.token:
        return server_credentials(_files(settings))
    content = _files(settings).read()
    return grpc.ssl_server_credentials([(content.key, content.certificate)])


def _tls_context(settings: ServiceSettings) -> ssl.SSLContext | None:
    if not settings.tls_certificate:
        return None
    files = _files(settings)
    files.read()  # and check them
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key)
    if not settings.token:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files.authority)
        if files.revoked.exists():
            context.load_verify_locations(files.revoked)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Any:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
