"""The drivers that start on demand, and when packages are looked at for them."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from neurald.hal.process.autostart import AUTOSTART_VARIABLE
from neurald.hal.process.files.configuration_file import CONFIG_VARIABLE, DRIVERS_VARIABLE
from neurald.runtime.devices import installed, kept_file
from neurald.runtime.devices.installed import drivers_on_demand


@pytest.fixture(autouse=True)
def looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of times that packages were looked at."""
    for name in (CONFIG_VARIABLE, DRIVERS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(AUTOSTART_VARIABLE, "1")
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    calls: list[int] = []

    def look() -> tuple[str, ...]:
        calls.append(1)
        return ("gpu", "npu")

    monkeypatch.setattr(installed, "default_drivers", look)
    installed._installed.cache_clear()
    # The path of a test's own directory may be too long for a socket.
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield calls


def names() -> list[str]:
    return [address.short_name for address in drivers_on_demand()]


def test_packages_are_looked_at_when_they_have_changed(
    looked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "packages"
    place.mkdir()
    monkeypatch.setattr("sys.path", [*sys.path, str(place), str(tmp_path / "none")])
    assert names() == names() == ["gpu", "npu"]
    installed._installed.cache_clear()  # as in another process
    assert names() == ["gpu", "npu"]
    assert len(looked) == 1
    (place / "new.dist-info").mkdir()
    assert names() == ["gpu", "npu"]
    assert len(looked) == 2


def test_relative_places_are_those_of_the_current_directory(
    looked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("sys.path", [*sys.path, "", "in\0valid"])
    for name in ("one", "other", "other"):
        monkeypatch.chdir(tmp_path / name)
        assert names() == ["gpu", "npu"]
    assert len(looked) == 2


def test_the_configuration_precedes_packages(
    looked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "neurald.toml"
    file.write_text('[drivers.camera]\n[drivers."../x"]\n')
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    assert names() == ["camera"]
    monkeypatch.setenv(DRIVERS_VARIABLE, "a,b")
    assert names() == ["a", "b"]
    assert not looked


def test_none_is_started_if_that_is_turned_off(looked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AUTOSTART_VARIABLE, "0")
    assert names() == []
    assert not looked


def test_a_path_that_is_too_long_for_a_socket_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "x" * 200)
    assert names() == []


def test_a_damaged_file_is_replaced(looked: list[int]) -> None:
    kept_file.write("installed.json", b'{"key": 1}')
    assert names() == ["gpu", "npu"]
    installed._installed.cache_clear()
    assert names() == ["gpu", "npu"]
    assert len(looked) == 1
