"""Builds the kernels of a step in several processes at the same time.

The kernels are divided into parts, and each process builds one part after another, as does this
one, until none are left: how long a part takes is known only roughly before.
"""

import logging
import struct
import threading
from collections import deque
from collections.abc import Sequence

from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.program_text import KernelTexts, kernel_name
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.program import BuiltProgram, missing_kernels
from neurald.drivers.opencl.tuning.build_helper import MAX_BUILD_S, ask
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses, process_count
from neurald.drivers.opencl.tuning.program_messages import Build
from neurald.drivers.opencl.tuning.sharding import shards_of, work_bytes
from neurald.hal.errors import OpFailed
from neurald.hal.process.checked_thread import CheckedThread

_LOG = logging.getLogger(__name__)

#: The least bytes of functions in each part, if there are several, and the most parts for each
#: process.
_MIN_PART_BYTES, _MAX_PARTS_EACH = 10_000, 2


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
    count = process_count(device.facts)
    part_bytes = _part_bytes(work_bytes(source.text for source in sources), count)
    parts = [
        {name for source in part for name in names[source.name][1]} for part in shards_of(sources, part_bytes)
    ]
    if count > 1 and len(parts) > 1:
        texts = [kernels.together(part) for part in parts]
        builds = _PartBuilds(device, texts, processes or HelperProcesses(device.facts))
        try:
            builds.start(min(count, len(parts)) - 1)
            for number, program in enumerate(builds.programs()):
                program.share(kernels, parts[number])
        finally:
            builds.close()
    return BuiltProgram.of_kernels(device, kernels)


def _part_bytes(work: int, count: int) -> int:
    """Returns the least bytes of functions in each part of a step with this much work.

    Args:
        work: the bytes of all functions.
        count: how many processes may build at the same time.
    """
    return max(_MIN_PART_BYTES, work // (count * _MAX_PARTS_EACH))


class _PartBuilds:
    """Builds of parts, by processes and by the thread that asks for the programs.

    Args:
        device: the device to build for.
        texts: the text of each part, the longest first.
        processes: where the processes come from.
    """

    def __init__(self, device: DeviceContext, texts: Sequence[str], processes: HelperProcesses) -> None:
        self._device, self._texts, self._processes = device, texts, processes
        self._lock = threading.Lock()
        self._pending = deque(range(len(texts)))
        #: What processes answered; empty if a part is to be built here.
        self._binaries = [b""] * len(texts)
        self._is_answered = [threading.Event() for _ in texts]
        self._running: set[WorkerProcess] = set()
        self._is_closed = False

    def start(self, count: int) -> None:
        """Lets this many processes build."""
        for _ in range(count):
            CheckedThread(target=self._build_all, name="neurald opencl helper", daemon=True).start()

    def programs(self) -> Sequence[BuiltProgram]:
        """Returns the program of each part once all are built.

        Raises:
            OpFailed: compilation failed.
            Error: the device failed.
        """
        found: dict[int, BuiltProgram] = {}
        while (number := self._next()) is not None:
            found[number] = BuiltProgram.from_source(self._device, self._texts[number])
        for number, is_answered in enumerate(self._is_answered):
            if number not in found:
                is_answered.wait()
                found[number] = self._loaded(number)
        return [found[number] for number in range(len(self._texts))]

    def close(self) -> None:
        """Ends the processes; their threads wait for their ends."""
        with self._lock:
            self._is_closed = True
            self._pending.clear()
            for process in self._running:
                process.kill()

    def _next(self) -> int | None:
        """Takes the next part; None if there is none."""
        with self._lock:
            return self._pending.popleft() if self._pending else None

    def _loaded(self, number: int) -> BuiltProgram:
        binary = self._binaries[number]
        try:
            if binary:
                return BuiltProgram.from_binary(self._device, binary)
        except OpFailed as error:
            _LOG.warning("the binary from a build helper process cannot be used: %s", error)
        return BuiltProgram.from_source(self._device, self._texts[number])

    def _build_all(self) -> None:
        """Lets a process build one part after another."""
        process = self._processes.take()
        if process is None:
            return
        with self._lock:
            is_wanted = not self._is_closed
            if is_wanted:
                self._running.add(process)
        try:
            while is_wanted and (number := self._next()) is not None:
                is_wanted = self._build(process, number)
        finally:
            with self._lock:
                self._running.discard(process)
            process.close()

    def _build(self, process: WorkerProcess, number: int) -> bool:
        """Builds a part in a process; returns False if the process is of no further use."""
        try:
            answer = ask(process, Build(text=self._texts[number], wants_binary=True), MAX_BUILD_S)
        except (OSError, ValueError, struct.error) as error:
            if not process.is_closed:
                _LOG.warning("a build helper process ended: %s", error)
            return False
        else:
            self._binaries[number] = answer.binary
            return True
        finally:
            self._is_answered[number].set()
