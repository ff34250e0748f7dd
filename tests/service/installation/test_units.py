"""The unit files: systemd accepts them, and they say what they should."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.sweeps import sweep

from neurald.hal.process.files.configuration_file import CONFIG_VARIABLE
from neurald.service.installation.installer import unit_files
from neurald.service.installation.units import Units, quoted
from neurald.service.manager.settings.configuration import Flags, load_configuration
from neurald.service.sandbox.vendor_caches import driver_cache

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here"
)
_CONFIGURATION = """
drain_s = 20
[drivers.gpu]
driver = "opencl"
[drivers.cpu]
drain_s = 90
"""


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], dict[str, str]]:
    """Returns the contents of the files by name."""
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    file = tmp_path / "neurald.toml"
    file.write_text(_CONFIGURATION)

    def found(is_system: bool) -> dict[str, str]:
        configuration = load_configuration(file, Flags(system=is_system))
        files = unit_files(configuration, is_system=is_system, file=file)
        return {str(path): text for path, text in files.items()}

    return found


def parsed(text: str) -> configparser.ConfigParser:
    class Keys(configparser.ConfigParser):
        def optionxform(self, optionstr: str) -> str:
            return optionstr

    # Keys such as ListenStream may be repeated.
    parser = Keys(interpolation=None, strict=False)
    parser.read_string(text)
    return parser


@needs_systemd
@sweep("is_system", [False, True])
def test_systemd_accepts_them(
    is_system: bool, units: Callable[[bool], dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("units")
    paths = []
    for name, text in units(is_system).items():
        if name.endswith((".service", ".socket")):
            paths.append(folder / Path(name).name)
            paths[-1].write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *(() if is_system else ("--user",)), *map(str, paths)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "neurald" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


@needs_systemd
def test_the_service_of_the_machine_is_well_protected(
    units: Callable[[bool], dict[str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "neurald.service"
    file.write_text(next(text for name, text in units(True).items() if name.endswith(".service")))
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=30", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot examine files")
    assert done.returncode == 0, done.stdout[-300:]


@sweep("is_system", [False, True])
def test_what_they_say(is_system: bool, units: Callable[[bool], dict[str, str]]) -> None:
    files = units(is_system)
    service = parsed(next(text for name, text in files.items() if name.endswith(".service")))["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert float(service["WatchdogSec"]) > 0
    # Longer than the longest drain time of a driver.
    assert service["TimeoutStopSec"] == "105"
    assert service["NoNewPrivileges"] == "yes"
    assert ("ProtectSystem" in service) == is_system
    assert ("--system" in service["ExecStart"]) == is_system
    assert Path(service["ExecStart"].split()[0]).is_file()
    (text,) = (text for name, text in files.items() if name.endswith(".socket"))
    directory = "/run/neurald" if is_system else "%t/neurald"
    assert re.findall("^ListenStream=(.*)$", text, re.MULTILINE) == [
        f"{directory}/{name}.sock" for name in ("manager", "gpu", "cpu")
    ]
    assert parsed(text)["Socket"]["SocketMode"] == ("0660" if is_system else "0600")
    assert len(files) == (4 if is_system else 2)


def test_a_manager_that_serves_models_starts_with_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "neurald.toml"
    for text, target in (("", None), ("[service]\ngrpc = '1'\nrepositories = ['/m']\n", "default.target")):
        file.write_text(text)
        files = unit_files(load_configuration(file), is_system=False, file=file)
        unit = parsed(next(text for path, text in files.items() if path.suffix == ".service"))
        assert (unit["Install"]["WantedBy"] if unit.has_section("Install") else None) == target


def test_the_service_of_the_machine_has_its_user_and_directory(
    units: Callable[[bool], dict[str, str]],
) -> None:
    files = units(True)
    assert "\nd /run/neurald 2755 neurald neurald -\n" in files["/etc/tmpfiles.d/neurald.conf"]
    users = files["/etc/sysusers.d/neurald.conf"]
    assert '\nu neurald - "neurald" /var/lib/neurald\n' in users
    assert "\nm neurald render\n" in users


@needs_systemd
@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="there is no systemd-sysusers here")
def test_systemd_creates_the_user_and_the_directory(
    units: Callable[[bool], dict[str, str]], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for name, text in units(True).items():
        path = root / name.removeprefix("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if os.geteuid():
        pytest.skip("only root can create users")
    for command in (["systemd-sysusers"], ["systemd-tmpfiles", "--create"]):
        subprocess.run([*command, f"--root={root}"], check=True, capture_output=True, timeout=60)
    assert "neurald:" in (root / "etc" / "passwd").read_text()
    assert (root / "run" / "neurald").stat().st_mode & 0o7777 == 0o2755


def test_a_group_of_the_operators_choice() -> None:
    made = Units(
        command=["neurald"],
        directory="/run/neurald",
        drivers=(),
        drain_s=1,
        is_system=True,
        group="vision",
        socket_mode="0666",
    )
    assert "Group=vision\n" in made.service
    assert "SocketGroup=vision\nSocketMode=0666\n" in made.socket
    assert "g vision -\n" in made.users
    assert made.directories == "d /run/neurald 2755 neurald vision -\n"


@sweep(
    ("argument", "expected"),
    [
        ("/usr/bin/neurald", "/usr/bin/neurald"),
        ("/opt/my files/neurald", '"/opt/my files/neurald"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("it's", '"it\'s"'),
        ("", '""'),
    ],
    ids=range(7),
)
def test_arguments_are_quoted(argument: str, expected: str) -> None:
    assert quoted(argument) == expected


@pytest.mark.parametrize(
    ("prefix", "base", "command", "expected"),
    [
        ("/usr", "/usr", "neurald", "yes"),
        ("/home/ada/venv", "/usr", "neurald", "read-only"),
        ("/opt/venv", "/root/.pyenv/versions/3.11", "neurald", "read-only"),
        ("/usr", "/usr", "/home/ada/.local/bin/neurald", "read-only"),
    ],
)
def test_python_at_home_can_be_read(
    monkeypatch: pytest.MonkeyPatch, prefix: str, base: str, command: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "base_prefix", base)
    made = Units(command=[command], directory="/run/neurald", drivers=(), drain_s=1, is_system=True)
    assert f"ProtectHome={expected}\n" in made.service


def test_drivers_can_write_their_caches() -> None:
    made = Units(command=["neurald"], directory="/run/neurald", drivers=(), drain_s=1, is_system=True)
    assert f"CacheDirectory=neurald {driver_cache('gpu').parent.name}\n" in made.service
