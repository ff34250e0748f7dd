"""The machine's service: who is served, who is told what, and where applications look first."""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.another_user import (
    MEMBER,
    SERVICE_GROUP,
    SERVICE_USER,
    STRANGER,
    needs_root,
    run_as,
    start_as,
)
from support.daemon.managed import Managed
from support.waiting import wait_until

from neurald.hal.errors import BadState, UnavailableDevice
from neurald.hal.process.files.runtime_directory import MACHINE_VARIABLE, machine_directory, machine_user
from neurald.hal.registry import running_daemons
from neurald.hal.rpc.client.device import connect
from neurald.service.daemon.socket_files import prepare_shared_directory
from neurald.service.manager.control import control_path, manager_status
from neurald.service.manager.state import DriverState

#: Serves a device to a group until it is killed.
_SERVE = f"""
from neurald.hal.admission.access.served_clients import ServedClients
from neurald.hal.admission.access.sharing import Sharing
from neurald.service.daemon import daemon
from neurald.service.daemon.running import run_daemon
daemon.create_device = lambda name: AddingDevice()
sharing = Sharing(users=frozenset(json.loads(sys.argv[2])), groups=frozenset([{SERVICE_GROUP}]), socket_mode=0o666)
served = daemon.Daemon("reference", sys.argv[1], clients=ServedClients(sharing=sharing))
run_daemon(served, ready=lambda address: print(address, flush=True))
"""
#: Computes 1 + 2 on the first device that is not the CPU.
_USE = """
devices = nd.devices()
print([device.name for device in devices])
for device in devices[1:]:
    prepared = device.prepare_model(addition(np.ones(2)), PrepareOptions())
    result = np.zeros(2, np.float32)
    prepared.execute(request(np.full(2, 2, np.float32), result), ExecuteOptions())
    print(result[0], device.status().access.name)
"""
_CONNECT = """
try:
    print(nd.connect(sys.argv[1]).name)
except nd.Error as error:
    print(error.code.name, error)
"""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of the machine's service, where other users can go."""
    folder = Path(tempfile.mkdtemp(prefix="neurald-m-"))
    folder.chmod(0o755)
    monkeypatch.setenv(MACHINE_VARIABLE, str(folder / "neurald"))
    yield folder / "neurald"
    shutil.rmtree(folder)


def environment(machine: Path) -> dict[str, str]:
    """The environment of another user's processes, who have a runtime directory of their own."""
    own = machine.with_name("user")
    own.mkdir(mode=0o777, exist_ok=True)
    own.chmod(0o777)
    return {
        MACHINE_VARIABLE: str(machine),
        "XDG_RUNTIME_DIR": str(own / "none"),
        "XDG_CACHE_HOME": str(own / "cache"),
        "XDG_STATE_HOME": str(own / "state"),
        "HOME": str(own),
        "NEURALD_AUTOSTART": "0",
    }


@pytest.fixture
def daemon(machine: Path) -> Iterator[str]:
    """A daemon of the service's user, which serves the service's group and nobody else."""
    machine.mkdir()
    os.chown(machine, SERVICE_USER, SERVICE_GROUP)
    address = f"unix://{machine / 'adder.sock'}"
    process = start_as(SERVICE_USER, [SERVICE_GROUP], _SERVE, address, "[]", environment=environment(machine))
    assert process.stdout is not None
    assert process.stdout.readline().strip() == address
    yield address
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


@needs_root
def test_members_of_the_group_are_served(daemon: str, machine: Path) -> None:
    out, _ = run_as(MEMBER, [MEMBER, SERVICE_GROUP], _USE, environment=environment(machine))
    assert out == "['cpu', 'adder@adder']\n3.0 LISTED_USERS\n"
    out, _ = run_as(MEMBER, [SERVICE_GROUP], _CONNECT, daemon, environment=environment(machine))
    assert out == "adder@adder\n"


