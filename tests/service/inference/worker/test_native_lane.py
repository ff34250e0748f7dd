"""Runs of lanes that native code serves."""

import mmap
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from support.inference import zoo
from support.inference.lanes import Repeater
from support.inference.loading import load
from support.waiting import wait_until

from neurald.hal.errors import ResultCode
from neurald.hal.execution.native_serving import NativeCall
from neurald.hal.lanes.packets import KEPT_WINDOWS, LaneWindow, RunAnswer, RunFailure, TensorAt, encode
from neurald.hal.rpc.transport.ring_end import STORES_IN_ORDER
from neurald.service.inference.mapping.guarded_copy import MappedRange
from neurald.service.inference.worker.loaded_model import LoadedModel
from neurald.service.inference.worker.runner import BoundRun

pytestmark = pytest.mark.skipif(not STORES_IN_ORDER, reason="native code serves no rings on this machine")

X = TensorAt(kind="int32", shape=(1, 4), offset=0, size=16)
Y = TensorAt(kind="int32", shape=(1, 4), offset=64, size=16)


@pytest.fixture
def same() -> LoadedModel:
    return load(zoo.reshaping("INT32"))


def executions(model: LoadedModel) -> int:
    """Returns how many runs native code has ended; a caller sees the answer a moment before."""
    gate = model.native_lanes.gate
    wait_until(lambda: not gate.running)
    return gate.executions


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets native code repeat runs that other programs have interrupted as if they were short."""
    monkeypatch.setattr("neurald.service.inference.worker.native_lane._MAX_NATIVE_NS", 1 << 62)


@pytest.mark.parametrize("is_trusted", [True, False])
def test_repeated_runs_are_served_by_native_code(same: LoadedModel, is_trusted: bool) -> None:
    caller = Repeater(same, is_trusted=is_trusted)
    values = np.frombuffer(caller.arena.view(), np.int32)
    for number in range(12):
        place = (X, Y)[number % 2]
        values[place.offset // 4 :][:4] = np.arange(4) + number
        answer, is_repeated = caller.run(place)
        assert is_repeated == (number > 1)
        assert isinstance(answer, RunAnswer)
        assert answer.outputs[0].in_arena(caller.arena.view()).tolist() == list(range(number, number + 4))
        assert answer.receipt.devices == ("cpu",)
        assert answer.receipt.run_ns > 0
    # The first run of each order came as a packet, and Python repeated it the first time.
    assert executions(same) == 8
    caller.end.close()


_PAGE = mmap.PAGESIZE
_IN = TensorAt(kind="int32", shape=(1, 4), offset=0, size=16, window=1)
_OUT = TensorAt(kind="int32", shape=(4,), offset=_PAGE, size=16, window=1)
#: Where runs with windows tell whether those are cut.
_NOTES = 2048


class WindowCaller(Repeater):
    """A caller that the worker trusts, with a window on a file of two pages."""

    def __init__(self, model: LoadedModel, *, is_trusted: bool = True) -> None:
        super().__init__(model, is_trusted=is_trusted)
        self.name = f"region {id(self)}"
        self.file = os.memfd_create(self.name)
        os.truncate(self.file, 2 * _PAGE)
        self.open(1)

    def open(self, number: int, size: int = 2 * _PAGE) -> None:
        self.runs.send_packet(encode(LaneWindow(number=number, offset=0, size=size)), self.file)

    def close(self) -> None:
        self.end.close()
        os.close(self.file)

    def run_in_place(self) -> tuple[RunAnswer | RunFailure, bool]:
        self.arena.view()[_NOTES : _NOTES + 8] = bytes([9]) * 8
        return self.run(_IN, results_end=_NOTES, results=(_OUT,))

    @property
    def mappings(self) -> int:
        """The number of mappings of the file."""
        return Path("/proc/self/maps").read_text().count(self.name)

    @property
    def note(self) -> int:
        """The note of the worker about its window."""
        return int.from_bytes(self.arena.view()[_NOTES : _NOTES + 8], "little")


@pytest.fixture
def tolerates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's code tolerates that inputs change, as optimised code does."""
    monkeypatch.setattr(LoadedModel, "tolerates_changing_inputs", property(lambda _: True))


