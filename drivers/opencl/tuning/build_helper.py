"""Helper processes that build programs and measure their kernels in parallel.

Compilers hold a lock, so threads of one process would wait for each other. Some runtimes return
binaries that are text for another compiler (NVIDIA's are PTX), which would then run here, program
by program; therefore candidates are measured in the process that built them. One process at a time
measures, and no other kernels run meanwhile.
"""

import logging
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.program_text import KernelTexts, kernel_name
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.program import BuiltProgram, missing_kernels
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses, process_count
from neurald.drivers.opencl.tuning.program_messages import Answer, Build, Measure
from neurald.drivers.opencl.tuning.shard_queue import Shard, ShardQueue
from neurald.drivers.opencl.tuning.sharding import shards_of, work_bytes
from neurald.drivers.opencl.tuning.trials import trials_of
from neurald.hal.decoding import from_msgpack
from neurald.hal.errors import OpFailed
from neurald.hal.process.threads.checked_thread import CheckedThread

_LOG = logging.getLogger(__name__)

#: Bytes of functions in a program that justify a process: building them takes longer than starting
#: the process and opening the device.
_MIN_WORK_BYTES = 60_000
#: The least bytes of functions in each part of a step, if it has several. Parts are built at the
#: same time, by processes that start while a model is lowered.
_MIN_PART_BYTES = 10_000
#: Time limits for building a program and for measuring kernels; a process that exceeds them is
#: stuck.
_MAX_BUILD_S, _MAX_MEASURE_S = 120.0, 60.0


class BuildHelper:
    """Process that takes shards, one after another, until none are left.

    Args:
        work: the queue that it takes shards from and reports times to.
        device: the device that it measures on.
        processes: where it gets its process from.
        is_resident: whether kernels are measured as phases of a persistent kernel.
    """

    def __init__(
        self, work: ShardQueue, device: DeviceContext, processes: HelperProcesses, *, is_resident: bool
    ) -> None:
        self._work = work
        self._facts, self._is_resident = device.facts, is_resident
        self.process = processes.take()
        self._thread: threading.Thread | None = None
        if self.process is not None:
            self._thread = CheckedThread(
                target=self._run, args=(self.process,), name="neurald opencl helper", daemon=True
            )
            self._thread.start()

    def _run(self, process: WorkerProcess) -> None:
        while (shard := self._work.next()) is not None:
            try:
                is_alive = self._measure(process, shard)
            except Exception as error:
                # Whatever failed will be reported where the shard is built next; waiting threads
                # must not hang.
                if not process.is_closed:
                    _LOG.warning("a build helper process ended: %s", error)
                self._work.requeue(shard)
                return
            if not is_alive:
                return

    def _measure(self, process: WorkerProcess, shard: Shard) -> bool:
        """Builds and measures a shard in the process.

        Returns False if the process is of no further use.

        Raises:
            OSError, ValueError, struct.error: the process has ended, or its answer is invalid.
        """
        text, trials = trials_of(shard, self._facts, is_resident=self._is_resident)
        built = _request(process, Build(text=text), _MAX_BUILD_S)
        if built.error:
            self._work.split(shard, built.error)
            return True
        with self._work.measuring_lock:
            times = _request(process, Measure.of(trials), _MAX_MEASURE_S).times_ns
        if len(times) > len(shard) or not all(time_ns is None or time_ns >= 0 for time_ns in times):
            raise ValueError(f"a build helper process returned invalid times: {times}")
        self._work.record_times(shard, times)
        return len(times) == len(shard)

    def kill(self) -> None:
        """Kills the process; `close` waits for its end."""
        if self.process is not None:
            self.process.kill()

    def close(self) -> None:
        """Ends the process and its thread. It gets no more work."""
        self.kill()
        if self._thread is not None:
            self._thread.join()
        if self.process is not None:
            self.process.close()


