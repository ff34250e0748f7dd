"""Finding devices: factories by name, and running daemons."""

import socket
import stat
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from support.models.addition import AddingDevice
from support.sweeps import sweep

import neurald.hal.registry as registry
from neurald.hal.device import Device
from neurald.hal.errors import BadData, OutOfMemory, UnavailableDevice
from neurald.hal.model.types import DeviceType
from neurald.hal.process.activation import OTHER_SOCKETS
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer

pytestmark = pytest.mark.quick


def failing() -> AddingDevice:
    raise OutOfMemory("no room for a device")


def broken() -> AddingDevice:
    raise RuntimeError("libOpenCL.so.1 is missing")


def ending() -> AddingDevice:
    raise SystemExit("no hardware")


class Factory:
    @staticmethod
    def create() -> AddingDevice:
        return AddingDevice()


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "neurald"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        EntryPoint("adder", "support.models.addition:create", registry.GROUP),
        EntryPoint("cpu", "support.models.addition:create", registry.GROUP),
        EntryPoint("absent", "no_such_package.driver:create", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == registry.GROUP else ())


def test_the_cpu_is_built_in() -> None:
    device = registry.create_device("cpu")
    assert device.type is DeviceType.CPU
    assert registry.driver_names()[0] == "cpu"


def test_installed_drivers(installed: None) -> None:
    assert registry.driver_names() == (*registry.BUILT_IN, "absent", "adder")
    assert registry.create_device("adder").name == "adder"
    assert registry.create_device("cpu").type is DeviceType.CPU
    with pytest.raises(UnavailableDevice, match="driver absent: ModuleNotFoundError"):
        registry.create_device("absent")


def test_factories() -> None:
    assert registry.create_device("support.models.addition:create_other").version == "2"
    assert registry.create_device("support.models.addition:AddingDevice").version == "1"


@sweep(
    ("driver", "kind", "reason"),
    [
        ("opengl", UnavailableDevice, "no driver 'opengl'; available are cpu"),
        ("", UnavailableDevice, "no driver ''"),
        ("support.nothing:create", UnavailableDevice, "ModuleNotFoundError"),
        ("support.models.addition:nothing", UnavailableDevice, "nothing"),
        ("support.models.addition:", BadData, "module:factory"),
        (":create", BadData, "module:factory"),
        ("a:b:c", BadData, "module:factory"),
        ("unix:///run/gpu.sock", BadData, "nd.connect connects to a daemon"),
        ("gpu.example:7000", BadData, "nd.connect connects to a daemon"),
        ("builtins:print", BadData, "returned None; a device is expected"),
        ("os; import sys:exit", BadData, "module:factory"),
        ("string:digits", BadData, "a function that returns a device is expected"),
        ("builtins:dict", BadData, "a dict; a device is expected"),
        ("os:abort.x", UnavailableDevice, "AttributeError"),
    ],
)
def test_drivers_that_are_none(driver: str, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind, match=reason):
        registry.create_device(driver)


def test_drivers_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    import support.models.addition as addition

    monkeypatch.setattr(addition, "failing", failing, raising=False)
    monkeypatch.setattr(addition, "broken", broken, raising=False)
    monkeypatch.setattr(addition, "ending", ending, raising=False)
    monkeypatch.setattr(addition, "Factory", Factory, raising=False)
    with pytest.raises(UnavailableDevice, match="SystemExit: no hardware"):
        registry.create_device("support.models.addition:ending")
    with pytest.raises(OutOfMemory, match="no room"):
        registry.create_device("support.models.addition:failing")
    with pytest.raises(UnavailableDevice, match=r"RuntimeError: libOpenCL.so.1 is missing"):
        registry.create_device("support.models.addition:broken")
    assert registry.create_device("support.models.addition:Factory.create").name == "adder"


def test_devices_that_lack_something(monkeypatch: pytest.MonkeyPatch) -> None:
    import support.models.addition as addition

    members: dict[str, object] = {name: None for name in vars(Device) if not name.startswith("_")}
    lacking = type("Lacking", (), {name: None for name in members if name not in ("type", "allocate")})
    monkeypatch.setattr(addition, "lacking", lacking, raising=False)
    with pytest.raises(BadData, match=r"returned a Lacking; .* it lacks type, allocate$"):
        registry.create_device("support.models.addition:lacking")

    class Wrapped:
        def __getattr__(self, name: str) -> object:
            return members[name]

    monkeypatch.setattr(addition, "wrapped", Wrapped, raising=False)
    with pytest.raises(BadData, match="its name is None"):
        registry.create_device("support.models.addition:wrapped")
    monkeypatch.setitem(members, "name", "wrapped")
    assert isinstance(registry.create_device("support.models.addition:wrapped"), Wrapped)


def test_running_daemons(directory: Path) -> None:
    assert registry.running_daemons() == ()
    directory.mkdir(mode=0o700)
    assert registry.running_daemons() == ()
    for name in ("stale.sock", "other"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(directory / name))
    # The service manager and the execution service are not drivers.
    others = [socket.socket(socket.AF_UNIX) for _ in OTHER_SOCKETS]
    for listener, name in zip(others, sorted(OTHER_SOCKETS), strict=True):
        listener.bind(str(directory / name))
        listener.listen()
    (directory / "file.sock").touch()
    (directory / "folder.sock").mkdir()
    (directory / "cpu.sock.lock").touch()
    servers = [
        DeviceServer(AddingDevice(), Address.parse(f"unix://{directory}/{name}.sock")) for name in ("b", "a")
    ]
    for server in servers:
        server.start()
    assert registry.running_daemons() == (f"unix://{directory}/a.sock", f"unix://{directory}/b.sock")
    for server in servers:
        server.stop()
    assert registry.running_daemons() == ()
    for listener in others:
        listener.close()


def test_a_directory_that_others_can_write_is_not_trusted(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "x.sock"))
        listener.listen()
        assert len(registry.running_daemons()) == 1
        directory.chmod(0o777 | stat.S_ISVTX)
        assert registry.running_daemons() == ()
        directory.chmod(0o700)
        directory.rename(directory.with_name("real"))
        directory.symlink_to(directory.with_name("real"))
        assert registry.running_daemons() == ()


def test_a_driver_gets_ready_beforehand_if_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    module = sys.modules["support.models.addition"]
    registry.get_ready("support.models.addition:AddingDevice")  # it has nothing to do
    monkeypatch.setattr(module, "get_ready", lambda: calls.append("ready"), raising=False)
    registry.get_ready("support.models.addition:AddingDevice")
    assert calls == ["ready"]
    registry.load_driver("support.models.addition:AddingDevice")
    assert calls == ["ready"]
    with pytest.raises(UnavailableDevice, match="absent"):
        registry.get_ready("absent")
