"""Memory of an execution that did not end as its driver said: the driver may still write to it."""

from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.request import Request


def mark_abandoned(request: Request) -> None:
    """Marks memory that a driver may still write to, so that it is not reused for other values.

    Args:
        request: whose execution failed, or was given up.
    """
    for pool in request.pools:
        if isinstance(pool, SharedMemory):
            pool.is_abandoned = True
