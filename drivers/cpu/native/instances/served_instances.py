"""The instances of a model that native code uses to serve clients; see `ring_serving`."""

import ctypes
from collections.abc import Callable
from typing import Final

from neurald.drivers.cpu.native.instances.instance import Instance
from neurald.drivers.cpu.native.python_calls.python_call import StepCall
from neurald.hal.execution.native_serving import INSTANCE_BYTES
from neurald.hal.process.fork import forkable_lock

_WORD_BYTES: Final = 8
_WORDS: Final = INSTANCE_BYTES // _WORD_BYTES


class ServedInstances:
    """Instances that native code takes and gives back by itself. They live as long as this object.

    Args:
        make: creates an instance.
        limit: how many there may be.
    """

    def __init__(self, make: Callable[[], Instance], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._lock = forkable_lock()
        self._calls: list[tuple[Instance, StepCall]] = []
        # Their number, and then for each whether it is in use, and its call.
        self._words = (ctypes.c_int64 * (_WORDS * (1 + limit)))()
        #: The address for native code.
        self.address: Final = ctypes.addressof(self._words)

    def __len__(self) -> int:
        """Returns the number of instances."""
        return len(self._calls)

    def grow(self) -> None:
        """Creates one more, unless there are as many as there may be.

        Raises:
            OutOfMemory: there is no memory for another arena.
            ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account has not
                enough memory left.
        """
        with self._lock:
            number = len(self._calls)
            if number >= self._limit:
                return
            instance = self._make()
            call = instance.served_call()
            self._calls.append((instance, call))
            place = _WORDS * (1 + number)
            self._words[place], self._words[place + 1] = 0, call.address
            self._words[0] = number + 1
