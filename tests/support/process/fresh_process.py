"""Runs a test in a process of its own.

A test that forks gets a child with the locks of libraries as all threads of the process left them,
also threads of earlier tests. In a fresh process there are only the threads of that test.
"""

import os
import subprocess
import sys
from typing import Final

import pytest

#: The option of pytest in such a process.
OPTION: Final = "--in-fresh-process"
_PASSED: Final = "1 passed"
_SKIPPED: Final = "1 skipped"


def run_in_fresh_process(test: pytest.Function) -> None:
    """Runs a test in a new process of pytest, and fails or is skipped as that says."""
    config = test.config
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", OPTION]
    command += ["--tier", config.getoption("--tier"), test.nodeid]
    # The new process is no worker of a run that is divided, so that its folders are its own.
    environment = {name: value for name, value in os.environ.items() if "PYTEST_XDIST" not in name}
    done = subprocess.run(
        command, cwd=config.rootpath, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 0 and _SKIPPED in done.stdout:
        pytest.skip(done.stdout)
    if done.returncode != 0 or _PASSED not in done.stdout:
        pytest.fail(
            f"it failed in a process of its own (status {done.returncode}):\n{done.stdout}{done.stderr}",
            pytrace=False,
        )
