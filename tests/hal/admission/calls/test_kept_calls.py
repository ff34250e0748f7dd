"""Calls that clients keep open: one for each session, and not for ever if there are too many."""

import threading
from contextlib import ExitStack

import pytest

from neurald.hal.admission.calls.kept_calls import KeptCalls
from neurald.hal.errors import ResourceExhaustedTransient


class Context:
    """The context of a call; records when it was cut off."""

    def __init__(self) -> None:
        self.is_cut = False

    def cancel(self) -> None:
        self.is_cut = True


def test_a_session_has_one() -> None:
    calls = KeptCalls(limit=4, grace_s=60)
    first, second = Context(), Context()
    with calls.open("a", first) as call:
        assert not call.is_over
        with calls.open("a", second) as successor:
            assert first.is_cut
            assert call.is_over
            assert not successor.is_over
    assert not second.is_cut
    calls.end("a")  # it has none
    assert not second.is_cut


def test_the_one_that_waits_longest_goes_first() -> None:
    calls = KeptCalls(limit=2, grace_s=0)
    contexts = [Context() for _ in range(4)]
    with ExitStack() as stack:
        first, second = (stack.enter_context(calls.open(n, contexts[n])) for n in range(2))
        with first.serving():
            pass  # so that the second one has waited longer
        stack.enter_context(calls.open(2, contexts[2]))
        assert [each.is_cut for each in contexts] == [False, True, False, False]
        assert second.is_over
        with first.serving():
            stack.enter_context(calls.open(3, contexts[3]))
        assert [each.is_cut for each in contexts] == [False, True, True, False]


def test_those_in_use_stay() -> None:
    calls = KeptCalls(limit=1, grace_s=0)
    context = Context()
    with calls.open("a", context) as call:
        with (
            call.serving(),
            pytest.raises(ResourceExhaustedTransient, match="1 clients keep calls open"),
            calls.open("b", Context()),
        ):
            pass
        calls = KeptCalls(limit=1, grace_s=60)
    with (
        calls.open("a", context),
        pytest.raises(ResourceExhaustedTransient),
        calls.open("b", Context()),
    ):
        pass
    assert not context.is_cut
    with calls.open("b", Context()):  # its place is free
        pass


def test_one_in_use_ends_with_its_reply() -> None:
    calls = KeptCalls(limit=1, grace_s=60)
    context = Context()
    with calls.open("a", context) as call:
        with call.serving():
            calls.end("a")
            assert not context.is_cut
        assert call.is_over


def test_one_whose_reply_is_being_sent_ends_with_it() -> None:
    calls = KeptCalls(limit=1, grace_s=60)
    context = Context()
    with calls.open("a", context) as call:
        with call.serving():
            pass
        calls.end("a")
        assert call.is_over
        assert not context.is_cut
        call.note_reply()
        calls.end("a")
        assert context.is_cut


def test_a_client_that_does_not_take_its_reply_keeps_no_place() -> None:
    calls = KeptCalls(limit=1, grace_s=0)
    contexts = [Context(), Context()]
    with calls.open("a", contexts[0]) as call:
        with call.serving():
            pass
        with calls.open("b", contexts[1]):
            assert [each.is_cut for each in contexts] == [True, False]
            assert call.is_over


def test_ends_from_many_threads() -> None:
    calls = KeptCalls(limit=2, grace_s=0)
    wrong: list[Exception] = []

    def use(session: int) -> None:
        try:
            for _ in range(200):
                try:
                    with calls.open(session, Context()) as call, call.serving():
                        calls.end(session)
                except ResourceExhaustedTransient:
                    continue
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=use, args=(n % 4,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    with calls.open("x", Context()), calls.open("y", Context()):
        pass
