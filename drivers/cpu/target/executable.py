"""Data of a compiled step: everything needed to run its object code.

All values are in two buffers; see `neurald.drivers.compiler.memory.buffer_assignment`. Inputs and
outputs have locations there too, but kernels access a request's own memory directly if it is
suitably aligned.
"""

from array import array
from collections.abc import Sequence
from enum import IntEnum
from operator import gt, sub
from typing import Final

import msgspec

from neurald.drivers.compiler.memory.buffer_location import BufferLocation, Port
from neurald.drivers.cpu.target.kernel_calls import KernelCalls
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.records import replace

#: Size of an extent that kernels read, and of other words in the memory of a step.
WORD_BYTES: Final = 8
#: Number of words of a step before its records, and of each record; see
#: `neurald.drivers.cpu.native.programs.step_program`.
STEP_WORDS: Final = 11
RECORD_WORDS: Final = 8
#: Number of words at the end of the record of a call that depend on its size; how a call of one
#: part and chunk is shared, as a record has it; and the cost of a record without the call, and of
#: one that counts as longer than any limit.
RECORD_SIZES: Final = 4
UNSHARED: Final = 1 | 1 << 32
RECORD_NS: Final = 10
MAX_COST_NS: Final = 1 << 40
#: Words of a record: the number of work items of a call, or of bytes of a copy; and the offset at
#: which a copy begins in its target.
_ITEMS: Final = 4
_START: Final = 5
#: What a call that sets lengths reports: that a length exceeds its capacity, or that the code is
#: not valid for the lengths, for the first of its messages; further numbers stand for the others.
EXCEEDS_CAPACITY: Final = 1
REFUSED: Final = 2


class LengthWords:
    """The places of the lengths that change in the memory of a step, as offsets in bytes.

    Args:
        symbols: number of lengths.
        start: the start of the extents.
    """

    def __init__(self, symbols: int, start: int) -> None:
        self._symbols = symbols
        self._start = start
        #: The offsets of these words in a record.
        self.items: Final = WORD_BYTES * _ITEMS
        self.start: Final = WORD_BYTES * _START

    @property
    def count(self) -> int:
        """The number of words."""
        return 3 * self._symbols

    def length(self, symbol: int) -> int:
        """Returns where a length is."""
        return self._start + WORD_BYTES * symbol

    def wanted(self, symbol: int) -> int:
        """Returns where the length is that may exceed its capacity."""
        return self.length(self._symbols + symbol)

    def capacity(self, symbol: int) -> int:
        """Returns where the largest length is for which there is memory."""
        return self.length(2 * self._symbols + symbol)


def record_offset(position: int) -> int:
    """Returns the offset of the record of an instruction in the memory of a step, in bytes."""
    return WORD_BYTES * (STEP_WORDS + RECORD_WORDS * position)


def argument_offset(records: int, number: int) -> int:
    """Returns the offset of an argument in the memory of a step, in bytes.

    Args:
        records: number of records.
        number: the number of the argument, counted over all calls and then over all instructions.
    """
    return record_offset(records) + WORD_BYTES * number


class Opcode(IntEnum):
    """The kinds of instructions; see `Instruction`."""

    CALL = 0
    COPY = 1
    BRANCH = 2
    JUMP = 3
    ENTER_LOOP = 4
    TEST_LOOP = 5


class Instruction(msgspec.Struct, frozen=True, array_like=True):
    """An instruction of a step with control flow.

    Attributes:
        opcode: CALL calls a kernel; COPY copies bytes; BRANCH jumps if a BOOL is false; JUMP always
            jumps; ENTER_LOOP begins to measure the time of a loop; TEST_LOOP leaves it, by a jump,
            if a BOOL is false.
        number: the number of the kernel for CALL, of bytes for COPY, of the loop for ENTER_LOOP and
            TEST_LOOP.
        target: position of the instruction to jump to; the number of instructions ends the step. 0
            for others.
        locations: target and source of COPY; the BOOL of BRANCH and TEST_LOOP.
        operations: positions in the model of the control flow that it is a part of.
    """

    opcode: Opcode
    number: int = 0
    target: int = 0
    locations: tuple[BufferLocation, ...] = ()
    operations: tuple[int, ...] = ()


#: Size of a number of rows.
ROW_COUNT_BYTES: Final = 4


class BoundedPort(msgspec.Struct, frozen=True, array_like=True):
    """An output whose dimensions are an upper bound.

    Attributes:
        output: its position among the outputs.
        dimension: the dimension of its rows; those before it have length 1.
        count: the position of the output with the number of its rows, an int32.
    """

    output: int
    dimension: int
    count: int


#: Limits on the arguments of a kernel that runs in bands, and on the values that bands stream.
MAX_BANDED_ARGUMENTS: Final = 16
MAX_STREAMS: Final = 16
#: More threads than there are.
ANY_THREADS: Final = 1 << 16


class BandStream(msgspec.Struct, frozen=True, array_like=True):
    """A value that bands keep in scratch memory.

    Attributes:
        offset, size_bytes: the place in the scratch memory of a thread.
        places: the kernels of the bands, by their positions among them, and the arguments that are
            the value.
    """

    offset: int
    size_bytes: int
    places: tuple[tuple[int, int], ...]


