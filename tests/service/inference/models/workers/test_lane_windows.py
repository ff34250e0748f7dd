"""The choice of requests that a lane runs in place, and the windows that its worker gets for it."""

import gc
from dataclasses import dataclass, field
from typing import Any

import pytest

from neurald.hal.lanes.packets import KEPT_WINDOWS, LaneWindow, TensorAt, decode_order
from neurald.service.inference.models.workers import lane_windows
from neurald.service.inference.models.workers.lane_windows import LaneWindows, PlacedTensor

SIZE = 1 << 16
PAGE = 4096


class Region:
    def __init__(self, file: int = 1, offset: int = 0) -> None:
        self.file, self.offset, self.size, self.descriptor = file, offset, 4 * SIZE, 7

    def check(self) -> None:
        pass

    def check_size(self) -> None:
        pass


@dataclass
class Place:
    region: Any
    offset: int
    size: int = SIZE


@dataclass(eq=False)
class Request:
    inputs: list[Place]
    outputs: list[Place]
    room: int = 3 * SIZE
    size: int = SIZE
    placed: list[PlacedTensor] = field(default_factory=list)

    def _placed(self, places: list[Place]) -> list[PlacedTensor]:
        found: list[PlacedTensor] = []
        for number, place in enumerate(places):
            tensor = TensorAt("int8", (self.size,), number * SIZE, self.size)
            placed: Any = place
            found.append(PlacedTensor(tensor=tensor, place=placed))
        return found

    @property
    def placed_inputs(self) -> list[PlacedTensor]:
        return self._placed(self.inputs)

    @property
    def placed_outputs(self) -> list[PlacedTensor]:
        return self._placed(self.outputs)


class Lane:
    """Notes what a lane does for its windows."""

    def __init__(self) -> None:
        self.sent: list[LaneWindow] = []
        self.forgotten = 0
        self.cut: list[int] = []
        self.windows = LaneWindows(self.send, self.forget, self.cut.append)

    def send(self, packet: bytes, descriptor: int) -> None:
        order = decode_order(packet)
        assert isinstance(order, LaneWindow)
        assert descriptor == 7
        self.sent.append(order)

    def forget(self) -> None:
        self.forgotten += 1

    def in_place(self, request: Request, copied_runs: int = lane_windows._COPIED_RUNS) -> Any:
        """Returns how a request is run when it has come often."""
        for _ in range(copied_runs):
            assert self.windows.in_place(request) is None
        return self.windows.in_place(request)


def test_requests_that_come_again_and_again_are_run_in_place() -> None:
    lane, region = Lane(), Region(offset=PAGE)
    request = Request([Place(region, PAGE)], [Place(region, PAGE + SIZE)])
    found = lane.in_place(request)
    assert found.inputs == (TensorAt("int8", (SIZE,), 0, SIZE, 1),)
    assert found.results == (TensorAt("int8", (SIZE,), SIZE, SIZE, 1),)
    assert (found.results_end, found.windows, found.room) == (3 * SIZE, 1, 3 * SIZE + 8)
    assert lane.sent == [LaneWindow(number=1, offset=PAGE, size=4 * SIZE)]
    assert lane.in_place(request, 0) is found
    memory = bytearray(found.room)
    assert not found.is_cut(memoryview(memory))
    memory[-8] = 1
    assert found.is_cut(memoryview(memory))


