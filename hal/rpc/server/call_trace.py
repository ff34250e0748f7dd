"""Notes the phases of calls whose clients take a trace."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import grpc

from neurald.hal.rpc.transport.call_times import TRACE_KEY, CallPhase, CallTimes, encode_times, times_header

_R = TypeVar("_R")


class _Thread(threading.local):
    """Notes of a thread.

    Attributes:
        phases: of the call under way; None if its client takes no trace.
        arrived_ns: when the request of a call that stays open arrived, if its times are wanted;
            None otherwise.
    """

    phases: list[CallPhase] | None = None
    arrived_ns: int | None = None


_thread: Final = _Thread()


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Notes a part of the call that this thread serves, if its client takes a trace."""
    phases = _thread.phases
    if phases is None:
        yield
        return
    start_ns = time.monotonic_ns()
    try:
        yield
    finally:
        phases.append(CallPhase(name, start_ns, time.monotonic_ns()))


def timed_call(
    behaviour: Callable[[Any, grpc.ServicerContext], _R],
) -> Callable[[Any, grpc.ServicerContext], _R]:
    """Makes a call with one reply send its times to clients that ask for them."""

    def call(request: Any, context: grpc.ServicerContext) -> _R:
        if not _is_asked(context):
            return behaviour(request, context)
        with _noted(context):
            return behaviour(request, context)

    return call


def timed_stream(
    behaviour: Callable[[Any, grpc.ServicerContext], Iterator[_R]],
) -> Callable[[Any, grpc.ServicerContext], Iterator[_R]]:
    """Makes a call with many replies send its times to clients that ask for them."""

    def call(request: Any, context: grpc.ServicerContext) -> Iterator[_R]:
        if not _is_asked(context):
            return behaviour(request, context)
        return _noted_replies(behaviour, request, context)

    return call


def _noted_replies(
    behaviour: Callable[[Any, grpc.ServicerContext], Iterator[_R]],
    request: Any,
    context: grpc.ServicerContext,
) -> Iterator[_R]:
    with _noted(context):
        yield from behaviour(request, context)


def _is_asked(context: grpc.ServicerContext) -> bool:
    return any(key == TRACE_KEY for key, _ in context.invocation_metadata() or ())


@contextlib.contextmanager
def _noted(context: grpc.ServicerContext) -> Iterator[None]:
    """Notes the phases of a call; sends them, unless the call fails, since errors have metadata too."""
    arrived_ns = time.monotonic_ns()
    phases: list[CallPhase] = []
    _thread.phases = phases
    try:
        yield
    finally:
        _thread.phases = None
    times = CallTimes(os.getpid(), arrived_ns, time.monotonic_ns(), tuple(phases))
    context.set_trailing_metadata((times_header(times),))


@contextlib.contextmanager
def timed_request(arrived_ns: int | None) -> Iterator[None]:
    """Notes the phases of a request of a call that stays open; see `times_of_request`.

    Args:
        arrived_ns: when it arrived; None if its client does not ask for its times.
    """
    if arrived_ns is None:
        yield
        return
    _thread.phases, _thread.arrived_ns = [], arrived_ns
    try:
        yield
    finally:
        _thread.phases = _thread.arrived_ns = None


def times_of_request() -> bytes:
    """Returns the times so far of the request that this thread serves; empty if none are wanted."""
    if _thread.arrived_ns is None:
        return b""
    phases = tuple(_thread.phases or ())
    return encode_times(CallTimes(os.getpid(), _thread.arrived_ns, time.monotonic_ns(), phases))
