"""Instance of a step: the arena, scratch memory and call records of one execution at a time."""

import array
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import Final

from neurald.drivers.compiler.ir.string_references import is_string
from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.drivers.cpu.native.band_records import chosen, described_words, description
from neurald.drivers.cpu.native.call_division import division, piece_items
from neurald.drivers.cpu.native.llvm import LoadedCode
from neurald.drivers.cpu.native.python_call import Array, ArrayFunction, StepCall, StepPort, StepPorts, Words
from neurald.drivers.cpu.native.step_memory import StepMemory
from neurald.drivers.cpu.native.step_program import (
    BANDS_CALLER,
    MIN_SHARED_NS,
    PIECE_NS,
    STOPPED,
    TIMED_OUT,
    caller_name,
)
from neurald.drivers.cpu.native.strings import StringSources, first_reference
from neurald.drivers.cpu.native.thread_pool import Team, process
from neurald.drivers.cpu.target.executable import (
    RECORD_WORDS,
    STEP_WORDS,
    Executable,
    Instruction,
    Opcode,
)
from neurald.drivers.cpu.target.kernel_calls import KernelCall
from neurald.drivers.cpu.target.routine import ALIGNMENT, ARRAY_ALIGNMENT
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.device import DEFAULT_LOOP_TIMEOUT_S, KernelTime
from neurald.hal.errors import MissedDeadlineTransient, OpFailed
from neurald.hal.lazy_numpy import np
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import NEVER_CANCELLED, Cancellation
from neurald.hal.sync.deadline import nanoseconds

#: Minimum number of bands of a chunk, since threads repeat some work at the ends.
_MIN_CHUNK_BANDS: Final = 4
#: How a call of one part and chunk is shared, as a record has it.
_UNSHARED: Final = 1 | 1 << 32
#: Number of functions that take arrays, for different memory of variables, per instance.
_FUNCTION_CACHE_SIZE: Final = 4
#: Bytes that a copy moves per nanosecond, approximately, and the cost of any other record.
_COPIED_BYTES_PER_NS: Final = 16
#: Bytes of inputs and outputs that are copied per nanosecond, and how many such copies a step may
#: take that uses unaligned ones in place.
_PORT_BYTES_PER_NS: Final = 32
_MAX_COPIES: Final = 2
_RECORD_NS: Final = 10
#: Cost of a record that counts as longer than any limit.
_MAX_COST_NS: Final = 1 << 40
#: Indices of pool, cancellation, deadline, loop timeout and the first record in the words of a
#: step.
_POOL: Final = 5
_CANCELLATION: Final = 6
_DEADLINE: Final = 7
_LOOP_TIMEOUT: Final = 8
_FIRST: Final = 10
_LOOP_TIMEOUT_NS: Final = nanoseconds(DEFAULT_LOOP_TIMEOUT_S)
#: The type of the words of a step: signed, with 64 bits.
_WORD: Final = "q"
_WORD_BYTES: Final = 8
#: The type of the status of a call.
_STATUS: Final = "i"
_STATUS_BYTES: Final = 4


class LengthsRefused(Exception):
    """The code of a step is not valid for the lengths that it has found."""


class ArgumentBinding:
    """Memory for the inputs and outputs of an execution. Compared by identity.

    Args:
        executable: the step.
        inputs: address of each input, which has exactly its size; None if it is an array that is
            given with each call.
        outputs: address of each output; None likewise. It may be that of an input, too.

    Attributes:
        words: the binding for native code; see `python_call`.
        arrays: number of inputs and of outputs that are arrays; they are the first ones.
    """

    __slots__ = ("arrays", "words")

    def __init__(
        self, executable: Executable, inputs: Sequence[int | None], outputs: Sequence[int | None]
    ) -> None:
        self.arrays = inputs.count(None), outputs.count(None)
        ranges = [
            None if address is None else (address, address + port.size_bytes)
            for address, port in zip(
                (*inputs, *outputs), (*executable.inputs, *executable.outputs), strict=True
            )
        ]
        # An output that overlaps an input or another output is copied when the step has ended.
        places = [
            (address or 0, int(position >= len(inputs) and _overlaps(ranges, position)))
            for position, address in enumerate((*inputs, *outputs))
        ]
        self.words: Final[Words] = np.array(places, np.int64).reshape(-1)


