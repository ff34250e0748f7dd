"""The resident part of memories, according to the kernel."""

from pathlib import Path

from neurald.hal.memory.pool import Memory


def resident_bytes(memory: Memory) -> int:
    """Returns how much of a memory is resident in this process."""
    start = f"{memory.address:x}-"
    lines = iter(Path("/proc/self/smaps").read_text("ascii").splitlines())
    next(line for line in lines if line.startswith(start))
    return 1024 * int(next(line for line in lines if line.startswith("Rss:")).split()[1])
