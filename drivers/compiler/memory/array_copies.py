"""Copies arrays of megabytes, such as weights, in several threads.

NumPy copies without the GIL. One thread reorders or converts about a gigabyte in a second, which
would be much of the time in which a large model is prepared.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from neurald.hal.lazy_numpy import Array, np

#: Bytes that one thread copies at a time, and for which starting one pays.
_PART_BYTES: Final = 4 << 20
_THREAD_BYTES: Final = 2 << 20
_MAX_THREADS: Final = 8

#: Copies one array to another one of the same shape: the target, and the source.
_Copy: TypeAlias = "Callable[[Array, Array], None]"


def _copy(target: "Array", source: "Array") -> None:
    with np.errstate(over="ignore"):
        np.copyto(target, source, casting="unsafe")


def copy_arrays(copies: "Iterable[tuple[Array, Array]]", copy: _Copy = _copy) -> None:
    """Copies arrays, with conversion to the target's type, and returns when all are copied.

    Numbers beyond the target's range become infinite.

    Args:
        copies: targets and sources of the same shape.
        copy: copies a part of an array; called by several threads.
    """
    parts = [part for target, source in copies for part in _parts(target, source)]
    wanted = sum([target.nbytes for target, _ in parts]) // _THREAD_BYTES
    count = min(_MAX_THREADS, len(parts), wanted, len(os.sched_getaffinity(0)))
    # Threads may be refused: by the system, and once the program's main thread has ended.
    with contextlib.suppress(RuntimeError):
        if count > 1:
            _copy_in_threads(parts, count, copy)
            return
    for target, source in parts:
        copy(target, source)


def _copy_in_threads(parts: "Sequence[tuple[Array, Array]]", count: int, copy: _Copy) -> None:
    # Imported here, because small models do not need it.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(count, thread_name_prefix="neurald copy") as threads:
        for _ in threads.map(copy, *zip(*parts, strict=True)):
            pass


def _parts(target: "Array", source: "Array") -> "Iterator[tuple[Array, Array]]":
    """Yields parts of both arrays along the first dimension that has several elements."""
    while target.ndim > 1 and len(target) == 1:
        target, source = target[0], source[0]
    if target.ndim == 0 or target.nbytes <= _PART_BYTES:
        yield target, source
        return
    rows = max(1, _PART_BYTES * len(target) // target.nbytes)
    for start in range(0, len(target), rows):
        yield target[start : start + rows], source[start : start + rows]
