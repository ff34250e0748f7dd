"""Functions of native code that call others: results, records, numbers of calls, and references."""

import ctypes
import gc
import mmap
import struct
import sys
import sysconfig
import threading
import time
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from neurald.drivers.cpu.native.python_calls import recorded_call
from neurald.drivers.cpu.native.thread_pool import process
from neurald.hal.execution.recorded_calls import (
    CALL_BITS,
    MAX_CLOCK_ERROR_NS,
    NOTE_BYTES,
    CallRecord,
    Make,
    PartOf,
    PythonRecorder,
    RecordedCalls,
    RecorderOfCalls,
    ShortCut,
    Subjects,
    UnusualResults,
    recorded_calls,
)

pytestmark = pytest.mark.quick

HAS_NATIVE = not sysconfig.get_config_var("Py_GIL_DISABLED") and sys.implementation.name == "cpython"

CAPACITY = 64


class State:
    __slots__ = ("call", "number")

    def __init__(self) -> None:
        self.call = 0
        self.number = threading.get_native_id()


class Asked:
    """Answers what native code asks, and keeps what it tells."""

    def __init__(self, make: Make = recorded_calls) -> None:
        self.local = threading.local()
        self.states: list[State] = []
        self.failures: list[tuple[Any, ...]] = []
        self.pairs: list[tuple[Any, Any]] = []
        self.native: RecordedCalls = make(
            CAPACITY,
            RecorderOfCalls(thread=self.state, failed=self.failed, first_call=2),
        )

    def state(self) -> State:
        if not hasattr(self.local, "state"):
            self.local.state = State()
            self.states.append(self.local.state)
        found: State = self.local.state
        return found

    def failed(self, *told: Any) -> None:
        self.failures.append(told)

    def subject(self, compilation: Any, executor: Any) -> int:
        self.pairs.append((compilation, executor))
        return 100 + len(self.pairs) - 1

    @property
    def records(self) -> list[CallRecord]:
        return list(self.native.records())


@pytest.fixture(params=["native code", "Python"])
def asked(request: pytest.FixtureRequest) -> Asked:
    if request.param == "Python":
        return Asked(PythonRecorder)
    if not HAS_NATIVE:
        pytest.skip("native functions need CPython with a GIL")
    assert process.load_step_program()
    found = Asked()
    assert not isinstance(found.native, PythonRecorder)
    return found


def test_arguments_and_results_pass(asked: Asked) -> None:
    def function(*arguments: Any, **named: Any) -> Any:
        return arguments, named

    recorded = asked.native.recorded(function, 7, is_call=True)
    assert recorded() == ((), {})
    assert recorded(1, "a") == ((1, "a"), {})
    assert recorded(1, b=2, c=3) == ((1,), {"b": 2, "c": 3})
    assert recorded(b=2) == ((), {"b": 2})
    assert [(each.call, each.subject) for each in asked.records] == [(2, 7), (4, 7), (6, 7), (8, 7)]
    assert asked.state().call == 0


def test_times_are_those_of_the_monotonic_clock(asked: Asked) -> None:
    begin = time.monotonic_ns()
    asked.native.recorded(time.sleep, 1, is_call=True)(0.002)
    end = time.monotonic_ns()
    (record,) = asked.records
    assert record.start_ns <= record.end_ns - 2_000_000 + 2 * MAX_CLOCK_ERROR_NS
    assert begin - MAX_CLOCK_ERROR_NS <= record.start_ns
    assert record.end_ns <= end + MAX_CLOCK_ERROR_NS
    assert record.thread == id(asked.state())


