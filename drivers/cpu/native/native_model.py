"""A compiled step in memory: its code, its constants, and as many instances as run at the same time."""

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from neurald.drivers.cpu.native.instance import Binding, Instance
from neurald.drivers.cpu.native.llvm import LoadedCode
from neurald.drivers.cpu.native.step_program import caller_name
from neurald.drivers.cpu.native.thread_pool import Team
from neurald.drivers.cpu.target.executable import Call, Executable
from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.hal.accounting.account import reserve
from neurald.hal.device import KernelTime
from neurald.hal.errors import MissedDeadlineTransient
from neurald.hal.memory.pool import aligned_zeros
from neurald.hal.sync.cancellation import NEVER_CANCELLED, Cancellation
from neurald.hal.sync.deadline import nanoseconds
from neurald.hal.sync.lending_pool import Pool

Array = np.ndarray[Any, np.dtype[Any]]

#: Executions that run at the same time, each with an arena of its own; more wait, first come, first served.
_INSTANCES = max(4, len(os.sched_getaffinity(0)))


class NativeModel:
    """Runs a step on memory that is given by address. Thread-safe.

    Args:
        executable: what to run.
        codes: its code, see `LoadedCode`.
        constants: the contents of its constants; used as they are where they are aligned.
        team: the threads that run it.

    Raises:
        CompilationFailed: the code cannot be linked, or lacks a function.
        OutOfMemory: there is no room for its arena.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: its account may not have so much.
    """

    def __init__(
        self, executable: Executable, codes: Sequence[bytes], constants: np.ndarray, team: Team
    ) -> None:
        self.executable = executable
        self.codes = tuple(codes)
        # The code lies in memory as it is kept, and as it is run.
        self._reservation = reserve(
            constants.nbytes + 2 * sum(map(len, self.codes)), "constants and code of a compiled step"
        )
        self.constants = _aligned(constants)
        self.team = team
        names = {name for call in executable.calls for name in (call.function, caller_name(len(call.places)))}
        self._code = LoadedCode(self.codes, sorted(names))
        # It must not refer to this object: all memory is to go with the last reference to it, not some time later.
        new_instance = partial(Instance, executable, self._code, self.constants.ctypes.data, team)
        self._instances = Pool([new_instance()], new_instance, _INSTANCES)

    def run(
        self,
        binding: Binding,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
        taken: list[int] | None = None,
    ) -> None:
        """Runs the step.

        Args:
            binding: where inputs and outputs are; inputs may be read while it runs.
            deadline_s: until when it may take; None for no limit.
            cancellation: stops it.
            taken: gets the time when it had waited for other executions, on the clock of `time.monotonic_ns()`.

        Raises:
            OpFailed: a requirement of an operation does not hold; the outputs are undefined.
            MissedDeadlineTransient: the deadline passed; the outputs are undefined.
            Cancelled: likewise.
            OutOfMemory: there is no room for another arena.
        """
        instance = self._instances.take(deadline_s, cancellation)
        if taken is not None:
            taken.append(time.monotonic_ns())
        try:
            stopped = instance.run(
                binding,
                (cancellation or NEVER_CANCELLED).address,
                0 if deadline_s is None else nanoseconds(deadline_s),
            )
        finally:
            self._instances.give_back(instance)
        if stopped is not None:
            where = f"in {_name(stopped)}"
            if cancellation is not None:
                cancellation.require_not_cancelled(where)
            raise MissedDeadlineTransient(f"the deadline passed {where}")
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise MissedDeadlineTransient("the deadline passed in its last kernel")

    def run_arrays(
        self,
        inputs: Sequence[Array],
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[Array]:
        """The outputs for inputs of the shapes and types that the step has; see `run`."""
        sources = [np.ascontiguousarray(each) for each in inputs]
        results = [aligned_zeros(port.size_bytes, ALIGNMENT) for port in self.executable.outputs]
        binding = Binding([each.ctypes.data for each in sources], [each.ctypes.data for each in results])
        self.run(binding, deadline_s, cancellation)
        return [
            result.view(port.operand.type.dtype).reshape(port.dimensions)
            for result, port in zip(results, self.executable.outputs, strict=True)
        ]

    def profile(self) -> tuple[KernelTime, ...]:
        """The time of each kernel, in the order of `executable.calls`, in a run on whatever is in the arena."""
        with self._instances.using() as instance:
            return instance.profile()


def _name(call: Call) -> str:
    return f"operation {', '.join(map(str, call.operations))}" if call.operations else call.label


def _aligned(contents: np.ndarray) -> np.ndarray:
    if contents.ctypes.data % ALIGNMENT == 0:
        return contents
    copy = aligned_zeros(contents.nbytes, ALIGNMENT)
    copy[:] = contents
    return copy