@pytest.mark.usefixtures("tolerates")
def test_windows_are_used_in_place(same: LoadedModel) -> None:
    """Native code repeats such a run, and Python does once pages are lost, with the same note."""
    caller = WindowCaller(same)
    for number in range(5):
        values = np.arange(4, dtype=np.int32) + number
        os.pwrite(caller.file, values.tobytes(), 0)
        answer, _ = caller.run_in_place()
        assert isinstance(answer, RunAnswer)
        assert answer.outputs == (_OUT,)
        assert os.pread(caller.file, 16, _PAGE) == values.tobytes()
        assert caller.note == 0
    assert executions(same) == 3
    os.truncate(caller.file, _PAGE)
    answer, _ = caller.run_in_place()
    assert isinstance(answer, RunAnswer)
    assert caller.note == 1
    assert executions(same) == 4
    os.truncate(caller.file, 2 * _PAGE)
    # What was cut stays so. Another window on the file is whole.
    caller.run_in_place()
    assert caller.note == 1
    caller.open(2)
    place = msgspec.structs.replace(_IN, window=2)
    answer, _ = caller.run(place, results_end=_NOTES, results=(msgspec.structs.replace(_OUT, window=2),))
    assert isinstance(answer, RunAnswer)
    assert caller.note == 0
    caller.close()


@pytest.mark.usefixtures("tolerates")
def test_a_window_gives_its_memory_back(same: LoadedModel) -> None:
    caller = WindowCaller(same)
    for _ in range(4):
        caller.run_in_place()
    assert caller.mappings == 1
    caller.server.cut_window(1)
    caller.server.cut_window(2)  # which does not exist
    assert not caller.mappings
    caller.run_in_place()
    assert caller.note == 1
    caller.close()


@pytest.mark.usefixtures("tolerates")
def test_the_oldest_window_is_closed(same: LoadedModel) -> None:
    caller = WindowCaller(same)
    assert isinstance(caller.run_in_place()[0], RunAnswer)
    for number in range(2, KEPT_WINDOWS + 2):
        caller.open(number)
    caller.runs.forget()
    answer, _ = caller.run_in_place()
    assert isinstance(answer, RunFailure)
    assert answer.code == ResultCode.BAD_STATE
    assert caller.mappings == KEPT_WINDOWS
    caller.close()
    wait_until(lambda: not caller.mappings)


