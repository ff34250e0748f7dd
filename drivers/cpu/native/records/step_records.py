"""The records of a step for native code: the step, its calls, and the arguments of the calls.

All are words in one piece of memory; see `neurald.drivers.cpu.native.programs.step_program`.
"""

import array
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import Final

from msgspec import Struct

from neurald.drivers.cpu.native.objects.llvm import LoadedCode
from neurald.drivers.cpu.native.programs.step_program import (
    BANDS_CALLER,
    MIN_SHARED_NS,
    PIECE_NS,
    caller_name,
)
from neurald.drivers.cpu.native.python_calls.python_call import Array, Words
from neurald.drivers.cpu.native.records.band_records import chosen, described_words, description
from neurald.drivers.cpu.native.records.call_division import division, piece_items
from neurald.drivers.cpu.native.thread_pool import Team
from neurald.drivers.cpu.target.executable import (
    MAX_COST_NS,
    RECORD_NS,
    RECORD_SIZES,
    RECORD_WORDS,
    STEP_WORDS,
    UNSHARED,
    Executable,
    Instruction,
    Opcode,
)
from neurald.drivers.cpu.target.step_sizes import StepSizes
from neurald.hal.device import DEFAULT_LOOP_TIMEOUT_S
from neurald.hal.lazy_numpy import np
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import NEVER_CANCELLED
from neurald.hal.sync.deadline import nanoseconds

#: How long each loop may run by default.
LOOP_TIMEOUT_NS: Final = nanoseconds(DEFAULT_LOOP_TIMEOUT_S)
#: Minimum number of bands of a chunk, since threads repeat some work at the ends.
_MIN_CHUNK_BANDS: Final = 4
#: Bytes that a copy moves per nanosecond, approximately.
_COPIED_BYTES_PER_NS: Final = 16
#: Indices of the first record and the number of records, of pool, cancellation, deadline, loop
#: timeout and the position of the first record to run in the words of a step.
_RECORDS: Final = 0
_COUNT: Final = 1
_POOL: Final = 5
_CANCELLATION: Final = 6
_LOOP_TIMEOUT: Final = 8
_FIRST: Final = 10
#: Index in a record of the number of work items, with which the words begin that depend on sizes.
_ITEMS: Final = 4
#: The type of the words: signed, with 64 bits.
WORD: Final = "q"
WORD_BYTES: Final = 8
#: The type of the status of a call.
STATUS: Final = "i"
STATUS_BYTES: Final = 4


class StepPlaces(Struct, frozen=True, kw_only=True):
    """The addresses at which a step keeps its values.

    Attributes:
        arena, constants, strings: addresses of buffers, see `Base`.
        scratch, stride: address of the scratch memory of the first thread, and its size.
        deadlines, statuses: addresses of the deadlines of loops and of the statuses of calls.
    """

    arena: int
    constants: int
    strings: int
    scratch: int
    stride: int
    deadlines: int
    statuses: int


