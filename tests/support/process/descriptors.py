"""Processes with many open descriptors, whose numbers `select` cannot take, or with no more."""

import contextlib
import os
import resource
from collections.abc import Iterator

#: `select` takes numbers below 1024.
_COUNT = 1100


@contextlib.contextmanager
def many_descriptors() -> Iterator[None]:
    """Keeps so many descriptors open that the next ones have numbers above 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 2 * _COUNT:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * _COUNT, hard))
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(_COUNT):
            cleanup.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """Lets the process open nothing more during the context."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
