"""Instance of a step: the arena, scratch memory and call records of one execution at a time."""

import ctypes
import math
import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from neurald.drivers.compiler.memory.buffer_assignment import Base, Port
from neurald.drivers.cpu.native.llvm import LoadedCode
from neurald.drivers.cpu.native.python_call import Array, ArrayFunction, ArrayPort, StepCall, Words
from neurald.drivers.cpu.native.step_program import RECORD_WORDS, STOPPED, TIMED_OUT, caller_name
from neurald.drivers.cpu.native.thread_pool import Team, process
from neurald.drivers.cpu.target.executable import Executable, Instruction, KernelCall, Opcode
from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.hal.accounting.account import reserve
from neurald.hal.device import DEFAULT_LOOP_TIMEOUT_S, KernelTime
from neurald.hal.errors import MissedDeadlineTransient, OpFailed, OutOfMemory
from neurald.hal.memory.pool import anonymous
from neurald.hal.sync.cancellation import NEVER_CANCELLED, Cancellation
from neurald.hal.sync.deadline import nanoseconds

#: Minimum cost of a shared call; sharing costs about a tenth of it.
_MIN_SHARED_NS: Final = 5_000.0
#: Target time of a chunk if there are more chunks than threads, which limits the effect of a
#: delayed one.
_CHUNK_NS: Final = 100_000.0
_MAX_CHUNKS_PER_THREAD: Final = 4
#: Target time of a piece of an unshared call, which checks for cancellation between pieces.
_PIECE_NS: Final = 2_000_000.0
#: Maximum number of chunks or pieces.
_MAX_PARTS: Final = 1 << 20
#: Number of bindings with a cached step per instance.
_STEP_CACHE_SIZE: Final = 4
_WORD_BYTES: Final = 8
#: Bytes that a copy moves per nanosecond, approximately, and the cost of any other record.
_COPIED_BYTES_PER_NS: Final = 16
_RECORD_NS: Final = 10
#: Cost of a record that counts as longer than any limit.
_MAX_COST_NS: Final = 1 << 40
#: Number of words of a step before its records; the indices of pool, cancellation, deadline and
#: loop timeout in it; and the index of the arguments in a record.
_STEP_WORDS: Final = 10
_POOL: Final = 5
_CANCELLATION: Final = 6
_DEADLINE: Final = 7
_LOOP_TIMEOUT: Final = 8
_ARGUMENTS: Final = 2

_Cached = TypeVar("_Cached")


class ArgumentBinding:
    """Addresses of the inputs and outputs of an execution. Compared by identity.

    Args:
        inputs: address of each input, which has exactly its size; None if it is an array that is
            given with each call.
        outputs: address of each output; None likewise. It may be that of an input, too.
    """

    __slots__ = ("inputs", "outputs")

    def __init__(self, inputs: Sequence[int | None], outputs: Sequence[int | None]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)


