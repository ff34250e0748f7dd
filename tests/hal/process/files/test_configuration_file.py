"""The configuration file is found, and one that cannot be read is explained."""

import os
from pathlib import Path

import pytest

from neurald.hal.errors import BadData, BadState
from neurald.hal.process.files.configuration_file import (
    CONFIG_VARIABLE,
    DRIVERS_VARIABLE,
    configuration_path,
    listed_drivers,
    read_configuration,
)


def test_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert configuration_path() == (Path("/etc/neurald/neurald.toml"), False)
    own = tmp_path / "neurald" / "neurald.toml"
    own.parent.mkdir()
    own.touch()
    assert configuration_path() == (own, False)
    monkeypatch.setenv(CONFIG_VARIABLE, "/a.toml")
    assert configuration_path() == (Path("/a.toml"), True)
    assert configuration_path(Path("/b.toml")) == (Path("/b.toml"), True)


def test_without_a_home_there_is_the_file_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CONFIG_VARIABLE, "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    assert configuration_path() == (Path("/etc/neurald/neurald.toml"), False)


def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "neurald.toml"
    assert read_configuration(file, must_exist=False) == {}
    with pytest.raises(BadState, match="does not exist"):
        read_configuration(file, must_exist=True)
    with pytest.raises(BadState, match="cannot be read"):
        read_configuration(tmp_path, must_exist=False)
    for content in (b"= 1", b"\xff\xfe", b"a = " + b"[" * 100_000, b"a = " + b"9" * 5_000):
        file.write_bytes(content)
        with pytest.raises(BadData, match=str(file)):
            read_configuration(file, must_exist=False)
    file.write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(BadData, match="more than 1048576 bytes"):
        read_configuration(file, must_exist=False)
    file.write_text("autostart = false\n")
    assert read_configuration(file, must_exist=True) == {"autostart": False}


def test_pipes_are_refused_and_devices_are_read(tmp_path: Path) -> None:
    """A pipe without content looks empty, and an operator would lose all settings."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for flags in (os.O_RDONLY | os.O_NONBLOCK, os.O_RDWR):
        other_end = os.open(pipe, flags)
        with pytest.raises(BadData, match="is a pipe"):
            read_configuration(pipe, must_exist=True)
        os.close(other_end)
    assert read_configuration(Path(os.devnull), must_exist=True) == {}
    with pytest.raises(BadData, match="more than"):
        read_configuration(Path("/dev/zero"), must_exist=True)


def test_drivers_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DRIVERS_VARIABLE, " cpu, ,reference,")
    assert listed_drivers() == ("cpu", "reference")
    monkeypatch.delenv(DRIVERS_VARIABLE)
    assert listed_drivers() == ()
