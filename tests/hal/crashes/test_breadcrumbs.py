"""Breadcrumbs, and what a reader makes of them when anything may have been written there."""

import mmap
import os
import random
import threading
import zlib
from collections.abc import Iterator

import msgspec
import pytest

from neurald.hal.crashes import breadcrumbs as layout
from neurald.hal.crashes.breadcrumbs import (
    Breadcrumbs,
    CrashPhase,
    CrumbRecord,
    create_memory,
    session_number,
)
from neurald.hal.crashes.pattern import CrashPattern, PatternOperation
from neurald.hal.crashes.trail import Trail, read_helper_deaths, read_trail, read_version

PATTERN = CrashPattern(operations=(PatternOperation(digest="ab" * 16, count=2, name="ADD FLOAT32[2]"),))
RECORD = CrumbRecord(pattern=PATTERN, model="00ff", step="operations 0 to 1", outline=b"outline")


@pytest.fixture
def memory() -> Iterator[int]:
    descriptor = create_memory()
    yield descriptor
    os.close(descriptor)


def written(memory: int) -> Breadcrumbs:
    crumbs = Breadcrumbs(mmap.mmap(memory, layout.MEMORY_BYTES), is_supervised=True)
    crumbs.set_version("1.2")
    return crumbs


def test_what_is_under_way_can_be_read(memory: int) -> None:
    crumbs = written(memory)
    crumb = crumbs.record(RECORD)
    assert read_trail(memory) == Trail(version="1.2")
    with crumbs.under_way(CrashPhase.EXECUTE, crumb, 7), crumbs.under_way(CrashPhase.COMPILE, crumb, 8):
        first, second = read_trail(memory).activities
        assert (first.phase, first.session, first.thread) == (CrashPhase.EXECUTE, 7, threading.get_ident())
        assert (second.phase, second.session, second.hangs) == (CrashPhase.COMPILE, 8, False)
        assert first.record == RECORD
        crumbs.mark_hanging(threading.get_ident())
        assert all(each.hangs for each in read_trail(memory).activities)
    assert read_trail(memory).activities == ()


def test_the_place_of_a_model_is_used_again(memory: int) -> None:
    crumbs = written(memory)
    for _ in range(3 * layout.RECORDS):
        crumb = crumbs.record(RECORD)
        with crumbs.under_way(CrashPhase.LOAD, crumb, 1):
            assert len(read_trail(memory).activities) == 1
        del crumb


def test_without_room_nothing_is_recorded_and_nothing_fails(memory: int) -> None:
    crumbs = written(memory)
    kept = [crumbs.record(RECORD) for _ in range(layout.RECORDS)]
    crumb = crumbs.record(RECORD)
    assert crumb.pattern == PATTERN
    slots = [crumbs.slot() for _ in range(layout.SLOTS + 3)]
    for slot in slots:
        slot.begin(kept[0].entry(CrashPhase.EXECUTE, 1))
    assert len(read_trail(memory).activities) == layout.SLOTS
    for slot in slots:
        crumbs.give_back(slot)
    with crumbs.under_way(CrashPhase.EXECUTE, crumb, 1):
        assert read_trail(memory).activities == ()


def test_a_large_outline_is_left_out(memory: int) -> None:
    crumbs = written(memory)
    large = CrumbRecord(pattern=PATTERN, model="", outline=bytes(layout.RECORD_BYTES))
    crumb = crumbs.record(large)
    with crumbs.under_way(CrashPhase.PREPARE, crumb, 1):
        (found,) = read_trail(memory).activities
    assert found.record.outline == b""


def test_deaths_of_helpers_are_read_once(memory: int) -> None:
    crumbs = written(memory)
    crumb = crumbs.record(RECORD)
    known, deaths = read_helper_deaths(memory, 0)
    assert (known, deaths) == (0, ())
    crumbs.helper_died(crumb, 11)
    known, deaths = read_helper_deaths(memory, known)
    assert known == 1
    assert [(each.signal, each.record) for each in deaths] == [(11, RECORD)]
    assert read_helper_deaths(memory, known) == (1, ())
    for _ in range(2 * layout.HELPERS):
        crumbs.helper_died(crumb, 6)
    known, deaths = read_helper_deaths(memory, known)
    assert known == 1 + 2 * layout.HELPERS
    assert len(deaths) == layout.HELPERS


def test_the_memory_cannot_be_cut(memory: int) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(memory, 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_process_that_runs_wild_does_not_harm_its_reader(memory: int, seed: int) -> None:
    chance = random.Random(seed)
    crumbs = written(memory)
    crumb = crumbs.record(RECORD)
    with crumbs.under_way(CrashPhase.EXECUTE, crumb, 1):
        crumbs.helper_died(crumb, 6)
        for _ in range(50):
            place = chance.choice((0, layout.SLOTS_AT, layout.RECORDS_AT)) + chance.randrange(2000)
            os.pwrite(memory, chance.randbytes(chance.choice((1, 4, 40))), place)
            for activity in read_trail(memory).activities:
                activity.record.pattern.check()
            read_version(memory)
            read_helper_deaths(memory, 0)


@pytest.mark.parametrize("is_text", [False, True])
def test_a_record_that_is_not_valid_is_left_out(memory: int, *, is_text: bool) -> None:
    crumbs = written(memory)
    crumb = crumbs.record(RECORD)
    content = msgspec.msgpack.encode(RECORD)
    if is_text:
        content = content.replace(RECORD.model.encode(), b"\xff" * len(RECORD.model), 1)
    else:
        # A field more, which is nested deeper than any stack.
        content = bytes([content[0] + 1]) + content[1:] + b"\x91" * 50_000 + b"\xc0"
    number, generation = crumb.place
    start = layout.RECORDS_AT + number * layout.RECORD_BYTES
    os.pwrite(memory, layout.RECORD.pack(generation, len(content), zlib.crc32(content)) + content, start)
    with crumbs.under_way(CrashPhase.EXECUTE, crumb, 1):
        crumbs.helper_died(crumb, 6)
        assert read_trail(memory) == Trail(version="1.2")
        assert read_helper_deaths(memory, 0) == (1, ())


def test_memory_of_another_size_is_not_read() -> None:
    descriptor = os.memfd_create("small")
    try:
        assert read_trail(descriptor) == Trail()
        assert read_helper_deaths(descriptor, 3) == (3, ())
        assert read_version(descriptor) == ""
    finally:
        os.close(descriptor)


def test_inherited_memory_is_taken_over_once(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = os.dup(memory)
    monkeypatch.setenv(layout.VARIABLE, str(copy))
    crumbs = Breadcrumbs.inherited()
    assert crumbs.is_supervised
    crumbs.set_version("3")
    assert read_version(memory) == "3"
    assert layout.VARIABLE not in os.environ
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(copy)
    monkeypatch.setenv(layout.VARIABLE, "1000000")
    assert not Breadcrumbs.inherited().is_supervised


def test_a_session_number_does_not_reveal_the_token() -> None:
    assert session_number(b"a") == session_number(b"a") != session_number(b"b")
