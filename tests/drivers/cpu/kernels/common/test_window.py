"""Windows along one dimension: the taps on the image, and the division of positions into tiles."""

from collections.abc import Iterable
from itertools import pairwise

from support.sweeps import sweep

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.extents.scope import ExtentScope, Guard
from neurald.drivers.compiler.ir.extents.terms import AtomKind, Relation
from neurald.drivers.cpu.kernels.common.window import WindowDimension, tap_segments, tile_runs

SIDES = [
    WindowDimension(length=7, positions=7, taps=3, padding_before=1),
    WindowDimension(length=30, positions=30, taps=5, padding_before=2),
    WindowDimension(length=31, positions=16, taps=3, stride=2, padding_before=1),
    WindowDimension(length=20, positions=12, taps=3, dilation=4),
    WindowDimension(length=3, positions=9, taps=2, dilation=3, padding_before=5),
    WindowDimension(length=100, positions=100),
]


@sweep("side", SIDES)
def test_taps_on_the_image(side: WindowDimension) -> None:
    for position in range(side.positions):
        start = position * side.stride - side.padding_before
        expected = [tap for tap in range(side.taps) if 0 <= start + tap * side.dilation < side.length]
        assert list(side.taps_at(position)) == expected
    assert side.is_inside == all(
        len(side.taps_at(position)) == side.taps for position in range(side.positions)
    )


@sweep("side", SIDES)
@sweep("longest", [1, 4, 14, 200])
def test_tiles_are_even_and_cover_every_position_once(side: WindowDimension, longest: int) -> None:
    covered, lengths = [], set()
    for run in tile_runs(side, longest):
        lengths.add(run.length)
        for tile in range(run.count):
            positions = [run.first + tile * run.length + position for position in range(run.length)]
            assert [side.taps_at(position) for position in positions] == list(run.taps)
            covered += positions
    assert covered == list(range(side.positions))
    assert max(lengths) <= longest
    assert max(lengths) - min(lengths) <= 1


@sweep("positions", [300, 999, 3137, 12544])
@sweep("longest", [4, 13, 14])
def test_few_positions_twice_make_tiles_of_one_length(positions: int, longest: int) -> None:
    runs = tile_runs(WindowDimension(length=positions, positions=positions), longest)
    if len(runs) > 1:
        longer, shorter = runs
        assert longer.end is shorter.end is None
        # Tiles of one length would compute more than one of a hundred positions twice.
        assert 100 * shorter.count > positions
        return
    (run,) = runs
    last = positions if run.end is None else run.end
    starts = [min(run.first + tile * run.length, last - run.length) for tile in range(run.count)]
    assert starts[0] == 0
    assert all(0 < after - before <= run.length for before, after in pairwise(starts))
    assert starts[-1] + run.length == positions
    assert run.length <= longest
    assert 100 * (run.length * run.count - positions) <= positions


def test_tiles_away_from_the_borders_are_one_run() -> None:
    assert [
        run.count
        for run in tile_runs(WindowDimension(length=112, positions=112, taps=3, padding_before=1), 14)
    ] == [1, 6, 1]


def test_segments_map_each_tap_to_its_positions() -> None:
    taps = [range(2, 3), range(1, 3), range(3), range(3), range(2)]
    found = [(segment.taps, sorted(segment.members)) for segment in tap_segments(taps)]
    assert found == [(range(1), [2, 3, 4]), (range(1, 2), [1, 2, 3, 4]), (range(2, 3), [0, 1, 2, 3])]
    assert [segment.taps for segment in tap_segments([range(3)] * 4)] == [range(3)]
    assert tap_segments([range(2, 2), range(0)]) == ()


@sweep("kernel", [2, 3, 5, 7])
@sweep("stride", [1, 2, 3, 4])
@sweep("longest", [4, 14])
def test_tiles_of_open_images_have_the_taps_of_every_size(kernel: int, stride: int, longest: int) -> None:
    if kernel < stride:
        return
    (length,) = ExtentScope([67]).symbols
    total = kernel - stride + (-length) % stride
    side = WindowDimension(
        length=length,
        positions=-(-length // stride),
        taps=kernel,
        stride=stride,
        padding_before=total // 2,
        padding_after=total - total // 2,
    )
    check_open_tiles(side, longest, range(2 * kernel * stride, 90))


@sweep("kernel", [1, 2, 3, 7])
@sweep("stride", [1, 2, 3, 4])
@sweep("dilation", [1, 2])
@sweep("padding", [(1, 0), (0, 1), (1, 1), (3, 0), (5, 2), (0, 5)])
def test_tiles_of_open_images_with_any_padding(
    kernel: int, stride: int, dilation: int, padding: tuple[int, int]
) -> None:
    """The size decides how far the last window is from the end of the image."""
    scope = ExtentScope([67])
    (length,) = scope.symbols
    side = WindowDimension(
        length=length,
        positions=(length + sum(padding) - (kernel - 1) * dilation - 1) // stride + 1,
        taps=kernel,
        stride=stride,
        dilation=dilation,
        padding_before=padding[0],
        padding_after=padding[1],
    )
    tile_runs(side, 14)
    sizes = [size for size in range(60, 90) if all(holds(guard, size) for guard in scope.guards.values())]
    assert 67 in sizes
    check_open_tiles(side, 14, sizes)


@sweep("longest, shorter", [(30, 10), (14, 4)])
def test_few_positions_of_open_images_are_computed_twice(longest: int, shorter: int) -> None:
    (length,) = ExtentScope([67]).symbols
    side = WindowDimension(length=length, positions=length, taps=3, padding_before=1, padding_after=1)
    runs = tile_runs(side, longest)
    for size in range(longest + shorter, 150):
        computed = sum(run.length * max(0, number_at(run.count, size)) for run in runs)
        assert size <= computed < size + max(shorter, longest - shorter)


def holds(guard: Guard, length: int) -> bool:
    number = number_at(guard.extent, length)
    return (number < 0 if guard.relation is Relation.NEGATIVE else number == 0) is guard.holds


def check_open_tiles(side: WindowDimension, longest: int, sizes: Iterable[int]) -> None:
    """Compares the taps of all tiles with those of images of known size."""
    runs = tile_runs(side, longest)
    for size in sizes:
        known = WindowDimension(
            length=size,
            positions=number_at(side.positions, size),
            taps=side.taps,
            stride=side.stride,
            dilation=side.dilation,
            padding_before=number_at(side.padding_before, size),
        )
        covered: set[int] = set()
        for run in runs:
            for tile in range(max(0, number_at(run.count, size))):
                start = number_at(run.first, size) + tile * run.length
                if run.end is not None:
                    start = min(start, number_at(run.end, size) - run.length)
                assert [known.taps_at(start + each) for each in range(run.length)] == list(run.taps)
                covered.update(range(start, start + run.length))
        assert covered == set(range(known.positions)), size


def number_at(number: int | Extent, length: int) -> int:
    """Evaluates an extent of one open length."""
    if not isinstance(number, Extent):
        return number
    total = 0
    for atoms, factor in number.terms.items():
        for atom in atoms:
            if atom.kind is AtomKind.SYMBOL:
                factor *= length
            else:
                one, other = number_at(atom.dividend, length), number_at(atom.divisor, length)
                factor *= one // other if atom.kind is AtomKind.QUOTIENT else one % other
        total += factor
    return total
