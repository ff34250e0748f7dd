"""A step made ready to run: an arena, scratch memory and the calls' records. One execution at a time uses an instance."""

import ctypes
import mmap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from neurald.drivers.compiler.placement import Base
from neurald.drivers.cpu.executable import Call, Executable
from neurald.drivers.cpu.llvm import LoadedCode
from neurald.drivers.cpu.routine import ALIGNMENT
from neurald.drivers.cpu.runtime import RECORD_WORDS, STEP_WORDS, caller_name
from neurald.drivers.cpu.threads import Team, process
from neurald.hal.device import KernelTime
from neurald.hal.errors import OpFailed, OutOfMemory

#: What is not worth being shared: a shared call costs about a tenth of it.
_SHARED_NS: Final = 5_000.0
#: Chunks of about this time may be more than there are threads, so that one that is held back holds back little.
_CHUNK_NS: Final = 100_000.0
_CHUNKS_A_THREAD: Final = 4
#: Bindings whose tables an instance keeps: executions that come again and again take turns with few of them.
_TABLES_KEPT: Final = 4


class Binding:
    """Where the inputs and outputs of an execution are. The same object stands for the same places.

    Args:
        inputs: the address of each input, with exactly as many bytes as it has.
        outputs: the address of each output.
    """

    __slots__ = ("inputs", "outputs")

    def __init__(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)


class Instance:
    """Memory and records of an executable.

    Args:
        executable: what to run.
        code: its functions.
        constants: the address of the buffer of constants, which all instances share.
        team: the threads that run it.

    Raises:
        OutOfMemory: there is no room for another arena.
    """

    def __init__(self, executable: Executable, code: LoadedCode, constants: int, team: Team) -> None:
        self._executable = executable
        self._code = code
        self._arena = _Block(executable.arena_bytes)
        stride = _aligned(executable.scratch_bytes)
        self._scratch = _Block(stride * team.threads)
        calls = executable.calls
        self._table = (ctypes.c_int64 * max(1, sum(len(call.places) for call in calls)))()
        self._statuses = (ctypes.c_int32 * max(1, len(calls)))()
        self._records = (ctypes.c_int64 * max(1, RECORD_WORDS * len(calls)))()
        self._step = (ctypes.c_int64 * STEP_WORDS)()
        self._count = len(calls)
        self._fill(constants, team)
        self._step[:] = [
            ctypes.addressof(self._records),
            len(calls),
            self._scratch.address,
            stride,
            team.threads - 1,
            team.pool(),
        ]
        self._team = team
        self._forks = process.forks
        self._address = ctypes.addressof(self._step)
        self._tables: dict[Binding, _Bound] = {}
        self._bound: _Bound | None = None
        self._run = team.run
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

    def _fill(self, constants: int, team: Team) -> None:
        """Everything in the table and the records that no execution changes."""
        bases = {Base.ARENA: self._arena.address, Base.CONSTANTS: constants}
        table, statuses = ctypes.addressof(self._table), ctypes.addressof(self._statuses)
        argument = 0
        for number, call in enumerate(self._executable.calls):
            first = RECORD_WORDS * number
            self._records[first : first + RECORD_WORDS] = [
                self._code.addresses[caller_name(len(call.places))],
                self._code.addresses[call.function],
                table + 8 * argument,
                statuses + 4 * number,
                call.grains,
                chunks(call, team.threads),
            ]
            for place in call.places:
                self._table[argument] = bases[place.base] + place.offset
                argument += 1

    def run(self, binding: Binding) -> None:
        """Runs the step.

        Raises:
            OpFailed: a requirement of an operation does not hold; the outputs are undefined.
        """
        if self._forks != process.forks:
            self._forks = process.forks
            self._step[5] = self._team.pool()
        bound = self._bound
        if bound is None or bound.binding is not binding:
            bound = self._bind(binding)
        for own, address, size in bound.copied_in:
            ctypes.memmove(own, address, size)
        failed = self._run(self._address)
        if failed < self._count:
            raise OpFailed(self._executable.calls[failed].messages[self._statuses[failed] - 1])
        for address, own, size in bound.copied_out:
            ctypes.memmove(address, own, size)

    def _bind(self, binding: Binding) -> "_Bound":
        """Fills the table for these places."""
        bound = self._tables.get(binding)
        if bound is None:
            if len(self._tables) >= _TABLES_KEPT:
                self._tables.clear()
            bound = self._tables[binding] = self._bound_to(binding)
        ctypes.memmove(self._table, bound.table, ctypes.sizeof(self._table))
        self._bound = bound
        return bound

    def _bound_to(self, binding: Binding) -> "_Bound":
        table = type(self._table).from_buffer_copy(self._table)
        copied_in, copied_out = [], []
        for number, size, own, cells in self._inputs:
            address = binding.inputs[number]
            if address % ALIGNMENT:
                copied_in.append((own, address, size))
                address = own
            for cell in cells:
                table[cell] = address
        for number, size, own, cells in self._outputs:
            address = binding.outputs[number]
            if not cells or address % ALIGNMENT or self._is_used(number, binding):
                copied_out.append((address, own, size))
                address = own
            for cell in cells:
                table[cell] = address
        return _Bound(binding, table, tuple(copied_in), tuple(copied_out))

    def _is_used(self, output: int, binding: Binding) -> bool:
        """Whether an output's bytes are also those of an input or another output."""
        inputs, outputs = binding.inputs, binding.outputs
        begin = outputs[output]
        end = begin + self._executable.outputs[output].size_bytes
        for number, size, _, _ in self._inputs:
            if inputs[number] < end and begin < inputs[number] + size:
                return True
        return any(
            outputs[number] < end and begin < outputs[number] + size
            for number, size, _, _ in self._outputs
            if number != output
        )

    def profile(self) -> tuple[KernelTime, ...]:
        """The time of each kernel in a run on whatever was there last."""
        times = []
        step = (ctypes.c_int64 * STEP_WORDS)(*self._step)
        step[1] = 1
        # What executions gave is not theirs any more.
        self._bound = None
        for _, _, own, cells in (*self._inputs, *self._outputs):
            for cell in cells:
                self._table[cell] = own
        for number, call in enumerate(self._executable.calls):
            step[0] = ctypes.addressof(self._records) + 8 * RECORD_WORDS * number
            started = time.perf_counter_ns()
            self._run(ctypes.addressof(step))
            times.append(
                KernelTime(
                    name=call.function,
                    duration_ns=time.perf_counter_ns() - started,
                    operations=call.operations,
                    label=call.label,
                )
            )
        return tuple(times)


