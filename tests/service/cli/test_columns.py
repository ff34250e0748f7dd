"""What commands say about themselves, and about wrong arguments, fits a terminal of 80 columns."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from neurald.service.cli import app


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


@pytest.mark.parametrize(
    "path", list(commands(get_command(app))), ids=lambda path: " ".join(path) or "neurald"
)
@pytest.mark.parametrize("argument", ["--help", "--zzz"])
def test_a_command_fits(path: tuple[str, ...], argument: str) -> None:
    done = CliRunner().invoke(app, [*path, argument], env={"COLUMNS": "80", "TERM": "xterm"})
    assert done.exit_code == (0 if argument == "--help" else 2)
    assert done.output
    assert not [line for line in done.output.splitlines() if len(line) > 80]
