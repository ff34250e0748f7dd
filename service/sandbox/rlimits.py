"""Limits of resources that no driver needs. Descriptors and memory have limits of their own, which depend on the daemon's."""

import resource

#: RLIMIT_MSGQUEUE has no name in Python.
_RLIMIT_MSGQUEUE = 12

_NONE = (
    resource.RLIMIT_CORE,  # a core file would hold the data of all clients
    _RLIMIT_MSGQUEUE,
    resource.RLIMIT_RTPRIO,  # a thread of such a priority can take a core for itself
)


def limit_resources() -> None:
    """Sets the limits of this process, and of those that it starts, to none at all.

    Raises:
        OSError, ValueError: the kernel refuses.
    """
    for kind in _NONE:
        resource.setrlimit(kind, (0, 0))
