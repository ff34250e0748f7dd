"""The windows of a lane: regions of clients that its worker uses in place.

A known request with large tensors is run in place after some copies: the worker maps its regions,
and reads and writes them itself. What the client does to a region meanwhile reaches no other one:
see `neurald.service.inference.mapping.guarded_copy`. Before and after each such run the regions are
checked; after it, the worker also tells whether it has lost pages of one.
"""

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from neurald.hal.lanes.packets import ALIGNMENT, CUT, KEPT_WINDOWS, LaneWindow, TensorAt, aligned, encode
from neurald.service.inference.protocol.tensors import RegionFile, RegionPlace

#: Requests with fewer bytes are run as fast with copies.
_MIN_BYTES: Final = 1 << 16
#: How often a request is run with copies before it is run in place. To map a region takes as long
#: as many copies.
_COPIED_RUNS: Final = 16
#: How often it is when it could not be run in place.
_COPIED_RUNS_AFTER_FAILURE: Final = 1024
#: The most requests of a lane that are run in place, so that the worker keeps the orders of all of
#: them, and how long one of them must not have come for another one to take its place.
_MAX_REQUESTS: Final = 16
_IDLE_S: Final = 1.0


class PlacedTensor(Struct, frozen=True, kw_only=True, eq=False):
    """A tensor of a request, which is in a region.

    Attributes:
        tensor: the tensor as it is in an arena.
        place: its place in a region.
    """

    tensor: TensorAt
    place: RegionPlace

    def overlaps(self, other: "PlacedTensor") -> bool:
        """Returns whether two tensors have bytes in common."""
        mine, theirs = self.place, other.place
        return (
            mine.region.file == theirs.region.file
            and mine.offset < theirs.offset + other.tensor.size
            and theirs.offset < mine.offset + self.tensor.size
        )


class InPlace(Struct, frozen=True, kw_only=True, eq=False):
    """The way in which a request is run in place.

    Attributes:
        inputs, results, results_end: see `RunOrder`.
        windows: how many windows it uses.
    """

    inputs: tuple[TensorAt, ...]
    results: tuple[TensorAt, ...]
    results_end: int
    windows: int

    @property
    def room(self) -> int:
        """The size of the arena that it takes."""
        return self.results_end + self.windows * CUT.size

    def is_cut(self, arena: memoryview) -> bool:
        """Returns whether the worker has lost pages of a window."""
        return any(arena[self.results_end : self.room])


class RegionalRequest(Protocol):
    """A known request, whose tensors are all in regions; it may be referred to weakly.

    Attributes:
        room: the size of the arena in which it is run with copies.
    """

    room: int

    @property
    def placed_inputs(self) -> Sequence[PlacedTensor]:
        """The inputs. The regions are in use."""

    @property
    def placed_outputs(self) -> Sequence[PlacedTensor]:
        """The outputs. The regions are in use."""


class _Request:
    """A request that has come to a lane."""

    def __init__(self) -> None:
        self.copied_runs_left = _COPIED_RUNS
        self.used_s = 0.0
        self.in_place: InPlace | None = None


