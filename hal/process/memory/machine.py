"""The limits of this process on memory and on descriptors."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

#: A daemon raises its limit of descriptors to this number if it may. It does not rely on more.
MAX_DESCRIPTORS = 65_536

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")


def memory_bytes(own_cgroups: Path = _OWN_CGROUPS, cgroups: Path = _CGROUPS) -> int:
    """Returns how much memory this process may use: the machine's, or less by its control groups.

    Args:
        own_cgroups: the file in which the kernel lists the groups of this process.
        cgroups: the folder of their files.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_group_limits(own_cgroups, cgroups)])


def descriptors() -> int:
    """Returns how many file descriptors this process can have once it has raised its limit."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_DESCRIPTORS if hard_limit == resource.RLIM_INFINITY else min(hard_limit, MAX_DESCRIPTORS)


def _group_limits(own_cgroups: Path, cgroups: Path) -> Iterator[int]:
    """Yields the memory limits of all control groups that this process is in.

    The file of a group without a limit has no number.
    """
    try:
        lines = own_cgroups.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            root, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for each in (group, *group.parents):
            try:
                limit = int((root / each / name).read_text())
            except (OSError, ValueError):
                continue
            if limit > 0:
                yield limit
