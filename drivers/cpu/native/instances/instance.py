"""Instance of a step: the arena, scratch memory and call records of one execution at a time."""

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

from neurald.drivers.compiler.ir.string_references import is_string
from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.instances.room import Room
from neurald.drivers.cpu.native.instances.step_memory import StepMemory
from neurald.drivers.cpu.native.instances.strings import StringSources, first_reference
from neurald.drivers.cpu.native.objects.llvm import LoadedCode
from neurald.drivers.cpu.native.programs.step_program import STOPPED, TIMED_OUT
from neurald.drivers.cpu.native.python_calls.python_call import (
    Array,
    ArrayFunction,
    StepCall,
    StepPort,
    StepPorts,
    Words,
)
from neurald.drivers.cpu.native.records.step_records import (
    LOOP_TIMEOUT_NS,
    STATUS,
    STATUS_BYTES,
    WORD,
    WORD_BYTES,
    StepPlaces,
    StepRecords,
)
from neurald.drivers.cpu.native.thread_pool import Team, process
from neurald.drivers.cpu.target.executable import Executable, Instruction, Opcode
from neurald.drivers.cpu.target.kernel_calls import KernelCall
from neurald.drivers.cpu.target.routine import ALIGNMENT, ARRAY_ALIGNMENT
from neurald.drivers.cpu.target.step_sizes import StepSizes
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.device import KernelTime
from neurald.hal.device.execution import loop_timed_out
from neurald.hal.errors import OpFailed
from neurald.hal.lazy_numpy import np
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import NEVER_CANCELLED, Cancellation

#: Number of functions that take arrays, for different memory of variables, per instance.
_FUNCTION_CACHE_SIZE: Final = 4
#: Bytes of inputs and outputs that are copied per nanosecond, and how many such copies a step may
#: take that uses unaligned ones in place.
_PORT_BYTES_PER_NS: Final = 32
_MAX_COPIES: Final = 2
#: How often kernels are timed for a profile at most, and after how long no more.
_MAX_PROFILES: Final = 5
_PROFILE_NS: Final = 100_000_000


class LengthsRefused(Exception):
    """The code of a step is not valid for the lengths that it has found."""


