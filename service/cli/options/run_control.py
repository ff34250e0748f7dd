"""Options for how many runs are measured, and when they start."""

from typing import Annotated, TypeAlias

import typer

#: Maximum pause between runs in seconds, and the highest rate at which they may start.
_MAX_DELAY_S, _MAX_FREQUENCY_HZ = 3600.0, 1e6


RunsOption: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=1, help="Minimum number of measured runs.")
]
MinSecsOption: TypeAlias = Annotated[
    float, typer.Option(metavar="S", min=0, help="Minimum duration of the measurement.")
]
MaxSecsOption: TypeAlias = Annotated[
    float, typer.Option(metavar="S", min=0, help="Stop measuring after this time.")
]
WarmupRunsOption: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=0, help="Minimum number of warm-up runs.")
]
WarmupMinSecsOption: TypeAlias = Annotated[
    float, typer.Option(metavar="S", min=0, help="Minimum duration of the warm-up.")
]
DelayOption: TypeAlias = Annotated[
    float,
    typer.Option(metavar="S", min=0, max=_MAX_DELAY_S, help="Pause for this long after each measured run."),
]
FrequencyOption: TypeAlias = Annotated[
    float,
    typer.Option(
        metavar="N",
        min=0,
        max=_MAX_FREQUENCY_HZ,
        help="Start this many measured runs per second, instead of one after the other.",
    ),
]
ClientsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="N[,N...]",
        help="Also run this many clients at the same time, with each of these numbers in turn.",
    ),
]
