"""Encrypted connections whose memory is freed when they end.

If a handshake fails, asyncio keeps the error in a frame that the error refers to, together with the
connection and its buffer of 256 KiB (until CPython 3.11.8 and 3.12.2). They are freed by a full
collection of garbage only, which is rare, so anyone who can connect could fill the memory.
"""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol


class TlsProtocol(SSLProtocol):
    """Encrypts a connection that a server without encryption has accepted.

    Args:
        protocol: what takes and sends what is encrypted.
        context: the certificate, and what is wanted of clients.
    """

    def __init__(self, protocol: asyncio.Protocol, context: ssl.SSLContext) -> None:
        # Nobody waits for the handshake, so no task keeps its error.
        super().__init__(asyncio.get_running_loop(), protocol, context, None, server_side=True)  # type: ignore[arg-type]

    def _on_handshake_complete(self, handshake_exc: object) -> None:
        super()._on_handshake_complete(handshake_exc)  # type: ignore[arg-type]
        # If the client has left, it is the class of an error instead.
        if isinstance(handshake_exc, BaseException):
            handshake_exc.__traceback__ = None