def test_small_requests_are_not_run_in_place() -> None:
    region = Region()
    request = Request([Place(region, 0)], [Place(region, SIZE)], size=SIZE // 4)
    lane = Lane()
    assert lane.in_place(request) is None
    assert not lane.sent


def test_tensors_that_are_not_aligned_are_copied() -> None:
    region, lane = Region(), Lane()
    found = lane.in_place(Request([Place(region, 4)], [Place(region, 2 * SIZE)]))
    assert found.inputs[0].window == 0
    assert found.results[0].window == 1
    found = lane.in_place(Request([Place(region, 0)], [Place(region, 2 * SIZE), Place(region, 3 * SIZE + 1)]))
    assert found.inputs[0].window == 1
    assert found.results == (), "outputs are in place if all of them are"
    assert lane.in_place(Request([Place(region, 1)], [Place(region, 2 * SIZE + 1)])) is None


@pytest.mark.parametrize("is_same_file", [False, True])
def test_nothing_is_written_that_is_read_meanwhile(is_same_file: bool) -> None:
    """Two regions may be of the same file."""
    first, second = Region(1), Region(1 if is_same_file else 2)
    found = Lane().in_place(Request([Place(first, 0)], [Place(second, SIZE // 2)]))
    assert bool(found.results) != is_same_file
    found = Lane().in_place(Request([Place(first, 3 * SIZE)], [Place(first, 0), Place(second, SIZE // 2)]))
    assert bool(found.results) != is_same_file
    found = Lane().in_place(Request([Place(first, SIZE)], [Place(second, 0), Place(second, 2 * SIZE)]))
    assert found.results


def test_a_window_gives_its_memory_back_with_its_region() -> None:
    lane, region = Lane(), Region()
    request = Request([Place(region, 0)], [Place(region, SIZE)])
    assert lane.in_place(request) is not None
    request.inputs.clear()
    request.outputs.clear()
    del region
    gc.collect()
    assert lane.cut == [1]
    other = Lane()
    region = Region()
    other.in_place(Request([Place(region, 0)], [Place(region, SIZE)]))
    other.windows.close()
    del region
    gc.collect()
    assert not other.cut


def test_requests_that_fail_in_place_are_run_with_copies() -> None:
    lane, region = Lane(), Region()
    request = Request([Place(region, 0)], [Place(region, SIZE)])
    assert lane.in_place(request) is not None
    lane.windows.renew(request)
    found = lane.in_place(request)
    assert [each.number for each in lane.sent] == [1, 2]
    assert found.inputs[0].window == 2
    lane.windows.refuse(request)
    for _ in range(lane_windows._COPIED_RUNS_AFTER_FAILURE):
        assert lane.windows.in_place(request) is None
    found = lane.windows.in_place(request)
    assert found is not None
    assert found.inputs[0].window == 2


def test_a_worker_keeps_the_latest_windows() -> None:
    lane = Lane()
    regions = [Region(number) for number in range(KEPT_WINDOWS + 1)]
    requests = [Request([Place(each, 0)], []) for each in regions]
    for request in requests[:-1]:
        lane.windows._admitted(request, 0.0)
    assert [each.number for each in lane.sent] == list(range(1, KEPT_WINDOWS + 1))
    found = lane.windows._admitted(requests[-1], 0.0)
    assert found is not None
    assert found.inputs[0].window == KEPT_WINDOWS + 1
    assert lane.forgotten == 1
    # The first one has to be given again; the others are there.
    again = [lane.windows._admitted(request, 0.0) for request in (requests[1], requests[0])]
    assert [each.inputs[0].window for each in again if each] == [2, KEPT_WINDOWS + 2]
    everything = Request([Place(each, 0) for each in regions], [])
    assert lane.windows._admitted(everything, 0.0) is None


def test_requests_take_turns_only_if_others_have_not_come_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    lane, region = Lane(), Region()
    requests = [
        Request([Place(region, 64 * number)], [Place(region, 2 * SIZE + 64 * number)])
        for number in range(lane_windows._MAX_REQUESTS + 1)
    ]
    for request in requests[:-1]:
        assert lane.in_place(request) is not None
    assert lane.in_place(requests[-1]) is None
    now_s += 2 * lane_windows._IDLE_S
    for request in requests[1:-1]:
        assert lane.windows.in_place(request) is not None
    assert lane.in_place(requests[-1]) is not None
    assert lane.windows.in_place(requests[0]) is None
