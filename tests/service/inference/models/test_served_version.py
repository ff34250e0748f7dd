"""A version of a model that is unloaded while it runs requests."""

import asyncio
import math
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from support.inference import zoo

from neurald.service.inference.models.runs import dispatcher
from neurald.service.inference.models.served_version import ServedVersion, VersionOptions
from neurald.service.inference.models.workers.worker_options import WorkerOptions
from neurald.service.inference.models.workers.worker_pool import WorkerPool
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import Bytes, InferenceRequest, InputTensor, Parameter
from neurald.service.inference.repository.model_config import parse_config, settings_of
from neurald.service.sandbox.mode import SandboxMode

#: More repetitions than end by themselves within a test.
_ENDLESS = 2**31 - 1


def counting_to(count: int, **parameters: Parameter) -> InferenceRequest:
    source = Bytes(memoryview(np.array(count, np.int32).tobytes()))
    given = InputTensor(name="x", datatype="INT32", shape=(), source=source)
    return InferenceRequest(model="m", version="", id="", parameters=parameters, inputs=(given,), outputs=())


def rows_of(count: int, **parameters: Parameter) -> InferenceRequest:
    source = Bytes(memoryview(np.ones((count, 3), np.float32).tobytes()))
    given = InputTensor(name="x", datatype="FP32", shape=(count, 3), source=source)
    return InferenceRequest(model="m", version="", id="", parameters=parameters, inputs=(given,), outputs=())


@asynccontextmanager
async def serving(configuration: str, content: bytes | None = None) -> AsyncIterator[ServedVersion]:
    """Starts a version of a model, by default one that counts, and closes it at the end."""
    file = os.memfd_create("model")
    os.write(file, zoo.counting() if content is None else content)
    pool = WorkerPool(WorkerOptions(sandbox=SandboxMode.OFF))
    config: Any = parse_config("m", configuration)
    settings = settings_of("m", config)
    version = ServedVersion("m", 1, config, settings, {}, file, pool, VersionOptions(queue_size=8, load_s=60))
    try:
        await version.start()
        yield version
    finally:
        await version.close(0)
        pool.close()


def test_requests_that_still_run_are_refused_when_their_model_is_unloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of the loop, one of another thread, and one that waits.

    While it does, others would be late.
    """

    monkeypatch.setattr(dispatcher, "_SHORT_RUN_S", math.inf)  # on a busy machine, none is short

    async def run() -> None:
        async with serving("instance_group [ { count: 2 } ]") as version:
            await version.infer(counting_to(1), bytes_of, None)
            assert version.refusal(1e-9) is version.refusal(1e-9, counting_to(1)) is None
            arrived = version.arrivals.begin()
            assert version.refusal(1e-9) is not None
            assert version.refusal(1e-9, counting_to(1)) is None, "it comes before what still arrives"
            arrived()
            loop = asyncio.get_running_loop()
            ends: list[asyncio.Future[object]] = [loop.create_future()]
            immediate = version.begin_at_once(counting_to(_ENDLESS), bytes_of, None, ends[0])
            assert immediate is not None
            again = asyncio.create_task(asyncio.to_thread(immediate.run, lambda: None))
            while not version.waiting:
                ends.append(loop.create_future())
                version.begin(counting_to(_ENDLESS), bytes_of, None, ends[-1])
            assert version.running == len(ends) - 1 >= 2
            for late in (version.refusal(1e-9), version.refusal(1e-9, counting_to(1))):
                assert late is not None
                assert late.status is Status.EXHAUSTED
            for limit_s in (None, 1e9):
                assert version.refusal(limit_s) is version.refusal(limit_s, counting_to(1)) is None
            assert version.statistics.refused == 3
            async with asyncio.timeout(30):
                await version.close(0.1)
                rest = await again
                assert rest is not None
                version.run_again(immediate.job, rest)
                results = await asyncio.gather(*ends, return_exceptions=True)
            for each in results:
                assert isinstance(each, ServiceError)
                assert each.status is Status.UNAVAILABLE
                assert "was unloaded" in str(each)

    asyncio.run(run())


_POLICIES = """
instance_group [ { count: 1 } ]
parameters: { key: "lanes" value: { string_value: "1" } }
dynamic_batching {
    priority_levels: 2
    default_priority_level: 2
    default_queue_policy { default_timeout_microseconds: 20000 }
    priority_queue_policy {
        key: 1
        value { default_timeout_microseconds: 20000 timeout_action: DELAY allow_timeout_override: true }
    }
}
"""


def test_requests_wait_no_longer_than_their_priority_may() -> None:
    async def run() -> None:
        async with serving(_POLICIES) as version:
            endless = asyncio.create_task(version.infer(counting_to(_ENDLESS), bytes_of, None))
            async with asyncio.timeout(60):
                while not version.running:
                    await asyncio.sleep(0)
                # Running is not waiting.
                waiting = counting_to(3, priority=1, timeout=1000)
                delayed = asyncio.create_task(version.infer(waiting, bytes_of, None))
                with pytest.raises(ServiceError, match="Request timeout expired") as caught:
                    # A request may shorten the time, and not lengthen it.
                    await version.infer(counting_to(1, timeout=3_600_000_000), bytes_of, 3600)
                assert caught.value.status is Status.UNAVAILABLE
                assert not delayed.done()
                assert not endless.done()
                for invalid in ({"priority": -1}, {"priority": True}, {"timeout": "soon"}):
                    with pytest.raises(ServiceError, match=next(iter(invalid))):
                        await version.infer(counting_to(1, **invalid), bytes_of, None)
                endless.cancel()
                assert await delayed == np.array(3, np.int32).tobytes()

    asyncio.run(run())


_PREFERRED = """
max_batch_size: 8
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 10000000 }
"""


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_requests_are_a_batch_once_another_one_has_left(is_cancelled: bool) -> None:
    """Three requests have more rows than a preferred batch; without the first they are one."""

    async def run() -> None:
        # They wait for more for 10 s otherwise.
        async with serving(_PREFERRED, zoo.open_addition()) as version, asyncio.timeout(8):
            parameters: dict[str, Parameter] = {} if is_cancelled else {"timeout": 100_000}
            first = asyncio.create_task(version.infer(rows_of(1, **parameters), bytes_of, None))
            await asyncio.sleep(0)
            others = [asyncio.create_task(version.infer(rows_of(2), bytes_of, None)) for _ in range(2)]
            await asyncio.sleep(0)
            assert version.waiting == 3
            if is_cancelled:
                first.cancel()
            for each in await asyncio.gather(*others):
                assert each == np.full((2, 3), 2, np.float32).tobytes()
            with pytest.raises(asyncio.CancelledError if is_cancelled else ServiceError):
                await first

    asyncio.run(run())


def test_loops_take_no_longer_than_the_configuration_says() -> None:
    async def run() -> None:
        async with serving('parameters { key: "loop_timeout" value { string_value: "0.05" } }') as version:
            async with asyncio.timeout(60):
                for _ in range(3):
                    with pytest.raises(ServiceError, match="loop timeout"):
                        await version.infer(counting_to(_ENDLESS), bytes_of, None)
                    assert (
                        await version.infer(counting_to(2), bytes_of, None) == np.array(2, np.int32).tobytes()
                    )

    asyncio.run(run())


def bytes_of(answer: Any) -> bytes:
    return bytes(answer.outputs[0].data)
