"""A client's end of a lane: runs a served model through shared memory.

Inputs are copied to the lane's arena, where the model's process writes the outputs behind them.
Large outputs are not copied: their arrays are on the arena's memory, in a region of their own,
which is used again once no array of the application refers to it. If all regions are in use,
outputs are copied out of one that is never lent. Inputs and outputs of other shapes are behind all
regions.
"""

import contextlib
import os
import select
import socket
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from neurald.hal.errors import (
    BadData,
    Cancelled,
    DeadObject,
    MissedDeadlineTransient,
    OpFailed,
    ResultCode,
    UnavailableDevice,
    error_for,
)
from neurald.hal.lanes.byte_strings import encode_byte_strings
from neurald.hal.lanes.opening import Opened, OpenRequest, decode_opened, encode_opening
from neurald.hal.lanes.packets import (
    BYTES,
    KEPT_ORDERS,
    Arena,
    Receipt,
    RunAnswer,
    TensorAt,
    aligned,
    decode_answer,
    encode,
)
from neurald.hal.lanes.repeats import RepeatedRuns
from neurald.hal.lanes.socket_end import receive, send
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.rpc.client.reach import require_trusted
from neurald.hal.rpc.transport.ring_end import WAKE

_MIN_ARENA_BYTES: Final = 1 << 18
#: Room for outputs behind the inputs, at least.
_MIN_RESULT_BYTES: Final = 1 << 16
#: Outputs from this size on are lent, in this many regions for inputs of the same shapes, if they
#: do not take more than this together. Only the first sets of shapes in an arena get regions, so
#: that the worker still keeps all orders, and the arena does not grow with each set.
_MIN_LENT_BYTES: Final = 1 << 16
_MAX_LENT_BYTES: Final = 1 << 26
_LENT_REGIONS: Final = 2
_MAX_LENDING_PLACES: Final = 2
_OPEN_S: Final = 10.0

Array = np.ndarray[Any, np.dtype[Any]]


