"""Turns of the threads that serve clients: shared by users, their sessions, and their threads."""

import threading
from collections.abc import Callable, Iterator

import pytest
from support.waiting import wait_until

from neurald.hal.admission.executions import serving_turns
from neurald.hal.admission.executions.serving_turns import ServingPlace, ServingTurns


class Crowd:
    """Threads that each take one turn, in the order in which they are added."""

    def __init__(self, turns: ServingTurns) -> None:
        self.turns = turns
        self.order: list[str] = []
        self._threads: list[threading.Thread] = []

    def add(self, user: str, session: str, act: Callable[[], object] = lambda: None) -> None:
        """Adds a thread, which waits for its turn on return."""
        waiting = self.turns.waiting

        def serve() -> None:
            place = self.turns.place(user, session)
            place.take()
            self.order.append(session)
            act()
            place.end()

        self._threads.append(threading.Thread(target=serve))
        self._threads[-1].start()
        wait_until(lambda: self.turns.waiting == waiting + 1)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> ServingTurns:
    """Turns that are not lost."""
    monkeypatch.setattr(serving_turns, "MAX_TURN_S", 1000.0)
    return ServingTurns()


@pytest.fixture
def held(turns: ServingTurns) -> Iterator[ServingPlace]:
    place = turns.place("first", "first")
    place.take()
    yield place
    place.end()


def test_a_turn_that_is_free_is_taken_at_once(turns: ServingTurns) -> None:
    first, second = turns.place("u", 1), turns.place("u", 2)
    for _ in range(3):
        for place in (first, second):
            place.take()
            assert not turns.waiting
            place.end()


def test_a_session_of_many_threads_takes_one_turn_before_another_session(
    turns: ServingTurns, held: ServingPlace
) -> None:
    crowd = Crowd(turns)
    for _ in range(16):
        crowd.add("u", "crowded")
    crowd.add("u", "honest")
    held.end()
    crowd.join()
    assert crowd.order == ["crowded", "honest", *["crowded"] * 15]


def test_a_user_of_many_sessions_takes_one_turn_before_another_user(
    turns: ServingTurns, held: ServingPlace
) -> None:
    crowd = Crowd(turns)
    for number in range(5):
        crowd.add("hostile", f"session {number}")
    for _ in range(2):
        crowd.add("honest", "honest")
    held.end()
    crowd.join()
    assert crowd.order == [
        "session 0",
        "honest",
        "session 1",
        "honest",
        *(f"session {number}" for number in range(2, 5)),
    ]


def test_a_user_of_greater_weight_takes_more_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_turns, "MAX_TURN_S", 1000.0)
    turns = ServingTurns({"heavy": 3})
    held = turns.place("first", "first")
    held.take()
    crowd = Crowd(turns)
    for user in ("light", "heavy", "other"):
        for _ in range(6):
            crowd.add(user, user)
    held.end()
    crowd.join()
    assert [crowd.order[:10].count(user) for user in ("light", "heavy", "other")] == [2, 6, 2]


def test_a_user_of_less_weight_that_asks_again_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no thread that waits while it has a turn, and is not taken for a newcomer then."""
    monkeypatch.setattr(serving_turns, "MAX_TURN_S", 1000.0)
    turns, order = ServingTurns({"light": 0.25}), list[str]()
    held = turns.place("first", "first")
    held.take()

    def serve(user: str) -> None:
        place = turns.place(user, user)
        for _ in range(20):
            place.take()
            order.append(user)
            wait_until(lambda: turns.waiting >= 2 or len(order) >= 22)
            place.end()

    threads = [threading.Thread(target=serve, args=(name,)) for name in ("light", "usual", "usual")]
    for thread in threads:
        thread.start()
    wait_until(lambda: turns.waiting == len(threads))
    held.end()
    for thread in threads:
        thread.join(30)
    assert len(order) == 60
    assert order[:20].count("light") == 4


def test_a_user_who_was_away_has_saved_no_turns(turns: ServingTurns, held: ServingPlace) -> None:
    """After many turns of one user, another one gets every second turn, and not all of them."""
    crowd = Crowd(turns)

    def all_come() -> None:
        for user in ("busy", "newcomer"):
            for _ in range(4):
                crowd.add(user, user)

    for _ in range(20):
        crowd.add("busy", "busy")
    crowd.add("busy", "busy", all_come)
    held.end()
    wait_until(lambda: turns.waiting == 0)
    crowd.join()
    assert crowd.order == [*["busy"] * 21, *["newcomer", "busy"] * 4]


def test_users_who_have_had_turns_are_forgotten(turns: ServingTurns) -> None:
    for user in range(100):
        with turns.turn(user, user):
            assert list(turns._had) == [user]


def test_a_turn_is_that_of_a_session_of_a_user(turns: ServingTurns) -> None:
    with turns.turn("user", "session") as place:
        assert (place.user, place.session) == ("user", "session")


def test_a_thread_ends_its_own_turn(turns: ServingTurns) -> None:
    turns.end_own()  # it never had one
    with turns.turn("u", 1) as place:
        thread = threading.Thread(target=turns.end_own)
        thread.start()
        thread.join()
        assert turns._holder is place
        turns.end_own()
        assert turns._holder is None
        place.take()
    assert turns._holder is None


def test_a_thread_that_asks_again_goes_last(turns: ServingTurns, held: ServingPlace) -> None:
    """Two sessions that always ask get every second turn each, however many threads they have."""
    order: list[str] = []

    def serve(session: str) -> None:
        place = turns.place("u", session)
        for _ in range(20):
            place.take()
            order.append(session)
            wait_until(lambda: turns.waiting >= 3 or len(order) >= 38)
            place.end()

    threads = [threading.Thread(target=serve, args=(name,)) for name in ("many", "many", "many", "one")]
    for thread in threads:
        thread.start()
    wait_until(lambda: turns.waiting == len(threads))
    held.end()
    for thread in threads:
        thread.join(30)
    assert len(order) == 80
    assert order[:38].count("one") == 19


def test_a_turn_that_takes_too_long_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_turns, "MAX_TURN_S", 1e-3)
    turns, crowd = ServingTurns(), Crowd(ServingTurns())
    crowd.turns = turns
    stuck = turns.place("u", "stuck")
    stuck.take()
    is_over = threading.Event()

    def serve() -> None:
        turns.place("u", 2).take()
        is_over.set()

    thread = threading.Thread(target=serve)
    thread.start()
    assert is_over.wait(30)
    thread.join()
    stuck.end()  # ends nothing, since another thread has the turn by now
    late = turns.place("u", 3)
    assert turns._holder is not None
    late.take()  # from the thread that ended with a turn
    assert turns._holder is late
    late.end()
    late.end()
    assert turns._holder is None
