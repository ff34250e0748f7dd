"""The call that stays open: when it is used, and what is made of its end."""

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from support.waiting import wait_until

from neurald.hal.errors import OpFailed
from neurald.hal.rpc.client.calls import kept_stream
from neurald.hal.rpc.client.calls.kept_stream import KeptStream


class Call(grpc.RpcError):
    """A call that answers each request, until it fails with a status."""

    def __init__(self, requests: Iterator[bytes], answer: Callable[[bytes], Any]) -> None:
        super().__init__()
        self.requests = requests
        self._answer = answer
        self._status: grpc.StatusCode | None = None
        self.was_cancelled = False

    def is_active(self) -> bool:
        return self._status is None and not self.was_cancelled

    def code(self) -> grpc.StatusCode:
        return self._status or grpc.StatusCode.OK

    def cancel(self) -> None:
        self.was_cancelled = True

    def __iter__(self) -> "Call":
        return self

    def __next__(self) -> bytes:
        answer = self._answer(next(self.requests))
        if answer is None:
            raise StopIteration
        if isinstance(answer, grpc.StatusCode):
            self._status = answer
            raise self
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, bytes)
        return answer


class Daemon:
    """Answers requests with their reverse, or with what `answers` holds for them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answers: dict[bytes, Any] = {}
        self.stream = KeptStream(self._start, "10.0.0.1:1")

    def exchange(self, *request: bytes) -> bytes | None:
        """Sends a request; returns the message of its reply, or None."""
        taken: list[bytes] = []

        def take(message: bytes) -> bool:
            taken.append(message)
            return True

        return taken[0] if self.stream.exchange(iter(request), take) else None

    def _start(self, requests: Iterator[bytes]) -> Call:
        self.calls.append(Call(requests, lambda data: self.answers.get(data, data[::-1])))
        return self.calls[-1]


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


def test_one_call_serves_all_requests(daemon: Daemon) -> None:
    assert [daemon.exchange(each) for each in (b"ab", b"cd")] == [b"ba", b"dc"]
    assert len(daemon.calls) == 1
    daemon.stream.close()
    assert daemon.calls[0].was_cancelled
    assert next(daemon.calls[0].requests, None) is None, "the thread that sends does not end"
    assert daemon.exchange(b"ab") is None


@pytest.mark.parametrize(
    "end", [None, grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED], ids=str
)
def test_one_that_was_cut_off_is_opened_again_later(
    daemon: Daemon, end: grpc.StatusCode | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_stream, "_REFUSED_S", 3600.0)
    daemon.answers[b"cut"] = end
    assert daemon.exchange(b"cut") is None
    assert daemon.calls[0].was_cancelled
    if end is None:  # between two requests
        assert daemon.exchange(b"ab") == b"ba"
        return
    assert daemon.exchange(b"ab") is None
    assert len(daemon.calls) == 1
    daemon.stream._refused_until = 0.0
    assert daemon.exchange(b"ab") == b"ba"
    assert len(daemon.calls) == 2


def test_one_that_has_ended_meanwhile_is_opened_again(daemon: Daemon) -> None:
    assert daemon.exchange(b"ab") == b"ba"
    daemon.calls[0].cancel()
    assert daemon.exchange(b"cd") == b"dc"
    assert len(daemon.calls) == 2


def test_older_daemons_are_asked_once(daemon: Daemon) -> None:
    daemon.answers[b"ab"] = grpc.StatusCode.UNIMPLEMENTED
    assert [daemon.exchange(b"ab") for _ in range(3)] == [None] * 3
    assert len(daemon.calls) == 1


def test_errors_reach_the_caller(daemon: Daemon) -> None:
    daemon.answers[b"wrong"] = grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as caught:
        daemon.exchange(b"wrong")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert daemon.exchange(b"ab") == b"ba"


def test_a_reply_that_nobody_waited_for_is_given_to_no_other_request(daemon: Daemon) -> None:
    daemon.answers[b"ab"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        daemon.exchange(b"ab")
    assert daemon.calls[0].was_cancelled
    assert daemon.exchange(b"cd") == b"dc"


def test_an_interruption_while_a_request_is_sent_ends_the_call(daemon: Daemon) -> None:
    """Otherwise its reply would be given to the next request."""

    class Interrupted(SimpleQueue[Iterable[bytes] | None]):
        def put(self, item: Iterable[bytes] | None, block: bool = True, timeout: float | None = None) -> None:
            super().put(item, block, timeout)
            if item is not None:
                raise KeyboardInterrupt

    assert daemon.exchange(b"ab") == b"ba"
    daemon.stream._requests = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        daemon.exchange(b"cd")
    assert daemon.calls[0].was_cancelled
    assert daemon.exchange(b"ef") == b"fe"


def test_a_child_leaves_the_call_to_its_parent(daemon: Daemon) -> None:
    assert daemon.exchange(b"ab") == b"ba"
    daemon.stream.forked()
    assert daemon.exchange(b"ab") is None
    daemon.stream.close()
    assert not daemon.calls[0].was_cancelled
    assert len(daemon.calls) == 1


def test_one_request_at_a_time(daemon: Daemon) -> None:
    entered, leave = threading.Event(), threading.Event()

    def answer() -> bytes:
        entered.set()
        assert leave.wait(30)
        return b"late"

    class Slow(dict[bytes, Any]):
        def get(self, key: bytes, default: Any = None) -> Any:
            return answer() if key == b"slow" else default

    daemon.answers = Slow()
    replies: list[bytes | None] = []
    thread = threading.Thread(target=lambda: replies.append(daemon.exchange(b"slow")))
    thread.start()
    assert entered.wait(30)
    assert daemon.exchange(b"ab") is None
    daemon.stream.close()  # it ends with the connection, or with the reply
    assert not daemon.calls[0].was_cancelled
    leave.set()
    thread.join()
    assert replies == [b"late"]
    wait_until(lambda: daemon.calls[0].was_cancelled)


def test_requests_and_replies_of_several_messages(daemon: Daemon) -> None:
    """The fake answers each message, so the reply has as many as the request."""
    for request in ([b"ab", b"cd", b"ef"], [b"gh"]):
        taken: list[bytes] = []

        def take(message: bytes, taken: list[bytes] = taken, request: list[bytes] = request) -> bool:
            taken.append(message)
            return len(taken) == len(request)

        assert daemon.stream.exchange(iter(request), take)
        assert taken == [each[::-1] for each in request]
    assert len(daemon.calls) == 1


@pytest.mark.parametrize("end", [None, grpc.StatusCode.CANCELLED], ids=str)
def test_a_reply_that_is_cut_off_between_messages_is_no_answer(
    daemon: Daemon, end: grpc.StatusCode | None
) -> None:
    daemon.answers[b"cd"] = end
    taken: list[bytes] = []

    def take(message: bytes) -> bool:
        taken.append(message)
        return False

    assert not daemon.stream.exchange(iter([b"ab", b"cd", b"ef"]), take)
    assert taken == [b"ba"]
    assert daemon.calls[0].was_cancelled


def test_a_message_that_is_not_valid_ends_the_call(daemon: Daemon) -> None:
    def take(_: bytes) -> bool:
        raise OpFailed("it is not valid")

    with pytest.raises(OpFailed):
        daemon.stream.exchange(iter([b"ab"]), take)
    assert daemon.calls[0].was_cancelled
    assert daemon.exchange(b"cd") == b"dc"
