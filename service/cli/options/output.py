"""The option of commands that can print their results for programs."""

from typing import Annotated, TypeAlias

import typer

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