class Instance:
    """Memory and records of an executable.

    Args:
        executable: the step.
        code: its functions.
        constants: address of the constants buffer, which all instances share.
        team: the threads that run it.

    Raises:
        OutOfMemory: there is no memory for another arena.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account has not enough
            memory left.
    """

    def __init__(self, executable: Executable, code: LoadedCode, constants: int, team: Team) -> None:
        self._executable = executable
        self._code = code
        self._arena = _Block(executable.arena_bytes)
        self._stride = _aligned(executable.scratch_bytes)
        self._scratch = _Block(self._stride * team.threads)
        calls = executable.calls
        self._statuses = (ctypes.c_int32 * max(1, len(calls)))()
        self._program = executable.instructions or tuple(
            Instruction(Opcode.CALL, number) for number in range(len(calls))
        )
        self._loop_deadlines = (ctypes.c_int64 * max(1, executable.loops))()
        self._count = len(self._program)
        self._team = team
        self._forks = process.forks
        self._run = team.run
        # Offset of the arguments, in words.
        self._table = _STEP_WORDS + RECORD_WORDS * self._count
        self._own = self._step(constants)
        self._own_address: int = self._own.ctypes.data
        self._steps: dict[ArgumentBinding, _BoundStep] = {}
        self._array_functions: dict[ArgumentBinding, ArrayFunction] = {}
        #: Stops `run_arrays`.
        self.cancellation: Final = Cancellation()
        arena = self._arena.address
        self._inputs = tuple(
            (number, port.size_bytes, arena + port.offset, cells)
            for number, (port, cells) in enumerate(
                zip(executable.inputs, executable.input_arguments, strict=True)
            )
            if port.offset is not None and port.size_bytes and cells
        )
        self._outputs = tuple(
            (number, port.size_bytes, arena + (port.offset or 0), cells)
            for number, (port, cells) in enumerate(
                zip(executable.outputs, executable.output_arguments, strict=True)
            )
            if port.size_bytes
        )

    def _step(self, constants: int) -> Words:
        """Builds step, records and arguments for native code, all in the instance's own memory."""
        calls, team = self._executable.calls, self._team
        owners: list[KernelCall | Instruction] = [*calls, *self._executable.instructions]
        end = self._table + sum(len(owner.locations) for owner in owners)
        step = np.zeros(end + len(self._executable.extents), np.int64)
        step[end:] = self._executable.extents
        begin = step.ctypes.data
        bases = {
            Base.ARENA: self._arena.address,
            Base.CONSTANTS: constants,
            # All copies of the step refer to the extents in this one.
            Base.EXTENTS: begin + step.itemsize * end,
        }
        step[self._table : end] = [
            bases[location.base] + location.offset for owner in owners for location in owner.locations
        ]
        # The address of the arguments of each call, and then of each instruction.
        arguments, argument = [], begin + step.itemsize * self._table
        for owner in owners:
            arguments.append(argument)
            argument += step.itemsize * len(owner.locations)
        records = step[_STEP_WORDS : self._table].reshape(-1, RECORD_WORDS)
        for position, (record, instruction) in enumerate(zip(records, self._program, strict=True)):
            if instruction.opcode is Opcode.CALL:
                record[:] = self._call_record(instruction.number, arguments[instruction.number])
            else:
                record[:] = _control_record(instruction, arguments[len(calls) + position])
        step[:_STEP_WORDS] = (
            begin + step.itemsize * _STEP_WORDS,
            self._count,
            self._scratch.address,
            self._stride,
            team.threads - 1,
            team.pool(),
            NEVER_CANCELLED.address,
            0,
            nanoseconds(DEFAULT_LOOP_TIMEOUT_S),
            ctypes.addressof(self._loop_deadlines) if self._executable.loops else 0,
        )
        return step

    def _call_record(self, number: int, arguments: int) -> tuple[int, ...]:
        call, address = self._executable.calls[number], self._code.addresses
        return (
            address[caller_name(len(call.locations))],
            address[call.function],
            arguments,
            ctypes.addressof(self._statuses) + number * ctypes.sizeof(ctypes.c_int32),
            call.work_items,
            chunks(call, self._team.threads),
            pieces(call),
            _RECORD_NS + min(math.ceil(call.cost_ns), _MAX_COST_NS),
        )

    def _copy(self) -> tuple[Words, int]:
        """Copies the instance's step; returns it with its address."""
        step = self._own.copy()
        address: int = step.ctypes.data
        moved = address - self._own_address
        step[0] += moved
        step[_STEP_WORDS + _ARGUMENTS : self._table : RECORD_WORDS] += moved
        return step, address

    def run(
        self, binding: ArgumentBinding, cancellation: int, deadline_ns: int, loop_timeout_ns: int
    ) -> KernelCall | Instruction | None:
        """Runs the step.

        Args:
            binding: addresses of inputs and outputs.
            cancellation: address of a `Cancellation`.
            deadline_ns: on the clock of `time.monotonic()`; 0 for none.
            loop_timeout_ns: how long each loop may run.

        Returns:
            The call or instruction that was running or about to run when the step was stopped; None
            if the step finished.

        Raises:
            OpFailed: a requirement of an operation does not hold; the outputs are undefined.
            MissedDeadlineTransient: a loop ran longer than its timeout; likewise.
        """
        if self._forks != process.forks:
            self._after_fork()
        bound = self._steps.get(binding) or self._cached(binding)
        if bound.cancellation != cancellation or bound.deadline_ns != deadline_ns:
            bound.limit(cancellation, deadline_ns)
        bound.step[_LOOP_TIMEOUT] = loop_timeout_ns
        if bound.run():
            return None
        return self._failed(bound.call.result)

    def _failed(self, result: int) -> KernelCall | Instruction:
        """Returns what a step was doing when it was stopped; see `run` for the errors it raises."""
        if result & TIMED_OUT:
            raise MissedDeadlineTransient("WHILE ran longer than its loop timeout")
        instruction = self._program[result & ~STOPPED]
        if result & STOPPED:
            is_call = instruction.opcode is Opcode.CALL
            return self._executable.calls[instruction.number] if is_call else instruction
        call = self._executable.calls[instruction.number]
        raise OpFailed(call.messages[self._statuses[instruction.number] - 1])

    def run_arrays(self, binding: ArgumentBinding, arrays: Sequence[Array]) -> list[Array] | None:
        """Runs the step on arrays, for which the binding has no address.

        It stops if the instance's own cancellation is cancelled.

        Returns:
            The outputs; None if an array is not as the step needs it, or if the step did not finish.
        """
        if self._forks != process.forks:
            self._after_fork()
        function = self._array_functions.get(binding)
        if function is None:
            bound = self._bound(binding, releases_gil=True, keep=None)
            bound.limit(self.cancellation.address, 0)
            function = bound.call.on_arrays(*self._ports(bound, binding))
            if function is None:
                return None
            _put(self._array_functions, binding, function)
        return function(*arrays)

    def short_call(self, binding: ArgumentBinding, keep: object) -> Callable[[], bool]:
        """Returns a function that runs the step and keeps the GIL; see `StepCall.run`.

        No other function of the instance may release the GIL, so that all can use its memory.

        Args:
            binding: addresses of inputs and outputs.
            keep: lives as long as the function.
        """
        return self._short(binding, keep).run

    def short_array_call(self, binding: ArgumentBinding, keep: object) -> ArrayFunction | None:
        """Returns a function that runs the step on arrays and keeps the GIL; see `short_call`."""
        bound = self._short(binding, keep)
        return bound.call.on_arrays(*self._ports(bound, binding))

    def _short(self, binding: ArgumentBinding, keep: object) -> "_BoundStep":
        bound = self._bound(binding, releases_gil=False, keep=(self, keep))
        bound.step[_POOL] = 0
        return bound

    def _after_fork(self) -> None:
        """Replaces the pool; a forked child has its own."""
        self._forks = process.forks
        self._own[_POOL] = self._team.pool()
        self._steps.clear()
        self._array_functions.clear()

    def _cached(self, binding: ArgumentBinding) -> "_BoundStep":
        """Prepares and caches a step for these addresses."""
        bound = self._bound(binding, releases_gil=True, keep=None)
        _put(self._steps, binding, bound)
        return bound

    def _bound(self, binding: ArgumentBinding, *, releases_gil: bool, keep: object) -> "_BoundStep":
        """Prepares a step for these addresses; see `StepCall` for `releases_gil` and `keep`."""
        step, start = self._copy()
        # Arguments that are parts of an input or output keep their offset in it.
        table = step[self._table :]
        copied_in, copied_out = [], []
        for number, size, own, cells in self._inputs:
            address = binding.inputs[number]
            if address is None:
                continue
            if address % ALIGNMENT:
                copied_in.append((own, address, size))
                address = own
            for cell in cells:
                table[cell] += address - own
        for number, size, own, cells in self._outputs:
            address = binding.outputs[number]
            if address is None:
                continue
            if not cells or address % ALIGNMENT or self._is_used(number, binding):
                copied_out.append((address, own, size))
                address = own
            for cell in cells:
                table[cell] += address - own
        call = StepCall(
            self._team.program,
            start,
            self._count,
            copied_in=copied_in,
            copied_out=copied_out,
            releases_gil=releases_gil,
            keep=(step, keep),
        )
        return _BoundStep(step=step, call=call, run=call.run)

    def _ports(
        self, bound: "_BoundStep", binding: ArgumentBinding
    ) -> tuple[list[ArrayPort], list[ArrayPort]]:
        """Returns the inputs and the outputs for which a binding has no address."""
        table = bound.step.ctypes.data + bound.step.itemsize * self._table
        executable = self._executable
        return (
            _array_ports(executable.inputs, self._inputs, binding.inputs, table),
            _array_ports(executable.outputs, self._outputs, binding.outputs, table),
        )

    def _is_used(self, output: int, binding: ArgumentBinding) -> bool:
        """Returns True if an output overlaps an input or another output."""
        inputs, outputs = binding.inputs, binding.outputs
        begin = outputs[output] or 0
        end = begin + self._executable.outputs[output].size_bytes
        used = [(inputs[number], size) for number, size, _, _ in self._inputs]
        used += [(outputs[number], size) for number, size, _, _ in self._outputs if number != output]
        return any(other is not None and other < end and begin < other + size for other, size in used)

    def time_ns(self, runs: int) -> int:
        """Returns the shortest time of several runs with the current memory contents."""
        run, times = self._short(_unbound(self._executable), None).run, []
        for _ in range(runs):
            started = time.perf_counter_ns()
            run()
            times.append(time.perf_counter_ns() - started)
        return min(times)

    def profile(self) -> tuple[KernelTime, ...]:
        """Measures each kernel with the current memory contents."""
        times = []
        step, address = self._copy()
        step[1] = 1
        first = step[0]
        for position, instruction in enumerate(self._program):
            if instruction.opcode is not Opcode.CALL:
                continue
            call = self._executable.calls[instruction.number]
            step[0] = first + step.itemsize * RECORD_WORDS * position
            started = time.perf_counter_ns()
            self._run(address)
            times.append(
                KernelTime(
                    name=call.function,
                    duration_ns=time.perf_counter_ns() - started,
                    operations=call.operations,
                    label=call.label,
                )
            )
        return tuple(times)


