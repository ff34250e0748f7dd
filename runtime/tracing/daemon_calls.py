"""Records calls of daemons and services, and the work that these do for them.

A daemon on this host leaves the times of what it did for a submission of a ring in shared memory,
if its client wants them, and so does the process of a served model. One on another host sends them
after its reply, see `neurald.hal.rpc.transport.call_times`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

from neurald.hal.execution.recorded_calls import MAX_CLOCK_ERROR_NS, Subjects
from neurald.hal.rpc.transport.call_times import (
    CallTimes,
    LatestTimes,
    request_times,
    times_from,
    trace_header,
)
from neurald.hal.rpc.transport.ring_end import RingEnd, read_stamps
from neurald.runtime.tracing.recorded import NO_DETAILS, Replace
from neurald.runtime.tracing.span import SERVED_MODEL, ExpandCall, Recorder, Span

if TYPE_CHECKING:
    from neurald.hal.rpc.client.calls.kept_stream import KeptStream


class RingCalls:
    """Makes the spans of what a ring is asked and does.

    From its creation on the daemon leaves stamps.

    Args:
        recorder: knows the process.
        end: the end of the ring, which is kept, and with it the memory of the stamps.
    """

    def __init__(self, recorder: Recorder, end: RingEnd) -> None:
        self._recorder = recorder
        self._end = end
        #: The number that the stamps of this trace have.
        self._number = recorder.next_exchange()
        #: When the latest submission was put into the ring, and its details.
        self._submitted = self._waiting = 0
        self._details: Mapping[str, Any] = NO_DETAILS
        end.want_stamps(self._number)

    def want_no_stamps(self) -> None:
        """Asks the daemon for no more stamps."""
        self._end.want_stamps(0)

    def submitted(self, start: int, end: int, thread: int, call: int, note: bytes) -> Iterator[Span]:
        """Makes the span of a submission; see `ExpandCall`. Its wait is made next."""
        del note
        self._submitted, self._waiting = start, end
        self._details = {"exchange": self._recorder.next_exchange()}
        name, process = "submit to the ring", self._recorder.process
        yield Span(name, "device", start, end, process, thread, call, self._details)

    def completed(self, start: int, end: int, thread: int, call: int, note: bytes) -> Iterator[Span]:
        """Makes the spans of a wait for the daemon, and of what the daemon did meanwhile."""
        own = partial(Span, process=self._recorder.process, thread=thread, call=call)
        is_known = 0 < self._waiting <= end
        if is_known:
            yield own("in the hands of the daemon", "device", self._waiting, end)
        yield own("wait for the daemon", "device", start, end)
        if is_known:
            stamps = note or self._end.stamps()
            yield from _stamped_spans(stamps, self._number, self._submitted, end, thread, call, self._details)

    def exchanged(self, start: int, end: int, thread: int, call: int, note: bytes) -> Iterator[Span]:
        """Makes the spans of a submission and the wait for its end, and of what the daemon did."""
        own = partial(Span, process=self._recorder.process, thread=thread, call=call)
        details = {"exchange": self._recorder.next_exchange()}
        self._waiting = 0
        # Without a note it has failed, and what is left may be of a run before.
        stamps = note or self._end.stamps()
        done = tuple(_stamped_spans(stamps, self._number, start, end, thread, call, details))
        if done:
            seen = done[0].start_ns
            yield own("submit to the ring", "device", start, seen, details=details)
            yield own("wait for the daemon", "device", seen, end)
        else:
            yield own("submit and wait for the daemon", "device", start, end, details=details)
        yield from done

    def ran(self, start: int, end: int, thread: int, call: int, note: bytes) -> Iterator[Span]:
        """Makes the spans of a run in the process of a served model; see `ExpandCall`."""
        details = {"exchange": self._recorder.next_exchange()}
        process = self._recorder.process
        yield Span("run in the service", "device", start, end, process, thread, call, details)
        # Without a note it has failed, and what is left may be of a run before.
        stamps, theirs = note or self._end.stamps(), {**details, "role": SERVED_MODEL}
        yield from _stamped_spans(stamps, self._number, start, end, thread, call, theirs)


def _ring_calls(
    expand: Callable[[RingCalls], ExpandCall], *, has_stamps: bool = True, owner: str | None = None, key: str
) -> Replace:
    """Returns a replacement for a method of an object with a ring.

    Args:
        expand: makes the spans of its calls.
        has_stamps: whether the other side has left stamps when it returns.
        owner: name of the object's attribute with the owner of the ring's end; None if it is the
            object.
        key: name of the owner's attribute with the ring's end.
    """

    def replace(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
        place = f"{method.__qualname__} of a ring"

        def find(_: Any, end: RingEnd) -> int:
            def make() -> ExpandCall:
                if id(end) not in recorder.rings:
                    recorder.rings[id(end)] = RingCalls(recorder, end)
                return expand(recorder.rings[id(end)])

            return recorder.subject_of(place, end, make)

        note = "stamps_address" if has_stamps else None
        subjects = Subjects(owner=owner, key=key, find=find, note=note)
        return recorder.calls.recorded(method, subjects, is_call=False)

    return replace


#: Records that a `RingPeer` puts a request into its ring and waits for the daemon.
EXCHANGED: Final = _ring_calls(lambda ring: ring.exchanged, key="_ring")
#: Records that a request is put into the ring of a `RingPeer`.
SUBMITTED: Final = _ring_calls(lambda ring: ring.submitted, has_stamps=False, key="_ring")
#: Records the wait of a `RingPeer` for the daemon, and what the daemon did meanwhile.
COMPLETED: Final = _ring_calls(lambda ring: ring.completed, key="_ring")
#: Records a run of a `ClientLane` in the process of a served model, and what that process did.
RAN_IN_SERVICE: Final = _ring_calls(lambda ring: ring.ran, owner="_runs", key="ring")


def _stamped_spans(
    stamps: bytes, number: int, submitted: int, end: int, thread: int, call: int, details: Mapping[str, Any]
) -> Iterator[Span]:
    """Makes the spans of what the other side of a ring did; none if it has left no valid stamps.

    Args:
        stamps: what it has left.
        number: the number that its stamps must have.
        submitted, end: when it was asked, and its answer was there.
        thread, call: the thread and call that asked it.
        details: the details of the span of all it did.
    """
    noted = read_stamps(stamps)
    first, *_, last = noted.times_ns
    # The other side may write anything.
    if noted.number != number or list(noted.times_ns) != sorted(noted.times_ns):
        return
    # It reads the clock itself; a counter may have told when it was asked.
    if first < submitted - MAX_CLOCK_ERROR_NS or last > end + MAX_CLOCK_ERROR_NS:
        return
    arrived, admitted, ended, replied = (min(max(each, submitted), end) for each in noted.times_ns)
    daemon = partial(Span, category="daemon", process=noted.process, thread=thread, call=call)
    yield daemon("serve", start_ns=arrived, end_ns=replied, details=details)
    yield daemon("wait for the device", start_ns=arrived, end_ns=admitted)
    yield daemon("driver", start_ns=admitted, end_ns=ended)
    yield daemon("reply", start_ns=ended, end_ns=replied)


class _Stub:
    """Makes a call like a stub of gRPC, and keeps what the daemon sent after the reply."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self._call: Any = None

    def __call__(self, message: Any, **named: Any) -> Any:
        if hasattr(self._stub, "with_call"):
            reply, self._call = self._stub.with_call(message, **named)
            return reply
        self._call = self._stub(message, **named)
        return self._call

    def future(self, message: Any, **named: Any) -> Any:
        self._call = self._stub.future(message, **named)
        return self._call

    def times(self) -> CallTimes | None:
        """Returns the times of a call that has succeeded."""
        return times_from(self._call.trailing_metadata())


