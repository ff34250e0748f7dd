"""Configured devices of other hosts: where they come from, mistakes, and that they are listed."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.models.addition import AddingDevice

import neurald as nd
from neurald.hal.admission.access.served_clients import ServedClients
from neurald.hal.errors import BadData
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer
from neurald.runtime.devices.remotes import (
    RemoteSettings,
    configured_remotes,
    read_remotes,
    remotes_of_environment,
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "neurald.toml"
    monkeypatch.setenv("NEURALD_CONFIG", str(path))
    monkeypatch.delenv("NEURALD_REMOTES", raising=False)
    monkeypatch.delenv("NEURALD_TLS", raising=False)
    return path


@pytest.fixture
def server() -> Iterator[DeviceServer]:
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"), clients=ServedClients(insecure=True))
    server.start()
    yield server
    server.stop()


def test_the_file(file: Path, tmp_path: Path) -> None:
    file.write_text(
        "idle_s = 3\n[drivers.opencl]\n"
        '[remotes.gpu]\naddress = "gpu.example:7000"\ntls = "/etc/neurald/laptop"\n'
        '[remotes.npu]\naddress = "10.0.0.7:7001"\ntls = "~/laptop"\ntls_ca = "/etc/ca.pem"\n'
        '[remotes.plain]\naddress = "[::1]:1"\n'
    )
    found = configured_remotes()
    assert list(found) == ["gpu", "npu", "plain"]
    gpu, npu = found["gpu"].files(), found["npu"].files()
    assert gpu is not None
    assert gpu.key == Path("/etc/neurald/laptop/key.pem")
    assert npu is not None
    assert npu.certificate == Path("~/laptop/cert.pem").expanduser()
    assert npu.authority == Path("/etc/ca.pem")
    assert found["plain"].files() is None
    # It is read again when it changes.
    file.write_text('[remotes.other]\naddress = "other:1"\n')
    assert list(configured_remotes()) == ["other"]


def test_the_environment_precedes_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('[remotes.gpu]\naddress = "gpu.example:7000"\n')
    monkeypatch.setenv("NEURALD_REMOTES", "a=host:1, host:2")
    monkeypatch.setenv("NEURALD_TLS", "/etc/laptop")
    found = configured_remotes()
    assert {name: each.address for name, each in found.items()} == {"a": "host:1", "host:2": "host:2"}
    files = found["a"].files()
    assert files is not None
    assert files.certificate == Path("/etc/laptop/cert.pem")
    monkeypatch.setenv("NEURALD_REMOTES", "")
    assert configured_remotes() == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"remotes": 3}, "remotes is not a table"),
        ({"remotes": {"gpu": "host:1"}}, "remotes.gpu is not a table"),
        ({"remotes": {"gpu": {}}}, "remotes.gpu has no address"),
        ({"remotes": {"gpu": {"address": 7}}}, "remotes.gpu.address is 7; text is expected"),
        ({"remotes": {"gpu": {"address": "host:1", "key": "x"}}}, "remotes.gpu has the key 'key'"),
        ({"remotes": {"gpu": {"address": "host"}}}, "the file: remotes.gpu: 'host' is not an address"),
        ({"remotes": {"gpu": {"address": "unix:///d.sock"}}}, "is a UNIX socket"),
        ({"remotes": {"gpu": {"address": "host:1", "tls_key": "/k"}}}, "TLS needs the folder tls"),
    ],
)
def test_mistakes(content: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURALD_TLS", raising=False)
    with pytest.raises(BadData, match=message):
        read_remotes(content, "the file")


def test_a_mistake_is_reported_once_and_disturbs_nothing(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text('[remotes.gpu]\nadress = "gpu.example:7000"\n')
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert nd.devices()[0].name == "cpu"
    (record,) = [each for each in caplog.records if "other hosts" in each.message]
    assert "adress" in record.message


def test_they_are_listed_with_their_links(file: Path, server: DeviceServer) -> None:
    file.write_text(f'[remotes.gpu]\naddress = "{server.address}"\n')
    (device,) = [each for each in nd.devices() if each.name.startswith("adder@")]
    link = device.link()  # type: ignore[attr-defined]
    assert 0 < link.latency_s < 1
    assert link.bytes_per_s > 1e5
    assert device.link() is link  # type: ignore[attr-defined]
    device.close()  # type: ignore[attr-defined]


def test_hosts_that_are_off_are_left_out(file: Path) -> None:
    file.write_text('[remotes.gpu]\naddress = "127.0.0.1:9"\n')
    assert [each.name for each in nd.devices() if "127.0.0.1:9" in each.name] == []
    assert RemoteSettings(address="127.0.0.1:9").files() is None


@pytest.mark.parametrize("address", ["gpu", "gpu.example:70000", "unix:///d.sock"])
def test_a_mistake_in_the_variable_names_it(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURALD_REMOTES", f"good=host:1,{address}")
    with pytest.raises(BadData, match=f"NEURALD_REMOTES: .*{address}"):
        remotes_of_environment()