@dataclass(slots=True, kw_only=True, eq=False)
class _BoundStep:
    """A step prepared for a binding.

    Attributes:
        step: the step, with the addresses of the binding or of the arena.
        call: copies unaligned inputs to the arena, runs the step, and copies outputs that cannot be
            written in place.
        run: its function.
        cancellation, deadline_ns: the limits that are currently set in the step.
    """

    step: Words
    call: StepCall
    run: Callable[[], bool]
    cancellation: int = NEVER_CANCELLED.address
    deadline_ns: int = 0

    def limit(self, cancellation: int, deadline_ns: int) -> None:
        """Sets the cancellation and deadline of the next run."""
        self.step[_CANCELLATION], self.step[_DEADLINE] = cancellation, deadline_ns
        self.cancellation, self.deadline_ns = cancellation, deadline_ns


def _unbound(executable: Executable) -> ArgumentBinding:
    return ArgumentBinding([None] * len(executable.inputs), [None] * len(executable.outputs))


def _array_ports(
    ports: Sequence[Port],
    used: Sequence[tuple[int, int, int, tuple[int, ...]]],
    addresses: Sequence[int | None],
    table: int,
) -> list[ArrayPort]:
    """Returns those of the ports that have no address; `table` is the address of the arguments."""
    places = {number: (own, cells) for number, _, own, cells in used}
    found = []
    for number, (port, address) in enumerate(zip(ports, addresses, strict=True)):
        if address is None:
            own, cells = places.get(number, (0, ()))
            operand = port.operand
            found.append(
                ArrayPort(
                    dtype=operand.type.dtype,
                    shape=port.dimensions,
                    size_bytes=port.size_bytes,
                    own=own,
                    cells=tuple(table + _WORD_BYTES * cell for cell in cells),
                )
            )
    return found


