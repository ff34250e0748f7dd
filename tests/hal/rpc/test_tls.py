"""Mutual TLS: who is served, who is not and why, rotation and revocation without a restart."""

import contextlib
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.certificates import issue, issue_at, make_authority, make_old_authority
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald.hal.admission.access.served_clients import ServedClients
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, BadState, DeadObject, Error, UnavailableDevice
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.certificate import read_file
from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.hal.rpc.wire.device import Access
from neurald.service.certificates.authority import Authority

pytest.importorskip("cryptography", reason="TLS needs neurald[tls]")


ANYWHERE = "127.0.0.1:0"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return make_authority(tmp_path / "tls")


@contextlib.contextmanager
def served(tls: TlsFiles | None, address: str = ANYWHERE, **options: Any) -> Iterator[DeviceServer]:
    clients = ServedClients(tls=tls)
    server = DeviceServer(AddingDevice(), Address.parse(address), clients=clients, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def connected(server: DeviceServer, tls: TlsFiles | None, host: str = "127.0.0.1") -> Iterator[RemoteDevice]:
    device = connect(f"{host}:{server.address.port}", tls=tls)
    try:
        yield device
    finally:
        device.close()


def refusal(server: DeviceServer, tls: TlsFiles | None, host: str = "127.0.0.1") -> str:
    with pytest.raises(UnavailableDevice) as caught, connected(server, tls, host):
        pass
    return str(caught.value)


def works(device: RemoteDevice) -> bool:
    values, result = np.arange(4, dtype=np.float32), np.empty(4, np.float32)
    prepared = device.prepare_model(addition(np.ones(4)), PrepareOptions())
    prepared.execute(request(values, result), ExecuteOptions())
    return result.tolist() == [1, 2, 3, 4]


@pytest.mark.quick
def test_a_client_with_a_certificate_is_served(authority: Authority) -> None:
    with served(issue(authority, "gpu", ["127.0.0.1", "localhost"])) as server:
        client = issue(authority, "laptop")
        for host in ("127.0.0.1", "localhost"):
            with connected(server, client, host) as device:
                assert works(device)
                assert device.status().access is Access.CERTIFICATE


def test_each_client_is_a_user_of_its_own(authority: Authority) -> None:
    with (
        served(issue(authority, "gpu", ["127.0.0.1"])) as server,
        connected(server, issue(authority, "laptop")),
        connected(server, issue(authority, "desk")),
    ):
        users = {session.user for session in server.handler.sessions.all()}
        assert users == {"certificate laptop", "certificate desk"}


def test_others_are_refused_with_the_reason(authority: Authority, tmp_path: Path) -> None:
    other = make_authority(tmp_path / "other")
    with served(issue(authority, "gpu", ["127.0.0.1"])) as server:
        assert "uses TLS" in refusal(server, None)
        stranger = issue(other, "stranger")
        assert "is not from an authority of" in refusal(server, stranger)
        # One that trusts the daemon, but that the daemon does not trust.
        naive = TlsFiles(
            certificate=stranger.certificate, key=stranger.key, authority=authority.folder / "ca.pem"
        )
        assert "refuses the certificate 'stranger'" in refusal(server, naive)
        # A daemon's certificate does not make a client.
        assert "refuses the certificate 'gpu2'" in refusal(server, issue(authority, "gpu2", ["127.0.0.1"]))
        assert not server.handler.sessions.all()
    with served(None) as server:
        assert "does not use TLS" in refusal(server, issue(authority, "laptop"))


def test_a_daemon_with_another_name_is_refused(authority: Authority) -> None:
    client = issue(authority, "laptop")
    for hosts in (["gpu.example"], ["127.0.0.2"], ["localhost"]):
        with served(issue(authority, "gpu", hosts)) as server:
            assert "is for another host than 127.0.0.1" in refusal(server, client)
    # A client's certificate does not make a daemon.
    with served(issue(authority, "laptop2")) as server:
        assert refusal(server, client)


def test_untimely_certificates(tmp_path: Path) -> None:
    authority = make_old_authority(tmp_path / "old", 30)
    expired = issue_at(authority, timedelta(days=-10), "yesterday")
    early = issue_at(authority, timedelta(days=10), "tomorrow")
    with served(issue(authority, "gpu", ["127.0.0.1"])) as server:
        assert "'yesterday', expired at" in refusal(server, expired)
        assert "'tomorrow', is not valid before" in refusal(server, early)
    for offset, reason in ((-10, "expired at"), (10, "is not valid before")):
        files = issue_at(authority, timedelta(days=offset), "gpu2", ["127.0.0.1"])
        with pytest.raises(UnavailableDevice, match=reason), served(files):
            pass


def test_the_daemon_itself_refuses_untimely_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that does not look at its own certificate is told by the daemon."""
    authority = make_old_authority(tmp_path / "old", 30)
    expired = issue_at(authority, timedelta(days=-10), "yesterday")
    early = issue_at(authority, timedelta(days=10), "tomorrow")
    gpu = issue(authority, "gpu", ["127.0.0.1"])
    monkeypatch.setattr("neurald.hal.rpc.transport.tls_files.TlsContent.require_timely", lambda *_: None)
    with served(gpu) as server:
        assert "refuses the certificate 'yesterday'" in refusal(server, expired)
        assert "refuses the certificate 'tomorrow'" in refusal(server, early)
        assert not server.handler.sessions.all()
    client = issue(authority, "laptop")
    with served(issue_at(authority, timedelta(days=-10), "old", ["127.0.0.1"])) as server:
        assert "has expired" in refusal(server, client)
    with served(issue_at(authority, timedelta(days=10), "new", ["127.0.0.1"])) as server:
        assert "is not valid yet" in refusal(server, client)


def test_a_certificate_that_expires_during_its_session(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        served(issue(authority, "gpu", ["127.0.0.1"])) as server,
        connected(server, issue(authority, "laptop")) as device,
    ):
        assert works(device)
        monkeypatch.setattr(
            "neurald.hal.rpc.transport.certificate.Certificate.untimely", lambda self: "expired at noon"
        )
        with pytest.raises(Error, match="expired at noon"):
            works(device)
        server.check_certificates()
        wait_until(lambda: not server.handler.sessions.all())


def test_revocation_needs_no_restart(authority: Authority) -> None:
    gpu = issue(authority, "gpu", ["127.0.0.1"])
    laptop, desk = issue(authority, "laptop"), issue(authority, "desk")
    with (
        served(gpu) as server,
        connected(server, laptop) as device,
        connected(server, desk) as other,
    ):
        assert works(device)
        assert authority.revoke("laptop") == 1
        server.check_certificates()
        wait_until(lambda: not device.is_alive)
        with pytest.raises(DeadObject, match="'laptop' of this client was revoked"):
            works(device)
        assert "was revoked" in refusal(server, laptop)
        assert works(other)
        assert len(server.handler.sessions.all()) == 1
        # A new certificate with the same name is another one.
        with connected(server, issue(authority, "laptop")) as again:
            assert works(again)


def test_a_list_that_is_not_the_authoritys_changes_nothing(authority: Authority, tmp_path: Path) -> None:
    other = make_authority(tmp_path / "other")
    issue(other, "laptop")
    other.revoke("laptop")
    gpu, laptop = issue(authority, "gpu", ["127.0.0.1"]), issue(authority, "laptop")
    authority.revoke("laptop")
    with served(gpu) as server:
        for content in ((tmp_path / "other/crl.pem").read_bytes(), b"nothing", None):
            gpu.revoked.unlink(missing_ok=True)
            if content is not None:
                gpu.revoked.write_bytes(content)
            server.check_certificates()
            assert "was revoked" in refusal(server, laptop)
    gpu.revoked.write_bytes((tmp_path / "other/crl.pem").read_bytes())
    with pytest.raises(BadState, match="not signed by an authority"), served(gpu):
        pass


def test_new_certificates_need_no_restart(authority: Authority) -> None:
    gpu, laptop = issue(authority, "gpu", ["127.0.0.1"]), issue(authority, "laptop")
    with served(gpu) as server, connected(server, laptop) as device:
        before = gpu.certificate.read_bytes()
        issue(authority, "gpu", ["127.0.0.1"])
        assert gpu.certificate.read_bytes() != before
        assert works(device)
        assert issuer_serial(server) == serial(gpu)
        gpu.certificate.write_bytes(b"half a certificate")
        with connected(server, laptop) as again:
            assert works(again)
        # A new authority beside the old one.
        authority.create("second", replaces=True)
        issue(authority, "gpu", ["127.0.0.1"])
        with connected(server, laptop) as again, connected(server, issue(authority, "desk")) as newest:
            assert works(again)
            assert works(newest)


def serial(files: TlsFiles) -> int:
    return files.read().own.serial


def issuer_serial(server: DeviceServer) -> int:
    import ssl

    from neurald.hal.rpc.transport.certificate import read_certificate

    return read_certificate(ssl.get_server_certificate(("127.0.0.1", server.address.port)).encode()).serial


def test_other_hosts_are_served_with_certificates_only(authority: Authority) -> None:
    everywhere = Address.parse("0.0.0.0:0")
    with pytest.raises(BadData, match="pass --tls FOLDER"):
        DeviceServer(AddingDevice(), everywhere)
    gpu = issue(authority, "gpu", ["127.0.0.1"])
    with served(gpu, "0.0.0.0:0") as server, connected(server, issue(authority, "laptop")) as device:
        assert works(device)
        assert "uses TLS" in refusal(server, None)
    with pytest.raises(BadData, match="TLS is for TCP"):
        connect("unix:///tmp/d.sock", tls=gpu)


def test_files_that_are_not_valid(authority: Authority, tmp_path: Path) -> None:
    gpu, laptop = issue(authority, "gpu", ["127.0.0.1"]), issue(authority, "laptop")
    mixed = TlsFiles(certificate=gpu.certificate, key=laptop.key, authority=gpu.authority)
    with pytest.raises(BadState, match="belongs to another certificate"), served(mixed):
        pass
    with pytest.raises(BadState, match="cannot be read: No such file"):
        connect("127.0.0.1:1", tls=TlsFiles.in_folder(tmp_path / "nowhere"))
    # A group may read what root gives it.
    laptop.key.chmod(0o644 if os.geteuid() == 0 else 0o640)
    with pytest.raises(BadState, match=r"is not private: .* \(chmod 600\)"):
        connect("127.0.0.1:1", tls=laptop)
    laptop.key.chmod(0o600)
    laptop.key.write_bytes(b"no key")
    with pytest.raises(BadState, match="not an unencrypted key"):
        connect("127.0.0.1:1", tls=laptop)


def test_bytes_that_are_no_handshake_disturb_nobody(authority: Authority) -> None:
    with (
        served(issue(authority, "gpu", ["127.0.0.1"])) as server,
        connected(server, issue(authority, "laptop")) as device,
    ):
        sockets = [socket.create_connection(("127.0.0.1", server.address.port)) for _ in range(20)]
        for number, each in enumerate(sockets):
            each.sendall(bytes([number]) * 1000)
        assert works(device)
        for each in sockets:
            each.close()


@pytest.mark.timed
def test_a_daemon_that_never_answers(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        started = time.monotonic()
        threading.Thread(target=lambda: [listener.accept() for _ in range(3)], daemon=True).start()
        port = listener.getsockname()[1]
        with pytest.raises(UnavailableDevice):
            connect(f"127.0.0.1:{port}", started + 1.0, tls=issue(authority, "laptop"))
        assert time.monotonic() < started + 5


@pytest.mark.parametrize(
    ("owner", "mode", "is_private"),
    [
        *((0, 0o600, True), (0, 0o440, True), (0, 0o640, True), (0, 0o460, False), (0, 0o444, False)),
        *((1234, 0o600, True), (1234, 0o640, False)),
    ],
)
def test_who_may_read_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, *, is_private: bool
) -> None:
    """A pod's secrets belong to root, and the group of its user may read them."""
    secret = tmp_path / "token"
    secret.write_bytes(b"secret")
    status = os.stat_result((stat.S_IFREG | mode, 0, 0, 1, owner, 1234, 6, 0, 0, 0))
    monkeypatch.setattr("os.fstat", lambda _: status)
    monkeypatch.setattr("os.geteuid", lambda: 1234)
    if is_private:
        assert read_file(secret, "the token", is_secret=True) == b"secret"
    else:
        with pytest.raises(BadState, match=r"the token .* is not private"):
            read_file(secret, "the token", is_secret=True)
