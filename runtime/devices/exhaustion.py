"""Finds out whether a driver failed since the process lacks a resource, which is not its fault."""

import errno

from neurald.hal.errors import BadState, Error, OutOfMemory, ResourceExhaustedTransient
from neurald.hal.open_file_limit import descriptor_shortage
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.process.threads.replaced_threads import ReplacedThreads

#: Python names interpreters where they, rather than the system, refuse a thread.
_BY_INTERPRETER = "interpreter"


def exhaustion(device: str, error: BaseException) -> Error | None:
    """Returns the error for a resource that the process lacks; None if it lacks none.

    Args:
        device: the name of the device.
        error: what its driver raised.
    """
    if isinstance(error, OSError):
        if error.errno == errno.ENOMEM:
            return OutOfMemory(f"{device}: the driver ran out of memory: {error}")
        return descriptor_shortage(f"{device}: the driver could not open a file", error)
    return _thread_refusal(device) if isinstance(error, RuntimeError) else None


def _thread_refusal(device: str) -> Error | None:
    """Returns the error if no thread can be started here; None if one can."""
    try:
        CheckedThread(target=int, name="neurald trial", daemon=True).start()
    except ReplacedThreads as error:
        return BadState(f"{device}: {error}")
    except RuntimeError as error:
        if _BY_INTERPRETER in str(error):
            return BadState(
                f"{device} needs threads, which this interpreter of Python cannot start ({error}); use neurald "
                "in the main interpreter of the process"
            )
        return ResourceExhaustedTransient(f"{device} needs threads, and none can be started: {error}")
    return None
