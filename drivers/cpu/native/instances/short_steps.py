"""Decides which steps are so short that their functions keep the GIL."""

from collections.abc import Callable
from typing import Final

from neurald.drivers.cpu.native.records.call_division import division
from neurald.drivers.cpu.target.executable import Executable

#: Maximum time of a step that keeps the GIL. To release it and to take an instance takes 1.5 to
#: 2.7 µs, and much longer if another thread gets the GIL meanwhile.
_MAX_SHORT_NS: Final = 20_000
#: Factor by which estimates are too high if the constants of a small step stay in the cache.
_MAX_OVERESTIMATE: Final = 10
#: Number of runs whose minimum is the time of a step.
_SHORT_RUNS: Final = 4


def may_be_short(executable: Executable, threads: int) -> bool:
    """Returns whether a step is worth measuring: it may be short, and needs one thread.

    Args:
        executable: the step.
        threads: how many threads may run it.
    """
    # How long a loop runs depends on data.
    if executable.loops:
        return False
    calls = executable.calls
    if sum(calls.costs_ns) > _MAX_OVERESTIMATE * _MAX_SHORT_NS:
        return False
    works = zip(calls.work_items, calls.costs_ns, strict=True)
    return not any(division(*work, threads).parts > 1 for work in works)


def should_keep_gil(time_ns: Callable[[int], int], *, factor: int = 1) -> bool:
    """Returns True if a step is so short that its functions should keep the GIL.

    Args:
        time_ns: returns the shortest time of a number of runs.
        factor: how many times as long it may take as a step whose lengths are known.
    """
    return time_ns(_SHORT_RUNS) <= factor * _MAX_SHORT_NS