class ClientLane:
    """Runs a model in its process, one run at a time. Not thread-safe.

    Args:
        path: the path of the service's socket.
        name, version: the name and version of the model.

    Attributes:
        opened: what the service says of the model.

    Raises:
        DeadObject: the model is not ready now.
        UnavailableDevice: no service listens there.
        Error: the service refuses.
    """

    def __init__(self, path: Path, name: str, version: str) -> None:
        self.opened, self._end = _open(path, OpenRequest(name=name, version=version))
        self._end.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._end, select.POLLIN)
        self._arena: SharedMemory | None = None
        self._result_bytes = _MIN_RESULT_BYTES
        self._wanted = tuple(range(len(self.opened.outputs)))
        self._places: dict[tuple[tuple[int, ...], ...], _Place] = {}
        #: The end of all regions that may be lent, behind which other places begin; and the number
        #: of places that have any.
        self._lent_end = 0
        self._lending_places = 0
        try:
            self._runs = RepeatedRuns(self._end)
        except OSError as error:
            self._end.close()
            raise DeadObject(f"the process of the model is gone: {error}") from None

    def close(self) -> None:
        """Closes the lane; a run under way is aborted."""
        self._end.close()
        if self._arena is not None:
            self._arena.close()
            self._arena = None

    def run(self, arrays: Sequence[Array], timeout_s: float | None) -> tuple[list[Array], Receipt]:
        """Runs the model.

        Args:
            arrays: the arrays of the types of the inputs, in their order; strings as objects of
                type bytes.
            timeout_s: how long it may take; None for no limit. If it takes longer, close the lane.

        Raises:
            DeadObject: the model's process is gone.
            MissedDeadlineTransient: the time is over.
            Error: the run failed.
        """
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            place = self._places.get(tuple([array.shape for array in arrays]))
            if place is None:
                place = self._place(arrays)
            for target, array in zip(place.targets, arrays, strict=True):
                np.copyto(target, array)
            region = place.free_region()
            if not self._runs.begin(place.inputs, region.results_at, self._wanted, region.results_end):
                answer, memory = self._told(end_s)
            elif (completed := self._completed(end_s)) is not None:
                answer, memory = completed, None
            else:
                answer, memory = self._told(end_s)
            return self._results(place, region, answer, memory), answer.receipt
        except TimeoutError:
            raise MissedDeadlineTransient(
                f"the served model has not answered within {timeout_s:g} s"
            ) from None
        except (OSError, *DECODE_ERRORS) as error:
            raise DeadObject(f"the process of the model is gone: {error}") from None
        except _Broken as error:
            raise DeadObject(f"the process of the model broke the rules: {error}") from None

    def _place(self, arrays: Sequence[Array]) -> "_Place":
        """Returns places in the arena for inputs of these shapes; strings are written there."""
        kinds = [described.kind for described in self.opened.inputs]
        encoded = [
            encode_byte_strings(array) if kind == BYTES else None
            for array, kind in zip(arrays, kinds, strict=True)
        ]
        sizes = [
            array.nbytes if text is None else len(text) for array, text in zip(arrays, encoded, strict=True)
        ]
        view = self._room(sum(map(aligned, sizes)) + self._result_bytes)
        tensors: list[TensorAt] = []
        targets: list[Array] = []
        at = self._lent_end
        for array, kind, text, size in zip(arrays, kinds, encoded, sizes, strict=True):
            tensors.append(TensorAt(kind=kind, shape=array.shape, offset=at, size=size))
            content = view[at : at + size]
            if text is not None:
                content[:] = text
                targets.append(array)
            else:
                targets.append(np.frombuffer(content, array.dtype).reshape(array.shape))
            at = aligned(at + size)
        place = _Place(targets=targets, inputs=tuple(tensors), results_at=at)
        if not any(text is not None for text in encoded):
            if len(self._places) >= KEPT_ORDERS:
                self._places.clear()
            self._places[tuple([array.shape for array in arrays])] = place
        return place

    def _room(self, size: int) -> memoryview:
        """Returns an arena with this much room behind what may be lent: this one if it has it."""
        size += self._lent_end
        if self._arena is None or self._arena.size < size:
            # A forked process gets a copy, since the application's arrays may be there.
            arena = SharedMemory.working(max(_MIN_ARENA_BYTES, 1 << (size - 1).bit_length()), "neurald lane")
            self._runs.send_packet(encode(Arena(size=arena.size)), arena.fd)
            self._runs.forget()
            self._places.clear()
            if self._arena is not None:
                self._arena.close()
            self._arena = arena
            self._lent_end = self._lending_places = 0
        return self._arena.view()

    def _results(
        self, place: "_Place", region: "_Region", answer: RunAnswer, memory: SharedMemory | None
    ) -> list[Array]:
        """Returns the outputs: copies, or arrays in a region that is lent."""
        if memory is not None:
            is_lent = memory.size * (_LENT_REGIONS + 1) <= _MAX_LENT_BYTES
            self._result_bytes = max(
                self._result_bytes, memory.size * (2 + (_LENT_REGIONS + 1 if is_lent else 0))
            )
            # Larger arenas have room for them next time.
            self._places.clear()
            view = memory.view()
            memory.close()
        elif region.answered is answer.outputs:
            return self._taken(region)
        else:
            view = self._room(0)
        if len(answer.outputs) != len(self.opened.outputs):
            raise _Broken("it has returned other outputs than were wanted")
        outputs = [tensor.in_arena(view) for tensor in answer.outputs]
        if any(tensor.kind == BYTES for tensor in answer.outputs) or memory is not None:
            return [each if each.dtype.hasobject else each.copy() for each in outputs]
        region.outputs, region.answered = outputs, answer.outputs
        if region is place.regions[0] and len(place.regions) == 1:
            self._add_regions(place, answer.outputs)
        return self._taken(region)

    def _add_regions(self, place: "_Place", outputs: tuple[TensorAt, ...]) -> None:
        """Creates regions that can be lent, if the outputs are large and fit in the arena."""
        if sum(each.size for each in outputs) < _MIN_LENT_BYTES or self._arena is None:
            return
        if self._lending_places >= _MAX_LENDING_PLACES:
            return
        first = place.regions[0].results_at
        span = aligned(max(each.offset + each.size for each in outputs) - first)
        count = min(_LENT_REGIONS, (self._arena.size - first) // span - 1)
        if count <= 0:
            return
        # Outputs may be longer another time, and must not reach into the next region.
        place.regions = [
            _Region(first + number * span, first + (number + 1) * span, may_be_lent=number > 0)
            for number in range(count + 1)
        ]
        self._lent_end = place.regions[-1].results_end
        self._lending_places += 1
        # The others begin where this one does, so they get a place behind it.
        self._places = {
            shapes: each for shapes, each in self._places.items() if each is place or len(each.regions) > 1
        }

    def _taken(self, region: "_Region") -> list[Array]:
        """Returns the outputs: copies, or arrays on the memory of a region that is lent."""
        arena, outputs = self._arena, region.answered
        if arena is None or not outputs or not region.may_be_lent:
            return [each.copy() for each in region.outputs]
        # All arrays refer to this one, and so do those that the application makes of them.
        whole = np.frombuffer(arena.view(), np.uint8)
        region.lease = weakref.ref(whole)
        weakref.finalize(whole, _keep, arena).atexit = False
        return [
            whole[tensor.offset : tensor.offset + tensor.size].view(source.dtype).reshape(source.shape)
            for tensor, source in zip(outputs, region.outputs, strict=True)
        ]

    def _completed(self, end_s: float | None) -> RunAnswer | None:
        """Waits for the end of a repeated run; returns None if a packet tells its answer."""
        ring = self._runs.ring
        began = time.perf_counter()
        try:
            if not ring.spin():
                while not ring.sleep(_left_s(end_s)):
                    self._take_packet()
            ring.note_wait(time.perf_counter() - began)
            return self._runs.completed()
        except BadData as error:
            raise _Broken(str(error)) from None

    def _take_packet(self) -> None:
        """Takes a packet that has arrived before a completion, which may only be one that wakes."""
        with contextlib.suppress(BlockingIOError):
            packet, descriptor = receive(self._end)
            if descriptor is not None:
                os.close(descriptor)
            if not packet:
                raise ConnectionResetError("it has closed the lane")
            if packet[0] != WAKE:
                raise _Broken("it has answered a run that was not begun")
            self._runs.ring.note_wake(packet)

    def _told(self, end_s: float | None) -> tuple[RunAnswer, SharedMemory | None]:
        """Waits for a packet with an answer; returns it, and the memory that came along."""
        descriptor: int | None = None
        try:
            packet = bytes((WAKE,))
            while packet[0] == WAKE:
                if descriptor is not None:
                    raise _Broken("it has sent a memory that belongs to no answer")
                left_s = _left_s(end_s)
                if not self._poll.poll(None if left_s is None else left_s * 1000):
                    raise TimeoutError
                packet, descriptor = receive(self._end)
                if not packet:
                    raise ConnectionResetError("it has closed the lane")
            answer = decode_answer(packet)
            try:
                self._runs.note(answer)
            except BadData as error:
                raise _Broken(str(error)) from None
            if not isinstance(answer, RunAnswer):
                if answer.is_cancelled:
                    raise Cancelled(answer.message)
                raise _error(answer.code, answer.message)
            if not answer.attached_bytes:
                return answer, None
            if descriptor is None:
                raise _Broken("it has sent no memory")
            received, descriptor = descriptor, None
            return answer, SharedMemory.received(received, answer.attached_bytes, constant=False)
        finally:
            if descriptor is not None:
                os.close(descriptor)


def _keep(arena: SharedMemory) -> None:
    """Keeps an arena until it is called: forked processes get a copy of it as long as it lives."""


class _Broken(Exception):
    """The model's process breaks the rules of lanes."""


class _Region:
    """The place of the outputs of a run in the arena.

    Args:
        results_at, results_end: where they may begin, and must have ended; see `RunOrder`.
        may_be_lent: whether arrays of the application may refer to it.

    Attributes:
        answered: the outputs of the last answer, of which `outputs` are arrays.
        lease: refers to what the arrays that were lent keep alive; None if there were none.
    """

    def __init__(self, results_at: int, results_end: int, *, may_be_lent: bool) -> None:
        self.results_at = results_at
        self.results_end = results_end
        self.may_be_lent = may_be_lent
        self.outputs: Sequence[Array] = ()
        self.answered: tuple[TensorAt, ...] | None = None
        self.lease: weakref.ReferenceType[Array] | None = None


class _Place:
    """The place of the tensors of runs in the arena.

    Args:
        targets: the inputs as arrays; strings are already there.
        inputs: the inputs.
        results_at: where outputs may begin.

    Attributes:
        regions: the regions for outputs. The first one is never lent.
    """

    def __init__(self, *, targets: Sequence[Array], inputs: tuple[TensorAt, ...], results_at: int) -> None:
        self.targets = targets
        self.inputs = inputs
        self.regions = [_Region(results_at, 0, may_be_lent=False)]

    def free_region(self) -> _Region:
        """Returns a region to which no array of the application refers, if possible one to lend."""
        for region in reversed(self.regions):
            if region.lease is None or region.lease() is None:
                return region
        return self.regions[0]


def _left_s(end_s: float | None) -> float | None:
    """Returns the seconds until a time; raises TimeoutError if it has passed."""
    if end_s is None:
        return None
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def require_service(path: Path) -> None:
    """Requires that an execution service answers at a socket.

    Raises:
        UnavailableDevice: none does.
    """
    with _connected(path):
        pass


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[socket.socket]:
    """Connects to a service, and reports failures of the connection as those of the service."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(_OPEN_S)
            connection.connect(str(path))
            require_trusted(connection, path)
            yield connection
    except OSError as error:
        raise UnavailableDevice(
            f"no execution service answers at {path} ({error.strerror or error}); `neurald serve --grpc` starts one"
        ) from None


def _open(path: Path, wanted: OpenRequest) -> tuple[Opened, socket.socket]:
    """Asks the service for a lane; returns what it says of the model, and the lane's socket."""
    with _connected(path) as connection:
        send(connection, encode_opening(wanted))
        packet, descriptor = receive(connection)
    end = None if descriptor is None else socket.socket(fileno=descriptor)
    try:
        answer = decode_opened(packet)
    except DECODE_ERRORS as error:
        if end is not None:
            end.close()
        raise UnavailableDevice(f"the service at {path} is of another version: {error}") from None
    if isinstance(answer, Opened) and end is not None:
        return answer, end
    if end is not None:
        end.close()
    if isinstance(answer, Opened):
        raise DeadObject("the service has sent no lane")
    raise _error(answer.code, answer.message)


def _error(code: int, message: str) -> Exception:
    """Returns the error that the other side has reported, whose code may be any number."""
    try:
        found = ResultCode(code)
    except ValueError:
        found = ResultCode.OP_FAILED
    if found is ResultCode.OUTPUT_INSUFFICIENT_SIZE:
        return BadData(message)
    return OpFailed(message) if found is ResultCode.NO_ERROR else error_for(found, message)
