"""Exclusive use, also by code that signals interrupt."""

import pytest
from support.daemon.forking import in_child
from support.process.interruption import interruptions

from neurald.hal.process.threads.exclusive_use import ExclusiveUse


def _use(use: ExclusiveUse) -> bool:
    user = object()
    try:
        return use.begin(user)
    finally:
        if use.user is user:
            use.user = None


def test_one_user_at_a_time() -> None:
    use, user = ExclusiveUse(), object()
    assert use.begin(user)
    assert not use.begin(object())
    assert use.user is user
    use.user = None
    assert _use(use)
    assert _use(use)


def test_an_interrupted_use_has_ended() -> None:
    use, interrupted = ExclusiveUse(), 0
    for _ in interruptions(lambda: _use(use), __name__, ExclusiveUse.__module__):
        interrupted += 1
        assert use.user is None
        assert _use(use)
    assert interrupted >= 3


@pytest.mark.forks
def test_a_child_process_does_not_inherit_a_use() -> None:
    use = ExclusiveUse()
    assert use.begin(object())

    def check() -> None:
        assert _use(use)

    in_child(check)
    assert use.user is not None
