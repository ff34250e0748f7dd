"""The authority issues, replaces and revokes certificates, and keeps its files private."""

import errno
import os
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

x509 = pytest.importorskip("cryptography.x509", reason="certificates need neurald[tls]")

from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: E402
from support.daemon.certificates import make_authority  # noqa: E402

from neurald.hal.errors import BadData, BadState  # noqa: E402
from neurald.hal.rpc.transport.certificate import Revocations  # noqa: E402
from neurald.hal.rpc.transport.tls_files import TlsFiles  # noqa: E402
from neurald.service.certificates.authority import Authority, soon_expiring  # noqa: E402


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return make_authority(tmp_path / "tls")


def certificate(folder: Path) -> Any:
    return x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_its_user_can_read_the_keys(authority: Authority) -> None:
    mask = os.umask(0)
    try:
        folder = authority.issue("laptop")
    finally:
        os.umask(mask)
    assert mode(authority.folder) == mode(folder) == 0o700
    assert mode(authority.folder / "authority.key") == mode(folder / "key.pem") == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["ca.pem", "cert.pem", "crl.pem", "key.pem"]
    assert not list(authority.folder.rglob(".*-*"))


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(BadState, match="is not private"):
        Authority(tmp_path / "open").create("tests")
    assert not list((tmp_path / "open").iterdir())


