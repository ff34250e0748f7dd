"""What both ends of the gRPC contract agree on beyond the messages: limits, errors as statuses, and sessions.

An error of the tree travels as a gRPC status with its result code in the trailing metadata, so that the
same error is raised at the other end. Whatever else goes wrong in a daemon is told without its text: that
may hold what the client must not see.
"""

from typing import Never, TypeVar

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

#: Of one message, in both directions.
MAXIMUM_MESSAGE_BYTES = 64 << 20
#: Memory that cannot be mapped travels in pieces of this size.
CHUNK_BYTES = 1 << 20

SESSION_KEY = "neurald-session"
_CODE_KEY = "neurald-code"
#: Statuses travel in headers, which have a limit of their own, with up to three bytes for one.
_MAXIMUM_DETAILS_BYTES = 2000

_MESSAGE_OPTIONS = (
    ("grpc.max_send_message_length", MAXIMUM_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAXIMUM_MESSAGE_BYTES),
    # A peer whose host is gone, or that is stopped, closes nothing; pings find out.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
CLIENT_OPTIONS = (
    *_MESSAGE_OPTIONS,
    # A connection belongs to one session, and a new one must not inherit the back-off of a dead one.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)
SERVER_OPTIONS = (
    *_MESSAGE_OPTIONS,
    # Else a second daemon would share the port and take half of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", 128),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
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


def abort(context: grpc.ServicerContext, error: Error) -> Never:
    """Ends a call with `error`."""
    context.set_trailing_metadata(((_CODE_KEY, str(int(error.code))),))
    details = str(error).encode("utf-8", "replace")[:_MAXIMUM_DETAILS_BYTES].decode("utf-8", "ignore")
    context.abort(_STATUSES.get(error.code, grpc.StatusCode.INTERNAL), details)


def error_from(failure: grpc.RpcError, what: str) -> Error:
    """The error that a failed call stands for; `what` names the daemon where gRPC's own words do not."""
    code = _result_code(failure)
    if code is not None:
        return error_for(code, failure.details() or code.name)
    kind = _ERRORS.get(failure.code(), OpFailed)
    if kind is DeadObject:
        return DeadObject(f"{what} is gone")
    return kind(f"{what}: {failure.details() or failure.code().name}")


def _result_code(failure: grpc.RpcError) -> ResultCode | None:
    try:
        metadata = {item.key: item.value for item in failure.trailing_metadata() or ()}
        code = ResultCode(int(metadata[_CODE_KEY]))
    except (KeyError, ValueError):
        return None
    return None if code is ResultCode.NO_ERROR else code