class Instance:
    """Memory and records of an executable.

    Args:
        executable: the step.
        code: its functions.
        constants: address of the constants buffer, which all instances share.
        team: the threads that run it.
        has_ports: False if inputs and outputs are always in the arena.

    Attributes:
        is_original: whether it never had other sizes than the executable.

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
        self._team = team
        self._executable = executable
        calls = executable.calls
        self._stride = _aligned(executable.scratch_bytes)
        # Scratch memory, the deadlines of loops and the statuses of calls follow the values.
        self._room_bytes = scratch = _aligned(executable.arena_bytes)
        deadlines = scratch + self._stride * team.threads
        statuses = deadlines + WORD_BYTES * executable.loops
        self._memory = memory = StepMemory(statuses + STATUS_BYTES * len(calls))
        self._room = Room(statuses)
        self._loop_deadlines = memory.words(deadlines, executable.loops, WORD)
        self._statuses = memory.words(statuses, len(calls), STATUS)
        self._arena = memory.address
        #: The sources of strings.
        self.strings: Final = StringSources(executable.strings, len(executable.inputs))
        places = StepPlaces(
            arena=memory.address,
            constants=constants,
            strings=self.strings.address,
            scratch=memory.address + scratch,
            stride=self._stride,
            deadlines=memory.address + deadlines,
            statuses=memory.address + statuses,
        )
        self._records = StepRecords(executable, code, team, places)
        #: The sizes that all records and ports have; None for those of the executable, and if `fit`
        #: was interrupted.
        self._sizes: StepSizes | None = None
        self.is_original = True
        self._forks = process.forks
        self._has_ports = has_ports
        self._limits = NEVER_CANCELLED.address, 0, LOOP_TIMEOUT_NS
        self._array_functions: dict[tuple[tuple[int, int], bytes], ArrayFunction] = {}

    # What describes arrays of NumPy is created for the first run, so that a model is ready without
    # it.

    @cached_property
    def cancellation(self) -> Cancellation:
        """For `run_arrays`, if the caller has none."""
        return Cancellation()

    @cached_property
    def _ports(self) -> StepPorts:
        if not self._has_ports:
            return StepPorts()
        executable, alignment = self.executable, self.alignment
        outputs = [
            self._port(each, cells, alignment, is_used=True)
            for each, cells in zip(executable.outputs, executable.output_arguments, strict=True)
        ]
        return StepPorts(self.input_ports(executable.inputs), outputs)

    def _port(self, described: Port, cells: Sequence[int], alignment: int, *, is_used: bool) -> StepPort:
        arena, table = self._arena, self._records.arguments
        has_strings = is_string(described.operand.type)
        return StepPort(
            dtype=described.operand.type.dtype,
            shape=described.dimensions,
            size_bytes=described.size_bytes,
            own=arena + (described.offset or 0) if is_used and described.size_bytes else 0,
            # References of an output become strings when the step has ended.
            cells=() if has_strings else tuple(table + WORD_BYTES * cell for cell in cells),
            source=self.strings.address if has_strings else 0,
            alignment=alignment,
        )

    @property
    def alignment(self) -> int:
        """The alignment of inputs and outputs that are used in place.

        Copying others to aligned memory pays only if the step reads or writes them more than once,
        with vectors that otherwise all cross cache lines.
        """
        executable = self.executable
        return self._alignment_for(executable.inputs, executable.outputs, sum(executable.calls.costs_ns))

    def _alignment_for(self, inputs: Sequence[Port], outputs: Sequence[Port], costs_ns: float) -> int:
        """Returns the alignment for ports of other sizes, and for kernels with these costs."""
        if not TARGETS[self._executable.target].crosses_lines:
            return ARRAY_ALIGNMENT
        copied_ns = sum([port.size_bytes for port in (*inputs, *outputs)]) / _PORT_BYTES_PER_NS
        return ARRAY_ALIGNMENT if costs_ns <= _MAX_COPIES * copied_ns else ALIGNMENT

    def input_ports(self, inputs: Sequence[Port]) -> list[StepPort]:
        """Returns the ports of inputs.

        Args:
            inputs: those of the executable, of which shapes and sizes may be others.
        """
        found, alignment = [], self.alignment
        for number, (described, cells) in enumerate(
            zip(inputs, self.executable.input_arguments, strict=True)
        ):
            is_used = described.offset is not None and bool(cells)
            port = self._port(described, cells, alignment, is_used=is_used)
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
            self._records.address,
            self._records.count,
            self._ports if ports is None else ports,
            binding=binding,
            releases_gil=releases_gil,
            keep=(self._records, self.strings, keep),
        )

    def fit(self, sizes: StepSizes) -> bool:
        """Gives the step other sizes.

        Returns False if its values do not fit into the memory, or have needed little of it for
        long.

        Args:
            sizes: the sizes of the step, which has neither instructions nor bands.
        """
        if self._room.is_excessive(sizes.arena_bytes + sizes.scratch_bytes * self._team.threads):
            return False
        if self._sizes is sizes:
            return True
        if sizes.arena_bytes > self._room_bytes or sizes.scratch_bytes > self._stride:
            return False
        self._sizes, self.is_original = None, False
        ports = self._ports if self._has_ports else None
        self._records.fit(sizes)
        if ports is not None:
            self._fit_ports(ports, sizes)
        self._sizes = sizes
        return True

    def _fit_ports(self, ports: StepPorts, sizes: StepSizes) -> None:
        """Gives the ports other sizes and places."""
        arena = self._arena
        alignment = self._alignment_for(sizes.inputs, sizes.outputs, sizes.cost_ns)
        number = 0
        for port, cells in zip(sizes.inputs, self._executable.input_arguments, strict=True):
            is_used = port.offset is not None and port.size_bytes and cells
            own = arena + (port.offset or 0) if is_used else 0
            ports.resize(number, port.dimensions, port.size_bytes)
            ports.place(number, own, alignment)
            number += 1
        for port in sizes.outputs:
            own = arena + (port.offset or 0) if port.size_bytes else 0
            ports.resize(number, port.dimensions, port.size_bytes)
            ports.place(number, own, alignment)
            number += 1

    def run(
        self, binding: ArgumentBinding, cancellation: int, deadline_ns: int, loop_timeout_ns: int
    ) -> KernelCall | Instruction | None:
        """Runs the step.

        Args:
            binding: addresses of inputs and outputs.
            cancellation: address of a `Cancellation`.
            deadline_ns: the deadline on the clock of `time.monotonic()`; 0 for none.
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
        return self._executable if self._sizes is None else self._sizes.executable

    @property
    def arena(self) -> int:
        """The address of the arena."""
        return self._arena

    @property
    def extents(self) -> Words:
        """The words of the extents."""
        return self._records.extents

    @property
    def loop_deadlines(self) -> memoryview:
        """The time until which each loop may run."""
        return self._loop_deadlines

    def bind_argument(self, number: int, address: int) -> None:
        """Sets the address of an argument, numbered over all calls, then all instructions."""
        self._records.bind_argument(number, address)

    def run_between(
        self, position: int, end: int, cancellation: int, deadline_ns: int, loop_timeout_ns: int
    ) -> tuple[int, int]:
        """Runs the step from an instruction on, up to another one; see `run`.

        Returns:
            The position where it ended, see `neurald_run`, and what the call there reports, or 0.
        """
        if self._forks != process.forks:
            self._after_fork()
        self._limit(cancellation, deadline_ns, loop_timeout_ns)
        self._records.run_between(position, end)
        self._run(self._no_words)
        result = self._call.result
        if result >= end or self._records.program[result].opcode is not Opcode.CALL:
            return result, 0
        return result, self._statuses[self._records.program[result].number]

    @cached_property
    def _no_words(self) -> Words:
        """The binding of a step without ports."""
        return np.zeros(0, np.int64)

    def call_at(self, position: int) -> int:
        """Returns the number of the call at a position."""
        return self._records.program[position].number

    def stopped(self, result: int) -> KernelCall | Instruction:
        """Returns what the step was doing when it was stopped; raises the errors of `run`."""
        return self._failed(result)

    def _failed(self, result: int) -> KernelCall | Instruction:
        """Returns what a step was doing when it was stopped; see `run` for the errors it raises."""
        if result & TIMED_OUT:
            raise loop_timed_out("WHILE")
        instruction = self._records.program[result & ~STOPPED]
        if result & STOPPED:
            is_call = instruction.opcode is Opcode.CALL
            return self.executable.calls[instruction.number] if is_call else instruction
        call = self.executable.calls[instruction.number]
        raise OpFailed(call.messages[self._statuses[instruction.number] - 1])

    def run_arrays(
        self, binding: ArgumentBinding, arrays: Sequence[Array | None], cancellation: Cancellation
    ) -> list[Array] | None:
        """Runs the step on arrays, for which the binding has no address, until it is cancelled.

        Returns:
            The outputs; None if an array is not as the step needs it, or if the step did not
            finish.
        """
        self.prepare(cancellation)
        function = self._array_functions.get(binding.key)
        if function is None:
            if len(self._array_functions) >= _FUNCTION_CACHE_SIZE:
                self._array_functions.clear()
            call = self._new_call(binding=binding.words.copy(), releases_gil=True)
            function = self._array_functions[binding.key] = call.on_arrays(*binding.arrays)
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

    def run_alone(self) -> None:
        """Lets the next runs use one thread."""
        self._records.leave_pool()

    def short_step_call(
        self, ports: StepPorts | None, binding: Words, keep: object, *, releases_gil: bool = False
    ) -> StepCall:
        """Returns a call that runs the step in one thread; see `short_call`.

        Args:
            ports: None for those of the executable.
            binding: the binding of the ports.
            keep: lives as long as the call's functions.
            releases_gil: whether other threads run meanwhile, which must not use the instance.
        """
        self.run_alone()
        return self._new_call(ports=ports, binding=binding, releases_gil=releases_gil, keep=(self, keep))

    def step_call(self, ports: StepPorts, binding: Words) -> StepCall:
        """Returns a call that runs the step in all threads, and releases the GIL; see `prepare`.

        Args:
            ports, binding: see `short_step_call`.
        """
        return self._new_call(ports=ports, binding=binding, releases_gil=True, keep=self)

    def prepare(self, cancellation: Cancellation) -> None:
        """Lets the next runs of calls that release the GIL end if they are cancelled."""
        if self._forks != process.forks:
            self._after_fork()
        limits = cancellation.address, 0, LOOP_TIMEOUT_NS
        if limits != self._limits:
            self._limit(*limits)

    def run_whole(self) -> None:
        """Lets the next runs of calls run the whole step, after `run_between`."""
        self._records.run_between(0, self._records.count)

    def _limit(self, cancellation: int, deadline_ns: int, loop_timeout_ns: int) -> None:
        """Sets the cancellation, deadline and loop timeout of the next runs."""
        self._limits = cancellation, deadline_ns, loop_timeout_ns
        self._records.limit(self._limits)

    def _after_fork(self) -> None:
        """Replaces the pool; a forked child has its own."""
        self._forks = process.forks
        self._records.join_pool()

    def time_ns(self, runs: int) -> int:
        """Returns the shortest time of several runs with the current memory contents."""
        run, times = self.short_step_call(None, self._ports.unbound(), None).bound(), []
        for _ in range(runs):
            started = time.perf_counter_ns()
            run()
            times.append(time.perf_counter_ns() - started)
        return min(times)

    def profile(self) -> tuple[KernelTime, ...]:
        """Measures each kernel on results of the kernels before it for arbitrary inputs.

        The shortest of several times counts, since other programs may have had the processor
        meanwhile. Kernels are run in turns, so that they find memory in caches as in an execution.
        """
        places, calls = list(self._records.of_calls()), tuple(self.executable.calls)
        self._limit(NEVER_CANCELLED.address, 0, LOOP_TIMEOUT_NS)
        begun = time.perf_counter_ns()
        try:
            shortest = self._kernel_times(places)
            for _ in range(_MAX_PROFILES - 1):
                if time.perf_counter_ns() - begun > _PROFILE_NS:
                    break
                shortest = list(map(min, shortest, self._kernel_times(places)))
        finally:
            self._records.select_all()
        return tuple(
            KernelTime(
                name=calls[number].function,
                duration_ns=duration_ns,
                operations=calls[number].operations,
                label=calls[number].label,
            )
            for (number, _), duration_ns in zip(places, shortest, strict=True)
        )

    def _kernel_times(self, places: Sequence[tuple[int, int]]) -> list[int]:
        """Returns how long the kernels take, each of which is run once."""
        times, unbound = [], self._ports.unbound()
        self._fill_inputs(unbound)
        for _, address in places:
            self._records.select(address, 1)
            started = time.perf_counter_ns()
            self._run(unbound)
            times.append(time.perf_counter_ns() - started)
        return times

    def _fill_inputs(self, places: Words) -> None:
        """Gives inputs of real numbers values of usual sizes.

        Their memory has values of other types in the meantime. As real numbers, many are so small
        that processors take a hundred times as long for them.

        Args:
            places: a row for each port that begins with its address; 0 for none.
        """
        inputs = self.executable.inputs if self._sizes is None else self._sizes.inputs
        for place, port in zip(places[:, 0].tolist(), inputs, strict=False):
            dtype = port.operand.type.dtype
            if place and dtype.kind == "f" and port.size_bytes:
                content = np.frombuffer(self._memory.words(place - self._arena, port.size_bytes, "B"), dtype)
                content[...] = np.linspace(0.5, 1, content.size)


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT
