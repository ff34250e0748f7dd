"""Units in a real systemd: installed, started by a connection, restarted, and drained.

Those of the machine serve real users of it, who are in the service's group or not.
"""

import json
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
        wait_until(lambda: compute(systemd) == "3.0")
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


_MACHINE_CONFIGURATION = """
socket_mode = "0666"
[drivers.sample-all]
"""
#: What a user of the machine does: computes, and looks where it must not.
_USER = """
import os
import numpy as np
import neurald as nd
from pathlib import Path
from support.models.addition import addition, request
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.rpc.client.device import connect
from neurald.service.manager.control import restart_driver
try:
    device = connect("unix:///run/neurald/sample-all.sock")
    result = np.zeros(2, np.float32)
    prepared = device.prepare_model(addition(np.ones(2)), PrepareOptions())
    prepared.execute(request(np.full(2, 2, np.float32), result), ExecuteOptions())
    print(result[0])
except nd.Error as error:
    print(error)
try:
    restart_driver("sample-all", system=True)
except nd.Error as error:
    print(error)
for folder in ("/var/cache/neurald", "/var/cache/neurald-drivers", "/var/lib/neurald"):
    print(os.access(folder, os.R_OK | os.X_OK))
"""


def as_user(systemd: LiveSystemd, user: str) -> list[str]:
    """Returns the lines of a user's program."""
    variables = (f"PYTHONPATH={python_path()}", "NEURALD_AUTOSTART=0", "HOME=/nonexistent")
    done = systemd.run("runuser", "-u", user, "--", "env", "-i", *variables, sys.executable, "-c", _USER)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


@pytest.mark.full
@pytest.mark.slow
def test_the_machines_service_serves_its_users(tmp_path: Path) -> None:
    if reason := unavailability(for_machine=True):
        pytest.skip(reason)
    environment = {
        "HOME": str(tmp_path),
        "PYTHONPATH": python_path(),
        "OPENBLAS_NUM_THREADS": "1",
        "NEURALD_AUTOSTART": "0",
    }
    with live_systemd(environment, users=("ada", "eve")) as systemd:

        def shell(script: str) -> str:
            done = systemd.run("sh", "-c", script)
            assert not done.returncode, done.stderr
            return done.stdout.strip()

        folder = "/etc/systemd/system/neurald.service.d"
        shell(f"mkdir -p /etc/neurald {folder}")
        shell(f"echo '{_MACHINE_CONFIGURATION}' > /etc/neurald/neurald.toml")
        # The tests' modules and sources are not those that are installed.
        shell(f"printf '[Service]\\nEnvironment=PYTHONPATH={python_path()}\\n' > {folder}/test.conf")
        neurald(systemd, "install-service", "--system")
        shell("usermod --append --groups neurald ada")
        assert shell("stat -c '%U %G %a' /run/neurald/sample-all.sock") == "neurald neurald 666"

        served, refused, *seen = as_user(systemd, "ada")
        assert served == "3.0"
        assert refused.startswith("permission denied: only user neurald (")
        assert seen == ["False"] * 3
        served, refused, *seen = as_user(systemd, "eve")
        assert served.startswith("permission denied: user eve (")
        assert refused.startswith("permission denied: only user neurald (")
        assert seen == ["False"] * 3

        (driver,) = json.loads(neurald(systemd, "status", "--system", "--json"))["drivers"]
        assert (driver["state"], driver["sandbox"], driver["deaths"]) == ("READY", "full", 0)
        assert shell("stat -c %U /proc/$(systemctl show -P MainPID neurald)") == "neurald"
        shell("systemctl stop neurald.service")
        assert shell("systemctl show -P Result neurald.service") == "success"
        neurald(systemd, "uninstall-service", "--system")
        assert shell("ls -A /run/neurald") == ""
