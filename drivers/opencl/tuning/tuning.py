"""Selects one of several sources of a kernel: the first, or the one measured to be fastest."""

import logging
import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from neurald.drivers.opencl.assembly import Compiled
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.fused.chains import KernelChain
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.cold_reads import may_fetch
from neurald.drivers.opencl.runtime.executable import Executable, Improvement, KernelCall
from neurald.drivers.opencl.runtime.instance import Instance, allocate
from neurald.drivers.opencl.runtime.persistent_kernel import (
    ITEMS,
    is_launched,
    is_supported,
    most_groups,
    resident_groups,
)
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.runtime.staging import upload
from neurald.drivers.opencl.tuning.build_helper import build_in_helper, build_kernels
from neurald.drivers.opencl.tuning.choices import SEPARATE, Choices, class_of, class_of_step
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses, process_count
from neurald.drivers.opencl.tuning.improvement import ImprovementBuild
from neurald.drivers.opencl.tuning.measuring import times_ns
from neurald.drivers.opencl.tuning.sharding import functions_of
from neurald.drivers.settings import Settings
from neurald.hal.accounting.account import charge
from neurald.hal.errors import OpFailed
from neurald.hal.model.types import Preference

if TYPE_CHECKING:
    import pyopencl as cl

_LOG = logging.getLogger(__name__)

#: Selects how much is measured, whatever the preference: fast, brief or exhaustive.
TUNING_VARIABLE = "NEURALD_OPENCL_TUNING"