class BandedCalls(msgspec.Struct, frozen=True, array_like=True):
    """Kernels that follow each other and may run in bands.

    See `neurald.drivers.cpu.native.programs.step_program`.

    Attributes:
        first: number of the first one.
        calls: how many they are.
        turn: number of bands that run together.
        min_threads, max_threads: the numbers of threads for which it pays.
        streams: the values that are in scratch memory.
        table: for each kernel and band, the first work item and the end of them; then for each
            stream and band, the first byte and the end of them; all in 64 bits.
    """

    first: int
    calls: int
    turn: int
    min_threads: int
    max_threads: int
    streams: tuple[BandStream, ...]
    table: bytes

    @property
    def bands(self) -> int:
        """Number of bands."""
        return len(self.table) // (2 * WORD_BYTES * (self.calls + len(self.streams)))

    def words(self) -> "array[int]":
        """Returns the words of the table."""
        found = array("q")
        found.frombytes(self.table)
        return found

    def check(self, work_items: Sequence[int], counts: Sequence[int], scratch_bytes: int) -> None:
        """Checks that all ranges are inside the kernels' work items and the buffers of streams.

        Args:
            work_items, counts: the numbers of work items and arguments of each kernel of the step.
            scratch_bytes: the scratch memory of a thread.

        Raises:
            BadData: a range is outside.
        """
        end, streams = self.first + self.calls, len(self.streams)
        if not 0 <= self.first < end <= len(work_items) or self.calls < 2 or streams > MAX_STREAMS:
            raise BadData(f"bands have kernels {self.first} to {end - 1}; there are {len(work_items)}")
        row_bytes = 2 * WORD_BYTES * (self.calls + streams)
        if min(self.turn, self.max_threads) < 1 or not self.table or len(self.table) % row_bytes:
            raise BadData(f"bands of {self.calls} kernels have a table of {len(self.table)} bytes")
        if max(counts[self.first : end]) > MAX_BANDED_ARGUMENTS:
            raise BadData(f"a kernel of bands has more than {MAX_BANDED_ARGUMENTS} arguments")
        words, count = self.words(), self.bands
        for number in range(self.calls + streams):
            row = words[2 * count * number : 2 * count * (number + 1)].tolist()
            begins, ends = row[::2], row[1::2]
            if begins[0] < 0 or any(map(gt, begins, ends)):
                raise BadData("bands have work items or bytes that end before they begin")
            if begins != sorted(begins) or ends != sorted(ends):
                raise BadData("bands have work items or bytes that are not in order")
            if number < self.calls:
                if begins[0] or ends[-1] != work_items[self.first + number]:
                    raise BadData("bands have work items that a kernel lacks, or lack some of its own")
                continue
            stream = self.streams[number - self.calls]
            # A turn may begin with any band.
            last = ends[-1:] * min(count, self.turn - 1)
            longest = max(map(sub, (*ends[self.turn - 1 :], *last), begins))
            if not 0 <= stream.offset <= scratch_bytes - stream.size_bytes or longest > stream.size_bytes:
                raise BadData(f"bands stream {longest} bytes through a buffer of {stream.size_bytes}")
            for kernel, argument in stream.places:
                if not 0 <= kernel < self.calls or not 0 <= argument < counts[self.first + kernel]:
                    raise BadData(f"a stream is argument {argument} of kernel {kernel} of bands")


class Executable(msgspec.Struct, frozen=True, array_like=True):
    """A compiled step.

    Attributes:
        target: name of the code's target.
        calls: the kernels. They run in order unless there are instructions.
        instructions: the instructions of a step with control flow.
        loops: number of loops.
        input_arguments: for each input, its arguments, numbered over all calls and then over all
            locations of instructions.
        output_arguments: for each output, its arguments or those that are parts of it; empty if
            kernels also read it, because the application may change a request's memory after it was
            written.
        arena_bytes, constants_bytes: sizes of the buffers.
        scratch_bytes: additional memory per thread.
        unshared_bytes: size of the arena if no values shared bytes.
        is_tolerant: True if no access leaves its memory even if inputs change during the execution.
        extents: lengths that kernels read at run time, each in a word of 64 bits.
        bounded: outputs of which only some rows exist. Their numbers of rows are the last outputs,
            which are not outputs of the model.
        strings: the constant strings that references refer to, without the first, empty one; see
            `neurald.drivers.compiler.ir.string_references`.
        banded: sequences of kernels that may run in bands, of a step without instructions. They may
            overlap; longer ones come first.
    """

    target: str
    calls: KernelCalls
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    input_arguments: tuple[tuple[int, ...], ...]
    output_arguments: tuple[tuple[int, ...], ...]
    arena_bytes: int
    constants_bytes: int
    scratch_bytes: int
    unshared_bytes: int
    is_tolerant: bool
    extents: tuple[int, ...] = ()
    bounded: tuple[BoundedPort, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    loops: int = 0
    strings: tuple[bytes, ...] = ()
    banded: tuple[BandedCalls, ...] = ()

    @property
    def visible_outputs(self) -> tuple[Port, ...]:
        """The outputs of the model."""
        return self.outputs[: len(self.outputs) - len({each.count for each in self.bounded})]

    def output_operand(self, output: int) -> Operand:
        """Returns the declared operand of an output of the model; unknown lengths are 0."""
        operand = self.outputs[output].operand
        for each in self.bounded:
            if each.output == output:
                dimensions = self.outputs[output].dimensions
                operand = replace(
                    operand, dimensions=(*dimensions[: each.dimension], 0, *dimensions[each.dimension + 1 :])
                )
        return operand

    def output_shapes(self, counts: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns the shapes of the outputs of the model.

        Args:
            counts: the numbers of rows, in the order of the outputs that hold them.
        """
        visible = self.visible_outputs
        shapes = [port.dimensions for port in visible]
        for each in self.bounded:
            shape, at = shapes[each.output], each.dimension
            rows = min(max(0, counts[each.count - len(visible)]), shape[at])
            shapes[each.output] = (*shape[:at], rows, *shape[at + 1 :])
        return shapes
