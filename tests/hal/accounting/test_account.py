"""Accounts: reservations count in all parents, are refused beyond limits, and always return."""

import gc
import threading

import pytest

from neurald.hal.accounting.account import (
    UNLIMITED,
    Account,
    Reservation,
    charge,
    charging,
    reserve,
    temporary,
)
from neurald.hal.errors import ResourceExhaustedPersistent, ResourceExhaustedTransient


def tree() -> tuple[Account, Account, Account, Account]:
    """Accounts of a daemon (1000), a user (600), and two sessions (500 each, 10 guaranteed)."""
    daemon = Account("the daemon", 1000, name="total")
    user = Account("a user", 600, name="user", parent=daemon)
    first, second = (Account("a session", 500, name="session", parent=user, floor=10) for _ in range(2))
    return daemon, user, first, second


def used(*accounts: Account) -> list[int]:
    return [account.used for account in accounts]


def test_what_is_reserved_counts_in_all_accounts_above() -> None:
    daemon, user, first, second = tree()
    one, other = first.reserve(300, "this"), second.reserve(200, "that")
    assert used(daemon, user, first, second) == [500, 500, 300, 200]
    one.release()
    one.release()
    assert used(daemon, user, first, second) == [200, 200, 0, 200]
    with other:
        pass
    assert used(daemon, user, first, second) == [0, 0, 0, 0]


def test_a_refusal_says_what_was_asked_what_is_left_and_whose_limit_it_is() -> None:
    daemon, user, first, second = tree()
    with pytest.raises(
        ResourceExhaustedPersistent, match=r"an arena: 501 bytes .* a session may have 500 \(session\)"
    ):
        first.reserve(501, "an arena")
    kept = first.reserve(400, "an arena")
    with pytest.raises(ResourceExhaustedTransient, match=r"101 bytes .* \(session\), and 100 are left"):
        first.reserve(101, "an arena")
    with pytest.raises(ResourceExhaustedTransient, match=r"a user may have 600 \(user\), and 200 are left"):
        second.reserve(201, "an arena")
    other = Account("another user", 10_000, name="user", parent=daemon)
    with pytest.raises(
        ResourceExhaustedTransient, match=r"the daemon may have 1000 \(total\), and 600 are left"
    ):
        other.reserve(601, "an arena")
    with pytest.raises(ResourceExhaustedPersistent, match="total"):
        other.reserve(1001, "an arena")
    # A refusal leaves nothing behind anywhere.
    assert used(daemon, user, first, second, other) == [400, 400, 400, 0, 0]
    kept.release()


def test_each_has_its_floor_whatever_others_use() -> None:
    _, user, first, second = tree()
    hogs = [first.reserve(500, "much"), second.reserve(100, "the rest")]
    third = Account("a session", 500, name="session", parent=user, floor=10)
    little = third.reserve(10, "little")
    with pytest.raises(ResourceExhaustedTransient):
        third.reserve(1, "more")
    assert user.used == 610
    del hogs, little
    assert user.used == 0


def test_what_nobody_refers_to_comes_back() -> None:
    *_, session, _ = tree()

    class Owner:
        def __init__(self) -> None:
            self.itself = self
            self.reservation = session.reserve(7, "this")

    gc.disable()
    try:
        Owner()
        assert session.used == 7
        gc.collect()
        assert session.used == 0
    finally:
        gc.enable()


def test_a_collection_while_an_account_is_used_blocks_nobody() -> None:
    *_, session, _ = tree()
    kept = session.reserve(5, "this")
    with session._ledger.lock:
        kept.release()  # as a collection does that comes just now
    assert session.used == 0


def test_threads() -> None:
    daemon, user, first, second = tree()
    most = [0]

    def work(session: Account) -> None:
        for _ in range(500):
            try:
                with session.reserve(100, "this"):
                    most[0] = max(most[0], user.used)
            except ResourceExhaustedTransient:
                pass

    threads = [threading.Thread(target=work, args=(session,)) for session in (first, second) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < most[0] <= 600
    assert used(daemon, user, first, second) == [0, 0, 0, 0]


def test_an_amount_is_not_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        tree()[0].reserve(-1, "this")


def test_in_an_application_nobody_is_charged() -> None:
    assert isinstance(reserve(1 << 60, "this"), Reservation)
    assert UNLIMITED.used == 0
    charge(1 << 60, "this")


def test_work_for_a_client_is_charged_to_its_account() -> None:
    *_, first, second = tree()
    with charging(first):
        kept = reserve(100, "this")
        with charging(second), pytest.raises(ResourceExhaustedPersistent):
            reserve(501, "that")
        also_kept = reserve(10, "that")
    charged_to_nobody = reserve(1 << 60, "this")
    assert (first.used, second.used) == (110, 0)
    for each in (kept, also_kept, charged_to_nobody):
        each.release()
    assert first.used == 0


def test_what_is_temporary_comes_back_at_the_end() -> None:
    *_, session, _ = tree()
    with charging(session):
        charge(100, "for nothing")
        assert session.used == 0
        with temporary():
            charge(100, "this")
            with temporary():
                charge(50, "that")
                assert session.used == 150
            assert session.used == 100
        assert session.used == 0
        with temporary():
            charge(100, "this")
            with pytest.raises(ResourceExhaustedPersistent):
                charge(1000, "this")
        assert session.used == 0
