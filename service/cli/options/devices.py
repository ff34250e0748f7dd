"""The options of commands that choose the devices of a model, or require that they run it."""

from typing import Annotated, TypeAlias

import typer

from neurald.service.cli.options.completion import device_names

DevicesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        autocompletion=device_names,
        metavar="NAME",
        help="Use this device only: a name from `neurald devices`, a driver, module:factory, or the "
        "address of a daemon. May be repeated.",
    ),
]
RequireOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DEVICE[=PERCENT]",
        help="Fail if a smaller share of the operations runs on this device. [default share: 100] May "
        "be repeated.",
    ),
]
