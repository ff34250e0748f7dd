"""The user's units in a real systemd: installed, started by a connection, restarted, and drained."""

import signal
import sys
from pathlib import Path

import pytest
from support.daemon.live_systemd import LiveSystemd, live_systemd, unavailability
from support.daemon.managed import BEHAVIOUR_VARIABLE
from support.daemon.processes import python_path
from support.waiting import wait_until

_SERVICE = "neurald.service"
_CONFIGURATION = """
[drivers.adder]
driver = "support.daemon.managed:create_adder"
sandbox = "off"
[drivers.adder.environment]
BEHAVIOUR = "{behaviour}"
"""
#: Computes 1 + 2 on the device at the socket in the runtime directory.
_CLIENT = """
import os
import numpy as np
from support.models.addition import addition, request
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.rpc.client.device import connect
device = connect(f"unix://{os.environ['XDG_RUNTIME_DIR']}/neurald/adder.sock")
result = np.zeros(2, np.float32)
prepared = device.prepare_model(addition(np.ones(2)), PrepareOptions())
prepared.execute(request(np.full(2, 2, np.float32), result), ExecuteOptions())
print(result[0])
"""


def neurald(systemd: LiveSystemd, *arguments: str) -> str:
    done = systemd.run(sys.executable, "-m", "neurald", *arguments)
    assert not done.returncode, done.stderr + done.stdout
    return done.stdout


def compute(systemd: LiveSystemd) -> str:
    done = systemd.run(sys.executable, "-c", _CLIENT)
    return done.stdout.strip() or done.stderr


@pytest.mark.slow
def test_the_users_service_lives(tmp_path: Path) -> None:
    if reason := unavailability():
        pytest.skip(reason)
    (tmp_path / "behaviour").write_text("")
    folder = tmp_path / "config" / "neurald"
    folder.mkdir(parents=True)
    (folder / "neurald.toml").write_text(_CONFIGURATION.format(behaviour=tmp_path / "behaviour"))
    environment = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PYTHONPATH": python_path(),
        "OPENBLAS_NUM_THREADS": "1",
        BEHAVIOUR_VARIABLE: str(tmp_path / "behaviour"),
    }
    with live_systemd(environment) as systemd:
        neurald(systemd, "install-service", "--user")
        assert systemd.show("neurald.socket", "ActiveState") == "active"
        assert systemd.show(_SERVICE, "ActiveState") == "inactive"

        # The first connection starts the manager, which starts the driver.
        assert compute(systemd) == "3.0"
        assert systemd.show(_SERVICE, "ActiveState") == "active"
        first = systemd.show(_SERVICE, "MainPID")

        # A manager that dies is started again, and its drivers serve again.
        systemd.kill(_SERVICE, signal.SIGKILL)
        wait_until(
            lambda: (
                systemd.show(_SERVICE, "ActiveState") == "active"
                and systemd.show(_SERVICE, "MainPID") not in (first, "0")
            )
        )
        wait_until(lambda: compute(systemd) == "3.0")
        assert systemd.show(_SERVICE, "NRestarts") == "1"

        # SIGTERM drains it, without a failure; the socket stays, and starts it again.
        done = systemd.run("systemctl", "--user", "stop", _SERVICE)
        assert not done.returncode, done.stderr
        assert systemd.show(_SERVICE, "Result") == "success"
        assert systemd.show(_SERVICE, "ExecMainStatus") == "0"
        assert systemd.show("neurald.socket", "ActiveState") == "active"
        wait_until(lambda: compute(systemd) == "3.0")

        neurald(systemd, "uninstall-service", "--user")
        assert systemd.show(_SERVICE, "LoadState") == "not-found"
        assert not list((tmp_path / "config" / "systemd").rglob("neurald.*"))