def _put(cache: dict[ArgumentBinding, _Cached], binding: ArgumentBinding, value: _Cached) -> None:
    if len(cache) >= _STEP_CACHE_SIZE:
        cache.clear()
    cache[binding] = value


def _control_record(instruction: Instruction, arguments: int) -> tuple[int, ...]:
    cost_ns = _RECORD_NS
    if instruction.opcode is Opcode.COPY:
        cost_ns += instruction.number // _COPIED_BYTES_PER_NS
    return (
        0,
        int(instruction.opcode),
        arguments,
        0,
        instruction.number,
        instruction.target,
        0,
        min(cost_ns, _MAX_COST_NS),
    )


def chunks(call: KernelCall, threads: int) -> int:
    """Returns the number of chunks of a call for this many threads; 1 if it is not shared."""
    if threads < 2 or call.cost_ns < _MIN_SHARED_NS:
        return 1
    wanted = min(_MAX_CHUNKS_PER_THREAD * threads, int(call.cost_ns / _CHUNK_NS))
    # The first of many chunks is twice the average.
    least = 2 * math.ceil(call.cost_ns / _PIECE_NS)
    return max(1, min(call.work_items, max(threads, wanted, least), _MAX_PARTS))


def pieces(call: KernelCall) -> int:
    """Returns the number of pieces of an unshared call."""
    return max(1, min(call.work_items, math.ceil(call.cost_ns / _PIECE_NS), _MAX_PARTS))


class _Block:
    """Zeroed, page-aligned memory."""

    def __init__(self, size_bytes: int) -> None:
        self._reservation = reserve(size_bytes, "values of a compiled step")
        try:
            self._memory = anonymous(max(mmap.PAGESIZE, size_bytes))
        except OSError as error:
            raise OutOfMemory(f"cannot map {size_bytes} bytes for values: {error}") from None
        self._view = (ctypes.c_char * len(self._memory)).from_buffer(self._memory)
        self.address = ctypes.addressof(self._view)


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT
