"""Records calls of daemons, and what daemons do for them.

A daemon on this host leaves the times of what it did for a submission of a ring in shared memory, if
its client wants them. One on another host sends them after its reply, see
`neurald.hal.rpc.transport.call_times`.
"""

import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any

from neurald.hal.rpc.transport.call_times import CallTimes, decode_times, times_from, trace_header
from neurald.hal.rpc.transport.ring_end import read_stamps
from neurald.runtime.tracing.recorded import failure
from neurald.runtime.tracing.span import Recorder, Span


class Exchange:
    """Records what a ring is asked and does.

    Args:
        peer: the end of the ring.
        number: see the attribute.

    Attributes:
        peer: refers to the end of the ring.
        number: that the daemon's stamps have in this trace.
        start_ns, end_ns: when the latest submission was put into the ring; 0 if there is none whose
            completion has to be recorded.
    """

    __slots__ = ("end_ns", "number", "peer", "start_ns")

    def __init__(self, peer: Any, number: int) -> None:
        self.peer = weakref.ref(peer)
        self.number = number
        self.start_ns = self.end_ns = 0


def submitted(recorder: Recorder, submit: Callable[..., Any]) -> Callable[..., Any]:
    """Asks the daemon for stamps of each call that is submitted."""
    now, exchanges = time.monotonic_ns, recorder.exchanges

    @wraps(submit)
    def call(peer: Any, *arguments: Any) -> Any:
        start = now()
        exchange = exchanges.get(id(peer))
        if exchange is None or exchange.peer() is not peer:
            exchange = exchanges[id(peer)] = Exchange(peer, recorder.next_exchange())
            peer.want_stamps(exchange.number)
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
    if not stamps:
        return
    noted = read_stamps(stamps)
    times = arrived, admitted, ended, replied = noted.times_ns
    # The daemon may write anything.
    if noted.number != number or list(times) != sorted(times) or arrived < submitted or replied > end:
        return
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
