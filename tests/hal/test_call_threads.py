"""The threads of a server's calls where the system has no more of them."""

import threading

import pytest

from neurald.hal.call_threads import CallThreads


def test_work_waits_for_a_thread_where_no_more_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = CallThreads(8)
    ends = threading.Event()

    def fails(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        first = threads.submit(ends.wait, 20)
        patch.setattr(threading.Thread, "start", fails)
        others = [threads.submit(threading.get_ident) for _ in range(20)]
        ends.set()
        assert first.result(20)
        assert len({other.result(20) for other in others}) >= 1
    threads.shutdown()


def test_no_thread_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises(RuntimeError, match="new thread"):
        CallThreads(8)