@needs_root
def test_others_are_told_that_they_have_no_permission(daemon: str, machine: Path) -> None:
    out, err = run_as(STRANGER, [STRANGER], _USE, environment=environment(machine))
    assert out == "['cpu']\n"
    assert err.count(f"permission denied: user {STRANGER} is not among the users and groups") == 1
    out, _ = run_as(STRANGER, [STRANGER], _CONNECT, daemon, environment=environment(machine))
    assert out.startswith(f"UNAVAILABLE_DEVICE permission denied: user {STRANGER} is not among the users")
    # The mode of the socket may refuse them before the daemon does.
    (machine / "adder.sock").chmod(0o660)
    out, _ = run_as(STRANGER, [STRANGER], _CONNECT, daemon, environment=environment(machine))
    assert f"permission denied: user {STRANGER} may not connect to {daemon}" in out
    out, err = run_as(STRANGER, [STRANGER], _USE, environment=environment(machine))
    assert out == "['cpu']\n"
    assert "permission denied" in err


@needs_root
def test_users_are_admitted_to_a_socket_anywhere(machine: Path) -> None:
    """Those whom root admits to a daemon need no token, wherever its socket is."""
    folder = machine.with_name("elsewhere")
    folder.mkdir()
    address = f"unix://{folder / 'adder.sock'}"
    process = start_as(0, [0], _SERVE, address, "[]", environment=environment(machine))
    assert process.stdout is not None
    assert process.stdout.readline().strip() == address
    out, _ = run_as(MEMBER, [MEMBER, SERVICE_GROUP], _CONNECT, address, environment=environment(machine))
    assert out == "adder@adder\n"
    out, _ = run_as(STRANGER, [STRANGER], _CONNECT, address, environment=environment(machine))
    assert out.startswith(f"UNAVAILABLE_DEVICE permission denied: user {STRANGER} is not among the users")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    out, _ = run_as(MEMBER, [MEMBER], _CONNECT, address, environment=environment(machine))
    assert out.startswith("UNAVAILABLE_DEVICE")


@needs_root
def test_a_stranger_who_skips_the_side_channel_gets_nothing(daemon: str, machine: Path) -> None:
    program = """
import grpc
from neurald._proto import device_pb2, device_pb2_grpc
stub = device_pb2_grpc.DeviceStub(grpc.insecure_channel("unix:" + sys.argv[1]))
for call, message in (("Describe", "DescribeRequest"), ("OpenSession", "OpenSessionRequest")):
    try:
        reply = getattr(stub, call)(getattr(device_pb2, message)(), timeout=30)
        print(reply if call == "Describe" else next(reply))
    except grpc.RpcError as error:
        print(error.code().name)
"""
    out, _ = run_as(
        STRANGER, [STRANGER], program, daemon.removeprefix("unix://"), environment=environment(machine)
    )
    assert out == "UNAUTHENTICATED\nUNAUTHENTICATED\n"


@needs_root
def test_root_and_the_user_of_the_service_are_served(daemon: str, machine: Path) -> None:
    for user, group in ((SERVICE_USER, SERVICE_GROUP), (0, 0)):
        out, _ = run_as(user, [group], _CONNECT, daemon, environment=environment(machine))
        assert out == "adder@adder\n"


@needs_root
def test_a_daemon_that_somebody_else_put_there_is_not_used(daemon: str, machine: Path) -> None:
    # Its user does not own the directory; it was moved there by mistake.
    os.chown(machine, 0, SERVICE_GROUP)
    out, _ = run_as(MEMBER, [SERVICE_GROUP], _CONNECT, daemon, environment=environment(machine))
    assert f"belongs to user {SERVICE_USER}" in out


@needs_root
def test_a_directory_that_others_can_replace_is_nobodys(machine: Path) -> None:
    assert machine_directory() == machine
    assert machine_user() is None
    machine.mkdir()
    os.chown(machine, SERVICE_USER, SERVICE_GROUP)
    assert machine_user() == SERVICE_USER
    machine.chmod(0o775)
    assert machine_user() is None
    machine.chmod(0o755)
    machine.parent.chmod(0o777)
    assert machine_user() is None
    machine.parent.chmod(0o755)
    os.chown(machine.parent, STRANGER, 0)
    assert machine_user() is None


class MachineManaged(Managed):
    """The machine's service manager, run by root, which serves a group."""

    def configure(self, **settings: object) -> None:
        super().configure(**settings)
        text = self.file.read_text()
        self.file.write_text(f"group = {SERVICE_GROUP}\nsocket_mode = '0666'\nusers = [{MEMBER}]\n" + text)


@pytest.fixture
def managed(
    machine: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MachineManaged]:
    folder = tmp_path_factory.mktemp("m")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "none"))
    with MachineManaged(folder, "--system", directory=machine) as manager:
        yield manager