def test_inputs_in_windows_are_copied_for_code_that_does_not_tolerate_changes(
    same: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs are in the arena then."""
    monkeypatch.setattr(LoadedModel, "tolerates_changing_inputs", property(lambda _: False))
    caller = WindowCaller(same)
    for number in range(4):
        values = np.arange(4, dtype=np.int32) + number
        os.pwrite(caller.file, values.tobytes(), 0)
        answer, _ = caller.run_in_place()
        assert isinstance(answer, RunAnswer)
        (output,) = answer.outputs
        assert output.window == 0
        assert output.in_arena(caller.arena.view()).tobytes() == values.tobytes()
        assert caller.note == 0
    assert executions(same) == 0
    caller.close()


@pytest.mark.usefixtures("tolerates")
def test_windows_that_cannot_be_used(same: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = WindowCaller(same)
    caller.open(2, size=1 << 60)
    place = msgspec.structs.replace(_IN, window=2)
    answer, _ = caller.run(place, results_end=_NOTES)
    assert isinstance(answer, RunFailure)
    assert (answer.code, answer.message) == (ResultCode.BAD_STATE, "the window 2 is not mapped")
    for offset, code in ((2 * _PAGE, ResultCode.BAD_DATA), (-16, ResultCode.BAD_DATA)):
        outside = msgspec.structs.replace(_IN, offset=offset)
        answer, _ = caller.run(outside, results_end=_NOTES)
        assert isinstance(answer, RunFailure)
        assert answer.code == code
    answer, _ = caller.run(_IN, results_end=4096)
    assert isinstance(answer, RunFailure), "there is no room for the note"
    answer, _ = caller.run(_IN, results_end=_NOTES, results=(_OUT, _OUT))
    assert isinstance(answer, RunFailure)
    monkeypatch.setattr(MappedRange, "is_guarded", property(lambda _: False))
    answer, _ = caller.run(_IN, results_end=_NOTES, results_at=512)
    assert isinstance(answer, RunFailure)
    assert answer.message == "another handler of SIGBUS is installed"
    caller.close()
    stranger = WindowCaller(same, is_trusted=False)
    assert stranger.is_cut()
    os.close(stranger.file)


def test_python_and_native_code_count_the_same_runs(same: LoadedModel) -> None:
    caller = Repeater(same)
    for _ in range(5):
        caller.run(X)
    before = executions(same)
    assert before
    answer, is_repeated = caller.run(Y)
    assert not is_repeated
    assert answer.number == caller.runs.number == 6
    caller.run(X)
    assert executions(same) == before + 1
    # Python has the next one, which is cancelled by its number.
    caller.server.cancel(9)
    assert isinstance(caller.run(X)[0], RunAnswer)
    caller.run(Y)
    assert executions(same) == before + 2
    caller.end.close()


def test_native_code_leaves_a_cancelled_run(same: LoadedModel) -> None:
    caller = Repeater(same)
    for _ in range(5):
        caller.run(X)
    before = executions(same)
    caller.runs.ring.cancel(caller.runs.ring.next_number)
    answer, is_repeated = caller.run(X)
    assert isinstance(answer, RunFailure)
    assert answer.is_cancelled
    assert not is_repeated
    assert executions(same) == before
    for _ in range(4):
        assert isinstance(caller.run(X)[0], RunAnswer)
    assert executions(same) > before
    caller.end.close()


def test_another_arena_ends_native_runs(same: LoadedModel) -> None:
    caller = Repeater(same)
    for _ in range(5):
        caller.run(X)
    before = executions(same)
    caller.replace_arena(8192)
    np.frombuffer(caller.arena.view(), np.int32)[:4] = 9
    answer, _ = caller.run(X)
    assert isinstance(answer, RunAnswer)
    assert executions(same) == before
    for number in range(4):
        np.frombuffer(caller.arena.view(), np.int32)[:4] = number
        answer, _ = caller.run(X)
        assert isinstance(answer, RunAnswer)
        assert answer.outputs[0].in_arena(caller.arena.view()).tolist() == [number] * 4
    assert executions(same) > before
    caller.end.close()


def test_a_caller_that_leaves_ends_its_native_runs(same: LoadedModel) -> None:
    caller = Repeater(same)
    for _ in range(5):
        caller.run(X)
    native = caller.server._native
    assert native is not None
    assert native.is_useful
    caller.server.hang_up()
    caller.end.close()
    wait_until(lambda: caller.server.is_over and not native.is_useful)


def test_what_loops_is_repeated_by_python() -> None:
    counting = load(zoo.counting())
    caller = Repeater(counting)
    np.frombuffer(caller.arena.view(), np.int32)[0] = 3
    x = TensorAt(kind="int32", shape=(), offset=0, size=4)
    for _ in range(5):
        assert isinstance(caller.run(x)[0], RunAnswer)
    assert executions(counting) == 0
    caller.end.close()


def test_runs_that_take_long_are_left_to_python(same: LoadedModel) -> None:
    caller = Repeater(same)
    for _ in range(5):
        caller.run(X)
    native, server = caller.server._native, caller.server
    assert native is not None
    (order,) = server._orders.values()
    caller.end.close()
    wait_until(lambda: server.is_over)
    native.let_run(order.slot, None, 0)
    assert not native.is_useful


def test_what_only_python_could_repeat_is_tried_again(
    same: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, tries = BoundRun.create_native_call, list[BoundRun]()
    is_first_tier = True

    def create_if_optimized(bound: BoundRun) -> NativeCall | None:
        tries.append(bound)
        return None if is_first_tier else create(bound)

    monkeypatch.setattr(BoundRun, "create_native_call", create_if_optimized)
    caller = Repeater(same)
    for _ in range(40):
        caller.run(X)
    assert executions(same) == 0
    assert len(tries) == 6
    is_first_tier = False
    for _ in range(40):
        caller.run(X)
    assert executions(same) > 0
    caller.end.close()


def test_runs_go_on_where_a_driver_fails_to_say_what_native_code_would_run(
    same: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: BoundRun) -> NativeCall | None:
        raise ValueError("a mistake of a driver")

    monkeypatch.setattr(BoundRun, "create_native_call", fail)
    caller = Repeater(same)
    for _ in range(10):
        caller.run(X)
    assert executions(same) == 0
    caller.end.close()


def test_lanes_are_served_by_native_code_once_the_model_tolerates_it(
    same: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane may be opened while a first tier runs, and stay open for days."""
    tolerates = False
    monkeypatch.setattr(LoadedModel, "tolerates_changing_inputs", property(lambda _: tolerates))
    caller = Repeater(same, is_trusted=False)
    for _ in range(5):
        caller.run(X)
    assert executions(same) == 0
    tolerates = True
    for _ in range(5):
        caller.run(X)
    assert executions(same) > 0
    caller.end.close()
