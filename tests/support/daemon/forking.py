"""Forks a process in a test, and reports the outcome of the child."""

import ctypes
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable


def fork_untold() -> int:
    """Forks as programs do that embed Python and do not tell it, such as uWSGI.

    A thread that has waited for the interpreter for a while asks for it. A child of which Python
    knows nothing would wait for that thread, so that no thread may ask while this one forks.
    """
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(10 * interval_s + 1)
    try:
        time.sleep(2 * interval_s)
        process: int = ctypes.PyDLL(None).fork()
    finally:
        sys.setswitchinterval(interval_s)
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
            work()
            status = 0
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        if not select.select([pipe], [], [], timeout_s)[0]:
            os.kill(process, signal.SIGKILL)
        said = pipe.read().decode()
    _, status = os.waitpid(process, 0)
    assert status == 0, said or f"the child ended with status {status:#x}; 0x9 means that it hung"
