"""Explains why a daemon and its client cannot agree on a TLS connection.

gRPC only says that the connection failed. So the handshake is made once more, by Python's own
module, whose errors name the reason.
"""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Final

from neurald.hal.process.address import Address
from neurald.hal.rpc.transport.tls_files import TlsContent, TlsFiles

#: The faults that OpenSSL finds in a daemon's certificate, by number.
_FAULTS: Final = {
    9: "is not valid yet",
    10: "has expired",
    18: "is not from an authority of {authority}",
    19: "is not from an authority of {authority}",
    20: "is not from an authority of {authority}",
    23: "was revoked",
    26: "is not one for a daemon; issue one with: neurald cert issue NAME --host HOST",
    62: "is for another host than {host}",
    64: "is for another host than {host}",
}
#: The alerts with which a daemon refuses a client's certificate, by OpenSSL's name.
_ALERTS: Final = {
    "CERTIFICATE_EXPIRED": "it has expired, or the daemon's clock is wrong",
    "CERTIFICATE_REVOKED": "it was revoked",
    "UNKNOWN_CA": "it is not from an authority that the daemon trusts",
    "BAD_CERTIFICATE": "it is not valid",
    "UNSUPPORTED_CERTIFICATE": "it is not one for clients",
    "CERTIFICATE_UNKNOWN": "it is not valid",
    "CERTIFICATE_REQUIRED": "the daemon did not receive one",
    "HANDSHAKE_FAILURE": "the daemon did not accept it",
}
_PLAIN_TEXT: Final = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
)
_MAX_WAIT_S: Final = 2.0


def refusal(address: Address, files: TlsFiles, content: TlsContent, limit_s: float) -> str:
    """Returns why a TLS connection fails, as a sentence; empty if it does not.

    Args:
        address: the address of the daemon.
        files: the files of the client.
        content: the content of these files.
        limit_s: how long to take at most, on the clock of `time.monotonic()`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    context.load_verify_locations(cadata=content.authority.decode("ascii", "replace"))
    context.load_cert_chain(files.certificate, files.key)
    own = f"the daemon at {address} refuses the certificate {content.own.name!r}: "
    try:
        _shake_hands(address, context, limit_s)
    except ssl.SSLCertVerificationError as error:
        fault = _FAULTS.get(error.verify_code, "cannot be verified: {message}").format(
            authority=files.authority, host=address.host, message=error.verify_message
        )
        return f"the certificate of the daemon at {address} {fault}"
    except ssl.SSLError as error:
        reason = (error.reason or "").upper()
        if reason in _PLAIN_TEXT:
            return f"the daemon at {address} does not use TLS; connect without a certificate"
        for alert, meaning in _ALERTS.items():
            if reason.endswith(alert):
                return own + meaning
        return f"the TLS connection to {address} failed: {reason or error}"
    except (ConnectionError, EOFError):
        return own + "it closed the connection"
    except OSError:
        return ""
    return ""


def serves_tls(address: Address, limit_s: float) -> bool:
    """Returns whether the process at an address uses TLS, for a client that did not.

    Nothing is sent to it but the first message of a handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        # Without a certificate the daemon ends the connection, but only after the handshake.
        with _secured(address, context, limit_s):
            return True
    except ssl.SSLError as error:
        return any((error.reason or "").upper().endswith(alert) for alert in _ALERTS)
    except OSError:
        return False


def _shake_hands(address: Address, context: ssl.SSLContext, limit_s: float) -> None:
    """Opens a TLS connection and closes it once the daemon has sent something.

    In TLS 1.3 a daemon checks the client's certificate after the client has finished.
    """
    with _secured(address, context, limit_s) as secured, contextlib.suppress(TimeoutError):
        if not secured.recv(1):
            raise EOFError


@contextlib.contextmanager
def _secured(address: Address, context: ssl.SSLContext, limit_s: float) -> Iterator[ssl.SSLSocket]:
    left_s = min(_MAX_WAIT_S, max(0.05, limit_s - time.monotonic()))
    with (
        socket.create_connection((address.numeric.host, address.port), left_s) as connection,
        context.wrap_socket(connection, server_hostname=address.host) as secured,
    ):
        yield secured
