"""Requests that are run again as before, and what goes on differently."""

from types import SimpleNamespace
from typing import Any

import pytest

from neurald.hal.errors import ResultCode
from neurald.hal.lanes.packets import Receipt, RunAnswer, RunFailure, TensorAt
from neurald.service.inference.models.requests.batch import Batch
from neurald.service.inference.models.runs.known_run import BegunRun, EndedRun, KnownRun, known_run
from neurald.service.inference.models.workers.lane_windows import InPlace
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import InferenceRequest, WantedOutput

INPUT = TensorAt("int8", (4,), 0, 4)
OUTPUT = TensorAt("int8", (4,), 64, 4)
ANSWER = RunAnswer(1, (OUTPUT,), 0, Receipt(("cpu",), ("1",), False, 10, 20, 30))
REFUSED = ServiceError(Status.INVALID, "truncated")


class Place:
    """A part of a region with four bytes."""

    def __init__(self, region: str = "a", *, error: Exception | None = None, is_there: bool = True) -> None:
        self.name = region
        #: What the check of the region raises, the first time and later.
        self.checks: list[Exception | None] = []
        self.error = error
        self.is_there = is_there
        self.uses = 0
        self.content = b"abcd"

    @property
    def place(self) -> "Place":
        return self

    @property
    def region(self) -> "Place":
        return self

    def check(self) -> None:
        error = self.checks.pop(0) if self.checks else None
        if error is not None:
            raise error

    def check_size(self) -> None:
        self.check()

    def is_beside(self, other: "Place") -> bool:
        return other.name == self.name

    def use(self) -> bool:
        self.uses += self.is_there
        return self.is_there

    def release(self) -> None:
        self.uses -= 1

    def copy_into(self, target: memoryview) -> None:
        if self.error is not None:
            raise self.error
        target[:] = self.content

    def write(self, data: memoryview, name: str) -> None:
        if self.error is not None:
            raise self.error
        assert name == "y"
        self.content = bytes(data)


class Windows:
    """Notes what becomes of requests that are run in place."""

    def __init__(self, found: InPlace | None) -> None:
        self.found = found
        self.notes: list[str] = []

    def in_place(self, request: KnownRun) -> InPlace | None:
        return self.found

    def refuse(self, request: KnownRun) -> None:
        self.notes.append("refuse")

    def renew(self, request: KnownRun) -> None:
        self.notes.append("renew")


class Lane:
    """Runs a model that turns its input round."""

    def __init__(
        self,
        outcome: Any = ANSWER,
        *,
        is_gone: bool = False,
        in_place: InPlace | None = None,
        is_cut: bool = False,
    ) -> None:
        self.outcome = outcome
        self.is_gone = is_gone
        self.windows = Windows(in_place)
        self.is_cut = is_cut
        self.runs = 0
        self.memory = memoryview(bytearray(136))

    def arena(self, size: int) -> memoryview:
        if self.is_gone:
            raise ConnectionResetError
        assert size == (128 if self.windows.found is None else 136)
        return self.memory

    def run(self, inputs: Any, results_at: int, wanted: Any, end_s: float, in_place: Any) -> Any:
        assert (results_at, wanted) == (64, (0,))
        assert in_place is self.windows.found
        assert inputs == ((INPUT,) if in_place is None else in_place.inputs)
        self.runs += 1
        self.memory[128:] = self.is_cut.to_bytes(8, "little")
        self.memory[64:68] = bytes(self.memory[:4])[::-1]
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome, self.memory


class Instance:
    """Notes which runs are counted."""

    def __init__(self) -> None:
        self.counted: list[str] = []

    def note_alone(self, rows: int, times_ns: tuple[int, int, int], receipt: Receipt, trace_id: str) -> None:
        assert rows == 1
        assert times_ns == tuple(sorted(times_ns))
        assert receipt == ANSWER.receipt
        self.counted.append(trace_id)


def request_of(outputs: tuple[WantedOutput, ...], **parameters: Any) -> InferenceRequest:
    return InferenceRequest(model="m", version="", id="", parameters=parameters, inputs=(), outputs=outputs)


def noted(source: Any, request: InferenceRequest, result: object = b"answer") -> KnownRun | None:
    job: Any = SimpleNamespace(inputs=[SimpleNamespace(source=source)])
    batch = Batch(jobs=[job], inputs=(INPUT,), results_at=64, wanted=(0,), rows=1, input_ns=0, begun_ns=0)
    return known_run(None, 128, request, batch, ANSWER, result)


def known(source: Place, target: Place) -> KnownRun:
    region: Any = target
    found = noted(source, request_of((WantedOutput(name="y", region=region),)))
    assert found is not None
    return found


def run(known: KnownRun, lane: Any, instance: Any) -> bytes | BegunRun | None:
    found = known.run(instance, lane, "trace")
    if not isinstance(found, EndedRun):
        return found
    assert not instance.counted, "it is counted once the client is answered"
    found.count()
    return found.answer


def test_a_request_runs_as_before() -> None:
    target, instance = Place("b"), Instance()
    again = known(Place(), target)
    assert run(again, Lane(), instance) == b"answer"
    assert target.content == b"dcba"
    assert instance.counted == ["trace"]


def test_each_region_is_used_once() -> None:
    source, target = Place(), Place()
    again = known(source, target)
    assert again.use()
    assert source.uses + target.uses == 1
    again.release()
    other = Place("b", is_there=False)
    again = known(source, other)
    assert not again.use()
    assert (source.uses, other.uses) == (0, 0)


