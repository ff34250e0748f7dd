"""Sources of strings in the memory of a step, and how native code reads them.

`neurald.drivers.compiler.ir.string_references` describes references. The words of the sources are
their number, and then for each the number of its strings and the address of their objects. A string
is a `bytes` object of CPython, which never changes: the caller of a step keeps its strings alive.
"""

from typing import Final

from neurald.drivers.compiler.ir.string_references import POSITION_BITS

#: Number of words before the first source, and of each source.
HEAD_WORDS: Final = 1
SOURCE_WORDS: Final = 2
#: Offsets in `PyObject` and `PyBytesObject`: of the type, of the length, and of the first byte.
OBJECT_TYPE: Final = 8
STRING_LENGTH: Final = 16
STRING_BYTES: Final = 32


def string_access_text(prefix: str) -> str:
    """Returns the IR of functions that read strings.

    `PREFIX_string` returns the object that a reference refers to, `PREFIX_equal` compares bytes,
    and `PREFIX_word` reads eight of them.

    Args:
        prefix: begins the names of the functions.
    """
    from neurald.drivers.compiler.support.kernel_file import kernel_text

    return kernel_text(
        __name__,
        "string_sources.ll",
        PREFIX=prefix,
        POSITION_BITS=POSITION_BITS,
        POSITION_MASK=(1 << POSITION_BITS) - 1,
    )