@pytest.mark.parametrize("known_scale", [0, 1 << 25])
@pytest.mark.parametrize("source", ["tsc", "hpet", ""])
def test_times_stay_those_of_the_monotonic_clock(
    source: str, known_scale: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the processor's counter tells them, and when it is found to have been wrong."""
    if not HAS_NATIVE:
        pytest.skip("native functions need CPython with a GIL")
    assert process.load_step_program()
    is_counted = source == recorded_call.clock_source() == "tsc"
    monkeypatch.setattr(recorded_call, "clock_source", lambda: source if is_counted else "hpet")
    asked = Asked()
    assert isinstance(asked.native, recorded_call.NativeRecorder)
    inner = asked.native.recorded(time.monotonic_ns, 1, is_call=False)
    outer = asked.native.recorded(lambda: inner(), 2, is_call=True)
    scale, base = (recorded_call.TABLE.index(name) for name in ("SCALE", "BASE_COUNT"))
    assert bool(asked.native.table[recorded_call.TABLE.index("COUNTS")]) == is_counted
    # What another recorder has found is used from the first call on, and found to be wrong.
    asked.native.table[scale] = known_scale
    errors: list[int] = []
    for wrong_ns in (0, 0, 1_000_000, -1_000_000, 0):
        asked.native.table[recorded_call.TABLE.index("BASE_TIME")] += wrong_ns
        time.sleep(0.005)  # the counter is compared again
        for _ in range(2):
            # And until it was compared long enough.
            end_ns = time.monotonic_ns() + 3_000_000
            while time.monotonic_ns() < end_ns:
                outer()
        read_ns = [outer() for _ in range(CAPACITY // 2)]
        records = asked.records
        assert all(first.end_ns <= second.end_ns for first, second in pairwise(records))
        for position, time_ns in enumerate(read_ns):
            part, call = records[2 * position : 2 * position + 2]
            assert call.start_ns <= part.start_ns <= part.end_ns <= call.end_ns
            errors += [max(part.start_ns - time_ns, time_ns - part.end_ns)]
        assert bool(asked.native.table[base]) == is_counted
    following = Asked()
    assert isinstance(following.native, recorded_call.NativeRecorder)
    assert following.native.table[scale] == asked.native.table[scale]
    first = following.native.recorded(lambda: None, 1, is_call=True)
    for _ in range(20):  # another program may run while the clock is read
        first()
    assert bool(following.native.table[base]) == is_counted
    # Another program may run while the counter and the clock are read.
    assert sorted(errors)[len(errors) * 9 // 10] < MAX_CLOCK_ERROR_NS


def test_inner_calls_are_part_of_the_outer_one(asked: Asked) -> None:
    seen = []
    part = asked.native.recorded(lambda: seen.append(asked.state().call), 1, is_call=False)
    inner = asked.native.recorded(part, 2, is_call=True)
    asked.native.recorded(lambda: (inner(), part()), 3, is_call=True)()
    part()
    assert seen == [2, 2, 0]
    assert [(each.subject, each.call) for each in asked.records] == [(1, 2), (2, 2), (1, 2), (3, 2), (1, 0)]
    asked.state().call = 41
    inner()
    assert asked.records[-1].call == asked.state().call == 41


def test_exceptions_are_told_and_raised(asked: Asked) -> None:
    def fail(text: str) -> None:
        raise ValueError(text)

    recorded = asked.native.recorded(fail, 5, is_call=True)
    with pytest.raises(ValueError, match="bad") as raised:
        recorded("bad")
    with pytest.raises(TypeError, match="missing 1 required"):
        recorded()
    assert asked.state().call == 0
    assert asked.records == []
    (error, start, call, subject), (other, *_) = asked.failures
    assert (error, call, subject) == (raised.value, 2, 5)
    assert 0 < start <= time.monotonic_ns() + MAX_CLOCK_ERROR_NS
    assert isinstance(other, TypeError)


class Model:
    """An object whose method may be replaced by a function that it has."""

    def __init__(self) -> None:
        self.executor = object()
        self.compilation = self
        self.latest: Callable[..., Any] | None = None
        self.begin: Callable[..., Any] | None = None
        self.runs = self

    def run(self, *arguments: Any, **named: Any) -> Any:
        return "slow", arguments, named


def shortened(asked: Asked, path: tuple[str, ...], owner: str | None = None, **named: Any) -> Any:
    subjects = Subjects(owner=owner, find=asked.subject)
    short_cut = ShortCut(path=path, most_arguments=3, subjects=subjects, **named)
    return asked.native.shortened(Model.run, short_cut)


def test_a_short_cut_is_taken_where_there_is_one(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "run", shortened(asked, ("runs", "latest")))
    model = Model()
    assert model.run(1) == ("slow", (1,), {})
    model.latest = lambda *arguments: ("fast", arguments)
    assert model.run(1, 2) == ("fast", (1, 2))
    assert model.run() == ("fast", ())
    assert model.run(1, 2, 3) == ("slow", (1, 2, 3), {})
    assert model.run(a=1) == ("slow", (), {"a": 1})
    model.latest = lambda *arguments: None
    assert model.run(1) == ("slow", (1,), {})
    assert [each.subject for each in asked.records] == [100, 100]
    assert asked.pairs == [(model, model.executor)]
    model.executor = object()
    model.latest = lambda: 3
    assert model.run() == 3
    assert asked.records[-1].subject == 101
    with pytest.raises(TypeError, match="takes 0 positional arguments"):
        model.run(1)
    del model.latest
    with pytest.raises(AttributeError, match="latest"):
        model.run()


def test_a_short_cut_that_returns_whether_it_has_succeeded(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[Any] = []

    def finish(model: Model, result: Any) -> bool:
        finished.append(result)
        if result == "error":
            raise KeyError(result)
        return bool(result == "good")

    method = shortened(asked, ("latest",), owner="compilation", expected=True, finish=finish)
    monkeypatch.setattr(Model, "run", method)
    model = Model()
    for result, count in ((True, 1), ("good", 2), (False, 2), (None, 2)):
        model.latest = lambda result=result: result
        assert model.run() is None
        assert len(asked.records) == count
    model.latest = lambda: "error"
    with pytest.raises(KeyError):
        model.run()
    assert finished == ["good", False, None, "error"]


def test_a_short_cut_whose_method_returns_something(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[object] = []

    def answer() -> object:
        if len(answers) == 2:
            raise KeyError("no answer")
        answers.append(object())
        return answers[-1]

    def finish(model: Model, result: Any) -> object:
        return True if result == "good" else ("finished", result)

    method = shortened(asked, ("latest",), expected=True, finish=finish, answer=answer)
    monkeypatch.setattr(Model, "run", method)
    model = Model()
    assert model.run() == ("slow", (), {})
    for result in (True, "good"):
        model.latest = lambda result=result: result
        assert model.run() is answers[-1]
    assert [len(answers), len(asked.records)] == [2, 2]
    model.latest = lambda: "bad"
    assert model.run() == ("finished", "bad")
    assert len(asked.records) == 2
    model.latest = lambda: True
    with pytest.raises(KeyError, match="no answer"):
        model.run()
    assert asked.state().call == 0


def test_only_calls_that_return_what_is_expected_are_recorded(asked: Asked) -> None:
    recorded = asked.native.recorded(lambda value: value, 3, is_call=True, expected=True)
    for value in (True, False, 1, None, True):
        assert recorded(value) is value
    assert [each.call for each in asked.records] == [2, 10]
    with pytest.raises(TypeError):
        recorded()
    assert len(asked.failures) == 1


def test_results_that_tell_what_was_called(asked: Asked) -> None:
    class Derived(Model):
        """Its type is another one."""

    found: list[object] = []

    def find(result: object) -> int:
        found.append(result)
        return 20 + len(found)

    recorded = asked.native.recorded(
        lambda value: value, 3, is_call=True, otherwise=4, unusual=UnusualResults(kind=Model, find=find)
    )
    values = (1, None, Model(), Derived(), False)
    for value in values:
        assert recorded(value) is value
    assert found == [None, values[2]]
    assert [each.subject for each in asked.records] == [3, 21, 22, 3, 3]
    with pytest.raises(TypeError):
        recorded()
    assert [subject for *_, subject in asked.failures] == [4]
    failing = asked.native.recorded(
        lambda: None, 3, is_call=True, unusual=UnusualResults(kind=Model, find=lambda _: 1 // 0)
    )
    with pytest.raises(ZeroDivisionError):
        failing()
    assert asked.state().call == 0
    only = asked.native.recorded(
        lambda value: value, 3, is_call=True, expected=True, unusual=UnusualResults(kind=Model, find=find)
    )
    for value in (None, True):
        assert only(value) is value
    assert len(found) == 2
    assert [each.subject for each in asked.records][-1] == 3


class Event:
    """Says what call it belongs to."""

    began_in: Any = None

    def __init__(self, seen: Callable[[], int]) -> None:
        self.seen = seen

    def wait(self, result: object = True) -> object:
        """Returns the call that is under way meanwhile, and a result; or raises it."""
        if isinstance(result, BaseException):
            raise result
        return result if result is True else (self.seen(), result)


def test_what_an_object_says_to_be_part_of_a_call(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = 3
    recorded = asked.native.recorded(
        Event.wait,
        7,
        is_call=False,
        expected=True,
        otherwise=8,
        part_of=PartOf(attribute="began_in", trace=trace),
    )
    monkeypatch.setattr(Event, "wait", recorded)
    event = Event(lambda: asked.state().call)
    for began_in in (None, 5, (trace - 1 << CALL_BITS) + 5, (trace + 1 << CALL_BITS) + 5):
        event.began_in = began_in
        assert event.wait("not recorded") == (0, "not recorded")
    assert asked.records == []
    assert asked.failures == []
    event.began_in = (trace << CALL_BITS) + 41
    assert event.wait() is True
    assert event.wait(result=False) == (41, False)
    assert asked.native.recorded(lambda: event.wait(1), 9, is_call=True)() == (41, 1)
    assert asked.native.recorded(lambda: asked.state().call, 9, is_call=True)() == 4
    with pytest.raises(KeyError):
        event.wait(KeyError("end"))
    assert asked.state().call == 0
    found = [(each.subject, each.call) for each in asked.records]
    assert found == [(7, 41), (8, 41), (8, 41), (9, 2), (9, 4)]
    assert [(call, subject) for _, _, call, subject in asked.failures] == [(41, 8)]
    with pytest.raises(TypeError, match="missing 1 required"):
        recorded()
    with pytest.raises(AttributeError, match="began_in"):
        recorded(object())


class Ring:
    """Has the address of notes."""

    def __init__(self) -> None:
        self.content = ctypes.create_string_buffer(NOTE_BYTES)
        self.address = ctypes.addressof(self.content)


class End:
    """An object of which each call leaves a note."""

    def __init__(self) -> None:
        self.ring = Ring()

    def run(self, note: int) -> None:
        self.ring.content.raw = struct.pack("<6Q", *range(note, note + 6))


def ends_with_own_slots() -> tuple[End, End]:
    """Returns two objects whose rings native code knows beside each other, and is told of once."""

    def slot(end: End) -> int:
        return id(end.ring) // 16 % recorded_call._SUBJECT_SLOTS

    first, others = End(), [End()]
    while slot(others[-1]) == slot(first):
        others.append(End())
    return first, others[-1]


def test_notes_are_recorded(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = Subjects(key="ring", find=asked.subject, note="address")
    recorded = asked.native.recorded(End.run, subjects, is_call=True)
    monkeypatch.setattr(End, "run", recorded)
    ends, other = ends_with_own_slots(), asked.native.recorded(lambda: None, 1, is_call=False)
    for note in range(6):
        ends[note % 2].run(note)
        other()
    assert asked.pairs == [(end, end.ring) for end in ends]
    noted = [struct.unpack("<6Q", each.note) for each in asked.records if each.subject >= 100]
    assert noted == [tuple(range(note, note + 6)) for note in range(6)]
    assert [each.note for each in asked.records if each.subject == 1] == [b""] * 6
    with pytest.raises(TypeError, match="missing 2 required"):
        recorded()
    with pytest.raises(AttributeError, match="ring"):
        recorded(object(), 1)
    del ends[0].ring.address
    again = asked.native.recorded(End.run, subjects, is_call=True)
    with pytest.raises(AttributeError, match="address"):
        again(ends[0], 1)


def test_old_notes_are_dropped_with_their_records(asked: Asked) -> None:
    end = End()
    subjects = Subjects(key="ring", find=asked.subject, note="address")
    recorded = asked.native.recorded(lambda end, note: None, subjects, is_call=True)
    for note in range(2 * CAPACITY):
        recorded(end, note)
    assert 0 < len(asked.records) <= CAPACITY
    assert {len(each.note) for each in asked.records} == {NOTE_BYTES}
    assert [each.call for each in asked.records][-1] == 4 * CAPACITY


@pytest.mark.skipif(not HAS_NATIVE, reason="native functions need CPython with a GIL")
def test_the_first_record_does_not_wait_for_memory() -> None:
    assert process.load_step_program()
    asked = RecorderOfCalls(thread=State, failed=lambda *_: None, first_call=2)
    native = recorded_calls(1 << 19, asked)
    assert isinstance(native, recorded_call.NativeRecorder)
    place = int(native.table[recorded_call.TABLE.index("RING")])
    is_there = ctypes.create_string_buffer(1)
    page = place & -mmap.PAGESIZE
    assert not ctypes.CDLL(None).mincore(ctypes.c_void_p(page), ctypes.c_size_t(1), is_there)
    assert is_there.raw[0] & 1


def test_the_last_records_are_kept(asked: Asked) -> None:
    recorded = asked.native.recorded(lambda: None, 0, is_call=True)
    for _ in range(CAPACITY + 10):
        recorded()
    assert asked.native.count == CAPACITY + 10
    assert [each.call for each in asked.records] == list(range(22, 2 * (CAPACITY + 10) + 1, 2))


def test_threads_have_calls_of_their_own(asked: Asked) -> None:
    both = threading.Barrier(2)
    seen: list[tuple[int, int]] = []

    def meet() -> None:
        both.wait(10)
        seen.append((asked.state().number, asked.state().call))
        both.wait(10)

    recorded = asked.native.recorded(meet, 0, is_call=True)
    for _ in range(3):
        # Threads that begin after others have ended may have their numbers of the system.
        threads = [threading.Thread(target=recorded) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({call for _, call in seen}) == 6
    numbers = {id(state): state.number for state in asked.states}
    assert sorted((numbers[each.thread], each.call) for each in asked.records) == sorted(seen)


def test_nothing_is_leaked(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "run", shortened(asked, ("runs", "latest")))
    model, argument, result = Model(), object(), object()
    model.latest = lambda *_: result
    plain = asked.native.recorded(lambda *_: result, 0, is_call=True)
    failing = asked.native.recorded(lambda argument: argument.missing, 0, is_call=True)
    part = PartOf(attribute="began_in", trace=1)
    waiting = asked.native.recorded(Event.wait, 1, is_call=False, expected=True, otherwise=2, part_of=part)
    event = Event(lambda: 3)
    starting = asked.native.shortened(
        Model.run,
        ShortCut(
            path=("begin",),
            most_arguments=1,
            subjects=Subjects(find=asked.subject),
            expected=True,
            finish=lambda *_: missing,
            answer=lambda: argument,
        ),
    )
    missing = Model()
    unusual = UnusualResults(kind=Model, find=lambda found: 5 if found is missing else 1 // 0)
    looking = asked.native.recorded(lambda found: found, 3, is_call=True, unusual=unusual)

    def everything() -> None:
        looking(missing)
        with pytest.raises(ZeroDivisionError):
            looking(model)
        for model.begin in (lambda: True, lambda: False):
            starting(model)
        model.run(argument)
        model.run(argument, argument, argument)
        plain(argument, argument)
        for event.began_in in (None, 1 << CALL_BITS | 1 << 20, 2 << CALL_BITS):
            waiting(event)
            waiting(event, argument)
        with pytest.raises(AttributeError):
            failing(argument)
        asked.failures.clear()

    everything()
    own = (model, argument, result, model.latest, model.executor, asked.state(), plain, "latest", event)
    watched = (*own, missing, looking, unusual.find)
    gc.collect()
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(50):
        everything()
    gc.collect()
    assert [sys.getrefcount(each) for each in watched] == before


@pytest.mark.skipif(not HAS_NATIVE, reason="native functions need CPython with a GIL")
@pytest.mark.parametrize("make", [recorded_calls, PythonRecorder])
def test_functions_live_as_long_as_they_are_used(make: Make) -> None:
    assert process.load_step_program()
    asked = Asked(make)

    def function() -> int:
        return 3

    alive = weakref.ref(function)
    recorded = asked.native.recorded(function, 0, is_call=True)
    del asked, function
    gc.collect()
    assert recorded() == 3
    del recorded
    gc.collect()
    assert alive() is None
