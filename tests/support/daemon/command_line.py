"""Runs the command line in this process, or as a separate process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from neurald.service.cli import app


def invoke(*arguments: str | Path) -> Result:
    """Runs a command in this process, whose environment stays as it is."""
    # Options such as --token-file become variables.
    before = dict(os.environ)
    try:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])
    finally:
        os.environ.clear()
        os.environ.update(before)


def invoke_json(*arguments: str | Path) -> Any:
    """Runs a command with `--json`; returns the printed document.

    Asserts that the command succeeds and prints exactly one document.
    """
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def error_of(*arguments: str | Path) -> str:
    """Runs a command that must fail and print nothing but one sentence; returns that."""
    result = invoke(*arguments)
    assert result.exit_code == 1, (result.exit_code, result.stdout, result.stderr)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "unexpected" not in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")
    return result.stderr


def start(*arguments: str | Path, **options: Any) -> "subprocess.Popen[str]":
    """Starts a command as a process with pipes for stdout and stderr."""
    return subprocess.Popen(
        [sys.executable, "-m", "neurald", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **{"stdin": subprocess.DEVNULL, **options},
    )


#: Exit statuses of a process that Ctrl-C ended, for `subprocess`: a second signal may arrive when
#: the interpreter has already restored the system's handler. A shell shows 130 for both.
INTERRUPTED = (130, -signal.SIGINT)
