"""The files of a client or a daemon for mutual TLS."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from neurald.hal.errors import BadState, UnavailableDevice
from neurald.hal.process.files.user_directories import configuration_directory
from neurald.hal.rpc.transport.certificate import (
    Certificate,
    read_certificate,
    read_file,
    require_cryptography,
)

#: The folder of this user's authority in the directory of the configuration.
AUTHORITY_FOLDER: Final = "tls"
#: The names of the files in a folder that `neurald cert issue` has made.
CERTIFICATE_FILE: Final = "cert.pem"
KEY_FILE: Final = "key.pem"
AUTHORITY_FILE: Final = "ca.pem"
REVOKED_FILE: Final = "crl.pem"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files with which a client or a daemon proves who it is, and checks its peers.

    Attributes:
        certificate: its certificate, in PEM.
        key: the private key of the certificate, in PEM, accessible to its user only.
        authority: the certificates of the authorities that peers must have theirs from, in PEM.
            A list of revoked certificates is beside it, `crl.pem`.
    """

    certificate: Path
    key: Path
    authority: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Self:
        """Returns the files in a folder that `neurald cert issue` has made.

        Args:
            folder: the folder of the files, or the name of one that the authority of this user has
                made and that is in its own folder.
        """
        # These functions take any path, also one that is too long or of an unknown user.
        folder = Path(os.path.expanduser(folder))  # noqa: PTH111
        made = configuration_directory() / AUTHORITY_FOLDER / folder
        if len(folder.parts) == 1 and os.path.isdir(made) and not os.path.exists(folder):  # noqa: PTH110, PTH112
            folder = made
        folder = folder.absolute()
        return cls(
            certificate=folder / CERTIFICATE_FILE, key=folder / KEY_FILE, authority=folder / AUTHORITY_FILE
        )

    @property
    def revoked(self) -> Path:
        """The list of revoked certificates, which need not exist."""
        return self.authority.with_name(REVOKED_FILE)

    def read(self) -> "TlsContent":
        """Reads the files.

        Raises:
            BadState: a file cannot be read, is not valid, or the key is not private or not that of
                the certificate.
            UnavailableDevice: `cryptography` is not installed.
        """
        require_cryptography()
        content = TlsContent(
            certificate=read_file(self.certificate, "the certificate"),
            key=read_file(self.key, "the private key", is_secret=True),
            authority=read_file(self.authority, "the authority file"),
        )
        content.check(self)
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsContent:
    """The content of `TlsFiles`, in PEM."""

    certificate: bytes
    key: bytes
    authority: bytes

    def check(self, files: TlsFiles) -> None:
        """Checks that the content of files is valid; see `TlsFiles.read`."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            certificate = x509.load_pem_x509_certificate(self.certificate)
        except ValueError as error:
            raise BadState(f"the certificate {files.certificate} is not valid: {error}") from None
        try:
            key = load_pem_private_key(self.key, None)
        except (TypeError, ValueError):
            raise BadState(f"the private key {files.key} is not an unencrypted key in PEM") from None
        try:
            x509.load_pem_x509_certificates(self.authority)
        except ValueError as error:
            raise BadState(f"the authority file {files.authority} is not valid: {error}") from None
        if key.public_key() != certificate.public_key():
            raise BadState(
                f"the private key {files.key} belongs to another certificate than {files.certificate}"
            )

    @property
    def own(self) -> Certificate:
        """The certificate itself."""
        return read_certificate(self.certificate)

    def require_timely(self, whose: str) -> None:
        """Raises UnavailableDevice unless the certificate is valid at this time.

        Args:
            whose: certificate it is, for the message.
        """
        if reason := self.own.untimely():
            raise UnavailableDevice(
                f"the certificate of {whose}, {self.own.name!r}, {reason}; compare the clocks, or issue a new "
                "one with: neurald cert issue"
            )