@needs_root
def test_the_manager_starts_drivers_for_those_whom_it_admits(managed: MachineManaged, machine: Path) -> None:
    address = str(managed.address)
    status = machine.stat()
    assert (status.st_mode & 0o7777, status.st_gid) == (0o2755, SERVICE_GROUP)
    assert (machine / "adder.sock").stat().st_gid == SERVICE_GROUP
    out, _ = run_as(STRANGER, [STRANGER], _CONNECT, address, environment=environment(machine))
    assert "the service manager does not start the driver" in out
    assert f"permission denied: user {STRANGER} is not among the users" in out
    assert managed.status().starts == 0
    out, _ = run_as(MEMBER, [MEMBER], _CONNECT, address, environment=environment(machine))
    assert out == "adder@adder\n"
    for name in ("adder.sock", "adder.sock.memory"):
        status = (machine / name).stat()
        assert (status.st_mode & 0o777, status.st_gid) == (0o666, SERVICE_GROUP)
    out, _ = run_as(STRANGER, [SERVICE_GROUP], _CONNECT, address, environment=environment(machine))
    assert out == "adder@adder\n"
    out, _ = run_as(STRANGER, [STRANGER], _CONNECT, address, environment=environment(machine))
    assert out.startswith(f"UNAVAILABLE_DEVICE permission denied: user {STRANGER} is not among the users")


@needs_root
def test_other_users_see_the_status_and_control_nothing(managed: MachineManaged, machine: Path) -> None:
    program = """
from neurald.service.manager.control import manager_status, restart_driver
print([(each.name, each.last_lines) for each in manager_status().drivers])
try:
    restart_driver("adder")
except nd.Error as error:
    print(error)
"""
    connect(str(managed.address)).close()
    wait_until(lambda: managed.status().last_lines)
    out, _ = run_as(MEMBER, [MEMBER], program, environment=environment(machine))
    assert out == (
        "[('adder', ())]\npermission denied: only user root (0) and root may control the service manager\n"
    )
    assert managed.command("restart", "adder", "--system").returncode == 0
    assert managed.command("status", "--system", "--check").returncode == 0


@needs_root
def test_whom_it_admits_can_be_changed(managed: MachineManaged, machine: Path) -> None:
    address = str(managed.address)
    text = managed.file.read_text()
    managed.file.write_text(text.replace("'0666'", "'0660'").replace(str(MEMBER), str(STRANGER)))
    managed.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "was loaded again" in managed.log)
    assert (machine / "adder.sock").stat().st_mode & 0o777 == 0o660
    out, _ = run_as(MEMBER, [MEMBER], _CONNECT, address, environment=environment(machine))
    assert f"permission denied: user {MEMBER} may not connect" in out
    out, _ = run_as(STRANGER, [STRANGER, SERVICE_GROUP], _CONNECT, address, environment=environment(machine))
    assert out == "adder@adder\n"
    assert (machine / "adder.sock").stat().st_mode & 0o777 == 0o660


@needs_root
def test_the_users_own_service_comes_first(
    managed: MachineManaged, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_address = str(managed.address)
    assert running_daemons() == (machine_address,)
    assert control_path() == managed.directory / "manager.sock"
    folder = tmp_path_factory.mktemp("own")
    with Managed(folder) as own:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
        assert running_daemons() == (str(own.address), machine_address)
        assert manager_status().process == own.process.pid
        assert manager_status(system=True).process == managed.process.pid


@needs_root
def test_quarantine_fails_the_check(managed: MachineManaged) -> None:
    managed.behaviour.write_text("exit")

    def is_quarantined() -> bool:
        with contextlib.suppress(UnavailableDevice):
            connect(str(managed.address))
        return managed.status().state is DriverState.QUARANTINED

    wait_until(is_quarantined, 120)
    assert managed.command("status", "--system", "--check").returncode == 1


def test_the_directory_of_the_machine_gets_its_group(tmp_path: Path) -> None:
    folder = tmp_path / "neurald"
    prepare_shared_directory(folder, os.getegid())
    status = folder.stat()
    assert (status.st_mode & 0o7777, status.st_gid) == (0o2755, os.getegid())
    prepare_shared_directory(folder, os.getegid())
    with pytest.raises(BadState, match="install-service --system"):
        prepare_shared_directory(tmp_path / "no" / "neurald", os.getegid())
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(BadState, match="link"):
        prepare_shared_directory(link, os.getegid())
