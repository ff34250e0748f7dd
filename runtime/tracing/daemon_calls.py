"""Records calls of daemons and services, and the work that these do for them.

A daemon on this host leaves the times of what it did for a submission of a ring in shared memory, if
its client wants them, and so does the process of a served model. One on another host sends them after its reply, see
`neurald.hal.rpc.transport.call_times`.
"""

import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import Any

from neurald.hal.rpc.transport.call_times import CallTimes, decode_times, times_from, trace_header
from neurald.hal.rpc.transport.ring_end import read_stamps
from neurald.runtime.tracing.recorded import NO_DETAILS
from neurald.runtime.tracing.span import SERVED_MODEL, Recorder, Span, failure


class Exchange:
    """Records what a ring is asked and does.

    Args:
        peer: the end of the ring, or the lane that has one.
        number: see the attribute.

    Attributes:
        peer: refers to the end of the ring, or to the lane.
        number: that the daemon's stamps have in this trace.
        start_ns, end_ns: when the latest submission was put into the ring; 0 if there is none whose
            completion has to be recorded.
    """

    __slots__ = ("end_ns", "number", "peer", "start_ns")

    def __init__(self, peer: Any, number: int) -> None:
        self.peer = weakref.ref(peer)
        self.number = number
        self.start_ns = self.end_ns = 0


def _begun(recorder: Recorder, peer: Any) -> Exchange:
    """Asks the other side of a ring for stamps of each call from now on."""
    exchange = recorder.exchanges[id(peer)] = Exchange(peer, recorder.next_exchange())
    peer.want_stamps(exchange.number)
    return exchange


def submitted(recorder: Recorder, submit: Callable[..., Any]) -> Callable[..., Any]:
    """Asks the daemon for stamps of each call that is submitted."""
    now, exchanges = time.monotonic_ns, recorder.exchanges

    @wraps(submit)
    def call(peer: Any, *arguments: Any) -> Any:
        start = now()
        exchange = exchanges.get(id(peer))
        if exchange is None or exchange.peer() is not peer:
            exchange = _begun(recorder, peer)
        exchange.start_ns = start
        result = submit(peer, *arguments)
        exchange.end_ns = now()
        return result

    return call


def completed(recorder: Recorder, complete: Callable[..., Any]) -> Callable[..., Any]:
    """Records the wait for a daemon, and what the daemon did meanwhile."""
    threads, now, exchanges = recorder.threads, time.monotonic_ns, recorder.exchanges
    extend, values, most = recorder.extend, recorder.values, recorder.most_values
    expand = partial(_ring_spans, recorder)

    @wraps(complete)
    def call(peer: Any, *arguments: Any) -> Any:
        start = now()
        result = None
        try:
            result = complete(peer, *arguments)
            return result
        finally:
            end, thread, exchange = now(), threads.state, exchanges.get(id(peer))
            submitted = waiting = number = 0
            stamps = b""
            if exchange is not None and exchange.peer() is peer and exchange.start_ns:
                submitted, waiting = exchange.start_ns, exchange.end_ns
                if result is not None:
                    number, stamps, exchange.start_ns = exchange.number, peer.stamps(), 0
            times = start, end, thread.number, thread.call
            extend((expand, *times, submitted, waiting, number, stamps))
            if len(values) > most:
                recorder.trim()

    return call


def _ring_spans(
    recorder: Recorder,
    start: int,
    end: int,
    thread: int,
    call: int,
    submitted: int,
    waiting: int,
    number: int,
    stamps: bytes,
) -> Iterator[Span]:
    """Makes the spans of a submission to a ring.

    Args:
        recorder: knows the process.
        start, end: of the wait for its completion.
        thread, call: that waited.
        submitted, waiting: when it was put into the ring; 0 if that was before the trace.
        number: that its stamps must have.
        stamps: what the daemon has left; empty if it has not completed the submission.
    """
    own = partial(Span, process=recorder.process, thread=thread, call=call)
    details = {"exchange": recorder.next_exchange()}
    if stamps:
        yield own("submit to the ring", "device", submitted, waiting, details=details)
        yield own("in the hands of the daemon", "device", waiting, end)
    yield own("wait for the daemon", "device", start, end)
    if stamps:
        yield from _stamped_spans(stamps, number, submitted, end, thread, call, details)


