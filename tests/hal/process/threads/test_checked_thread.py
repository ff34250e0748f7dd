"""Threads that cannot begin make their start fail, and do nothing later."""

import re
import threading
import time
from typing import Any

import pytest
from support.files.data import ROOT

from neurald.hal.process.threads import checked_thread
from neurald.hal.process.threads.checked_thread import CheckedThread, CheckedTimer

#: The folders of the package.
FOLDERS = ("drivers", "hal", "runtime", "service")


@pytest.fixture
def begins_late(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Lets threads begin once the event is set, long after their start gives up."""
    event, bootstrap = threading.Event(), threading.Thread._bootstrap  # type: ignore[attr-defined]

    def late(thread: threading.Thread) -> None:
        event.wait(30)
        bootstrap(thread)

    monkeypatch.setattr(checked_thread, "_MAX_START_S", 0.05)
    monkeypatch.setattr(threading.Thread, "_bootstrap", late)
    return event


def test_a_thread_runs_once() -> None:
    found: list[str] = []
    thread = CheckedThread(target=found.append, args=("work",), name="neurald test", daemon=True)
    thread.start()
    thread.join(30)
    assert found == ["work"]
    assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="once"):
        thread.start()


@pytest.mark.parametrize("kind", [CheckedThread, CheckedTimer])
def test_a_start_fails_if_the_thread_ends_before_it_begins(
    kind: type[CheckedThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it does if the interpreter finds no memory for the thread's first function."""
    monkeypatch.setattr(checked_thread, "_MAX_START_S", 0.05)
    monkeypatch.setattr(threading.Thread, "_bootstrap", lambda thread: None)
    thread: Any = CheckedTimer(0, int) if kind is CheckedTimer else CheckedThread(target=int)
    with pytest.raises(RuntimeError, match="has not begun"):
        thread.start()


def test_a_thread_that_begins_after_its_start_has_failed_does_nothing(begins_late: threading.Event) -> None:
    found: list[str] = []
    thread = CheckedThread(target=found.append, args=("work",), daemon=True)
    with pytest.raises(RuntimeError, match="has not begun"):
        thread.start()
    begins_late.set()
    thread._started.wait(30)  # type: ignore[attr-defined]
    thread.join(30)
    assert found == []


def test_a_timer_can_be_cancelled() -> None:
    found: list[str] = []
    late, soon = CheckedTimer(60, found.append, ("late",)), CheckedTimer(0.01, found.append, ("soon",))
    late.start()
    soon.start()
    soon.join(30)
    late.cancel()
    late.join(30)
    assert found == ["soon"]


def test_all_threads_of_the_package_are_checked() -> None:
    made = re.compile(r"(?<!class )threading\.(Thread|Timer)\(|(?<!\.)\b(Thread|Timer)\(")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if made.search(line) and not line.startswith("class ")
    ]
    assert found == []


def test_a_start_does_not_wait_for_work() -> None:
    thread = CheckedThread(target=time.sleep, args=(0.2,), daemon=True)
    started = time.monotonic()
    thread.start()
    assert time.monotonic() - started < 5
    assert thread.is_alive()
    thread.join(30)
