"""Options for what the execution service serves, where, and within which limits."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

GrpcOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST:PORT]",
        help="Serve models over gRPC with the V2 inference protocol, as Triton does. "
        "[without an address: 127.0.0.1:8001]",
        show_default=False,
    ),
]
HttpOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST:PORT]",
        help="The same over HTTP, with metrics at /metrics. [without an address: 127.0.0.1:8000]",
        show_default=False,
    ),
]
WebOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST:PORT]",
        help="Show drivers, models, queues and slow requests on a live page. "
        "[without an address: 127.0.0.1:8080]",
        show_default=False,
    ),
]
RepositoryOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--repository",
        "--model-repository",
        "--models",
        metavar="FOLDER",
        help="The models to serve: .tflite files, and folders in Triton's layout. May be repeated.",
        show_default=False,
    ),
]
LoadModelOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Load only this model at the start, or all if it is *. May be repeated. [default: all, and none "
        "with the mode explicit]",
        show_default=False,
    ),
]
ModelControlModeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="<none|explicit|poll>",
        help="Who loads and unloads models after the start: with none, nobody; with explicit, clients, and "
        "only models of --load-model are loaded at the start; with poll, the service as files of the "
        "repository change. [default: clients]",
        show_default=False,
    ),
]
RepositoryPollSecsOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="How often the repository is looked at with the mode poll. [default: 15]",
        show_default=False,
    ),
]
AllowClientShmOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--allow-client-shm/--no-client-shm",
        help="Let clients of this user keep tensors in shared memory that they name (/dev/shm).",
        show_default=False,
    ),
]
HttpHeaderForwardPatternOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX",
        help="Headers over HTTP in whose names this pattern is found become parameters of inferences.",
        show_default=False,
    ),
]
GrpcHeaderForwardPatternOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="The same for metadata over gRPC.", show_default=False),
]
TraceConfigOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Which requests are traced until a client changes it: file, level (OFF, TIMESTAMPS or TENSORS), "
        "rate, count and log_frequency. May be repeated.",
        show_default=False,
    ),
]
MetricsConfigOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Which latencies /metrics of --http has: counter_latencies, histogram_latencies and "
        "summary_latencies (true or false), and summary_quantiles (such as 0.5:0.05,0.99:0.001). May be "
        "repeated.",
        show_default=False,
    ),
]
ServiceLimitOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER",
        help="A limit of the execution service: message_bytes, total_bytes, streams, connections, queue "
        "or load_s. May be repeated.",
        show_default=False,
    ),
]
HttpMaxInputSizeOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="BYTES",
        min=1,
        help="As Triton calls --service-limit message_bytes=BYTES.",
        show_default=False,
    ),
]
