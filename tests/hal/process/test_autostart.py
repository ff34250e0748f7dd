"""Applications start a service manager when they should, and only one.

`tests/runtime/devices/test_on_demand.py` has managers with drivers.
"""

import os
import threading
import time
from pathlib import Path

import pytest
from support.daemon.forking import in_child
from support.daemon.on_demand import OnDemand, on_demand, variables
from support.daemon.processes import held_streams
from support.process.descriptors import many_descriptors

from neurald.hal.errors import BadData, UnavailableDevice
from neurald.hal.process.autostart import (
    AUTOSTART_VARIABLE,
    autostart_settings,
    ensure_manager,
    starting_manager,
)
from neurald.hal.process.files.configuration_file import CONFIG_VARIABLE, DRIVERS_VARIABLE


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("m")


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration file; autostart is not set, and the runtime directory is private."""
    for name in (AUTOSTART_VARIABLE, DRIVERS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    file = tmp_path / "neurald.toml"
    file.write_text("")
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    return file


def test_it_is_on_unless_somebody_turns_it_off(configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = autostart_settings()
    assert (found.obstacle, found.drivers) == ("", None)
    configuration.write_text("autostart = false\n[drivers.a]\n[drivers.b]\n")
    found = autostart_settings()
    assert "has autostart = false" in found.obstacle
    assert not found.is_unexpected
    monkeypatch.setenv(AUTOSTART_VARIABLE, "1")
    found = autostart_settings()
    assert (found.obstacle, found.drivers) == ("", ("a", "b"))
    monkeypatch.setenv(DRIVERS_VARIABLE, "c")
    assert autostart_settings().drivers == ("c",)
    monkeypatch.setenv(AUTOSTART_VARIABLE, "0")
    assert autostart_settings().obstacle == "NEURALD_AUTOSTART is 0"
    monkeypatch.setenv(AUTOSTART_VARIABLE, "yes")
    with pytest.raises(BadData, match="'yes'; 0 or 1 is expected"):
        autostart_settings()


def test_obstacles(configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration.write_text("autostart =")
    found = autostart_settings()
    assert str(configuration) in found.obstacle
    assert found.is_unexpected
    configuration.write_text("")
    monkeypatch.setattr("sys.executable", "")
    assert "interpreter is not known" in autostart_settings().obstacle


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_directory_of_another_user_is_left_alone(
    configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.chown(other, 12345, 12345)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(other))
    assert "belongs to user 12345; set XDG_RUNTIME_DIR" in autostart_settings().obstacle


def test_one_manager_is_started_by_many_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_demand(folder) as environment:
        _enter(environment, monkeypatch)
        errors: list[BaseException] = []

        def start() -> None:
            try:
                ensure_manager(time.monotonic() + 60)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=start) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        (manager,) = environment.managers()
        assert environment.log.count("supervising") == 1
        # It is neither a child of this process, nor in its session, nor in its folder.
        status = Path(f"/proc/{manager}/stat").read_text().rpartition(")")[2].split()
        assert int(status[1]) != os.getpid()
        assert int(status[3]) != os.getsid(0)
        assert Path(f"/proc/{manager}/cwd").readlink() == Path("/")
        # Readers of this process's pipes do not wait for it.
        assert not held_streams(manager)
        assert not (environment.directory / "manager.started").exists()
        mode = (environment.directory / "manager.log").stat().st_mode & 0o777
        assert mode == 0o600


def test_a_process_with_many_descriptors_starts_a_manager(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_demand(folder) as environment, many_descriptors():
        _enter(environment, monkeypatch)
        ensure_manager(time.monotonic() + 60)
        assert environment.managers()


def test_a_manager_that_cannot_start_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_demand(folder) as environment:
        _enter(environment, monkeypatch)
        environment.configure(watchdog_s='"soon"')
        with pytest.raises(UnavailableDevice, match="watchdog_s"):
            ensure_manager(time.monotonic() + 60)
        monkeypatch.setattr("sys.executable", "/nonexistent/python")
        with pytest.raises(UnavailableDevice, match="no service manager can be started: No such file"):
            ensure_manager(time.monotonic() + 60)


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(file))
    with pytest.raises(UnavailableDevice, match="no service manager can be started"):
        ensure_manager(time.monotonic() + 60)


@pytest.mark.forks
def test_the_lock_excludes_threads_and_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "neurald").mkdir(mode=0o700)
    with starting_manager(None) as is_ours:
        assert is_ours
        found: list[bool] = []

        def attempt() -> None:
            with starting_manager(None) as is_theirs:
                found.append(is_theirs)

        def attempt_in_child() -> None:
            attempt()
            assert found == [False, False]

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        assert found == [False]
        in_child(attempt_in_child)
        with (
            pytest.raises(UnavailableDevice, match="is being started"),
            starting_manager(time.monotonic() + 0.01),
        ):
            pass
    with starting_manager(None) as is_ours:
        assert is_ours


def _enter(environment: OnDemand, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables(environment).items():
        monkeypatch.setenv(name, value)
