"""Options for comparisons with other devices, runtimes and runs."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

ReferenceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Also compare the outputs with those of this device."),
]
RequireFullDelegationOption: TypeAlias = Annotated[
    bool,
    typer.Option("--require-full-delegation", help="Fail if an operation runs on the CPU device."),
]
PeersOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--peers",
        help="Also measure LiteRT and OpenVINO, where they are installed: here, or in the virtual "
        "environment NEURALD_PEERS.",
    ),
]
OnnxOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With --peers: the same model, to measure ONNX Runtime, too."),
]
CompareOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Compare with an earlier run, a document of --output. Without a model, give two.",
    ),
]
