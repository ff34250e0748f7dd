"""Caches the programs that a device has built, so that no kernel is built twice."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from neurald.hal.process.fork import forkable_lock

if TYPE_CHECKING:
    import pyopencl as cl

#: Capacity in kernels: those of about twenty large models.
_CACHE_SIZE: Final = 1024


def source_key(text: str, options: Sequence[str]) -> bytes:
    """Returns the key of a program: a digest of its source and of the compiler's options.

    Keys are valid for one device and one driver version.
    """
    return hashlib.sha256("\0".join((text, *options)).encode()).digest()


class ProgramCache:
    """Least-recently-used cache of programs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = forkable_lock()
        self._programs: OrderedDict[bytes, cl.Program] = OrderedDict()

    def find(self, key: bytes) -> cl.Program | None:
        """Returns the program of a key; None if it is not cached."""
        with self._lock:
            found = self._programs.get(key)
            if found is not None:
                self._programs.move_to_end(key)
            return found

    def add(self, keys: Iterable[bytes], program: cl.Program) -> None:
        """Stores a program under each of these keys."""
        with self._lock:
            for key in keys:
                self._programs[key] = program
                self._programs.move_to_end(key)
            while len(self._programs) > _CACHE_SIZE:
                self._programs.popitem(last=False)
