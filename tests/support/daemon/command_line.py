"""The command line as tests call it: in this process, or as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from neurald.service.cli import app


def invoke(*arguments: str | Path) -> Result:
    """Runs a command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def invoke_json(*arguments: str | Path) -> Any:
    """Runs a command that must succeed with `--json`; what it printed, which must be one document and nothing else."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def error_of(*arguments: str | Path) -> str:
    """Runs a command that must fail with one sentence and nothing else; the sentence."""
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
    """Starts a command as a process; stdout and stderr are pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "neurald", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
