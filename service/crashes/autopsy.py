"""Decides which models may have killed a process, from its end and its breadcrumbs.

A process that somebody else killed or stopped died of no model. Otherwise any model that it was at
work on may be the cause. If a fatal signal told which thread failed, or an execution had exceeded
its limit, it is that one.
"""

import re
import signal
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from neurald.hal.crashes.records import CrashSuspect
from neurald.hal.crashes.trail import Activity, Trail

#: What Python's fault handler writes for the thread that received a fatal signal.
_FAULTING_THREAD: Final = re.compile(rb"Current thread 0x([0-9a-fA-F]{1,16})\b")
#: Signals that a process receives for what it does itself.
_OWN_SIGNALS: Final = frozenset(
    {
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
        signal.SIGXCPU,
        signal.SIGXFSZ,
    }
)
_OWN_CGROUPS: Final = Path("/proc/self/cgroup")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_MACHINE: Final = Path("/proc/vmstat")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEnd:
    """The end of a process.

    Attributes:
        status: as `subprocess.Popen.returncode`: the negative number of a signal, or the status.
        was_aborted: its supervisor ended it, because it was silent or hung.
        was_stopped: it was silent because somebody had stopped it.
        ran_out_of_memory: the kernel killed a process for lack of memory while it ran.
        thread: the thread that received a fatal signal; None if it is not known.
    """

    status: int
    was_aborted: bool = False
    was_stopped: bool = False
    ran_out_of_memory: bool = False
    thread: int | None = None

    @property
    def is_own(self) -> bool:
        """True if the process may have died of what it was at work on."""
        if self.was_aborted:
            return not self.was_stopped
        if self.status >= 0:
            return self.status != 0
        return -self.status in _OWN_SIGNALS or (-self.status == signal.SIGKILL and self.ran_out_of_memory)


def suspects(end: DriverEnd, trail: Trail) -> tuple[CrashSuspect, ...]:
    """Returns the patterns that may have killed a process, each once."""
    if not end.is_own:
        return ()
    found = trail.activities
    hanging = tuple(each for each in found if each.hangs)
    faulting = tuple(each for each in found if each.thread == end.thread)
    if end.was_aborted:
        found = hanging or found
    elif faulting:
        found = faulting
    unique: dict[str, Activity] = {}
    for activity in found:
        unique.setdefault(activity.record.pattern.digest, activity)
    return tuple(CrashSuspect(pattern=each.record.pattern, phase=each.phase) for each in unique.values())


def faulting_thread(line: bytes) -> int | None:
    """Returns the thread that a line of stderr names as the one that received a fatal signal."""
    found = _FAULTING_THREAD.search(line)
    return None if found is None else int(found[1], 16)


def is_stopped(process: int) -> bool:
    """Returns whether a process is stopped, for example by SIGSTOP."""
    try:
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in (b"T", b"t")


def memory_kills() -> int:
    """Returns how many processes the kernel has killed for lack of memory.

    Those of the own control group and the groups in it count, or of the machine if it has no group.
    """
    try:
        groups = _OWN_CGROUPS.read_text().splitlines()
    except OSError:
        groups = []
    for line in groups:
        number, _, path = line.partition("::")
        if number == "0" and path:
            found = _count(_CGROUPS / PurePosixPath(path.lstrip("/")) / "memory.events")
            if found is not None:
                return found
    return _count(_MACHINE) or 0


def _count(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, number = line.partition(" ")
        if name == "oom_kill" and number.isdecimal():
            return int(number)
    return None


def describe_end(status: int) -> str:
    """Describes the end of a process, such as "signal SIGKILL"."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
