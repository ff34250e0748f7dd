"""X.509 certificates: the fields that neurald reads, and lists of revoked certificates.

The package `cryptography` parses them. It is an optional part of neurald, `neurald[tls]`, and is
imported when it is first needed.
"""

import logging
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neurald.hal.errors import BadState, UnavailableDevice
from neurald.hal.process.files.bounded_read import read_at_most

if TYPE_CHECKING:
    from cryptography import x509

logger = logging.getLogger(__name__)

#: Limits files of certificates, keys and revocations.
MAX_FILE_BYTES: Final = 4 << 20
#: Non-blocking, because opening a pipe would wait for its writer.
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def require_cryptography() -> Any:
    """Returns the module `cryptography.x509`.

    Raises:
        UnavailableDevice: the package is not installed.
    """
    try:
        from cryptography import x509
    except ImportError:
        raise UnavailableDevice(
            "TLS needs the package cryptography, which is not installed: pip install 'neurald[tls]'"
        ) from None
    return x509


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The subject of a certificate, and the time for which it is valid.

    Attributes:
        name: the common name of its subject.
        serial: its number, which no other certificate of its authority has.
        valid_from: when its time begins.
        valid_until: when its time ends.
    """

    name: str
    serial: int
    valid_from: datetime
    valid_until: datetime

    def untimely(self) -> str:
        """Returns why the certificate is not valid at this time; empty if it is."""
        now = datetime.now(UTC)
        if now > self.valid_until:
            return f"expired at {_shown(self.valid_until)}"
        if now < self.valid_from:
            return f"is not valid before {_shown(self.valid_from)}"
        return ""


def _shown(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")


@lru_cache(maxsize=1024)
def read_certificate(pem: bytes) -> Certificate:
    """Returns the first certificate of a PEM text.

    Raises:
        ValueError: there is none.
        UnavailableDevice: `cryptography` is not installed.
    """
    return described(require_cryptography().load_pem_x509_certificate(pem))


def described(certificate: "x509.Certificate") -> Certificate:
    """Returns what neurald uses of a certificate."""
    from cryptography.x509.oid import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Certificate(
        name=str(names[0].value) if names else "",
        serial=certificate.serial_number,
        valid_from=certificate.not_valid_before_utc,
        valid_until=certificate.not_valid_after_utc,
    )


def read_file(path: Path, what: str, *, is_secret: bool = False) -> bytes:
    """Returns the content of a file of certificates or keys.

    Args:
        path: the path of the file.
        what: names it in messages.
        is_secret: whether only this user, or root, may have access to it, or a group that root lets
            read it, such as that of a pod's secrets.

    Raises:
        BadState: it cannot be read, is too large or no regular file, or a secret that others can
            access.
    """
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadState(f"{what} {path} is not a regular file")
            is_own = status.st_uid in (os.geteuid(), 0) or os.geteuid() == 0
            others = 0o037 if status.st_uid == 0 else 0o077
            if is_secret and (not is_own or status.st_mode & others):
                raise BadState(
                    f"{what} {path} is not private: it belongs to user {status.st_uid} and has mode "
                    f"{stat.S_IMODE(status.st_mode):04o}; a file of user {os.geteuid()} with mode 0600, or of "
                    "root with mode 0640, is expected (chmod 600)"
                )
            content = read_at_most(file, MAX_FILE_BYTES)
    except OSError as error:
        raise BadState(f"{what} {path} cannot be read: {error.strerror or error}") from None
    if len(content) > MAX_FILE_BYTES:
        raise BadState(f"{what} {path} has more than {MAX_FILE_BYTES} bytes")
    return content


class Revocations:
    """The certificates that an authority has revoked, as of its list in a file. Thread-safe.

    The file is read again whenever it has changed. It must be signed by one of the authorities.
    While there is no valid file, the last valid list stays in force.

    Args:
        path: the path of the list, in PEM. Without a file nothing is revoked.
        authority: the file with the certificates of the authorities.

    Raises:
        BadState: there is a list, but it is not valid.
        UnavailableDevice: `cryptography` is not installed.
    """

    def __init__(self, path: Path, authority: Path) -> None:
        self._path = path
        self._authority = authority
        self._serials: frozenset[int] = frozenset()
        self._seen = _identity(path)
        if self._seen is not None:
            self._serials = self._read()

    def update(self) -> bool:
        """Reads the list again if its file has changed; returns whether that was the case."""
        seen = _identity(self._path)
        if seen == self._seen:
            return False
        self._seen = seen
        if seen is None:
            logger.error("the revocation list %s is gone; the last one stays in force", self._path)
            return False
        try:
            self._serials = self._read()
        except BadState as error:
            logger.error("%s; the last list stays in force", error)
            return False
        logger.info("the revocation list %s was read: %d certificates", self._path, len(self._serials))
        return True

    def __contains__(self, serial: int) -> bool:
        return serial in self._serials

    def _read(self) -> frozenset[int]:
        x509 = require_cryptography()
        try:
            revoked = x509.load_pem_x509_crl(read_file(self._path, "the revocation list"))
            authorities = x509.load_pem_x509_certificates(read_file(self._authority, "the authority file"))
        except ValueError as error:
            raise BadState(f"the revocation list {self._path} cannot be read: {error}") from None
        if not any(_is_signed_by(revoked, each) for each in authorities):
            raise BadState(
                f"the revocation list {self._path} is not signed by an authority of {self._authority}"
            )
        return frozenset(each.serial_number for each in revoked)


def _is_signed_by(revoked: "x509.CertificateRevocationList", authority: "x509.Certificate") -> bool:
    try:
        return revoked.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    except (TypeError, ValueError):  # a key of a kind that signs no lists
        return False


def _identity(path: Path) -> Sequence[int] | None:
    """Returns a value that changes with the content of a file; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
