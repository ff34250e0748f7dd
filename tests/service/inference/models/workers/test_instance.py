"""A worker that dies, as the model's own state shows it."""

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
from support.inference import zoo

from neurald.hal.errors import ResourceExhaustedTransient
from neurald.service.inference.models.requests.job import InferenceJob, JobInput
from neurald.service.inference.models.statistics.statistics import Statistics
from neurald.service.inference.models.workers import instance as instance_module
from neurald.service.inference.models.workers.instance import InstanceEvents, ModelInstance
from neurald.service.inference.models.workers.model_worker import ModelWorker
from neurald.service.inference.models.workers.worker_options import WorkerOptions
from neurald.service.inference.models.workers.worker_pool import WorkerPool
from neurald.service.inference.protocol.tensors import Bytes
from neurald.service.inference.worker.orders import LoadOrder
from neurald.service.sandbox.mode import SandboxMode


def _ignore(*_: object) -> None:
    """Does nothing with any arguments."""


@contextlib.asynccontextmanager
async def _instance_of(
    model: bytes, *, lanes: int = 1, changed: Callable[[], None] = _ignore
) -> AsyncIterator[ModelInstance]:
    """Creates an instance of a model, and closes it at the end."""
    file = os.memfd_create("model")
    os.write(file, model)
    pool = WorkerPool(WorkerOptions(sandbox=SandboxMode.OFF))
    instance = ModelInstance(
        pool,
        LoadOrder(name="model"),
        file,
        lanes=lanes,
        load_s=60,
        statistics=Statistics(),
        output_bytes=lambda rows: 1024,
        events=InstanceEvents(changed=changed, returned=_ignore, ran=_ignore),
    )
    try:
        yield instance
    finally:
        await instance.close()
        pool.close()
        os.close(file)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_dead_worker_is_not_ready_at_once_and_is_replaced(number: int) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        seen: list[tuple[bool, float]] = []

        def changed() -> None:
            seen.append((instance.is_ready, loop.time()))

        async with _instance_of(zoo.dense(), changed=changed) as instance:
            await instance.start()
            first = instance.pid
            assert first is not None
            seen.clear()
            os.kill(first, number)
            async with asyncio.timeout(60):
                while not any(ready for ready, _ in seen):
                    await asyncio.sleep(0.01)
            # Whoever asks between the death and the start of the next worker is told so.
            assert not seen[0][0]
            assert instance.is_ready
            assert instance.pid != first
        assert not instance.is_ready

    asyncio.run(run())


def test_runs_that_nobody_waits_for_are_not_awaited() -> None:
    async def run() -> None:
        async with _instance_of(zoo.counting()) as instance:
            await instance.start()
            source = Bytes(memoryview(np.array(2**31 - 1, np.int32).tobytes()))
            job = InferenceJob(
                inputs=[JobInput(kind="int32", shape=(), source=source)],
                rows=1,
                wanted=(0,),
                finish=_ignore,
                end=asyncio.get_running_loop().create_future(),
            )
            lane = instance.take_lane()
            assert lane is not None
            assert instance.take_lane() is None
            instance.run(lane, [job])
            assert (instance.running, instance.awaited) == (1, 1)
            job.end.cancel()
            assert (instance.running, instance.awaited) == (1, 0)
            instance.cancel(job)
            async with asyncio.timeout(60):
                while instance.running:
                    await asyncio.sleep(0.01)

    asyncio.run(run())


@pytest.mark.parametrize(("most", "expected"), [(1 << 20, [200_000, 0, 560_000, 0, 0]), (100, [200_000] * 2)])
def test_outputs_of_open_length_have_room_in_the_arena_from_the_second_run_on(
    most: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_module, "_MAX_OUTGROWN_BYTES", most)

    async def run() -> list[int]:
        async with _instance_of(zoo.one_row()) as instance:
            await instance.start()
            attached: list[int] = []
            for count in (50_000, 50_000, 140_000, 140_000, 50_000)[: len(expected)]:
                values = np.arange(count, dtype=np.float32)
                job = InferenceJob(
                    inputs=[
                        JobInput(kind="float32", shape=(1, count), source=Bytes(memoryview(values.tobytes())))
                    ],
                    rows=1,
                    wanted=(0,),
                    finish=lambda outputs, _: bytes(outputs[0].data),
                    end=asyncio.get_running_loop().create_future(),
                    note_result=lambda room, batch, answer, result: attached.append(answer.attached_bytes),
                )
                lane = instance.take_lane()
                assert lane is not None
                instance.run(lane, [job])
                end: Any = job.end
                assert await end == values.tobytes()
        return attached

    assert asyncio.run(run()) == expected


@pytest.mark.parametrize("lacks", ["processes", "descriptors", "threads"])
def test_a_model_is_not_given_up_while_the_machine_lacks_something(
    lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More attempts fail than a model may kill workers."""
    monkeypatch.setattr(instance_module, "_SHORTAGE_PAUSE_S", 0.01)
    failed: list[str] = []
    place, name = {
        "processes": (WorkerPool, "take"),
        "descriptors": (ModelWorker, "open_lane"),
        "threads": (ModelWorker, "load"),
    }[lacks]
    works = getattr(place, name)

    def fails(*given: Any, **named: Any) -> Any:
        if len(failed) < 7:
            failed.append(lacks)
            if lacks == "threads":
                raise ResourceExhaustedTransient("no thread can be started")
            raise OSError(errno.EMFILE if lacks == "descriptors" else errno.EAGAIN, "none is left")
        return works(*given, **named)

    async def run() -> None:
        async with _instance_of(zoo.dense(), lanes=2) as instance:
            await instance.start()
            assert instance.pid is not None
            monkeypatch.setattr(place, name, fails)
            os.kill(instance.pid, signal.SIGKILL)
            async with asyncio.timeout(120):
                while instance.is_ready or len(failed) < 7:
                    await asyncio.sleep(0.001)
                while not instance.is_ready:
                    assert not instance.has_given_up
                    await asyncio.sleep(0.01)
            assert instance.take_lane() is not None
            assert instance.take_lane() is not None

    asyncio.run(run())