def _add_exchange(
    recorder: Recorder, calls: Any, method: str, stub: _Stub, start: int, exchange: int, end: int
) -> None:
    """Adds what a daemon did for a call that has succeeded."""
    times = stub.times()
    times = None if times is None else times.shifted(start, end)
    if times is not None:
        host, thread = "" if calls.is_local else calls.host, recorder.thread
        for span in _served_spans(recorder, method, exchange, times, host, thread.number, thread.call):
            recorder.add_span(span)


def kept(recorder: Recorder, is_answered: Callable[..., bool]) -> Callable[..., bool]:
    """Records the requests of calls that stay open, and what daemons did for them."""

    def find(_: "KeptStream", times: LatestTimes) -> int:
        # What is there may be of a trace before.
        times.note(b"")
        place = f"{is_answered.__qualname__} of a call"
        return recorder.subject_of(place, times, lambda: partial(_kept_spans, recorder, times))

    subjects = Subjects(key="times", find=find, note="address")
    return recorder.calls.recorded(is_answered, subjects, is_call=False, expected=True)


def timed(recorder: Recorder, wants_times: Any) -> Any:
    """Makes the requests of calls that stay open ask for their times."""
    del recorder, wants_times
    return True


def _kept_spans(
    recorder: Recorder, latest: LatestTimes, start: int, end: int, thread: int, call: int, note: bytes
) -> Iterator[Span]:
    """Makes the spans of a request of a call that stays open.

    Args:
        recorder: knows the process.
        latest: the times of such requests, which are kept, and with them their memory.
        start, end: the start and end of the request.
        thread, call: the thread and call that made it.
        note: its times as the daemon sent them.
    """
    exchange = recorder.next_exchange()
    details: dict[str, Any] = {"exchange": exchange}
    yield Span("call ExecuteEach", "device", start, end, recorder.process, thread, call, details)
    times = request_times(note)
    times = None if times is None else times.shifted(start, end)
    if times is not None:
        yield from _served_spans(recorder, "ExecuteEach", exchange, times, latest.host, thread, call)


