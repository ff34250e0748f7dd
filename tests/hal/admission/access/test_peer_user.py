"""Users of clients on TCP are distinguished."""

import os
import socket
from pathlib import Path

import pytest
from support.models.addition import AddingDevice
from support.sweeps import sweep

from neurald.hal.admission.access.peer_user import peer_user
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer


@sweep(
    ("peer", "user"),
    [
        ("ipv4:10.0.0.7:4000", "10.0.0.7"),
        ("ipv6:%5B::ffff:10.0.0.7%5D:4000", "10.0.0.7"),
        ("ipv6:%5B2001:db8:1:2:aa::5%5D:4000", "2001:db8:1:2::/64"),
        ("ipv6:[fe80::1%25eth0]:4000", "fe80::/64"),
        ("ipv4:127.0.0.1:1", "127.0.0.1"),
        ("something else", "something else"),
    ],
)
def test_other_hosts_are_told_apart(peer: str, user: str) -> None:
    assert peer_user(peer, 5) == user


@sweep("host", ["127.0.0.1", "::1"])
def test_users_of_this_host_are_known(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port)) as client:
            number = client.getsockname()[1]
            spelled = f"ipv6:%5B::1%5D:{number}" if ":" in host else f"ipv4:{host}:{number}"
            assert peer_user(spelled, port) == os.getuid()
            if os.getuid() == 0:
                os.fchown(client.fileno(), 54321, -1)
                assert peer_user(spelled, port) == 54321


def test_a_session_belongs_to_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"))
    server.start()
    remote = connect(str(server.address))
    (session,) = server.handler.sessions.all()
    assert session.user == os.getuid()
    remote.close()
    server.stop()