def _stamped_spans(
    stamps: bytes, number: int, submitted: int, end: int, thread: int, call: int, details: Mapping[str, Any]
) -> Iterator[Span]:
    """Makes the spans of what the other side of a ring did; none if it has left no valid stamps.

    Args:
        stamps: what it has left.
        number: that its stamps must have.
        submitted, end: when it was asked, and its answer was there.
        thread, call: that asked it.
        details: of the span of all it did.
    """
    noted = read_stamps(stamps)
    times = arrived, admitted, ended, replied = noted.times_ns
    # The other side may write anything.
    if noted.number != number or list(times) != sorted(times) or arrived < submitted or replied > end:
        return
    daemon = partial(Span, category="daemon", process=noted.process, thread=thread, call=call)
    yield daemon("serve", start_ns=arrived, end_ns=replied, details=details)
    yield daemon("wait for the device", start_ns=arrived, end_ns=admitted)
    yield daemon("driver", start_ns=admitted, end_ns=ended)
    yield daemon("reply", start_ns=ended, end_ns=replied)


def ran_in_service(recorder: Recorder, run: Callable[..., Any]) -> Callable[..., Any]:
    """Records a run in the process of a served model, and what that process did."""
    threads, now, exchanges = recorder.threads, time.monotonic_ns, recorder.exchanges
    expand = partial(_service_spans, recorder)

    @wraps(run)
    def call(lane: Any, *arguments: Any) -> Any:
        exchange = exchanges.get(id(lane))
        if exchange is None or exchange.peer() is not lane:
            exchange = _begun(recorder, lane)
        start = now()
        failed: BaseException | None = None
        try:
            return run(lane, *arguments)
        except BaseException as error:
            failed = error
            raise
        finally:
            details = NO_DETAILS if failed is None else failure(failed)
            end, thread = now(), threads.state
            noted = exchange.number, lane.stamps()
            recorder.add_record(expand, start, end, thread.number, thread.call, details, *noted)

    return call


def _service_spans(
    recorder: Recorder,
    start: int,
    end: int,
    thread: int,
    call: int,
    details: Mapping[str, Any],
    number: int,
    stamps: bytes,
    _: None,
) -> Iterator[Span]:
    """Makes the spans of a run in the process of a served model.

    Args:
        recorder: knows the process.
        start, end: of the run.
        thread, call: that made it.
        details: of its failure, if it has failed.
        number: that its stamps must have.
        stamps: what the process of the model has left; those of a run before, if it has died.
    """
    exchange = {"exchange": recorder.next_exchange()}
    own = {**exchange, **details}
    yield Span("run in the service", "device", start, end, recorder.process, thread, call, own)
    theirs = {**exchange, "role": SERVED_MODEL}
    yield from _stamped_spans(stamps, number, start, end, thread, call, theirs)


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
    recorder: Recorder, connection: Any, method: str, stub: _Stub, start: int, exchange: int, end: int
) -> None:
    """Adds what a daemon did for a call that has succeeded."""
    times = stub.times()
    times = None if times is None else times.shifted(start, end)
    if times is not None:
        host, thread = "" if connection.is_local else connection.host, recorder.thread
        for span in _served_spans(recorder, method, exchange, times, host, thread.number, thread.call):
            recorder.add_span(span)


