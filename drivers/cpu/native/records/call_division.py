"""Divides calls of kernels among threads, and into pieces after which they may be stopped."""

import math
from typing import Final

from msgspec import Struct

from neurald.drivers.cpu.native.programs.step_program import (
    MAX_BALANCING_CHUNKS,
    MAX_CHUNKS_OF_PART,
    MIN_SHARED_NS,
    PIECE_NS,
)

#: Target time of a chunk, which limits the effect of a delayed thread.
_CHUNK_NS: Final = 10_000.0
#: Maximum number of pieces of an unshared call, and of the work items of a piece.
_MAX_PIECES: Final = 1 << 20
_MAX_PIECE_ITEMS: Final = 1 << 40


class CallDivision(Struct, frozen=True, kw_only=True):
    """The division of a call among threads.

    Attributes:
        parts: one for each thread that the call has work for; with one part it is not shared.
        chunks: number of chunks of each part.
    """

    parts: int
    chunks: int

    @property
    def word(self) -> int:
        """Both, as a record has them."""
        return self.parts | self.chunks << 32


def division(work_items: int, cost_ns: float, threads: int) -> CallDivision:
    """Returns how a call is shared among this many threads."""
    parts = min(work_items, threads)
    if parts < 2 or cost_ns < MIN_SHARED_NS:
        return CallDivision(parts=1, chunks=1)
    wanted = min(MAX_BALANCING_CHUNKS, int(cost_ns / (parts * _CHUNK_NS)))
    # The first of many chunks is twice the average.
    least = math.ceil(2 * math.ceil(cost_ns / PIECE_NS) / parts)
    chunks = min(max(1, wanted, least), work_items // parts, MAX_CHUNKS_OF_PART)
    return CallDivision(parts=parts, chunks=chunks)


def piece_items(work_items: int, cost_ns: float) -> int:
    """Returns the number of work items after which an unshared call may be stopped.

    It is that of a target time even if the call has fewer, since lengths may change their number.
    """
    wanted = math.ceil(min(_MAX_PIECE_ITEMS, work_items * PIECE_NS / max(1.0, cost_ns)))
    return max(1, wanted, -(-work_items // _MAX_PIECES))
