"""gRPC's credentials for mutual TLS."""

import logging
from typing import Any

import grpc

from neurald.hal.errors import BadState, UnavailableDevice
from neurald.hal.rpc.transport.tls_files import TlsContent, TlsFiles

logger = logging.getLogger(__name__)


def channel_credentials(content: TlsContent) -> grpc.ChannelCredentials:
    """Returns a client's credentials."""
    return grpc.ssl_channel_credentials(content.authority, content.key, content.certificate)


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Returns a daemon's credentials, which require a certificate of every client.

    The files are read again whenever one of them has changed, so that a new certificate needs no
    restart. While they are not valid, the last valid ones stay in force.

    Raises:
        BadState: see `TlsFiles.read`.
        UnavailableDevice: the certificate is not valid at this time, or `cryptography` is not
            installed.
    """
    content = files.read()
    content.require_timely("this server")
    seen = _identities(files)

    def changed() -> Any:
        nonlocal content, seen
        found = _identities(files)
        if found == seen:
            return None
        seen = found
        try:
            content = files.read()
        except (BadState, UnavailableDevice) as error:
            logger.error("%s; the last certificate stays in force", error)
            return None
        logger.info("the certificate %s was read again", files.certificate)
        return _configuration(content)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(content), changed, require_client_authentication=True
    )


def _configuration(content: TlsContent) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(content.key, content.certificate)], root_certificates=content.authority
    )


def _identities(files: TlsFiles) -> tuple[object, ...]:
    """Returns a value that changes with the content of the files."""
    found: list[object] = []
    for path in (files.certificate, files.key, files.authority):
        try:
            status = path.stat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)
