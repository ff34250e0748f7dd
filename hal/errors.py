"""The errors of the whole project, with Android's result codes.

Every failure that a user can cause or meet is an `Error`. Each subclass stands for one
`ResultCode`, so that a code keeps its meaning all the way from a driver daemon to the application.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, TypeVar

from neurald.hal.wording import printable

_ErrorT = TypeVar("_ErrorT", bound=BaseException)

#: What the code of drivers may raise. SystemExit, with which scripts end, would end only the thread
#: that serves a call, without an answer; KeyboardInterrupt is for the program.
DRIVER_FAULTS: Final = (Exception, SystemExit)
#: The same in a thread of neurald's own. KeyboardInterrupt and the cancellations of asyncio and
#: gevent are for nobody there, and would end it without an answer as well.
THREAD_FAULTS: Final = BaseException

#: Maximum number of errors that led to one another.
_MAX_CHAIN: Final = 64


class ResultCode(IntEnum):
    """Android NN's result codes (`NeuralNetworksTypes.h`)."""

    NO_ERROR = 0
    OUT_OF_MEMORY = 1
    INCOMPLETE = 2
    UNEXPECTED_NULL = 3
    BAD_DATA = 4
    OP_FAILED = 5
    BAD_STATE = 6
    UNMAPPABLE = 7
    OUTPUT_INSUFFICIENT_SIZE = 8
    UNAVAILABLE_DEVICE = 9
    MISSED_DEADLINE_TRANSIENT = 10
    MISSED_DEADLINE_PERSISTENT = 11
    RESOURCE_EXHAUSTED_TRANSIENT = 12
    RESOURCE_EXHAUSTED_PERSISTENT = 13
    DEAD_OBJECT = 14


#: The members of larger enumerations are not listed.
_MAX_NAMED_MEMBERS = 8


def members(enumeration: type[IntEnum]) -> str:
    """Lists the members of an enumeration for an error message.

    For example `Priority.LOW or Priority.HIGH`; a large enumeration is only named.
    """
    names = [f"{enumeration.__name__}.{member.name}" for member in enumeration]
    if len(names) > _MAX_NAMED_MEMBERS:
        return f"a member of {enumeration.__name__}"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


class Error(Exception):
    """The base of all neurald errors. `code` is the result code; the message names the cause."""

    code: ResultCode = ResultCode.OP_FAILED


class OutOfMemory(Error):
    """Reports that there is not enough memory."""

    code = ResultCode.OUT_OF_MEMORY


class Incomplete(Error):
    """A call came before others that it needs."""

    code = ResultCode.INCOMPLETE


class UnexpectedNull(Error):
    """A value is None that must not be."""

    code = ResultCode.UNEXPECTED_NULL


class BadData(Error):
    """An argument, a model or a file is not valid."""

    code = ResultCode.BAD_DATA


class WrongType(BadData, TypeError):
    """An argument is an object of a kind that a call does not take. It is a `TypeError`, too."""


class MissingFile(BadData, FileNotFoundError):
    """Reports that there is no such file. It is a `FileNotFoundError`, too."""


class OpFailed(Error):
    """A device failed to compile or execute a model."""

    code = ResultCode.OP_FAILED


class Cancelled(OpFailed):
    """The application cancelled the execution."""


class UnknownCall(OpFailed):
    """A driver daemon does not implement a call, because it is of another version."""


class BadState(Error):
    """A call is not possible in the present state of an object."""

    code = ResultCode.BAD_STATE


class Unmappable(Error):
    """A memory cannot be mapped."""

    code = ResultCode.UNMAPPABLE


class OutputInsufficientSize(Error):
    """An output buffer is too small.

    Attributes:
        dimensions: the actual shape of every output of the execution, None where its rank is
            unknown.
    """

    code = ResultCode.OUTPUT_INSUFFICIENT_SIZE

    def __init__(self, message: str, dimensions: Sequence[tuple[int, ...] | None] = ()) -> None:
        super().__init__(message)
        self.dimensions = tuple(dimensions)


class UnavailableDevice(Error):
    """A device cannot be reached, or does not take a model."""

    code = ResultCode.UNAVAILABLE_DEVICE


class MissedDeadlineTransient(Error):
    """A time limit passed; another try may succeed."""

    code = ResultCode.MISSED_DEADLINE_TRANSIENT


class MissedDeadlinePersistent(Error):
    """A time limit passed, and would pass again."""

    code = ResultCode.MISSED_DEADLINE_PERSISTENT


class ResourceExhaustedTransient(Error):
    """A limit was reached for now; another try may succeed."""

    code = ResultCode.RESOURCE_EXHAUSTED_TRANSIENT


class ResourceExhaustedPersistent(Error):
    """A limit was reached, and would be again."""

    code = ResultCode.RESOURCE_EXHAUSTED_PERSISTENT


class DeadObject(Error):
    """The driver process or the session of an object has ended."""

    code = ResultCode.DEAD_OBJECT


class Unreachable(DeadObject):
    """A driver does not answer, was stopped, or is not running.

    Unlike other deaths, it cannot have been caused by a call.
    """


class Withdrawn(Unreachable):
    """A driver or session that was ended in order did not begin the call.

    Another session, with the same driver or its successor, can run it.
    """


class DriverUnable(UnavailableDevice):
    """A driver was started, and its process ended before it could serve the device."""


class LostValue(DeadObject):
    """A value was only in the memory of a device whose driver or session has ended.

    It says nothing about the device that needs the value.
    """


class AnotherDevice(Unreachable):
    """The address of a device is now served by another one."""


def without_frames(error: _ErrorT) -> _ErrorT:
    """Removes the tracebacks of an error that is kept, and of those that led to it.

    Their frames keep the memory of the call that failed. Returns the error.
    """
    each: BaseException | None = error
    for _ in range(_MAX_CHAIN):
        if each is None:
            break
        each.__traceback__ = None
        each = each.__cause__ or each.__context__
    return error


def copied(error: _ErrorT) -> _ErrorT:
    """Returns an error of the same kind, text and cause, without a traceback.

    An error that is kept, and raised, keeps the frames that it passes, with their memory.
    """
    # Only failures need it, not each start from the cache.
    import copy

    try:
        result = copy.copy(error)
    except Exception:  # its constructor takes other arguments
        try:
            result = type(error).__new__(type(error), *error.args)
        except Exception:
            return error.with_traceback(None)
        result.__dict__.update(error.__dict__)
    result.__cause__, result.__context__ = error.__cause__, error.__context__
    result.__suppress_context__ = error.__suppress_context__
    return result.with_traceback(None)


_KINDS: list[type[Error]] = Error.__subclasses__()
_BY_CODE = {kind.code: kind for kind in _KINDS}


#: The end of the message with which a driver that is about to stop refuses work.
TAKES_NO_MORE_WORK = "takes no more work"
SESSION_OVER = "the session is over"
_NOT_BEGUN = (TAKES_NO_MORE_WORK, SESSION_OVER)


def error_for(code: ResultCode, message: str) -> Error:
    """Returns the error of another process.

    Args:
        code: not NO_ERROR.
        message: may have several lines; what controls terminals is left out.
    """
    message = printable(message, keeps_lines=True)
    if not message.strip():
        message = f"the other process reported {code.name} without a reason"
    if code is ResultCode.DEAD_OBJECT and message.endswith(_NOT_BEGUN):
        return Withdrawn(message)
    return _BY_CODE[code](message)
