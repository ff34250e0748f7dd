"""Processes that owe an answer, on machines with and without free processors."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from neurald.service.inference.models.workers.silence import Silence

TICKS = 100


class Process:
    """A process of which the kernel says what the test wants, and its silence."""

    def __init__(self, folder: Path) -> None:
        self._tasks = folder / "7" / "task"
        self.now_s = 0.0
        self.silence = Silence(7, lambda: self.now_s, folder)
        self.silence.asked()

    def looked(self, *threads: tuple[str, float], after_s: float = 0.05) -> tuple[bool, bool]:
        """Looks at threads with a state and seconds of processor time; returns what is found."""
        for number, (state, computed_s) in enumerate(threads):
            (self._tasks / str(number)).mkdir(parents=True, exist_ok=True)
            fields = [state, *"0" * 10, str(int(computed_s * TICKS)), "0", *"0" * 20]
            (self._tasks / str(number) / "stat").write_text(f"{number} (a) R b) {' '.join(fields)}\n")
        self.now_s += after_s
        self.silence.look()
        return self.silence.is_hang, self.silence.is_hopeless


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    monkeypatch.setattr("neurald.service.inference.models.workers.silence._TICK_S", 1 / TICKS)
    return Process(tmp_path)


@pytest.mark.parametrize(
    "threads",
    [
        [[("S", 0.0), ("S", 0.0)]] * 4,  # a deadlock
        [[("R", 0.05 * look), ("S", 0.0)] for look in range(4)],  # an endless loop
    ],
)
def test_a_process_that_could_answer_hangs(
    process: Process, threads: Sequence[Sequence[tuple[str, float]]]
) -> None:
    assert [process.looked(*each)[0] for each in threads] == [False, False, True, True]


def test_a_stopped_process_hangs_at_once(process: Process) -> None:
    assert process.looked(("T", 0.0), ("T", 0.0)) == (True, False)
    for _ in range(70):
        process.looked(("T", 0.0), ("T", 0.0))
    assert process.silence.is_hopeless


@pytest.mark.parametrize("state", ["R", "D"])
def test_a_process_without_a_processor_is_believed_for_longer(process: Process, state: str) -> None:
    found = [process.looked(("S", 0.0), (state, 0.01)) for _ in range(30)]
    assert [each for each, _ in found].index(True) == pytest.approx(19, abs=1)  # after a second
    assert not any(hopeless for _, hopeless in found)


def test_an_answer_ends_it(process: Process) -> None:
    for _ in range(5):
        process.looked(("S", 0.0))
    process.silence.answered()
    assert not process.silence.is_hang
    assert process.looked(("S", 0.0)) == (False, False)  # nothing is due


def test_time_in_which_nobody_looked_does_not_count(process: Process) -> None:
    assert process.looked(("S", 0.0), after_s=60.0) == (False, False)
    assert process.looked(("S", 0.0), after_s=60.0) == (False, False)


def test_a_process_that_is_gone_is_not_looked_at(process: Process) -> None:
    assert process.looked() == (False, False)
