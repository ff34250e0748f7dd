"""Which of several sources of a kernel is used: the first, or the one that is measured to be the fastest."""

import logging
import math
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from neurald.drivers.compiler.placement import Base, Place
from neurald.drivers.opencl.compiler import BUFFERS, Compiled, phase_of
from neurald.drivers.opencl.executable import Call, Executable
from neurald.drivers.opencl.instance import Instance, allocate, bound_launch, clear
from neurald.drivers.opencl.kernels.pairs import Pair
from neurald.drivers.opencl.launcher import CommandList, Launch
from neurald.drivers.opencl.persistent import (
    ITEMS,
    SYNC_BYTES,
    is_offered,
    kernel_text,
    local_size,
    meeting_text,
    resident_groups,
)
from neurald.drivers.opencl.platform import DeviceContext, DeviceFacts
from neurald.drivers.opencl.program import Program
from neurald.drivers.opencl.program_text import kernel_name, program_text
from neurald.drivers.opencl.source import Source
from neurald.drivers.opencl.staging import upload
from neurald.hal.errors import BadData, DeadObject, Error
from neurald.hal.types import Preference

if TYPE_CHECKING:
    import pyopencl as cl

_LOG = logging.getLogger(__name__)

#: Says how much is measured, whatever the preference: none, fast or exhaustive.
TUNING_VARIABLE = "NEURALD_OPENCL_TUNING"

_ALIGNMENT = 256
#: Where the workspace of a source begins that is measured: behind its status.
_WORKSPACE = _ALIGNMENT
#: Runs of each choice after the first, of which the median counts.
_RUNS = 5
#: The same for whole steps.
_STEP_RUNS = 31
#: How often a phase is repeated that is measured.
_PHASES = 5


class Tuning(Enum):
    """How much is measured."""

    #: Nothing: the first choice is used.
    NONE = "none"
    #: The first few choices.
    FAST = "fast"
    #: Every legal choice.
    EXHAUSTIVE = "exhaustive"

    @staticmethod
    def of(preference: Preference, facts: DeviceFacts) -> "Tuning":
        """What a preference means on a device; NEURALD_OPENCL_TUNING goes before it.

        Runtimes on CPUs compile for seconds what would be measured, and are not where speed is looked for.

        Raises:
            BadData: the variable says something else.
        """
        wanted = os.environ.get(TUNING_VARIABLE)
        if wanted:
            try:
                return Tuning(wanted)
            except ValueError:
                names = ", ".join(each.value for each in Tuning)
                raise BadData(f"{TUNING_VARIABLE} is {wanted!r}; one of {names} is expected") from None
        return Tuning.NONE if facts.is_cpu else _OF_PREFERENCE[preference]


_OF_PREFERENCE = {
    Preference.LOW_POWER: Tuning.NONE,
    Preference.FAST_SINGLE_ANSWER: Tuning.FAST,
    Preference.SUSTAINED_SPEED: Tuning.EXHAUSTIVE,
}
#: How many choices are measured.
_CHOICES = {Tuning.NONE: 1, Tuning.FAST: 8, Tuning.EXHAUSTIVE: 1 << 20}


