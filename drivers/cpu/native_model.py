"""A compiled step in memory: its code, its constants, and as many instances as run at the same time."""

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from neurald.drivers.cpu.executable import Executable
from neurald.drivers.cpu.instance import Binding, Instance
from neurald.drivers.cpu.llvm import LoadedCode
from neurald.drivers.cpu.routine import ALIGNMENT
from neurald.drivers.cpu.runtime import caller_name
from neurald.drivers.cpu.threads import Team, process
from neurald.hal.device import KernelTime
from neurald.hal.errors import MissedDeadlineTransient
from neurald.hal.memory import aligned_zeros

Array = np.ndarray[Any, np.dtype[Any]]

#: Executions that run at the same time, each with an arena of its own; more wait.
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
    """

    def __init__(
        self, executable: Executable, codes: Sequence[bytes], constants: np.ndarray, team: Team
    ) -> None:
        self.executable = executable
        self.codes = tuple(codes)
        self.constants = _aligned(constants)
        self.team = team
        names = {name for call in executable.calls for name in (call.function, caller_name(len(call.places)))}
        self._code = LoadedCode(self.codes, sorted(names))
        self._idle = [self._new_instance()]
        self._made = 1
        self._waiting = 0
        self._free = threading.Condition()
        self._forks = process.forks

    def _new_instance(self) -> Instance:
        return Instance(self.executable, self._code, self.constants.ctypes.data, self.team)

    def run(self, binding: Binding, deadline_s: float | None = None) -> None:
        """Runs the step.

        Args:
            binding: where inputs and outputs are; inputs may be read while it runs.
            deadline_s: until when to wait for an instance.

        Raises:
            OpFailed: a requirement of an operation does not hold; the outputs are undefined.
            MissedDeadlineTransient: others ran until the deadline.
            OutOfMemory: there is no room for another arena.
        """
        try:
            instance = self._idle.pop()
        except IndexError:
            instance = self._awaited(deadline_s)
        try:
            instance.run(binding)
        finally:
            self._idle.append(instance)
            # Whoever waits has said so before he looked for the last time.
            if self._waiting:
                self._tell()

    def _tell(self) -> None:
        """Wakes one who waits for an instance."""
        with self._free:
            self._free.notify()

    def _awaited(self, deadline_s: float | None) -> Instance:
        """An instance that another execution gives back, or one more."""
        if self._forks != process.forks:
            # Executions that were under way elsewhere do not come along.
            self._forks, self._free = process.forks, threading.Condition()
            self._made, self._waiting = len(self._idle), 0
        with self._free:
            self._waiting += 1
            try:
                while True:
                    if self._idle:
                        try:
                            return self._idle.pop()
                        except IndexError:
                            continue
                    if self._made < _INSTANCES:
                        self._made += 1
                        break
                    left = None if deadline_s is None else deadline_s - time.monotonic()
                    if left is not None and left <= 0:
                        raise MissedDeadlineTransient("the deadline passed while other executions ran")
                    self._free.wait(left)
            finally:
                self._waiting -= 1
        try:
            return self._new_instance()
        except BaseException:
            with self._free:
                self._made -= 1
            raise

    def run_arrays(self, inputs: Sequence[Array], deadline_s: float | None = None) -> list[Array]:
        """The outputs for inputs of the shapes and types that the step has; see `run`."""
        sources = [np.ascontiguousarray(each) for each in inputs]
        results = [aligned_zeros(port.size_bytes, ALIGNMENT) for port in self.executable.outputs]
        binding = Binding([each.ctypes.data for each in sources], [each.ctypes.data for each in results])
        self.run(binding, deadline_s)
        return [
            result.view(port.operand.type.dtype).reshape(port.dimensions)
            for result, port in zip(results, self.executable.outputs, strict=True)
        ]

    def profile(self) -> tuple[KernelTime, ...]:
        """The time of each kernel, in the order of `executable.calls`, in a run on whatever is in the arena."""
        try:
            instance = self._idle.pop()
        except IndexError:
            instance = self._awaited(None)
        try:
            return instance.profile()
        finally:
            self._idle.append(instance)
            self._tell()


def _aligned(contents: np.ndarray) -> np.ndarray:
    if contents.ctypes.data % ALIGNMENT == 0:
        return contents
    copy = aligned_zeros(contents.nbytes, ALIGNMENT)
    copy[:] = contents
    return copy
