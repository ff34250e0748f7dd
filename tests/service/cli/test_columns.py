"""Help of commands, and errors about wrong arguments, fit a terminal of 80 columns."""

import io
import sys
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


_LONG = " ".join(("a value of many words",) * 5)


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("explain", "x.tflite", "--what-if", _LONG), _LONG),
        (("benchmark", "x.tflite", "--runs", "many" * 10), "--runs"),
        (("explain", "x.tflite", *("argument",) * 12), "argument " * 12),
        ((_LONG,), _LONG),
    ],
)
def test_wrong_values_are_reported_within_the_terminal(
    arguments: tuple[str, ...], told: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(SystemExit) as caught:
        app(arguments)
    assert caught.value.code == 2
    message = stream.getvalue().partition("Error: ")[2].rstrip("\n")
    assert told.strip() in " ".join(message.split())
    assert (max(map(len, message.splitlines())) <= 80) is is_terminal
    assert ("\n" in message) is is_terminal
