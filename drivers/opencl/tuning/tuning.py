"""Which of several sources of a kernel is used: the first, or the one that is measured to be the fastest."""

import logging
import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.compiler import Compiled
from neurald.drivers.opencl.kernels.fused.chains import Chain
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.executable import Executable
from neurald.drivers.opencl.runtime.instance import Instance, allocate
from neurald.drivers.opencl.runtime.persistent_kernel import ITEMS, is_offered, resident_groups
from neurald.drivers.opencl.runtime.program import Program
from neurald.drivers.opencl.runtime.staging import upload
from neurald.drivers.opencl.tuning.build_helper import built_elsewhere
from neurald.drivers.opencl.tuning.measuring import times_ns
from neurald.drivers.opencl.tuning.sharding import functions_of
from neurald.drivers.settings import Settings
from neurald.hal.accounting.account import charge
from neurald.hal.model.types import Preference

if TYPE_CHECKING:
    import pyopencl as cl

_LOG = logging.getLogger(__name__)

#: Says how much is measured, whatever the preference: fast, brief or exhaustive.
TUNING_VARIABLE = "NEURALD_OPENCL_TUNING"

#: Runs of a whole step after the first, of which the median counts.
_STEP_RUNS = 31


class Tuning(Enum):
    """How much is measured."""

    #: Nothing: the first choice is used.
    FAST = "fast"
    #: The first few choices.
    BRIEF = "brief"
    #: Every legal choice.
    EXHAUSTIVE = "exhaustive"

    @staticmethod
    def of(preference: Preference, facts: DeviceFacts, settings: Settings) -> "Tuning":
        """What a preference means on a device; NEURALD_OPENCL_TUNING goes before it.

        Runtimes on CPUs compile for seconds what would be measured, and are not where speed is looked for.

        Raises:
            BadData: the variable says something else.
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
#: Of how many functions choices are measured, and how many for each of these: sizes that functions take cost no time to build.
_FUNCTIONS = {Tuning.FAST: 1, Tuning.BRIEF: 8, Tuning.EXHAUSTIVE: 1 << 20}
_USES = {Tuning.FAST: 1, Tuning.BRIEF: 2, Tuning.EXHAUSTIVE: 1}


class Tuner:
    """Picks sources. Kernels with the same choices are measured once, also if they differ in numbers: layers alike get the same functions.

    Args:
        device: to measure on.
        tuning: how much.
        require_wanted: called before each kernel; raises to end the compilation.
    """

    def __init__(
        self,
        device: DeviceContext,
        tuning: Tuning,
        require_wanted: Callable[[str], None] = lambda where: None,
    ) -> None:
        self._device = device
        self._require_wanted = require_wanted
        self._functions = _FUNCTIONS[tuning]
        self._limit = self._functions * _USES[tuning]
        # What may become a phase of a kernel for the whole step is measured as one.
        self._is_resident = is_offered(device.facts)

    def choose(
        self, kernels: Sequence[Sequence[Source]], chains: Sequence[Chain] = ()
    ) -> list[Source | None]:
        """For each kernel, of which there are several sources, the fastest of those that are looked at.

        One that does not build or run is none; where none does, it is the first. A chain is taken where it is faster than
        what stands for its kernels otherwise, or if nothing is measured where that is likely: then the last kernel has its source,
        and the others have none.
        """
        tried = [self._tried(sources) for sources in kernels]
        together = [self._tried(chain.sources) for chain in chains]
        joined = {position for chain in chains for position in chain.members}
        measured = {
            source.name: source
            for sources in (
                *(each for number, each in enumerate(tried) if len(each) > 1 or number in joined),
                *together,
            )
            for source in sources
        }
        is_measured = self._limit > 1 and bool(measured)
        if not is_measured:
            first: list[Source | None] = [sources[0] for sources in tried]
            for chain, sources in zip(chains, together, strict=True):
                if chain.is_likely:
                    _take(first, chain, sources[0])
            return first
        works: dict[Hashable, Source] = {}
        # For each source one that does the same work, which is measured.
        alike = {name: works.setdefault(_work_of(source), source) for name, source in measured.items()}
        found = times_ns(
            self._device,
            list(works.values()),
            is_resident=self._is_resident,
            require_wanted=self._require_wanted,
        )
        times = {name: found.get(source.name, math.inf) for name, source in alike.items()}
        return _fastest(tried, chains, together, times)

    def _tried(self, sources: Sequence[Source]) -> tuple[Source, ...]:
        """Those that are looked at; for a kernel that runs all phases only those that can be one, if there are any."""
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
            # A source that nobody looks at is not made.
            if len(found) == self._limit or len(functions) == self._functions:
                break
        return tuple((found or others)[: self._limit])


def _work_of(source: Source) -> Hashable:
    """What the time of a source follows from; its zero points and multipliers are not among that."""
    values = tuple((value.shape, value.type) for value in source.arguments)
    return functions_of(source), source.groups, source.local_size, values


def _fastest(
    tried: Sequence[Sequence[Source]],
    chains: Sequence[Chain],
    together: Sequence[Sequence[Source]],
    times: Mapping[str, float],
) -> list[Source | None]:
    """What `Tuner.choose` gives where times of sources are known."""

    def time_ns(source: Source) -> float:
        return times.get(source.name, math.inf)

    chosen: list[Source | None] = [min(sources, key=time_ns) for sources in tried]
    taken: list[frozenset[int]] = []
    for chain, sources in zip(chains, together, strict=True):
        members = frozenset(chain.members)
        if any(members & other and not other <= members for other in taken):
            # One of them stands for a kernel of another chain, too.
            continue
        source = min(sources, key=time_ns)
        apart = [each for each in (chosen[position] for position in chain.members) if each is not None]
        if time_ns(source) < sum(map(time_ns, apart)):
            _take(chosen, chain, source)
            taken.append(members)
    return chosen


def _take(chosen: list[Source | None], chain: Chain, source: Source) -> None:
    """The source stands for the kernels of a chain."""
    *before, last = chain.members
    for position in before:
        chosen[position] = None
    chosen[last] = source


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
    charge(single.constants_bytes, "constants of a step that is measured")
    constants = allocate(device, single.constants_bytes)
    upload(device, device.queue(), constants, compiled.constants)
    call = compiled.persistent
    with built_elsewhere(device, single.text) as finish:
        combined = Program.from_source(device, compiled.persistent_text)
        alone = finish()
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