class LaneWindows:
    """Decides which requests a lane runs in place, and gives its worker the windows for that.

    Who has the lane uses it alone.

    Args:
        send: sends a packet with a descriptor to the worker, and raises OSError if that is gone.
        forget: forgets all orders of the lane.
        cut: has the worker give the memory of a window back. Any thread may call it.
    """

    def __init__(
        self,
        send: Callable[[bytes, int], None],
        forget: Callable[[], None],
        cut: Callable[[int], None],
    ) -> None:
        self._send = send
        self._forget = forget
        self._cut = cut
        self._latest = 0
        #: The region of each window, from the oldest to the newest, as the worker has them; None if
        #: the window is not used any more.
        self._regions: dict[int, weakref.ref[RegionFile] | None] = {}
        self._ends: dict[int, weakref.finalize[[int], RegionFile]] = {}
        self._requests: weakref.WeakKeyDictionary[RegionalRequest, _Request] = weakref.WeakKeyDictionary()

    def in_place(self, request: RegionalRequest) -> InPlace | None:
        """Returns how a request is run in place; None if it is run with copies now.

        Args:
            request: the request, whose regions are in use.

        Raises:
            OSError: the worker is gone.
        """
        known = self._requests.get(request)
        if known is None:
            known = self._requests[request] = _Request()
        if known.copied_runs_left:
            known.copied_runs_left -= 1
            return None
        now_s = time.monotonic()
        if known.in_place is None:
            known.in_place = self._admitted(request, now_s)
            if known.in_place is None:
                known.copied_runs_left = _COPIED_RUNS
                return None
        known.used_s = now_s
        return known.in_place

    def refuse(self, request: RegionalRequest) -> None:
        """Runs a request with copies for a while, since it could not be run in place."""
        known = self._requests[request]
        known.in_place = None
        known.copied_runs_left = _COPIED_RUNS_AFTER_FAILURE

    def renew(self, request: RegionalRequest) -> None:
        """Gives the worker the regions of a request again before it is run in place once more."""
        for each in (*request.placed_inputs, *request.placed_outputs):
            number = self._number_of(each.place.region)
            if number:
                self._regions[number] = None
        known = self._requests[request]
        known.in_place = None
        known.copied_runs_left = _COPIED_RUNS

    def close(self) -> None:
        """Ends it with its lane."""
        for end in self._ends.values():
            end.detach()
        self._ends.clear()
        self._regions.clear()
        self._requests.clear()

    def _admitted(self, request: RegionalRequest, now_s: float) -> InPlace | None:
        """Returns how a request is run in place from now on, if it can be and there is room."""
        inputs, outputs = request.placed_inputs, request.placed_outputs
        if sum(each.tensor.size for each in (*inputs, *outputs)) < _MIN_BYTES:
            return None
        others = [known for known in self._requests.values() if known.in_place is not None]
        if len(others) >= _MAX_REQUESTS:
            oldest = min(others, key=lambda known: known.used_s)
            if now_s - oldest.used_s < _IDLE_S:
                return None
            oldest.in_place, oldest.copied_runs_left = None, _COPIED_RUNS
        # What the model reads must not be written meanwhile.
        are_apart = not any(
            output.overlaps(other)
            for position, output in enumerate(outputs)
            for other in (*inputs, *outputs[:position])
        )
        sources = tuple(map(self._placed, inputs))
        results = tuple(map(self._placed, outputs)) if are_apart else ()
        if not all(each.window for each in results):
            results = ()
        windows = {each.window for each in (*sources, *results) if each.window}
        # The first ones are gone if there are more regions than windows.
        if not windows or any(self._regions.get(number) is None for number in windows):
            return None
        return InPlace(
            inputs=sources, results=results, results_end=aligned(request.room), windows=len(windows)
        )

    def _placed(self, given: PlacedTensor) -> TensorAt:
        """Returns a tensor in a window, or in the arena if it cannot be in one."""
        tensor, place = given.tensor, given.place
        region = place.region
        if not tensor.size or place.offset % ALIGNMENT:
            return tensor
        return TensorAt(
            kind=tensor.kind,
            shape=tensor.shape,
            offset=place.offset - region.offset,
            size=tensor.size,
            window=self._number_of(region) or self._opened(region),
        )

    def _number_of(self, region: RegionFile) -> int:
        """Returns the number of the window of a region; 0 if it has none."""
        for number, reference in self._regions.items():
            if reference is not None and reference() is region:
                return number
        return 0

    def _opened(self, region: RegionFile) -> int:
        """Gives the worker a window on a region; returns its number."""
        if len(self._regions) >= KEPT_WINDOWS:
            oldest = next(iter(self._regions))
            del self._regions[oldest]
            self._ends.pop(oldest).detach()
            self._forget()
            for known in self._requests.values():
                known.in_place = None
        self._latest += 1
        number = self._latest
        self._send(
            encode(LaneWindow(number=number, offset=region.offset, size=region.size)), region.descriptor
        )
        self._regions[number] = weakref.ref(region)
        end = self._ends[number] = weakref.finalize(region, self._cut, number)
        end.atexit = False
        return number
