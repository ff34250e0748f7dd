"""The gRPC server: kinds of calls, ends of calls, limits, and its own end."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from support.inference.silent_client import SlowListener, answered_pings, begin_call
from support.waiting import wait_until

from neurald.service.inference.server.grpc.grpc_server import GrpcServer, connection_limits
from neurald.service.inference.server.grpc.server_call import DirectMethod, ServerCall, WillWait


class Echo:
    """Handlers that a test may hold up."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.ended = 0
        self.goes_on = asyncio.Event()

    async def say(self, data: bytes, call: ServerCall) -> bytes:
        if data == b"refuse":
            await call.abort(grpc.StatusCode.NOT_FOUND, "there is nothing")
        if data == b"name":  # as Python has names of files that are not UTF-8
            await call.abort(grpc.StatusCode.NOT_FOUND, "there is no \udcff")
        if data == b"fail":
            raise ValueError("a secret")
        if data == b"left":
            return b"" if (left_s := call.time_remaining()) is None else str(left_s).encode()
        sign = dict(call.invocation_metadata())["x-sign"]
        assert isinstance(sign, str)
        return (sign.encode() + data) * 2

    async def hold(self, data: bytes, call: ServerCall) -> bytes:
        self.begun += 1
        try:
            await self.goes_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return data

    async def spell(self, data: bytes, call: ServerCall) -> AsyncIterator[bytes]:
        for each in data:
            yield bytes((each,))

    async def pour(self, data: bytes, call: ServerCall) -> AsyncIterator[bytes]:
        self.begun += 1
        try:
            while True:
                yield data
        finally:
            self.ended += 1

    async def write(self, data: bytes, call: ServerCall) -> None:
        await call.write(data)
        await call.write(data)

    async def talk(self, messages: AsyncIterator[bytes], call: ServerCall) -> AsyncIterator[bytes]:
        try:
            async for each in messages:
                yield each.upper()
        finally:
            self.ended += 1

    async def count(self, messages: AsyncIterator[bytes], call: ServerCall) -> bytes:
        return str([each async for each in messages]).encode()

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "test.Echo",
            {
                "Say": grpc.unary_unary_rpc_method_handler(self.say),
                "Hold": grpc.unary_unary_rpc_method_handler(self.hold),
                "Spell": grpc.unary_stream_rpc_method_handler(self.spell),
                "Pour": grpc.unary_stream_rpc_method_handler(self.pour),
                "Text": grpc.unary_unary_rpc_method_handler(
                    self.hold, request_deserializer=lambda data: data.decode()
                ),
                "Texts": grpc.stream_unary_rpc_method_handler(
                    self.count, request_deserializer=lambda data: data.decode()
                ),
                "Write": grpc.unary_stream_rpc_method_handler(self.write),
                "Talk": grpc.stream_stream_rpc_method_handler(self.talk),
                "Count": grpc.stream_unary_rpc_method_handler(self.count),
            },
        )


class Served:
    """A server of `Echo` on a loop in a thread of its own."""

    def __init__(
        self,
        *,
        calls: int = 8,
        kind: type[GrpcServer] = GrpcServer,
        echo: type[Echo] = Echo,
        options: tuple[tuple[str, int], ...] = (),
    ) -> None:
        self.port = 0
        self._make_echo = echo
        self._kind = kind
        self._options = options
        self.server: GrpcServer
        self.echo: Echo
        self._calls = calls
        self._is_started = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._ends: asyncio.Event
        self._grace_s = 0.1
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        assert self._is_started.wait(30)

    async def _run(self) -> None:
        self._loop, self._ends, self.echo = asyncio.get_running_loop(), asyncio.Event(), self._make_echo()
        self.server = server = self._kind([("grpc.so_reuseport", 0), *self._options], calls=self._calls)
        server.add_generic_rpc_handlers((self.echo.handler(),))
        self.port = server.add_port("127.0.0.1:0", None)
        server.start()
        self._is_started.set()
        await self._ends.wait()
        await server.stop(self._grace_s)

    def do(self, function: Callable[[], Any]) -> None:
        self._loop.call_soon_threadsafe(function)

    def stop(self, grace_s: float = 0.1) -> None:
        self._grace_s = grace_s
        if not self._loop.is_closed():
            self.do(self._ends.set)

    def join(self) -> bool:
        self._thread.join(30)
        return not self._thread.is_alive()


@pytest.fixture
def served() -> Any:
    found = Served()
    yield found
    found.stop()
    assert found.join()


@pytest.fixture
def channel(served: Served) -> Any:
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as found:
        yield found


