"""The threads that run functions for asynchronous callers, one pool for the process."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from neurald.hal.process.fork import forkable_lock

#: Maximum number of threads: enough to keep all cores and several devices busy.
_MAX_THREADS: Final = max(8, 2 * (os.cpu_count() or 1))

_lock: Final = forkable_lock()
_pools: Final[list[ThreadPoolExecutor]] = []


def submit(function: Callable[[], Any]) -> "Future[Any]":
    """Runs a function in a thread of the pool, which starts with the first one."""
    with _lock:
        if not _pools:
            _pools.append(ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="neurald caller"))
        return _pools[0].submit(function)


# The threads of the parent are not there in a forked child.
os.register_at_fork(after_in_child=_pools.clear)
