"""What a process holds, as /proc tells."""

import contextlib
import gc
import os
import threading
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a process holds; `rss_bytes` is the memory that is its own."""

    descriptors: int
    threads: int
    rss_bytes: int

    @classmethod
    def by(cls, pid: int) -> "Held":
        """What a process holds now.

        Args:
            pid: of a process of this user's.
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
        """What this process holds once what it let go of is gone."""
        gc.collect()
        return cls.by(os.getpid())

    def more_than(
        self, base: "Held", *, descriptors: int = 0, threads: int = 0, rss_bytes: int = 0
    ) -> list[str]:
        """What is more than it was, for people; by how much it may be is given."""
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
    """The memory that a process and its children have now, with what they share, but for files."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    own = sum(int(status[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))
    return own + sum(_resident_if_there(child) for child in children(pid))


def _resident_if_there(pid: int) -> int:
    try:
        return resident_bytes(pid)
    except (OSError, KeyError):  # it has ended meanwhile
        return 0


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still are."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def shared_memory_entries() -> int:
    """How many entries of ours lie in /dev/shm."""
    return len(list(Path("/dev/shm").glob("*neurald*")))


def input_ends() -> threading.Event:
    """Is set when the standard input of this process has ended."""
    ended = threading.Event()

    def watch() -> None:
        # Not through `sys.stdin`, whose lock a child that is forked now would wait for.
        while os.read(0, 1 << 12):
            pass
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    return ended
