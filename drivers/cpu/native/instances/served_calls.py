"""The calls with which native code serves clients; see `neurald.hal.execution.native_serving`."""

from collections.abc import Callable
from functools import partial
from typing import Final

from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.instances.instance import Instance
from neurald.drivers.cpu.native.instances.served_instances import ServedInstances
from neurald.drivers.cpu.native.thread_pool import Team
from neurald.hal.execution.native_serving import NativeCall
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace

#: The longest estimate of a step that runs in one thread if the others sleep. To wake one takes 10
#: to 30 µs, and may save half of the step.
_MAX_ALONE_NS: Final = 50_000


class ServedCalls:
    """Makes the calls of a step; they share instances.

    Args:
        make: creates an instance.
        limit: how many instances there may be for calls in all threads, and for those in one.
        team: the threads that run the step.
    """

    def __init__(self, make: Callable[[], object], limit: int, team: Team) -> None:
        self._make = make
        self._limit = limit
        self._team = team
        self._lock = forkable_lock()
        #: The instances, by whether they run in one thread.
        self._instances: dict[bool, ServedInstances] = {}

    def __len__(self) -> int:
        """Returns the number of instances."""
        return sum(map(len, self._instances.values()))

    def call(self, binding: ArgumentBinding, keep: object, *, cost_ns: float) -> NativeCall:
        """Returns a call.

        Args:
            binding: addresses of inputs and outputs.
            keep: owner of this memory, and of that of the step.
            cost_ns: the estimated time of the step.

        Raises:
            OutOfMemory: there is no memory for an arena.
            ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account has not
                enough memory left.
        """
        is_short = self._team.threads > 1 and cost_ns < _MAX_ALONE_NS
        alone = partial(self._call, binding, keep, is_alone=True) if is_short else None
        return replace(self._call(binding, keep, is_alone=False), alone=alone)

    def _call(self, binding: ArgumentBinding, keep: object, *, is_alone: bool) -> NativeCall:
        with self._lock:
            instances = self._instances.get(is_alone)
            if instances is None:
                instances = ServedInstances(
                    partial(_new_instance, self._make, is_alone=is_alone), self._limit
                )
                instances.grow()
                self._instances[is_alone] = instances
        return NativeCall(
            functions=self._team.program.addresses,
            instances=instances.address,
            binding=int(binding.words.ctypes.data),
            grow=instances.grow,
            keep=(self, binding, keep),
        )


def _new_instance(make: Callable[[], object], *, is_alone: bool) -> Instance:
    # As a method it would create a cycle, which delays the release of the instances' memory.
    instance = make()
    assert isinstance(instance, Instance)  # noqa: S101 - its lengths do not change
    if is_alone:
        instance.run_alone()
    return instance
