"""The errors that clients of the execution service get."""

import enum

from neurald.hal.errors import ResultCode


class Status(enum.Enum):
    """The kind of an error, whatever the transport calls it."""

    INVALID = enum.auto()
    NOT_FOUND = enum.auto()
    EXISTS = enum.auto()
    UNAVAILABLE = enum.auto()
    EXHAUSTED = enum.auto()
    TOO_LARGE = enum.auto()
    LATE = enum.auto()
    CANCELLED = enum.auto()
    UNIMPLEMENTED = enum.auto()
    UNAUTHENTICATED = enum.auto()
    FORBIDDEN = enum.auto()
    INTERNAL = enum.auto()


class ServiceError(Exception):
    """A call failed; the message says why, and reveals nothing of the server's files.

    Args:
        status: the kind of error.
        message: the message for the client.
    """

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


_STATUSES = {
    ResultCode.OUT_OF_MEMORY: Status.EXHAUSTED,
    ResultCode.UNEXPECTED_NULL: Status.INVALID,
    ResultCode.BAD_DATA: Status.INVALID,
    ResultCode.OUTPUT_INSUFFICIENT_SIZE: Status.INVALID,
    ResultCode.UNAVAILABLE_DEVICE: Status.UNAVAILABLE,
    ResultCode.MISSED_DEADLINE_TRANSIENT: Status.LATE,
    ResultCode.MISSED_DEADLINE_PERSISTENT: Status.LATE,
    ResultCode.RESOURCE_EXHAUSTED_TRANSIENT: Status.EXHAUSTED,
    ResultCode.RESOURCE_EXHAUSTED_PERSISTENT: Status.EXHAUSTED,
    ResultCode.DEAD_OBJECT: Status.UNAVAILABLE,
}


def status_of(code: int) -> Status:
    """Returns the status for a result code of a worker, which may be any number."""
    try:
        return _STATUSES.get(ResultCode(code), Status.INTERNAL)
    except ValueError:
        return Status.INTERNAL
