"""The threads that do for the event loop what takes long.

All of them are started with the service. One that cannot be started later, because the machine has
no more threads for a while, would fail what needs it: a request, or the service as a whole.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from neurald.hal.errors import ResourceExhaustedTransient

#: The number of threads that the event loop would start by itself.
_MAX_THREADS: Final = 32
_BESIDE_PROCESSORS: Final = 4


def started_threads() -> ThreadPoolExecutor:
    """Returns an executor whose threads have been started.

    Raises:
        ResourceExhaustedTransient: a thread cannot be started.
    """
    count = min(_MAX_THREADS, (os.cpu_count() or 1) + _BESIDE_PROCESSORS)
    executor = ThreadPoolExecutor(count, thread_name_prefix="neurald request")
    # Each of them waits for the others, so that each piece of work needs a thread of its own.
    all_started = threading.Barrier(count + 1)
    try:
        for _ in range(count):
            executor.submit(all_started.wait)
        all_started.wait()
    except RuntimeError as error:
        all_started.abort()
        executor.shutdown()
        raise ResourceExhaustedTransient(
            f"{count} threads are needed, and one of them cannot be started: {error}; end other programs, or "
            "raise their limit (ulimit -u)"
        ) from None
    return executor
