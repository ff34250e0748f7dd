"""Conventions of client and server beyond the messages: limits, errors as statuses, sessions.

An `Error` travels as a gRPC status with its result code in the trailing metadata, so that the same
error is raised at the other end. The text of any other exception in a daemon is not sent, since it
may contain what the client must not see.
"""

from typing import Any, Final, Never, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from neurald.hal.errors import (
    BadData,
    DeadObject,
    Error,
    MissedDeadlineTransient,
    OpFailed,
    ResourceExhaustedTransient,
    ResultCode,
    UnknownCall,
    error_for,
)
from neurald.hal.process.descriptors import connection_limit
from neurald.hal.wording import printable

#: The largest message to a daemon. The graphs of a model of 80,000 operations fit; values of
#: constants are sent as memories.
MAX_MESSAGE_BYTES = 8 << 20
#: The largest message to a client, which may have a sentence for each operation.
MAX_REPLY_BYTES = 16 << 20
#: Memory that cannot be mapped is sent in pieces of this size.
CHUNK_BYTES = 1 << 20

SESSION_KEY = "neurald-session"
#: Metadata of an execution with data whose client expects its results in one message.
ONE_REPLY = ("neurald-replies", "1")
_CODE_KEY = "neurald-code"
#: Statuses are sent in headers, which have a limit of their own, and encode a byte in up to three.
_MAX_DETAILS_BYTES = 2000

#: How often a client pings its daemon, and how long the answer may take. A daemon that stops is
#: noticed within the sum. Pings are sent and answered by threads of gRPC, which no driver can
#: block.
_PING_MS = 600
_PING_ANSWER_MS = 1_200
#: How long a daemon may take to answer a new connection, which threads of gRPC do as well.
_CONNECT_MS = 1_500

_COMMON_OPTIONS = (
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
CLIENT_OPTIONS = (
    *_COMMON_OPTIONS,
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_REPLY_BYTES),
    # A daemon whose host is gone, or that is stopped, closes nothing; pings detect that.
    ("grpc.keepalive_time_ms", _PING_MS),
    ("grpc.keepalive_timeout_ms", _PING_ANSWER_MS),
    ("grpc.http2.ping_timeout_ms", _PING_ANSWER_MS),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),
    # A connection belongs to one session; a new one must not inherit the back-off of a dead one.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)
