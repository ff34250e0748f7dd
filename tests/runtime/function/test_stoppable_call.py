"""Calls in other threads that are stopped while they run."""

import asyncio
from concurrent.futures import CancelledError, Future
from typing import Any

import numpy as np
import pytest
from support.models.hostile import endless
from support.tflite.litert_files import sums
from support.waiting import wait_until

import neurald as nd
from neurald.runtime.execution.background.worker_pool import MAX_AT_ONCE
from neurald.runtime.function.compiled_function import CompiledFunction
from neurald.runtime.function.stoppable_call import StoppableCall

ARRAYS = np.zeros(1, np.float32), np.zeros(2, np.float32)


@pytest.fixture
def function() -> nd.CompiledFunction:
    """A function whose calls end when they are stopped, or with another error after two seconds."""
    return nd.compile(endless(), "cpu")


def _begun(function: nd.CompiledFunction) -> "Future[Any]":
    call = function.submit(*ARRAYS)
    assert isinstance(call, StoppableCall)
    wait_until(lambda: call._execution is not None)
    return call


def test_a_call_that_runs_is_stopped(function: nd.CompiledFunction) -> None:
    call = _begun(function)
    assert not call.cancel()
    with pytest.raises(nd.Cancelled):
        call.result(60)
    assert not call.cancel()


def test_a_coroutine_that_is_cancelled_stops_its_call(
    function: nd.CompiledFunction, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, submit = list["Future[Any]"](), CompiledFunction.submit

    def noted(self: nd.CompiledFunction, *arrays: Any) -> "Future[Any]":
        calls.append(submit(self, *arrays))
        return calls[-1]

    monkeypatch.setattr(CompiledFunction, "submit", noted)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(function.run_async(*ARRAYS), 0.05))
    assert isinstance(calls[0].exception(60), nd.Cancelled)


def test_a_call_that_has_not_begun_never_does(function: nd.CompiledFunction) -> None:
    running = [_begun(function) for _ in range(MAX_AT_ONCE)]
    waiting = function.submit(*ARRAYS)
    assert waiting.cancel()
    with pytest.raises(CancelledError):
        waiting.result(60)
    for call in running:
        call.cancel()
        assert isinstance(call.exception(60), nd.Cancelled)


def test_a_call_that_is_stopped_before_it_computes(function: nd.CompiledFunction) -> None:
    call = StoppableCall()
    assert call.set_running_or_notify_cancel()
    assert not call.cancel()
    with pytest.raises(nd.Cancelled):
        function.compilation.run_stoppable(ARRAYS, call.begin)


@pytest.mark.parametrize("receipts", [False, True])
def test_results_of_calls_that_are_not_stopped(receipts: bool) -> None:
    adding = nd.compile(sums().build(), "cpu", receipts=receipts)
    x = np.ones((2, 3), np.float32)
    for _ in range(3):  # the later ones are known to be short
        call = adding.submit(x, x)
        np.testing.assert_array_equal(call.result(60)[0], adding(x, x)[0])
        assert not call.cancel()
    assert (adding.last_receipt is not None) == receipts
