"""Windows along one dimension: which taps lie on the image, and how places are divided."""

from support.sweeps import sweep

from neurald.drivers.cpu.kernels.common.window import Side, runs, segments

SIDES = [
    Side(length=7, places=7, taps=3, before=1),
    Side(length=30, places=30, taps=5, before=2),
    Side(length=31, places=16, taps=3, stride=2, before=1),
    Side(length=20, places=12, taps=3, dilation=4),
    Side(length=3, places=9, taps=2, dilation=3, before=5),
    Side(length=100, places=100),
]


@sweep("side", SIDES)
def test_taps_on_the_image_are_those_whose_place_is_there(side: Side) -> None:
    for place in range(side.places):
        start = place * side.stride - side.before
        expected = [tap for tap in range(side.taps) if 0 <= start + tap * side.dilation < side.length]
        assert list(side.taps_at(place)) == expected
    assert side.is_inside == all(len(side.taps_at(place)) == side.taps for place in range(side.places))


@sweep("side", SIDES)
@sweep("longest", [1, 4, 14, 200])
def test_tiles_are_even_and_cover_every_place_once(side: Side, longest: int) -> None:
    covered, lengths = [], set()
    for run in runs(side, longest):
        lengths.add(run.length)
        for tile in range(run.count):
            places = [run.first + tile * run.length + place for place in range(run.length)]
            assert [side.taps_at(place) for place in places] == list(run.taps)
            covered += places
    assert covered == list(range(side.places))
    assert max(lengths) <= longest
    assert max(lengths) - min(lengths) <= 1


def test_tiles_away_from_the_borders_are_one_run() -> None:
    assert [run.count for run in runs(Side(length=112, places=112, taps=3, before=1), 14)] == [1, 6, 1]


def test_segments_give_each_tap_the_places_that_have_it() -> None:
    taps = [range(2, 3), range(1, 3), range(3), range(3), range(2)]
    found = [(segment.taps, sorted(segment.members)) for segment in segments(taps)]
    assert found == [(range(1), [2, 3, 4]), (range(1, 2), [1, 2, 3, 4]), (range(2, 3), [0, 1, 2, 3])]
    assert [segment.taps for segment in segments([range(3)] * 4)] == [range(3)]
    assert segments([range(2, 2), range(0)]) == ()
