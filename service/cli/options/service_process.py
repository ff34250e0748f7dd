"""Options of the commands that run until they are stopped, and log."""

from typing import Annotated, TypeAlias

import typer

from neurald.service.logs.choices import LogFormat, LogLevel

LogFormatOption: TypeAlias = Annotated[
    LogFormat | None,
    typer.Option(
        help="Write the log as text, as one JSON object a line, or with the levels of systemd's journal. "
        "[default: auto, which is journal if stderr goes to the journal, else text]",
        show_default=False,
    ),
]
LogLevelOption: TypeAlias = Annotated[
    LogLevel | None, typer.Option(help="The least level of log lines.", show_default=False)
]
UntilExitOption: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="PID", min=1, help="Stop when this process ends.", show_default=False),
]
