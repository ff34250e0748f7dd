"""Computes the sizes of a step with open dimensions by native code; see `sizing_program`."""

import array
import ctypes
import itertools
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from neurald.drivers.compiler.ir.string_references import stored_bytes
from neurald.drivers.compiler.memory.extent_program import Sum
from neurald.drivers.cpu.native.programs.sizing_program import SIZING_FUNCTIONS, SizeRefusal
from neurald.drivers.cpu.target.executable import RECORD_SIZES, WORD_BYTES
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.types import OperandType

#: The type of the words.
WORD: Final = "q"
#: Words before the ports of sizes.
_HEAD_WORDS: Final = 2

_Evaluate = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Size = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Parts(NamedTuple):
    """Parts of sizes; see this module."""

    scratch_bytes: int
    cost_ns: float
    ports: "array.array[int]"
    offsets: Array
    records: Array
    costs_ns: Array
    extents: Array


class StepSizing:
    """Computes the numbers and sizes of a step; see this module.

    They are the words of one memory: the atoms of the program, its numbers, and sizes.

    Args:
        opened: the step, which has been checked.
        functions: addresses of the native functions.
    """

    def __init__(self, opened: OpenExecutable, functions: Mapping[str, int]) -> None:
        evaluate, size = (functions[name] for name in SIZING_FUNCTIONS)
        self._evaluate: Any = _Evaluate(evaluate)
        self._size: Any = _Size(size)
        program = array.array(WORD, _program_words(opened))
        step = array.array(WORD, _step_words(opened))
        self._tables = program, step
        self._program, _ = program.buffer_info()
        self._step, _ = step.buffer_info()
        ports = (*opened.inputs, *opened.outputs)
        counts = (
            len(opened.program.bounds) + len(opened.program.divisions),
            len(opened.program.values),
            _HEAD_WORDS,
            sum(2 + len(port.dimensions) for port in ports),
            sum(map(len, opened.locations)),
            RECORD_SIZES * len(opened.template.calls),
            len(opened.template.calls),
            len(opened.extents),
        )
        #: Where each part of the words ends.
        self._ends = tuple(itertools.accumulate(counts))
        self._numbers, self._sizes = WORD_BYTES * self._ends[0], WORD_BYTES * self._ends[1]
        self._empty = array.array(WORD, bytes(WORD_BYTES * self._ends[-1]))

    def evaluate(self, lengths: Iterable[int]) -> "array.array[int] | None":
        """Returns words with the numbers of the program.

        Returns None if the code is not valid for these lengths of the open dimensions, or if a
        number is too large.
        """
        words = self._empty[:]
        for position, length in enumerate(lengths):
            words[position] = length
        address, _ = words.buffer_info()
        return words if self._evaluate(self._program, address, address + self._numbers) else None

    @property
    def size_bytes(self) -> int:
        """The memory of the words."""
        return WORD_BYTES * len(self._empty)

    def numbers(self, words: "array.array[int]") -> Array:
        """Returns the numbers."""
        return np.frombuffer(words, np.int64)[self._ends[0] : self._ends[1]]

    def size(self, words: "array.array[int]", plan: "array.array[int]") -> int:
        """Computes the sizes for the numbers.

        Returns 0, or why there are none; see `SizeRefusal`.
        """
        address, _ = words.buffer_info()
        place, _ = plan.buffer_info()
        refusal: int = self._size(self._step, address + self._numbers, place, address + self._sizes)
        return refusal

    def refused(self, refusal: int, words: "array.array[int]", arena_bytes: int) -> str:
        """Returns what a refusal other than `NO_ROOM` means.

        Args:
            refusal, words: see `size`.
            arena_bytes: the size of the plan's arena.
        """
        number = words[self._ends[1]]
        if refusal == SizeRefusal.OUTSIDE:
            return f"an argument is at offset {number} of an arena of {arena_bytes} bytes"
        if refusal == SizeRefusal.WRONG_PORT:
            return (
                f"operand {number} of the inputs and outputs is outside the arena of {arena_bytes} bytes, "
                "or its dimensions do not have its size"
            )
        return "the kernels have costs whose sum is not finite"

    def parts(self, words: "array.array[int]") -> Parts:
        """Returns the sizes."""
        _, begin, head, ports, arguments, records, costs, extents = self._ends
        content = np.frombuffer(words, np.int64)
        (cost_ns,) = struct.unpack_from("d", words, WORD_BYTES * (begin + 1))
        return Parts(
            scratch_bytes=words[begin],
            cost_ns=cost_ns,
            ports=words[head:ports],
            offsets=content[ports:arguments],
            records=content[arguments:records].reshape(-1, RECORD_SIZES),
            costs_ns=content[records:costs].view(np.float64),
            extents=content[costs:extents],
        )


def _program_words(opened: OpenExecutable) -> list[int]:
    program = opened.program
    places = [place for each in opened.locations for place in each if place is not None]
    not_negative = {
        *opened.work_items,
        *opened.scratch_bytes,
        *(place.offset for place in places),
        *(size for value in opened.values for size in value.sizes),
        *(number for port in (*opened.inputs, *opened.outputs) for number in port.dimensions),
    }
    words = [
        len(program.bounds),
        len(program.divisions),
        len(program.guards),
        len(program.values),
        len(not_negative),
        *itertools.chain.from_iterable(program.bounds),
    ]
    for division in program.divisions:
        words += [division.kind, *_sum(division.dividend), *_sum(division.divisor)]
    for guard in program.guards:
        words += [guard.relation, int(guard.holds), *_sum(guard.value)]
    for value in program.values:
        words += _sum(value)
    return [*words, *sorted(not_negative)]


def _step_words(opened: OpenExecutable) -> list[int]:
    template = opened.template
    ports = [
        *zip(template.inputs, opened.inputs, strict=True),
        *zip(template.outputs, opened.outputs, strict=True),
    ]
    places = [place for each in opened.locations for place in each]
    scratch = sorted({*opened.scratch_bytes})
    words = [
        len(opened.values),
        len(ports),
        len(places),
        len(template.calls),
        len(opened.extents),
        len(scratch),
    ]
    for value in opened.values:
        words += [len(value.sizes), *value.sizes]
    for known, port in ports:
        element = stored_bytes(OperandType(known.type), (1,))
        words += [port.value, port.size_bytes, element, len(port.dimensions), *port.dimensions]
    for place, offset in zip(places, template.calls.argument_offsets(), strict=True):
        words += [-1, offset] if place is None else [place.value, place.offset]
    calls = zip(opened.work_items, template.calls.costs_ns, template.calls.work_items, strict=True)
    for number, cost_ns, items in calls:
        words += [number, *struct.unpack("q", struct.pack("d", cost_ns / max(1, items)))]
    return [*words, *opened.extents, *scratch]


def _sum(value: Sum) -> Iterable[int]:
    yield len(value)
    for factor, atoms in value:
        yield from (factor, len(atoms), *atoms)