def test_nothing_is_begun_without_inputs_or_a_worker() -> None:
    instance = Instance()
    for source, lane in ((Place(error=REFUSED), Lane()), (Place(), Lane(is_gone=True))):
        assert run(known(source, Place()), lane, instance) is None
        assert not lane.runs
    assert not instance.counted


@pytest.mark.parametrize(
    "outcome",
    [
        TimeoutError(),
        ConnectionAbortedError(),
        RunFailure(1, 1, "no"),
        RunAnswer(1, (TensorAt("int8", (3,), 64, 3),), 0, ANSWER.receipt),
        RunAnswer(1, (OUTPUT,), 4, ANSWER.receipt),
    ],
)
def test_runs_that_end_otherwise_are_passed_on(outcome: Any) -> None:
    target, instance, lane = Place("b"), Instance(), Lane(outcome)
    again = known(Place(), target)
    begun = run(again, lane, instance)
    assert isinstance(begun, BegunRun)
    found: Any = begun.outcome
    assert (found if isinstance(outcome, Exception) else found[0]) is outcome
    assert target.content == b"abcd"
    assert not instance.counted
    job: Any = None
    batch = begun.batch(job)
    assert (batch.inputs, batch.results_at, batch.wanted) == ((INPUT,), 64, (0,))
    assert batch.input_ns == begun.begun_ns - begun.queued_ns


def test_outputs_that_cannot_be_written_are_passed_on() -> None:
    begun = run(known(Place(), Place("b", error=REFUSED)), Lane(), Instance())
    assert isinstance(begun, BegunRun)
    assert not isinstance(begun.outcome, OSError)
    assert begun.outcome[0] is ANSWER


def test_requests_with_more_than_tensors_in_regions_are_not_run_so() -> None:
    region: Any = Place()
    wanted = WantedOutput(name="y", region=region)
    assert noted(Place(), request_of((wanted,))) is not None
    assert noted(b"bytes of a message", request_of((wanted,))) is None
    assert noted(Place(), request_of((wanted,)), result={}) is None
    assert noted(Place(), request_of((wanted,), receipt=True)) is None
    assert noted(Place(), request_of(())) is None
    assert noted(Place(), request_of((WantedOutput(name="y"),))) is None
    assert noted(Place(), request_of((WantedOutput(name="y", region=region, classes=1),))) is None


IN_WINDOW = InPlace(
    inputs=(TensorAt("int8", (4,), 0, 4, 1),),
    results=(TensorAt("int8", (4,), 8, 4, 1),),
    results_end=128,
    windows=1,
)
PLACED = RunAnswer(1, IN_WINDOW.results, 0, ANSWER.receipt)


def test_a_request_runs_in_place() -> None:
    """Nothing is copied, and the worker says where the outputs are."""
    source, target, instance = Place(error=REFUSED), Place("b", error=REFUSED), Instance()
    again, lane = known(source, target), Lane(PLACED, in_place=IN_WINDOW)
    assert run(again, lane, instance) == b"answer"
    assert instance.counted == ["trace"]
    assert not lane.windows.notes


def test_outputs_of_a_run_in_place_may_be_in_the_arena() -> None:
    target, instance = Place("b"), Instance()
    lane = Lane(ANSWER, in_place=IN_WINDOW)
    lane.memory[:4] = b"efgh"
    assert run(known(Place(error=REFUSED), target), lane, instance) == b"answer"
    assert target.content == b"hgfe"


@pytest.mark.parametrize(
    ("outcome", "is_cut", "checks", "note"),
    [
        (RunFailure(1, ResultCode.BAD_STATE, "no window"), False, [], "refuse"),
        (PLACED, True, [], "renew"),
        (ANSWER, True, [], "renew"),
        (PLACED, False, [None, REFUSED], "renew"),
    ],
)
def test_runs_in_place_that_are_in_vain(outcome: Any, is_cut: bool, checks: Any, note: str) -> None:
    """Repeats such a request with copies, as if nothing had been done."""
    source, instance = Place(), Instance()
    source.checks = checks
    lane = Lane(outcome, in_place=IN_WINDOW, is_cut=is_cut)
    assert run(known(source, Place("b")), lane, instance) is None
    assert lane.runs == 1
    assert lane.windows.notes == [note]
    assert not instance.counted


def test_regions_are_checked_before_a_run_in_place() -> None:
    source = Place()
    source.checks = [REFUSED]
    lane = Lane(PLACED, in_place=IN_WINDOW)
    assert run(known(source, Place("b")), lane, Instance()) is None
    assert not lane.runs


@pytest.mark.parametrize("outcome", [TimeoutError(), RunFailure(1, ResultCode.OP_FAILED, "no")])
def test_runs_in_place_that_end_otherwise_are_passed_on(outcome: Any) -> None:
    lane = Lane(outcome, in_place=IN_WINDOW)
    begun = run(known(Place(), Place("b")), lane, Instance())
    assert isinstance(begun, BegunRun)
    begun.id_field = b"!"
    assert begun.result(PLACED, lane.memory) == b"answer!"
    lane.memory[128] = 1
    assert begun.result(PLACED, lane.memory) is None
    assert begun.is_in_vain(PLACED, lane.memory)
    failure = RunFailure(1, ResultCode.OP_FAILED, "no")
    assert begun.result(failure, lane.memory) is None
    assert not begun.is_in_vain(failure, lane.memory)
