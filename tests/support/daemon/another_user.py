"""Programs that run as another user of this machine, as only root can start them."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest
from support.daemon.processes import python_path

#: Users and groups that need not exist: the kernel knows only numbers.
SERVICE_USER = 1200
SERVICE_GROUP = 1300
MEMBER = 1101
STRANGER = 1102

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

#: Modules are imported before, also those that are usually imported late, since another user may
#: not read where Python is installed, nor the sources.
_PREAMBLE = """
import codecs, json, os, sys
import numpy as np
import neurald as nd
import neurald.hal.rpc.client.device, neurald.hal.rpc.server.server, neurald.service.daemon.daemon
import neurald.service.manager.control, neurald.service.console.output
import grpc._channel, grpc._server, neurald.hal.operations.elementwise.arithmetic
from neurald.hal.device import ExecuteOptions, PrepareOptions
from support.models.addition import AddingDevice, addition, request
for encoding in ("ascii", "latin-1", "unicode_escape"):
    codecs.lookup(encoding)
# As root, this process must not connect to anything yet.
machine = os.environ.pop("NEURALD_MACHINE_DIRECTORY", "")
nd.devices()
os.environ["NEURALD_MACHINE_DIRECTORY"] = machine
user, groups = int(sys.argv[1]), [int(each) for each in sys.argv[2].split(",")]
os.setgroups(groups[1:])
os.setresgid(groups[0], groups[0], groups[0])
os.setresuid(user, user, user)
del sys.argv[1:3]
"""


def start_as(
    user: int, groups: Sequence[int], program: str, *arguments: str, environment: Mapping[str, str]
) -> "subprocess.Popen[str]":
    """Starts a Python program as a user with a main group and others."""
    return subprocess.Popen(
        [sys.executable, "-c", _PREAMBLE + program, str(user), ",".join(map(str, groups)), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path(), "OPENBLAS_NUM_THREADS": "1", **environment},
    )


def run_as(
    user: int, groups: Sequence[int], program: str, *arguments: str, environment: Mapping[str, str]
) -> tuple[str, str]:
    """Runs a Python program as a user; returns what it wrote to stdout and stderr."""
    process = start_as(user, groups, program, *arguments, environment=environment)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err
