"""A certificate authority of one operator, in one folder.

The folder has the authority's certificate (`ca.pem`) and private key, the list of revoked
certificates (`crl.pem`), a record of all certificates that were issued, and a folder for each name,
which has everything that a daemon or client with that name needs. Private keys have mode 0600,
folders mode 0700.
"""

import contextlib
import ipaddress
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from neurald.hal.decoding import from_json
from neurald.hal.errors import BadData, BadState
from neurald.hal.process.files.file_lock import ProcessLock
from neurald.hal.process.files.private_directory import make_directory
from neurald.hal.process.files.user_directories import configuration_directory
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.rpc.transport.certificate import read_file, require_cryptography
from neurald.hal.rpc.transport.tls_files import (
    AUTHORITY_FILE,
    AUTHORITY_FOLDER,
    CERTIFICATE_FILE,
    KEY_FILE,
    REVOKED_FILE,
)

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

#: How many days certificates are valid.
AUTHORITY_DAYS: Final = 1825
DEFAULT_DAYS: Final = 90
MAX_DAYS: Final = 397
_AUTHORITY_KEY_FILE: Final = "authority.key"
_RECORD_FILE: Final = "issued.json"
_LOCK_FILE: Final = ".lock"
#: The modes of files that only their user may read, and of others.
_SECRET: Final = 0o600
_PUBLIC: Final = 0o644
#: Clocks of hosts may differ by this much.
_SKEW: Final = timedelta(minutes=5)
#: How long a list of revocations is valid. A daemon uses the last list that it has got in any case.
_LIST_DAYS: Final = AUTHORITY_DAYS
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST: Final = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", re.ASCII)
_MAX_HOSTS: Final = 64


def authority_folder() -> Path:
    """Returns the folder of this user's authority."""
    return configuration_directory() / AUTHORITY_FOLDER


class IssuedCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a certificate that the authority has issued.

    Attributes:
        name: the name of its holder.
        serial: its number, in hexadecimal.
        hosts: names and addresses at which its holder serves; empty for a client.
        valid_until: when its time ends.
        revoked_at: when it was revoked; None if it was not.
    """

    name: Annotated[str, msgspec.Meta(pattern=rf"^{_NAME.pattern}\Z")]
    serial: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{1,40}\Z")]
    hosts: tuple[str, ...]
    valid_until: Annotated[datetime, msgspec.Meta(tz=True)]
    revoked_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None

    @property
    def state(self) -> str:
        """The state: valid, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if datetime.now(UTC) > self.valid_until else "valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityDescription:
    """Describes an authority, and what it has issued.

    Attributes:
        name: the name of the authority.
        folder: its files.
        valid_until: when the time of its certificate ends.
        certificates: those it has issued, in that order.
    """

    name: str
    folder: Path
    valid_until: datetime
    certificates: Sequence[IssuedCertificate]


