"""The option of commands that choose the devices of a model."""

from typing import Annotated, TypeAlias

import typer

from neurald.service.cli.options.completion import device_names

DevicesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        autocompletion=device_names,
        metavar="NAME",
        help="Use this device only: a name from `neurald devices`, or the address of a daemon. May "
        "be repeated.",
    ),
]
