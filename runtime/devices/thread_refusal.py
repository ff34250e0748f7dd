"""Finds out whether a driver failed since no thread can be started, which is not its fault."""

import threading

from neurald.hal.errors import BadState, Error, ResourceExhaustedTransient

#: Python names interpreters where they, rather than the system, refuse a thread.
_BY_INTERPRETER = "interpreter"


def thread_refusal(device: str) -> Error | None:
    """Returns the error if no thread can be started here; None if one can.

    Args:
        device: the name of the device that needs threads.
    """
    try:
        threading.Thread(target=int, name="neurald trial", daemon=True).start()
    except RuntimeError as error:
        if _BY_INTERPRETER in str(error):
            return BadState(
                f"{device} needs threads, which this interpreter of Python cannot start ({error}); use neurald "
                "in the main interpreter of the process"
            )
        return ResourceExhaustedTransient(f"{device} needs threads, and none can be started: {error}")
    return None
