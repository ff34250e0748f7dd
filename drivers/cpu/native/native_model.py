"""A compiled step in memory: code, constants, and an instance per concurrent execution."""

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from neurald.drivers.compiler.ir.string_references import is_string, stored_dtype
from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.instances.instance import Instance, LengthsRefused
from neurald.drivers.cpu.native.instances.served_calls import ServedCalls
from neurald.drivers.cpu.native.instances.short_steps import may_be_short, should_keep_gil
from neurald.drivers.cpu.native.instances.stopped_step import raise_stopped
from neurald.drivers.cpu.native.instances.strings import resolved
from neurald.drivers.cpu.native.objects.llvm import LoadedCode
from neurald.drivers.cpu.native.programs.step_program import COMMON_ARGUMENTS, caller_name
from neurald.drivers.cpu.native.python_calls.python_call import Array, ArrayFunction, python_table
from neurald.drivers.cpu.native.records.step_records import LOOP_TIMEOUT_NS
from neurald.drivers.cpu.native.thread_pool import Team
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.drivers.cpu.target.step_sizes import StepSizes
from neurald.hal.accounting.account import reserve
from neurald.hal.device import DEFAULT_LOOP_TIMEOUT_S, KernelTime
from neurald.hal.errors import (
    MissedDeadlineTransient,
    OutOfMemory,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
)
from neurald.hal.execution.native_serving import NativeCall
from neurald.hal.lazy_numpy import np
from neurald.hal.memory.pool import HostMemory
from neurald.hal.memory.private_memory import aligned_zeros, buffer_address
from neurald.hal.process.exit import stop_at_exit
from neurald.hal.sync.cancellation import NEVER_CANCELLED, Cancellation
from neurald.hal.sync.deadline import NEVER_S, nanoseconds
from neurald.hal.sync.lending_pool import LendingPool

if TYPE_CHECKING:
    # Few models have lengths that change.
    from neurald.drivers.cpu.native.instances.growing_call import GrowingCall
    from neurald.drivers.cpu.native.instances.growing_instance import GrowingBinding, GrowingInstance
    from neurald.drivers.cpu.target.open_executable import OpenExecutable

#: Number of calls after which a short step that shares its memory gets some of its own, which takes
#: longer than some calls.
_MAX_SHARED_CALLS: Final = 4

#: Maximum number of sets of shapes of which the lengths are kept.
_MAX_KNOWN_LENGTHS: Final = 64
#: Maximum number of concurrent executions, each with its own arena; others wait in order. There are
#: several for each core: an execution that has waited takes a while to wake up, and finds nothing
#: of its arena in the core's cache. The operating system divides the cores with less loss.
_MAX_INSTANCES = 4 * len(os.sched_getaffinity(0))

#: Repeats an execution of a step with changing lengths; see `NativeModel.repeating_function`.
Repeat: TypeAlias = "Callable[[Sequence[Array], Cancellation | None], list[Array] | None]"


