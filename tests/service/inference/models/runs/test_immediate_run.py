"""Requests that a thread of a transport runs itself: their ends and their lanes."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.inference import zoo

from neurald.hal.lanes.packets import RunFailure
from neurald.service.inference.models.requests.job import InferenceJob, JobInput
from neurald.service.inference.models.runs import immediate_run
from neurald.service.inference.models.runs.immediate_run import ImmediateRun
from neurald.service.inference.models.runs.known_run import BegunRun
from neurald.service.inference.models.statistics.statistics import Statistics
from neurald.service.inference.models.workers.instance import InstanceEvents, ModelInstance, run_error
from neurald.service.inference.models.workers.lane import ServedLane
from neurald.service.inference.models.workers.lane_windows import InPlace
from neurald.service.inference.models.workers.worker_options import WorkerOptions
from neurald.service.inference.models.workers.worker_pool import WorkerPool
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import Bytes
from neurald.service.inference.worker.orders import LoadOrder
from neurald.service.sandbox.mode import SandboxMode

#: More repetitions than end by themselves within a test.
_ENDLESS = 2**31 - 1
#: Repetitions that take long enough to be seen under way, and then end by themselves.
_LONG = 2_000_000


class End:
    """Notes how a request has ended."""

    def __init__(self, ended: list[tuple[object, Exception | None]]) -> None:
        self._ended = ended
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, result: object) -> None:
        self._is_done = True
        self._ended.append((result, None))

    def set_exception(self, error: Exception) -> None:
        self._is_done = True
        self._ended.append((None, error))

    def cancel(self) -> None:
        self._is_done = True


class Counting:
    """A model that counts up to its input, in a worker with one lane."""

    def __init__(self) -> None:
        self.returned: list[InferenceJob] = []
        self.ended: list[tuple[object, Exception | None]] = []
        self.waits = 0
        self.back = 0
        self.statistics = Statistics()
        self._file = os.memfd_create("model")
        os.write(self._file, zoo.counting())
        self._pool = WorkerPool(WorkerOptions(sandbox=SandboxMode.OFF))
        nothing: Any = lambda *_: None  # noqa: E731 - ignores all arguments

        def returned(jobs: Sequence[InferenceJob]) -> None:
            self.returned += jobs

        self.instance = ModelInstance(
            self._pool,
            LoadOrder(name="counting"),
            self._file,
            lanes=1,
            load_s=60,
            statistics=self.statistics,
            output_bytes=lambda rows: 1024,
            events=InstanceEvents(changed=nothing, returned=returned, ran=nothing),
        )

    def job(self, count: int, limit_s: float | None = None) -> InferenceJob:
        source = Bytes(memoryview(np.array(count, np.int32).tobytes()))
        return InferenceJob(
            inputs=[JobInput(kind="int32", shape=(), source=source)],
            rows=1,
            wanted=(0,),
            finish=lambda outputs, _: int(np.frombuffer(outputs[0].data, np.int32)[0]),
            end=End(self.ended),
            deadline_s=None if limit_s is None else time.monotonic() + limit_s,
        )

    def begun(self, job: InferenceJob, run_s: float = 0.0) -> ImmediateRun:
        lane = self.instance.lend_lane()
        assert lane is not None
        assert self.instance.lend_lane() is None

        def come_back() -> None:
            self.back += 1

        return ImmediateRun(self.instance, lane, job, come_back, run_s)

    def will_wait(self) -> None:
        self.waits += 1

    async def run(self, count: int) -> object:
        """Runs it in the loop."""
        lane = self.instance.take_lane()
        assert isinstance(lane, ServedLane)
        job = self.job(count)
        self.instance.run(lane, [job])
        await self.reached(job.end.done)
        return self.ended.pop()

    async def reached(self, condition: Any) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        await self.instance.close()
        self._pool.close()
        os.close(self._file)


@asynccontextmanager
async def counting() -> AsyncIterator[Counting]:
    found = Counting()
    await found.instance.start()
    try:
        yield found
    finally:
        await found.close()


def test_runs_in_threads_and_in_the_loop_take_turns_in_a_lane() -> None:
    async def run() -> None:
        async with counting() as model:
            for count in (1, 2, 2, 3, 3):
                assert await asyncio.to_thread(model.begun(model.job(count)).run, model.will_wait) is None
                assert model.ended.pop() == (count, None)
                assert await model.run(count + 1) == (count + 1, None)
            assert model.back == 5
            assert model.instance.running == 0
            assert model.statistics.success.count == model.statistics.executions == 10

    asyncio.run(run())


def test_a_run_that_takes_too_long_is_ended() -> None:
    async def run() -> None:
        async with counting() as model:
            await model.run(1)
            began = time.monotonic()
            job = model.job(_ENDLESS, limit_s=0.05)
            assert await asyncio.to_thread(model.begun(job).run, model.will_wait) is None
            assert time.monotonic() - began < 30
            ((answer, error),) = model.ended
            assert answer is None
            assert isinstance(error, ServiceError)
            assert error.status is Status.LATE
            assert (model.waits, model.back) == (1, 1)
            model.ended.clear()
            assert await model.run(7) == (7, None)

    asyncio.run(run())


@pytest.mark.parametrize(("run_s", "wait_s"), [(0.0005, 0.001), (0.003, 0.0)])
def test_others_go_on_at_the_beginning_of_a_run_that_probably_takes_long(
    run_s: float, wait_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_s: list[float] = []
    run_in_lane = ServedLane.run

    def noted_run(lane: ServedLane, inputs: Any, results_at: int, wanted: Any, end_s: float) -> Any:
        ends_s.append(end_s)
        return run_in_lane(lane, inputs, results_at, wanted, end_s)

    async def run() -> None:
        async with counting() as model:
            # It goes on until the thread has seen that it does.
            job = model.job(_ENDLESS)
            begun = model.begun(job, run_s)
            running = asyncio.create_task(asyncio.to_thread(begun.run, model.will_wait))
            await model.reached(lambda: model.waits)
            job.end.cancel()
            begun.cancel()
            assert await running is None
            assert model.waits == 1

    clock = SimpleNamespace(monotonic=lambda: 0.0, perf_counter_ns=time.perf_counter_ns)
    monkeypatch.setattr(immediate_run, "time", clock)
    monkeypatch.setattr(ServedLane, "run", noted_run)
    asyncio.run(run())
    assert ends_s == [wait_s]


def test_a_run_for_which_nobody_waits_is_ended() -> None:
    async def run() -> None:
        async with counting() as model:
            job = model.job(_ENDLESS)
            immediate = model.begun(job)
            running = asyncio.create_task(asyncio.to_thread(immediate.run, model.will_wait))
            await model.reached(lambda: model.waits)
            assert model.instance.running == model.instance.awaited == 1
            job.end.cancel()
            immediate.cancel()
            assert await running is None
            assert not model.ended
            assert await model.run(7) == (7, None)

    asyncio.run(run())


def test_a_run_for_which_nobody_waits_before_it_begins_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[RunFailure] = []

    def noted(answer: RunFailure) -> ServiceError:
        answers.append(answer)
        return run_error(answer)

    monkeypatch.setattr(immediate_run, "run_error", noted)

    async def run() -> None:
        async with counting() as model, asyncio.timeout(60):
            job = model.job(_ENDLESS)
            immediate = model.begun(job)
            job.end.cancel()
            immediate.cancel()
            assert await asyncio.to_thread(immediate.run, model.will_wait) is None
            assert [answer.is_cancelled for answer in answers] == [True]
            assert not model.ended
            assert await model.run(7) == (7, None)

    asyncio.run(run())


def test_a_request_that_has_ended_does_not_end_the_next_run_of_its_lane() -> None:
    async def run() -> None:
        async with counting() as model:
            first = model.begun(model.job(1))
            assert await asyncio.to_thread(first.run, model.will_wait) is None
            assert model.ended.pop() == (1, None)
            second = model.begun(model.job(_ENDLESS))
            running = asyncio.create_task(asyncio.to_thread(second.run, model.will_wait))
            await model.reached(lambda: model.waits)
            first.cancel()
            await asyncio.sleep(0.2)
            assert not running.done()
            second.job.end.cancel()
            second.cancel()
            assert await running is None

    asyncio.run(run())


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_run_that_was_begun_before_goes_on(is_killed: bool) -> None:
    """It is awaited, or run again if its worker dies."""

    async def run() -> None:
        async with counting() as model:
            await model.run(1)
            job = model.job(_ENDLESS if is_killed else _LONG)
            lane = model.instance.lend_lane()
            assert lane is not None
            batch = model.instance.write(lane, job)
            with pytest.raises(TimeoutError) as caught:
                await asyncio.to_thread(lane.run, batch.inputs, batch.results_at, batch.wanted, 0.0)
            known: Any = SimpleNamespace(
                inputs=batch.inputs, results_at=batch.results_at, wanted=batch.wanted, rows=1
            )
            begun = BegunRun(
                known=known, instance=model.instance, lane=lane, queued_ns=1, begun_ns=2, outcome=caught.value
            )
            results: list[object] = []
            job.note_result = lambda *given: results.append(given[3])
            immediate = ImmediateRun(model.instance, lane, job, lambda: None, 0.0, begun)
            running = asyncio.create_task(asyncio.to_thread(immediate.run, model.will_wait))
            await model.reached(lambda: model.waits)
            if is_killed:
                assert model.instance.pid is not None
                os.kill(model.instance.pid, signal.SIGKILL)
                again = await running
                assert again is not None
                again()
                await model.reached(lambda: model.returned)
                assert model.returned == [job]
            else:
                assert await running is None
                assert model.ended == [(_LONG, None)]
                assert results == [_LONG]
            await model.reached(lambda: model.instance.is_ready)
            assert await model.run(7) == (7, None)

    asyncio.run(run())


@pytest.mark.parametrize("is_in_vain", [False, True])
def test_a_run_in_place_that_takes_longer(is_in_vain: bool) -> None:
    """It is answered as before, or run again with copies."""

    async def run() -> None:
        async with counting() as model:
            await model.run(1)
            job = model.job(_LONG)
            lane = model.instance.lend_lane()
            assert lane is not None
            batch = model.instance.write(lane, job)
            with pytest.raises(TimeoutError) as caught:
                await asyncio.to_thread(lane.run, batch.inputs, batch.results_at, batch.wanted, 0.0)
            known: Any = SimpleNamespace(
                inputs=batch.inputs,
                results_at=batch.results_at,
                wanted=batch.wanted,
                rows=1,
                answer=b"as before",
                is_written=lambda *_: not is_in_vain,
                is_in_vain=lambda *_: is_in_vain,
            )
            begun = BegunRun(
                known=known,
                instance=model.instance,
                lane=lane,
                queued_ns=1,
                begun_ns=2,
                outcome=caught.value,
                in_place=InPlace(inputs=(), results=(), results_end=0, windows=0),
                id_field=b"!",
            )
            noted: list[object] = []
            job.note_result = lambda *given: noted.append(given[3])
            immediate = ImmediateRun(model.instance, lane, job, lambda: None, 0.0, begun)
            assert await asyncio.to_thread(immediate.run, model.will_wait) is None
            assert model.ended == [(_LONG if is_in_vain else b"as before!", None)]
            assert noted == ([_LONG] if is_in_vain else [])

    asyncio.run(run())


def test_a_request_whose_worker_dies_runs_again() -> None:
    async def run() -> None:
        async with counting() as model:
            job = model.job(_ENDLESS)
            running = asyncio.create_task(asyncio.to_thread(model.begun(job).run, model.will_wait))
            await model.reached(lambda: model.waits)
            first = model.instance.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            again = await running
            assert again is not None
            again()
            await model.reached(lambda: model.returned)
            assert model.returned == [job]
            assert model.statistics.retries == 1
            await model.reached(lambda: model.instance.is_ready)
            assert model.instance.pid != first
            assert await model.run(7) == (7, None)

    asyncio.run(run())


def test_a_run_of_the_loop_whose_model_is_unloaded_is_returned() -> None:
    async def run() -> None:
        async with counting() as model:
            job, lane = model.job(_ENDLESS), model.instance.take_lane()
            assert lane is not None
            model.instance.run(lane, [job])
            await model.instance.close()
            assert model.returned == [job]
            assert model.instance.running == 0

    asyncio.run(run())


def test_a_request_whose_model_is_unloaded_is_returned() -> None:
    async def run() -> None:
        async with counting() as model:
            job = model.job(_ENDLESS)
            running = asyncio.create_task(asyncio.to_thread(model.begun(job).run, model.will_wait))
            await model.reached(lambda: model.waits)
            await model.instance.close()
            again = await running
            assert again is not None
            again()
            assert model.returned == [job]
            assert model.instance.lend_lane() is None

    asyncio.run(run())
