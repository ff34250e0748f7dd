"""Positions of a convolution's window along a dimension of an image, and the taps on the image."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from neurald.drivers.compiler.ir.extent import Extent, at_least, estimate
from neurald.drivers.compiler.ir.graph import Convolution, DepthwiseConvolution
from neurald.hal.records import replace

#: Length of tiles if there are too few positions for long ones.
_SHORT_TILE = 4
#: One of this many positions may be computed twice, so that tiles have the same length.
_FEW = 100


class WindowDimension(Struct, frozen=True, kw_only=True):
    """One dimension of a convolution.

    Attributes:
        length: the length of the image.
        positions: number of positions of the window, which is the length of the output.
        taps: number of taps of the window.
        stride: distance between positions.
        dilation: distance between taps.
        padding_before: padding before the image.
    """

    length: int
    positions: int
    taps: int = 1
    stride: int = 1
    dilation: int = 1
    padding_before: int = 0

    def taps_at(self, index: int) -> range:
        """Returns the taps on the image."""
        start = index * self.stride - self.padding_before
        first = min(max(0, -(start // self.dilation)), self.taps)
        last = min(max(first, -((start - self.length) // self.dilation)), self.taps)
        return range(first, last)

    @property
    def is_inside(self) -> bool:
        """True if every tap is on the image at every position."""
        if self.taps == 1 and self.padding_before == 0:
            return (self.positions - 1) * self.stride < self.length
        if isinstance(self.positions, Extent):
            return not self.padding_before and self._after_last >= self._reach
        return all(len(self.taps_at(index)) == self.taps for index in {0, self.positions - 1})

    @property
    def _reach(self) -> int:
        """Distance from the first element of a window to the end of the last one."""
        return (self.taps - 1) * self.dilation + 1

    @property
    def _after_last(self) -> int:
        """Distance from the first element of the last window to the end of the image."""
        return self.length - (self.positions - 1) * self.stride + self.padding_before

    def borders(self) -> "tuple[list[range], list[range]]":
        """Returns the taps on the image at the first and the last positions, where some are missing.

        The length may be open; it must be long enough that no position misses taps at both ends.
        """
        before = -(-self.padding_before // self.stride)
        first = [
            range(min(self.taps, -((index * self.stride - self.padding_before) // self.dilation)), self.taps)
            for index in range(before)
        ]
        last: list[range] = []
        if not self._after_last >= self._reach:
            # The number is the same for many lengths.
            limit = int(self._after_last)
            while limit < self._reach:
                last.append(range(max(0, min(self.taps, -(-limit // self.dilation)))))
                limit += self.stride
        return first, last[::-1]


class TileRun(Struct, frozen=True, kw_only=True):
    """Consecutive tiles computed by the same instructions.

    Attributes:
        first: the first position of the first tile.
        length: positions per tile.
        count: number of tiles.
        taps: taps on the image for each position of a tile.
        end: the position after the last tile, which the last tile must not exceed: it starts
            earlier, and computes some positions again. None if tiles do not overlap.
    """

    first: int
    length: int
    count: int
    taps: tuple[range, ...]
    end: int | None = None


class TapSegment(Struct, frozen=True, kw_only=True):
    """Taps that are on the image for the same positions of a tile."""

    taps: range
    members: frozenset[int]


def tile_runs(side: WindowDimension, longest: int) -> tuple[TileRun, ...]:
    """Divides the positions of a side into even tiles of at most `longest`.

    If that only means to compute few positions twice, all tiles have the same length, since the code
    of each length has to be compiled.
    """
    if isinstance(side.positions, Extent):
        return _overlapping_runs(side, longest)
    count = -(-side.positions // longest)
    length = -(-side.positions // count)
    repeated = length * count - side.positions
    if side.is_inside and 0 < repeated * _FEW <= side.positions:
        taps = (range(side.taps),) * length
        return (TileRun(first=0, length=length, count=count, taps=taps, end=side.positions),)
    found: list[TileRun] = []
    first = 0
    for length, tiles in (
        (side.positions // count + 1, side.positions % count),
        (side.positions // count, count - side.positions % count),
    ):
        if side.is_inside and tiles:
            taps = (range(side.taps),) * length
            found.append(TileRun(first=first, length=length, count=tiles, taps=taps))
            first += length * tiles
            continue
        for _ in range(tiles):
            taps = tuple(side.taps_at(index) for index in range(first, first + length))
            last = found[-1] if found else None
            if last is not None and last.taps == taps:
                found[-1] = TileRun(first=last.first, length=length, count=last.count + 1, taps=taps)
            else:
                found.append(TileRun(first=first, length=length, count=1, taps=taps))
            first += length
    return tuple(found)


def _overlapping_runs(side: WindowDimension, longest: int) -> tuple[TileRun, ...]:
    """Divides a number of positions that is only known at run time into tiles of one length.

    Only runs of one length have tiles: of the longest one that is not too long. If taps are missing
    at borders, the first and the last tile are runs of their own, which include them.
    """
    first, last = ([], []) if side.is_inside else side.borders()
    inner, edges = range(side.taps), len(first) + len(last)
    if edges and not side.positions >= edges:
        raise NotImplementedError("an image of open size that may be shorter than its borders")
    found: list[TileRun] = []
    is_left = 1
    for length in dict.fromkeys((longest, min(longest, _SHORT_TILE), 1)):
        if length < max(len(first), len(last)) and length > 1:
            continue
        is_used = is_left if length == 1 else is_left * at_least(side.positions, length + edges)
        if not edges:
            found.append(_inner_run(side, length, is_used * -(-side.positions // length), 0, 0))
        elif length == 1:
            found += _single_tiles(side, (first, last), is_used)
        else:
            rest = [inner] * length
            start = (*first, *rest)[:length]
            end = (*rest, *last)[-length:]
            count = is_used * (-(-side.positions // length) - 2)
            found += (
                TileRun(first=0, length=length, count=is_used, taps=start),
                _inner_run(side, length, count, length, len(last)),
                TileRun(first=side.positions - length, length=length, count=is_used, taps=end),
            )
        is_left = is_left - is_used
    return tuple(run for run in found if isinstance(run.count, Extent) or run.count)


def _inner_run(side: WindowDimension, length: int, count: int, first: int, after: int) -> TileRun:
    """Returns tiles of whole windows, from a position to before the last ones."""
    end = side.positions - after if length > 1 else None
    return TileRun(first=first, length=length, count=count, taps=(range(side.taps),) * length, end=end)


def _single_tiles(
    side: WindowDimension, borders: tuple[list[range], list[range]], is_used: int
) -> Iterator[TileRun]:
    """Yields a tile for each position, which differ at the borders."""
    first, last = borders
    for index, taps in enumerate(first):
        yield TileRun(first=index, length=1, count=is_used, taps=(taps,))
    count = side.positions - len(first) - len(last)
    yield TileRun(first=len(first), length=1, count=is_used * count, taps=(range(side.taps),))
    for index, taps in enumerate(last):
        yield TileRun(first=side.positions - len(last) + index, length=1, count=is_used, taps=(taps,))


def estimated(side: WindowDimension) -> WindowDimension:
    """Returns the dimension with estimates of open lengths."""
    return replace(side, length=estimate(side.length), positions=estimate(side.positions))


def tap_segments(taps: Sequence[range]) -> tuple[TapSegment, ...]:
    """Returns the taps of a tile's positions in segments."""
    return tuple(_merged(taps))


def _merged(taps: Sequence[range]) -> Iterator[TapSegment]:
    current: TapSegment | None = None
    for tap in range(max((each.stop for each in taps), default=0)):
        members = frozenset(index for index, each in enumerate(taps) if tap in each)
        if current is not None and current.members == members:
            current = TapSegment(taps=range(current.taps.start, tap + 1), members=members)
            continue
        if current is not None and current.members:
            yield current
        current = TapSegment(taps=range(tap, tap + 1), members=members)
    if current is not None and current.members:
        yield current


def window_dimensions(node: Convolution | DepthwiseConvolution) -> tuple[WindowDimension, WindowDimension]:
    """Returns the height and width of a convolution."""
    height, width = (
        WindowDimension(
            length=node.input.shape[1 + along],
            positions=node.output.shape[1 + along],
            taps=node.kernel[along],
            stride=node.stride[along],
            dilation=node.dilation[along],
            padding_before=node.padding[along][0],
        )
        for along in (0, 1)
    )
    return height, width
