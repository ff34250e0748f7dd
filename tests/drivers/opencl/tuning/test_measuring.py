"""Kernels are measured with the help of other processes, whose failures do not change the times."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.opencl.trials import as_gpu, broken, good, slowed
from support.waiting import wait_until

from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.tuning import build_helper, helper_processes, measuring
from neurald.drivers.opencl.tuning.build_helper import BuildHelper
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses
from neurald.drivers.opencl.tuning.measuring import times_ns
from neurald.drivers.opencl.tuning.shard_queue import Shard, ShardQueue

#: Workers that do not do what they should, after the first request.
FAILURES = {
    "ends": "import sys; sys.stdin.buffer.read(8)",
    "is killed": "import os; os.kill(os.getpid(), 9)",
    "says nonsense": r"import sys; sys.stdin.buffer.read(8); sys.stdout.buffer.write(b'\5' + bytes(7) + b'12345')",
    "says too much": r"import sys; sys.stdin.buffer.read(8); sys.stdout.buffer.write(bytes([255]) * 100)",
    "says nothing": "import time; time.sleep(600)",
    "invents times": """
import struct, sys, time
sys.path[:] = __import__("json").loads(sys.argv[1])["path"]
import msgspec
def answer(error, times):
    sys.stdin.buffer.read(struct.unpack("<Q", sys.stdin.buffer.read(8))[0])
    text = msgspec.msgpack.encode((error, b"", times))
    sys.stdout.buffer.write(struct.pack("<Q", len(text)) + text)
    sys.stdout.buffer.flush()
answer("", [])
answer("", [-1.0] * 1000)
""",
}


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BuildHelper]]:
    """Records the helpers; each ends with the test. A single source suffices for a program, and a
    program for a process.
    """
    started: list[BuildHelper] = []

    def start(
        work: ShardQueue, device: DeviceContext, processes: HelperProcesses, *, is_resident: bool
    ) -> BuildHelper:
        started.append(BuildHelper(work, device, processes, is_resident=is_resident))
        return started[-1]

    monkeypatch.setattr(measuring, "BuildHelper", start)
    monkeypatch.setattr(measuring, "_TARGET_SHARD_BYTES", 1)
    monkeypatch.setattr(measuring, "_MIN_SHARDS_PER_PROCESS", 1)
    monkeypatch.setattr(measuring, "process_count", lambda facts: 2)
    yield started
    assert started
    for helper in started:
        assert helper.process is not None
        assert helper.process.has_ended
        assert helper.process.is_closed
    # Builds of earlier tests, which nobody waits for, may still end.
    wait_until(lambda: not [each for each in threading.enumerate() if each.name.startswith("neurald opencl")])


@pytest.fixture
def only_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this process wait until helpers have done everything, or returned something."""
    original = ShardQueue.next
    waited: list[ShardQueue] = []

    def next_(self: ShardQueue, *, is_local: bool = False) -> Shard | None:
        if is_local and not waited:
            waited.append(self)
            with self._changed:
                self._changed.wait_for(lambda: self._returned or not (self._waiting or self._taken), 60)
        return original(self, is_local=is_local)

    monkeypatch.setattr(ShardQueue, "next", next_)


def some() -> list[Source]:
    return [slowed(20000), good(), broken(1), slowed(30), broken(2)]


def names(sources: list[Source]) -> set[str]:
    return {source.name for source in sources}


