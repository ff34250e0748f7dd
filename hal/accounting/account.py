"""Accounts of what a daemon lends: memory and descriptors, reserved before they are taken and returned whatever happens.

Accounts form a tree: the daemon, its users, their sessions. A reservation counts in an account and in all accounts above it, and
is refused where one of them would pass its limit. It is returned when `Reservation.release` is called or when nothing refers to
the reservation any more, so whatever owns memory keeps the reservation beside it.

A daemon says with `charging` for whom it works before it calls a driver. A driver reserves with `reserve` what lasts as long as
an object of its own, and with `charge` what is needed until the end of the enclosing `temporary`. In the process of an
application nobody is charged, and both cost next to nothing.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar

from neurald.hal.errors import Error, ResourceExhaustedPersistent, ResourceExhaustedTransient


class Reservation:
    """An amount that an account lends until `release` is called or this object goes."""

    __slots__ = ("_held", "amount")

    def __init__(self, account: "Account | None", amount: int) -> None:
        self.amount = amount
        self._held = [] if account is None else [account]

    def release(self) -> None:
        """Returns the amount; a second call does nothing. Never blocks, so that a garbage collection may call it anywhere."""
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
    """What the accounts of a tree share: a lock, and amounts that were returned while another thread had the lock."""

    __slots__ = ("lock", "returned")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.returned: deque[tuple[Account, int]] = deque()

    def settle(self) -> None:
        """Books what was returned; the caller has the lock."""
        while True:
            try:
                account, amount = self.returned.popleft()
            except IndexError:
                return
            for each in account._chain:
                each._used -= amount


class Account:
    """An amount of something that may be used, and what is used of it. Thread-safe.

    Args:
        owner: who has it, for messages: "a session".
        limit: how much may be used.
        name: of the limit, for messages and for who sets it.
        unit: what is counted.
        parent: the account that everything counts in as well.
        floor: what this account may use in any case, whatever others use of the accounts above it.
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
        """How much is used now."""
        with self._ledger.lock:
            self._ledger.settle()
            return self._used

    def reserve(self, amount: int, what: str) -> Reservation:
        """Lends an amount.

        Args:
            amount: how much; not negative.
            what: it is for, for the message: "the arena of a model".

        Raises:
            ResourceExhaustedPersistent: it is more than an account may ever use.
            ResourceExhaustedTransient: it does not fit beside what is in use.
        """
        if amount < 0:
            raise ValueError(f"{amount} {self._unit} for {what}; a negative amount cannot be reserved")
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
        # Whoever has the lock now, or takes it next, books it. It may be this very thread, interrupted by a collection.
        if self._ledger.lock.acquire(blocking=False):
            try:
                self._ledger.settle()
            finally:
                self._ledger.lock.release()


class _Unlimited(Account):
    """The account of work that nobody is charged for."""

    def __init__(self) -> None:
        super().__init__("this process", 0, name="")

    def reserve(self, amount: int, what: str) -> Reservation:
        return _NOTHING


_NOTHING = Reservation(None, 0)
UNLIMITED = _Unlimited()

_current: ContextVar[Account] = ContextVar("neurald_account", default=UNLIMITED)
_temporary: ContextVar["list[Reservation] | None"] = ContextVar("neurald_temporary", default=None)


def current_account() -> Account:
    """The account that is charged for what this thread does: for who keeps it for later."""
    return _current.get()


def reserve(amount: int, what: str) -> Reservation:
    """Reserves memory in the current account, see `Account.reserve`."""
    return _current.get().reserve(amount, what)


def charge(amount: int, what: str) -> None:
    """Reserves memory in the current account until the enclosing `temporary` ends; see `Account.reserve`.

    Outside of any, it only tells whether there is so much.
    """
    reservation = reserve(amount, what)
    kept = _temporary.get()
    if kept is not None:
        kept.append(reservation)


@contextlib.contextmanager
def charging(account: Account) -> Iterator[None]:
    """Has an account charged for what this thread does meanwhile."""
    token = _current.set(account)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def temporary() -> Iterator[None]:
    """A piece of work at whose end everything is returned that `charge` reserved in it."""
    kept: list[Reservation] = []
    token = _temporary.set(kept)
    try:
        yield
    finally:
        _temporary.reset(token)
        for reservation in kept:
            reservation.release()
