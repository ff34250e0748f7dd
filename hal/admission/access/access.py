"""Authorizes calls of a daemon before anything of them is parsed, whichever service they are for.

A call is authorized if it carries the daemon's token, or the token of an open session. Sessions are
only opened for clients that have presented the daemon's token or, over the side channel, whose user
the kernel has confirmed (SO_PEERCRED). A UNIX socket with mode 0600 admits only its user and root,
which is as good; if its mode or owner was ever changed, calls on it need the token, too.
"""

import hmac
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import grpc

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.admission.sessions.sessions import Sessions, unknown_session
from neurald.hal.errors import DeadObject, UnavailableDevice
from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.hal.rpc.transport.access_token import TOKEN_KEY, TOKEN_VARIABLE
from neurald.hal.rpc.transport.status import SESSION_KEY, abort
from neurald.hal.rpc.wire.device import Access

_refusals: Final = RateLimitedLogger(logging.getLogger(__name__))
_sessions: Final = RateLimitedLogger(logging.getLogger(__name__))

#: How many sessions one connection may hold. The client library uses a connection for each.
MAX_CONNECTION_SESSIONS = 8


class AccessInterceptor(grpc.ServerInterceptor):
    """Refuses calls that carry neither the daemon's token nor that of an open session.

    Args:
        sessions: the sessions of the daemon.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._token: bytes | None = None
        self._file: Path | None = None
        self._socket: Path | None = None
        self._identity: object = None

    def require(self, token: bytes, file: Path, socket: Path | None) -> None:
        """Requires the token of every call from now on.

        Args:
            token: the token of the daemon.
            file: where clients find it.
            socket: the UNIX socket that is served, just bound with mode 0600; None on TCP.
        """
        self._token = token.hex().encode()
        self._file = file
        self._socket = socket
        self._identity = _identity(socket)

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Returns the handler of a call, or a handler that refuses it."""
        metadata = handler_call_details.invocation_metadata
        if self._token is None or self._is_authorized(metadata) or self._is_protected_by_mode():
            return continuation(handler_call_details)
        has_session = any(key == SESSION_KEY for key, _ in metadata or ())
        # A stream handler runs without waiting for the request message.
        return grpc.stream_unary_rpc_method_handler(_refuse_session if has_session else self._refuse)

    @property
    def access(self) -> Access:
        """The clients that may call now."""
        if self._token is None:
            return Access.ANYBODY
        return Access.OWN_USER if self._is_protected_by_mode() else Access.TOKEN

    def _is_authorized(self, metadata: Iterable[tuple[str, str | bytes]]) -> bool:
        for key, value in metadata or ():
            if key == TOKEN_KEY:
                shown = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
                if self._token is not None and hmac.compare_digest(shown, self._token):
                    return True
            elif key == SESSION_KEY and self._is_open(value):
                return True
        return False

    def _is_open(self, value: str | bytes) -> bool:
        try:
            self._sessions.find(bytes.fromhex(str(value)))
        except (ValueError, DeadObject):
            return False
        return True

    def _is_protected_by_mode(self) -> bool:
        """Returns whether only this user and root can ever have connected."""
        return self._identity is not None and _identity(self._socket) == self._identity

    def _refuse(self, requests: Any, context: grpc.ServicerContext) -> Any:
        refusal = UnavailableDevice(
            f"this daemon serves its own user, and clients that have a copy of its token file {self._file}: "
            f"pass the copy as token_file=, --token-file or {TOKEN_VARIABLE}"
        )
        text = "refused a client without the token: %s"
        note_event(CountedEvent.UNTRUSTED, "token", _refusals.warning, text, context.peer())
        abort(context, refusal, grpc.StatusCode.UNAUTHENTICATED)


def _refuse_session(requests: Any, context: grpc.ServicerContext) -> Any:
    text = "refused a call of a session that is not open: %s"
    note_event(CountedEvent.REFUSAL, "session", _sessions.info, text, context.peer())
    abort(context, unknown_session(), grpc.StatusCode.UNAUTHENTICATED)


def _identity(socket: Path | None) -> object:
    """Returns a value that changes whenever a socket's mode or owner changes, even temporarily.

    Returns None if others may connect.
    """
    if socket is None:
        return None
    try:
        status = socket.lstat()
    except OSError:
        return None
    if status.st_mode & 0o077 or status.st_uid != os.geteuid():
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns
