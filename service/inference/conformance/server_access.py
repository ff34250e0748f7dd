"""The way in which the checks reach a server, and prove who they are."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import grpc

from neurald.hal.errors import BadData
from neurald.hal.process.address import Address
from neurald.hal.rpc.transport.tls_files import TlsFiles

#: The schemes of URLs, each with its protocol, and whether it is encrypted.
_SCHEMES: Final = {
    "grpc": ("grpc", False),
    "grpcs": ("grpc", True),
    "http": ("http", False),
    "https": ("http", True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """A server, and what it knows its clients by.

    Attributes:
        protocol: grpc or http.
        target: host and port.
        is_encrypted: whether to talk to it over TLS.
        token: the token that it wants; empty for none.
        tls: the certificate for it, and the authority of its own; None for no certificate, and the
            authorities of the system.
    """

    protocol: str
    target: str
    is_encrypted: bool = False
    token: str = ""
    tls: TlsFiles | None = None

    @classmethod
    def of(cls, url: str, token: str = "", tls: TlsFiles | None = None) -> Self:
        """Returns the access to the server of a URL.

        Raises:
            BadData: it is no URL of a server, or others could read the token.
        """
        scheme, _, target = url.rstrip("/").partition("://")
        if scheme not in _SCHEMES or not target or "/" in target:
            raise BadData(
                f"{url!r} is not grpc://host:port or http://host:port, or with TLS grpcs://host:port or "
                "https://host:port"
            )
        protocol, is_encrypted = _SCHEMES[scheme]
        if tls is not None and not is_encrypted:
            raise BadData(
                f"a certificate is given, but {url} is without TLS; {scheme}s://{target} is with it"
            )
        if token and not is_encrypted and not Address.parse(target).is_loopback:
            raise BadData(
                f"the token would be sent to {target} without encryption; use {scheme}s://{target}, or "
                "forward a port of this host to it, such as with ssh -L"
            )
        return cls(protocol=protocol, target=target, is_encrypted=is_encrypted, token=token, tls=tls)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"{self.protocol}{'s' * self.is_encrypted}://{self.target}"

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, or metadata, of every request."""
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def tls_context(self) -> ssl.SSLContext:
        """Returns the context of connections over HTTP.

        Raises:
            BadState: see `TlsFiles.read`.
        """
        if self.tls is None:
            return ssl.create_default_context()
        self.tls.read()
        context = ssl.create_default_context(cafile=str(self.tls.authority))
        context.load_cert_chain(self.tls.certificate, self.tls.key)
        return context

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns the credentials of a channel of gRPC.

        Raises:
            BadState: see `TlsFiles.read`.
        """
        if self.tls is None:
            return grpc.ssl_channel_credentials()
        content = self.tls.read()
        return grpc.ssl_channel_credentials(content.authority, content.key, content.certificate)
