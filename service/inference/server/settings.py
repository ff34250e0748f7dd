"""The settings of the execution service."""

import msgspec

from neurald.service.inference.models.workers.worker_options import WorkerOptions
from neurald.service.inference.server.client_choices import ClientChoices
from neurald.service.manager.settings.service_configuration import (
    MetricsConfiguration,
    ServiceLimits,
    TraceConfiguration,
)


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings with which the execution service is started.

    Attributes:
        grpc, http: addresses to listen at, `host:port`; empty for none.
        web: address of the live page; empty for none.
        system: whether the service manager is the machine's.
        socket: path of the socket that opens lanes for clients on this host; empty for none.
        repositories: folders of models.
        load: names of the models to load at the start; None for all.
        choices: what clients of the front end before have chosen.
        allow_control: whether clients may load and unload models.
        poll_s: how often models are loaded and unloaded as the repository changes; 0 for never.
        allow_client_shm: whether clients on this host may name shared memory.
        http_restricted_api, grpc_restricted_protocol: see `Restrictions`.
        http_header_forward_pattern, grpc_header_forward_pattern: see `ForwardedHeaders`.
        tls_certificate, tls_key, tls_authority: files for TLS; empty without.
        token: the token that clients must send; empty for none.
        insecure: whether other hosts are served without TLS or a token.
        limits: the limits of clients.
        trace: which requests are traced.
        metrics: which metrics of latencies there are.
        workers: how workers are started.
        drain_s: how long running requests may take at the end.
    """

    grpc: str = ""
    http: str = ""
    web: str = ""
    system: bool = False
    socket: str = ""
    repositories: tuple[str, ...] = ()
    load: tuple[str, ...] | None = None
    choices: ClientChoices = ClientChoices()
    allow_control: bool = True
    poll_s: float = 0.0
    allow_client_shm: bool = False
    http_restricted_api: tuple[str, ...] = ()
    grpc_restricted_protocol: tuple[str, ...] = ()
    http_header_forward_pattern: str = ""
    grpc_header_forward_pattern: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_authority: str = ""
    token: str = ""
    insecure: bool = False
    limits: ServiceLimits = ServiceLimits()
    trace: TraceConfiguration = TraceConfiguration()
    metrics: MetricsConfiguration = MetricsConfiguration()
    workers: WorkerOptions = WorkerOptions()
    drain_s: float = 30.0
