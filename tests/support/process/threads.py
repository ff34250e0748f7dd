"""Threads that cannot be started, as on a machine that has no more."""

import threading

import pytest


def refuse_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every start of a thread fail, until `monkeypatch.undo()`."""

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