def test_certificates_are_for_one_purpose_and_a_short_time(authority: Authority) -> None:
    client = certificate(authority.issue("laptop"))
    daemon = certificate(authority.issue("gpu", ["gpu.example", "10.0.0.7", "[::1]", "*.lab.example"]))
    usage = x509.ExtendedKeyUsage
    assert list(client.extensions.get_extension_for_class(usage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert list(daemon.extensions.get_extension_for_class(usage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names = daemon.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["gpu.example", "*.lab.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7", "::1"]
    for each in (client, daemon):
        left = each.not_valid_after_utc - datetime.now(UTC)
        assert timedelta(days=89) < left <= timedelta(days=90)
        assert not each.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert client.serial_number != daemon.serial_number


def test_arguments_that_are_not_valid(authority: Authority) -> None:
    for name in ("", "a/b", "..", ".hidden", "a b", "x" * 65, "ca.pem", "issued.json", "é"):
        with pytest.raises(BadData, match="the name"):
            authority.issue(name)
    for host in ("", "a b", "-a", "host:80", "a..b", "x" * 254, "*", "a/8"):
        with pytest.raises(BadData, match="neither a host name nor an IP address"):
            authority.issue("gpu", [host])
    for days in (0, -1, 398):
        with pytest.raises(BadData, match="1 to 397"):
            authority.issue("gpu", days=days)
    assert not authority.describe().certificates


def test_a_certificate_that_is_renewed_is_for_the_same_hosts(authority: Authority) -> None:
    authority.issue("gpu", ["gpu.example"])
    authority.issue("laptop")
    names = x509.SubjectAlternativeName

    def hosts(folder: Path) -> list[str]:
        found = certificate(folder).extensions.get_extension_for_class(names).value
        return list(found.get_values_for_type(x509.DNSName))

    assert hosts(authority.issue("gpu")) == ["gpu.example"]
    assert hosts(authority.issue("gpu", ["other.example"])) == ["other.example"]
    assert hosts(authority.issue("gpu")) == ["other.example"]
    with pytest.raises(x509.ExtensionNotFound):
        hosts(authority.issue("laptop"))
    with pytest.raises(x509.ExtensionNotFound):
        hosts(authority.issue("gpu", ()))


def test_the_folder_of_a_certificate_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folder = make_authority(tmp_path / "neurald" / "tls").issue("laptop")
    assert TlsFiles.in_folder(Path("laptop")) == TlsFiles.in_folder(folder)
    TlsFiles.in_folder(Path("laptop")).read()
    # A folder here comes first, and a path is a path.
    (tmp_path / "laptop").mkdir()
    assert TlsFiles.in_folder(Path("laptop")).key == tmp_path / "laptop" / "key.pem"
    assert TlsFiles.in_folder(Path("none")).key == tmp_path / "none" / "key.pem"
    assert TlsFiles.in_folder(Path("./x/laptop")).key == tmp_path / "x" / "laptop" / "key.pem"


def test_there_must_be_an_authority(tmp_path: Path) -> None:
    nowhere = Authority(tmp_path / "tls")
    for call in (lambda: nowhere.issue("a"), lambda: nowhere.revoke("a"), nowhere.describe):
        with pytest.raises((BadState, BadData)):
            call()
    with pytest.raises(BadState, match="neurald cert init"):
        nowhere.create("tests", replaces=True)
    nowhere.create("tests")
    with pytest.raises(BadState, match="--replace"):
        nowhere.create("tests")


def test_revocation(authority: Authority) -> None:
    laptop = authority.issue("laptop")
    first = certificate(laptop).serial_number
    authority.issue("laptop")
    second = certificate(laptop).serial_number
    other = certificate(authority.issue("desk")).serial_number
    assert authority.revoke("laptop") == 2
    for folder in (authority.folder, laptop, authority.folder / "desk"):
        revoked = Revocations(folder / "crl.pem", folder / "ca.pem")
        assert [serial in revoked for serial in (first, second, other)] == [True, True, False]
    with pytest.raises(BadData, match="'laptop' has no valid certificate; those of desk are valid"):
        authority.revoke("laptop")
    assert [each.state for each in authority.describe().certificates] == ["revoked", "revoked", "valid"]


def test_an_authority_is_replaced(authority: Authority) -> None:
    laptop = authority.issue("laptop")
    old = x509.load_pem_x509_certificate((authority.folder / "ca.pem").read_bytes())
    authority.create("second", replaces=True)
    both = x509.load_pem_x509_certificates((laptop / "ca.pem").read_bytes())
    assert [len(both), both[1]] == [2, old]
    assert authority.describe().name == "second"
    desk = certificate(authority.issue("desk"))
    desk.verify_directly_issued_by(both[0])
    certificate(laptop).verify_directly_issued_by(both[1])
    # What the earlier authority has issued can be revoked, too.
    authority.revoke("laptop")
    assert certificate(laptop).serial_number in Revocations(laptop / "crl.pem", laptop / "ca.pem")
    TlsFiles.in_folder(laptop).read()


@pytest.mark.parametrize("file", ["key.pem", "cert.pem", "authority.key", "ca.pem"])
def test_keys_and_certificates_are_replaced_together(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """A full disk leaves the earlier ones, which fit each other."""
    folder = authority.issue("gpu", ["gpu.example"])
    names = (folder / "key.pem", folder / "cert.pem", authority.folder / "authority.key")
    before = [path.read_bytes() for path in names]
    sync = os.fsync

    def full(descriptor: int) -> None:
        if f".{file}-" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    def write() -> None:
        if file in ("authority.key", "ca.pem"):
            authority.create("another", replaces=True)
        else:
            authority.issue("gpu", ["gpu.example"])

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadState, match="No space left"):
        write()
    monkeypatch.undo()
    assert [path.read_bytes() for path in names] == before
    TlsFiles.in_folder(folder).read()
    assert not list(authority.folder.rglob(".*-*"))
    authority.issue("gpu", ["gpu.example"])


def test_concurrent_calls_lose_nothing(authority: Authority) -> None:
    threads = [
        threading.Thread(target=lambda number=number: authority.issue(f"host{number}")) for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.serial for each in authority.describe().certificates}) == 8


def test_certificates_that_expire_soon(authority: Authority) -> None:
    authority.issue("short", days=3)
    authority.issue("long", days=80)
    authority.issue("renewed", days=3)
    authority.issue("renewed", days=80)
    assert [each.name for each in soon_expiring(authority.describe().certificates, 14)] == ["short"]


def test_damaged_files(authority: Authority) -> None:
    authority.issue("laptop")
    record = (authority.folder / "issued.json").read_text()
    serial = authority.describe().certificates[0].serial
    for damaged in (
        "[{]",
        record.replace(serial, "the first"),
        record.replace('"laptop"', '"../laptop"'),
        record.replace('Z"', '"'),
    ):
        assert damaged != record
        (authority.folder / "issued.json").write_text(damaged)
        with pytest.raises(BadState, match="record of certificates"):
            authority.issue("laptop")
        with pytest.raises(BadState, match="record of certificates"):
            authority.revoke("laptop")
    (authority.folder / "issued.json").unlink()
    (authority.folder / "authority.key").chmod(0o644)
    with pytest.raises(BadState, match="is not private"):
        authority.issue("laptop")