#: Number of measured runs of a whole step after a warm-up run; the median counts.
_STEP_RUNS = 31
#: Share of large kernels from which a step is likely to be launched kernel by kernel.
_MIN_LAUNCHED = 0.25


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
        choices: what is known, which is measured only if `tuning` is exhaustive; None for nothing.
        processes: those that help to measure; None for new ones.
    """

    def __init__(
        self,
        device: DeviceContext,
        tuning: Tuning,
        require_wanted: Callable[[str], None] = lambda where: None,
        choices: Choices | None = None,
        processes: HelperProcesses | None = None,
    ) -> None:
        self._device = device
        self._processes = processes
        self._choices = Choices({}) if choices is None else choices
        self._tries_all = tuning is Tuning.EXHAUSTIVE
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
        is_resident = self._is_resident and not any(sources[0].is_retargeted for sources in kernels)
        decided, open_chains = self._decided(chains, is_resident=is_resident)
        replaced = {position for chain, _ in decided for position in chain.members}
        # What becomes part of a chain needs no sources of its own, which take time to generate.
        known = [
            sources[0] if number in replaced else self._known(sources, is_resident=is_resident)
            for number, sources in enumerate(kernels)
        ]
        tried = [
            self._to_try(sources, is_resident=is_resident) if source is None else (source,)
            for sources, source in zip(kernels, known, strict=True)
        ]
        chained = [self._to_try(chain.sources, is_resident=is_resident) for chain in open_chains]
        times = self._measured(tried, open_chains, chained, is_resident=is_resident)
        if times is None:
            chosen: list[Source | None] = [sources[0] for sources in tried]
            for chain, sources in zip(open_chains, chained, strict=True):
                if chain.is_likely:
                    _use_chain(chosen, chain, sources[0])
        else:
            chosen, taken = _fastest(tried, open_chains, chained, times)
            self._record(kernels, tried, times, is_resident=is_resident)
            for chain in open_chains:
                self._choices.record(
                    class_of(chain.sources, is_resident=is_resident, count=len(chain.members)),
                    taken.get(chain.members, SEPARATE),
                )
        for chain, source in decided:
            _use_chain(chosen, chain, source)
        return chosen

    def _known(self, sources: Sequence[Source], *, is_resident: bool) -> Source | None:
        """Returns the known choice for a kernel; None if there is none, or all are to be tried."""
        if self._tries_all:
            return None
        return self._choices.source(class_of(sources, is_resident=is_resident), sources)

    def _decided(
        self, chains: Sequence[KernelChain], *, is_resident: bool
    ) -> tuple[list[tuple[KernelChain, Source]], list[KernelChain]]:
        """Returns the chains known to be used, with their sources, and the undecided ones."""
        used: list[tuple[KernelChain, Source]] = []
        others: list[KernelChain] = []
        for chain in chains:
            key = class_of(chain.sources, is_resident=is_resident, count=len(chain.members))
            source = None if self._tries_all else self._choices.source(key, chain.sources)
            if source is not None:
                if not any(set(chain.members) & set(other.members) for other, _ in used):
                    used.append((chain, source))
            elif self._tries_all or self._choices.label(key) != SEPARATE:
                others.append(chain)
        taken = {position for chain, _ in used for position in chain.members}
        return used, [chain for chain in others if not taken & set(chain.members)]

    def _record(
        self,
        kernels: Sequence[Sequence[Source]],
        tried: Sequence[Sequence[Source]],
        times: Mapping[str, float],
        *,
        is_resident: bool,
    ) -> None:
        for sources, measured in zip(kernels, tried, strict=True):
            best = min(measured, key=lambda source: times.get(source.name, math.inf))
            if len(measured) > 1 and best.name in times:
                self._choices.record(class_of(sources, is_resident=is_resident), best.label)

    def _measured(
        self,
        tried: Sequence[Sequence[Source]],
        chains: Sequence[KernelChain],
        chained: Sequence[Sequence[Source]],
        *,
        is_resident: bool,
    ) -> dict[str, float] | None:
        """Returns the times of sources by name; None if nothing is to be measured."""
        members = {position for chain in chains for position in chain.members}
        launched = {
            number
            for number, sources in enumerate(tried)
            if not is_resident or is_launched(sources, self._device.facts)
        }
        if len(launched) < _MIN_LAUNCHED * len(tried):
            # The step is likely to become a persistent kernel, of which all of them are phases.
            launched = set()
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
        if self._limit == 1 or not (resident or separate):
            return None
        return {
            **self._times_ns(resident, is_resident=is_resident),
            **self._times_ns(separate, is_resident=False),
        }

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
            processes=self._processes,
        )
        return {name: found.get(source.name, math.inf) for name, source in measured_as.items()}

    def _to_try(self, sources: Sequence[Source], *, is_resident: bool) -> tuple[Source, ...]:
        """Returns the candidates to try.

        If the step may become a persistent kernel, these are the candidates that can be a phase,
        unless there are none.
        """
        self._require_wanted("before candidates for a kernel were made")
        found: list[Source] = []
        others: list[Source] = []
        functions: set[tuple[str, ...]] = set()
        for source in sources:
            is_phase = not source.has_barriers or source.local_size == ITEMS
            if is_phase or not is_resident:
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
) -> tuple[list[Source | None], dict[tuple[int, ...], str]]:
    """Implements `Tuner.choose` for known times.

    Returns the sources, and the labels of the used chains by their members.
    """

    def time_ns(source: Source) -> float:
        return times.get(source.name, math.inf)

    chosen: list[Source | None] = [min(sources, key=time_ns) for sources in tried]
    taken: list[frozenset[int]] = []
    labels: dict[tuple[int, ...], str] = {}
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
            labels = {other: label for other, label in labels.items() if not members >= set(other)}
            labels[chain.members] = source.label
    return chosen, labels


def _use_chain(chosen: list[Source | None], chain: KernelChain, source: Source) -> None:
    """Replaces the kernels of a chain by its source."""
    *before, last = chain.members
    for position in before:
        chosen[position] = None
    chosen[last] = source


def select_faster(
    device: DeviceContext, compiled: Compiled, choices: Choices, processes: HelperProcesses
) -> tuple[Executable, BuiltProgram, ImprovementBuild | None]:
    """Returns the faster of the executable as it is and with a persistent kernel, and its program.

    If the persistent kernel is known to be faster, the result is the executable as it is, and what
    improves it once the persistent kernel is built.

    Args:
        device: the device to measure on.
        compiled: a result with a persistent call.
        choices: what is known, which is not measured.
        processes: those that help to build.

    Raises:
        Error: the device failed.
    """
    single = compiled.executable
    assert compiled.persistent is not None  # noqa: S101 - callers ask
    key = class_of_step(single.calls)
    known = choices.label(key)
    if known == SEPARATE:
        return single, build_kernels(device, compiled.kernels, processes), None
    improvement = None if known is None else _known_improvement(device, compiled, known)
    if improvement is not None and process_count(device.facts) > 1:
        build = ImprovementBuild(device, improvement)
        try:
            return single, build_kernels(device, compiled.kernels, processes), build
        except BaseException:
            build.close()
            raise
    charge(single.constants_bytes, "constants of a step to be measured")
    constants = allocate(device, single.constants_bytes)
    upload(device, device.queue(), constants, compiled.constants)
    call = compiled.persistent
    ways: dict[str, tuple[Executable, BuiltProgram]] = {}
    if known is None:
        with build_in_helper(device, single.text, processes) as finish:
            combined = BuiltProgram.from_source(device, compiled.persistent_text)
            ways[SEPARATE] = single, finish()
    else:
        combined = BuiltProgram.from_source(device, compiled.persistent_text)
    trial = Instance(device, msgspec.structs.replace(single, persistent=call), combined, constants)
    most = resident_groups(device.facts, lambda count: trial.are_resident(call, count))
    trial.close()
    for label, executable in persistent_ways(
        single, call, device.facts.compute_units, most, is_known=known is not None
    ).items():
        ways[label] = executable, combined
    if known in ways:
        return *ways[known], None
    if known is not None:
        raise OpFailed(f"work-groups: {known}; at most {most} are resident together")
    times = {
        label: _step_ns(device, executable, program, constants)
        for label, (executable, program) in ways.items()
    }
    for label, time_ns in times.items():
        what = (
            f"{len(single.calls)} kernels"
            if label == SEPARATE
            else f"one persistent kernel, work-groups: {label}"
        )
        _LOG.info("%s: %.1f us", what, time_ns / 1e3)
    best = min(times, key=lambda label: times[label])
    choices.record(key, best)
    return *ways[best], None


def _known_improvement(device: DeviceContext, compiled: Compiled, known: str) -> Improvement | None:
    """Returns the persistent kernel that a choice means; None if there is no such one."""
    assert compiled.persistent is not None  # noqa: S101 - callers ask
    units = device.facts.compute_units
    ways = persistent_ways(
        compiled.executable, compiled.persistent, units, most_groups(device.facts), is_known=True
    )
    executable = ways.get(known)
    return None if executable is None else Improvement(executable=executable, text=compiled.persistent_text)


def persistent_ways(
    single: Executable, call: KernelCall, units: int, most: int, *, is_known: bool
) -> dict[str, Executable]:
    """Returns the ways to run a step as a persistent kernel, by the labels of choices.

    Args:
        single: the step.
        call: the call of the persistent kernel.
        units: the number of the device's compute units.
        most: how many work-groups can be resident together.
        is_known: whether the choice is known, so that all that may be chosen are needed. Steps with
            the same kernels may differ in the size of their constants; where these are too small to
            be fetched ahead, such a choice fetches nothing.
    """
    found: dict[str, Executable] = {}
    for groups in range(units, most + 1, units):
        persistent = msgspec.structs.replace(call, groups=groups)
        for fetches in (False, True) if is_known or may_fetch(single.constants_bytes) else (False,):
            label = f"{groups}, fetching ahead" if fetches else str(groups)
            found[label] = msgspec.structs.replace(single, persistent=persistent, fetches=fetches)
    return found


def _step_ns(
    device: DeviceContext, executable: Executable, program: BuiltProgram, constants: "cl.Buffer"
) -> float:
    """Returns the median time of the step without transfers."""
    instance = Instance(device, executable, program, constants)
    runs = [instance.launch() for _ in range(1 + _STEP_RUNS)]
    instance.close()
    return statistics.median(runs[1:])
