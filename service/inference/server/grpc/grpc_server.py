"""A gRPC server for one event loop, on the core of grpcio.

`grpc.aio` passes each event of a call to the event loop through another thread: a call comes, its
message is there, its answer was sent. A thread that wakes another one costs more than most of
our calls take otherwise. Here a few threads receive calls with their messages and pass both on at
once; the loop's thread sends the answer itself. The core's interface, `grpc._cython.cygrpc`, is the
one on which `grpc.server` and `grpc.aio` are built, and is not documented.

Handlers are those of `grpc.aio`: coroutine functions, or asynchronous generators for streams, with
a `ServerCall` as their context. A `DirectMethod` needs no task, and is begun by the thread that has
received its message, which may answer it without the loop.
"""

import asyncio
import contextlib
import inspect
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import grpc
import grpc.aio
from grpc._cython import cygrpc  # type: ignore[attr-defined]

from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.rpc.transport.status import UNCOUNTED_PINGS
from neurald.service.inference.server.grpc.server_call import DirectMethod, Metadata, ServerCall

logger = logging.getLogger(__name__)

#: Tags of events that belong to no call.
_NEW_CALL: Final = "new call"
_SHUT_DOWN: Final = "shut down"
#: How many threads wait for events. All but one of them may also wait for runs.
_THREADS: Final = 4
#: How long runs may take whose clients are gone when the server stops, and how often it looks.
_LAST_RUN_S: Final = 5.0
_LOOK_S: Final = 0.01
#: How long a client may take to begin, and for how long a connection takes new calls.
_SILENCE_MS: Final = 10_000
_AGE_MS: Final = 300_000


def connection_limits(connections: int, age_ms: int = _AGE_MS) -> tuple[tuple[str, int], ...]:
    """Returns options of a server, with which those that say or ask nothing make room for others.

    A connection ends by its age, idle or not: its client is told to connect again, and to say that
    it knows, before no more calls are taken. One that is idle would be cut without notice, and a
    call that is on its way then fails if its client keeps no copy for another attempt, as those of
    gRPC keep none of more than 256 KiB.

    Args:
        connections: how many there may be.
        age_ms: how long each of them takes new calls. Those that are under way may end later.
    """
    return (
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server_handshake_timeout_ms", _SILENCE_MS),
        ("grpc.http2.settings_timeout", _SILENCE_MS),
        ("grpc.max_connection_age_ms", age_ms),
    )


class _Details:
    """The question to a handler of several methods; see `grpc.HandlerCallDetails`."""

    __slots__ = ("invocation_metadata", "method")

    def __init__(self, method: str, metadata: Metadata) -> None:
        self.method = method
        self.invocation_metadata = metadata


