"""Builds the commands of neurald's own programs, which find no modules of the current folder."""

import os
import sys

from neurald.hal.errors import BadState
from neurald.hal.process.interpreter import NO_INTERPRETER, interpreter


def own_program(module: str, *arguments: str) -> list[str]:
    """Returns the command that runs a module of this package in another process.

    Modules in the current folder, which may be anybody's, are not found: they would take the place
    of those of Python and of neurald.

    Raises:
        BadState: no interpreter is known that could run it.
    """
    path = interpreter()
    if not path:
        raise BadState(f"{module} cannot be started as a program: {NO_INTERPRETER}")
    return [path, "-P", "-m", module, *arguments]


def find_modules_here() -> None:
    """Lets this process import modules in the current folder that are nowhere else."""
    sys.path.append(os.getcwd())  # noqa: PTH109 - a plain string is wanted
