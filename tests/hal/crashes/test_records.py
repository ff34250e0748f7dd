"""The file of what killed drivers."""

import os
import threading
from pathlib import Path

import pytest

from neurald.hal.crashes.breadcrumbs import CrashPhase
from neurald.hal.crashes.pattern import CrashPattern, PatternOperation
from neurald.hal.crashes.records import CrashRecords, CrashSuspect
from neurald.hal.errors import BadState


def suspect(number: int = 0) -> CrashSuspect:
    operation = PatternOperation(digest=f"{number:032x}", count=1, name=f"ADD {number}")
    return CrashSuspect(pattern=CrashPattern(operations=(operation,)), phase=CrashPhase.EXECUTE)


@pytest.fixture
def records(tmp_path: Path) -> CrashRecords:
    return CrashRecords(tmp_path / "state" / "crashes.json")


def test_two_deaths_of_one_version_refuse_a_pattern(records: CrashRecords, tmp_path: Path) -> None:
    records.died("d", "1", [suspect()], "signal SIGABRT")
    assert records.refused("d", "1") == ()
    records.died("d", "2", [suspect()], "signal SIGABRT")
    assert records.refused("d", "1") == records.refused("d", "2") == ()
    records.died("d", "1", [suspect()], "signal SIGSEGV")
    (entry,) = records.refused("d", "1")
    assert (entry.deaths, entry.is_certain, entry.cause) == (2, True, "signal SIGSEGV")
    assert f"neurald forgive d {entry.pattern.digest}" in entry.reason
    # Another process reads the same.
    other = CrashRecords(tmp_path / "state" / "crashes.json")
    assert other.refused("d", "1") == (entry,)
    assert other.refused("e", "1") == ()


def test_several_suspects_are_not_certain_until_one_is_alone(records: CrashRecords) -> None:
    records.died("d", "1", [suspect(1), suspect(2)], "x")
    assert not any(each.is_certain for each in records.entries())
    records.died("d", "1", [suspect(1)], "x")
    assert [each.is_certain for each in records.entries() if each.deaths == 2] == [True]


def test_forgiving_and_narrowing(records: CrashRecords) -> None:
    for _ in range(2):
        records.died("d", "1", [suspect(1)], "x")
        records.died("e", "1", [suspect(2)], "x")
    (first,) = records.refused("d", "1")
    records.narrow(first, suspect(3).pattern, "found")
    (narrowed,) = records.refused("d", "1")
    assert (narrowed.pattern, narrowed.narrowing) == (suspect(3).pattern, "found")
    assert records.forgive(["d"], "nothing") == ()
    assert records.forgive(["d"], narrowed.pattern.digest[:6]) == (narrowed,)
    # Forgiven in the meantime.
    records.narrow(narrowed, suspect(4).pattern, "late")
    assert [each.driver for each in records.entries()] == ["e"]
    assert len(records.forgive()) == 1
    assert records.entries() == ()


def test_what_is_kept_is_bounded_and_refused_patterns_stay_longest(records: CrashRecords) -> None:
    for _ in range(2):
        records.died("d", "1", [suspect(0)], "x")
    records.died("d", "1", [suspect(number) for number in range(1, 400)], "x" * 5000)
    assert len(records.entries()) == 256
    assert len(records.refused("d", "1")) == 1


def test_a_driver_that_dies_often_erases_nothing_of_others(records: CrashRecords) -> None:
    records.died("other", "1", [suspect(1)], "x")
    for _ in range(3):
        records.died("d", "1", [suspect(number) for number in range(400)], "x")
    assert len(records.entries()) == 256
    assert len(records.refused("d", "1")) == 255
    records.died("other", "1", [suspect(1)], "x")
    assert len(records.refused("other", "1")) == 1


def test_patterns_of_any_size_do_not_make_the_file_too_large(records: CrashRecords) -> None:
    def large(number: int) -> CrashSuspect:
        operations = tuple(
            PatternOperation(digest=f"{number * 512 + each:032x}", count=1, name='"' * 120)
            for each in range(400)
        )
        return CrashSuspect(pattern=CrashPattern(operations=operations), phase=CrashPhase.EXECUTE)

    for _ in range(2):
        records.died("other", "1", [suspect(1)], "x")
    records.died("d", "1", [large(number) for number in range(200)], "x")
    assert len(records.entries()) > 100
    assert len(records.refused("other", "1")) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff" * 100,
        b"[" * 100_000,
        b'{"format": 1, "more": ' + b"[" * 100_000,
        b'{"format": 1, "entries": [' + b"[" * 100_000,
        b'{"format": 2, "entries": []}',
        b'{"format": 1, "entries": [{"driver": 1}]}',
        b'{"format": 1, "entries": [{"driver": "\xff"}]}',
        b'{"format": 1, "entries": [{"driver": "d", "version": "1", "pattern": [[], false], "deaths": 2, '
        b'"is_certain": true, "phase": "", "cause": "", "at": 0}]}',
    ],
)
def test_a_damaged_file_counts_as_empty(records: CrashRecords, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state" / "crashes.json"
    path.parent.mkdir()
    path.write_bytes(content)
    assert records.entries() == ()
    records.died("d", "1", [suspect()], "x")
    assert len(records.entries()) == 1


def test_a_link_and_a_pipe_are_not_read(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("{}")
    link = tmp_path / "crashes.json"
    link.symlink_to(target)
    assert CrashRecords(link).entries() == ()
    link.unlink()
    os.mkfifo(link)
    assert CrashRecords(link).entries() == ()


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadState, match="cannot be written"):
        CrashRecords(tmp_path / "file" / "crashes.json").died("d", "1", [suspect()], "x")


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "crashes.json"

    def die(number: int) -> None:
        for _ in range(5):
            CrashRecords(path).died("d", "1", [suspect(number)], "x")

    threads = [threading.Thread(target=die, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.deaths for each in CrashRecords(path).entries()) == [5] * 4
