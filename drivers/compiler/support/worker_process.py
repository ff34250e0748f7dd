"""Starts a worker process, an isolated Python that runs a script, and sends it requests."""

import contextlib
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from neurald.hal.process.interpreter import NO_INTERPRETER, interpreter
from neurald.hal.process.threads.checked_thread import CheckedTimer

#: Length of a valid answer.
_MAX_ANSWER_BYTES = 1 << 31


class WorkerProcess:
    """A process that answers requests. Only one thread at a time may send one.

    Each request and answer is preceded by its length as eight little-endian bytes.

    Args:
        script: the script to run. It must exit at the end of its standard input.
        about: settings, which the script gets as a JSON object in its first argument.
        flags: options for Python in addition to `-I`.

    Raises:
        OSError: the process could not be started, or the path of this Python is unknown.
    """

    def __init__(self, script: Path, about: Mapping[str, object], *, flags: Sequence[str] = ()) -> None:
        path = interpreter()
        if not path:
            raise OSError(f"the worker cannot be started: {NO_INTERPRETER}")
        # Those who fork workers need neither.
        import json
        import subprocess

        self._is_closed = False
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and a script of this package
            [path, "-I", *flags, str(script), json.dumps(about)],
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
            limit_s: time limit for the answer, after which the process is killed.

        Raises:
            OSError, ValueError, struct.error: the process has ended, or its answer is invalid.
        """
        timer = None if limit_s is None else CheckedTimer(limit_s, self._process.kill)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            return self._answer(request)
        finally:
            if timer is not None:
                timer.cancel()

    def _answer(self, request: bytes) -> bytes:
        return exchange(*self._pipes, request)

    def kill(self) -> None:
        """Kills the process without waiting for its exit. Pending requests raise an error."""
        self._is_closed = True
        self._process.kill()

    def close(self) -> None:
        """Kills the process and waits for its exit. No thread may be waiting for an answer."""
        self.kill()
        self._process.wait()
        for pipe in self._pipes:
            # Closing a pipe tries to flush requests to the process, which has ended.
            with contextlib.suppress(OSError):
                pipe.close()


def exchange(requests: IO[bytes], answers: IO[bytes], request: bytes) -> bytes:
    """Sends a request to a worker and returns its answer.

    Raises:
        OSError, ValueError, struct.error: the worker has ended, or its answer is invalid.
    """
    requests.write(struct.pack("<Q", len(request)) + request)
    requests.flush()
    (length,) = struct.unpack("<Q", answers.read(8))
    if length > _MAX_ANSWER_BYTES:
        raise ValueError(
            f"the worker announced an answer of {length} bytes; the limit is {_MAX_ANSWER_BYTES}"
        )
    answer = answers.read(length)
    if len(answer) != length:
        raise ValueError(f"the worker sent {len(answer)} of {length} bytes")
    return answer