@dataclass(frozen=True, slots=True)
class _Bound:
    """What a binding comes to in an instance.

    Attributes:
        table: with its addresses.
        copied_in: inputs that are not aligned: the arena's place, where they are, and bytes.
        copied_out: outputs that cannot be written in place: where they go, the arena's place, and bytes.
    """

    binding: Binding
    table: "ctypes.Array[ctypes.c_int64]"
    copied_in: tuple[tuple[int, int, int], ...]
    copied_out: tuple[tuple[int, int, int], ...]


def chunks(call: Call, threads: int) -> int:
    """Into how many chunks a call is divided for so many threads; 1: it is not shared."""
    if threads < 2 or call.cost_ns < _SHARED_NS:
        return 1
    wanted = min(_CHUNKS_A_THREAD * threads, int(call.cost_ns / _CHUNK_NS))
    return max(1, min(call.grains, max(threads, wanted)))


class _Block:
    """Zeroed memory that begins at a page."""

    def __init__(self, size_bytes: int) -> None:
        try:
            self._memory = mmap.mmap(-1, max(mmap.PAGESIZE, size_bytes))
        except OSError as error:
            raise OutOfMemory(f"{size_bytes} bytes for values: {error}") from None
        self._view = (ctypes.c_char * len(self._memory)).from_buffer(self._memory)
        self.address = ctypes.addressof(self._view)


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT
