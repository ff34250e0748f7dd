"""gRPC is imported without its handlers of forks, and the environment stays as it is."""

import os
import subprocess
import sys

import pytest
from support.daemon.processes import python_path

_PROGRAM = """
import os, sys
found = []


class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            found.append(os.environ.get("GRPC_ENABLE_FORK_SUPPORT"))


sys.meta_path.insert(0, Watch())
if sys.argv[1] == "earlier":
    import grpc
from neurald.hal.process.grpc_import import import_grpc

import_grpc()
import_grpc()
print(found, os.environ.get("GRPC_ENABLE_FORK_SUPPORT"), "grpc" in sys.modules)
"""


@pytest.mark.parametrize(
    ("when", "chosen", "expected"),
    [
        ("now", None, "['0'] None True"),
        ("now", "1", "['1'] 1 True"),
        ("earlier", None, "[None] None True"),
    ],
)
def test_the_handlers_are_off_unless_users_turn_them_on(when: str, chosen: str | None, expected: str) -> None:
    environment = {**os.environ, "PYTHONPATH": python_path()}
    environment.pop("GRPC_ENABLE_FORK_SUPPORT", None)
    if chosen is not None:
        environment["GRPC_ENABLE_FORK_SUPPORT"] = chosen
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, when], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{expected}\n", done.stderr
