"""Threads that are there before they are needed."""

import threading

import pytest

from neurald.hal.errors import ResourceExhaustedTransient
from neurald.service.inference.server.started_threads import started_threads

_NAME = "neurald request"


def refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def present() -> int:
    """Returns how many of the threads there are."""
    return sum(thread.name.startswith(_NAME) for thread in threading.enumerate())


def test_work_needs_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    with started_threads() as executor:
        count = present()
        assert count > 4
        monkeypatch.setattr(threading.Thread, "start", refuse)
        begun = threading.Barrier(count)
        work = [executor.submit(begun.wait, 60) for _ in range(3 * count)]
        assert sorted(each.result() for each in work) == sorted([*range(count)] * 3)
    assert present() == 0


def test_the_lack_of_one_is_an_error_and_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    left = 3

    def start_few(thread: threading.Thread) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            refuse(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_few)
    with pytest.raises(ResourceExhaustedTransient, match="can't start new thread"):
        started_threads()
    assert left == -1
    assert present() == 0