class Authority:
    """The authority in a folder; several processes may use it at the same time.

    Args:
        folder: the folder of the authority.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    def create(self, name: str, *, replaces: bool = False) -> None:
        """Creates the authority, or replaces its certificate and key.

        After a replacement the earlier certificate stays in `ca.pem`, so that holders of
        certificates from it are still accepted. They get theirs from the new one with `issue`.

        Args:
            name: the name of the authority, for display.
            replaces: whether there is one, which gets a new certificate.

        Raises:
            BadState: there is an authority already, or none to replace; or a file cannot be
                written.
            BadData: the name is not valid.
        """
        x509 = require_cryptography()
        _require_name(name)
        with self._changing():
            known: list[Any] = []
            if (self.folder / AUTHORITY_FILE).exists() or replaces:
                if not replaces:
                    raise BadState(
                        f"{self.folder} has an authority already; --replace gives it a new certificate and key"
                    )
                known = self._certificates()
            key = _new_key()
            now = datetime.now(UTC)
            own = (
                x509.CertificateBuilder()
                .subject_name(_subject(name))
                .issuer_name(_subject(name))
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - _SKEW)
                .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .add_extension(_key_usage(signs_certificates=True), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .sign(key, _sha256())
            )
            kept = [each for each in known if each.not_valid_after_utc > now]
            record = self._record()
            _write(
                (self.folder / _AUTHORITY_KEY_FILE, _key_text(key), _SECRET),
                (self.folder / AUTHORITY_FILE, b"".join(map(_text, (own, *kept))), _PUBLIC),
            )
            self._write_record(record)

    def issue(self, name: str, hosts: Sequence[str] | None = None, days: int = DEFAULT_DAYS) -> Path:
        """Issues a certificate, and returns the folder with everything that its holder needs.

        The certificate and key of an earlier call with the same name are replaced; the earlier
        certificate stays valid until its time ends, or until it is revoked.

        Args:
            name: the name of the holder, by which it is revoked, and by which daemons know a
                client.
            hosts: names and addresses at which the holder serves; empty for a client; None for
                those of the last certificate of this name, or for a client if there was none.
            days: how long the certificate is valid.

        Raises:
            BadData: an argument is not valid.
            BadState: there is no authority, or a file cannot be read or written.
        """
        x509 = require_cryptography()
        _require_name(name)
        if not 1 <= days <= MAX_DAYS:
            raise BadData(f"a certificate for {days} days; 1 to {MAX_DAYS} are possible")
        if hosts is not None and len(hosts) > _MAX_HOSTS:
            raise BadData(f"{len(hosts)} hosts are given; a certificate can have {_MAX_HOSTS}")
        names = [_general_name(host) for host in hosts or ()]
        with self._changing():
            if hosts is None:
                hosts = next((each.hosts for each in reversed(self._record()) if each.name == name), ())
                names = [_general_name(host) for host in hosts]
            authority, authority_key = self._own()
            key = _new_key()
            now = datetime.now(UTC)
            until = min(now + timedelta(days=days), authority.not_valid_after_utc)
            builder = (
                x509.CertificateBuilder()
                .subject_name(_subject(name))
                .issuer_name(authority.subject)
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - _SKEW)
                .not_valid_after(until)
                .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
                .add_extension(_key_usage(signs_certificates=False), critical=True)
                .add_extension(_purposes(is_server=bool(names)), critical=False)
                .add_extension(
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
                    critical=False,
                )
            )
            if names:
                builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            certificate = builder.sign(authority_key, _sha256())
            record = IssuedCertificate(
                name=name,
                serial=f"{certificate.serial_number:x}",
                hosts=tuple(hosts),
                valid_until=certificate.not_valid_after_utc,
            )
            # A certificate that is not in the record could not be revoked.
            self._write_record((*self._record(), record))
            holder = self.folder / name
            _make_private(holder)
            _write(
                (holder / KEY_FILE, _key_text(key), _SECRET),
                (holder / CERTIFICATE_FILE, _text(certificate), _PUBLIC),
            )
            self._copy_lists(holder)
        return holder

    def revoke(self, name: str) -> int:
        """Revokes all certificates of a name; returns how many.

        The list of revocations is replaced in the authority's folder, and in those of all names.

        Raises:
            BadData: the name has no certificate that is valid.
            BadState: there is no authority, or a file cannot be read or written.
        """
        require_cryptography()
        with self._changing():
            now = datetime.now(UTC)
            before = self._record()
            after = tuple(
                msgspec.structs.replace(each, revoked_at=now)
                if each.name == name and each.state == "valid"
                else each
                for each in before
            )
            count = sum(old is not new for old, new in zip(before, after, strict=True))
            if not count:
                known = ", ".join(sorted({each.name for each in before if each.state == "valid"}))
                raise BadData(f"{name!r} has no valid certificate; those of {known or 'nobody'} are valid")
            self._write_record(after)
        return count

    def describe(self) -> AuthorityDescription:
        """Returns what the authority is and has issued.

        Raises:
            BadState: there is no authority, or a file cannot be read.
        """
        from neurald.hal.rpc.transport.certificate import described

        own = described(self._certificates()[0])
        return AuthorityDescription(
            name=own.name, folder=self.folder, valid_until=own.valid_until, certificates=self._record()
        )

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Keeps other processes from changing the folder during the block."""
        lock = ProcessLock(self.folder / _LOCK_FILE)
        try:
            _make_private(self.folder)
            lock.acquire()
            yield
        except OSError as error:
            raise BadState(
                f"{error.filename or self.folder} cannot be written: {error.strerror or error}"
            ) from None
        finally:
            lock.release()

    def _certificates(self) -> "list[x509.Certificate]":
        """Returns the certificates of the authority, its current one first."""
        path = self.folder / AUTHORITY_FILE
        if not path.exists():
            raise BadState(f"{self.folder} has no authority; create one with: neurald cert init")
        try:
            found: list[x509.Certificate] = require_cryptography().load_pem_x509_certificates(
                read_file(path, "the authority file")
            )
        except ValueError as error:
            raise BadState(f"the authority file {path} is not valid: {error}") from None
        return found

    def _own(self) -> "tuple[x509.Certificate, EllipticCurvePrivateKey]":
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        certificate = self._certificates()[0]
        path = self.folder / _AUTHORITY_KEY_FILE
        try:
            key = load_pem_private_key(read_file(path, "the authority's key", is_secret=True), None)
        except (TypeError, ValueError):
            raise BadState(f"the authority's key {path} is not an unencrypted key in PEM") from None
        if not isinstance(key, EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise BadState(f"the authority's key {path} is not that of the first certificate in ca.pem")
        return certificate, key

    def _record(self) -> tuple[IssuedCertificate, ...]:
        path = self.folder / _RECORD_FILE
        if not path.exists():
            return ()
        try:
            return from_json(read_file(path, "the record of certificates"), tuple[IssuedCertificate, ...])
        except DECODE_ERRORS as error:
            raise BadState(f"the record of certificates {path} is not valid: {error}") from None

    def _write_record(self, record: Sequence[IssuedCertificate]) -> None:
        """Writes the record, and the list of revocations that follows from it."""
        x509 = require_cryptography()
        authority, key = self._own()
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(authority.subject)
            .last_update(now - _SKEW)
            .next_update(now + timedelta(days=_LIST_DAYS))
        )
        for each in record:
            if each.revoked_at is not None:
                builder = builder.add_revoked_certificate(
                    x509.RevokedCertificateBuilder()
                    .serial_number(int(each.serial, 16))
                    .revocation_date(each.revoked_at)
                    .build()
                )
        text = msgspec.json.format(msgspec.json.encode(record), indent=1)
        _write(
            (self.folder / _RECORD_FILE, text, _SECRET),
            (self.folder / REVOKED_FILE, _text(builder.sign(key, _sha256())), _PUBLIC),
        )
        for name in {each.name for each in record}:
            if (self.folder / name).is_dir():
                self._copy_lists(self.folder / name)

    def _copy_lists(self, holder: Path) -> None:
        _write(
            *(
                (holder / name, (self.folder / name).read_bytes(), _PUBLIC)
                for name in (AUTHORITY_FILE, REVOKED_FILE)
            )
        )


