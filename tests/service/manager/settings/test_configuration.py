"""The configuration of the service manager: precedence, sources, and errors with its name."""

import json
import tomllib
from pathlib import Path

import msgspec
import pytest
from support.sweeps import sweep

from neurald.hal.admission.access.sharing import Sharing
from neurald.hal.errors import BadData, BadState
from neurald.hal.process.files.configuration_file import CONFIG_VARIABLE, DRIVERS_VARIABLE
from neurald.hal.registry import default_drivers
from neurald.service.cli.manager.config import config
from neurald.service.logs.choices import LogFormat, LogLevel
from neurald.service.manager.settings.configuration import (
    DRAIN_VARIABLE,
    IDLE_VARIABLE,
    LOG_FORMAT_VARIABLE,
    LOG_LEVEL_VARIABLE,
    DriverSettings,
    Flags,
    _File,
    driver_sharing,
    limit_arguments,
    load_configuration,
    load_for_this_machine,
    tls_arguments,
)
from neurald.service.manager.settings.setting_choice import DEFAULT
from neurald.service.sandbox.mode import SandboxMode

_FILE = """
idle_s = 60

[drivers.gpu]
driver = "opencl"
idle_s = 10
sandbox = "full"
limits = {sessions = 8, memory_bytes = "512MiB"}

[drivers.cpu]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in (
        *(CONFIG_VARIABLE, DRIVERS_VARIABLE, IDLE_VARIABLE, DRAIN_VARIABLE),
        *(LOG_LEVEL_VARIABLE, LOG_FORMAT_VARIABLE),
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    path = tmp_path / "neurald.toml"
    path.write_text(_FILE)
    return path


def test_values_of_a_file(file: Path) -> None:
    found = load_configuration(file)
    assert list(found.drivers) == ["gpu", "cpu"]
    gpu, cpu = found.drivers.values()
    assert (gpu.driver, gpu.idle_s, gpu.sandbox) == ("opencl", 10, SandboxMode.FULL)
    assert limit_arguments(gpu) == ["sessions=8", "memory_bytes=512MiB"]
    assert (cpu.driver, cpu.idle_s, cpu.watchdog_s) == ("cpu", 60, 2.0)
    assert found.sources["idle_s"] == found.sources["drivers"] == str(file)
    assert found.sources["drivers.gpu.limits"] == found.sources["drivers.cpu.idle_s"] == str(file)
    assert found.sources["drivers.cpu.watchdog_s"] == DEFAULT


def test_flags_come_before_the_environment_and_that_before_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    monkeypatch.setenv(IDLE_VARIABLE, "20")
    monkeypatch.setenv(DRIVERS_VARIABLE, "cpu, reference")
    found = load_configuration()
    assert {name: each.idle_s for name, each in found.drivers.items()} == {"cpu": 20, "reference": 20}
    assert (found.sources["idle_s"], found.sources["drivers"]) == (IDLE_VARIABLE, DRIVERS_VARIABLE)
    found = load_configuration(flags=Flags(drivers=("gpu",), idle_s=5))
    assert found.drivers["gpu"].idle_s == 10
    assert (found.sources["idle_s"], found.sources["drivers"]) == ("--idle", "--driver")


def test_values_that_drivers_take_from_the_manager(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = load_configuration(file)
    assert (plain.log_level, plain.log_format) == (LogLevel.INFO, LogFormat.AUTO)
    assert {(each.log_level, each.drain_s) for each in plain.drivers.values()} == {(LogLevel.NOTICE, 30)}
    file.write_text("drain_s = 5\nlog_level = 'error'\n" + _FILE + "drain_s = 7\nlog_level = 'debug'\n")
    found = load_configuration(file)
    gpu, cpu = found.drivers.values()
    assert (found.log_level, gpu.log_level, cpu.log_level) == (LogLevel.ERROR, LogLevel.ERROR, LogLevel.DEBUG)
    assert (gpu.drain_s, cpu.drain_s) == (5, 7)
    assert found.sources["drivers.gpu.drain_s"] == str(file)
    monkeypatch.setenv(DRAIN_VARIABLE, "9")
    monkeypatch.setenv(LOG_FORMAT_VARIABLE, "json")
    found = load_configuration(file, Flags(log_level=LogLevel.WARNING))
    assert (found.log_level, found.log_format) == (LogLevel.WARNING, LogFormat.JSON)
    assert found.sources["drivers.gpu.log_level"] == "--log-level"
    assert found.sources["drivers.gpu.drain_s"] == DRAIN_VARIABLE


def test_paths_at_home(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    file.write_text("[drivers.cpu]\nwritable = ['~/x', '/y']\nreadable = ['~']")
    (found,) = load_configuration(file).drivers.values()
    assert (found.writable, found.readable) == (("/home/ada/x", "/y"), ("/home/ada",))


def test_users_of_the_machine(file: Path) -> None:
    own = load_configuration(file)
    assert (own.system, own.socket_mode) == (False, "0600")
    assert {(each.users, each.groups) for each in own.drivers.values()} == {((), ())}
    text = "users = [1001]\ngroup = 44\n" + _FILE + "groups = ['root', 7]\n"
    file.write_text(text)
    found = load_for_this_machine(file, Flags(system=True))
    gpu, cpu = found.drivers.values()
    assert (found.system, found.group, found.socket_mode) == (True, "44", "0660")
    assert (gpu.users, gpu.groups) == ((1001,), ("44",))
    assert driver_sharing(cpu, "0666") == Sharing(
        users=frozenset({1001}), groups=frozenset({0, 7}), socket_mode=0o666
    )
    assert found.sources["drivers.gpu.users"] == str(file)
    assert found.sources["drivers.gpu.groups"] == found.sources["socket_mode"] == DEFAULT


@sweep(
    ("content", "message"),
    [
        ("users = ['no one']\n[drivers.cpu]", r"of the driver cpu: there is no user 'no one'"),
        ("[drivers.cpu]\ngroups = ['no one']", r"of the driver cpu: there is no group 'no one'"),
        ("group = 'no one'\ngroups = []\n[drivers.cpu]", r"group \(.*neurald\.toml\): there is no group"),
    ],
    ids=range(3),
)
def test_users_that_this_machine_lacks(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    # The unit files for such a configuration can be written: they create the group.
    load_configuration(file, Flags(system=True))
    with pytest.raises(BadData, match=message):
        load_for_this_machine(file, Flags(system=True))


def test_without_a_file_installed_devices_are_supervised(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = load_configuration()
    assert tuple(found.drivers) == default_drivers()
    assert "cpu" not in found.drivers
    assert found.sources["drivers"] == DEFAULT
    folder = tmp_path / "config" / "neurald"
    folder.mkdir(parents=True)
    file.rename(folder / "neurald.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert list(load_configuration().drivers) == ["gpu", "cpu"]


@sweep(
    ("content", "message"),
    [
        ("idle = 3", r"neurald.toml: 'idle' is not a setting; did you mean 'idle_s'\?"),
        ("[drivers.cpu]\nidle_s = 'soon'", "drivers.cpu.idle_s is a string; a number is expected"),
        ("[drivers.cpu]\nidle_s = -1", r"drivers\.cpu\.idle_s \(.*neurald.toml\) is -1"),
        (
            "[drivers.cpu]\nlisten = '0.0.0.0:7000'",
            "listen .*: 0.0.0.0:7000 needs the folder tls, or each of",
        ),
        ("[drivers.cpu]\nlisten = '0.0.0.0:0'\ntls = '/t'", "host:port is expected"),
        ("[drivers.cpu]\nlisten = 'unix:///a'\ntls = '/t'", "host:port is expected"),
        ("[drivers.cpu]\nlisten = '7000'\ntls = '/t'", "listen .*is not an address"),
        ("[drivers.cpu]\ntls_key = '/t'", "tls_key needs listen"),
        ("[drivers.cpu]\nlisten = 'a:7000'\ntls = 'gpu'", "tls is 'gpu'; an absolute path"),
        (
            "[drivers.cpu]\nlisten = 'a:7000'\ntls = '/t'\n[drivers.gpu]\nlisten = 'b:7000'\ntls = '/t'",
            "drivers.gpu.listen: port 7000 is that of the driver cpu",
        ),
        ("[drivers.cpu]\nstart_s = 0", "start_s .* more than 0"),
        ("[drivers.cpu]\nwatchdog_s = nan", "watchdog_s .* is nan"),
        ("[drivers.cpu]\nlimits = {session = 3}", "limits .*there is no limit 'session'"),
        (
            "[drivers.cpu]\nsandbox = 'half'",
            "drivers.cpu.sandbox is 'half'; expected is one of auto, full, off",
        ),
        ("[drivers.cpu.environment]\n'A=B' = 'x'", "'A=B' is not a variable"),
        ("[drivers.'../up']", "names a driver '../up'"),
        ("[drivers.manager]", "other than 'manager' and 'service'"),
        ("[drivers.service]", "other than 'manager' and 'service'"),
        ("idle_s = inf", "is inf"),
        ("socket_mode = '777'", r"socket_mode \(.*neurald.toml\): '777' is not the mode of a socket"),
        ("[drivers.cpu]\nwritable = ['a/b']", r"drivers\.cpu\.writable \(.*\) is 'a/b'; an absolute path"),
        ("[drivers.cpu]\nreadable = ['/a', '']", r"drivers\.cpu\.readable \(.*\) is ''; an absolute path"),
        ("drivers = [", "neurald.toml: "),
    ],
)
def test_mistakes_are_named(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    with pytest.raises(BadData, match=message):
        load_configuration(file)


def test_mistakes_outside_of_the_file(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadState, match="does not exist"):
        load_configuration(tmp_path / "absent.toml")
    with pytest.raises(BadState, match="cannot be read"):
        load_configuration(tmp_path)
    with pytest.raises(BadData, match="--driver names the driver cpu twice"):
        load_configuration(file, Flags(drivers=("cpu", "cpu")))
    with pytest.raises(BadData, match=r"idle_s \(--idle\) is -1"):
        load_configuration(file, Flags(idle_s=-1))
    with pytest.raises(BadData, match=r"drain_s \(--drain\) is nan"):
        load_configuration(file, Flags(drain_s=float("nan")))
    file.write_bytes(b"#" * (2 << 20))
    with pytest.raises(BadData, match="more than"):
        load_configuration(file)
    monkeypatch.setenv(IDLE_VARIABLE, "soon")
    with pytest.raises(BadData, match=f"{IDLE_VARIABLE} is 'soon'"):
        load_configuration()
    monkeypatch.delenv(IDLE_VARIABLE)
    monkeypatch.setenv(LOG_LEVEL_VARIABLE, "loud")
    with pytest.raises(BadData, match=f"{LOG_LEVEL_VARIABLE} is 'loud'; expected is one of debug, info"):
        load_configuration()


def test_the_configuration_is_shown_with_its_sources(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config(file)
    text = capsys.readouterr().out
    assert "drivers.gpu.sandbox" in text
    assert "full" in text
    config(file, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["drivers"]["gpu"]["idle_s"] == 10
    assert document["sources"]["drivers.gpu.idle_s"] == str(file)


def test_the_example_has_every_setting_and_its_default(file: Path) -> None:
    example = Path(__file__).parents[4] / "examples" / "neurald.toml"
    document = tomllib.loads(example.read_text())
    assert document.keys() == set(_File.__struct_fields__)
    (complete,) = (table for table in document["drivers"].values() if table)
    assert complete.keys() == set(DriverSettings.__struct_fields__)
    found = load_configuration(example, Flags(system=True))
    file.write_text("[drivers.opencl]\n")
    plain = load_configuration(file, Flags(system=True))
    for name in ("log_level", "log_format", "group", "socket_mode"):
        assert getattr(found, name) == getattr(plain, name)
    shown, expected = found.drivers["opencl"], plain.drivers["opencl"]
    # Drivers without a level of their own take that of the file.
    assert msgspec.structs.replace(shown, log_level=expected.log_level) == expected


def test_arguments_of_a_driver_for_other_hosts() -> None:
    assert tls_arguments(DriverSettings()) == []
    found = tls_arguments(DriverSettings(listen="gpu.example:7000", tls="~/gpu", tls_ca="/etc/ca.pem"))
    home = str(Path.home())
    assert found == ["--listen-tls", "gpu.example:7000", "--tls", f"{home}/gpu", "--tls-ca", "/etc/ca.pem"]
