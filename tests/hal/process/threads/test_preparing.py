"""Work in the background waits while the application prepares models, and a little longer."""

import threading

import pytest
from support.daemon.forking import in_child

from neurald.hal.process.threads import preparing
from neurald.hal.process.threads.preparing import Preparing


class Clock:
    """A clock that stands still."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(preparing, "time", found)
    return found


def check_rests(state: Preparing) -> None:
    assert state.left_s(1000.0) == 0.0


def test_it_rests_some_time_after_the_last_model(clock: Clock) -> None:
    state = Preparing()
    assert state.left_s(2.0) == 0.0
    with state:
        clock.now_s += 10
        with state:
            pass
        assert state.left_s(2.0) == 2.0
    clock.now_s += 0.5
    assert state.left_s(2.0) == 1.5
    clock.now_s += 5
    assert state.left_s(2.0) == 0.0


def test_it_rests_after_a_failure(clock: Clock) -> None:
    state = Preparing()
    with pytest.raises(KeyError), state:
        raise KeyError
    clock.now_s += 2
    assert state.left_s(2.0) == 0.0


def test_several_threads_prepare() -> None:
    state = Preparing()

    def prepare() -> None:
        for _ in range(1000):
            with state:
                pass

    threads = [threading.Thread(target=prepare) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert state.left_s(0.0) == 0.0


@pytest.mark.forks
def test_a_child_prepares_nothing() -> None:
    state = Preparing()
    with state:
        in_child(lambda: check_rests(state))
    assert state.left_s(1000.0) > 0
