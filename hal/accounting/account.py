"""Accounts of the memory and descriptors that a daemon lends to its clients.

Everything is reserved before it is taken, and returned whatever happens. Accounts form a tree: the
daemon, its users, their sessions. A reservation counts in an account and in all accounts above it,
and is refused if one of them would exceed its limit. It is returned when `Reservation.release` is
called, or when nothing refers to the reservation any more, so an object that owns memory keeps the
reservation beside it.

Before a daemon calls a driver, it says with `charging` whose account pays. A driver calls `reserve`
for memory that lasts as long as an object of its own, and `charge` for memory that is needed until
the enclosing `temporary` ends. In the process of an application there is no account, and both cost
next to nothing.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar

from neurald.hal.errors import Error, ResourceExhaustedPersistent, ResourceExhaustedTransient


class Reservation:
    """An amount that an account lends until `release` is called or this object is collected."""

    __slots__ = ("_held", "amount")

    def __init__(self, account: "Account | None", amount: int) -> None:
        self.amount = amount
        self._held = [] if account is None else [account]

    def release(self) -> None:
        """Returns the amount; a second call does nothing.

        It never blocks, because a garbage collection may call it at any point.
        """
        try:
            account = self._held.pop()
        except IndexError:
            return
        account._give_back(self.amount)

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


class _Ledger:
    """State that the accounts of a tree share: a lock, and amounts returned while it is held."""

    __slots__ = ("lock", "returned")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.returned: deque[tuple[Account, int]] = deque()

    def settle(self) -> None:
        """Books the returned amounts. The caller holds the lock."""
        while True:
            try:
                account, amount = self.returned.popleft()
            except IndexError:
                return
            for each in account._chain:
                each._used -= amount


class Account:
    """A limited amount of a resource, and how much of it is used. Thread-safe.

    Args:
        owner: whose account it is, as messages say it: "a session".
        limit: how much may be used.
        name: the name of the limit, by which operators set it, for messages.
        unit: what is counted.
        parent: the account in which everything counts as well.
        floor: how much may be used whatever other accounts below the same parents use.
    """

    def __init__(
        self,
        owner: str,
        limit: int,
        *,
        name: str,
        unit: str = "bytes",
        parent: "Account | None" = None,
        floor: int = 0,
    ) -> None:
        self._owner = owner
        self.limit = limit
        self._name = name
        self._unit = unit
        self._floor = floor
        self._used = 0
        self._ledger: _Ledger = _Ledger() if parent is None else parent._ledger
        self._chain: tuple[Account, ...] = (self,) if parent is None else (self, *parent._chain)

    @property
    def used(self) -> int:
        """The amount that is used now."""
        with self._ledger.lock:
            self._ledger.settle()
            return self._used

    def reserve(self, amount: int, what: str) -> Reservation:
        """Reserves an amount.

        Args:
            amount: how much; not negative.
            what: its purpose, in the words of the message: "the arena of a model".

        Raises:
            ResourceExhaustedPersistent: it is more than an account may ever use.
            ResourceExhaustedTransient: it is more than what is left.
        """
        if amount < 0:
            raise ValueError(f"{amount} {self._unit} for {what}: a negative amount cannot be reserved")
        with self._ledger.lock:
            self._ledger.settle()
            is_guaranteed = self._used + amount <= self._floor
            for account in self._chain[:1] if is_guaranteed else self._chain:
                if account._used + amount > account.limit:
                    raise account._refusal(amount, what)
            for account in self._chain:
                account._used += amount
        return Reservation(self, amount)

    def _refusal(self, amount: int, what: str) -> Error:
        kind = ResourceExhaustedPersistent if amount > self.limit else ResourceExhaustedTransient
        left = max(0, self.limit - self._used)
        return kind(
            f"{what}: {amount} {self._unit} are needed; {self._owner} may have {self.limit} ({self._name}), "
            f"and {left} are left"
        )

    def _give_back(self, amount: int) -> None:
        self._ledger.returned.append((self, amount))
        # If the lock is taken, the thread that holds it or takes it next books the amount. It may
        # be this very thread, interrupted by a garbage collection.
        if self._ledger.lock.acquire(blocking=False):
            try:
                self._ledger.settle()
            finally:
                self._ledger.lock.release()


class _Unlimited(Account):
    """The account of work that is charged to no client."""

    def __init__(self) -> None:
        super().__init__("this process", 0, name="")

    def reserve(self, amount: int, what: str) -> Reservation:
        return _NOTHING


_NOTHING = Reservation(None, 0)
UNLIMITED = _Unlimited()

_current: ContextVar[Account] = ContextVar("neurald_account", default=UNLIMITED)
_temporary: ContextVar["list[Reservation] | None"] = ContextVar("neurald_temporary", default=None)


def reserve(amount: int, what: str) -> Reservation:
    """Reserves memory in the current account, see `Account.reserve`."""
    return _current.get().reserve(amount, what)


def charge(amount: int, what: str) -> None:
    """Reserves memory in the current account until the enclosing `temporary` ends.

    Outside of any `temporary`, it only checks that this much is left.

    Raises:
        Error: see `Account.reserve`.
    """
    reservation = reserve(amount, what)
    charges = _temporary.get()
    if charges is not None:
        charges.append(reservation)


@contextlib.contextmanager
def charging(account: Account) -> Iterator[None]:
    """Charges what this thread does within the context to an account."""
    token = _current.set(account)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def temporary() -> Iterator[None]:
    """Returns, at the end of the context, everything that `charge` reserved within it."""
    charges: list[Reservation] = []
    token = _temporary.set(charges)
    try:
        yield
    finally:
        _temporary.reset(token)
        for reservation in charges:
            reservation.release()
