"""Selects one of several sources of a kernel: the first, or the one measured to be fastest."""

import logging
import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.compiler import Compiled
from neurald.drivers.opencl.kernels.fused.chains import KernelChain
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.executable import Executable
from neurald.drivers.opencl.runtime.instance import Instance, allocate
from neurald.drivers.opencl.runtime.persistent_kernel import (
    ITEMS,
    is_launched,
    is_supported,
    resident_groups,
)
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.runtime.staging import upload
from neurald.drivers.opencl.tuning.build_helper import build_in_helper
from neurald.drivers.opencl.tuning.measuring import times_ns
from neurald.drivers.opencl.tuning.sharding import functions_of
from neurald.drivers.settings import Settings
from neurald.hal.accounting.account import charge
from neurald.hal.model.types import Preference

if TYPE_CHECKING:
    import pyopencl as cl

_LOG = logging.getLogger(__name__)

#: Selects how much is measured, whatever the preference: fast, brief or exhaustive.
TUNING_VARIABLE = "NEURALD_OPENCL_TUNING"

#: Number of measured runs of a whole step after a warm-up run; the median counts.
_STEP_RUNS = 31


class Tuning(Enum):
    """Extent of measurements."""

    #: None: the first candidate is used.
    FAST = "fast"
    #: The first few candidates.
    BRIEF = "brief"
    #: Every valid candidate.
    EXHAUSTIVE = "exhaustive"

    @staticmethod
    def of(preference: Preference, facts: DeviceFacts, settings: Settings) -> "Tuning":
        """Maps a preference to the extent for a device; NEURALD_OPENCL_TUNING overrides it.

        On CPUs nothing is measured: their compilers would need seconds for the candidates, and
        OpenCL on a CPU is not used where speed matters.

        Raises:
            BadData: the value of the variable is invalid.
        """
        wanted = settings.choice(TUNING_VARIABLE, Tuning)
        if wanted is not None:
            return wanted
        return Tuning.FAST if facts.is_cpu else _OF_PREFERENCE[preference]


_OF_PREFERENCE = {
    Preference.LOW_POWER: Tuning.FAST,
    Preference.FAST_SINGLE_ANSWER: Tuning.BRIEF,
    Preference.SUSTAINED_SPEED: Tuning.EXHAUSTIVE,
}
#: Limits on the functions that are measured for each kernel, and on the candidates per function:
#: sizes passed as arguments cost no build time.
_MAX_FUNCTIONS = {Tuning.FAST: 1, Tuning.BRIEF: 8, Tuning.EXHAUSTIVE: 1 << 20}
_MAX_USES = {Tuning.FAST: 1, Tuning.BRIEF: 2, Tuning.EXHAUSTIVE: 1}


class Tuner:
    """Selects one of the sources of each kernel.

    Kernels with the same candidates are measured once, even if their constants differ, because
    similar layers share functions.

    Args:
        device: the device to measure on.
        tuning: the extent of measurements.
        require_wanted: called before each kernel; raises to abort the compilation.
    """

    def __init__(
        self,
        device: DeviceContext,
        tuning: Tuning,
        require_wanted: Callable[[str], None] = lambda where: None,
    ) -> None:
        self._device = device
        self._require_wanted = require_wanted
        self._functions = _MAX_FUNCTIONS[tuning]
        self._limit = self._functions * _MAX_USES[tuning]
        # Sources that may become phases of a persistent kernel are measured as phases.
        self._is_resident = is_supported(device.facts)

    def choose(
        self, kernels: Sequence[Sequence[Source]], chains: Sequence[KernelChain] = ()
    ) -> list[Source | None]:
        """Returns the fastest of the tried sources of each kernel.

        Candidates that do not build or run are ignored; if all fail, the first one is used. A chain
        is used if it is faster than its kernels' other sources, or, without measurements, if that
        is likely: then the last kernel has the chain's source, and the others have None.
        """
        tried = [self._to_try(sources) for sources in kernels]
        chained = [self._to_try(chain.sources) for chain in chains]
        members = {position for chain in chains for position in chain.members}
        launched = {
            number
            for number, sources in enumerate(tried)
            if not self._is_resident or is_launched(sources, self._device.facts)
        }
        if launched & members:
            # The times of a chain and of its members are compared.
            launched |= members
        resident, separate = (
            {
                source.name: source
                for sources in (
                    *(
                        each
                        for number, each in enumerate(tried)
                        if (number in launched) is is_separate and (len(each) > 1 or number in members)
                    ),
                    *(chained if bool(launched & members) is is_separate else ()),
                )
                for source in sources
            }
            for is_separate in (False, True)
        )
        is_measured = self._limit > 1 and bool(resident or separate)
        if not is_measured:
            first: list[Source | None] = [sources[0] for sources in tried]
            for chain, sources in zip(chains, chained, strict=True):
                if chain.is_likely:
                    _use_chain(first, chain, sources[0])
            return first
        times = {
            **self._times_ns(resident, is_resident=self._is_resident),
            **self._times_ns(separate, is_resident=False),
        }
        return _fastest(tried, chains, chained, times)

    def _times_ns(self, measured: Mapping[str, Source], *, is_resident: bool) -> dict[str, float]:
        """Measures sources; returns their times by name, infinite for those that cannot run."""
        representatives: dict[Hashable, Source] = {}
        # Sources that do the same work share one measurement.
        measured_as = {
            name: representatives.setdefault(_work_of(source), source) for name, source in measured.items()
        }
        if not representatives:
            return {}
        found = times_ns(
            self._device,
            list(representatives.values()),
            is_resident=is_resident,
            require_wanted=self._require_wanted,
        )
        return {name: found.get(source.name, math.inf) for name, source in measured_as.items()}

    def _to_try(self, sources: Sequence[Source]) -> tuple[Source, ...]:
        """Returns the candidates to try.

        If the device supports persistent kernels, these are the candidates that can be a phase,
        unless there are none.
        """
        self._require_wanted("before candidates for a kernel were made")
        found: list[Source] = []
        others: list[Source] = []
        functions: set[tuple[str, ...]] = set()
        for source in sources:
            is_phase = not source.has_barriers or source.local_size == ITEMS
            if is_phase or not self._is_resident:
                found.append(source)
                functions.add(functions_of(source))
            else:
                others.append(source)
            # Sources that are not needed are never generated.
            if len(found) == self._limit or len(functions) == self._functions:
                break
        return tuple((found or others)[: self._limit])


