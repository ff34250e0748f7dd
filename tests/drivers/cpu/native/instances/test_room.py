"""Memory that is much larger than what executions need is given up after a period, not before."""

import time

import pytest

from neurald.drivers.cpu.native.instances.room import FACTOR, MIN_BYTES, PERIOD_S, Room


def test_memory_is_excessive_after_a_period_of_small_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    size_bytes = FACTOR * MIN_BYTES
    large, small = Room(size_bytes), Room(MIN_BYTES - 1)
    needs = [
        # Seconds, need, and whether the memory is excessive.
        (0.0, size_bytes, False),
        (PERIOD_S - 1, 1, False),
        (1.0, 1, False),
        (PERIOD_S / 2, MIN_BYTES - 1, False),
        (PERIOD_S / 2, 1, True),
    ]
    for seconds, need, is_excessive in needs:
        now[0] += seconds
        assert large.is_excessive(need) is is_excessive
        assert not small.is_excessive(1)
    for need in (1, MIN_BYTES, 1, 1):
        now[0] += PERIOD_S / 3
        assert not large.is_excessive(need)
