"""Notes the phases of calls whose clients take a trace."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import grpc
from msgspec import Struct

from neurald.hal.process.fork import in_each_child
from neurald.hal.rpc.transport.call_times import (
    TRACE_KEY,
    PhaseTuple,
    encode_request_times,
    encode_times,
    times_header,
)

_R = TypeVar("_R")


# A struct, which native code makes in less time than a method of Python.
class _Noted(Struct, eq=False):
    """Notes of a call. A context manager.

    Attributes:
        arrived_ns: when it arrived.
        phases: its phases so far.
    """

    arrived_ns: int
    phases: list[PhaseTuple] = []

    def __enter__(self) -> None:
        _thread.noted = self

    def __exit__(self, *error: object) -> None:
        _thread.noted = None


class _Thread(threading.local):
    """Notes of a thread.

    Attributes:
        noted: what is noted of the call under way; None if its client takes no trace.
    """

    noted: _Noted | None = None


_thread: Final = _Thread()
_NOTHING: Final = contextlib.nullcontext()
#: The number of this process, for which asking the kernel takes longer than a phase.
_process: Final = [os.getpid()]


def _ask_for_process() -> None:
    _process[0] = os.getpid()


in_each_child(_ask_for_process)


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
    noted = _thread.noted
    return _NOTHING if noted is None else _Phase(noted.phases, name)


def note_execution(arrived_ns: int, admitted_ns: int) -> None:
    """Notes the parts of an execution that ends now, like `phase`, if its client takes a trace.

    Args:
        arrived_ns, admitted_ns: when it began to wait for the device, and got it.
    """
    noted = _thread.noted
    if noted is not None:
        noted.phases += (
            ("wait for the device", arrived_ns, admitted_ns),
            ("driver", admitted_ns, time.monotonic_ns()),
        )


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
    noted = _Noted(time.monotonic_ns())
    with noted:
        yield
    times = encode_times((_process[0], noted.arrived_ns, time.monotonic_ns(), noted.phases))
    context.set_trailing_metadata((times_header(times),))


def times_of_request(times_ns: Sequence[int]) -> bytes:
    """Returns the times of a request of a call that stays open, whose reply leaves now.

    Args:
        times_ns: when it arrived, was received, was admitted and had run.
    """
    return encode_request_times(_process[0], *times_ns, time.monotonic_ns())
