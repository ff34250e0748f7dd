"""Runs a whole step as one persistent kernel, with grid barriers between its phases.

A phase does the work of a separate kernel: the groups of a source, distributed over the resident
work-groups. Phases that do not depend on each other are distributed one after another, so that few
groups have work of several. Between a phase and one that depends on it there is a grid barrier:
each work-group increments a counter in global memory and waits until all have done so. Those
without work since the barrier before are not counted, except at the first barrier, behind which no
work-group reads the initial state any more. This requires all work-groups to be resident on the
device at the same time, which only some runtimes are known to guarantee, up to a number found by
trial (`resident_groups`) with a launch that only runs the barrier.

No work-group waits forever. One that exceeds its spin limit sets an abort flag and raises the
counter so far that no work-group waits any more, so the kernel ends. Its results are then invalid
and the execution fails.

Instructions that run for the first time must be fetched, and in a whole step nearly all do.
Functions are therefore called instead of inlined, so that code shared by several phases stays in
the instruction cache, and the code of each phase is kept minimal.

A function may contain the wait itself (`Source.waits`): it first requests constants, which never
change, so that they are loaded while it waits. Phases may also fetch what later ones read
(`cold_reads`); whether they do is an argument.

The kernel's last two arguments are its synchronisation memory and the number of phases, to which
`FETCHES` may be added. With no phases it only runs the barrier.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.opencl.codegen.kernel_source import WAIT, WAIT_ARGUMENTS, WAIT_PARAMETERS, Source
from neurald.drivers.opencl.codegen.program_text import CALLED, argument_text
from neurald.drivers.opencl.codegen.template import fill, templates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.runtime.cold_reads import ColdRead, fetches
from neurald.drivers.opencl.runtime.phase import Phase, barriers

_TEMPLATES = templates(__name__, "grid_barrier.cl")
#: Work-items of a work-group, unless a source with barriers asks for another number.
ITEMS: Final = 256
#: Layout of the synchronisation memory, in `uint`s. There are two barrier counters, at 0 and at
#: `_COUNTER_PITCH`. The word at `_SELECTOR` selects the one that a launch uses, which starts at
#: zero; the launch clears the other one for the next launch.
_COUNTER_PITCH, _SELECTOR = 8, 16
#: Counters that number the work-groups: one for the first work-group on each compute unit, one for
#: the others, and a table with the number of work-groups on each compute unit.
_FIRST_GROUPS, _OTHER_GROUPS, _UNITS, _UNIT_COUNT = 32, 48, 64, 256
#: Index of the abort flag, in `uint`s. The host clears the whole memory after an abort.
ABORTED: Final = _UNITS + _UNIT_COUNT
#: Size of the synchronisation memory, which is zero before the first launch; the host clears it
#: after a failure.
SYNC_BYTES: Final = 4 * ABORTED + 128
#: Spin limits: about two seconds, or some milliseconds for trial launches of the barrier alone.
_MAX_SPINS, _MAX_TRIAL_SPINS = 1 << 22, 1 << 15
#: Value of the barrier counter after an abort, which is larger than any number of arrivals.
_RELEASE_ALL = 1 << 31
#: Number of work-groups per compute unit beyond which sources are separate kernels.
_LAUNCHED_FILLS = 2
#: Maximum number of work-groups per compute unit.
_MAX_PER_UNIT = 4
#: How much phases fetch before it is read.
_AHEAD_BYTES = 4 << 20
#: Is added to the number of phases if they fetch.
FETCHES: Final = 1 << 24


def is_supported(facts: DeviceFacts) -> bool:
    """Returns True if the device is known to keep all work-groups of a fitting launch resident.

    Devices whose kernels read images are excluded: phases have pointers only, and texture caches
    would return stale data of earlier phases.
    """
    return facts.images is None and facts.has_nvidia_capability((7, 0))


def is_launched(sources: Sequence[Source], facts: DeviceFacts) -> bool:
    """Returns True if most sources have so much work that they are faster as separate kernels.

    They fill the device several times. Then the time between two kernels does not matter, while
    more work-groups are resident than in a persistent kernel, which has the registers of all
    phases.
    """
    filled = statistics.median(each.groups * each.local_size / ITEMS for each in sources)
    return filled > _LAUNCHED_FILLS * facts.compute_units


def local_size(sources: Sequence[Source]) -> int | None:
    """Returns the work-group size of the persistent kernel.

    Returns None if the sources require different sizes.
    """
    sizes = {source.local_size for source in sources if source.has_barriers}
    if len(sizes) > 1:
        return None
    return sizes.pop() if sizes else ITEMS


def most_groups(facts: DeviceFacts) -> int:
    """Returns the largest number of work-groups of a persistent kernel."""
    return _MAX_PER_UNIT * facts.compute_units


def resident_groups(facts: DeviceFacts, are_resident: Callable[[int], bool]) -> int:
    """Returns how many work-groups can be resident on the device together.

    Args:
        facts: the device.
        are_resident: launches the kernel with a number of work-groups and no phases; returns False
            if one aborted.

    Returns:
        A multiple of the device's compute units; 0 if not even one work-group per unit fits.
    """
    for each in range(_MAX_PER_UNIT, 0, -1):
        if are_resident(each * facts.compute_units):
            return each * facts.compute_units
    return 0


def grid_barrier_text(*, is_nvidia: bool) -> str:
    """Returns the functions that the kernels of `kernel_text` call, needed once per program.

    Args:
        is_nvidia: whether PTX orders memory accesses; otherwise OpenCL's fences do.
    """
    suffix = "_nvidia" if is_nvidia else ""
    return fill(
        _TEMPLATES["functions"],
        WAIT=WAIT,
        WAIT_PARAMETERS=WAIT_PARAMETERS,
        WAIT_ARGUMENTS=WAIT_ARGUMENTS,
        PLACE=_TEMPLATES[f"place{suffix}"],
        ARRIVE=_TEMPLATES[f"arrive{suffix}"],
        POLL=_TEMPLATES[f"poll{suffix}"],
        FETCH=_TEMPLATES[f"fetch{suffix}"],
        CALLED=CALLED if is_nvidia else "inline",
        MAX_SPINS=_MAX_SPINS,
        COUNTER_PITCH=_COUNTER_PITCH,
        SELECTOR=_SELECTOR,
        FIRST_GROUPS=_FIRST_GROUPS,
        OTHER_GROUPS=_OTHER_GROUPS,
        UNITS=_UNITS,
        UNIT_COUNT=_UNIT_COUNT,
        ABORTED=ABORTED,
        RELEASE_ALL=f"{_RELEASE_ALL}u",
    )


def called_functions(sources: Iterable[Source], facts: DeviceFacts) -> frozenset[str]:
    """Returns the names of functions that several phases call, which share the code if possible.

    NVIDIA's compiler would inline each of these calls.
    """
    counts = Counter(source.name for source in sources)
    return frozenset(name for name, count in counts.items() if count > 1 and facts.is_nvidia)


def kernel_text(
    name: str,
    phases: Sequence[Phase],
    *,
    min_groups: int = 1,
    reads: Sequence[Sequence[ColdRead]] | None = None,
) -> str:
    """Returns the kernel's text.

    The program must also contain `grid_barrier_text` and the functions of all sources (see
    `program_text.function_text`).

    Args:
        name: the name of the kernel.
        phases: the phases in order; `local_size` must accept their sources.
        min_groups: the minimum number of work-groups of a launch, which each have their own
            compute unit.
        reads: what each phase reads from memory rather than from caches, if phases may fetch that
            for later ones.
    """
    items = local_size([phase.source for phase in phases])
    assert items is not None  # noqa: S101 - callers ask
    scratch = max([16, *(phase.source.scratch_bytes for phase in phases)])
    has_grid_barrier = barriers(phases)
    # With one work-group per compute unit, the numbering does not matter. Numbers are only assigned
    # if there are barriers.
    place = "(int)get_group_id(0)"
    if any(has_grid_barrier):
        place = f"groups <= {min_groups} ? {place} : neurald_place(sync, groups, lid, (__local int *)scratch)"
    lines = [
        f"__kernel __attribute__((reqd_work_group_size({items}, 1, 1)))",
        f"void {name}(__global uchar *arena, __global const uchar *constants, __global uint *sync,"
        " const int flags) {",
        f"  __local uchar scratch[{scratch}] __attribute__((aligned(16)));",
        "  const int groups = (int)get_num_groups(0), lid = (int)get_local_id(0);",
        f"  const int first = {place}, phases = flags & {FETCHES - 1};",
        # The highest bit selects the counter; the rest is the count to wait for.
        f"  uint target = sync[{_SELECTOR}] << 31;",
        f"  if (phases == 0) neurald_meet(sync, target += groups, 1, lid, {_MAX_TRIAL_SPINS});",
    ]
    fetched = [[]] * len(phases) if reads is None else fetches(reads, _AHEAD_BYTES)
    is_first_barrier = True
    # How many work-groups the phases since the last barrier take.
    taken = 0
    for number, (phase, needs_barrier) in enumerate(zip(phases, has_grid_barrier, strict=True)):
        counted: int | None = None
        if needs_barrier:
            counted = None if is_first_barrier else taken
            is_first_barrier, taken = False, 0
        lines += [
            f"  if (phases > {number}) {{",
            *_phase_lines(
                phase,
                items,
                needs_barrier=needs_barrier,
                counted=counted,
                taken=taken,
                min_groups=min_groups,
                fetched=_fetch_lines(fetched[number]),
            ),
            "  }",
        ]
        taken += _work_groups(phase.source, items)
    lines += ["  neurald_leave(sync, target, first, lid);", "}", ""]
    return "\n".join(lines)


def _fetch_lines(fetched: Sequence[ColdRead]) -> list[str]:
    """Returns the statements with which a phase fetches memory for later ones."""
    pointers = {Base.CONSTANTS: "constants", Base.ARENA: "arena"}
    return [
        f"    if (flags & {FETCHES}) neurald_fetch({pointers[each.base]} + {each.start}UL,"
        f" {each.stop - each.start}UL, first, groups, lid);"
        for each in fetched
    ]


def _work_groups(source: Source, items: int) -> int:
    """Returns the largest number of work-groups that have work of a source."""
    return source.groups if source.has_barriers else -(-source.groups * source.local_size // items)


def _phase_lines(
    phase: Phase,
    items: int,
    *,
    needs_barrier: bool,
    counted: int | None,
    taken: int,
    min_groups: int,
    fetched: Sequence[str],
) -> list[str]:
    """Returns the statements of a phase.

    Args:
        phase: the phase.
        items: the work-items of a work-group.
        needs_barrier: whether a grid barrier precedes it.
        counted: how many work-groups arrive at the barrier at most; None for all of them.
        taken: how many have work of the phases between the barrier and this one.
        min_groups: see `kernel_text`.
        fetched: the statements that fetch memory for later phases.
    """
    source = phase.source
    lines: list[str] = []
    arrivals, arrives = (
        ("groups", "1") if counted is None else (f"min(groups, {counted})", f"first < {counted}")
    )
    # Arriving waits for what was requested before, so that memory is fetched afterwards.
    if needs_barrier and (source.waits or fetched):
        lines += [
            f"    target += {arrivals};",
            f"    neurald_arrive(sync, target, {arrives}, lid);",
            *fetched,
        ]
        if not source.waits:
            lines.append("    neurald_idle(sync, target, lid);")
    elif needs_barrier:
        lines.append(f"    neurald_meet(sync, target += {arrivals}, {arrives}, lid, {_MAX_SPINS});")
    else:
        lines += fetched
        if source.has_barriers:
            # Local memory may still be read by the previous phase; a grid barrier includes the wait
            # for that.
            lines.append("    barrier(CLK_LOCAL_MEM_FENCE);")
    place = "first"
    if taken:
        place = "place"
        lines.append(f"    const int place = (first + groups - {taken} % groups) % groups;")
    is_alone = source.groups <= min_groups
    call = _call(phase, place, needs_barrier=needs_barrier, is_alone=is_alone)
    if not source.has_barriers:
        total, size = source.groups * source.local_size, source.local_size
        return [
            *lines,
            f"    for (int at = {place} * {items} + lid; at < {total}; at += groups * {items}) {{",
            f"      {call.format(f'at / {size}', f'at % {size}')}",
            "    }",
        ]
    if needs_barrier and source.waits:
        lines.append(f"    if (first >= {source.groups}) neurald_idle(sync, target, lid);")
    if is_alone:
        return [*lines, f"    if ({place} < {source.groups}) {call.format(place, 'lid')}"]
    return [
        *lines,
        f"    for (int group = {place}; group < {source.groups}; group += groups) {{",
        f"      {call.format('group', 'lid')}",
        # The next group may overwrite local memory that is still read.
        "      barrier(CLK_LOCAL_MEM_FENCE);",
        "    }",
    ]


def _call(phase: Phase, place: str, *, needs_barrier: bool, is_alone: bool) -> str:
    """Returns the call of a function, with placeholders for the group and the work-item."""
    source = phase.source
    pointers = [
        argument_text(source, position, place.base, f"{place.offset}UL")
        for position, place in enumerate(phase.locations)
    ]
    if source.workspace_bytes:
        pointers.append(f"arena + {phase.workspace}UL")
    pointers += [f"(__global int *)(arena + {phase.status}UL)", *map(str, source.numbers)]
    if source.waits:
        # Only the first of a work-group's groups has to wait.
        awaited = "target" if is_alone else f"group == {place} ? target : 0"
        pointers += ["sync", awaited if needs_barrier else "0"]
    return "{}({}, {}, scratch, {});".format(source.name, "{}", "{}", ", ".join(pointers))
