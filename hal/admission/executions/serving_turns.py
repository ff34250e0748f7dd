"""Turns of the threads that serve clients, before they compete for the interpreter.

Python runs one thread at a time, and when the interpreter becomes free any of the threads that want
it may get it. A client with many threads has as many in the daemon, and a client with one would
wait for most of them, several times for each call. So a thread that has been woken by a submission
or by a call over gRPC takes a turn first, which it ends before it waits or computes. Only one
thread at a time has a turn.

Users, who may not trust each other, take turns whatever the number of their sessions, and one of
greater weight takes that many times the turns of others. The sessions of a user take turns whatever
the number of their threads, and the threads of a session go in order of arrival. A call that
arrives thus waits for the end of the current turn, and for at most one turn of each other user,
times its weight, and of each other session of its own user. Priorities do not count here: they
decide who computes next, which takes longer than a turn.
"""

import contextlib
import threading
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Mapping
from typing import Final

#: A thread that takes longer loses its turn, so that none waits long for one that the system has
#: stopped. Turns usually take less than a tenth of a millisecond.
MAX_TURN_S: Final = 2e-3
#: With more waiting threads, each looks less often whether a turn takes too long.
_MAX_FAST_POLLERS: Final = 4


class ServingTurns:
    """Gives turns to threads that serve clients, one at a time. Thread-safe.

    Args:
        weights: the weights of users; 1 for all others.

    Attributes:
        polling: the lock that is held by the thread that polls for the submission of its client;
            others sleep.
    """

    def __init__(self, weights: Mapping[Hashable, float] | None = None) -> None:
        self.polling = threading.Lock()
        self._weights = weights or {}
        self._lock = threading.Lock()
        self._own = _OwnPlace()
        self._holder: ServingPlace | None = None
        #: The threads that wait, by user and by session, each in the order in which they are next.
        self._users: OrderedDict[Hashable, OrderedDict[Hashable, deque[ServingPlace]]] = OrderedDict()
        #: How many turns each user has had, divided by its weight, and how many the holder had
        #: before its turn. The user with the fewest is next; one who was away has no fewer than the
        #: holder. The counts restart whenever no thread has a turn.
        self._had: dict[Hashable, float] = {}
        self._level = 0.0
        self._waiting = 0
        self._given = 0

    @property
    def waiting(self) -> int:
        """The number of threads that wait for a turn."""
        return self._waiting

    def place(self, user: Hashable, session: Hashable) -> "ServingPlace":
        """Returns the place of a thread that serves a session of a user."""
        return ServingPlace(self, user, session)

    @contextlib.contextmanager
    def turn(self, user: Hashable, session: Hashable) -> Iterator["ServingPlace"]:
        """Waits for a turn, which ends with the context unless it was ended before."""
        place = self.place(user, session)
        place.take()
        try:
            yield place
        finally:
            place.end()

    def end_own(self) -> None:
        """Ends the turn of the calling thread, if it has one, because it waits or computes."""
        place = self._own.place
        if place is not None:
            place.end()

    def take(self, place: "ServingPlace") -> None:
        """Waits for a turn; `ServingPlace.take` calls this."""
        self._own.place = place
        with self._lock:
            if self._holder is None:
                self._had.clear()
                self._level = 0.0
                self._hold(place)
                return
            sessions = self._users.get(place.user)
            if sessions is None:
                sessions = self._users[place.user] = OrderedDict()
                self._had[place.user] = max(self._had.get(place.user, 0.0), self._level)
            sessions.setdefault(place.session, deque()).append(place)
            self._waiting += 1
            given = self._given
        while not place.ready.acquire(timeout=MAX_TURN_S * max(1.0, self._waiting / _MAX_FAST_POLLERS)):
            with self._lock:
                if self._given == given:  # the same turn has taken all this time
                    self._give_next()
                given = self._given

    def end(self, place: "ServingPlace") -> None:
        """Ends a turn, unless it took so long that it was lost."""
        with self._lock:
            if self._holder is place:
                self._give_next()

    def _give_next(self) -> None:
        """Gives the turn to the next thread that waits, if any. The lock is held."""
        self._given += 1
        if self._holder is not None:
            self._move_to_end(self._holder)
        self._holder = None
        place = self._next()
        if place is not None:
            self._hold(place)
            place.ready.release()

    def _hold(self, place: "ServingPlace") -> None:
        """Records that a thread has the turn. The lock is held."""
        self._holder = place
        self._level = max(self._had.get(place.user, 0.0), self._level)
        self._had[place.user] = self._level + 1 / self._weights.get(place.user, 1.0)

    def _move_to_end(self, place: "ServingPlace") -> None:
        """Lets those go first that wait since the turn of this thread began, or longer."""
        sessions = self._users.get(place.user)
        if sessions is None:
            return
        self._users.move_to_end(place.user)
        if place.session in sessions:
            sessions.move_to_end(place.session)

    def _next(self) -> "ServingPlace | None":
        """Takes the thread that is next out of the queue."""
        if not self._waiting:
            return None
        self._waiting -= 1
        user, sessions = min(self._users.items(), key=lambda each: self._had[each[0]])
        session, places = next(iter(sessions.items()))
        place = places.popleft()
        if not places:
            del sessions[session]
            if not sessions:
                del self._users[user]
        return place


class _OwnPlace(threading.local):
    """The place at which the calling thread took its last turn."""

    place: "ServingPlace | None" = None


class ServingPlace:
    """The place of one thread among those that take turns. Only that thread may use it.

    Attributes:
        user: whose session it serves.
        session: the session that it serves.
        ready: the lock that it can acquire once it has a turn that it waited for.
    """

    __slots__ = ("_has_turn", "_turns", "ready", "session", "user")

    def __init__(self, turns: ServingTurns, user: Hashable, session: Hashable) -> None:
        self._turns = turns
        self._has_turn = False
        self.user = user
        self.session = session
        self.ready = threading.Lock()
        self.ready.acquire()

    def take(self) -> None:
        """Waits for a turn; `end` follows."""
        self._turns.take(self)
        self._has_turn = True

    def end(self) -> None:
        """Ends the turn, if the thread has one."""
        if self._has_turn:
            self._has_turn = False
            self._turns.end(self)
