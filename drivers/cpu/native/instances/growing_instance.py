"""Instance of a step whose lengths change while it runs.

There is memory for lengths up to a capacity. If a length exceeds it, the step stops at the call
that would set it. A new instance with at least twice the capacity continues there, with the values
that are alive. Later executions begin with the largest capacities so far.
"""

import ctypes
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from neurald.drivers.compiler.ir.string_references import is_string
from neurald.drivers.cpu.native.instances.growing_call import GrowingCall
from neurald.drivers.cpu.native.instances.instance import Instance, LengthsRefused
from neurald.drivers.cpu.native.instances.placed_outputs import PlacedOutputs, placed_outputs
from neurald.drivers.cpu.native.instances.strings import first_reference
from neurald.drivers.cpu.native.objects.llvm import LoadedCode
from neurald.drivers.cpu.native.programs.step_program import STOPPED, TIMED_OUT
from neurald.drivers.cpu.native.python_calls.python_call import Array
from neurald.drivers.cpu.native.thread_pool import Team
from neurald.drivers.cpu.target.executable import EXCEEDS_CAPACITY, REFUSED, Instruction
from neurald.drivers.cpu.target.kernel_calls import KernelCall
from neurald.drivers.cpu.target.open_executable import Grown, OpenExecutable
from neurald.drivers.cpu.target.routine import ALIGNMENT, ARRAY_ALIGNMENT
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.device import KernelTime
from neurald.hal.errors import OpFailed, OutOfMemory
from neurald.hal.lazy_numpy import np
from neurald.hal.model.types import MAX_OPERAND_BYTES
from neurald.hal.sync.cancellation import Cancellation

_LOG = logging.getLogger(__name__)

#: Length for which there is memory in the first execution, unless that is too much memory.
_FIRST_CAPACITY: Final = 32
_FIRST_BYTES: Final = 16 << 20
#: Memory that a value may have for larger lengths than it needs.
_UNUSED_BYTES: Final = 64 << 20
#: Maximum number of sets of lengths of which the shapes and sizes of outputs are kept.
_MAX_KNOWN_OUTPUTS: Final = 64
#: Minimum capacity of a short call, which else is twice the length of the last execution.
_SHORT_CAPACITY: Final = 8
#: Maximum size of the outputs that native code creates, which are created twice if their sizes have
#: changed. For larger ones this would take longer than all that it saves.
_MAX_REPEATED_BYTES: Final = 256 << 10


class GrowingBinding(Struct, frozen=True, kw_only=True, eq=False):
    """Memory for the inputs of an execution, and what receives its outputs.

    Attributes:
        inputs: address and size of each input.
        lengths: those of the inputs, for each symbol of the step; 0 for others.
        receive: gets the shape of each output once it is known, and returns the addresses of memory
            for them; None if the outputs are not wanted.
        is_apart: whether this memory never overlaps that of inputs or other outputs, so that it may
            be written while inputs are still read.
    """

    inputs: Sequence[tuple[int, int]]
    lengths: Sequence[int]
    receive: Callable[[Sequence[tuple[int, ...]]], Sequence[int] | None]
    is_apart: bool


class ArraysBinding:
    """A binding to arrays.

    Args:
        inputs: contiguous arrays.
        lengths: see `GrowingBinding`.
        dtypes: the data types of the outputs.

    Attributes:
        results: the outputs, after the execution.
    """

    def __init__(
        self, inputs: Sequence[Array], lengths: Sequence[int], dtypes: Sequence["np.dtype[Any]"]
    ) -> None:
        self._inputs, self._lengths, self._dtypes = inputs, lengths, dtypes
        self.results: list[Array] = []

    def binding(self) -> GrowingBinding:
        """Returns the binding.

        It refers to this object, which would form a cycle with it if it kept the binding: each
        execution would leave its results in memory until cycles are collected.
        """
        return GrowingBinding(
            inputs=[(each.ctypes.data, each.nbytes) for each in self._inputs],
            lengths=self._lengths,
            receive=self._receive,
            is_apart=True,
        )

    def _receive(self, shapes: Sequence[tuple[int, ...]]) -> Sequence[int]:
        self.results += [np.empty(shape, dtype) for dtype, shape in zip(self._dtypes, shapes, strict=True)]
        return [each.ctypes.data for each in self.results]


