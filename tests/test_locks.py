"""The page about locks lists every file that makes one, and no other."""

import re
from pathlib import Path

import pytest
from support.mirror import SOURCES

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
