"""Notes the phases of calls whose clients take a trace."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import grpc

from neurald.hal.rpc.transport.call_times import TRACE_KEY, PhaseTuple, encode_times, times_header

_R = TypeVar("_R")


class _Thread(threading.local):
    """Notes of a thread.

    Attributes:
        phases: the phases of the call under way; None if its client takes no trace.
        arrived_ns: when the request of a call that stays open arrived, if its times are wanted;
            None otherwise.
    """

    phases: list[PhaseTuple] | None = None
    arrived_ns: int | None = None


_thread: Final = _Thread()


_NOTHING: Final = contextlib.nullcontext()


class _Phase:
    """Notes a part of the call that this thread serves.

    Args:
        phases: the phases of the call.
        name: the name of the part.
    """

    # No generator, since a call has several parts, of which each would take longer than it notes.
    __slots__ = ("_name", "_phases", "_start_ns")

    def __init__(self, phases: list[PhaseTuple], name: str) -> None:
        self._phases = phases
        self._name = name

    def __enter__(self) -> None:
        self._start_ns = time.monotonic_ns()

    def __exit__(self, *error: object) -> None:
        self._phases.append((self._name, self._start_ns, time.monotonic_ns()))


def phase(name: str) -> AbstractContextManager[None]:
    """Notes a part of the call that this thread serves, if its client takes a trace."""
    phases = _thread.phases
    return _NOTHING if phases is None else _Phase(phases, name)


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
    """Notes the phases of a call; sends them unless it fails, as errors have metadata too."""
    arrived_ns = time.monotonic_ns()
    phases: list[PhaseTuple] = []
    _thread.phases = phases
    try:
        yield
    finally:
        _thread.phases = None
    times = encode_times(os.getpid(), arrived_ns, time.monotonic_ns(), phases)
    context.set_trailing_metadata((times_header(times),))


class _Request:
    """Notes the phases of a request; see `timed_request`."""

    __slots__ = ("_arrived_ns",)

    def __init__(self, arrived_ns: int) -> None:
        self._arrived_ns = arrived_ns

    def __enter__(self) -> None:
        _thread.phases, _thread.arrived_ns = [], self._arrived_ns

    def __exit__(self, *error: object) -> None:
        _thread.phases = _thread.arrived_ns = None


def timed_request(arrived_ns: int | None) -> AbstractContextManager[None]:
    """Notes the phases of a request of a call that stays open; see `times_of_request`.

    Args:
        arrived_ns: when it arrived; None if its client does not ask for its times.
    """
    return _NOTHING if arrived_ns is None else _Request(arrived_ns)


def times_of_request() -> bytes:
    """Returns the times so far of the request that this thread serves; empty if none are wanted."""
    arrived_ns = _thread.arrived_ns
    if arrived_ns is None:
        return b""
    return encode_times(os.getpid(), arrived_ns, time.monotonic_ns(), _thread.phases or ())