class HelperBuild:
    """A program that another process builds.

    Args:
        device: the device to build for.
        text: the text of the program.
        process: builds the program, and ends then.
    """

    def __init__(self, device: DeviceContext, text: str, process: WorkerProcess) -> None:
        self._device, self._text, self._process = device, text, process
        self._binary = b""
        self._is_closed = False
        self._has_answered = threading.Event()
        CheckedThread(target=self._fetch, name="neurald opencl helper", daemon=True).start()

    def program(self) -> BuiltProgram:
        """Waits for the program, which is built here if the process failed.

        Raises:
            OpFailed: compilation failed, or `close` was called.
            Error: the device failed.
        """
        self._has_answered.wait()
        if self._is_closed:
            raise OpFailed("the build was ended")
        try:
            if self._binary:
                return BuiltProgram.from_binary(self._device, self._binary)
        except OpFailed as error:
            _LOG.warning("the binary from a build helper process cannot be used: %s", error)
        return BuiltProgram.from_source(self._device, self._text)

    def close(self) -> None:
        """Ends the process; its thread waits for its end."""
        self._is_closed = True
        self._process.kill()

    def _fetch(self) -> None:
        try:
            answer = _request(self._process, Build(text=self._text, wants_binary=True), _MAX_BUILD_S)
            if not answer.error:
                self._binary = answer.binary
        except (OSError, ValueError, struct.error) as error:
            if not self._process.is_closed:
                _LOG.warning("a build helper process ended: %s", error)
        finally:
            self._has_answered.set()
            self._process.close()


@contextmanager
def build_in_helper(
    device: DeviceContext, text: str, processes: HelperProcesses, min_bytes: int | None = None
) -> Iterator[Callable[[], BuiltProgram]]:
    """Builds a program in another process during the `with` block.

    The yielded function waits for the result, and builds the program here if the process failed.

    Args:
        device: the device to build for.
        text: the text of the program.
        processes: where the process comes from.
        min_bytes: the least bytes of functions for which a process is used; None for as many as
            take longer to build than a process to start.
    """
    least = _MIN_WORK_BYTES if min_bytes is None else min_bytes
    is_worthwhile = process_count(device.facts) > 1 and work_bytes([text]) >= least
    process = processes.take() if is_worthwhile else None
    if process is None:
        yield lambda: BuiltProgram.from_source(device, text)
        return
    build = HelperBuild(device, text, process)
    try:
        yield build.program
    finally:
        build.close()


def build_kernels(
    device: DeviceContext, kernels: KernelTexts, processes: HelperProcesses | None = None
) -> BuiltProgram:
    """Builds the kernels of a step that are not built yet, in several processes if there are many.

    Args:
        device: the device to build for.
        kernels: their texts.
        processes: where the processes come from; None for new ones.

    Raises:
        OpFailed: compilation failed.
        Error: the device failed.
    """
    missing = missing_kernels(device, kernels)
    names: dict[str, tuple[Source, set[str]]] = {}
    for source, bases in kernels.uses:
        name = kernel_name(source, bases)
        if name in missing:
            names.setdefault(source.name, (source, set()))[1].add(name)
    sources = [source for source, _ in names.values()]
    work = work_bytes(source.text for source in sources)
    part_bytes = max(_MIN_PART_BYTES, work // process_count(device.facts))
    parts = [
        {name for source in part for name in names[source.name][1]} for part in shards_of(sources, part_bytes)
    ]
    if len(parts) > 1:
        processes = processes or HelperProcesses(device.facts)
        with ExitStack() as stack:
            texts = [kernels.together(part) for part in parts]
            # Also the small ones, which would be built here one after another. The largest one has
            # no process to wait for.
            others = [stack.enter_context(build_in_helper(device, text, processes, 0)) for text in texts[1:]]
            BuiltProgram.from_source(device, texts[0]).share(kernels, parts[0])
            for part, finish in zip(parts[1:], others, strict=True):
                finish().share(kernels, part)
    return BuiltProgram.of_kernels(device, kernels)


def _request(process: WorkerProcess, request: Build | Measure, limit_s: float) -> Answer:
    """Returns the answer of a process.

    Raises:
        OSError, ValueError, struct.error: the process has ended, or its answer is invalid.
    """
    return from_msgpack(process.answer(msgspec.msgpack.encode(request), limit_s=limit_s), Answer)