class NativeModel:
    """Runs a step on memory that is given by its addresses. It is thread-safe.

    Args:
        executable: the step.
        codes: its code, see `LoadedCode`; or code that several models share, which their accounts
            do not pay for.
        constants: contents of its constants, used in place if they are aligned.
        team: the threads that run it.
        origin: the same step for other lengths, with which it shares code, constants and, unless
            its inputs or outputs have strings, the memory of executions; None if there is none.
        sizes: the sizes of the executable, if there is an origin.
        opened: describes the step if lengths change while it runs; else None.

    Raises:
        CompilationFailed: the code cannot be linked, or lacks a function.
        OutOfMemory: there is no memory for its arena.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account has not enough
            memory left.
    """

    def __init__(
        self,
        executable: Executable,
        codes: "Sequence[bytes] | LoadedCode",
        constants: Array | memoryview,
        team: Team,
        origin: "NativeModel | None" = None,
        sizes: StepSizes | None = None,
        opened: "OpenExecutable | None" = None,
    ) -> None:
        self.executable = executable
        self.opened = opened
        self.codes = () if isinstance(codes, LoadedCode) else tuple(codes)
        self.team = team
        if origin is None:
            # The code is in memory twice, because the object code is kept beside the loaded code.
            self._reservation = reserve(
                constants.nbytes + 2 * sum(map(len, self.codes)), "constants and code of a compiled step"
            )
            self.constants = _aligned(HostMemory(constants).view())
            names = dict.fromkeys(executable.calls.functions)
            counts = set(executable.calls.counts)
            names |= {caller_name(count): None for count in counts if count > COMMON_ARGUMENTS}
            self._code = codes if isinstance(codes, LoadedCode) else LoadedCode(codes, tuple(names))
        else:
            self._reservation, self.constants = origin._reservation, origin.constants
            self._code = origin._code
        # A reference to this object would create a cycle and delay the release of its memory.
        memory = self._memory = self._code, buffer_address(self.constants), team
        self._new_instance: Callable[[], Instance | GrowingInstance]
        if opened is None:
            self._new_instance = partial(Instance, executable, *memory)
        else:
            from neurald.drivers.cpu.native.instances import growing_instance

            self._new_instance = partial(growing_instance.GrowingInstance, opened, *memory)
        self._instances: LendingPool[Instance | GrowingInstance]
        #: The cancellations of the last executions, by instance.
        self._cancellations: dict[Instance | GrowingInstance, Cancellation | None]
        #: The step with which it shares the memory of executions, and which ends them, if there is
        #: one.
        self._origin = None if self._has_strings() else origin
        self._sizes = None if self._origin is None else sizes
        if self._origin is None:
            self._instances = LendingPool([self._new_instance()], self._new_instance, _MAX_INSTANCES)
            self._cancellations = {}
        else:
            self._instances, self._cancellations = self._origin._instances, self._origin._cancellations
        #: Number of calls on arrays of a step that shares its memory, until it has some of its own.
        self._shared_calls = 0
        self._short_instance: Instance | None = None
        self._served = ServedCalls(self._new_instance, _MAX_INSTANCES, team)
        self._is_measured = False
        #: If lengths of steps change, the types of the outputs, and the lengths for shapes of the
        #: inputs.
        self._kinds: list[np.dtype[Any]] = []
        self._known_lengths: dict[tuple[tuple[int, ...], ...], tuple[int, ...]] = {}
        if self._origin is None:
            stop_at_exit(self)

    def resized(self, sizes: StepSizes) -> "NativeModel":
        """Returns the step for other sizes of its values.

        Executions of both take turns with the same memory, so that nothing is allocated for sizes
        that occur once.

        Args:
            sizes: the sizes of the same calls, without instructions and bands.
        """
        return NativeModel(sizes.executable, self.codes, self.constants, self.team, self, sizes)

    def own_bytes(self) -> int:
        """Returns the memory of executions that it does not share with the step for other sizes."""
        count = (self._origin is None) + (self._short_instance is not None)
        count += len(self._served)
        return count * (self.executable.arena_bytes + self.executable.scratch_bytes)

    def _fitted(
        self, instance: "Instance | GrowingInstance", sizes: StepSizes | None = None
    ) -> "Instance | GrowingInstance":
        """Returns an instance with the sizes of this step, or others, in place of one that has any.

        Raises:
            OutOfMemory: there is no memory for a larger arena.
            ResourceExhaustedPersistent, ResourceExhaustedTransient: likewise for the current
                account.
        """
        sizes = sizes or self._sizes
        if not isinstance(instance, Instance) or (sizes is None and instance.is_original):
            return instance
        if sizes is None:
            sizes = self._sizes = StepSizes.of(self.executable)
        if instance.fit(sizes):
            return instance
        self._cancellations.pop(instance, None)
        other = Instance(sizes.executable, *self._memory)
        other.fit(sizes)
        return other

    def run(
        self,
        binding: "ArgumentBinding | GrowingBinding",
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
        taken: list[int] | None = None,
        loop_timeout_s: float = DEFAULT_LOOP_TIMEOUT_S,
        sizes: StepSizes | None = None,
    ) -> None:
        """Runs the step.

        Args:
            binding: addresses of inputs and outputs; inputs may be read until it ends. Steps whose
                lengths change while they run take a `GrowingBinding`.
            deadline_s: time limit on the clock of `time.monotonic()`; None for no limit.
            cancellation: stops it.
            taken: receives the time at which it stopped waiting for other executions, on the clock
                of `time.monotonic_ns()`.
            loop_timeout_s: how long each loop may run.
            sizes: the sizes for which it runs, if not its own; see `resized`.

        Raises:
            OpFailed: a requirement of an operation does not hold; the outputs are undefined.
            MissedDeadlineTransient: the deadline passed, or a loop ran longer than its timeout; the
                outputs are undefined.
            Cancelled: likewise.
            OutOfMemory: there is no memory for another arena.
        """
        instance = self._instances.take(deadline_s, cancellation)
        if taken is not None:
            taken.append(time.monotonic_ns())
        try:
            instance = self._fitted(instance, sizes)
            self._cancellations[instance] = cancellation
            limits = (
                (cancellation or NEVER_CANCELLED).address,
                0 if deadline_s is None else nanoseconds(deadline_s),
                nanoseconds(min(loop_timeout_s, NEVER_S)),
            )
            if isinstance(instance, Instance):
                stopped = instance.run(cast("ArgumentBinding", binding), *limits)
            else:
                stopped = instance.run(cast("GrowingBinding", binding), *limits)
        finally:
            self._instances.give_back(instance)
        if stopped is not None:
            raise_stopped(stopped, cancellation)
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise MissedDeadlineTransient("the deadline passed in its last kernel")

    def repeating(self, binding: ArgumentBinding) -> Callable[[Cancellation], None]:
        """Returns a function that does what `run` does without a deadline, in fewer frames.

        Args:
            binding: addresses of inputs and outputs.
        """
        if self._sizes is not None or self.opened is not None:
            return partial(self.run, binding, None)
        take = cast("Callable[[None, Cancellation], Instance]", self._instances.take)
        give_back, cancellations = self._instances.give_back, self._cancellations

        def run(cancellation: Cancellation) -> None:
            instance = take(None, cancellation)
            try:
                if not instance.is_original:
                    instance = cast("Instance", self._fitted(instance))
                cancellations[instance] = cancellation
                stopped = instance.run(binding, cancellation.address, 0, LOOP_TIMEOUT_NS)
            finally:
                give_back(instance)
            if stopped is not None:
                raise_stopped(stopped, cancellation)

        return run

    def run_arrays(
        self,
        inputs: Sequence[Array],
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
        loop_timeout_s: float = DEFAULT_LOOP_TIMEOUT_S,
    ) -> list[Array]:
        """Computes the outputs for inputs of the step's shapes and types; see `run`.

        Strings must be `bytes` objects.

        Raises:
            LengthsRefused: see `GrowingInstance.run`.
        """
        # Other threads may replace the strings of an array, which the step still reads.
        sources = [each.copy() if each.dtype == object else np.asarray(each, order="C") for each in inputs]
        if self.opened is not None:
            from neurald.drivers.cpu.native.instances.growing_instance import ArraysBinding

            if not self._kinds:
                self._kinds = [stored_dtype(port.operand.type) for port in self.executable.outputs]
            shapes = tuple([each.shape for each in sources])
            lengths = self._known_lengths.get(shapes)
            if lengths is None:
                lengths = self.opened.input_lengths(shapes)
                if lengths is None:
                    raise LengthsRefused
                if len(self._known_lengths) >= _MAX_KNOWN_LENGTHS:
                    self._known_lengths.clear()
                self._known_lengths[shapes] = lengths
            growing = ArraysBinding(sources, lengths, self._kinds)
            self.run(growing.binding(), deadline_s, cancellation, loop_timeout_s=loop_timeout_s)
            return self._with_strings(growing.results, sources)
        results = [aligned_zeros(port.size_bytes, ALIGNMENT) for port in self.executable.outputs]
        binding = ArgumentBinding(
            self.executable, [each.ctypes.data for each in sources], [each.ctypes.data for each in results]
        )
        self.run(binding, deadline_s, cancellation, loop_timeout_s=loop_timeout_s)
        return self._with_strings(
            [
                result.view(stored_dtype(port.operand.type)).reshape(port.dimensions)
                for result, port in zip(results, self.executable.outputs, strict=True)
            ],
            sources,
        )

    def _with_strings(self, results: list[Array], inputs: Sequence[Array]) -> list[Array]:
        """Replaces references in the outputs by strings."""
        for number, port in enumerate(self.executable.outputs):
            if is_string(port.operand.type):
                results[number] = resolved(results[number], self.executable.strings, inputs)
        return results

    def short_call(self, binding: ArgumentBinding, keep: object) -> Callable[[], bool] | None:
        """Returns a function that runs a short step without releasing the GIL.

        It returns whether the step finished. If not, `run` raises the error.

        Args:
            binding: addresses of inputs and outputs.
            keep: owner of this memory.

        Returns:
            None if the step takes too long.
        """
        instance = self._for_short_calls()
        return None if instance is None else instance.short_call(binding, (self, keep))

    def growing_call(
        self, lengths: Sequence[int], earlier: "GrowingCall | None" = None, room: Sequence[int] = ()
    ) -> "GrowingCall | None":
        """Returns what repeats the last execution of a step with changing lengths, if short.

        Args:
            lengths: the lengths of the inputs, see `OpenExecutable.input_lengths`.
            earlier: the call that it replaces, if there is one.
            room: bytes of memory for each output, if `GrowingCall.bind` is going to be called.
        """
        # How long a loop runs depends on data.
        if not python_table() or self.executable.loops or self._has_strings():
            return None
        instance = self._instances.take()
        try:
            return None if isinstance(instance, Instance) else instance.call(lengths, earlier, room)
        except (OutOfMemory, ResourceExhaustedTransient, ResourceExhaustedPersistent):
            return None
        finally:
            self._instances.give_back(instance)

    def repeating_function(self, lengths: Sequence[int]) -> "Repeat | None":
        """Returns a function that repeats executions on arrays of a step with changing lengths.

        It returns None if `run` or `run_arrays` must execute instead, also if it was cancelled, see
        `GrowingInstance.run_arrays`.

        Args:
            lengths: the lengths of the inputs, see `OpenExecutable.input_lengths`.

        Returns:
            None if the interpreter does not support it, or for strings.
        """
        if not python_table() or self._has_strings():
            return None
        take, give_back, cancellations = self._instances.take, self._instances.give_back, self._cancellations

        def run(arrays: Sequence[Array], cancellation: Cancellation | None) -> list[Array] | None:
            instance = take(None, cancellation)
            try:
                if isinstance(instance, Instance):
                    return None
                cancellations[instance] = cancellation = cancellation or instance.cancellation
                return instance.run_arrays(arrays, lengths, cancellation)
            finally:
                give_back(instance)

        return run

    def _has_strings(self) -> bool:
        ports = (*self.executable.inputs, *self.executable.outputs)
        return any(is_string(port.operand.type) for port in ports)

    def array_function(self, binding: ArgumentBinding, keep: object) -> ArrayFunction | None:
        """Returns a function that runs the step on arrays; see `StepCall.on_arrays`.

        Args:
            binding: addresses of the inputs and outputs that are not arrays.
            keep: owner of this memory.

        Returns:
            None if the interpreter does not support it.
        """
        if not python_table() or self.opened is not None:
            return None
        if self._origin is not None and self._shared_calls < _MAX_SHARED_CALLS:
            return _SharedCalls(self, binding, keep)
        instance = self._for_short_calls()
        if instance is not None:
            return instance.short_array_call(binding, (self, keep))
        return partial(self._run_on_arrays, binding, keep)

    def count_shared_call(self) -> bool:
        """Counts a call on arrays; returns whether a short step is still to share its memory."""
        self._shared_calls += 1
        return self._shared_calls < _MAX_SHARED_CALLS

    def run_on_arrays(
        self, binding: ArgumentBinding, arrays: Sequence[Array | None], sizes: StepSizes | None = None
    ) -> list[Array] | None:
        """Runs the step on arrays; see `array_function`.

        Args:
            binding: addresses of the inputs and outputs that are not arrays.
            arrays: the others.
            sizes: the sizes for which it runs, if not its own; see `resized`.
        """
        return self._run_on_given(binding, arrays, None, sizes)

    def short_array_function(self) -> ArrayFunction | None:
        """Returns a function that runs a short step on arrays; None for other steps."""
        instance = self._for_short_calls()
        if instance is None:
            return None
        executable = self.executable
        binding = ArgumentBinding(
            executable, [None] * len(executable.inputs), [None] * len(executable.outputs)
        )
        return instance.short_array_call(binding, (self,))

    def cancellable_function(
        self, binding: ArgumentBinding
    ) -> Callable[[Sequence[Array | None], Cancellation], list[Array] | None] | None:
        """Returns a function that runs the step on arrays until it is cancelled.

        It returns None if it refuses the arrays, or if the step does not finish.

        Args:
            binding: addresses of the inputs and outputs that are not arrays.

        Returns:
            None if the interpreter does not support it.
        """
        if not python_table() or self.opened is not None:
            return None

        def run(arrays: Sequence[Array | None], cancellation: Cancellation) -> list[Array] | None:
            return self._run_on_given(binding, arrays, cancellation)

        return run

    def _run_on_arrays(self, binding: ArgumentBinding, _: object, *arrays: Array) -> list[Array] | None:
        return self.run_on_arrays(binding, arrays)

    def _run_on_given(
        self,
        binding: ArgumentBinding,
        arrays: Sequence[Array | None],
        cancellation: Cancellation | None,
        sizes: StepSizes | None = None,
    ) -> list[Array] | None:
        # Other threads may replace the strings of an array, which the step still reads.
        given = [
            each.copy() if isinstance(each, np.ndarray) and each.dtype == object else each for each in arrays
        ]
        instance = self._instances.take(None, cancellation)
        try:
            instance = self._fitted(instance, sizes)
            self._cancellations[instance] = cancellation = cancellation or instance.cancellation
            if not isinstance(instance, Instance):
                return None
            return instance.run_arrays(binding, given, cancellation)
        finally:
            self._instances.give_back(instance)

    def _for_short_calls(self) -> Instance | None:
        """Returns an instance whose functions never release the GIL; None if a call takes too long.

        A thread that holds the GIL has this instance for itself.
        """
        if not self._is_measured:
            # Without memory for another instance no call is a short one.
            with suppress(OutOfMemory, ResourceExhaustedTransient, ResourceExhaustedPersistent):
                is_candidate = python_table() and self.opened is None
                if is_candidate and may_be_short(self.executable, self.team.threads):
                    instance = self._new_instance()
                    if isinstance(instance, Instance) and should_keep_gil(instance.time_ns):
                        self._short_instance = instance
            self._is_measured = True
        return self._short_instance

    def native_call(self, binding: ArgumentBinding, keep: object) -> NativeCall | None:
        """Returns what native code runs to serve clients; None if the step needs Python.

        Args:
            binding: addresses of inputs and outputs.
            keep: owner of this memory.
        """
        executable = self.executable
        if executable.loops or executable.strings or self._has_strings() or self.opened is not None:
            return None
        return self._served.call(binding, (self, keep), cost_ns=sum(executable.calls.costs_ns))

    def stop(self, deadline_s: float) -> None:
        """See `Stoppable.stop`. The model is left to the calling thread."""
        if not self._instances.close(deadline_s, self._cancel):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def _cancel(self) -> None:
        for cancellation in list(self._cancellations.values()):
            if cancellation is not None:
                cancellation.cancel()

    def profile(self) -> tuple[KernelTime, ...]:
        """Measures each kernel, in the order of `executable.calls`, on the arena's contents."""
        instance = self._instances.take()
        try:
            instance = self._fitted(instance)
            return instance.profile()
        finally:
            self._instances.give_back(instance)


class _SharedCalls:
    """A function that runs a step on arrays, see `NativeModel.array_function`.

    The first calls use memory that the step shares with others, and further ones that of short
    steps.
    """

    def __init__(self, native: NativeModel, binding: ArgumentBinding, keep: object) -> None:
        self._native = native
        self._bound = binding, keep
        given, _ = binding.arrays
        self._shapes = [port.dimensions for port in native.executable.inputs[:given]]
        self._function: ArrayFunction | None = None

    def __call__(self, *arrays: Array) -> list[Array] | None:
        function = self._function
        if function is not None:
            return function(*arrays)
        # The memory need not be made to fit the sizes of this step.
        if [getattr(array, "shape", None) for array in arrays] != self._shapes:
            return None
        if not self._native.count_shared_call():
            self._function = self._native.array_function(*self._bound)
        return self._native.run_on_arrays(self._bound[0], arrays)


def _aligned(contents: memoryview) -> memoryview:
    if buffer_address(contents) % ALIGNMENT == 0:
        return contents
    copy = HostMemory(aligned_zeros(contents.nbytes, ALIGNMENT)).view()
    copy[:] = contents
    return copy