#: An answer to a ping costs a server less than a microsecond. If it counted pings to disconnect who
#: sends too many, each further one would cost 40 us, while the connection is not closed before
#: nothing more comes through it: 2 MB of pings would hold up all clients for seconds.
UNCOUNTED_PINGS: Final = ("grpc.http2.max_ping_strikes", 0)
_SERVER_OPTIONS = (
    *_COMMON_OPTIONS,
    ("grpc.max_send_message_length", MAX_REPLY_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A client that is stopped may continue; one whose host is gone will not, and may be detected
    # late.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.max_concurrent_streams", 128),
    UNCOUNTED_PINGS,
    # Limits for silent connections, and for those without a call. A session always has a call:
    # `Watch`.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.http2.settings_timeout", 10_000),
    ("grpc.max_connection_idle_ms", 30_000),
)
_MAX_CONNECTIONS = 1024
#: The bytes that a client of this host may send before the daemon reads them. By default gRPC
#: adapts this window to the link, which takes 1 MiB for each connection through which many bytes
#: came, and saves no time on one host.
_LOCAL_WINDOW_BYTES = 1 << 19
_LOCAL_OPTIONS = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", _LOCAL_WINDOW_BYTES))


def server_options(*, is_local: bool, shares_port: bool = False) -> tuple[tuple[str, int], ...]:
    """Returns the options of a gRPC server, which leave half of the descriptors to other uses.

    Args:
        is_local: whether all clients are on this host.
        shares_port: whether another process of this user may listen at the same port, and serve
            some of the connections.
    """
    return (
        *_SERVER_OPTIONS,
        *(_LOCAL_OPTIONS if is_local else ()),
        ("grpc.so_reuseport", int(shares_port)),
        ("grpc.max_allowed_incoming_connections", connection_limit(_MAX_CONNECTIONS, 2)),
    )


_STATUSES = {
    ResultCode.BAD_DATA: grpc.StatusCode.INVALID_ARGUMENT,
    ResultCode.UNEXPECTED_NULL: grpc.StatusCode.INVALID_ARGUMENT,
    ResultCode.BAD_STATE: grpc.StatusCode.FAILED_PRECONDITION,
    ResultCode.UNAVAILABLE_DEVICE: grpc.StatusCode.UNAVAILABLE,
    ResultCode.DEAD_OBJECT: grpc.StatusCode.UNAVAILABLE,
    ResultCode.MISSED_DEADLINE_TRANSIENT: grpc.StatusCode.DEADLINE_EXCEEDED,
    ResultCode.MISSED_DEADLINE_PERSISTENT: grpc.StatusCode.DEADLINE_EXCEEDED,
    ResultCode.OUT_OF_MEMORY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ResultCode.RESOURCE_EXHAUSTED_TRANSIENT: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ResultCode.RESOURCE_EXHAUSTED_PERSISTENT: grpc.StatusCode.RESOURCE_EXHAUSTED,
}

#: The errors for statuses that come from gRPC itself.
_ERRORS: dict[grpc.StatusCode, type[Error]] = {
    grpc.StatusCode.UNAVAILABLE: DeadObject,
    grpc.StatusCode.CANCELLED: DeadObject,
    grpc.StatusCode.DEADLINE_EXCEEDED: MissedDeadlineTransient,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedTransient,
    grpc.StatusCode.INVALID_ARGUMENT: BadData,
    grpc.StatusCode.UNIMPLEMENTED: UnknownCall,
}

_M = TypeVar("_M", bound=Message)


def parse(kind: type[_M], data: bytes) -> _M:
    """Decodes a message.

    Raises:
        BadData: it is not a message of that kind, or has unknown fields.
    """
    name = kind.DESCRIPTOR.name
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise BadData(f"{name}: the {len(data)} bytes received are not a valid message") from None
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        raise BadData(f"{name} has fields that are not known here; it may be of a newer version")
    return message


def token_of(context: grpc.ServicerContext) -> str | None:
    """Returns the session token that a call carries, usually in hexadecimal; None without one."""
    for key, value in context.invocation_metadata():
        if key == SESSION_KEY:
            return str(value)
    return None


def set_status(context: grpc.ServicerContext, error: Error) -> None:
    """Sets the status with which a call ends once its handler ends it."""
    context.set_trailing_metadata(((_CODE_KEY, str(int(error.code))),))
    context.set_code(_STATUSES.get(error.code, grpc.StatusCode.INTERNAL))
    context.set_details(_details(error))


def abort(context: grpc.ServicerContext, error: Error, status: grpc.StatusCode | None = None) -> Never:
    """Ends a call with an error.

    Args:
        context: the context of the call.
        error: the error for the client.
        status: gRPC's status; None for the usual one of the error.
    """
    context.set_trailing_metadata(((_CODE_KEY, str(int(error.code))),))
    context.abort(status or _STATUSES.get(error.code, grpc.StatusCode.INTERNAL), _details(error))


def _details(error: Error) -> str:
    """Returns the error's message, truncated to what a status may hold."""
    return str(error).encode("utf-8", "replace")[:_MAX_DETAILS_BYTES].decode("utf-8", "ignore")


def error_of_status(failure: Any) -> Error | None:
    """Returns the error with which the daemon ended a call; None if gRPC ended it."""
    code = _result_code(failure)
    return None if code is None else error_for(code, failure.details() or "")


def is_lost(failure: grpc.RpcError) -> bool:
    """Returns whether a failed call means that its connection is lost."""
    return _result_code(failure) is None and _ERRORS.get(failure.code()) is DeadObject


def error_from(failure: grpc.RpcError, what: str) -> Error:
    """Returns the error of a failed call.

    Args:
        failure: the failure that gRPC raised.
        what: names the daemon in messages of gRPC.
    """
    own = error_of_status(failure)
    if own is not None:
        return own
    kind = _ERRORS.get(failure.code(), OpFailed)
    return kind(f"{what}: {printable(failure.details() or '', keeps_lines=True) or failure.code().name}")


def _result_code(failure: Any) -> ResultCode | None:
    try:
        metadata = {item.key: item.value for item in failure.trailing_metadata() or ()}
        code = ResultCode(int(metadata[_CODE_KEY]))
    except (KeyError, ValueError):
        return None
    return None if code is ResultCode.NO_ERROR else code
