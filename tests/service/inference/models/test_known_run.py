"""Requests that are run again as before, and what goes on differently."""

from types import SimpleNamespace
from typing import Any

import pytest

from neurald.hal.lanes.packets import Receipt, RunAnswer, RunFailure, TensorAt
from neurald.service.inference.models.batch import Batch
from neurald.service.inference.models.known_run import BegunRun, KnownRun, known_run
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import InferenceRequest, WantedOutput

INPUT = TensorAt("int8", (4,), 0, 4)
OUTPUT = TensorAt("int8", (4,), 64, 4)
ANSWER = RunAnswer(1, (OUTPUT,), 0, Receipt(("cpu",), ("1",), False, 10, 20, 30))
REFUSED = ServiceError(Status.INVALID, "truncated")


class Place:
    """A part of a region with four bytes."""

    def __init__(self, region: str = "a", *, error: Exception | None = None, is_there: bool = True) -> None:
        self.region = region
        self.error = error
        self.is_there = is_there
        self.uses = 0
        self.content = b"abcd"

    @property
    def place(self) -> "Place":
        return self

    def is_beside(self, other: "Place") -> bool:
        return other.region == self.region

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


class Lane:
    """Runs a model that turns its input round."""

    def __init__(self, outcome: Any = ANSWER, *, is_gone: bool = False) -> None:
        self.outcome = outcome
        self.is_gone = is_gone
        self.runs = 0
        self.memory = memoryview(bytearray(128))

    def arena(self, size: int) -> memoryview:
        if self.is_gone:
            raise ConnectionResetError
        assert size == 128
        return self.memory

    def run(self, inputs: Any, results_at: int, wanted: Any, end_s: float) -> Any:
        assert (inputs, results_at, wanted) == ((INPUT,), 64, (0,))
        self.runs += 1
        self.memory[64:68] = bytes(self.memory[:4])[::-1]
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome, self.memory


class Instance:
    """Notes which runs are counted."""

    def __init__(self) -> None:
        self.counted: list[str] = []

    def note_alone(self, rows: int, queued_ns: int, begun_ns: int, receipt: Receipt, trace_id: str) -> None:
        assert rows == 1
        assert queued_ns <= begun_ns
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
    return known.run(instance, lane, "trace")


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