def _overlaps(ranges: Sequence[tuple[int, int] | None], position: int) -> bool:
    """Returns True if a range of addresses overlaps another one."""
    own = ranges[position]
    others = (each for number, each in enumerate(ranges) if number != position)
    return own is not None and any(
        each is not None and each[0] < own[1] and own[0] < each[1] for each in others
    )


class Instance:
    """Memory and records of an executable.

    Args:
        executable: the step.
        code: its functions.
        constants: address of the constants buffer, which all instances share.
        team: the threads that run it.
        has_ports: False if inputs and outputs are always in the arena.

    Raises:
        OutOfMemory: there is no memory for another arena.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account has not enough
            memory left.
    """

    def __init__(
        self,
        executable: Executable,
        code: LoadedCode,
        constants: int,
        team: Team,
        *,
        has_ports: bool = True,
    ) -> None:
        self._executable = executable
        self._code = code
        calls = executable.calls
        self._stride = _aligned(executable.scratch_bytes)
        # Scratch memory, the deadlines of loops and the statuses of calls follow the values.
        scratch = _aligned(executable.arena_bytes)
        deadlines = scratch + self._stride * team.threads
        statuses = deadlines + _WORD_BYTES * executable.loops
        self._memory = memory = StepMemory(statuses + _STATUS_BYTES * len(calls))
        self._arena, self._scratch = memory.address, memory.address + scratch
        self._deadlines_address, self._statuses_address = (
            memory.address + deadlines,
            memory.address + statuses,
        )
        self._loop_deadlines = memory.words(deadlines, executable.loops, _WORD)
        self._statuses = memory.words(statuses, len(calls), _STATUS)
        self._team = team
        #: The sequences of kernels that run in bands, by their first kernel.
        self._banded = chosen(executable.banded, team.threads, calls.costs_ns)
        skipped = sum(each.calls - 1 for each in self._banded.values())
        self._count = len(executable.instructions or calls) - skipped
        self._forks = process.forks
        # Offset of the arguments, in words.
        self._table = STEP_WORDS + RECORD_WORDS * self._count
        #: The sources of strings.
        self.strings: Final = StringSources(executable.strings, len(executable.inputs))
        self._own, self._own_address = self._step(constants)
        self._has_ports = has_ports
        self._limits = NEVER_CANCELLED.address, 0, _LOOP_TIMEOUT_NS
        self._array_functions: dict[ArgumentBinding, ArrayFunction] = {}

    # What describes arrays of NumPy is created for the first run, so that a model is ready without
    # it.

    @cached_property
    def cancellation(self) -> Cancellation:
        """For `run_arrays`, if the caller has none."""
        return Cancellation()

    @cached_property
    def _program(self) -> tuple[Instruction, ...]:
        if self._executable.instructions:
            return self._executable.instructions
        return tuple([Instruction(Opcode.CALL, number) for number in self._firsts()])

    def _firsts(self) -> Iterator[int]:
        """Yields the number of the first kernel of each record of a step without instructions."""
        number, count = 0, len(self._executable.calls)
        while number < count:
            yield number
            number += self._banded[number].calls if number in self._banded else 1

    @cached_property
    def _ports(self) -> StepPorts:
        if not self._has_ports:
            return StepPorts()
        executable = self._executable
        outputs = [
            self._port(each, cells, is_used=True)
            for each, cells in zip(executable.outputs, executable.output_arguments, strict=True)
        ]
        return StepPorts(self.input_ports(executable.inputs), outputs)

    def _port(self, described: Port, cells: Sequence[int], *, is_used: bool) -> StepPort:
        arena, table = self._arena, self._own_address + _WORD_BYTES * self._table
        has_strings = is_string(described.operand.type)
        return StepPort(
            dtype=described.operand.type.dtype,
            shape=described.dimensions,
            size_bytes=described.size_bytes,
            own=arena + (described.offset or 0) if is_used and described.size_bytes else 0,
            # References of an output become strings when the step has ended.
            cells=() if has_strings else tuple(table + _WORD_BYTES * cell for cell in cells),
            source=self.strings.address if has_strings else 0,
            alignment=self._alignment,
        )

    @cached_property
    def _alignment(self) -> int:
        """The alignment of inputs and outputs that are used in place.

        Copying others to aligned memory pays only if the step reads or writes them more than once,
        with vectors that otherwise all cross cache lines.
        """
        if not TARGETS[self._executable.target].crosses_lines:
            return ARRAY_ALIGNMENT
        ports = (*self._executable.inputs, *self._executable.outputs)
        copied_ns = sum(port.size_bytes for port in ports) / _PORT_BYTES_PER_NS
        costs_ns = sum(self._executable.calls.costs_ns)
        return ARRAY_ALIGNMENT if costs_ns <= _MAX_COPIES * copied_ns else ALIGNMENT

    def input_ports(self, inputs: Sequence[Port]) -> list[StepPort]:
        """Returns the ports of inputs.

        Args:
            inputs: those of the executable, of which shapes and sizes may be others.
        """
        found = []
        for number, (described, cells) in enumerate(
            zip(inputs, self._executable.input_arguments, strict=True)
        ):
            port = self._port(described, cells, is_used=described.offset is not None and bool(cells))
            if port.source:
                source, first = self.strings.source(number), first_reference(number)
                port = replace(port, own=0, source=source, references=port.own, first=first)
            found.append(port)
        return found

    @cached_property
    def _call(self) -> StepCall:
        return self._new_call(releases_gil=True)

    @cached_property
    def _run(self) -> Callable[[Words], bool]:
        return self._call.with_binding()

    def _new_call(
        self,
        *,
        ports: StepPorts | None = None,
        binding: Words | None = None,
        releases_gil: bool,
        keep: object = None,
    ) -> StepCall:
        return StepCall(
            self._team.program.addresses,
            self._own_address,
            self._count,
            self._ports if ports is None else ports,
            binding=binding,
            releases_gil=releases_gil,
            keep=(self._own, self.strings, keep),
        )

    def _step(self, constants: int) -> tuple["array.array[int]", int]:
        """Builds step, records and arguments for native code, all in the instance's own memory.

        Returns:
            The memory and its address.
        """
        executable, team = self._executable, self._team
        calls, instructions = executable.calls, executable.instructions
        places = [place for each in instructions for place in each.locations]
        end = self._table + len(calls.bases) + len(places)
        step = array.array(_WORD, bytes(_WORD_BYTES * end))
        step.extend(executable.extents)
        bands = len(step)
        for banded in self._banded.values():
            step.extend([0] * described_words(banded))
        begin, _ = step.buffer_info()
        # By `Base`. All copies of the step refer to the extents in this one.
        bases = (self._arena, constants, begin + _WORD_BYTES * end, begin, self.strings.address)
        words = [
            begin + _WORD_BYTES * STEP_WORDS,
            self._count,
            self._scratch,
            self._stride,
            team.threads - 1,
            team.pool(),
            NEVER_CANCELLED.address,
            0,
            _LOOP_TIMEOUT_NS,
            self._deadlines_address if executable.loops else 0,
            0,
        ]
        arguments = begin + _WORD_BYTES * self._table
        records = self._call_records(arguments)
        if instructions:
            called = list(records)
            arguments += _WORD_BYTES * len(calls.bases)
            for each in instructions:
                is_call = each.opcode is Opcode.CALL
                words += called[each.number] if is_call else _control_record(each, arguments)
                arguments += _WORD_BYTES * len(each.locations)
        elif self._banded:
            words += chain.from_iterable(self._banded_records(list(records), step, begin, bands))
        else:
            words += chain.from_iterable(records)
        words += [
            bases[base] + offset for base, offset in zip(calls.bases, calls.argument_offsets(), strict=True)
        ]
        words += [bases[place.base] + place.offset for place in places]
        step[:end] = array.array(_WORD, words)
        return step, begin

    def _banded_records(
        self, records: Sequence[tuple[int, ...]], step: "array.array[int]", begin: int, at: int
    ) -> Iterator[tuple[int, ...]]:
        """Yields the records of a step with bands, and writes what describes these.

        Args:
            records: the record of each call.
            step: the memory of the step.
            begin: its address.
            at: where the records and descriptions of bands begin in it, in words.
        """
        threads, costs = self._team.threads, self._executable.calls.costs_ns
        program = self._team.program.addresses
        for number in self._firsts():
            banded = self._banded.get(number)
            if banded is None:
                yield records[number]
                continue
            own = records[number : number + banded.calls]
            described = at + RECORD_WORDS * banded.calls
            counts = self._executable.calls.counts[number : number + banded.calls]
            content = [*chain.from_iterable(own), begin + _WORD_BYTES * at, *description(banded, counts)]
            step[at : at + len(content)] = array.array(_WORD, content)
            cost = sum(costs[number : number + banded.calls])
            divided = division(banded.bands, cost, threads)
            few = max(1, banded.bands // divided.parts // _MIN_CHUNK_BANDS)
            divided = replace(divided, chunks=min(divided.chunks, few))
            yield (
                program[BANDS_CALLER],
                begin + _WORD_BYTES * described,
                0,
                own[0][3],
                banded.bands,
                divided.word if threads > 1 else _UNSHARED,
                piece_items(banded.bands, cost),
                _RECORD_NS + min(math.ceil(cost), _MAX_COST_NS),
            )
            at += len(content)

    def _record_offsets(self) -> Iterator[tuple[int, int]]:
        """Yields the number of each call that the program makes, and where its record is, in words."""
        at = self._table + len(self._executable.calls.bases)
        at += sum(len(each.locations) for each in self._executable.instructions)
        at += len(self._executable.extents)
        for position, instruction in enumerate(self._program):
            if instruction.opcode is not Opcode.CALL:
                continue
            banded = self._banded.get(instruction.number)
            if banded is None:
                yield instruction.number, STEP_WORDS + RECORD_WORDS * position
                continue
            for each in range(banded.calls):
                yield instruction.number + each, at + RECORD_WORDS * each
            at += described_words(banded)

    def _call_records(self, arguments: int) -> Iterator[tuple[int, ...]]:
        """Yields the record of each call, whose arguments follow each other from an address on."""
        calls, code, program = self._executable.calls, self._code.addresses, self._team.program.addresses
        names = {count: caller_name(count) for count in set(calls.counts)}
        callers = {count: program.get(name) or code[name] for count, name in names.items()}
        threads, items, costs = self._team.threads, calls.work_items, calls.costs_ns
        # Instructions may change the numbers of work items.
        are_fixed = not self._executable.instructions
        shares = (
            repeat(_UNSHARED)
            if threads < 2
            else [
                _UNSHARED if cost < MIN_SHARED_NS else division(each, cost, threads).word
                for each, cost in zip(items, costs, strict=True)
            ]
        )
        return zip(
            [callers[count] for count in calls.counts],
            [code[name] for name in calls.functions],
            accumulate([_WORD_BYTES * count for count in calls.counts], initial=arguments),
            itertools.count(self._statuses_address, _STATUS_BYTES),
            items,
            shares,
            [
                max(1, each) if are_fixed and cost <= PIECE_NS else piece_items(each, cost)
                for each, cost in zip(items, costs, strict=True)
            ],
            [_RECORD_NS + min(math.ceil(cost), _MAX_COST_NS) for cost in costs],
        )

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
        limits = cancellation, deadline_ns, loop_timeout_ns
        if limits != self._limits:
            self._limit(*limits)
        if self._run(binding.words):
            return None
        return self._failed(self._call.result)

    @property
    def executable(self) -> Executable:
        """The step."""
        return self._executable

    @property
    def arena(self) -> int:
        """The address of the arena."""
        return self._arena

    @property
    def extents(self) -> Words:
        """The words of the extents."""
        count = len(self._executable.extents)
        return np.frombuffer(self._own, np.int64)[len(self._own) - count :]

    @property
    def loop_deadlines(self) -> memoryview:
        """The time until which each loop may run."""
        return self._loop_deadlines

    def bind_argument(self, number: int, address: int) -> None:
        """Sets the address of an argument, numbered over all calls and then over all instructions."""
        self._own[self._table + number] = address

    def run_from(
        self, position: int, cancellation: int, deadline_ns: int, loop_timeout_ns: int
    ) -> tuple[int, int]:
        """Runs the step from an instruction on; see `run`.

        Returns:
            The position where it ended, see `neurald_run`, and what the call there reports, or 0.
        """
        if self._forks != process.forks:
            self._after_fork()
        self._limit(cancellation, deadline_ns, loop_timeout_ns)
        self._own[_FIRST] = position
        if self._run(self._no_words):
            return self._count, 0
        result = self._call.result
        if result >= self._count or self._program[result].opcode is not Opcode.CALL:
            return result, 0
        return result, self._statuses[self._program[result].number]

    @cached_property
    def _no_words(self) -> Words:
        """The binding of a step without ports."""
        return np.zeros(0, np.int64)

    def call_at(self, position: int) -> int:
        """Returns the number of the call at a position."""
        return self._program[position].number

    def stopped(self, result: int) -> KernelCall | Instruction:
        """Returns what the step was doing when it was stopped; see `run` for the errors it raises."""
        return self._failed(result)

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

    def run_arrays(
        self, binding: ArgumentBinding, arrays: Sequence[Array | None], cancellation: Cancellation
    ) -> list[Array] | None:
        """Runs the step on arrays, for which the binding has no address, until it is cancelled.

        Returns:
            The outputs; None if an array is not as the step needs it, or if the step did not
            finish.
        """
        if self._forks != process.forks:
            self._after_fork()
        limits = cancellation.address, 0, _LOOP_TIMEOUT_NS
        if limits != self._limits:
            self._limit(*limits)
        function = self._array_functions.get(binding)
        if function is None:
            if len(self._array_functions) >= _FUNCTION_CACHE_SIZE:
                self._array_functions.clear()
            call = self._new_call(binding=binding.words.copy(), releases_gil=True)
            function = self._array_functions[binding] = call.on_arrays(*binding.arrays)
        return function(*arrays)

    def short_call(self, binding: ArgumentBinding, keep: object) -> Callable[[], bool]:
        """Returns a function that runs the step and keeps the GIL; see `StepCall.bound`.

        No other function of the instance may release the GIL, so that all can use its memory.

        Args:
            binding: addresses of inputs and outputs.
            keep: lives as long as the function.
        """
        return self.short_step_call(None, binding.words, keep).bound()

    def short_array_call(self, binding: ArgumentBinding, keep: object) -> ArrayFunction:
        """Returns a function that runs the step on arrays and keeps the GIL; see `short_call`."""
        return self.short_step_call(None, binding.words.copy(), keep).on_arrays(*binding.arrays)

    def served_call(self) -> StepCall:
        """Returns a call for native code that serves clients, and has the instance for itself."""
        return self._new_call(releases_gil=False)

    def short_step_call(self, ports: StepPorts | None, binding: Words, keep: object) -> StepCall:
        """Returns a call that keeps the GIL; see `short_call`.

        Args:
            ports: None for those of the executable.
            binding: of the ports.
            keep: lives as long as the call's functions.
        """
        self._own[_POOL] = 0
        return self._new_call(ports=ports, binding=binding, releases_gil=False, keep=(self, keep))

    def _limit(self, cancellation: int, deadline_ns: int, loop_timeout_ns: int) -> None:
        """Sets the cancellation, deadline and loop timeout of the next runs."""
        self._limits = cancellation, deadline_ns, loop_timeout_ns
        self._own[_CANCELLATION : _LOOP_TIMEOUT + 1] = array.array(_WORD, self._limits)

    def _after_fork(self) -> None:
        """Replaces the pool; a forked child has its own."""
        self._forks = process.forks
        self._own[_POOL] = self._team.pool()

    def time_ns(self, runs: int) -> int:
        """Returns the shortest time of several runs with the current memory contents."""
        run, times = self.short_step_call(None, self._ports.unbound(), None).bound(), []
        for _ in range(runs):
            started = time.perf_counter_ns()
            run()
            times.append(time.perf_counter_ns() - started)
        return min(times)

    def profile(self) -> tuple[KernelTime, ...]:
        """Measures each kernel with the current memory contents."""
        step, times, unbound = self._own, [], self._ports.unbound()
        self._limit(NEVER_CANCELLED.address, 0, _LOOP_TIMEOUT_NS)
        first, step[1] = step[0], 1
        try:
            calls = tuple(self._executable.calls)
            for number, offset in self._record_offsets():
                call = calls[number]
                step[0] = self._own_address + _WORD_BYTES * offset
                started = time.perf_counter_ns()
                self._run(unbound)
                times.append(
                    KernelTime(
                        name=call.function,
                        duration_ns=time.perf_counter_ns() - started,
                        operations=call.operations,
                        label=call.label,
                    )
                )
        finally:
            step[0], step[1] = first, self._count
        return tuple(times)


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


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT
