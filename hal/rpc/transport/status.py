"""What both ends of the gRPC contract agree on beyond the messages: limits, errors as statuses, and sessions.

An error of the tree travels as a gRPC status with its result code in the trailing metadata, so that the
same error is raised at the other end. Whatever else goes wrong in a daemon is told without its text: that
may hold what the client must not see.
"""

import resource
from typing import Any, Never, TypeVar

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

#: Of one message to a daemon: the graphs of a model of 80,000 operations fit; the values of its constants are memories.
MAX_MESSAGE_BYTES = 8 << 20
#: Of one message to a client, which may be a sentence for each operation.
MAX_REPLY_BYTES = 16 << 20
#: Memory that cannot be mapped travels in pieces of this size.
CHUNK_BYTES = 1 << 20

SESSION_KEY = "neurald-session"
_CODE_KEY = "neurald-code"
#: Statuses travel in headers, which have a limit of their own, with up to three bytes for one.
_MAX_DETAILS_BYTES = 2000

#: How often a client pings its daemon, and how long the answer may take. A daemon that stops is noticed within their sum.
#: Pings are sent and answered by gRPC's own threads, which nothing that a driver does can block.
_PING_MS = 600
_PING_ANSWER_MS = 1_200
#: How long a daemon may take to answer a new connection, which its gRPC threads do as well.
_CONNECT_MS = 1_500

_COMMON_OPTIONS = (
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
CLIENT_OPTIONS = (
    *_COMMON_OPTIONS,
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_REPLY_BYTES),
    # A daemon whose host is gone, or that is stopped, closes nothing; pings find out.
    ("grpc.keepalive_time_ms", _PING_MS),
    ("grpc.keepalive_timeout_ms", _PING_ANSWER_MS),
    ("grpc.http2.ping_timeout_ms", _PING_ANSWER_MS),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),
    # A connection belongs to one session, and a new one must not inherit the back-off of a dead one.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)
_SERVER_OPTIONS = (
    *_COMMON_OPTIONS,
    ("grpc.max_send_message_length", MAX_REPLY_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A client that is stopped may go on; one whose host is gone will not, which may take a while to find out.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Else a second daemon would share the port and take half of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", 128),
    # Who pings more often is cut off.
    ("grpc.http2.min_ping_interval_without_data_ms", _PING_MS // 2),
    # A connection that says nothing, or has no call under way; one with a session always has one, which watches that.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.http2.settings_timeout", 10_000),
    ("grpc.max_connection_idle_ms", 30_000),
)
_MAX_CONNECTIONS = 1024


def server_options() -> tuple[tuple[str, int], ...]:
    """What a gRPC server is made with here. It leaves half of the process's file descriptors to others than connections."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MAX_CONNECTIONS
    if descriptors != resource.RLIM_INFINITY:
        most = min(most, descriptors // 2)
    return (*_SERVER_OPTIONS, ("grpc.max_allowed_incoming_connections", most))


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

#: What statuses mean that gRPC itself made.
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
    """The message of that kind that `data` holds.

    Raises:
        BadData: it holds none, or one with fields that are not known here.
    """
    name = kind.DESCRIPTOR.name
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise BadData(f"{name}: these {len(data)} bytes are no such message") from None
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        raise BadData(f"{name} has fields that are not known here")
    return message


def token_of(context: grpc.ServicerContext) -> str | None:
    """The token of a session that a call carries, in hexadecimal if it is one; None if it carries none."""
    for key, value in context.invocation_metadata():
        if key == SESSION_KEY:
            return str(value)
    return None


def set_status(context: grpc.ServicerContext, error: Error) -> None:
    """Has a call end with `error` once its handler ends it."""
    context.set_trailing_metadata(((_CODE_KEY, str(int(error.code))),))
    context.set_code(_STATUSES.get(error.code, grpc.StatusCode.INTERNAL))
    context.set_details(_details(error))


def abort(context: grpc.ServicerContext, error: Error, status: grpc.StatusCode | None = None) -> Never:
    """Ends a call with `error`; with a status other than its usual one if that is given."""
    context.set_trailing_metadata(((_CODE_KEY, str(int(error.code))),))
    context.abort(status or _STATUSES.get(error.code, grpc.StatusCode.INTERNAL), _details(error))


def _details(error: Error) -> str:
    """The error's message, cut to what a status may hold."""
    return str(error).encode("utf-8", "replace")[:_MAX_DETAILS_BYTES].decode("utf-8", "ignore")


def error_of_status(failure: Any) -> Error | None:
    """The error that the daemon itself ended a call with; None where gRPC ended it."""
    code = _result_code(failure)
    return None if code is None else error_for(code, failure.details() or code.name)


def is_lost(failure: grpc.RpcError) -> bool:
    """Whether a failed call says that its connection is lost."""
    return _result_code(failure) is None and _ERRORS.get(failure.code()) is DeadObject


def error_from(failure: grpc.RpcError, what: str) -> Error:
    """The error that a failed call stands for; `what` names the daemon where gRPC's own words do not."""
    told = error_of_status(failure)
    if told is not None:
        return told
    kind = _ERRORS.get(failure.code(), OpFailed)
    return kind(f"{what}: {failure.details() or failure.code().name}")


def _result_code(failure: Any) -> ResultCode | None:
    try:
        metadata = {item.key: item.value for item in failure.trailing_metadata() or ()}
        code = ResultCode(int(metadata[_CODE_KEY]))
    except (KeyError, ValueError):
        return None
    return None if code is ResultCode.NO_ERROR else code
