"""A worker that is forked from one of the library's own processes, so that it starts at once."""

import contextlib
import os
import signal
import struct
from collections.abc import Callable
from typing import IO

from neurald.drivers.compiler.support.worker_process import exchange
from neurald.hal.process.parent import die_with


class ForkedWorker:
    """A copy of this process that answers requests, like a `WorkerProcess`.

    Only for processes that `neurald.hal.process.fork.may_fork`. Only one thread at a time may send
    a request.

    Args:
        answer: computes the answer to a request in the other process. An exception ends it.

    Raises:
        OSError: no process could be started.
    """

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.is_closed = False
        self._has_ended = False
        pipes = [*os.pipe(), *os.pipe()]
        read_requests, write_requests, read_answers, write_answers = pipes
        parent = os.getpid()
        try:
            process = os.fork()
        except OSError:
            for each in pipes:
                os.close(each)
            raise
        if not process:
            try:
                die_with(parent)
                os.close(write_requests)
                os.close(read_answers)
                _serve(os.fdopen(read_requests, "rb"), os.fdopen(write_answers, "wb"), answer)
            finally:
                os._exit(0)
        self._process = process
        os.close(read_requests)
        os.close(write_answers)
        self._requests, self._answers = os.fdopen(write_requests, "wb"), os.fdopen(read_answers, "rb")

    def answer(self, request: bytes) -> bytes:
        """See `WorkerProcess.answer`."""
        return exchange(self._requests, self._answers, request)

    def kill(self) -> None:
        """See `WorkerProcess.kill`."""
        self.is_closed = True
        if not self._has_ended:
            os.kill(self._process, signal.SIGKILL)

    def close(self) -> None:
        """See `WorkerProcess.close`."""
        self.kill()
        if not self._has_ended:
            self._has_ended = True
            os.waitpid(self._process, 0)
        for pipe in (self._requests, self._answers):
            # Closing a pipe tries to flush requests to the process, which has ended.
            with contextlib.suppress(OSError):
                pipe.close()


def _serve(requests: IO[bytes], answers: IO[bytes], answer: Callable[[bytes], bytes]) -> None:
    """Answers requests until there are no more."""
    while len(head := requests.read(8)) == 8:
        found = answer(requests.read(struct.unpack("<Q", head)[0]))
        answers.write(struct.pack("<Q", len(found)) + found)
        answers.flush()
