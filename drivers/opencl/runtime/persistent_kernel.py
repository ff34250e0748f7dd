"""A whole step as one kernel, whose work-groups stay on the device and wait for each other between phases.

A phase is what a kernel of its own would be: the groups of a source, shared out among the work-groups that are there. Between
a phase and one that depends on it, all work-groups meet at a barrier: each adds one to a counter in global memory and waits
until all have. That needs every work-group to be on the device at the same time, which only some runtimes are known to
do, up to a number that a trial finds (`resident_groups`): a launch that does nothing but meet.

Nobody waits for ever. A work-group that has waited too long writes down that it gave up, and makes the counter so large that
nobody waits any more, so that the kernel ends; what it computed is then worthless, and the execution fails.

Instructions that run for the first time are waited for, and in a whole step nearly all do. So functions are called, not written
out at each call: what several phases run is then in the cache of instructions when it is needed again. And of a phase itself there
is as little as can be.

A function that says so waits itself, after it has begun: it asks for constants first, which never change, so that they are on
their way while it waits (`Source.waits`).

The kernel's last two arguments are its synchronisation memory and how many phases it runs. With no phases it only meets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from neurald.drivers.opencl.codegen.kernel_source import HANDED_ON, MEETING, WAIT, Source
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

#: Work-items of a work-group, unless a source with barriers asks for another number.
ITEMS: Final = 256
#: Synchronisation memory, in `uint`s. Meetings are counted at 0 or at `_COUNT_PITCH`: `_WHICH` says in which of both a launch begins
#: with zero; a launch makes the other one zero for the next.
_COUNT_PITCH, _WHICH = 8, 16
#: Counters of work-groups by their places: those that are the first on a compute unit, others, and all of each unit.
_FIRST_ONES, _OTHERS, _UNITS, _UNIT_COUNT = 32, 48, 64, 256
#: Where in it, in `uint`s, a kernel says that a work-group has given up; the host clears all of it then.
GAVE_UP: Final = _UNITS + _UNIT_COUNT
#: Of synchronisation memory: zero before the first launch and after one that failed.
SYNC_BYTES: Final = 4 * GAVE_UP + 128
#: How often a work-group looks before it gives up: about two seconds; and in a launch that only meets, some milliseconds.
_PATIENCE, _TRIAL_PATIENCE = 1 << 22, 1 << 15
#: What whoever gives up puts into the counter of meetings: more than any number that others wait for.
_ALL_HAVE_COME = 1 << 31
#: Some runtimes cannot call functions with barriers: they are written out there.
_CALLED = "__attribute__((noinline))"
#: Work-groups that may share a compute unit.
_MOST_PER_UNIT = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Region:
    """Bytes of memory.

    Attributes:
        base: of which buffer.
        start, stop: the first byte, and the one after the last.
    """

    base: str
    start: int
    stop: int

    def overlaps(self, other: "Region") -> bool:
        """Whether both have a byte in common."""
        return self.base == other.base and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """A source, and the memory that it works on.

    Attributes:
        pointers: C expressions of the arguments' pointers, of the arguments' types.
        regions: where those point to; None: memory that no phase writes. The first one is written.
        status: the C expression of the pointer to the status.
        workspace: that of the workspace, if the source asks for one, and its region.
    """

    source: Source
    pointers: tuple[str, ...]
    regions: tuple[Region | None, ...]
    status: str
    workspace: str = ""
    workspace_region: Region | None = None

    @property
    def written(self) -> tuple[Region, ...]:
        """What it writes."""
        return tuple(each for each in (self.regions[0], self.workspace_region) if each is not None)

    @property
    def touched(self) -> tuple[Region, ...]:
        """What it reads or writes."""
        return tuple(each for each in (*self.regions, self.workspace_region) if each is not None)


def is_offered(facts: DeviceFacts) -> bool:
    """Whether work-groups of a launch that fits are known to be on the device together.

    Not where kernels read images: phases have pointers only, and caches of textures would keep what a phase before has changed.
    """
    return facts.images is None and facts.is_nvidia_from((7, 0))


def local_size(sources: Sequence[Source]) -> int | None:
    """Work-items of a group of the one kernel; None where the sources cannot share one."""
    sizes = {source.local_size for source in sources if source.has_barriers}
    if len(sizes) > 1:
        return None
    return sizes.pop() if sizes else ITEMS


def barriers(phases: Sequence[Phase]) -> tuple[bool, ...]:
    """Before which phases the work-groups meet: where a phase and one since the last meeting cannot run side by side."""
    found = []
    running: list[Phase] = []
    for phase in phases:
        meets = any(_conflict(earlier, phase) for earlier in running)
        if meets:
            running = []
        running.append(phase)
        found.append(meets)
    return tuple(found)


def _conflict(first: Phase, second: Phase) -> bool:
    return any(w.overlaps(t) for w in first.written for t in second.touched) or any(
        w.overlaps(t) for w in second.written for t in first.touched
    )


def resident_groups(facts: DeviceFacts, meet: Callable[[int], bool]) -> int:
    """How many work-groups are on the device together.

    Args:
        facts: the device.
        meet: launches the kernel with so many work-groups and no phases; whether none gave up.

    Returns:
        A multiple of the device's compute units; 0 where not even one work-group for each fits.
    """
    for each in range(_MOST_PER_UNIT, 0, -1):
        if meet(each * facts.compute_units):
            return each * facts.compute_units
    return 0


def meeting_text(*, is_nvidia: bool) -> str:
    """What the kernels of `kernel_text` call, once for a program.

    Args:
        is_nvidia: whether memory is ordered by PTX; else by OpenCL's fences.
    """
    return (
        (_MACROS + _PLACE[is_nvidia] + _BARRIER[is_nvidia] + _CALLS + _LEAVE)
        .replace("$PATIENCE", str(_PATIENCE))
        .replace("$COUNT_PITCH", str(_COUNT_PITCH))
        .replace("$WHICH", str(_WHICH))
        .replace("$FIRST_ONES", str(_FIRST_ONES))
        .replace("$OTHERS", str(_OTHERS))
        .replace("$UNITS", str(_UNITS))
        .replace("$UNIT_COUNT", str(_UNIT_COUNT))
        .replace("$GAVE_UP", str(GAVE_UP))
        .replace("$ALL_HAVE_COME", f"{_ALL_HAVE_COME}u")
        .replace("$CALLED", _CALLED if is_nvidia else "inline")
    )


def kernel_text(name: str, parameters: str, phases: Sequence[Phase], *, least_groups: int = 1) -> str:
    """The kernel, for a program that has `meeting_text` and the functions of all sources (see `program_text.function_text`).

    Args:
        name: of the kernel.
        parameters: of the kernel, those that the phases' expressions name.
        phases: in order; `local_size` gives a number for their sources.
        least_groups: with how many work-groups it is launched at least; so many are alone on their compute units.
    """
    items = local_size([phase.source for phase in phases])
    assert items is not None  # noqa: S101 - callers ask
    scratch = max([16, *(phase.source.scratch_bytes for phase in phases)])
    meetings = barriers(phases)
    # Alone on its compute unit, one place is as good as another. Places are counted anew only if there are meetings.
    place = "(int)get_group_id(0)"
    if any(meetings):
        place = (
            f"groups <= {least_groups} ? {place} : neurald_place(sync, groups, lid, (__local int *)scratch)"
        )
    lines = [
        f"__kernel __attribute__((reqd_work_group_size({items}, 1, 1)))",
        f"void {name}({parameters}, __global uint *sync, const int phases) {{",
        f"  __local uchar scratch[{scratch}] __attribute__((aligned(16)));",
        "  const int groups = (int)get_num_groups(0), lid = (int)get_local_id(0);",
        f"  const int first = {place};",
        # Which counter is used, in the highest bit, and what it has to come to.
        f"  uint target = sync[{_WHICH}] << 31;",
        f"  if (phases == 0) neurald_meet(sync, target += groups, lid, {_TRIAL_PATIENCE});",
    ]
    for number, (phase, meets) in enumerate(zip(phases, meetings, strict=True)):
        lines.append(f"  if (phases > {number}) {{")
        if meets and phase.source.waits:
            lines += ["    target += groups;", "    neurald_arrive(sync, target, lid);"]
        elif meets:
            lines.append(f"    neurald_meet(sync, target += groups, lid, {_PATIENCE});")
        elif phase.source.has_barriers and number:
            # It finds local memory that nobody reads any more; whoever meets waits for that.
            lines.append("    barrier(CLK_LOCAL_MEM_FENCE);")
        lines += [*_phase_lines(phase, items, meets=meets, least_groups=least_groups), "  }"]
    lines += ["  neurald_leave(sync, target, first, lid);", "}", ""]
    return "\n".join(lines)


def _phase_lines(phase: Phase, items: int, *, meets: bool, least_groups: int) -> list[str]:
    source = phase.source
    is_alone = source.groups <= least_groups
    pointers = [*phase.pointers, *((phase.workspace,) if source.workspace_bytes else ()), phase.status]
    if source.waits:
        # Only the first of a work-group's groups has anything to wait for.
        awaited = "target" if is_alone else "group == first ? target : 0"
        pointers += ["sync", awaited if meets else "0"]
    call = "{}({}, {}, scratch, {});".format(source.name, "{}", "{}", ", ".join(pointers))
    if source.has_barriers:
        idle = f"    if (first >= {source.groups}) neurald_idle(sync, target, lid);"
        others = (idle,) if meets and source.waits else ()
        if is_alone:
            return [*others, f"    if (first < {source.groups}) {call.format('first', 'lid')}"]
        return [
            *others,
            f"    for (int group = first; group < {source.groups}; group += groups) {{",
            f"      {call.format('group', 'lid')}",
            # The next group finds local memory that nobody reads any more.
            "      barrier(CLK_LOCAL_MEM_FENCE);",
            "    }",
        ]
    total, size = source.groups * source.local_size, source.local_size
    return [
        f"    for (int at = first * {items} + lid; at < {total}; at += groups * {items}) {{",
        f"      {call.format(f'at / {size}', f'at % {size}')}",
        "    }",
    ]


#: Which of all work-groups one is: those that are alone on a compute unit, or the first there, come before the others, so that
#: what has few groups gets a unit for each of them. Counted from both ends, the numbers are right wherever groups are.
_PLACE = {
    True: """\
