"""Another process that answers requests: a Python that runs a file of the package, and nothing else that its user has."""

import contextlib
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

#: An answer that says it were longer is none.
_MOST_BYTES = 1 << 31


class WorkerProcess:
    """A process to which one thread at a time gives requests. A request, and an answer, comes after its length in eight bytes.

    Args:
        script: what it runs; the end of its standard input tells it to end.
        about: what it needs to know before the first request: a JSON object, which it gets as its argument.
        flags: of Python, besides `-I`.

    Raises:
        OSError: it does not start, or nobody knows where this Python is.
    """

    def __init__(self, script: Path, about: Mapping[str, object], *, flags: Sequence[str] = ()) -> None:
        if not sys.executable:
            raise OSError("nobody knows which Python this is")
        self._is_closed = False
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and a file of ours
            [sys.executable, "-I", *flags, str(script), json.dumps(about)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )

    @property
    def is_closed(self) -> bool:
        """Whether it was ended from here."""
        return self._is_closed

    @property
    def has_ended(self) -> bool:
        """Whether the process is no longer there."""
        return self._process.poll() is not None

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None  # noqa: S101 - it was asked for
        assert answers is not None  # noqa: S101 - it was asked for
        return requests, answers

    def answer(self, request: bytes, *, limit_s: float | None = None) -> bytes:
        """What the process answers.

        Args:
            request: what it is asked.
            limit_s: after so many seconds it is ended.

        Raises:
            OSError, ValueError, struct.error: it has ended, or says what is no answer.
        """
        timer = None if limit_s is None else threading.Timer(limit_s, self._process.kill)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            return self._answer(request)
        finally:
            if timer is not None:
                timer.cancel()

    def _answer(self, request: bytes) -> bytes:
        requests, answers = self._pipes
        requests.write(struct.pack("<Q", len(request)) + request)
        requests.flush()
        (length,) = struct.unpack("<Q", answers.read(8))
        if length > _MOST_BYTES:
            raise ValueError(f"an answer of {length} bytes")
        answer = answers.read(length)
        if len(answer) != length:
            raise ValueError(f"{len(answer)} of {length} bytes")
        return answer

    def kill(self) -> None:
        """Ends the process; a thread that waits for an answer gets none. `close` waits for its end."""
        self._is_closed = True
        self._process.kill()

    def close(self) -> None:
        """Ends the process, once no thread waits for an answer."""
        self.kill()
        self._process.wait()
        for pipe in self._pipes:
            # What was not flushed goes nowhere.
            with contextlib.suppress(OSError):
                pipe.close()
