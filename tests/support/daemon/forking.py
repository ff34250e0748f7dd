"""Forks a process in a test, and reports the outcome of the child."""

import ctypes
import os
import signal
import traceback
from collections.abc import Callable


def fork_untold() -> int:
    """Forks as programs do that embed Python and do not tell it, such as uWSGI."""
    process: int = ctypes.PyDLL(None).fork()
    return process


def in_child(work: Callable[[], None], timeout_s: float = 20.0, *, fork: Callable[[], int] = os.fork) -> None:
    """Runs `work` in a forked process, and fails if that fails. A child that hangs is killed.

    The test has the mark `forks`, with which it runs in a process without threads of other tests.
    """
    reader, writer = os.pipe()
    process = fork()
    if process == 0:
        status = 1
        try:
            signal.alarm(int(timeout_s))
            work()
            status = 0
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(process, 0)
    assert status == 0, said or f"the child ended with status {status:#x}; 0xe means that it hung"
