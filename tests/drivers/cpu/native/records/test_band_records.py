"""Kernels run in bands by the number of threads; descriptions have the announced size."""

import numpy as np
import pytest

from neurald.drivers.cpu.native.records import band_records
from neurald.drivers.cpu.native.records.band_records import chosen, described_words, description
from neurald.drivers.cpu.target.executable import (
    ANY_THREADS,
    MAX_BANDED_ARGUMENTS,
    RECORD_WORDS,
    BandedCalls,
    BandStream,
)


def banded(
    first: int, calls: int, threads: tuple[int, int] = (1, ANY_THREADS), bands: int = 12
) -> BandedCalls:
    """Returns bands whose table has consecutive numbers."""
    return BandedCalls(
        first=first,
        calls=calls,
        turn=2,
        min_threads=threads[0],
        max_threads=threads[1],
        streams=(BandStream(offset=128, size_bytes=64, places=((0, 0), (1, 2))),),
        table=np.arange(2 * bands * (calls + 1)).tobytes(),
    )


@pytest.fixture(autouse=True)
def large_code_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(band_records, "code_cache_bytes", lambda: 64 << 10)


def test_one_thread_has_bands_if_the_code_of_several_kernels_stays_in_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert chosen((banded(0, 2),), 1, [0.0] * 2)
    monkeypatch.setattr(band_records, "code_cache_bytes", lambda: 32 << 10)
    assert not chosen((banded(0, 2),), 1, [0.0] * 2)
    assert chosen((banded(0, 2),), 2, [0.0] * 2)


def test_sequences_do_not_overlap_and_are_for_the_number_of_threads() -> None:
    whole, part, other = banded(0, 4, (1, 2)), banded(1, 2), banded(4, 2, (2, ANY_THREADS))
    found = {threads: chosen((whole, part, other), threads, [0.0] * 6) for threads in (1, 2, 3)}
    assert found == {1: {0: whole}, 2: {0: whole, 4: other}, 3: {1: part, 4: other}}


def test_threads_do_not_wait_longer_than_bands_save() -> None:
    def used(bands: int, cost_ns: float) -> list[int]:
        costs = [cost_ns / 2] * 2
        return [n for n in range(1, 17) if chosen((banded(0, 2, bands=bands),), n, costs)]

    assert used(14, 1e3) == list(range(1, 17))
    # Two threads have 7 bands each, and neither waits for many others. Four threads have at most 4,
    # and those who have 3 wait.
    assert used(14, 1e6) == [1, 2]
    # Of 13 threads one has two bands.
    assert used(14, 1e5) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16]
    assert used(1120, 1e6) == list(range(1, 17))


def test_descriptions() -> None:
    each = banded(0, 2, bands=3)
    words = description(each, (3, 4))
    assert len(words) + 1 + 2 * RECORD_WORDS == described_words(each)
    assert words[:6] == [2, 3, 2, 1, 128, 64]
    sources = words[6 : 6 + 2 * (1 + MAX_BANDED_ARGUMENTS)]
    assert sources[:4] == [3, 1, 0, 0]
    assert sources[1 + MAX_BANDED_ARGUMENTS :][:5] == [4, 0, 0, 1, 0]
    assert words[6 + len(sources) :] == list(range(18))