class GrpcServer:
    """Serves handlers at addresses, between `start` and `stop`. Belongs to the running event loop.

    Args:
        options: the options of the core, for channels.
        calls: how many calls may be under way.

    Attributes:
        has_shut_down: whether all clients are gone, and no more will come. Calls must not use the
            core then, although they may not know yet that their clients have gone: the core aborts
            the process.
    """

    def __init__(self, options: Sequence[tuple[str, Any]], *, calls: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue = cygrpc.CompletionQueue()
        self._server = cygrpc.Server((*options, UNCOUNTED_PINGS), False)
        self._server.register_completion_queue(self._queue)
        self._generic: list[grpc.GenericRpcHandler] = []
        self._methods: dict[str, Any] = {}
        self._limit = calls
        self._calls: set[ServerCall] = set()
        self._passed: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = [
            CheckedThread(target=self._serve, name="neurald grpc", daemon=True) for _ in range(_THREADS)
        ]
        #: Is held by the thread that waits for events. The others would be woken for nothing.
        self._lead = threading.Lock()
        #: Protects what several threads change: what is passed on, and how many of them wait for
        #: runs.
        self._lock = threading.Lock()
        self._leader: object | None = None
        self._waiting = 0
        self.has_shut_down = False
        self._shut_down = asyncio.Event()

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Adds handlers; see `grpc.aio.Server`."""
        self._generic.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Does nothing: generated code adds the same handlers with `add_generic_rpc_handlers`."""

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Listens at an address; returns the port.

        Raises:
            RuntimeError: it cannot be listened at.
        """
        given: tuple[Any, ...] = ()
        if credentials is not None:
            given = (getattr(credentials, "_credentials"),)  # noqa: B009 - stubs lack it
        port: int = self._server.add_http2_port(address.encode(), *given)
        if port == 0:
            raise RuntimeError(f"the address {address} cannot be bound")
        return port

    def start(self) -> None:
        """Begins to serve."""
        self._server.start()
        self._expect_call()
        for thread in self._threads:
            thread.start()

    async def stop(self, grace_s: float) -> None:
        """Refuses new calls, and ends those that are under way after some time."""
        self._server.shutdown(self._queue, _SHUT_DOWN)
        try:
            async with asyncio.timeout(grace_s):
                await self._shut_down.wait()
        except TimeoutError:
            self._server.cancel_all_calls()
            await self._shut_down.wait()
        for task in tuple(self._tasks):
            task.cancel()
        # Runs whose clients are gone end soon. If one does not, the process ends without it.
        end_s = self._loop.time() + _LAST_RUN_S
        while self._waiting and self._loop.time() < end_s:
            await asyncio.sleep(_LOOK_S)
        if self._waiting:
            return
        self._server.destroy()
        self._queue.shutdown()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    # In the threads of the server.

    def _serve(self) -> None:
        while True:
            self._lead.acquire()
            self._leader = leader = object()
            while self._leader is leader:
                event = self._queue.poll()
                if event.completion_type == cygrpc.CompletionType.queue_shutdown:
                    self._lead.release()
                    return
                try:
                    self._handle(event)
                except Exception:
                    logger.exception("an event of gRPC failed")
                # An event that is kept while waiting for the next one would keep its call in
                # memory.
                del event

    def _handle(self, event: Any) -> None:
        tag = event.tag
        if tag is _SHUT_DOWN:
            self.has_shut_down = True
            self._loop.call_soon_threadsafe(self._shut_down.set)
        elif tag is not _NEW_CALL:
            tag(event)
        else:
            # Also after a call that failed to arrive, since no other one would be received.
            self._expect_call()
            if event.success and event.call_details.method is not None and not self.has_shut_down:
                self._begin(event)

    def _begin(self, event: Any) -> None:
        """Receives the message of a new call, or refuses the call."""
        call = ServerCall(self, event)
        self._calls.add(call)
        handler = call.handler = self._handler(call)
        if len(self._calls) > self._limit:
            call.refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
        elif handler is None:
            call.refuse(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        elif handler.request_streaming:
            call.await_end()
            self.pass_on(lambda _: self.answer(call, None), None)
        elif not self._is_refused(call, handler.unary_unary):
            call.await_message()

    def _is_refused(self, call: ServerCall, handler: Any) -> bool:
        """Returns whether a handler has ended a call whose message was not received."""
        return isinstance(handler, DirectMethod) and handler.refuses is not None and handler.refuses(call)

    def _expect_call(self) -> None:
        try:
            self._server.request_call(self._queue, self._queue, _NEW_CALL)
        except ValueError:
            return  # it is shutting down

    def forget(self, call: ServerCall) -> None:
        """Forgets a call that is over."""
        self._calls.discard(call)

    def begin_directly(self, call: ServerCall, message: bytes) -> bool:
        """Begins a call in this thread; returns False if it is none of a `DirectMethod`."""
        handler = call.handler
        if handler.request_streaming or not isinstance(handler.unary_unary, DirectMethod):
            return False
        waits = False

        def will_wait() -> None:
            """Makes another thread wait for events."""
            nonlocal waits
            if not waits:
                waits = True
                call.await_end()
                with self._lock:
                    self._waiting += 1
                self._leader = None
                self._lead.release()

        try:
            if not self.has_shut_down:
                # One thread is left for other calls, and for clients that leave.
                may_wait = self._waiting < _THREADS - 1
                rest = handler.unary_unary(message, call, will_wait if may_wait else None)
                if rest is not None:
                    call.await_end()
                    self.pass_on(lambda _: rest(), None)
        except Exception as error:
            logger.exception("the call %s failed", call.method)
            call.refuse(grpc.StatusCode.UNKNOWN, f"unexpected {type(error).__name__}")
        finally:
            if waits:
                with self._lock:
                    self._waiting -= 1
        return True

    def pass_on(self, function: Callable[[Any], None], argument: Any) -> None:
        """Makes the loop call a function soon; several wake it once."""
        with self._lock:
            self._passed.append((function, argument))
            is_first = len(self._passed) == 1
        if is_first:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._take_over)

    # In the thread of the loop.

    def _take_over(self) -> None:
        while self._passed:
            # It is removed last: until then nobody needs to wake the loop.
            function, argument = self._passed[0]
            try:
                function(argument)
            except Exception:
                logger.exception("a call failed")
            self._passed.popleft()

    def _handler(self, call: ServerCall) -> Any:
        found = self._methods.get(call.method)
        if found is None:
            details: Any = _Details(call.method, call.invocation_metadata())
            for each in self._generic:
                found = each.service(details)
                if found is not None:
                    self._methods[call.method] = found
                    break
        return found

    def serializer_of(self, call: ServerCall) -> Callable[[Any], bytes]:
        """Returns what encodes the answers of a call."""
        found: Callable[[Any], bytes] = call.handler.response_serializer or bytes
        return found

    def answer(self, call: ServerCall, message: bytes | None) -> None:
        """Begins the handler of a call.

        Args:
            call: the call.
            message: its only message; None for a stream of them.
        """
        handler = call.handler
        if message is None and not handler.request_streaming:
            call.refuse(grpc.StatusCode.INTERNAL, "the call has no message")
            return
        task = self._loop.create_task(self._answer(call, handler, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        call.begin(task)

    async def _answer(self, call: ServerCall, handler: Any, message: bytes | None) -> None:
        try:
            decode = handler.request_deserializer
            if message is None:
                request: Any = _messages(call, decode)
            else:
                request = await _decoded(call, decode, message)
            if not handler.response_streaming:
                behaviour = handler.stream_unary if handler.request_streaming else handler.unary_unary
                response = await behaviour(request, call)
                encode = handler.response_serializer
                call.finish(response if encode is None else encode(response))
                return
            behaviour = handler.stream_stream if handler.request_streaming else handler.unary_stream
            responses = behaviour(request, call)
            if inspect.isawaitable(responses):
                await responses
            else:
                encode = handler.response_serializer
                async with contextlib.aclosing(responses):
                    async for response in responses:
                        await call.send(response if encode is None else encode(response))
            call.end()
        except grpc.aio.AbortError:
            pass
        except asyncio.CancelledError:
            call.refuse(grpc.StatusCode.CANCELLED, "the call was cancelled")
        except Exception as error:
            logger.exception("the call %s failed", call.method)
            call.refuse(grpc.StatusCode.UNKNOWN, f"unexpected {type(error).__name__}")


async def _messages(call: ServerCall, decode: Callable[[bytes], Any] | None) -> AsyncIterator[Any]:
    while (message := await call.read()) is not None:
        yield await _decoded(call, decode, message)


async def _decoded(call: ServerCall, decode: Callable[[bytes], Any] | None, message: bytes) -> Any:
    """Returns a decoded message; ends the call if it cannot be decoded."""
    if decode is None:
        return message
    try:
        return decode(message)
    except Exception as error:
        logger.debug("a message of the call %s is not understood: %s", call.method, error)
    await call.abort(grpc.StatusCode.INTERNAL, "the message of the call is not understood")
    raise AssertionError("unreachable")
