"""Positions of a convolution's window along a dimension of an image, and the taps on the image."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import (
    Extent,
    at_least,
    estimate,
    highest,
    is_equal,
    is_surely_at_least,
    is_zero,
    surely_lowest,
)
from neurald.drivers.compiler.ir.graph import MAX_PADDINGS, Convolution, DepthwiseConvolution
from neurald.hal.records import replace

#: Length of tiles if there are too few positions for longer ones.
_SHORT_TILE = 4
#: Borders are in tiles of this part of the longest ones, too, unless these are short themselves.
_PARTS, _MIN_MIXED = 3, 12
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
        padding_after: padding after it. It matters only if lengths are open: how many elements the
            last window lacks is then often known better than its distance to the end of the image.
    """

    length: int
    positions: int
    taps: int = 1
    stride: int = 1
    dilation: int = 1
    padding_before: int = 0
    padding_after: int = 0

    def taps_at(self, index: int) -> range:
        """Returns the taps on the image."""
        start = index * self.stride - self.padding_before
        first = min(max(0, -(start // self.dilation)), self.taps)
        last = min(max(first, -((start - self.length) // self.dilation)), self.taps)
        return range(first, last)

    @property
    def is_inside(self) -> bool:
        """True if every tap is on the image at every position, for all lengths."""
        if self.taps == 1 and is_zero(self.padding_before):
            return (self.positions - 1) * self.stride < self.length
        if isinstance(self.positions, Extent):
            return highest(self.padding_before) == 0 and surely_lowest(self._after_last) >= self._reach
        return all(len(self.taps_at(index)) == self.taps for index in {0, self.positions - 1})

    @property
    def _reach(self) -> int:
        """Distance from the first element of a window to the end of the last one."""
        return (self.taps - 1) * self.dilation + 1

    @property
    def _after_last(self) -> int:
        """Distance from the first element of the last window to the end of the image."""
        distance = self.length - (self.positions - 1) * self.stride + self.padding_before
        seen = self._reach - self.padding_after
        return seen if surely_lowest(distance - seen) == highest(distance - seen) == 0 else distance

    def borders(self) -> "tuple[list[Border], list[Border]]":
        """Returns the taps of the first and of the last positions, where some are missing.

        The length may be open; it must be long enough that no position misses taps at both ends.
        The padding, and with it the taps that are missing, may depend on the length. All borders of
        a side have as many positions.
        """
        inner = range(self.taps)
        firsts = [(self._first_taps(before), used) for before, used in _cases(self.padding_before)]
        lasts = [(self._last_taps(limit), used) for limit, used in _cases(self._after_last, self._reach)]
        before, after = (max(len(taps) for taps, _ in each) for each in (firsts, lasts))
        return (
            [Border(is_used=used, taps=(*taps, *[inner] * (before - len(taps)))) for taps, used in firsts],
            [Border(is_used=used, taps=(*[inner] * (after - len(taps)), *taps)) for taps, used in lasts],
        )

    def _first_taps(self, before: int) -> list[range]:
        """Returns the taps on the image at the first positions, with this padding before it."""
        return [
            range(min(self.taps, -((index * self.stride - before) // self.dilation)), self.taps)
            for index in range(-(-before // self.stride))
        ]

    def _last_taps(self, limit: int) -> list[range]:
        """Returns those at the last positions, the last one with a window on `limit` elements."""
        return [
            range(max(0, min(self.taps, -(-each // self.dilation))))
            for each in range(limit, self._reach, self.stride)
        ][::-1]


class Border(Struct, frozen=True, kw_only=True):
    """The taps of the first or of the last positions of a dimension, for some of its lengths.

    Attributes:
        is_used: 1 for these lengths, else 0.
        taps: taps on the image for each position.
    """

    is_used: int
    taps: tuple[range, ...]


def _cases(number: int, most: int | None = None) -> list[tuple[int, int]]:
    """Returns the values of a number, each with 1 for the lengths that give it, else 0.

    All values of at least `most` are one case. If there are too many cases, the value becomes part
    of the lengths for which the code is valid.
    """
    low, high = surely_lowest(number), highest(number)
    if most is not None:
        low, high = min(low, most), min(high, most)
    if high - low >= MAX_PADDINGS:
        low = high = int(number)
    if low == high:
        return [(low, 1)]
    found = [(value, is_equal(number, value)) for value in range(low, high)]
    return [*found, (high, at_least(number - low, high - low))]


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

    @property
    def starts(self) -> list[int]:
        """The first position of each tile, if their number is known."""
        last = self.first + self.length * self.count if self.end is None else self.end
        return [min(self.first + self.length * tile, last - self.length) for tile in range(self.count)]


class TapSegment(Struct, frozen=True, kw_only=True):
    """Taps that are on the image for the same positions of a tile."""

    taps: range
    members: frozenset[int]


def tile_runs(side: WindowDimension, longest: int) -> tuple[TileRun, ...]:
    """Divides the positions of a side into even tiles of at most `longest`.

    If that only means to compute few positions twice, all tiles have the same length, since the
    code of each length has to be compiled.
    """
    if isinstance(side.positions, Extent):
        return _open_runs(side, longest)
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


def _open_runs(side: WindowDimension, longest: int) -> tuple[TileRun, ...]:
    """Divides a number of positions that is only known at run time into tiles.

    If no taps are missing, most tiles have the longest length that is not too long, and the
    positions that are left have shorter ones, so that none is computed twice. Otherwise the first
    and the last tile are runs of their own, which include the borders. Tiles have the longest
    length that the positions are enough for, the last one a shorter one, and one of them may
    overlap the one before.
    """
    firsts, lasts = ([], []) if side.is_inside else side.borders()
    before, after = (len(each[0].taps) if each else 0 for each in (firsts, lasts))
    inner, edges = range(side.taps), before + after
    if not edges:
        return tuple(_exact_runs(side, longest))
    if not is_surely_at_least(side.positions, edges):
        raise NotImplementedError("an image of open size that may be shorter than its borders")
    short = min(longest, _SHORT_TILE)
    lengths = dict.fromkeys((longest, max(short, longest // _PARTS), short))
    usable = [length for length in lengths if length >= max(before, after) and length > 1]
    found: list[TileRun] = []
    above = 0
    for length, following in zip(usable, (*usable[1:], None), strict=True):
        shorter = following if length >= _MIN_MIXED else None
        least = length + (edges if shorter is None else max(edges, shorter))
        enough = at_least(side.positions, least)
        is_used, above = enough - above, enough
        last = length if shorter is None else shorter
        found += (
            TileRun(
                first=0,
                length=length,
                count=is_used * each.is_used,
                taps=(*each.taps, *[inner] * length)[:length],
            )
            for each in firsts
        )
        if shorter is None:
            count = is_used * (-(-side.positions // length) - 2)
            found.append(_inner_run(side, length, count, length, after))
        else:
            found += _mixed_runs(side, length, shorter, is_used)
        found += (
            TileRun(
                first=side.positions - last,
                length=last,
                count=is_used * each.is_used,
                taps=(*[inner] * last, *each.taps)[-last:],
            )
            for each in lasts
        )
    found += _single_tiles(side, (firsts, lasts), 1 - above)
    return tuple(run for run in found if isinstance(run.count, Extent) or run.count)


def _mixed_runs(side: WindowDimension, length: int, shorter: int, is_used: int) -> Iterator[TileRun]:
    """Yields tiles of whole windows between a first tile and a last one, which is shorter.

    One tile overlaps the one before if it would have to be shorter: a short one if that suffices.
    """
    between = side.positions - length - shorter
    whole, left = between // length, between % length
    is_long = at_least(left, shorter + 1)
    is_short = at_least(left, 1) - is_long
    yield _inner_run(side, length, is_used * (whole + is_long), length, shorter)
    yield _inner_run(side, shorter, is_used * is_short, length + whole * length, shorter)


def _exact_runs(side: WindowDimension, longest: int) -> Iterator[TileRun]:
    """Yields runs of whole windows that cover every position once."""
    first, left, taps = 0, side.positions, (range(side.taps),)
    for length in dict.fromkeys((longest, min(longest, _SHORT_TILE))):
        yield TileRun(first=first, length=length, count=left // length, taps=taps * length)
        first, left = first + left // length * length, left % length
    for length in range(min(longest, _SHORT_TILE) - 1, 0, -1):
        yield TileRun(first=first, length=length, count=is_equal(left, length), taps=taps * length)


def _inner_run(side: WindowDimension, length: int, count: int, first: int, after: int) -> TileRun:
    """Returns tiles of whole windows, from a position to before the last ones."""
    end = side.positions - after
    return TileRun(first=first, length=length, count=count, taps=(range(side.taps),) * length, end=end)


def _single_tiles(
    side: WindowDimension, borders: tuple[list[Border], list[Border]], is_used: int
) -> Iterator[TileRun]:
    """Yields a tile for each position, which differ at the borders."""
    firsts, lasts = borders
    before, after = len(firsts[0].taps), len(lasts[0].taps)
    for each in firsts:
        for index, taps in enumerate(each.taps):
            yield TileRun(first=index, length=1, count=is_used * each.is_used, taps=(taps,))
    count = side.positions - before - after
    yield TileRun(first=before, length=1, count=is_used * count, taps=(range(side.taps),))
    for each in lasts:
        for index, taps in enumerate(each.taps):
            yield TileRun(
                first=side.positions - after + index, length=1, count=is_used * each.is_used, taps=(taps,)
            )


def estimated(side: WindowDimension) -> WindowDimension:
    """Returns the dimension with estimates of open lengths."""
    return replace(
        side,
        length=estimate(side.length),
        positions=estimate(side.positions),
        padding_before=estimate(side.padding_before),
        padding_after=estimate(side.padding_after),
    )


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
            padding_after=node.padding[along][1] if isinstance(node.output.shape[1 + along], Extent) else 0,
        )
        for along in (0, 1)
    )
    return height, width