static inline int neurald_place(__global uint *sync, const int groups, const int lid, __local int *scratch) {
  if (lid == 0) {
    uint unit;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(unit));
    const bool is_first = atomic_inc(sync + $UNITS + unit % $UNIT_COUNT) == 0;
    *scratch = is_first ? (int)atomic_inc(sync + $FIRST_ONES) : groups - 1 - (int)atomic_inc(sync + $OTHERS);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int place = *scratch;
  barrier(CLK_LOCAL_MEM_FENCE);
  return place;
}
""",
    False: """\
static inline int neurald_place(__global uint *sync, const int groups, const int lid, __local int *scratch) {
  return (int)get_group_id(0);
}
""",
}
#: Functions that wait themselves do so between what they can do before and the rest; 0: there is nothing to wait for.
_MACROS = f"""\
#define {MEETING} , __global uint *sync, const uint target
#define {HANDED_ON} , sync, target
#define {WAIT} if (target) neurald_wait(sync, target, lid, $PATIENCE);
"""
_ARRIVE_HEAD = """\
static $CALLED void neurald_arrive(__global uint *sync, const uint target, const int lid) {
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (lid == 0) {
    __global uint *count = sync + (target >> 31) * $COUNT_PITCH;
"""
_WAIT_HEAD = """\
  }
}
static inline void neurald_wait(__global uint *sync, const uint target, const int lid, const int patience) {
  if (lid == 0) {
    __global uint *count = sync + (target >> 31) * $COUNT_PITCH;
    const uint wanted = target & 0x7fffffff;
    uint seen = 0;
"""
_WAIT_TAIL = """\
    if (seen < wanted) {
      sync[$GAVE_UP] = 1;
      atomic_or(count, $ALL_HAVE_COME);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
"""
_CALLS = """\
static $CALLED void neurald_meet(__global uint *sync, const uint target, const int lid, const int patience) {
  neurald_arrive(sync, target, lid);
  neurald_wait(sync, target, lid, patience);
}
static $CALLED void neurald_idle(__global uint *sync, const uint target, const int lid) {
  neurald_wait(sync, target, lid, $PATIENCE);
}
"""
#: After a meeting nobody looks any more at what the launch found when it began, so one work-group makes ready for the next launch.
_LEAVE = """\
static inline void neurald_leave(__global uint *sync, const uint target, const int first, const int lid) {
  // PoCL compiles wrongly what comes after barriers that not every launch gets to, unless there is one that every launch does.
  barrier(CLK_LOCAL_MEM_FENCE);
  if (first != 0 || (target & 0x7fffffff) == 0) return;
  const uint next = 1 - (target >> 31);
  if (lid == 0) {
    sync[next * $COUNT_PITCH] = 0;
    sync[$WHICH] = next;
  }
  for (int at = $FIRST_ONES + lid; at < $GAVE_UP; at += (int)get_local_size(0)) sync[at] = 0;
}
"""
_BARRIER = {
    True: _ARRIVE_HEAD
    + """\
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"((ulong)count) : "memory");
"""
    + _WAIT_HEAD
    + """\
    for (int look = 0; look < patience && seen < wanted; ++look)
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"((ulong)count) : "memory");
"""
    + _WAIT_TAIL,
    False: _ARRIVE_HEAD
    + """\
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    atomic_inc(count);
"""
    + _WAIT_HEAD
    + """\
    for (int look = 0; look < patience && seen < wanted; ++look) seen = atomic_add(count, 0);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
"""
    + _WAIT_TAIL,
}