def test_calls_of_all_kinds(channel: Any) -> None:
    say = channel.unary_unary("/test.Echo/Say")
    assert say(b"a" * 100_000, metadata=(("x-sign", "!"),)) == (b"!" + b"a" * 100_000) * 2
    assert list(channel.unary_stream("/test.Echo/Spell")(b"abc")) == [b"a", b"b", b"c"]
    assert list(channel.unary_stream("/test.Echo/Spell")(b"")) == []
    # Without an encoder, `write` takes bytes.
    assert list(channel.unary_stream("/test.Echo/Write")(b"abc")) == [b"abc", b"abc"]
    words = [b"one", b"two", b""]
    assert list(channel.stream_stream("/test.Echo/Talk")(iter(words))) == [b"ONE", b"TWO", b""]
    assert channel.stream_unary("/test.Echo/Count")(iter(words)) == str(words).encode()


@pytest.mark.parametrize(
    ("data", "code", "details"),
    [
        (b"refuse", grpc.StatusCode.NOT_FOUND, "there is nothing"),
        (b"name", grpc.StatusCode.NOT_FOUND, "there is no ?"),
        (b"fail", grpc.StatusCode.UNKNOWN, "unexpected ValueError"),
    ],
)
def test_errors_of_handlers(channel: Any, data: bytes, code: grpc.StatusCode, details: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/test.Echo/Say")(data)
    assert isinstance(caught.value, grpc.Call)
    assert (caught.value.code(), caught.value.details()) == (code, details)


def test_messages_that_are_not_understood(
    channel: Any, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients get an error, and cannot fill the log."""
    with caplog.at_level(logging.INFO):
        for call, sent in (
            (channel.unary_unary("/test.Echo/Text"), b"\xff"),
            (channel.stream_unary("/test.Echo/Texts"), iter([b"a", b"\xff"])),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call(sent)
            assert isinstance(caught.value, grpc.Call)
            assert caught.value.code() is grpc.StatusCode.INTERNAL
            assert caught.value.details() == "the message of the call is not understood"
    assert served.echo.begun == 0
    assert not caplog.records


def test_a_client_that_does_not_read_is_given_no_more(served: Served) -> None:
    with begin_call(served.port, "/test.Echo/Pour", b"x" * 1000):
        wait_until(lambda: served.echo.begun == 1)
        with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            say: Any = channel.unary_unary("/test.Echo/Say")
            assert say(b"left") == b""
        assert served.echo.ended == 0
    wait_until(lambda: served.echo.ended == 1)


def test_a_client_that_does_not_read_does_not_keep_the_server() -> None:
    served = Served()
    with begin_call(served.port, "/test.Echo/Pour", b"x" * 1000):
        wait_until(lambda: served.echo.begun == 1)
        served.stop(0.05)
        assert served.join()
    assert served.echo.ended == 1


@pytest.mark.parametrize("data", [b"\xff" * 10_000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 10_000])
def test_what_is_not_http_keeps_the_server_from_nothing(served: Served, channel: Any, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as caller:
        caller.sendall(data)
        assert channel.unary_unary("/test.Echo/Say")(b"left") == b""


def test_pings_cost_little(served: Served, channel: Any) -> None:
    began_s = time.process_time()
    assert answered_pings(served.port, 200_000) == 200_000
    # A server that disconnects who pings too often takes 16 s, and serves nobody meanwhile.
    assert time.process_time() - began_s < 4
    assert channel.unary_unary("/test.Echo/Say")(b"left") == b""


def test_an_unknown_method_is_unimplemented(channel: Any) -> None:
    for method in ("/test.Echo/Sing", "/other/Say", "/"):
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(method)(b"")
        assert isinstance(caught.value, grpc.Call)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_the_time_until_the_deadline(channel: Any) -> None:
    say = channel.unary_unary("/test.Echo/Say")
    assert say(b"left") == b""
    assert 0 < float(say(b"left", timeout=60)) <= 61


@pytest.mark.parametrize("how", ["cancel", "deadline", "close"])
def test_a_handler_ends_with_its_client(served: Served, how: str) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        caller: Any = channel
        future = caller.unary_unary("/test.Echo/Hold").future(b"", timeout=1 if how == "deadline" else None)
        wait_until(lambda: served.echo.begun == 1)
        if how == "cancel":
            future.cancel()
        elif how == "deadline":
            assert future.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_until(lambda: served.echo.cancelled == 1)


def test_a_stream_ends_with_its_client(served: Served, channel: Any) -> None:
    asked = threading.Event()

    def messages() -> Any:
        yield b"one"
        asked.wait(30)

    answers = channel.stream_stream("/test.Echo/Talk")(messages())
    assert next(answers) == b"ONE"
    answers.cancel()
    wait_until(lambda: served.echo.ended == 1)
    asked.set()


def test_too_many_calls_are_refused() -> None:
    served = Served(calls=2)
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        hold: Any = channel.unary_unary("/test.Echo/Hold")
        held = [hold.future(bytes((n,))) for n in range(2)]
        wait_until(lambda: served.echo.begun == 2)
        with pytest.raises(grpc.RpcError) as caught:
            hold(b"")
        assert isinstance(caught.value, grpc.Call)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        served.do(served.echo.goes_on.set)
        assert [each.result(30) for each in held] == [b"\0", b"\1"]
    served.stop()
    assert served.join()


@pytest.mark.parametrize("goes_on", [True, False])
def test_calls_have_time_to_end(goes_on: bool) -> None:
    served = Served()
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        hold: Any = channel.unary_unary("/test.Echo/Hold")
        held = hold.future(b"x")
        wait_until(lambda: served.echo.begun == 1)
        served.stop(30 if goes_on else 0.05)
        if goes_on:
            served.do(served.echo.goes_on.set)
            assert held.result(30) == b"x"
        else:
            assert held.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
        assert served.join()


class LateServer(GrpcServer):
    """A server whose loop does not learn that clients have gone before it stops."""

    def pass_on(self, function: Callable[[Any], None], argument: Any) -> None:
        if function.__name__ != "_left":
            super().pass_on(function, argument)


def test_a_handler_that_ends_after_its_client_and_the_server() -> None:
    """It no longer sends its status, by which the core would abort the process."""
    served = Served(kind=LateServer)
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        hold: Any = channel.unary_unary("/test.Echo/Hold")
        held = hold.future(b"x")
        wait_until(lambda: served.echo.begun == 1)
        held.cancel()
        wait_until(lambda: not served.server._calls)
    served.stop()
    assert served.join()
    assert served.echo.cancelled == 1


def test_calls_of_several_threads(served: Served, channel: Any) -> None:
    say = channel.unary_unary("/test.Echo/Say")

    def ask(number: int) -> Any:
        return say(str(number).encode(), metadata=(("x-sign", "-"),))

    results: dict[int, bytes] = {}
    threads = [
        threading.Thread(
            target=lambda first=first: results.update({n: ask(n) for n in range(first, first + 50)})
        )
        for first in range(0, 300, 50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: f"-{n}-{n}".encode() for n in range(300)}


def test_a_call_whose_client_has_gone_is_abandoned() -> None:
    details = SimpleNamespace(method=b"/test.Echo/Direct", deadline=1e18)
    event: Any = SimpleNamespace(call=None, invocation_metadata=(), call_details=details)
    server: Any = SimpleNamespace(has_shut_down=False)
    done: list[bool] = []
    for is_gone in (False, True):
        call = ServerCall(server, event)
        if is_gone:
            call._left(None)
        call.abandon_by(lambda is_gone=is_gone: done.append(is_gone))  # type: ignore[misc]
    assert done == [True]


class Waiting(Echo):
    """Has a method that waits in the threads of the server, and one that goes on in the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self.waiting = 0
        self.refused = 0
        self.abandoned = 0
        self.went_on = 0

    def wait(self, data: bytes, call: ServerCall, will_wait: WillWait) -> Callable[[], None] | None:
        if will_wait is None:
            self.refused += 1
            return lambda: call.finish(b"went on")
        call.abandon_by(self._abandon)
        will_wait()
        self.waiting += 1
        self.released.wait(60)
        call.finish(data)
        return None

    def rest(self, data: bytes, call: ServerCall, will_wait: WillWait) -> Callable[[], None] | None:
        if data == b"fail":
            raise ValueError("a secret")
        self.wait(data, call, will_wait)
        return self._go_on

    def short(self, data: bytes, call: ServerCall, will_wait: WillWait) -> None:
        call.finish(data) if data else call.refuse(grpc.StatusCode.NOT_FOUND, "there is nothing")

    def refuse_without_sign(self, call: ServerCall) -> bool:
        is_refused = "x-sign" not in dict(call.invocation_metadata())
        if is_refused:
            call.refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many")
        return is_refused

    def _go_on(self) -> None:
        self.went_on += 1

    def _abandon(self) -> None:
        self.abandoned += 1
        self.released.set()

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "test.Echo",
            {
                "Wait": grpc.unary_unary_rpc_method_handler(DirectMethod(self.wait)),
                "Rest": grpc.unary_unary_rpc_method_handler(DirectMethod(self.rest)),
                "Short": grpc.unary_unary_rpc_method_handler(DirectMethod(self.short)),
                "Full": grpc.unary_unary_rpc_method_handler(
                    DirectMethod(self.wait, self.refuse_without_sign)
                ),
                "Say": grpc.unary_unary_rpc_method_handler(self.say),
            },
        )


@pytest.fixture
def waiting() -> Iterator[tuple[Served, Any, Any]]:
    served = Served(calls=32, echo=Waiting)
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        yield served, served.echo, channel
        served.stop()
        assert served.join()


def test_short_calls_need_no_loop(waiting: tuple[Served, Any, Any]) -> None:
    served, echo, channel = waiting
    short: Any = channel.unary_unary("/test.Echo/Short")
    served.do(lambda: echo.released.wait(60))
    try:
        assert [short(b"%d" % n, timeout=30) for n in range(20)] == [b"%d" % n for n in range(20)]
        with pytest.raises(grpc.RpcError, match="there is nothing"):
            short(b"", timeout=30)
        wait_until(lambda: not served.server._calls)
    finally:
        echo.released.set()


def test_calls_are_refused_before_their_messages_are_received(waiting: tuple[Served, Any, Any]) -> None:
    served, echo, channel = waiting
    full: Any = channel.unary_unary("/test.Echo/Full")
    echo.released.set()
    for message in (b"", b"x", bytes(1 << 20)) * 3:
        with pytest.raises(grpc.RpcError, match="too many"):
            full(message, timeout=30)
    assert echo.waiting == 0
    assert full(b"y", metadata=(("x-sign", "-"),), timeout=30) == b"y"
    wait_until(lambda: not served.server._calls)


def test_threads_that_wait_leave_one_for_other_calls(waiting: tuple[Served, Any, Any]) -> None:
    _, echo, channel = waiting
    wait: Any = channel.unary_unary("/test.Echo/Wait")
    held = [wait.future(b"%d" % n) for n in range(3)]
    wait_until(lambda: echo.waiting == 3)
    assert wait(b"x", timeout=30) == b"went on"
    assert channel.unary_unary("/test.Echo/Say")(b"y", metadata=(("x-sign", "-"),), timeout=30) == b"-y-y"
    assert echo.refused == 1
    echo.released.set()
    assert [each.result(30) for each in held] == [b"0", b"1", b"2"]
    assert wait(b"z", timeout=30) == b"z"


def test_a_client_that_leaves_ends_what_a_thread_waits_for(waiting: tuple[Served, Any, Any]) -> None:
    served, echo, channel = waiting
    held = channel.unary_unary("/test.Echo/Wait").future(b"x")
    wait_until(lambda: echo.waiting == 1)
    held.cancel()
    wait_until(lambda: echo.abandoned == 1)
    wait_until(lambda: not served.server._waiting)


def test_the_rest_of_a_call_is_done_also_if_its_client_has_gone(waiting: tuple[Served, Any, Any]) -> None:
    """It may give back what the call has used."""
    _, echo, channel = waiting
    held = channel.unary_unary("/test.Echo/Rest").future(b"x")
    wait_until(lambda: echo.waiting == 1)
    held.cancel()
    wait_until(lambda: echo.abandoned == 1)
    wait_until(lambda: echo.went_on == 1)


def test_a_direct_method_that_fails_answers(waiting: tuple[Served, Any, Any]) -> None:
    _, _, channel = waiting
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/test.Echo/Rest")(b"fail", timeout=30)
    assert isinstance(caught.value, grpc.Call)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert "secret" not in (caught.value.details() or "")


def test_a_server_that_stops_waits_for_its_threads(waiting: tuple[Served, Any, Any]) -> None:
    served, echo, channel = waiting
    held = channel.unary_unary("/test.Echo/Wait").future(b"x")
    wait_until(lambda: echo.waiting == 1)
    served.stop()
    assert served.join()
    assert echo.abandoned == 1
    assert held.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
    assert not any(each.is_alive() for each in served.server._threads)


def test_no_call_is_lost_when_a_connection_ends_by_age() -> None:
    served = Served(options=connection_limits(8, age_ms=200))
    client = SlowListener(served.port)
    try:
        assert client.last_call() == (2**31 - 1, 0), "the client is told first"
        assert client.call(1, "/test.Echo/Spell", b"a") == b"a", "a call on its way is answered"
        client.acknowledge()
        assert client.last_call() == (1, 0)
        assert client.last_call() is None, "the connection ends with its last call"
    finally:
        client.close()
        served.stop()
        assert served.join()
