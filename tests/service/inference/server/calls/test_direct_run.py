"""The ends of requests of gRPC: one for each, and nothing is left of them afterwards."""

import gc
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from neurald.service.inference.models.statistics.statistics import FailureReason
from neurald.service.inference.server.calls.calls import Calls
from neurald.service.inference.server.calls.direct_run import DirectRun
from neurald.service.inference.server.grpc.server_call import ServerCall

REQUEST: Any = SimpleNamespace(release=lambda: None)
TRACES: Any = SimpleNamespace(settings=SimpleNamespace(is_on=False))


class Version:
    """A model that answers at once, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.failures: list[FailureReason | None] = []

    def begin_at_once(self, request: Any, encode: Any, timeout_s: Any, end: Any, *_: Any) -> Any:
        job = SimpleNamespace(end=end, attempts=1)

        def run(will_wait: Any) -> None:
            if self.error is not None:
                end.set_exception(self.error)
            else:
                end.set_result(b"answer")

        return SimpleNamespace(job=job, run=run)

    def note_end(self, job: Any, failure: FailureReason | None) -> None:
        self.failures.append(failure)


def call_with(sent: list[Any]) -> ServerCall:
    details = SimpleNamespace(method=b"/test/Direct", deadline=1e18)
    core = SimpleNamespace(start_server_batch=lambda operations, tag: sent.append(operations))
    event: Any = SimpleNamespace(call=core, invocation_metadata=(), call_details=details)
    server: Any = SimpleNamespace(has_shut_down=False)
    return ServerCall(server, event)


@pytest.mark.parametrize("error", [None, ValueError("no")])
def test_nothing_of_a_request_is_left_for_the_collector(error: Exception | None) -> None:
    """Requests have large tensors, whose memory is used again at once."""
    gc.collect()
    gc.disable()
    try:
        sent: list[Any] = []
        call, version = call_with(sent), Version(error)

        def ended(answer: object, failure: Exception | None, call: ServerCall = call) -> None:
            if failure is None:
                assert isinstance(answer, bytes)
                call.finish(answer)
            else:
                call.refuse(grpc.StatusCode.INTERNAL, str(failure))

        run = DirectRun(REQUEST, TRACES, ended)
        call.abandon_by(lambda run=run: run.abandon())  # type: ignore[misc]
        assert run.begin_at_once(version, bytes, None)  # type: ignore[arg-type]
        assert run.run_at_once(lambda: None) is None
        assert len(sent) == 1
        assert version.failures == [None if error is None else FailureReason.BACKEND]
        left = weakref.ref(run)
        del run, ended, call
        sent.clear()
        assert left() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("is_found_at_first", [True, False])
@pytest.mark.parametrize("leaves", [True, False])
def test_a_request_that_cannot_begin_ends_once(is_found_at_first: bool, leaves: bool) -> None:
    """Its client may have left meanwhile: what it has taken is given back once."""
    told: list[Exception | None] = []
    left: list[bool] = []

    found = [SimpleNamespace(refusal=lambda timeout_s, request: None)] * is_found_at_first

    def find(model: str, version: str) -> Any:
        return found.pop()

    calls: Any = SimpleNamespace(_traces=TRACES, registry=SimpleNamespace(find=find))
    request: Any = SimpleNamespace(release=lambda: None, model="m", version="")
    rest = Calls.begin(
        calls,
        request,
        bytes,  # type: ignore[arg-type]
        None,
        lambda _, error: told.append(error),
        lambda abandon: left.append(abandon()) if leaves else None,
        None,
    )
    assert (rest is not None) is is_found_at_first
    if rest is not None:
        rest()
    assert left == [True] * leaves
    assert len(told) == (not leaves)


def test_one_of_several_threads_ends_a_request() -> None:
    for _ in range(200):
        ends: list[object] = []
        run = DirectRun(REQUEST, TRACES, lambda answer, _, ends=ends: ends.append(answer))  # type: ignore[misc]
        others = [threading.Thread(target=run.set_result, args=(n,)) for n in range(2)]
        others.append(
            threading.Thread(target=lambda run=run, ends=ends: run.abandon() and ends.append("left"))
        )
        for thread in others:
            thread.start()
        for thread in others:
            thread.join()
        assert len(ends) == 1
