"""Options for whom the execution service serves, and for which calls."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

HttpRestrictedApiOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GROUPS:HEADER=VALUE",
        help="Answer these groups of calls over HTTP only to clients that send the header: health, metadata, "
        "inference, shared-memory, model-config, model-repository, statistics, trace, logging. A value @FILE "
        "is read from the file. May be repeated.",
        show_default=False,
    ),
]
GrpcRestrictedProtocolOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GROUPS:HEADER=VALUE",
        help="The same over gRPC, where the header's name begins with triton-grpc-protocol-.",
        show_default=False,
    ),
]
ServiceTlsOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Encrypt the execution service, and serve only clients with a certificate, or with the token "
        "of --auth-token-file. The folder is made by `neurald cert issue NAME --host HOST`.",
        show_default=False,
    ),
]
AuthTokenFileOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Serve only clients that send the token in this file: Authorization: Bearer TOKEN.",
        show_default=False,
    ),
]
ServiceInsecureOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--insecure/--secure",
        help="Serve clients of other hosts without encryption, and without a token everyone.",
        show_default=False,
    ),
]
