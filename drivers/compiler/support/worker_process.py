"""Worker process that answers requests: an isolated Python that runs a script of this package."""

import contextlib
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

#: Longer answers are treated as invalid.
_MAX_BYTES = 1 << 31


class WorkerProcess:
    """A process that answers requests of one thread at a time.

    Each request and answer is preceded by its length as eight little-endian bytes.

    Args:
        script: the script to run. It ends when its standard input does.
        about: settings, passed as a JSON object in its argument.
        flags: options for Python in addition to `-I`.

    Raises:
        OSError: the process does not start, or the path of this Python is unknown.
    """

    def __init__(self, script: Path, about: Mapping[str, object], *, flags: Sequence[str] = ()) -> None:
        if not sys.executable:
            raise OSError("sys.executable is empty, so the worker cannot be started")
        self._is_closed = False
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and a script of this package
            [sys.executable, "-I", *flags, str(script), json.dumps(about)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )

    @property
    def is_closed(self) -> bool:
        """True if `kill` or `close` was called."""
        return self._is_closed

    @property
    def has_ended(self) -> bool:
        """True if the process has exited."""
        return self._process.poll() is not None

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None  # noqa: S101 - Popen opened it
        assert answers is not None  # noqa: S101 - Popen opened it
        return requests, answers

    def answer(self, request: bytes, *, limit_s: float | None = None) -> bytes:
        """Sends a request and returns the answer.

        Args:
            request: the request.
            limit_s: the process is killed after this many seconds.

        Raises:
            OSError, ValueError, struct.error: the process has ended, or its answer is invalid.
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
        if length > _MAX_BYTES:
            raise ValueError(f"the worker announced an answer of {length} bytes; the limit is {_MAX_BYTES}")
        answer = answers.read(length)
        if len(answer) != length:
            raise ValueError(f"the worker sent {len(answer)} of {length} bytes")
        return answer

    def kill(self) -> None:
        """Kills the process. A thread that waits for an answer gets an error.

        `close` waits for the exit.
        """
        self._is_closed = True
        self._process.kill()

    def close(self) -> None:
        """Ends the process, once no thread waits for an answer."""
        self.kill()
        self._process.wait()
        for pipe in self._pipes:
            # Closing flushes buffered requests to a dead process.
            with contextlib.suppress(OSError):
                pipe.close()