class StepRecords:
    """The records of one step. One thread at a time uses it.

    Args:
        executable: the step.
        code: its functions.
        team: the threads that run it.
        places: where its values are.

    Attributes:
        words: the memory.
        address: the address of the step.
        count: number of records.
        arguments: address of the arguments of calls.
    """

    def __init__(self, executable: Executable, code: LoadedCode, team: Team, places: StepPlaces) -> None:
        self.executable = executable
        self._code, self._team = code, team
        self._places = places
        #: The sequences of kernels that run in bands, by their first kernel.
        self._banded = chosen(executable.banded, team.threads, executable.calls.costs_ns)
        skipped = sum(each.calls - 1 for each in self._banded.values())
        self.count = len(executable.instructions or executable.calls) - skipped
        # Offset of the arguments, in words.
        self._table = STEP_WORDS + RECORD_WORDS * self.count
        self.words, self.address = self._built()
        self.arguments = self.address + WORD_BYTES * self._table

    def _built(self) -> tuple["array.array[int]", int]:
        """Returns the memory and its address."""
        executable, team, places = self.executable, self._team, self._places
        calls, instructions = executable.calls, executable.instructions
        locations = [place for each in instructions for place in each.locations]
        end = self._table + len(calls.bases) + len(locations)
        step = array.array(WORD, bytes(WORD_BYTES * end))
        step.extend(executable.extents)
        bands = len(step)
        for banded in self._banded.values():
            step.extend([0] * described_words(banded))
        begin, _ = step.buffer_info()
        bases = self._bases(begin)
        words = [
            begin + WORD_BYTES * STEP_WORDS,
            self.count,
            places.scratch,
            places.stride,
            team.threads - 1,
            team.pool(),
            NEVER_CANCELLED.address,
            0,
            LOOP_TIMEOUT_NS,
            places.deadlines if executable.loops else 0,
            0,
        ]
        arguments = begin + WORD_BYTES * self._table
        records = self._call_records(arguments)
        if instructions:
            called = list(records)
            arguments += WORD_BYTES * len(calls.bases)
            for each in instructions:
                is_call = each.opcode is Opcode.CALL
                words += called[each.number] if is_call else _control_record(each, arguments)
                arguments += WORD_BYTES * len(each.locations)
        elif self._banded:
            words += chain.from_iterable(self._banded_records(list(records), step, begin, bands))
        else:
            words += chain.from_iterable(records)
        words += [
            bases[base] + offset for base, offset in zip(calls.bases, calls.argument_offsets(), strict=True)
        ]
        words += [bases[place.base] + place.offset for place in locations]
        step[:end] = array.array(WORD, words)
        return step, begin

    def _bases(self, begin: int) -> tuple[int, ...]:
        """Returns the addresses of the buffers, by `Base`.

        Args:
            begin: the address of the step. All copies of it refer to the extents in this one.
        """
        executable, places = self.executable, self._places
        end = self._table + len(executable.calls.bases)
        end += sum(len(each.locations) for each in executable.instructions)
        return places.arena, places.constants, begin + WORD_BYTES * end, begin, places.strings

    def _firsts(self) -> Iterator[int]:
        """Yields the number of the first kernel of each record of a step without instructions."""
        number, count = 0, len(self.executable.calls)
        while number < count:
            yield number
            number += self._banded[number].calls if number in self._banded else 1

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
        threads, costs = self._team.threads, self.executable.calls.costs_ns
        program = self._team.program.addresses
        for number in self._firsts():
            banded = self._banded.get(number)
            if banded is None:
                yield records[number]
                continue
            own = records[number : number + banded.calls]
            described = at + RECORD_WORDS * banded.calls
            counts = self.executable.calls.counts[number : number + banded.calls]
            content = [*chain.from_iterable(own), begin + WORD_BYTES * at, *description(banded, counts)]
            step[at : at + len(content)] = array.array(WORD, content)
            cost = sum(costs[number : number + banded.calls])
            divided = division(banded.bands, cost, threads)
            few = max(1, banded.bands // divided.parts // _MIN_CHUNK_BANDS)
            divided = replace(divided, chunks=min(divided.chunks, few))
            yield (
                program[BANDS_CALLER],
                begin + WORD_BYTES * described,
                0,
                own[0][3],
                banded.bands,
                divided.word if threads > 1 else UNSHARED,
                piece_items(banded.bands, cost),
                RECORD_NS + min(math.ceil(cost), MAX_COST_NS),
            )
            at += len(content)

    def _call_records(self, arguments: int) -> Iterator[tuple[int, ...]]:
        """Yields the record of each call, whose arguments follow each other from an address on."""
        calls, code, program = self.executable.calls, self._code.addresses, self._team.program.addresses
        names = {count: caller_name(count) for count in set(calls.counts)}
        callers = {count: program.get(name) or code[name] for count, name in names.items()}
        return zip(
            [callers[count] for count in calls.counts],
            [code[name] for name in calls.functions],
            accumulate([WORD_BYTES * count for count in calls.counts], initial=arguments),
            itertools.count(self._places.statuses, STATUS_BYTES),
            *self._sizes(self.executable),
        )

    def _sizes(self, executable: Executable) -> tuple[Iterable[int], ...]:
        """Returns the words of the record of each call that depend on its size, in columns."""
        calls, threads = executable.calls, self._team.threads
        items, costs = calls.work_items, calls.costs_ns
        # Instructions may change the numbers of work items.
        are_fixed = not executable.instructions
        shares = (
            repeat(UNSHARED, len(calls))
            if threads < 2
            else [
                UNSHARED if cost < MIN_SHARED_NS else division(each, cost, threads).word
                for each, cost in zip(items, costs, strict=True)
            ]
        )
        return (
            items,
            shares,
            [
                max(1, each) if are_fixed and cost <= PIECE_NS else piece_items(each, cost)
                for each, cost in zip(items, costs, strict=True)
            ],
            [RECORD_NS + min(math.ceil(cost), MAX_COST_NS) for cost in costs],
        )

    def fit(self, sizes: StepSizes) -> None:
        """Gives the step other sizes, for which there is memory at the same places.

        Args:
            sizes: the sizes of a step without instructions and bands.
        """
        of_sizes, arguments, extents, bases = self._parts
        of_sizes[:] = self._divided(sizes)
        np.add(sizes.offsets, bases, out=arguments)
        extents[:] = sizes.extents

    def _divided(self, sizes: StepSizes) -> Array:
        """Returns `_sizes` for other sizes, of calls whose numbers of work items stay.

        The calls of a small step are not examined one by one.
        """
        records, threads = sizes.records, self._team.threads
        if records is None:
            words = [*zip(*self._sizes(sizes.executable), strict=False)]
            sizes.records = records = np.array(words, np.int64).reshape(-1, RECORD_SIZES)
            sizes.is_divided = True
        if sizes.is_divided:
            return records
        items, costs = records[:, 0], sizes.costs_ns
        if sizes.cost_ns > PIECE_NS:
            for number in (costs > PIECE_NS).nonzero()[0].tolist():
                records[number, 2] = piece_items(int(items[number]), float(costs[number]))
        if threads > 1 and sizes.cost_ns >= MIN_SHARED_NS:
            for number in (costs >= MIN_SHARED_NS).nonzero()[0].tolist():
                records[number, 1] = division(int(items[number]), float(costs[number]), threads).word
        sizes.is_divided = True
        return records

    @cached_property
    def _word_array(self) -> Words:
        return np.frombuffer(self.words, np.int64)

    @cached_property
    def _parts(self) -> tuple[Array, Array, Array, Array]:
        """The parts that `fit` changes: words of records, arguments and extents, and buffers."""
        words, bases = self._word_array, self._bases(self.address)
        records = words[STEP_WORDS : self._table].reshape(-1, RECORD_WORDS)
        end = self._table + len(self.executable.calls.bases)
        return (
            records[:, _ITEMS : _ITEMS + RECORD_SIZES],
            words[self._table : end],
            words[end:],
            np.array([bases[base] for base in self.executable.calls.bases], np.int64),
        )

    # What follows changes single words.

    def leave_pool(self) -> None:
        """Lets the step run on one thread."""
        self.words[_POOL] = 0

    def join_pool(self) -> None:
        """Lets the step share its calls in the pool of this process."""
        self.words[_POOL] = self._team.pool()

    def limit(self, limits: tuple[int, int, int]) -> None:
        """Sets the cancellation's address, the deadline and the loop timeout of the next runs."""
        self.words[_CANCELLATION : _LOOP_TIMEOUT + 1] = array.array(WORD, limits)

    def run_between(self, position: int, end: int) -> None:
        """Sets the position of the first record to run, and the end of the records to run."""
        self.words[_FIRST], self.words[_COUNT] = position, end

    def bind_argument(self, number: int, address: int) -> None:
        """Sets the address of an argument, numbered over all calls, then all instructions."""
        self.words[self._table + number] = address

    def select(self, record: int, count: int) -> None:
        """Sets the address of the first record, and the number of records."""
        self.words[_RECORDS], self.words[_COUNT] = record, count

    def select_all(self) -> None:
        """Undoes `select`."""
        self.select(self.address + WORD_BYTES * STEP_WORDS, self.count)

    @property
    def extents(self) -> Words:
        """The words of the extents, of a step without bands."""
        count = len(self.executable.extents)
        return self._word_array[len(self.words) - count :]

    @cached_property
    def program(self) -> tuple[Instruction, ...]:
        """The instructions of the records."""
        if self.executable.instructions:
            return self.executable.instructions
        return tuple([Instruction(Opcode.CALL, number) for number in self._firsts()])

    def of_calls(self) -> Iterator[tuple[int, int]]:
        """Yields the number of each call that the program makes, and the address of its record."""
        at = self._table + len(self.executable.calls.bases)
        at += sum(len(each.locations) for each in self.executable.instructions)
        at += len(self.executable.extents)
        for position, instruction in enumerate(self.program):
            if instruction.opcode is not Opcode.CALL:
                continue
            banded = self._banded.get(instruction.number)
            if banded is None:
                offset = STEP_WORDS + RECORD_WORDS * position
                yield instruction.number, self.address + WORD_BYTES * offset
                continue
            for each in range(banded.calls):
                yield instruction.number + each, self.address + WORD_BYTES * (at + RECORD_WORDS * each)
            at += described_words(banded)


def _control_record(instruction: Instruction, arguments: int) -> tuple[int, ...]:
    cost_ns = RECORD_NS
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
        min(cost_ns, MAX_COST_NS),
    )
