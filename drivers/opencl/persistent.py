"""A whole step as one kernel, whose work-groups stay on the device and wait for each other between phases.

A phase is what a kernel of its own would be: the groups of a source, shared out among the work-groups that are there. Between
a phase and one that depends on it, all work-groups meet at a barrier: each adds one to a counter in global memory and waits
until all have. That needs every work-group to be on the device at the same time, which only some runtimes are known to
do, up to a number that a trial finds (`resident_groups`): a launch that does nothing but meet.

Nobody waits for ever. A work-group that has waited too long writes down that it gave up, and runs on without waiting, so
that the kernel ends; what it computed is then worthless, and the execution fails.

While a phase runs, the constants of the next one are fetched into the device's cache, where it has an instruction for it. Functions
are called, not written out at each call: what several phases run is then in the cache of instructions when it is needed again.

The kernel's last two arguments are its synchronisation memory and how many phases it runs. With no phases it only meets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from neurald.drivers.opencl.platform import DeviceFacts
from neurald.drivers.opencl.source import Source

#: Work-items of a work-group, unless a source with barriers asks for another number.
ITEMS: Final = 256
#: Of synchronisation memory: zero before the first launch, and left so by every launch that succeeds.
SYNC_BYTES: Final = 256
#: Where in it, in `uint`s, a kernel says that a work-group has given up; the host clears all of it then.
GAVE_UP: Final = 32
#: How often a work-group looks before it gives up: about two seconds.
_PATIENCE = 1 << 22
#: Some runtimes cannot call functions with barriers: they are written out there.
_CALLED = "__attribute__((noinline))"
#: Constants of so many bytes are fetched ahead.
_FETCHED_BYTES = 4096
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
    """Whether work-groups of a launch that fits are known to be on the device together."""
    return facts.is_nvidia and (facts.compute_capability or (0, 0)) >= (7, 0)


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
        _BARRIER[is_nvidia]
        .replace("$PATIENCE", str(_PATIENCE))
        .replace("$GAVE_UP", str(GAVE_UP))
        .replace("$CALLED", _CALLED if is_nvidia else "inline")
    )


def kernel_text(name: str, parameters: str, phases: Sequence[Phase], *, is_nvidia: bool) -> str:
    """The kernel, for a program that has `meeting_text` and the functions of all sources (see `program_text.function_text`).

    Args:
        name: of the kernel.
        parameters: of the kernel, those that the phases' expressions name.
        phases: in order; `local_size` gives a number for their sources.
        is_nvidia: whether constants are fetched ahead, by PTX.
    """
    items = local_size([phase.source for phase in phases])
    assert items is not None  # noqa: S101 - callers ask
    scratch = max([16, *(phase.source.scratch_bytes for phase in phases)])
    lines = [
        f"__kernel __attribute__((reqd_work_group_size({items}, 1, 1)))",
        f"void {name}({parameters}, __global uint *sync, const int phases) {{",
        f"  __local uchar scratch[{scratch}] __attribute__((aligned(16)));",
        "  const int first = (int)get_group_id(0), groups = (int)get_num_groups(0), lid = (int)get_local_id(0);",
        "  uint target = 0;",
        "  bool waits = true;",
        "  if (phases == 0) neurald_meet(sync, target += groups, lid, &waits);",
    ]
    following = (*phases[1:], None)
    for number, (phase, after, meets) in enumerate(zip(phases, following, barriers(phases), strict=True)):
        lines.append(f"  if (phases > {number}) {{")
        if meets:
            lines.append("    neurald_meet(sync, target += groups, lid, &waits);")
        if after is not None and is_nvidia:
            lines += _fetch_lines(after, items)
        lines += [*_phase_lines(phase, items), "  }"]
    lines += ["  neurald_leave(sync, groups, lid);", "}", ""]
    return "\n".join(lines)


def _phase_lines(phase: Phase, items: int) -> list[str]:
    source = phase.source
    pointers = [*phase.pointers, *((phase.workspace,) if source.workspace_bytes else ()), phase.status]
    call = "{}({}, {}, scratch, {});".format(source.name, "{}", "{}", ", ".join(pointers))
    if source.has_barriers:
        return [
            f"    for (int group = first; group < {source.groups}; group += groups) {{",
            f"      {call.format('group', 'lid')}",
            # The next group, or phase, finds local memory that nobody reads any more.
            "      barrier(CLK_LOCAL_MEM_FENCE);",
            "    }",
        ]
    total, size = source.groups * source.local_size, source.local_size
    return [
        f"    for (int at = first * {items} + lid; at < {total}; at += groups * {items}) {{",
        f"      {call.format(f'at / {size}', f'at % {size}')}",
        "    }",
    ]


def _fetch_lines(phase: Phase, items: int) -> list[str]:
    """Statements that fetch a phase's constants, shared out among all work-items."""
    return [
        f"    neurald_fetch((__global const uchar *){pointer}, {value.size_bytes}, first * {items} + lid, groups * {items});"
        for pointer, value in zip(phase.pointers, phase.source.arguments, strict=True)
        if value.constant is not None and value.size_bytes >= _FETCHED_BYTES
    ]


_MEET_HEAD = """\
static $CALLED void neurald_meet(__global uint *sync, const uint target, const int lid, __private bool *waits) {
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (lid == 0) {
"""
_MEET_TAIL = """\
      if (seen < target) {
        sync[$GAVE_UP] = 1;
        *waits = false;
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
"""
#: Has lines of memory brought into the cache that all compute units share; nobody waits for them.
_FETCH = """\
static inline void neurald_fetch(__global const uchar *from, const int bytes, const int item, const int items) {
  for (int at = item * 128; at < bytes; at += items * 128)
    asm volatile("prefetch.global.L2 [%0];" :: "l"((ulong)(from + at)));
}
"""
#: The last one to leave clears the counters.
_LEAVE = """\
static inline void neurald_leave(__global uint *sync, const int groups, const int lid) {
  if (lid == 0 && atomic_inc(sync + 16) == (uint)groups - 1) {
    sync[16] = 0;
    sync[0] = 0;
  }
}
"""
_BARRIER = {
    True: _FETCH
    + _MEET_HEAD
    + """\
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"((ulong)sync) : "memory");
    if (*waits) {
      uint seen = 0;
      for (int look = 0; look < $PATIENCE && seen < target; ++look)
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"((ulong)sync) : "memory");
"""
    + _MEET_TAIL
    + _LEAVE,
    False: _MEET_HEAD
    + """\
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    atomic_inc(sync);
    if (*waits) {
      uint seen = 0;
      for (int look = 0; look < $PATIENCE && seen < target; ++look) seen = atomic_add(sync, 0);
      mem_fence(CLK_GLOBAL_MEM_FENCE);
"""
    + _MEET_TAIL
    + _LEAVE,
}
