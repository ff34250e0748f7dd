"""Options for the sandbox of a driver's process."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from neurald.service.sandbox.mode import SandboxMode

SandboxOption: TypeAlias = Annotated[
    SandboxMode,
    typer.Option(
        help="Restrict what the driver's process may read and write, which processes it may affect, and "
        "whether it may connect: auto uses what the kernel supports, full requires all "
        "restrictions, off disables them."
    ),
]
WritableOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="A directory, file or device that the sandboxed driver may write to. May be repeated.",
        show_default=False,
    ),
]
ReadableOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="A directory or file that the sandboxed driver may read, besides the system's and "
        "Python's. May be repeated.",
        show_default=False,
    ),
]
