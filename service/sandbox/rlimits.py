"""Disables resources that no driver needs.

The limits on descriptors and memory are not set here, since they depend on the daemon's limits.
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
    """Sets the limits on these resources to zero for this process and its children.

    Raises:
        OSError, ValueError: the kernel refuses.
    """
    for kind in _NONE:
        resource.setrlimit(kind, (0, 0))
