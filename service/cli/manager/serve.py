"""The command `neurald serve`."""

from pathlib import Path
from typing import Annotated

import typer

from neurald.service.cli.options.completion import driver_names
from neurald.service.cli.options.served_models import (
    AllowClientShmOption,
    GrpcHeaderForwardPatternOption,
    GrpcOption,
    HttpHeaderForwardPatternOption,
    HttpMaxInputSizeOption,
    HttpOption,
    LoadModelOption,
    MetricsConfigOption,
    ModelControlModeOption,
    RepositoryOption,
    RepositoryPollSecsOption,
    ServiceLimitOption,
    TraceConfigOption,
    WebOption,
)
from neurald.service.cli.options.service import service_settings
from neurald.service.cli.options.service_access import (
    AuthTokenFileOption,
    GrpcRestrictedProtocolOption,
    HttpRestrictedApiOption,
    ServiceInsecureOption,
    ServiceTlsOption,
)
from neurald.service.cli.options.service_process import LogFormatOption, LogLevelOption, UntilExitOption


def serve(
    driver: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=driver_names,
            metavar="NAME",
            help="A driver to supervise, instead of those of the configuration. May be repeated.",
            show_default=False,
        ),
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Stop a driver that has had no clients for this long; 0 never does. [default: 300]",
            show_default=False,
        ),
    ] = None,
    drain: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How long running calls of a driver may take when it is stopped. [default: 30]",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The configuration file. [default: NEURALD_CONFIG, or neurald/neurald.toml in "
            "XDG_CONFIG_HOME or /etc]",
            show_default=False,
        ),
    ] = None,
    system: Annotated[
        bool,
        typer.Option(
            "--system",
            help="Serve all users of the machine whom the configuration admits, by default the members of "
            "the group neurald, in /run/neurald.",
        ),
    ] = False,
    exit_when_idle: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="End when no driver has run for this long. Managers that applications start do. "
            "[default: never]",
            show_default=False,
        ),
    ] = None,
    grpc: GrpcOption = None,
    http: HttpOption = None,
    web: WebOption = None,
    repository: RepositoryOption = None,
    load_model: LoadModelOption = None,
    model_control_mode: ModelControlModeOption = None,
    repository_poll_secs: RepositoryPollSecsOption = None,
    allow_client_shm: AllowClientShmOption = None,
    http_restricted_api: HttpRestrictedApiOption = None,
    grpc_restricted_protocol: GrpcRestrictedProtocolOption = None,
    http_header_forward_pattern: HttpHeaderForwardPatternOption = None,
    grpc_header_forward_pattern: GrpcHeaderForwardPatternOption = None,
    trace_config: TraceConfigOption = None,
    metrics_config: MetricsConfigOption = None,
    tls: ServiceTlsOption = None,
    auth_token_file: AuthTokenFileOption = None,
    insecure: ServiceInsecureOption = None,
    service_limit: ServiceLimitOption = None,
    http_max_input_size: HttpMaxInputSizeOption = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve metrics of the drivers to Prometheus at http://HOST:PORT/metrics, to this host "
            "only, such as 127.0.0.1:9464.",
            show_default=False,
        ),
    ] = None,
    until_exit_of: UntilExitOption = None,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the log to this file instead of stderr. At 1 MiB it becomes FILE.1 and a new one "
            "begins.",
            show_default=False,
        ),
    ] = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
) -> None:
    """Supervises drivers until SIGTERM or Ctrl-C.

    Drivers start at their first connection and stop when they are idle. One that dies is started
    again after a pause, and one that keeps dying is not. SIGHUP loads the configuration again.

    With --grpc or --http, or the table [service] of the configuration, it also serves models, each
    in a process of its own, to clients of Triton, KServe and others.
    """
    import asyncio
    import contextlib
    import os
    import signal
    from functools import partial

    from neurald.hal.process.files.runtime_directory import serve_machine
    from neurald.hal.process.parent import stop_with
    from neurald.service.logs.setup import notice, start_log
    from neurald.service.manager.manager import Manager
    from neurald.service.manager.settings.configuration import Flags, load_for_this_machine
    from neurald.service.manager.settings.service_configuration import (
        ServiceTable,
        parsed_limits,
        parsed_metrics,
        parsed_trace,
    )
    from neurald.service.manager.takeover import taking_over

    limits = list(service_limit or ())
    if http_max_input_size is not None:
        limits.append(f"message_bytes={http_max_input_size}")
    flags = Flags(
        drivers=tuple(driver or ()),
        idle_s=idle,
        drain_s=drain,
        log_level=log_level,
        log_format=log_format,
        system=system,
        service=ServiceTable(
            grpc=grpc,
            http=http,
            web=web,
            repositories=tuple(map(str, repository)) if repository else None,
            load_models=tuple(load_model) if load_model else None,
            model_control_mode=model_control_mode,
            repository_poll_s=repository_poll_secs,
            allow_client_shm=allow_client_shm,
            tls=None if tls is None else str(tls),
            auth_token_file=None if auth_token_file is None else str(auth_token_file),
            http_restricted_api=tuple(http_restricted_api) if http_restricted_api else None,
            grpc_restricted_protocol=tuple(grpc_restricted_protocol) if grpc_restricted_protocol else None,
            http_header_forward_pattern=http_header_forward_pattern,
            grpc_header_forward_pattern=grpc_header_forward_pattern,
            insecure=insecure,
            limits=parsed_limits(limits),
            trace=parsed_trace(trace_config or ()),
            metrics=parsed_metrics(metrics_config or ()),
        ),
    )
    if system:
        serve_machine()
    load = partial(load_for_this_machine, config, flags)
    configuration = load()
    start_log(configuration.log_format, configuration.log_level, log)
    # A manager that an application has started is for its drivers, and ends when they are idle.
    settings = None if exit_when_idle is not None else service_settings(configuration)
    service = None
    if settings is not None:
        from neurald.service.inference.server.supervision import SupervisedFrontEnd

        service = SupervisedFrontEnd(settings)

    taken_over = contextlib.ExitStack()

    def ready(directory: str) -> None:
        taken_over.close()
        names = ", ".join(configuration.drivers) or "no drivers"
        notice(f"supervising {names} in {directory}")

    async def run() -> None:
        if until_exit_of is not None:
            stop_with(until_exit_of, partial(os.kill, os.getpid(), signal.SIGTERM))
        manager = Manager(configuration, load, exit_when_idle_s=exit_when_idle, service=service)
        if metrics is None:
            await manager.run(ready)
            return
        from neurald.hal.accounting.exposition import exposition
        from neurald.service.telemetry.endpoint import MetricsEndpoint, metrics_address
        from neurald.service.telemetry.manager_metrics import ManagerMetrics

        described = ManagerMetrics(manager.status)
        async with MetricsEndpoint(metrics_address(metrics), lambda: exposition(described.metrics())):
            await manager.run(ready)

    with taken_over:
        if exit_when_idle is None and not system:
            taken_over.enter_context(taking_over(notice))
        asyncio.run(run())