def invoked(recorder: Recorder, invoke: Callable[..., Any]) -> Callable[..., Any]:
    """Asks the daemon for the times of each call."""

    @wraps(invoke)
    def call(calls: Any, method: str, stub: Any, *arguments: Any) -> Any:
        traced, exchange = _Stub(stub), recorder.next_exchange()
        message, timeout_s, metadata, *others = arguments
        asking = (*metadata, trace_header(recorder.trace_id, recorder.thread.call))
        start = time.monotonic_ns()
        try:
            reply = invoke(calls, method, traced, message, timeout_s, asking, *others)
        finally:
            end = time.monotonic_ns()
            recorder.add(f"call {method}", "device", start, {"exchange": exchange}, end)
        _add_exchange(recorder, calls, method, traced, start, exchange, end)
        return reply

    return call


def streamed(recorder: Recorder, replies: Callable[..., Any]) -> Callable[..., Any]:
    """Asks the daemon for the times of each call with many replies."""

    @wraps(replies)
    def call(calls: Any, method: str, stub: Any, *arguments: Any) -> Iterator[bytes]:
        traced, exchange = _Stub(stub), recorder.next_exchange()
        messages, timeout_s, metadata, *others = arguments
        asking = (*metadata, trace_header(recorder.trace_id, recorder.thread.call))
        start = time.monotonic_ns()
        try:
            yield from replies(calls, method, traced, messages, timeout_s, asking, *others)
        finally:
            end = time.monotonic_ns()
            recorder.add(f"call {method}", "device", start, {"exchange": exchange}, end)
        _add_exchange(recorder, calls, method, traced, start, exchange, end)

    return call


def _served_spans(
    recorder: Recorder, method: str, exchange: int, times: CallTimes, host: str, thread: int, call: int
) -> Iterator[Span]:
    """Makes the spans of what a daemon did for a call of gRPC.

    Args:
        recorder: the recorder of the trace.
        method: name of the call.
        exchange: its number.
        times: the times on the clock of this process.
        host: where the daemon is; empty for this host.
        thread, call: the thread and call that made the call.
    """
    process = recorder.process_on(host, times.process) if host else times.process
    daemon = partial(Span, category="daemon", process=process, thread=thread, call=call)
    details: dict[str, Any] = {"exchange": exchange, **({"host": host} if host else {})}
    yield daemon(f"serve {method}", start_ns=times.arrived_ns, end_ns=times.replied_ns, details=details)
    for each in times.phases:
        yield daemon(each.name, start_ns=each.start_ns, end_ns=each.end_ns)
