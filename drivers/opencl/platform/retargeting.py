"""Instructions and local memory of an NVIDIA GPU that its OpenCL compiler does not offer.

NVIDIA's compiler accepts only instructions of every GPU of a generation, and at most 48 KB of local
memory. It returns programs as PTX, though, and accepts PTX for the very GPU (`sm_90a`), where a
group may have up to 227 KB. Texts therefore hide these instructions as comments of inline assembly,
which the compiler passes on, and declare large local memory smaller; `retargeted` completes the
PTX.
"""

import re
from typing import Final

from neurald.hal.errors import OpFailed

#: Begins a line of inline assembly whose rest is an instruction.
HIDDEN: Final = "//@"
#: Local memory that the compiler accepts.
_MAX_DECLARED_BYTES: Final = 48 * 1024
#: Begins the name of local memory; its size follows.
_LOCAL: Final = "neurald_local_"

_TARGET = re.compile(r"^\.target\s+(sm_\d+)\b", re.MULTILINE)
_DECLARED = re.compile(rf"^(\s*\.shared\b.*{_LOCAL}(\d+))\[\d+\];", re.MULTILINE)


def declared_local_memory(size_bytes: int) -> tuple[str, int]:
    """Returns the name and declared size of local memory that may be above the compiler's limit."""
    return f"{_LOCAL}{size_bytes}", min(size_bytes, _MAX_DECLARED_BYTES)


def is_retargeted(text: str) -> bool:
    """Returns True if a program's text needs `retargeted` after it is built."""
    return HIDDEN in text


def retargeted(code: bytes) -> bytes:
    """Returns the PTX of a program for the architecture of the very GPU.

    Args:
        code: the binary of a program for which `is_retargeted` is true.

    Raises:
        OpFailed: the binary is not PTX.
    """
    text = code.rstrip(b"\0").decode("latin1")
    text, count = _TARGET.subn(r".target \1a", text)
    if count != 1:
        raise OpFailed(
            f"the binary of a program is not PTX with one target; found {count} targets in {len(code)} bytes"
        )
    return _DECLARED.sub(r"\1[\2];", text).replace(HIDDEN, "").encode("latin1")
