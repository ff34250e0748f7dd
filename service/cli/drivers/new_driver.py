"""The command `neurald new-driver`."""

from pathlib import Path
from typing import Annotated

import typer


def new_driver(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the driver, such as my-npu.", show_default=False)
    ],
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIRECTORY", help="New directory to write to. [default: NAME]", show_default=False
        ),
    ] = None,
) -> None:
    """Writes a Python package with a starter driver, conformance tests, and a CI configuration."""
    from neurald.service.console.output import write_line
    from neurald.service.driver_template.writer import write_driver

    target = Path(name) if directory is None else directory
    write_driver(name, target)
    write_line(f"wrote the driver {name} to {target}; next:")
    write_line(f"  cd {target}")
    write_line("  pip install -e '.[test]'")
    write_line("  pytest")
