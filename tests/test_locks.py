"""The page about locks lists every file that makes one, and orders of locks are recorded."""

import re
import threading
from pathlib import Path

import pytest
from support.process.lock_order import LockOrder, RecordedLock
from support.sources.mirror import SOURCES

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "maintainers" / "locks.md"
#: What makes a lock, unless a longer name ends so.
_MAKES = re.compile(
    r"\b(?:Lock|RLock|threading\.Condition|FairLock|forkable_lock|forkable_reentrant_lock)\((?!LendingPool)"
)
#: The row of a file in a table.
_ROW = re.compile(r"^\| `([\w/]+\.py)` \| (.*?) \|", re.MULTILINE)


def _makes_locks(path: Path) -> bool:
    return bool(_MAKES.search(path.read_text(encoding="utf-8")))


def test_every_file_that_makes_a_lock_is_listed() -> None:
    files = (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))
    making = {str(path.relative_to(ROOT)) for path in files if _makes_locks(path)}
    listed = [file for file, _ in _ROW.findall(PAGE.read_text(encoding="utf-8"))]
    assert sorted(making - set(listed)) == [], "add them to docs/maintainers/locks.md"
    assert sorted(set(listed) - making) == [], "they make no lock any more"
    assert len(listed) == len(set(listed))


def test_listed_locks_exist() -> None:
    """Every name in the second column is an attribute of its file."""
    for file, locks in _ROW.findall(PAGE.read_text(encoding="utf-8")):
        text = (ROOT / file).read_text(encoding="utf-8")
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", locks):
            assert re.search(rf"\b{name}\b", text), f"{file} has no {name}"


@pytest.mark.parametrize("contradicts", [False, True])
def test_contradicting_orders_are_found(contradicts: bool) -> None:
    order = LockOrder()
    first, second, third = (RecordedLock(order, name, threading.Lock()) for name in "abc")
    with first, second:
        pass
    with second, third:
        pass
    with third:
        assert first.acquire(blocking=False)  # it does not wait
    first.release()
    assert order.found() == {"a": {"b"}, "b": {"c"}}
    if contradicts:
        with third, first:
            pass
    assert order.cycle() == (["a", "b", "c", "a"] if contradicts else [])


def test_reentrant_locks_and_signals_have_no_order() -> None:
    order = LockOrder()
    outer, again = RecordedLock(order, "a", threading.RLock()), RecordedLock(order, "b", threading.RLock())
    with outer, again, outer:
        pass
    signal = RecordedLock(order, "c", threading.Lock())
    signal.acquire()
    with again:
        thread = threading.Thread(target=signal.release)
        thread.start()
        signal.acquire()
    thread.join()
    assert order.found() == {"a": {"b"}}
    assert not order.cycle()