class GrowingInstance:
    """Memory and records of a step; see this module and `Instance`.

    Args:
        opened: the step.
        code, constants, team: see `Instance`.
    """

    def __init__(self, opened: OpenExecutable, code: LoadedCode, constants: int, team: Team) -> None:
        self._opened = opened
        self._symbols = len(opened.program.bounds)
        self._memory = code, constants, team
        self._capacities = [_FIRST_CAPACITY] * self._symbols
        self._sizings = frozenset(opened.sizings)
        self._placed = placed_outputs(opened)
        self._grown: Grown = opened.grown(self._capacities)
        while self._grown.executable.arena_bytes > _FIRST_BYTES and max(self._capacities) > 1:
            self._capacities = [capacity // 2 for capacity in self._capacities]
            self._grown = opened.grown(self._capacities)
        self._instance: Instance = self._make(self._grown)
        #: Repeats executions on arrays in the memory of the instance; None before the first and if
        #: there is another instance. It is prepared unless others have used the memory.
        self._repeated: GrowingCall | None = None
        self._is_prepared = False
        #: Whether the lengths are those of an execution, not where one has stopped.
        self._is_finished = False
        #: Shapes and sizes in bytes of the outputs, by the lengths.
        self._known_outputs: dict[tuple[int, ...], tuple[list[tuple[int, ...]], list[int]]] = {}
        #: Stops runs that the caller cannot cancel.
        self.cancellation: Final = Cancellation()

    def run(
        self, binding: GrowingBinding, cancellation: int, deadline_ns: int, loop_timeout_ns: int
    ) -> KernelCall | Instruction | None:
        """Runs the step; see `Instance.run`.

        Raises:
            LengthsRefused: the code is not valid for a length, or there is no memory for the
                values; the outputs are undefined.
        """
        limits = cancellation, deadline_ns, loop_timeout_ns
        if any(length > known for length, known in zip(binding.lengths, self._capacities, strict=True)):
            self._enlarge(binding.lengths)
        self._is_prepared = self._is_finished = False
        self._instance.extents[: self._symbols] = binding.lengths
        self._set_capacities()
        self._bind(binding)
        position, count = 0, len(self._opened.template.instructions)
        placed = self._placed if binding.is_apart else None
        end = count if placed is None else placed.position
        targets: Sequence[int] | None = None
        while True:
            instance = self._instance
            position, reported = instance.run_between(position, end, *limits)
            if position == count:
                break
            if position == end:
                targets, end = binding.receive(self._outputs()[0]), count
                self._place(targets)
                continue
            if position & (STOPPED | TIMED_OUT):
                return instance.stopped(position)
            call = instance.call_at(position)
            if call not in self._sizings:
                message = self._opened.template.calls[call].messages[reported - 1]
                raise OpFailed(self._opened.message(message, self._lengths()))
            if reported != EXCEEDS_CAPACITY:
                reasons = self._opened.template.calls[call].messages
                _LOG.info("an execution runs on references: %s", reasons[reported - REFUSED])
                raise LengthsRefused
            self._grow(position)
            self._bind(binding, copies=False)
        if placed is None:
            targets = binding.receive(self._outputs()[0])
        if targets is not None:
            self._copy_outputs(targets, placed)
        self._is_finished = True
        return None

    def run_arrays(
        self, arrays: Sequence[Array], lengths: Sequence[int], cancellation: Cancellation
    ) -> list[Array] | None:
        """Runs the step on arrays, into new ones.

        Args:
            arrays: the inputs, which are not strings.
            lengths: see `GrowingBinding`.
            cancellation: stops it.

        Returns:
            None if `run` must do that: it has not finished before, an array is not a contiguous one
                of the input's type and shape, lengths exceed the capacities, outputs are large, or
                it was cancelled.

        Raises:
            OpFailed, MissedDeadlineTransient: see `Instance.run`.
        """
        call = self._repeated
        if call is None or call.expected_bytes > _MAX_REPEATED_BYTES:
            # Outputs that can be placed are written where they are wanted.
            if (
                self._placed is not None
                or not self._is_finished
                or sum(self._outputs()[1]) > _MAX_REPEATED_BYTES
            ):
                return None
            call = GrowingCall(self._opened, self._instance, self._capacities, lengths, self._lengths())
            call.bind_arrays_in_shared_memory()
            self._repeated, self._is_prepared = call, False
        if not self._is_prepared or call.lengths != lengths:
            if any(length > known for length, known in zip(lengths, self._capacities, strict=True)):
                return None
            call.prepare_inputs(lengths)
            self._is_prepared = True
        instance = self._instance
        instance.prepare(cancellation)
        results = call.run_arrays(*arrays)
        self._is_finished = results is not None
        if results is None:
            result, count = call.take_result(), len(self._opened.template.instructions)
            if result & TIMED_OUT or (result < count and instance.call_at(result) not in self._sizings):
                instance.stopped(result)
        return results

    def _place(self, targets: Sequence[int] | None) -> None:
        """Lets the step write outputs to these addresses, or into the arena."""
        instance, outputs = self._instance, self._grown.executable.outputs
        assert self._placed is not None  # noqa: S101 - the caller has looked
        for number, arguments in enumerate(self._placed.arguments):
            own = instance.arena + (outputs[number].offset or 0)
            for argument in arguments:
                instance.bind_argument(argument, own if targets is None else targets[number])

    def _copy_outputs(self, targets: Sequence[int], placed: PlacedOutputs | None) -> None:
        """Copies the outputs that the step has not written elsewhere."""
        _, sizes = self._outputs()
        for number, (target, port) in enumerate(zip(targets, self._grown.executable.outputs, strict=True)):
            if placed is None or not placed.arguments[number]:
                ctypes.memmove(target, self._instance.arena + (port.offset or 0), sizes[number])

    def call(
        self, lengths: Sequence[int], earlier: GrowingCall | None = None, room: Sequence[int] = ()
    ) -> GrowingCall:
        """Returns a call with memory of its own for executions like the last one.

        Args:
            lengths: the lengths of the inputs.
            earlier: the call that it replaces, whose lengths fit as well: several lengths that vary
                are rarely all long at once.
            room: bytes of memory for each output, which the call may write in place; none if there
                is no such memory.
        """
        last = self._lengths()
        before = [0] * self._symbols if earlier is None else earlier.capacities
        capacities = [
            min(capacity, max(_SHORT_CAPACITY, 2 * length, *others))
            for capacity, length, *others in zip(self._capacities, last, lengths, before, strict=True)
        ]
        placed = self._fit(capacities, last, room) if room and self._placed is not None else ()
        instance = self._make(self._opened.grown(capacities))
        return GrowingCall(self._opened, instance, capacities, lengths, last, placed)

    def _fit(
        self, capacities: list[int], last: Sequence[int], room: Sequence[int]
    ) -> Sequence[Sequence[int]]:
        """Lowers capacities so that outputs which the caller can place fit into its memory.

        Returns:
            The arguments that are each output, see `PlacedOutputs`; none of those that do not fit.
        """
        assert self._placed is not None  # noqa: S101 - the caller has looked
        arguments, ports = self._placed.arguments, self._opened.outputs
        places = [number for number, each in enumerate(arguments) if each]

        def too_large(lengths: Sequence[int]) -> list[int]:
            numbers = self._opened.program.largest(lengths)
            if numbers is None:
                return places
            sizes = {
                number: self._opened.values[ports[number].value].size_bytes(numbers) for number in places
            }
            return [number for number, size_bytes in sizes.items() if size_bytes > room[number]]

        exact = [max(1, each) for each in last]
        if too_large(exact):
            return ()
        for symbol, length in enumerate(exact):
            if not too_large(capacities):
                break
            capacities[symbol] = length
        return arguments

    def _make(self, grown: Grown) -> Instance:
        return Instance(grown.executable, *self._memory, has_ports=False)

    def _lengths(self) -> list[int]:
        found: list[int] = self._instance.extents[: self._symbols].tolist()
        return found

    def _outputs(self) -> tuple[list[tuple[int, ...]], list[int]]:
        """Returns the shapes and sizes in bytes of the outputs for the current lengths."""
        lengths = tuple(self._lengths())
        found = self._known_outputs.get(lengths)
        if found is None:
            if len(self._known_outputs) >= _MAX_KNOWN_OUTPUTS:
                self._known_outputs.clear()
            found = self._opened.output_shapes(lengths), self._opened.output_sizes(lengths)
            self._known_outputs[lengths] = found
        return found

    def _set_capacities(self) -> None:
        self._instance.extents[2 * self._symbols : 3 * self._symbols] = self._capacities

    def _bind(self, binding: GrowingBinding, *, copies: bool = True) -> None:
        """Lets the step read inputs where they are, if they are aligned; others are copied.

        Strings stay where they are; the step reads references to them.
        """
        instance, executable = self._instance, self._grown.executable
        alignment = ALIGNMENT if TARGETS[executable.target].crosses_lines else ARRAY_ALIGNMENT
        for number, (port, arguments, (address, size)) in enumerate(
            zip(executable.inputs, executable.input_arguments, binding.inputs, strict=True)
        ):
            if is_string(port.operand.type):
                count = size // ctypes.sizeof(ctypes.c_void_p)
                instance.strings.set_source(number, count, address)
                if port.offset is None:
                    continue
                first, start = first_reference(number), instance.arena + port.offset
                references = np.arange(first, first + count)
                # Others are among the values that are alive.
                if copies:
                    ctypes.memmove(start, references.ctypes.data, references.nbytes)
                for argument in arguments:
                    instance.bind_argument(argument, start)
                continue
            if address % alignment:
                if copies and port.offset is not None:
                    ctypes.memmove(instance.arena + port.offset, address, size)
                if port.offset is None:
                    continue
                address = instance.arena + port.offset
            for argument in arguments:
                instance.bind_argument(argument, address)

    def _grow(self, position: int) -> None:
        """Replaces the instance by a larger one, in which the step continues at a position."""
        before, old = self._instance, self._grown
        words = before.extents.copy()
        self._enlarge(words[self._symbols : 2 * self._symbols].tolist())
        after = self._instance
        after.extents[:] = words
        after.loop_deadlines[:] = before.loop_deadlines
        for value, (offset, size), (new, new_size) in zip(
            self._opened.values, old.places, self._grown.places, strict=True
        ):
            # Positions of values are counted from 1; inputs are alive at 0.
            if value.first <= position + 1 <= value.last:
                ctypes.memmove(after.arena + new, before.arena + offset, min(size, new_size))
        self._set_capacities()

    def _enlarge(self, lengths: Sequence[int]) -> None:
        """Replaces the instance by one with memory for these lengths, and twice what there was.

        Raises:
            LengthsRefused: an operand would be too large, or there is no memory for the values,
                which references say.
        """
        needed = self._opened.largest_value(lengths)
        if needed > MAX_OPERAND_BYTES:
            _LOG.info("an execution runs on references: values of lengths %s are too large", list(lengths))
            raise LengthsRefused
        capacities = [
            max(length, 2 * capacity) if length > capacity else capacity
            for length, capacity in zip(lengths, self._capacities, strict=True)
        ]
        if self._opened.largest_value(capacities) > max(_UNUSED_BYTES, 2 * needed):
            # Several lengths that vary are rarely all long at once.
            capacities = [max(1, length) for length in lengths]
        try:
            grown = self._opened.grown(capacities)
            self._instance = self._make(grown)
        except OutOfMemory as error:
            # Lengths that an operation refuses later may ask for any memory.
            _LOG.info("an execution runs on references: %s", error)
            raise LengthsRefused from None
        self._grown, self._capacities, self._repeated = grown, capacities, None

    def profile(self) -> tuple[KernelTime, ...]:
        """Returns nothing: kernels have no sizes before the step runs."""
        return ()
