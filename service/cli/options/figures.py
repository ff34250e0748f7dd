"""Options for which figures are shown, and where they are written."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

PercentileOption: TypeAlias = Annotated[
    str, typer.Option(metavar="P[,P...]", help="The percentiles of latencies to show.")
]
ProfileOption: TypeAlias = Annotated[
    bool,
    typer.Option("--profile", help="Also time each kernel, and list the operations that it computes."),
]
SlowestFirstOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--slowest-first", help="List kernels by their times, not in their order; turns --profile on."
    ),
]
HistogramOption: TypeAlias = Annotated[
    bool, typer.Option("--histogram", help="Show the distribution of latencies.")
]
SvgOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Draw the latencies of all runs to this file.")
]
CsvOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the figures to this file.")
]
ProfileCsvOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the times of kernels to this file; turns --profile on."),
]
OutputOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Write the JSON document to this file, too. May be repeated."),
]
