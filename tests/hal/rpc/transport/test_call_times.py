"""The times of a call that a daemon sends."""

import ctypes
import struct

import msgspec
import pytest

from neurald.hal.rpc.transport.call_times import (
    TIMES_KEY,
    CallPhase,
    CallTimes,
    LatestTimes,
    encode_request_times,
    encode_times,
    request_times,
    times_from,
    times_header,
    trace_header,
)

TIMES = CallTimes(7, 100, 200, (CallPhase("driver", 110, 190),))


def test_times_return_as_they_were_sent() -> None:
    sent = encode_times((7, 100, 200, [("driver", 110, 190)]))
    assert times_from((("other", "text"), times_header(sent))) == TIMES
    assert sent == msgspec.msgpack.encode(TIMES)
    assert times_from(None) is None
    assert times_from((("other", "text"),)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode([1, 2]),
        msgspec.msgpack.encode(CallTimes(0, 100, 200)),
        msgspec.msgpack.encode(CallTimes(1 << 32, 100, 200)),
        msgspec.msgpack.encode(CallTimes(7, 200, 100)),
        msgspec.msgpack.encode(CallTimes(7, -1, 100)),
        msgspec.msgpack.encode(CallTimes(7, 100, 200, (CallPhase("driver", 99, 150),))),
        msgspec.msgpack.encode(CallTimes(7, 100, 200, (CallPhase("driver", 150, 149),))),
        msgspec.msgpack.encode(CallTimes(7, 100, 200, (CallPhase("driver", 150, 201),))),
        msgspec.msgpack.encode(CallTimes(7, 100, 200, (CallPhase("\x1b[31m", 110, 120),))),
        msgspec.msgpack.encode(CallTimes(7, 100, 200, (CallPhase("x" * 81, 110, 120),))),
        msgspec.msgpack.encode(CallTimes(7, 100, 200, (CallPhase("a", 110, 120),) * 33)),
        msgspec.msgpack.encode(CallTimes(7, 100, 200)) + bytes(5000),
    ],
)
def test_what_cannot_be_is_ignored(wrong: bytes) -> None:
    assert times_from(((TIMES_KEY, wrong),)) is None


def test_the_clock_of_this_host_is_kept() -> None:
    assert TIMES.shifted(90, 200) is TIMES
    assert TIMES.shifted(100, 210) is TIMES


def test_the_clock_of_another_host_is_shifted_to_the_middle_of_the_call() -> None:
    shifted = TIMES.shifted(1_000, 1_140)
    assert shifted == CallTimes(7, 1_020, 1_120, (CallPhase("driver", 1_030, 1_110),))
    assert TIMES.shifted(1_000, 1_099) is None


def test_the_header_is_that_of_a_trace_context() -> None:
    identity = "0af7651916cd43dd8448eb211c80319c"
    assert trace_header(identity, 5) == ("traceparent", f"00-{identity}-{5:016x}-01")
    # A parent of zeros is not valid.
    assert trace_header(identity, 0)[1].split("-")[2] == f"{1:016x}"


def test_the_times_of_a_request_are_numbers() -> None:
    sent = encode_request_times(7, 100, 120, 130, 190, 200)
    assert sent == struct.pack("<6Q", 7, 100, 120, 130, 190, 200)
    assert request_times(sent) == CallTimes(
        7,
        100,
        200,
        (
            CallPhase("receive", 100, 120),
            CallPhase("wait for the device", 120, 130),
            CallPhase("driver", 130, 190),
            CallPhase("reply", 190, 200),
        ),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        bytes(48),
        encode_request_times(7, 100, 120, 130, 190, 200) + b"x",
        encode_request_times(1 << 32, 100, 120, 130, 190, 200),
        encode_request_times(7, 100, 99, 130, 190, 200),
        encode_request_times(7, 100, 120, 119, 190, 200),
        encode_request_times(7, 100, 120, 130, 129, 200),
        encode_request_times(7, 100, 120, 130, 190, 189),
        encode_request_times(7, 100, 120, 130, 190, 1 << 63),
    ],
)
def test_times_of_a_request_that_cannot_be_are_ignored(wrong: bytes) -> None:
    assert request_times(wrong) is None


@pytest.mark.parametrize("wrong", [b"", b"x", bytes(47), b"x" * 49, b"x" * 5000])
def test_what_is_no_times_is_noted_as_none(wrong: bytes) -> None:
    latest = LatestTimes("10.0.0.1:1")
    sent = encode_request_times(7, 100, 120, 130, 190, 200)
    latest.note(sent)
    assert ctypes.string_at(latest.address, len(sent)) == sent
    latest.note(wrong)
    assert ctypes.string_at(latest.address, len(sent)) == bytes(len(sent))
