"""Comparison of strings, and their search in a hash table."""

from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.lowering.machinery.string_table import HASH_BITS, KEY_NUMBERS, MULTIPLIER, SHIFT
from neurald.drivers.compiler.support.kernel_file import kernel_text
from neurald.drivers.cpu.codegen.epilogue import arguments_of, pointer_names
from neurald.drivers.cpu.kernels.common.function import cost_ns
from neurald.drivers.cpu.target.routine import NAME, Routine
from neurald.drivers.cpu.target.string_sources import STRING_BYTES, STRING_LENGTH, string_access_text

#: Cycles for a comparison and for a search, with short strings.
_COMPARE_CYCLES, _SEARCH_CYCLES = 15.0, 60.0


def equality(kernel: Kernel, node: Procedure) -> Routine:
    """Returns the routine that compares strings."""
    names = pointer_names(arguments_of(kernel))
    one, other = (names[value] for value in node.inputs)
    text = kernel_text(
        __name__,
        "string_equality.ll",
        KERNEL=NAME,
        PARAMETERS=_parameters(kernel),
        ONE=one,
        OTHER=other,
        STRING_LENGTH=STRING_LENGTH,
        STRING_BYTES=STRING_BYTES,
    )
    return _routine(kernel, text, _COMPARE_CYCLES, "comparisons")


def search(kernel: Kernel, node: Procedure) -> Routine:
    """Returns the routine that searches strings in a hash table."""
    names = pointer_names(arguments_of(kernel))
    strings, places, keys, characters = (names[value] for value in node.inputs)
    _, place_row, key_row, character_row = node.inputs
    count = key_row.count // KEY_NUMBERS
    text = kernel_text(
        __name__,
        "string_search.ll",
        KERNEL=NAME,
        PARAMETERS=_parameters(kernel),
        STRINGS=strings,
        PLACES=places,
        KEYS=keys,
        CHARACTERS=characters,
        PLACE_COUNT=place_row.count,
        PLACE_MASK=place_row.count - 1,
        PLACE_SHIFT=HASH_BITS - (place_row.count.bit_length() - 1),
        KEY_COUNT=count,
        CHARACTER_COUNT=character_row.count,
        MULTIPLIER=MULTIPLIER - (1 << 64),
        SHIFT=SHIFT,
        STRING_LENGTH=STRING_LENGTH,
        STRING_BYTES=STRING_BYTES,
    )
    return _routine(kernel, text, _SEARCH_CYCLES, f"searches among {count}")


def _parameters(kernel: Kernel) -> str:
    # Two inputs may be the same value.
    pointers = [f"ptr noalias {name}" for name in pointer_names(arguments_of(kernel)).values()]
    return ", ".join((*pointers, "ptr %strings", "ptr %scratch", "ptr %status", "i64 %begin", "i64 %end"))


def _routine(kernel: Kernel, text: str, cycles: float, what: str) -> Routine:
    arguments = arguments_of(kernel)
    count = kernel.output.count
    return Routine(
        text=string_access_text(NAME) + text,
        arguments=arguments,
        work_items=count,
        cost_ns=cost_ns(count * cycles, arguments[:1]),
        label=f"{count} {what} of strings",
        operations=kernel.operations,
        reads_strings=True,
    )
