"""Finds kernels that run together in bands, see `neurald.drivers.cpu.native.programs.step_program`.

Kernels qualify that follow each other, and of which each reads its predecessor's results as a
product or a depthwise convolution does: at the same positions, or in windows around them. A band is
a unit of the last kernel. For each band there is a range of work items of each kernel, such that
the results that the next kernels need are there.

If results are large, bands keep them in the second-level cache. If windows are single pixels,
threads need not wait for each other between the kernels. Otherwise each thread has to compute the
rows around its bands for itself, so that there is a limit to the number of threads, and shorter
sequences for more threads.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Load
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.graph import Convolution, DepthwiseConvolution, MatrixProduct
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common.window import WindowDimension, window_dimensions
from neurald.drivers.cpu.native.programs.step_program import MAX_BALANCING_CHUNKS
from neurald.drivers.cpu.target.executable import (
    ANY_THREADS,
    MAX_BANDED_ARGUMENTS,
    MAX_STREAMS,
    BandedCalls,
    BandStream,
)
from neurald.drivers.cpu.target.routine import ALIGNMENT, OrderedUnits, Routine

#: Results of at least this size are passed on in bands; smaller ones stay in the caches. With
#: windows of single pixels, all threads save waiting for each other.
_MIN_BYTES, _MIN_POINTWISE_BYTES = 512 << 10, 96 << 10
#: Maximum size of the results that a band passes on, and of those of the bands of a turn.
_MAX_BAND_BYTES, _TURN_BYTES = 64 << 10, 96 << 10
#: Maximum share of the work that threads repeat.
_MAX_REPEATED = 0.05
#: Numbers of threads that are considered. A sequence without repeated work is for any number.
_THREADS = (1, 2, 4, 8, 16, 32)
_MAX_CALLS = 64
#: Maximum number of bands that threads share, since each makes the artifact larger.
_MAX_BANDS = 256
#: Size of a stream's buffer, relative to what a turn needs.
_ROOM = 1.5
_OUTSIDE = -1

#: Returns the range of positions of the input that a range of positions of the output needs.
_Needed = Callable[[int, int], tuple[int, int]]


class BandedCall(Protocol):
    """A kernel and its routine."""

    @property
    def kernel(self) -> Kernel:
        """The kernel."""

    @property
    def routine(self) -> Routine:
        """The routine of the kernel."""


class _Link(Struct, frozen=True, kw_only=True):
    """A value that a kernel of a sequence reads.

    Attributes:
        producer: position of the kernel that computes it.
        needed: which of its positions.
        has_window: whether windows have several rows.
    """

    producer: int
    needed: _Needed
    has_window: bool


def banded_calls(calls: Sequence[BandedCall], graph: FusedGraph) -> tuple[BandedCalls, ...]:
    """Returns the sequences of kernels that may run in bands; they may overlap.

    Args:
        calls: all kernels, in order.
        graph: their graph.
    """
    return tuple(_Sequences(calls, graph).all())


class _Sequences:
    def __init__(self, calls: Sequence[BandedCall], graph: FusedGraph) -> None:
        self._calls, self._graph = calls, graph
        #: The kernels that read or write each value; `_OUTSIDE` is among those of outputs.
        self._readers: dict[Value, set[int]] = {}
        for number, call in enumerate(calls):
            for value in call.routine.arguments:
                self._readers.setdefault(self._owner(value), set()).add(number)
        for value in (*graph.inputs, *graph.outputs):
            self._readers.setdefault(value, set()).add(_OUTSIDE)

    def all(self) -> Iterator[BandedCalls]:
        first = 0
        while first < len(self._calls):
            links: list[list[_Link]] = [[]]
            best: tuple[BandedCalls, list[list[_Link]]] | None = None
            while len(links) < _MAX_CALLS and first + len(links) < len(self._calls):
                found = self._links(first, first + len(links))
                if found is None:
                    break
                links.append(found)
                banded = self._banded(first, links)
                if banded is None:
                    if self._band_bytes(first, len(links)) > _MAX_BAND_BYTES:
                        break
                    continue
                best = banded, list(links)
            if best is None:
                first += 1
                continue
            banded, links = best
            yield banded
            if banded.max_threads < ANY_THREADS:
                yield from self._pieces(first, links)
            first += banded.calls

    def _pieces(self, first: int, links: list[list[_Link]]) -> Iterator[BandedCalls]:
        """Yields the parts of a sequence whose windows are single pixels."""
        start = 0
        for number in range(1, len(links) + 1):
            if number < len(links) and not any(
                link.has_window or link.producer < start for link in links[number]
            ):
                continue
            if number - start > 1:
                own = [
                    [
                        _Link(producer=link.producer - start, needed=link.needed, has_window=link.has_window)
                        for link in each
                        if link.producer >= start
                    ]
                    for each in links[start:number]
                ]
                banded = self._banded(first + start, own)
                if banded is not None:
                    yield banded
            start = number

    def _owner(self, value: Value) -> Value:
        return self._graph.aliases.get(value, value)

    def _links(self, first: int, number: int) -> list[_Link] | None:
        """Returns what a kernel reads of those from `first` on; None if it does not qualify."""
        call, before = self._calls[number], self._calls[number - 1]
        if not (_qualifies(call) and _qualifies(before)):
            return None
        source, needed, has_window = _source(call.kernel)
        if source is None:
            return None
        producers = {self._owner(self._calls[each].kernel.output): each for each in range(first, number)}
        if producers.get(self._owner(source)) != number - 1 or not self._is_whole(source, before.kernel):
            return None
        size = before.kernel.output.size_bytes
        if size < (_MIN_BYTES if has_window else _MIN_POINTWISE_BYTES):
            return None
        links = [_Link(producer=number - 1 - first, needed=needed, has_window=has_window)]
        for each in call.kernel.expressions:
            if not isinstance(each, Load):
                continue
            producer = producers.get(self._owner(each.value))
            if producer is None:
                continue
            if each.guard is not None or tuple(each.index) != tuple(call.kernel.axes):
                return None
            if not self._is_whole(each.value, self._calls[producer].kernel):
                return None
            links.append(_Link(producer=producer - first, needed=_same, has_window=False))
        # A kernel that writes a part of another's memory would have to come after its readers.
        return None if self._owner(call.kernel.output) in producers else links

    def _is_whole(self, value: Value, kernel: Kernel) -> bool:
        """Returns True if the positions of a value are those that a kernel computes."""
        graph, output = self._graph, kernel.output
        if kernel.output_offset is not None or graph.starts.get(value) or graph.starts.get(output):
            return False
        return value.shape[-1] == kernel.shape[-1] and value.count == output.count

    def _band_bytes(self, first: int, count: int) -> float:
        units = self._calls[first + count - 1].routine.units
        size = sum(each.kernel.output.size_bytes for each in self._calls[first : first + count - 1])
        return size / max(1, len(units.begins) if units is not None else 1)

    def _banded(self, first: int, links: list[list[_Link]]) -> BandedCalls | None:
        """Returns the bands of a sequence; None if they are too large."""
        count = len(links)
        size = self._band_bytes(first, count)
        units = [each.routine.units for each in self._calls[first : first + count]]
        known = [each for each in units if each is not None]
        if len(known) < count or size > _MAX_BAND_BYTES:
            return None
        table = _table(known, links)
        calls = self._calls[first : first + count]
        costs = [each.routine.cost_ns / max(1, each.routine.work_items) for each in calls]
        # Without such windows, threads repeat a few positions of tiles at most.
        has_windows = any(link.has_window for each in links[1:] for link in each)
        threads = _max_threads(table, costs) if has_windows else ANY_THREADS
        turn = max(1, int(_TURN_BYTES / max(1.0, size)))
        merged = turn if threads == 1 else -(-len(table[0]) // _MAX_BANDS)
        table = [_merged(row, merged) for row in table]
        turn = max(1, turn // merged)
        has_large = any(each.kernel.output.size_bytes >= _MIN_BYTES for each in calls[:-1])
        streams, bytes_ = self._streams(first, table, known, turn)
        words = array("q", [word for row in (*table, *bytes_) for band in row for word in band])
        return BandedCalls(
            first=first,
            calls=count,
            turn=turn,
            min_threads=1 if has_large else 2,
            max_threads=threads,
            streams=tuple(streams),
            table=words.tobytes(),
        )

    def _streams(
        self, first: int, table: Sequence[Sequence[tuple[int, int]]], units: Sequence[OrderedUnits], turn: int
    ) -> tuple[list[BandStream], list[list[tuple[int, int]]]]:
        """Returns the values that bands keep in scratch memory, and the bytes of each band."""
        count = len(units)
        calls = self._calls[first : first + count]
        offset = max(-(-each.routine.scratch_bytes // ALIGNMENT) * ALIGNMENT for each in calls)
        streams: list[BandStream] = []
        bytes_: list[list[tuple[int, int]]] = []
        for number, call in enumerate(calls[:-1]):
            owner = self._owner(call.kernel.output)
            if not self._readers[owner] <= {*range(first, first + count)} or len(streams) == MAX_STREAMS:
                continue
            own, pitch = units[number], call.kernel.output.size_bytes // units[number].ends[-1]
            ranges = [
                (own.begins[begin // own.items] * pitch, own.ends[end // own.items - 1] * pitch)
                if begin < end
                else None
                for begin, end in table[number]
            ]
            known = _without_gaps(ranges)
            last = len(known) - 1
            longest = max(known[min(band + turn - 1, last)][1] - low for band, (low, _) in enumerate(known))
            # Most turns continue where the last one has ended.
            size = -(-int(longest * _ROOM) // ALIGNMENT) * ALIGNMENT
            places = [
                (position, argument)
                for position, each in enumerate(calls)
                for argument, value in enumerate(each.routine.arguments)
                if self._owner(value) is owner
            ]
            streams.append(BandStream(offset=offset, size_bytes=size, places=tuple(places)))
            bytes_.append(known)
            offset += size
        return streams, bytes_


def _merged(ranges: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Merges groups of this many bands to one each."""
    return [
        (ranges[first][0], ranges[min(first + count, len(ranges)) - 1][1])
        for first in range(0, len(ranges), count)
    ]


