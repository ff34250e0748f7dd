"""Disables resources that no driver needs.

Descriptors and memory have separate limits that depend on the daemon's.
"""

import resource

#: RLIMIT_MSGQUEUE has no name in Python.
_RLIMIT_MSGQUEUE = 12

_NONE = (
    resource.RLIMIT_CORE,  # a core file would contain the data of all clients
    _RLIMIT_MSGQUEUE,
    resource.RLIMIT_RTPRIO,  # a real-time thread can monopolise a core
)


def limit_resources() -> None:
    """Sets the limits of this process and its children to zero.

    Raises:
        OSError, ValueError: the kernel refuses.
    """
    for kind in _NONE:
        resource.setrlimit(kind, (0, 0))
