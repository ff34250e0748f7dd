"""Says what to do where a process or the machine may open no more files."""

import errno
import resource

from neurald.hal.errors import ResourceExhaustedTransient
from neurald.hal.wording import text_of


def descriptor_advice(error: BaseException) -> str:
    """Returns what to do if no descriptor was left, for the end of a message; "" otherwise."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EMFILE:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"; the process may have {limit} files open: close some, or raise its limit (ulimit -n)"
    if number == errno.ENFILE:
        return "; the machine has as many files open as it may have: raise the limit (sysctl fs.file-max)"
    return ""


def system_reason(error: OSError) -> str:
    """Returns why the system refused something, and what to do if no descriptor was left."""
    return f"{error.strerror or error}{descriptor_advice(error)}"


def descriptor_shortage(what: str, error: BaseException) -> ResourceExhaustedTransient | None:
    """Returns the error for what failed since no descriptor was left; None if one was.

    Args:
        what: what failed, as a sentence.
        error: why it failed.
    """
    advice = descriptor_advice(error)
    return ResourceExhaustedTransient(f"{what}: {text_of(error)}{advice}") if advice else None