def _without_gaps(ranges: Sequence[tuple[int, int] | None]) -> list[tuple[int, int]]:
    """Gives bands that need nothing the end of what the bands before need."""
    found: list[tuple[int, int]] = []
    for each in ranges:
        before = found[-1][1] if found else 0
        found.append((before, before) if each is None else (each[0], max(before, each[1])))
    for band in range(len(found) - 2, -1, -1):
        found[band] = min(found[band][0], found[band + 1][0]), found[band][1]
    return found


def _qualifies(call: BandedCall) -> bool:
    """Returns True if all lengths and the order of work items are known."""
    routine, kernel = call.routine, call.kernel
    if routine.units is None or routine.extents or routine.reads_program or kernel.requirements:
        return False
    if routine.pointers > MAX_BANDED_ARGUMENTS:
        return False
    if kernel.limit is not None or kernel.contraction is None or isinstance(routine.work_items, Extent):
        return False
    return not any(isinstance(each, Extent) for each in kernel.output.shape)


def _same(begin: int, end: int) -> tuple[int, int]:
    return begin, end


def _source(kernel: Kernel) -> tuple[Value | None, _Needed, bool]:
    """Returns what a kernel's contraction reads, which positions of it, and if it has windows."""
    node = kernel.contraction
    if isinstance(node, MatrixProduct):
        is_plain = not node.left_transposed and node.right.constant is not None and len(node.right.shape) == 2
        return (node.left if is_plain else None), _same, False
    if not isinstance(node, Convolution | DepthwiseConvolution):
        return None, _same, False
    rows, columns = window_dimensions(node)
    # Each position needs all weights, which another kernel may compute.
    if node.weights.constant is None or any(isinstance(each, Extent) for each in node.input.shape):
        return None, _same, False
    sides = rows, columns
    if all(side == WindowDimension(length=side.length, positions=side.length) for side in sides):
        return node.input, _same, False

    def needed(begin: int, end: int) -> tuple[int, int]:
        first_image, first_row = divmod(begin // columns.positions, rows.positions)
        last_image, last_row = divmod((end - 1) // columns.positions, rows.positions)
        reach = (rows.taps - 1) * rows.dilation + 1
        low = min(rows.length - 1, max(0, first_row * rows.stride - rows.padding_before))
        high = min(rows.length, max(1, last_row * rows.stride - rows.padding_before + reach))
        return (
            (first_image * rows.length + low) * columns.length,
            (last_image * rows.length + high) * columns.length,
        )

    return node.input, needed, True


def _table(units: Sequence[OrderedUnits], links: Sequence[Sequence[_Link]]) -> list[list[tuple[int, int]]]:
    """Returns the work items of each kernel for each band."""
    last = units[-1]
    bands = len(last.begins)
    ranges: list[list[tuple[int, int]]] = [[] for _ in units]
    for band in range(bands):
        needed: list[tuple[int, int] | None] = [None] * len(units)
        needed[-1] = last.begins[band], last.ends[band]
        for number in range(len(units) - 1, -1, -1):
            wanted, own = needed[number], units[number]
            if number == len(units) - 1:
                first, end = band, band + 1
            elif wanted is None:
                first, end = (ranges[number][-1] if ranges[number] else (0, 0))[1] // own.items, 0
                end = first
            else:
                first = bisect_right(own.ends, wanted[0])
                end = bisect_left(own.begins, wanted[1])
            ranges[number].append((first * own.items, end * own.items))
            if first >= end:
                continue
            computed = own.begins[first], own.ends[end - 1]
            for link in links[number]:
                low, high = link.needed(*computed)
                known = needed[link.producer]
                needed[link.producer] = (
                    (low, high) if known is None else (min(known[0], low), max(known[1], high))
                )
    for number, own in enumerate(units):
        _fill_gaps(ranges[number], len(own.begins) * own.items)
    return ranges


def _fill_gaps(ranges: list[tuple[int, int]], items: int) -> None:
    """Adds work items that no band needs, but other kernels may, to the bands after them."""
    before = 0
    for band, (begin, end) in enumerate(ranges):
        if band == len(ranges) - 1:
            end = items
        begin = min(begin, before)
        before = max(before, end)
        ranges[band] = begin, before
    # Neither bound decreases.
    for band in range(len(ranges) - 2, -1, -1):
        ranges[band] = min(ranges[band][0], ranges[band + 1][0]), ranges[band][1]


def _max_threads(table: Sequence[Sequence[tuple[int, int]]], costs: Sequence[float]) -> int:
    """Returns for how many threads the bands repeat little work."""
    whole = sum(cost * row[-1][1] for cost, row in zip(costs, table, strict=True))
    bands, most = len(table[-1]), 1
    for threads in _THREADS:
        # Threads take over parts of others.
        parts = min(bands, threads if threads == 1 else threads * MAX_BALANCING_CHUNKS)
        bounds = [(bands * part // parts, bands * (part + 1) // parts) for part in range(parts)]
        done = sum(
            cost * (row[end - 1][1] - row[begin][0])
            for cost, row in zip(costs, table, strict=True)
            for begin, end in bounds
        )
        if done > whole * (1 + _MAX_REPEATED):
            return most
        most = threads
    return ANY_THREADS


def uses_of(
    uses: Sequence[Sequence[Value]], banded: Sequence[BandedCalls], graph: FusedGraph
) -> list[Sequence[Value]]:
    """Extends the lifetimes of what kernels of a sequence use, which is used at the same time.

    Streamed values have their memory outside scratch memory only for numbers of threads that do not
    use the bands.

    Args:
        uses: the values that each kernel uses.
        banded: the sequences.
        graph: the graph of the values.
    """
    joined = [dict.fromkeys(each) for each in uses]
    for each in banded:
        own = uses[each.first : each.first + each.calls]
        streamed = {
            graph.aliases.get(value, value)
            for stream in each.streams
            for value in (own[kernel][argument] for kernel, argument in stream.places)
        }
        kept = {
            value: None
            for values in own
            for value in values
            if graph.aliases.get(value, value) not in streamed
        }
        for number in (each.first, each.first + each.calls - 1):
            joined[number].update(kept)
    return [tuple(each) for each in joined]


def scratch_of(banded: Sequence[BandedCalls]) -> int:
    """Returns the size of the scratch memory that streams end in."""
    return max((stream.offset + stream.size_bytes for each in banded for stream in each.streams), default=0)
