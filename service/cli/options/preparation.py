"""Options for how a model is prepared."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

RelaxedOption: TypeAlias = Annotated[
    bool,
    typer.Option("--relaxed", help="Allow float32 to be computed with the precision of float16."),
]
CacheDirOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Keep compiled code in this folder. [default: the user's own cache]"),
]
MaxPartitionsOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Largest number of steps of each device; the CPU device runs the others."
    ),
]
MinOperationsOption: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=1, help="Run steps of fewer operations on the CPU device.")
]
