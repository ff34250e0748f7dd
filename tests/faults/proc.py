"""Resources of a process, according to /proc."""

import contextlib
import gc
import os
import threading
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Resources of a process; `rss_bytes` is its private memory."""

    descriptors: int
    threads: int
    rss_bytes: int

    @classmethod
    def by(cls, pid: int) -> "Held":
        """Reads the current resources of a process.

        Args:
            pid: of a process of this user.
        """
        folder = Path(f"/proc/{pid}")
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        return cls(
            descriptors=len(os.listdir(folder / "fd")),  # noqa: PTH208 - names only
            threads=int(status["Threads"]),
            rss_bytes=int(status["RssAnon"].split()[0]) * 1024,
        )

    @classmethod
    def here(cls) -> "Held":
        """Reads the resources of this process after a garbage collection."""
        gc.collect()
        return cls.by(os.getpid())

    def more_than(
        self, base: "Held", *, descriptors: int = 0, threads: int = 0, rss_bytes: int = 0
    ) -> list[str]:
        """Describes increases beyond the given tolerances."""
        return [
            f"{now} {name}; there were {before}"
            for name, now, before, slack in (
                ("descriptors", self.descriptors, base.descriptors, descriptors),
                ("threads", self.threads, base.threads, threads),
                ("bytes of memory", self.rss_bytes, base.rss_bytes, rss_bytes),
            )
            if now > before + slack
        ]


def resident_bytes(pid: int) -> int:
    """Returns the memory of a process and its children, with shared memory but without files."""
    return own_bytes(pid) + sum(_resident_if_there(child) for child in children(pid))


def own_bytes(pid: int) -> int:
    """Returns the memory of a process without its children, with shared memory, without files."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return sum(int(status[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


def _resident_if_there(pid: int) -> int:
    try:
        return resident_bytes(pid)
    except (OSError, KeyError):  # the process has ended meanwhile
        return 0


def children(pid: int) -> list[int]:
    """Returns the running child processes of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def shared_memory_entries() -> int:
    """Returns the number of this project's entries in /dev/shm."""
    return len(list(Path("/dev/shm").glob("*neurald*")))


def input_ends() -> threading.Event:
    """Returns an event that is set when the standard input of this process has ended."""
    ended = threading.Event()

    def watch() -> None:
        # Not through `sys.stdin`, whose lock would block a forked child.
        while os.read(0, 1 << 12):
            pass
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    return ended


def core_waits_s(process: int) -> float:
    """Returns how long the threads of a process were ready to run without a free core."""
    waited_ns = 0
    with contextlib.suppress(OSError):  # it has ended, and threads do
        for task in Path(f"/proc/{process}/task").iterdir():
            waited_ns += int((task / "schedstat").read_text().split()[1])
    return waited_ns / 1e9