class Tuner:
    """Picks sources. Kernels with the same choices are measured once.

    Args:
        device: to measure on.
        tuning: how much.
    """

    def __init__(self, device: DeviceContext, tuning: Tuning) -> None:
        self._device = device
        self._limit = _CHOICES[tuning]
        # What may become a phase of a kernel for the whole step is measured as one.
        self._is_resident = is_offered(device.facts)

    def choose(self, kernels: Sequence[Sequence[Source]], pairs: Sequence[Pair] = ()) -> list[Source | None]:
        """For each kernel, of which there are several sources, the fastest of those that are looked at.

        One that does not build or run is none; where none does, it is the first. A pair is taken where it is faster than
        both kernels, or if nothing is measured where that is likely: then the first kernel has no source, and the second
        that of the pair.
        """
        tried = [self._tried(sources) for sources in kernels]
        together = [self._tried(pair.sources) for pair in pairs]
        paired = {position for pair in pairs for position in (pair.first, pair.second)}
        measured = {
            source.name: source
            for sources in (
                *(each for number, each in enumerate(tried) if len(each) > 1 or number in paired),
                *together,
            )
            for source in sources
        }
        is_measured = self._limit > 1 and bool(measured)
        if not is_measured:
            first: list[Source | None] = [sources[0] for sources in tried]
            for pair, sources in zip(pairs, together, strict=True):
                if pair.is_likely:
                    first[pair.first], first[pair.second] = None, sources[0]
            return first
        return _fastest(tried, pairs, together, self._times_ns(list(measured.values())))

    def _tried(self, sources: Sequence[Source]) -> tuple[Source, ...]:
        """Those that are looked at; for a kernel that runs all phases only those that can be one, if there are any."""
        if self._is_resident:
            sources = [
                each for each in sources if not each.has_barriers or each.local_size == ITEMS
            ] or sources
        return tuple(sources[: self._limit])

    def _times_ns(self, sources: Sequence[Source]) -> dict[str, float]:
        """The times of sources on memory of zeros, by name; those that cannot run are left out."""
        started = time.monotonic()
        programs = self._programs(sources)
        size_bytes = max(_layout(source)[1] for source in sources)
        arena = allocate(self._device, size_bytes)
        queue = self._device.queue(profiling=True)
        clear(self._device, queue, arena, 0, size_bytes)
        times = {}
        for source, program in zip(sources, programs, strict=True):
            if program is None:
                continue
            try:
                times[source.name] = self._time_ns(source, program, queue, arena)
            except DeadObject:
                raise
            except Error as error:
                _LOG.info("a choice for operation %s cannot run: %s", source.operations, error)
        _LOG.info("measured %d kernels in %.1f s", len(sources), time.monotonic() - started)
        return times

    def _programs(self, sources: Sequence[Source]) -> list[Program | None]:
        """The program of each source: one for all, or where that does not build one for each that does."""
        together = self._built(sources)
        if together is not None:
            return [together] * len(sources)
        return [self._built([source]) for source in sources]

    def _built(self, sources: Sequence[Source]) -> Program | None:
        uses = [(source, _bases(source)) for source in sources]
        try:
            text = program_text(
                uses, has_fp64=self._device.facts.has_fp64, instead=self._phases_text(sources)
            )
            return Program.from_source(self._device, text)
        except DeadObject:
            raise
        except Error as error:
            _LOG.info("choices for operations do not build: %s", error)
            return None

    def _phases_text(self, sources: Sequence[Source]) -> str:
        """For each source a kernel that runs it several times, if that is what is measured."""
        if not self._is_resident:
            return ""
        kernels = (
            kernel_text(_phases_name(each), BUFFERS, [phase_of(each, _call(each), 0)] * _PHASES)
            for each in sources
        )
        return meeting_text(is_nvidia=self._device.facts.is_nvidia) + "".join(kernels)

    def _time_ns(
        self, source: Source, program: Program, queue: "cl.CommandQueue", arena: "cl.Buffer"
    ) -> float:
        if self._is_resident:
            return self._phase_ns(source, program, queue, arena)
        buffers = {Base.ARENA: arena, Base.CONSTANTS: arena}
        launch = bound_launch(self._device, program, _call(source), buffers, 0)
        times = CommandList(self._device, [launch] * (1 + _RUNS)).profile(queue)
        return statistics.median(each.duration_ns for each in times[1:])

    def _phase_ns(
        self, source: Source, program: Program, queue: "cl.CommandQueue", arena: "cl.Buffer"
    ) -> float:
        """The time of a source as a phase of a kernel that stays on the device, with the meeting before it."""
        size, name = local_size([source]), _phases_name(source)
        assert size is not None  # noqa: S101 - one source has one size
        sync = allocate(self._device, SYNC_BYTES)
        clear(self._device, queue, sync, 0, SYNC_BYTES)
        medians = []
        for phases in (1, _PHASES):
            kernel = program.new_kernel(name)
            with self._device.state.guard("setting arguments", kernel=name):
                kernel.set_args(arena, arena, sync, np.int32(phases))
            launch = Launch(
                kernel=kernel, name=name, groups=self._device.facts.compute_units, local_size=size
            )
            times = CommandList(self._device, [launch] * (1 + _RUNS)).profile(queue)
            medians.append(statistics.median(each.duration_ns for each in times[1:]))
        return max(0.0, medians[1] - medians[0]) / (_PHASES - 1)