def _work_of(source: Source) -> Hashable:
    """Returns a key that determines the time of a source.

    Zero points and multipliers do not affect it.
    """
    values = tuple((value.shape, value.type) for value in source.arguments)
    return functions_of(source), source.groups, source.local_size, values


def _fastest(
    tried: Sequence[Sequence[Source]],
    chains: Sequence[KernelChain],
    chained: Sequence[Sequence[Source]],
    times: Mapping[str, float],
) -> list[Source | None]:
    """Implements `Tuner.choose` for known times."""

    def time_ns(source: Source) -> float:
        return times.get(source.name, math.inf)

    chosen: list[Source | None] = [min(sources, key=time_ns) for sources in tried]
    taken: list[frozenset[int]] = []
    for chain, sources in zip(chains, chained, strict=True):
        members = frozenset(chain.members)
        if any(members & other and not other <= members for other in taken):
            # A member also belongs to another chain that is already selected.
            continue
        source = min(sources, key=time_ns)
        apart = [each for each in (chosen[position] for position in chain.members) if each is not None]
        if time_ns(source) < sum(map(time_ns, apart)):
            _use_chain(chosen, chain, source)
            taken.append(members)
    return chosen


def _use_chain(chosen: list[Source | None], chain: KernelChain, source: Source) -> None:
    """Replaces the kernels of a chain by its source."""
    *before, last = chain.members
    for position in before:
        chosen[position] = None
    chosen[last] = source


def select_faster(device: DeviceContext, compiled: Compiled) -> tuple[Executable, BuiltProgram]:
    """Returns the faster of the executable as it is and with a persistent kernel, and its program.

    Args:
        device: the device to measure on.
        compiled: a result with a persistent call.

    Raises:
        Error: the device failed.
    """
    single = compiled.executable
    assert compiled.persistent is not None  # noqa: S101 - callers ask
    charge(single.constants_bytes, "constants of a step to be measured")
    constants = allocate(device, single.constants_bytes)
    upload(device, device.queue(), constants, compiled.constants)
    call = compiled.persistent
    with build_in_helper(device, single.text) as finish:
        combined = BuiltProgram.from_source(device, compiled.persistent_text)
        alone = finish()
    trial = Instance(device, msgspec.structs.replace(single, persistent=call), combined, constants)
    most = resident_groups(device.facts, lambda count: trial.are_resident(call, count))
    trial.close()
    ways = [(single, alone)]
    for groups in range(device.facts.compute_units, most + 1, device.facts.compute_units):
        persistent = msgspec.structs.replace(call, groups=groups)
        ways.append((msgspec.structs.replace(single, persistent=persistent), combined))
    times = [_step_ns(device, executable, program, constants) for executable, program in ways]
    for (executable, _), time_ns in zip(ways, times, strict=True):
        one = executable.persistent
        what = (
            f"{len(single.calls)} kernels"
            if one is None
            else f"one persistent kernel of {one.groups} work-groups"
        )
        _LOG.info("%s: %.1f us", what, time_ns / 1e3)
    return ways[times.index(min(times))]


def _step_ns(
    device: DeviceContext, executable: Executable, program: BuiltProgram, constants: "cl.Buffer"
) -> float:
    """Returns the median time of the step without transfers."""
    instance = Instance(device, executable, program, constants)
    runs = [instance.launch() for _ in range(1 + _STEP_RUNS)]
    instance.close()
    return statistics.median(runs[1:])
