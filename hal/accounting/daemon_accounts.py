"""The accounts of a daemon: the daemon's own, one for each user, and one for each session."""

import threading
from weakref import WeakValueDictionary

from neurald.hal.accounting.account import Account
from neurald.hal.accounting.holdings import SessionAccounts
from neurald.hal.accounting.limits import Limits

#: How much each session may have whatever other sessions use: this fraction of what its user may
#: have, but no more than these amounts.
_FLOOR_SHARE = 256
_FLOOR_BYTES = 16 << 20
_FLOOR_DESCRIPTORS = 16


class DaemonAccounts:
    """Opens accounts within the limits of a daemon. Thread-safe.

    Attributes:
        memory: the memory of the whole daemon.
        descriptors: the descriptors of the whole daemon.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self.memory = Account("the daemon", limits.total_memory_bytes, name="total_memory_bytes")
        self.descriptors = Account(
            "the daemon", limits.total_descriptors, name="total_descriptors", unit="descriptors"
        )
        # An entry goes with the last session and the last reservation of its user.
        self._users: WeakValueDictionary[tuple[int | str | None, str], Account] = WeakValueDictionary()

    def session(self, user: int | str | None) -> SessionAccounts:
        """Opens the accounts of a new session.

        Args:
            user: the user of the client; None if that is not known.
        """
        limits = self._limits
        memory = self._of_user(user, self.memory, limits.user_memory_limit, "user_memory_bytes", "bytes")
        descriptors = self._of_user(
            user, self.descriptors, limits.user_descriptors, "user_descriptors", "descriptors"
        )
        return SessionAccounts(
            memory=Account(
                "a session",
                limits.memory_bytes,
                name="memory_bytes",
                parent=memory,
                floor=min(_FLOOR_BYTES, limits.user_memory_limit // _FLOOR_SHARE),
            ),
            descriptors=Account(
                "a session",
                limits.total_descriptors,
                name="total_descriptors",
                unit="descriptors",
                parent=descriptors,
                floor=min(_FLOOR_DESCRIPTORS, limits.user_descriptors // _FLOOR_SHARE),
            ),
        )

    def _of_user(self, user: int | str | None, total: Account, limit: int, name: str, unit: str) -> Account:
        with self._lock:
            found = self._users.get((user, name))
            if found is None:
                found = Account("all sessions of one user", limit, name=name, unit=unit, parent=total)
                self._users[user, name] = found
            return found