def _require_name(name: str) -> None:
    taken = (AUTHORITY_FILE, REVOKED_FILE, _AUTHORITY_KEY_FILE, _RECORD_FILE)
    if not _NAME.fullmatch(name) or name in taken:
        raise BadData(
            f"the name {name!r} is not valid; 1 to 64 letters, digits, '_', '-' and '.' are expected, and "
            f"none of {', '.join(taken)}"
        )


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    name: x509.GeneralName
    try:
        name = x509.IPAddress(ipaddress.ip_address(bare))
    except ValueError:
        if len(host) > 253 or not _HOST.fullmatch(host):
            raise BadData(f"{host!r} is neither a host name nor an IP address") from None
        name = x509.DNSName(host)
    return name


def _subject(name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _purposes(*, is_server: bool) -> "x509.ExtendedKeyUsage":
    """Returns what a certificate is for: a daemon's cannot act as a client, and vice versa."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    return x509.ExtendedKeyUsage(
        [ExtendedKeyUsageOID.SERVER_AUTH if is_server else ExtendedKeyUsageOID.CLIENT_AUTH]
    )


def _key_usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _new_key() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _sha256() -> Any:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA256()


def _text(value: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return bytes(value.public_bytes(Encoding.PEM))


def _key_text(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _make_private(folder: Path) -> None:
    """Creates a folder that only its user can enter.

    Raises:
        BadState: it exists, and others can enter it.
    """
    make_directory(folder)
    status = folder.stat()
    if status.st_mode & 0o077 or status.st_uid != os.geteuid():
        raise BadState(
            f"{folder} is not private: it belongs to user {status.st_uid} and has mode "
            f"{stat.S_IMODE(status.st_mode):04o}; a folder of your own with mode 0700 is expected (chmod 700)"
        )


def _write(*files: tuple[Path, bytes, int]) -> None:
    """Writes files that belong together, each a path with its content and mode.

    Readers see either the old or the new content of a file. None is replaced unless all could be
    written: a key without its certificate is of no use.
    """
    drafts: list[tuple[Path, Path]] = []
    try:
        for path, content, mode in files:
            draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(draft, flags, mode)
            drafts.append((draft, path))
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)
                file.write(content)
                file.flush()
                os.fsync(descriptor)
        for draft, path in drafts:
            draft.replace(path)
    finally:
        for draft, _ in drafts:
            draft.unlink(missing_ok=True)


def soon_expiring(certificates: Iterable[IssuedCertificate], days: int) -> tuple[IssuedCertificate, ...]:
    """Returns the certificates in use whose time ends within some days.

    One that was followed by another of the same name is no longer in use.
    """
    last = {each.name: each for each in certificates}
    limit = datetime.now(UTC) + timedelta(days=days)
    return tuple(each for each in last.values() if each.state == "valid" and each.valid_until < limit)
