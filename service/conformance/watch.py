"""Has another process watch the suite, whose process a driver may end or hold up."""

import contextlib
import os
import subprocess
from pathlib import Path
from types import TracebackType

from neurald.hal.process.interpreter import interpreter

_WATCHER = Path(__file__).with_name("watcher.py")
#: A check that takes longer is told. A call that observes its deadline ends after 30 s at most.
_PATIENCE_S = 40.0


class Watch:
    """A context in which another process watches this one, and says on stderr what it has seen.

    Args:
        patience_s: how long a check may take before the other process says so.
    """

    def __init__(self, patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Watch":
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and a script of this package
                [interpreter(), "-I", "-S", str(_WATCHER), str(os.getpid()), str(self._patience_s)],
                stdin=subprocess.PIPE,
                bufsize=0,
            )
        return self

    def begin(self, check: str) -> None:
        """Tells what begins; "" that the suite has ended."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(check.replace("\n", " ").encode(errors="replace") + b"\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.begin("")
            self._process.communicate()
