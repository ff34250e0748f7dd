import time

import pytest

from neurald.service.benchmark.pacing import Pacing


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


def test_a_delay(slept: list[float]) -> None:
    for _ in range(2):
        Pacing(0.5).wait()
    Pacing().wait()
    assert slept == [0.5, 0.5]


def test_a_frequency(slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 10.02, 10.5, 10.52])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    pacing = Pacing(9.0, frequency_hz=10)
    for _ in range(4):
        pacing.wait()
    # The third run is late; the fourth one does not make up for it.
    assert slept == pytest.approx([0.1, 0.18, 0.0, 0.08])
