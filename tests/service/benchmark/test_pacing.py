from collections.abc import Iterator

import pytest

from neurald.service.benchmark import pacing
from neurald.service.benchmark.pacing import Pacing


class Clock:
    """The clock of the module alone: other threads also sleep and ask for the time."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.times: Iterator[float] = iter(())

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def monotonic(self) -> float:
        return next(self.times)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pacing, "time", clock)
    return clock


def test_a_delay(clock: Clock) -> None:
    clock.times = iter([10.0] * 9)
    for _ in range(2):
        Pacing(0.5).wait()
    Pacing().wait()
    assert clock.slept == [0.5, 0.5]


def test_a_frequency(clock: Clock) -> None:
    clock.times = iter([10.0, 10.02, 10.11, 10.42, 10.43, 10.44])
    paced = Pacing(9.0, frequency_hz=10)
    for _ in range(5):
        paced.wait()
    # The third run takes 0.3 s: the next ones make up for it.
    assert clock.slept == pytest.approx([0.08, 0.09, 0.0, 0.0, 0.06])


def test_the_rate_of_runs_with_pauses_is_that_of_their_begins() -> None:
    # Runs of 10 ms that begin every 50 ms: at 0, 50, 100 and 150 ms.
    assert Pacing(frequency_hz=20).rate([0.01] * 4, 0.16) == pytest.approx(20)
    assert Pacing(0.04).rate([0.01] * 4, 0.16) == pytest.approx(20)
    assert Pacing(0.04).rate([0.01], 0.01) is None
    assert Pacing().rate([0.01] * 4, 0.04) is None
