"""Options for where a driver daemon listens, whom it serves, and within which limits."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

ListenOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="ADDR",
        help="unix:///path or host:port, on this host. TCP clients must send a token, which is in a "
        "file in the runtime directory, or have a certificate (--tls). [default: a socket named after "
        "the driver, which `neurald devices` finds]",
    ),
]
ListenTlsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Serve clients on other hosts, too, at this address; each needs a certificate (--tls).",
        show_default=False,
    ),
]
DaemonTlsOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Serve clients with a certificate only, encrypted, also on other hosts. The folder is "
        "made by `neurald cert issue NAME --host HOST`. A new certificate or list of revocations "
        "in it is used at once.",
        show_default=False,
    ),
]
TlsCertOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The certificate, if not in FOLDER.", show_default=False),
]
TlsKeyOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Its private key, if not in FOLDER.", show_default=False),
]
TlsCaOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The authority that clients' certificates are from, if not in FOLDER. Revocations are "
        "in crl.pem beside it.",
        show_default=False,
    ),
]
DaemonInsecureOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Do not require the token: every user of this machine may use the device, and so may every "
        "host that can reach the address. Nothing is encrypted.",
    ),
]
LimitOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER",
        help="A limit on clients: the number of sessions (sessions=8); the memory of a session "
        "(memory_bytes=512MiB), of all sessions of a user (user_memory_bytes=2GiB) or of all "
        "clients (total_memory_bytes=4GiB); the seconds after which an execution counts as "
        "hanging (execution_s=600); or the weight of a user in the queue (weight.alice=4). May be "
        "repeated.",
        show_default=False,
    ),
]
AllowUserOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Serve this user of the machine, too; a name or number. May be repeated.",
        show_default=False,
    ),
]
AllowGroupOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Serve the members of this group, too; a name or number. May be repeated.",
        show_default=False,
    ),
]
SocketModeOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="MODE",
        help="Who may connect to the UNIX socket: 0600 for its user, 0660 for its group, too, 0666 for "
        "everyone. Of these, only admitted users are served.",
    ),
]