def test_helpers_build_and_measure(
    opencl: DeviceContext, helpers: list[BuildHelper], only_helpers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = some()
    monkeypatch.setattr(measuring, "trials_of", None)
    times = times_ns(as_gpu(opencl), sources, is_resident=False)
    assert set(times) == names([sources[0], sources[1], sources[3]])
    assert times[sources[0].name] > times[sources[1].name]


def test_each_source_is_measured_once(opencl: DeviceContext, helpers: list[BuildHelper]) -> None:
    sources = [slowed(number) for number in range(4)]
    assert set(times_ns(as_gpu(opencl), sources, is_resident=False)) == names(sources)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.usefixtures("only_helpers")
def test_failures_of_helpers(
    opencl: DeviceContext,
    helpers: list[BuildHelper],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    failure: str,
) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(FAILURES[failure])
    monkeypatch.setattr(helper_processes, "_WORKER", worker)
    if failure == "says nothing":
        monkeypatch.setattr(build_helper, "_MAX_BUILD_S", 0.5)
    sources = some()[:3]
    assert set(times_ns(as_gpu(opencl), sources, is_resident=False)) == names(sources[:2])
    assert "build helper process ended" in caplog.text


@pytest.mark.usefixtures("only_helpers")
def test_helpers_with_another_device(
    opencl: DeviceContext, helpers: list[BuildHelper], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere:
        platform_index, device_index, digest = 0, 0, "another device"

    elsewhere = HelperProcesses(Elsewhere())  # type: ignore[arg-type]
    sources = [good(), slowed(30)]
    found = times_ns(as_gpu(opencl), sources, is_resident=False, processes=elsewhere)
    assert set(found) == names(sources)


def test_an_interruption_ends_all_helpers(
    opencl: DeviceContext, helpers: list[BuildHelper], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "_measure_here", interrupt)
    with pytest.raises(KeyboardInterrupt):
        times_ns(as_gpu(opencl), some(), is_resident=False)


def test_few_sources_need_no_helper(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "BuildHelper", None)
    sources = some()
    assert set(times_ns(as_gpu(opencl), sources, is_resident=False)) == names(
        [sources[0], sources[1], sources[3]]
    )


def drained(work: ShardQueue, measure: Callable[[Shard], None]) -> None:
    while (shard := work.next(is_local=True)) is not None:
        measure(shard)


def test_a_shard_that_does_not_build_is_split() -> None:
    sources = tuple(slowed(number) for number in range(7))
    work = ShardQueue([sources])
    sizes = []

    def measure(shard: Shard) -> None:
        sizes.append(len(shard))
        if sources[4] in shard:
            work.split(shard, "it does not build")
        else:
            work.record_times(shard, [1.0] * len(shard))

    drained(work, measure)
    assert sorted(sizes, reverse=True) == [7, 4, 3, 2, 2, 1, 1]
    assert work.times_ns == {source.name: None if source is sources[4] else 1.0 for source in sources}


def test_sources_that_lose_the_device_are_dropped() -> None:
    sources = tuple(slowed(number) for number in range(4))
    work = ShardQueue([sources])
    shard = work.next()
    assert shard == sources
    work.record_times(shard, [5.0])
    rest = work.next()
    assert rest == sources[2:]
    work.record_times(rest, [6.0])
    assert work.next() is None
    assert [work.times_ns[source.name] for source in sources] == [5.0, None, 6.0, None]


def test_returned_shards_are_for_this_process() -> None:
    first, second = (slowed(1),), (slowed(2),)
    work = ShardQueue([first, second])
    assert work.next() == first
    work.requeue(first)
    assert work.next() == second
    assert work.next(is_local=True) == first
    work.record_times(first, [1.0])
    work.record_times(second, [2.0])
    assert work.next() is None
    assert work.next(is_local=True) is None


def test_waiting_threads_get_returned_shards() -> None:
    sources = (slowed(1), slowed(2))
    work = ShardQueue([sources])
    assert work.next() == sources
    found: list[Shard | None] = []
    waiting = threading.Thread(target=lambda: found.extend((work.next(), work.next())))
    waiting.start()
    work.split(sources, "it does not build")
    waiting.join(60)
    assert found == [sources[:1], sources[1:]]


def test_no_thread_waits_after_the_end() -> None:
    work = ShardQueue([(slowed(1),)])
    assert work.next() is not None
    found: list[Shard | None] = []
    waiting = threading.Thread(target=lambda: found.append(work.next()))
    waiting.start()
    work.close()
    waiting.join(60)
    assert found == [None]


def test_progress_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("neurald.drivers.opencl.tuning.shard_queue._PROGRESS_INTERVAL_S", 0.0)
    caplog.set_level("INFO", "neurald.drivers.opencl.tuning")
    shards = [(slowed(1), slowed(2)), (slowed(3),)]
    work = ShardQueue(shards)
    drained(work, lambda shard: work.record_times(shard, [1.0] * len(shard)))
    assert "compiled and measured 2 of 3 kernels" in caplog.text
    assert "compiled and measured 3 of 3 kernels" in caplog.text
