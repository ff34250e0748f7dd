"""Processes whose parents have ended, which this process inherits and ends.

A process that starts others, which it does not trust, cannot find all of their descendants: any of
them may move to another session, and outlive its parent. The kernel gives such an orphan to the
nearest ancestor that asks for it (PR_SET_CHILD_SUBREAPER). So what a driver leaves behind becomes a
child of the service manager, wherever it has moved to.

Not every orphan is of a driver: the first process of a container inherits all of them. Those of
drivers are recognized by what no process can undo, the restrictions of the sandbox, or else by a
variable of their environment.
"""

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
_ZOMBIE: Final = "Z"
#: The lines of `/proc/PID/status` with restrictions, which the kernel only ever raises.
_RESTRICTIONS: Final = ("NoNewPrivs", "Seccomp", "Seccomp_filters")


class Orphans:
    """The children of this process that it has not started itself. Not thread-safe.

    Processes that it starts must be told, except those from before `inherit`.
    """

    def __init__(self) -> None:
        self._own: set[int] = set()
        self._starting = 0
        self._variable = b""
        self._restrictions: tuple[int, ...] = ()

    def inherit(self, variable: str) -> None:
        """Makes the kernel give orphans among the descendants to this process, from now on.

        Args:
            variable: the variable of the environment of those to end, with its value.
        """
        self._own.update(pid for pid, _ in _children())
        self._variable = variable.encode()
        self._restrictions = _restrictions(os.getpid())
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Takes no new children for orphans in the block, which starts one and calls `started`."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    @property
    def is_starting(self) -> bool:
        """True within a block of `starting`, in which `end` does nothing."""
        return self._starting > 0

    def started(self, process: int) -> None:
        """Notes a process that this one has started itself."""
        self._own.add(process)

    def ended(self, process: int) -> None:
        """Notes that a process that this one has started has ended, and was waited for."""
        self._own.discard(process)

    def end(self) -> bool:
        """Kills the orphans that are of drivers, and waits for all that have ended.

        Returns:
            Whether any was killed. Its own children are orphans as soon as it has ended, which
            SIGCHLD tells.
        """
        if not self._variable or self._starting:
            return False
        has_killed = False
        for pid, state in _children():
            if pid in self._own:
                continue
            if state != _ZOMBIE and self._is_of_driver(pid):
                # Its number cannot be reused before this process has waited for it.
                with contextlib.suppress(PermissionError):  # it runs a program of another user
                    os.kill(pid, signal.SIGKILL)
                    has_killed = True
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return has_killed

    def _is_of_driver(self, pid: int) -> bool:
        found = _restrictions(pid)
        if any(of_orphan > own for of_orphan, own in zip(found, self._restrictions, strict=False)):
            return True
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return self._variable in environment.split(b"\0")


#: The orphans of this process.
ORPHANS: Final = Orphans()


def _children() -> list[tuple[int, str]]:
    """Returns the children of this process, and their states."""
    own = str(os.getpid())
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "stat").read_text(errors="replace")
        except OSError:  # it has ended
            continue
        # The name of the program, in parentheses, may contain anything.
        state, parent = text.rpartition(")")[2].split(maxsplit=2)[:2]
        if parent == own:
            found.append((int(process.name), state))
    return found


def _restrictions(pid: int) -> tuple[int, ...]:
    """Returns the restrictions of a process; none if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return ()
    fields = dict(line.partition(":")[::2] for line in lines)
    return tuple(int(fields.get(name, "0")) for name in _RESTRICTIONS)
