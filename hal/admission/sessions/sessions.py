"""The open sessions of a daemon, by the tokens that calls carry, within limits for each user."""

import threading
from collections import Counter
from weakref import WeakValueDictionary

from neurald.hal.accounting.daemon_accounts import DaemonAccounts
from neurald.hal.accounting.limits import Limits, UserCalls
from neurald.hal.admission.sessions.session import Session
from neurald.hal.errors import SESSION_OVER, DeadObject, ResourceExhaustedTransient


class Sessions:
    """The open sessions of a daemon. Thread-safe.

    Attributes:
        accounts: the accounts of the daemon; each session is charged in some of its own below them.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._by_token: dict[bytes, Session] = {}
        # An entry goes with the last session of its user.
        self._user_calls: WeakValueDictionary[int | str | None, UserCalls] = WeakValueDictionary()
        self.accounts = DaemonAccounts(limits)

    def open(self, user: int | str | None = None) -> Session:
        """Opens a session.

        Args:
            user: the user of the client: the number of a user of this host, or another host; None
                where that is not known.

        Raises:
            ResourceExhaustedTransient: the daemon, or the user, has too many.
        """
        with self._lock:
            if len(self._by_token) >= self._limits.sessions:
                raise ResourceExhaustedTransient(
                    f"{self._limits.sessions} sessions are open, which is the most that the daemon may have (sessions)"
                )
            sessions_of = Counter(session.user for session in self._by_token.values())
            if sessions_of[user] >= self._limits.user_sessions:
                raise ResourceExhaustedTransient(
                    f"{self._limits.user_sessions} sessions of one user are open, which is the most that it may "
                    "have (user_sessions)"
                )
            calls = self._user_calls.get(user) or UserCalls(self._limits)
            self._user_calls[user] = calls
            session = Session(self._limits, user, calls, self.accounts.session(user))
            self._by_token[session.token] = session
        return session

    def find(self, token: bytes) -> Session:
        """Returns the open session of a token.

        Raises:
            DeadObject: no open session has it.
        """
        with self._lock:
            session = self._by_token.get(token)
        if session is None:
            raise unknown_session()
        return session

    def close(self, session: Session) -> None:
        """Ends a session; does nothing if it is over."""
        with self._lock:
            self._by_token.pop(session.token, None)
        session.close()

    def all(self) -> tuple[Session, ...]:
        """Returns the sessions that are open now."""
        with self._lock:
            return tuple(self._by_token.values())


def unknown_session() -> DeadObject:
    """Returns the error for a call that carries the token of no open session."""
    return DeadObject(f"no open session has this token: it is of another daemon, or {SESSION_OVER}")