def _fastest(
    tried: Sequence[Sequence[Source]],
    pairs: Sequence[Pair],
    together: Sequence[Sequence[Source]],
    times: Mapping[str, float],
) -> list[Source | None]:
    """What `Tuner.choose` gives where times of sources are known."""

    def time_ns(source: Source) -> float:
        return times.get(source.name, math.inf)

    chosen: list[Source | None] = [min(sources, key=time_ns) for sources in tried]
    for pair, sources in zip(pairs, together, strict=True):
        source = min(sources, key=time_ns)
        apart = [each for each in (chosen[pair.first], chosen[pair.second]) if each is not None]
        if time_ns(source) < sum(map(time_ns, apart)):
            chosen[pair.first], chosen[pair.second] = None, source
    return chosen


def _call(source: Source) -> Call:
    return Call(
        kernel=kernel_name(source, _bases(source)),
        places=_layout(source)[0],
        workspace=_WORKSPACE if source.workspace_bytes else None,
        groups=source.groups,
        local_size=source.local_size,
        operations=source.operations,
    )


def _phases_name(source: Source) -> str:
    return f"repeat_{source.name}"


def _bases(source: Source) -> tuple[Base, ...]:
    return (Base.ARENA,) * len(source.arguments)


def _layout(source: Source) -> tuple[tuple[Place, ...], int]:
    """Places for the arguments of a source, behind its status and its workspace; and where they end."""
    places, end = [], _WORKSPACE + -(-source.workspace_bytes // _ALIGNMENT) * _ALIGNMENT
    for value in source.arguments:
        places.append(Place(Base.ARENA, end))
        end += -(-max(1, value.size_bytes) // _ALIGNMENT) * _ALIGNMENT
    return tuple(places), end


def faster(device: DeviceContext, compiled: Compiled) -> tuple[Executable, Program]:
    """The executable with all calls in one kernel, if that is measured to be faster, otherwise as it is; and its program.

    Args:
        device: to measure on.
        compiled: with a persistent call.

    Raises:
        Error: the device failed.
    """
    single = compiled.executable
    assert compiled.persistent is not None  # noqa: S101 - callers ask
    constants = allocate(device, single.constants_bytes)
    upload(device, device.queue(), constants, compiled.constants)
    call = compiled.persistent
    alone = Program.from_source(device, single.text)
    combined = Program.from_source(device, compiled.persistent_text)
    trial = Instance(device, msgspec.structs.replace(single, persistent=call), combined, constants)
    most = resident_groups(device.facts, lambda count: trial.meets(call, count))
    trial.close()
    ways = [(single, alone)]
    for groups in range(device.facts.compute_units, most + 1, device.facts.compute_units):
        together = msgspec.structs.replace(call, groups=groups)
        ways.append((msgspec.structs.replace(single, persistent=together), combined))
    times = [_step_ns(device, executable, program, constants) for executable, program in ways]
    for (executable, _), time_ns in zip(ways, times, strict=True):
        one = executable.persistent
        what = f"{len(single.calls)} kernels" if one is None else f"one kernel of {one.groups} groups"
        _LOG.info("%s: %.1f us", what, time_ns / 1e3)
    return ways[times.index(min(times))]


def _step_ns(
    device: DeviceContext, executable: Executable, program: Program, constants: "cl.Buffer"
) -> float:
    """The median time of the step without transfers."""
    instance = Instance(device, executable, program, constants)
    runs = [instance.launch() for _ in range(1 + _STEP_RUNS)]
    instance.close()
    return statistics.median(runs[1:])
