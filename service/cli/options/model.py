"""The options of commands that run or describe a model."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from neurald.service.cli.options.completion import model_files, preference_names, priority_names

ModelArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(autocompletion=model_files, metavar="MODEL", help="A .tflite file.", show_default=False),
]
SignatureOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Run this signature of the file.")
]
ShapeOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=SHAPE",
        help="The shape of a random input that the model leaves unspecified, such as x=1x224x224x3. May "
        "be repeated.",
    ),
]
PreferenceOption: TypeAlias = Annotated[
    str,
    typer.Option(
        autocompletion=preference_names,
        metavar="GOAL",
        help="What to optimise for: low_power, fast_single_answer or sustained_speed.",
    ),
]
PriorityOption: TypeAlias = Annotated[
    str,
    typer.Option(
        autocompletion=priority_names, metavar="RANK", help="The rank of the runs: low, medium or high."
    ),
]
ThreadsOption: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="CPU threads to use. [default: the driver's choice]")
]