def kept(recorder: Recorder, exchanged: Callable[..., bool]) -> Callable[..., bool]:
    """Asks the daemon for the times of each request of a call that stays open."""
    threads, now, expand = recorder.threads, time.monotonic_ns, partial(_kept_spans, recorder)

    @wraps(exchanged)
    def call(connection: Any, first: Any, messages: Any, answer: Any, *others: Any) -> bool:
        # Of a daemon of an earlier version, the request goes by a call of its own, which has times.
        if not connection.description.sends_times:
            return False
        first.wants_times = True
        start = now()
        try:
            if not exchanged(connection, first, messages, answer, *others):
                return False
        except BaseException as error:
            recorder.add("call ExecuteEach", "device", start, failure(error))
            raise
        end, thread = now(), threads.state
        host = "" if connection.is_local else connection.host
        recorder.add_record(expand, start, end, thread.number, thread.call, host, answer.times)
        return True

    return call


def _kept_spans(
    recorder: Recorder, start: int, end: int, thread: int, call: int, host: str, sent: bytes, *_: None
) -> Iterator[Span]:
    """Makes the spans of a request of a call that stays open.

    Args:
        recorder: knows the process.
        start, end: of the request.
        thread, call: that made it.
        host: where the daemon is; empty for this host.
        sent: what the daemon sent as its times.
    """
    exchange = recorder.next_exchange()
    details: dict[str, Any] = {"exchange": exchange}
    yield Span("call ExecuteEach", "device", start, end, recorder.process, thread, call, details)
    times = decode_times(sent)
    times = None if times is None else times.shifted(start, end)
    if times is not None:
        yield from _served_spans(recorder, "ExecuteEach", exchange, times, host, thread, call)


def invoked(recorder: Recorder, invoke: Callable[..., Any]) -> Callable[..., Any]:
    """Asks the daemon for the times of each call."""

    @wraps(invoke)
    def call(connection: Any, method: str, stub: Any, *arguments: Any) -> Any:
        traced, exchange = _Stub(stub), recorder.next_exchange()
        message, timeout_s, metadata, *others = arguments
        asking = (*metadata, trace_header(recorder.trace_id, recorder.thread.call))
        start = time.monotonic_ns()
        try:
            reply = invoke(connection, method, traced, message, timeout_s, asking, *others)
        finally:
            end = time.monotonic_ns()
            recorder.add(f"call {method}", "device", start, {"exchange": exchange}, end)
        _add_exchange(recorder, connection, method, traced, start, exchange, end)
        return reply

    return call


def streamed(recorder: Recorder, replies: Callable[..., Any]) -> Callable[..., Any]:
    """Asks the daemon for the times of each call with many replies."""

    @wraps(replies)
    def call(connection: Any, method: str, stub: Any, *arguments: Any) -> Iterator[bytes]:
        traced, exchange = _Stub(stub), recorder.next_exchange()
        messages, timeout_s, metadata, *others = arguments
        asking = (*metadata, trace_header(recorder.trace_id, recorder.thread.call))
        start = time.monotonic_ns()
        try:
            yield from replies(connection, method, traced, messages, timeout_s, asking, *others)
        finally:
            end = time.monotonic_ns()
            recorder.add(f"call {method}", "device", start, {"exchange": exchange}, end)
        _add_exchange(recorder, connection, method, traced, start, exchange, end)

    return call


def _served_spans(
    recorder: Recorder, method: str, exchange: int, times: CallTimes, host: str, thread: int, call: int
) -> Iterator[Span]:
    """Makes the spans of what a daemon did for a call of gRPC.

    Args:
        recorder: of the trace.
        method: name of the call.
        exchange: its number.
        times: on the clock of this process.
        host: where the daemon is; empty for this host.
        thread, call: that made the call.
    """
    process = recorder.process_on(host, times.process) if host else times.process
    daemon = partial(Span, category="daemon", process=process, thread=thread, call=call)
    details: dict[str, Any] = {"exchange": exchange, **({"host": host} if host else {})}
    yield daemon(f"serve {method}", start_ns=times.arrived_ns, end_ns=times.replied_ns, details=details)
    for each in times.phases:
        yield daemon(each.name, start_ns=each.start_ns, end_ns=each.end_ns)
