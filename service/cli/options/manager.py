"""The options that commands for the service manager have in common."""

from typing import Annotated, TypeAlias

import typer

#: Which manager a command is for.
SystemOption: TypeAlias = Annotated[
    bool,
    typer.Option("--system", help="Ask the machine's service manager, also if this user has one."),
]
