"""Times of the phases of a gRPC call in a daemon, for clients that take a trace.

A client that takes a trace sends the header of W3C's trace context with its calls. A daemon answers
with these times in the trailing metadata; daemons of earlier versions ignore the header. In a call
that stays open each request asks for its times, which are numbers in the reply.
"""

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from neurald.hal.decoding import from_msgpack
from neurald.hal.records import DECODE_ERRORS

#: The header of W3C's trace context.
TRACE_KEY: Final = "traceparent"
#: The trailing metadata with the times have this key.
TIMES_KEY: Final = "neurald-times-bin"
#: The name, start and end of a `CallPhase`.
PhaseTuple: TypeAlias = tuple[str, int, int]
#: The process, arrival, reply and phases of a `CallTimes`.
TimesTuple: TypeAlias = tuple[int, int, int, Sequence[PhaseTuple]]
#: The times of a request: the process, and when the request arrived, was received, was admitted,
#: had run and was replied to.
_REQUEST_TIMES: Final = struct.Struct("<6Q")
#: Returns these as they are sent, which takes a daemon less time than phases with names.
encode_request_times: Final[Callable[..., bytes]] = _REQUEST_TIMES.pack
_NO_TIMES: Final = bytes(_REQUEST_TIMES.size)
_MAX_BYTES: Final = 4096
_MAX_PHASES: Final = 32
_MAX_NAME: Final = 80


class CallPhase(Struct, frozen=True, array_like=True):
    """A part of a call, on the daemon's clock of `time.monotonic_ns()`."""

    name: str
    start_ns: int
    end_ns: int


class CallTimes(Struct, frozen=True, array_like=True):
    """The times of one call.

    Attributes:
        process: the process of the daemon.
        arrived_ns, replied_ns: when the call arrived and when the reply left, on the daemon's clock
            of `time.monotonic_ns()`.
        phases: what happened in between, in the order in which it ended.
    """

    process: int
    arrived_ns: int
    replied_ns: int
    phases: tuple[CallPhase, ...] = ()

    def shifted(self, start_ns: int, end_ns: int) -> "CallTimes | None":
        """Returns the times on the clock of a client; None if they do not fit into its call.

        The clock of another host begins at another time: the call is then assumed to have taken as
        long to the daemon as back.

        Args:
            start_ns, end_ns: when the client began to call, and had the reply.
        """
        spare = (end_ns - start_ns) - (self.replied_ns - self.arrived_ns)
        if spare < 0:
            return None
        if start_ns <= self.arrived_ns and self.replied_ns <= end_ns:
            return self
        shift = start_ns + spare // 2 - self.arrived_ns
        return CallTimes(
            self.process,
            self.arrived_ns + shift,
            self.replied_ns + shift,
            tuple(CallPhase(each.name, each.start_ns + shift, each.end_ns + shift) for each in self.phases),
        )


#: Returns times as they are sent. A plain tuple takes a daemon less time than a `CallTimes`, which
#: has the same form. The encoder is one for all: making it takes longer than what it encodes.
encode_times: Final[Callable[[TimesTuple], bytes]] = msgspec.msgpack.Encoder().encode


def times_header(encoded: bytes) -> tuple[str, bytes]:
    """Returns the entry of the trailing metadata for encoded times."""
    return TIMES_KEY, encoded


def times_from(metadata: Iterable[tuple[str, str | bytes]] | None) -> CallTimes | None:
    """Returns the times that a daemon sent; None if it sent none, or such that cannot be."""
    for key, value in metadata or ():
        if key == TIMES_KEY and isinstance(value, bytes):
            return decode_times(value)
    return None


def decode_times(content: bytes) -> CallTimes | None:
    """Returns times that were sent; None if they are none, or such that cannot be."""
    if len(content) > _MAX_BYTES:
        return None
    try:
        times = from_msgpack(content, CallTimes)
    except DECODE_ERRORS:
        return None
    return times if _is_possible(times) else None


def request_times(content: bytes) -> CallTimes | None:
    """Returns the times of a request that were sent; None if they are none, or cannot be."""
    if len(content) != _REQUEST_TIMES.size:
        return None
    process, arrived, received, admitted, ended, replied = _REQUEST_TIMES.unpack(content)
    phases = (
        CallPhase("receive", arrived, received),
        CallPhase("wait for the device", received, admitted),
        CallPhase("driver", admitted, ended),
        CallPhase("reply", ended, replied),
    )
    times = CallTimes(process, arrived, replied, phases)
    return times if _is_possible(times) else None


class LatestTimes:
    """The times of the latest request of a call that stays open, where native code reads them.

    Attributes:
        host: where the daemon is.
        address: the address of the times, as they were sent; zeros if none were.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self._memory = ctypes.create_string_buffer(_REQUEST_TIMES.size)
        self.address = ctypes.addressof(self._memory)

    def note(self, sent: bytes) -> None:
        """Notes what a daemon sent."""
        self._memory.raw = sent if len(sent) == _REQUEST_TIMES.size else _NO_TIMES


def _is_possible(times: CallTimes) -> bool:
    return (
        0 < times.process < 1 << 32
        and 0 <= times.arrived_ns <= times.replied_ns < 1 << 63
        and len(times.phases) <= _MAX_PHASES
        and all(
            times.arrived_ns <= each.start_ns <= each.end_ns <= times.replied_ns
            and len(each.name) <= _MAX_NAME
            and each.name.isprintable()
            for each in times.phases
        )
    )


def trace_header(trace_id: str, call: int) -> tuple[str, str]:
    """Returns the entry of a call's metadata that asks for its times.

    Args:
        trace_id: 32 hexadecimal digits.
        call: number of the call of the application; it identifies the parent.
    """
    return TRACE_KEY, f"00-{trace_id}-{call or 1:016x}-01"
