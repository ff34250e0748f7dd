import math
import threading
from collections.abc import Callable

import pytest
from faults.managed.matrix_pace import Dealer, Pace
from faults.managed.matrix_report import PlayedCell

_WAIT_S = 30.0


def _cell(fault: str = "kill", recovery_s: float | None = 0.2) -> PlayedCell:
    return PlayedCell(fault, "burst", call_s=0.1, recovery_s=recovery_s)


def _play(pace: Pace, count: int, late: int, late_s: float | None) -> None:
    for number in range(count):
        pace.played(_cell(recovery_s=late_s if number < late else 0.2))


def test_more_cells_are_played_while_there_are_cores_to_spare() -> None:
    pace = Pace(most=7, first=2)
    _play(pace, 100, late=4, late_s=9.0)
    assert pace.now == 6
    _play(pace, 100, late=0, late_s=9.0)
    assert (pace.now, pace.fewest, pace.most) == (7, 2, 7)


@pytest.mark.parametrize("late_s", [0.56, None])
def test_fewer_cells_are_played_when_they_delay_each_other(late_s: float | None) -> None:
    pace = Pace(most=100, first=60)
    _play(pace, 100, late=5, late_s=late_s)
    assert (pace.now, pace.fewest) == (51, 51)
    assert Pace(most=3, first=60).now == 3
    assert Pace(most=3, first=0).now == 1


def test_times_are_those_of_slow_machines_and_of_faults_that_are_noticed_at_once() -> None:
    pace = Pace(most=100, first=60, slack=20.0)
    _play(pace, 100, late=50, late_s=10.0)
    assert pace.now == 60  # between the two times
    for _ in range(1000):
        pace.played(_cell("stop", math.inf))
    assert pace.now == 60


def test_cells_are_dealt_in_order_once_all_jobs_are_ready() -> None:
    cells = [(str(number), "burst") for number in range(20)]
    dealer = Dealer(cells, 3, Pace(most=2, first=2))
    begun: list[tuple[str, str]] = []
    playing: list[int] = [0]
    most: list[int] = []

    def job() -> None:
        dealer.arrive()
        while (cell := dealer.take()) is not None:
            begun.append(cell)
            playing[0] += 1
            most.append(playing[0])
            playing[0] -= 1
            dealer.give_back(_cell())
        dealer.leave()

    _join([job, job, dealer.leave])
    assert begun == cells
    assert max(most) <= 2


def test_no_cell_begins_after_the_end() -> None:
    dealer = Dealer([("kill", "burst")] * 3, 1, Pace(most=1, first=1), seconds=0.0)
    dealer.arrive()
    assert dealer.take() is None
    dealer.leave()


def test_jobs_that_die_leave_nobody_waiting() -> None:
    dealer = Dealer([("kill", "burst")] * 9, 2, Pace(most=1, first=1))

    def dies() -> None:
        dealer.arrive()
        assert dealer.take() is not None
        dealer.give_back(None)
        dealer.leave()

    _join([dies, dies])


def test_a_stop_ends_waiting() -> None:
    dealer = Dealer([("kill", "burst")] * 9, 2, Pace(most=1, first=1))
    waiting = threading.Thread(target=dealer.arrive, daemon=True)
    waiting.start()
    dealer.stop()
    waiting.join(_WAIT_S)
    assert not waiting.is_alive()
    assert dealer.take() is None
    dealer.leave()


def _join(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_WAIT_S)
    assert not any(thread.is_alive() for thread in threads)
