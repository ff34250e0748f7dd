"""Describes kernels that run in bands in the memory of a step; see `step_program`."""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from neurald.drivers.cpu.native.programs.step_program import MAX_BALANCING_CHUNKS
from neurald.drivers.cpu.target.executable import (
    MAX_BANDED_ARGUMENTS,
    RECORD_WORDS,
    WORD_BYTES,
    BandedCalls,
)
from neurald.drivers.cpu.target.processor import code_cache_bytes

#: Words of the description of bands before what it has for each stream.
_FIXED_WORDS: Final = 5
#: Time that threads save where they need not wait for each other between two kernels, and read
#: results that are in their own caches.
_SAVED_NS: Final = 8_000
#: Share of the time of a band that threads wait for a slower one, if there are many. A virtual core
#: may be slower by half while another program uses what it shares with its neighbour.
_UNEVEN: Final = 0.35
#: Minimum size of the cache of instructions for bands with one thread, which save no waiting: the
#: code of several kernels is used in turn.
_MIN_CODE_CACHE_BYTES: Final = 48 << 10


def chosen(banded: Sequence[BandedCalls], threads: int, costs_ns: Sequence[float]) -> dict[int, BandedCalls]:
    """Returns sequences of kernels that do not overlap, by their first kernel.

    Args:
        banded: the sequences; longer ones come first.
        threads: the number of threads.
        costs_ns: the estimated time of each kernel of the step with one thread.
    """
    if threads == 1 and code_cache_bytes() < _MIN_CODE_CACHE_BYTES:
        return {}
    found: dict[int, BandedCalls] = {}
    taken: set[int] = set()
    for each in banded:
        own = range(each.first, each.first + each.calls)
        if not each.min_threads <= threads <= each.max_threads or not taken.isdisjoint(own):
            continue
        if _idle_ns(each, threads, sum(costs_ns[each.first : own.stop])) <= _SAVED_NS * (each.calls - 1):
            found[each.first] = each
            taken.update(own)
    return found


def _idle_ns(banded: BandedCalls, threads: int, cost_ns: float) -> float:
    """Returns how long threads without bands wait for the others; kernels alone have smaller parts.

    Threads of different speed end at different times, the later the longer their last band is. With
    two threads, neither waits for the slowest of many.
    """
    most = -(-banded.bands // threads)
    last_chunk = 1 / (threads * MAX_BALANCING_CHUNKS**2)
    longer = max(0.0, 1 / banded.bands - last_chunk) * (1 - 2 / threads) if threads > 2 else 0.0
    return cost_ns * (most / banded.bands - 1 / threads + _UNEVEN * longer)


def described_words(banded: BandedCalls) -> int:
    """Returns the size of the records of the kernels and of the description, in words."""
    words = _FIXED_WORDS + 2 * len(banded.streams) + (1 + MAX_BANDED_ARGUMENTS) * banded.calls
    return RECORD_WORDS * banded.calls + words + len(banded.table) // WORD_BYTES


def description(banded: BandedCalls, counts: Sequence[int]) -> list[int]:
    """Returns the words of a description behind the address of the records.

    Args:
        banded: the kernels.
        counts: the number of arguments of each.
    """
    sources = [[count, *[0] * MAX_BANDED_ARGUMENTS] for count in counts]
    for number, stream in enumerate(banded.streams, 1):
        for kernel, argument in stream.places:
            sources[kernel][1 + argument] = number
    return [
        banded.calls,
        banded.bands,
        banded.turn,
        len(banded.streams),
        *chain.from_iterable((each.offset, each.size_bytes) for each in banded.streams),
        *chain.from_iterable(sources),
        *banded.words(),
    ]
