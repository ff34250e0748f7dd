"""Kernels to be measured, as data for another process, and the code that runs them."""

import logging
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.opencl.assembly import ALIGNMENT, phase_of
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.program_text import kernel_name, program_text
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.executable import KernelCall, image_uses
from neurald.drivers.opencl.runtime.instance import allocate, bound_launch, clear
from neurald.drivers.opencl.runtime.launcher import CommandList, Launch
from neurald.drivers.opencl.runtime.persistent_kernel import (
    SYNC_BYTES,
    called_functions,
    grid_barrier_text,
    kernel_text,
    local_size,
)
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.hal.accounting.account import charge
from neurald.hal.errors import DeadObject, Error

if TYPE_CHECKING:
    import pyopencl as cl

_LOG = logging.getLogger(__name__)

#: Offset of a measured source's workspace: behind its status word.
_WORKSPACE = ALIGNMENT
#: Number of measured runs after a warm-up run; the median counts.
_RUNS = 5
#: Number of repetitions of a measured phase.
_PHASES = 5


class Trials(msgspec.Struct, frozen=True, array_like=True):
    """Kernels of a program that are measured one after another, each on zeroed memory.

    Attributes:
        calls: the kernels' calls. When phases are measured, a kernel repeats its phase as often as
            its last argument says, and the call has only its name, its groups and their size.
        arena_bytes: the size of the memory.
        is_resident: whether phases are measured.
    """

    calls: tuple[KernelCall, ...]
    arena_bytes: int
    is_resident: bool


def trials_of(sources: Sequence[Source], facts: DeviceFacts, *, is_resident: bool) -> tuple[str, Trials]:
    """Returns a program with a kernel for each source, and the description of the measurement.

    Args:
        sources: the sources, whose texts differ from each other.
        facts: the device.
        is_resident: whether each is measured as a phase of a persistent kernel, including the grid
            barrier before it.
    """
    calls = [_call(source) for source in sources]
    before = instead = ""
    called: frozenset[str] = frozenset()
    if is_resident:
        repeated = [
            kernel_text(
                _phases_name(source),
                [phase_of(source, call, 0)] * _PHASES,
                min_groups=facts.compute_units,
            )
            for source, call in zip(sources, calls, strict=True)
        ]
        before, instead = grid_barrier_text(is_nvidia=facts.is_nvidia), "".join(repeated)
        called = called_functions([*sources, *sources], facts)
        calls = [_phases_call(source, facts) for source in sources]
    text = program_text(
        [(source, _bases(source)) for source in sources],
        has_fp64=facts.has_fp64,
        before=before,
        instead=instead,
        called=called,
    )
    size_bytes = max(_layout(source)[1] for source in sources)
    return text, Trials(calls=tuple(calls), arena_bytes=size_bytes, is_resident=is_resident)


class Bench:
    """Device with memory on which kernels are measured. Not thread-safe.

    Args:
        device: the device to measure on.
    """

    def __init__(self, device: DeviceContext) -> None:
        self._device = device
        self._queue = device.queue(profiling=True)
        self._arena: cl.Buffer | None = None
        self._arena_bytes = 0

    def times_ns(self, program: BuiltProgram, trials: Trials) -> Iterator[float | None]:
        """Yields the time of each kernel as soon as it is known; None if it cannot run.

        Raises:
            DeadObject: the device is lost.
            Error: the device lacks memory.
        """
        arena = self._memory(trials.arena_bytes)
        measure = self._phase_ns if trials.is_resident else self._call_ns
        for call in trials.calls:
            try:
                yield measure(program, call, arena)
            except DeadObject:
                raise
            except Error as error:
                _LOG.info("a candidate for operations %s cannot run: %s", call.operations, error)
                yield None

    def _memory(self, size_bytes: int) -> "cl.Buffer":
        if self._arena is None or self._arena_bytes < size_bytes:
            if self._arena is not None:
                self._arena.release()
            self._arena = None
            charge(size_bytes, "values of kernels that are measured")
            self._arena = allocate(self._device, size_bytes)
            self._arena_bytes = size_bytes
        return self._arena

    def _call_ns(self, program: BuiltProgram, call: KernelCall, arena: "cl.Buffer") -> float:
        self._clear(arena)
        buffers = {Base.ARENA: arena, Base.CONSTANTS: arena}
        launch = bound_launch(self._device, program, call, buffers, 0)
        times = CommandList(self._device, [launch] * (1 + _RUNS)).profile(self._queue)
        return statistics.median(each.duration_ns for each in times[1:])

    def _phase_ns(self, program: BuiltProgram, call: KernelCall, arena: "cl.Buffer") -> float:
        """Returns the time of a source as a phase, including the grid barrier before it."""
        self._clear(arena)
        sync = allocate(self._device, SYNC_BYTES)
        clear(self._device, self._queue, sync, 0, SYNC_BYTES)
        medians = []
        for phases in (1, _PHASES):
            kernel = program.kernel(call.kernel, (arena, arena, sync, np.int32(phases)))
            launch = Launch(kernel=kernel, name=call.kernel, groups=call.groups, local_size=call.local_size)
            times = CommandList(self._device, [launch] * (1 + _RUNS)).profile(self._queue)
            medians.append(statistics.median(each.duration_ns for each in times[1:]))
        return max(0.0, medians[1] - medians[0]) / (_PHASES - 1)

    def _clear(self, arena: "cl.Buffer") -> None:
        """Clears all memory.

        The output of another source may lie where this one has counters or a table of indices, and
        reading at invalid indices would lose the device.
        """
        clear(self._device, self._queue, arena, 0, self._arena_bytes)


def _call(source: Source) -> KernelCall:
    return KernelCall(
        kernel=kernel_name(source, _bases(source)),
        locations=_layout(source)[0],
        workspace=_WORKSPACE if source.workspace_bytes else None,
        groups=source.groups,
        local_size=source.local_size,
        operations=source.operations,
        images=image_uses(source),
        numbers=source.numbers,
    )


def _phases_call(source: Source, facts: DeviceFacts) -> KernelCall:
    size = local_size([source])
    assert size is not None  # noqa: S101 - one source has one size
    return KernelCall(
        kernel=_phases_name(source),
        locations=(),
        groups=facts.compute_units,
        local_size=size,
        operations=source.operations,
    )


def _phases_name(source: Source) -> str:
    return f"repeat_{source.name}"


def _bases(source: Source) -> tuple[Base, ...]:
    return (Base.ARENA,) * len(source.arguments)


def _layout(source: Source) -> tuple[tuple[BufferLocation, ...], int]:
    """Assigns offsets to the arguments of a source, behind its status word and workspace.

    Returns them and the end.
    """
    locations, end = [], _WORKSPACE + -(-source.workspace_bytes // ALIGNMENT) * ALIGNMENT
    for value in source.arguments:
        locations.append(BufferLocation(Base.ARENA, end))
        end += -(-max(1, value.size_bytes) // ALIGNMENT) * ALIGNMENT
    return tuple(locations), end
