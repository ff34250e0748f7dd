"""Deaths are recorded, and what was only suspected is acquitted."""

import asyncio
import contextlib
import dataclasses
import mmap
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.processes import python_path
from support.devices.poisonous import chain, create

import neurald as nd
from neurald.hal.crashes.breadcrumbs import MEMORY_BYTES, Breadcrumbs, CrashPhase, CrumbRecord, create_memory
from neurald.hal.crashes.guard import CrashGuard
from neurald.hal.crashes.pattern import ModelSignatures
from neurald.hal.crashes.records import CrashRecords
from neurald.hal.crashes.trail import read_helper_deaths
from neurald.hal.crashes.watch import CrashWatch
from neurald.hal.model.operation_type import OperationType
from neurald.hal.rpc.wire.model import encode_model
from neurald.service.crashes.autopsy import DriverEnd
from neurald.service.crashes.investigator import CrashedDriver, CrashInvestigator
from neurald.service.sandbox.mode import SandboxMode

ADD, MUL = OperationType.ADD, OperationType.MUL
NAME = "support.devices.poisonous:create"
DRIVER = CrashedDriver(
    name="poisonous",
    driver=NAME,
    address="unix:///tmp/nowhere.sock",
    sandbox=SandboxMode.OFF,
    writable=(),
    readable=(),
    environment={"PYTHONPATH": python_path()},
)
ABORTED = DriverEnd(status=-signal.SIGABRT)


@pytest.fixture
def memory() -> Iterator[int]:
    descriptor = create_memory()
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def records(tmp_path: Path) -> CrashRecords:
    return CrashRecords(tmp_path / "crashes.json")


def watch(memory: int) -> CrashWatch:
    breadcrumbs = Breadcrumbs(mmap.mmap(memory, MEMORY_BYTES), is_supervised=True)
    breadcrumbs.set_version(create().version)
    return CrashWatch(breadcrumbs, CrashGuard(None, NAME, ""), lambda: None)


def at_work(found: CrashWatch, *models: nd.Model) -> contextlib.ExitStack:
    """Says during a block that models are executed."""
    stack = contextlib.ExitStack()
    for model in models:
        stack.enter_context(found.under_way(CrashPhase.EXECUTE, found.crumb(model, encode_model(model)), 1))
    return stack


async def until_done(records: CrashRecords) -> None:
    end = time.monotonic() + 60
    while any(each.pattern.text.startswith("2 x ADD") for each in records.entries()):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


def test_who_was_only_at_work_beside_is_acquitted(
    memory: int, records: CrashRecords, caplog: pytest.LogCaptureFixture
) -> None:
    found = watch(memory)

    async def die() -> None:
        investigator = CrashInvestigator(records)
        with at_work(found, chain(ADD, ADD), chain(ADD, MUL)):
            for _ in range(2):
                investigator.process_died(DRIVER, ABORTED, memory)
        assert len(records.refused(NAME, create().version)) == 2
        await until_done(records)
        await investigator.close()

    asyncio.run(die())
    (entry,) = records.entries()
    assert entry.pattern.text.startswith("MUL")
    assert entry.is_certain
    assert "or another model" in caplog.text


def test_the_search_can_be_ended(memory: int, records: CrashRecords) -> None:
    found = watch(memory)

    async def die() -> None:
        investigator = CrashInvestigator(records)
        with at_work(found, chain(ADD, MUL)):
            for _ in range(2):
                investigator.process_died(DRIVER, ABORTED, memory)
        await asyncio.sleep(0.1)
        await asyncio.wait_for(investigator.close(), 30)

    asyncio.run(die())
    (entry,) = records.entries()
    assert (entry.is_refused, entry.narrowing) == (True, "")


@pytest.mark.parametrize(("other", "searches"), [(NAME, 1), ("another:create", 0)])
def test_what_one_driver_tells_of_a_model_is_not_tried_with_another(
    memory: int,
    records: CrashRecords,
    monkeypatch: pytest.MonkeyPatch,
    other: str,
    searches: int,
) -> None:
    started: list[object] = []

    async def start(*command: object, **_: object) -> None:
        started.append(command)
        raise OSError("none can be started")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    found = watch(memory)

    async def die() -> None:
        investigator = CrashInvestigator(records)
        with at_work(found, chain(ADD, MUL)):
            investigator.process_died(dataclasses.replace(DRIVER, driver=other), ABORTED, memory)
        bare = found.breadcrumbs.record(
            CrumbRecord(pattern=ModelSignatures(chain(ADD, MUL)).pattern(), model="")
        )
        with found.breadcrumbs.under_way(CrashPhase.EXECUTE, bare, 1):
            for _ in range(2):
                investigator.process_died(DRIVER, ABORTED, memory)
        for _ in range(10):
            await asyncio.sleep(0)
        await investigator.close()

    asyncio.run(die())
    assert len(records.refused(NAME, create().version)) == 1
    assert len(started) == searches


def test_deaths_of_helpers_and_of_others(memory: int, records: CrashRecords) -> None:
    found = watch(memory)
    crumb = found.crumb(chain(ADD), b"no model")

    async def die() -> None:
        investigator = CrashInvestigator(records)
        found.helper_died(crumb, signal.SIGSEGV, "SIGSEGV")
        _, deaths = read_helper_deaths(memory, 0)
        investigator.helpers_died(DRIVER, deaths, memory)
        await investigator.recorded()
        with at_work(found, chain(ADD)):
            investigator.process_died(DRIVER, DriverEnd(status=-signal.SIGKILL), memory)
        await investigator.close()

    asyncio.run(die())
    (entry,) = records.entries()
    assert (entry.deaths, entry.phase, entry.cause) == (1, "compiling it", "signal SIGSEGV")


def test_deaths_of_helpers_do_not_keep_the_event_loop_waiting_for_the_disk(
    memory: int, records: CrashRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = watch(memory)
    crumbs = [found.crumb(chain(ADD), b"one"), found.crumb(chain(MUL), b"other")]
    may_write, written = threading.Event(), list[int]()

    def fsync(descriptor: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        assert may_write.wait(60)
        written.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    async def die() -> None:
        investigator = CrashInvestigator(records)
        known = 0
        for number in range(300):
            found.helper_died(crumbs[number % 2], signal.SIGSEGV, "SIGSEGV")
            known, deaths = read_helper_deaths(memory, known)
            investigator.helpers_died(DRIVER, deaths, memory)
            await asyncio.sleep(0)
        assert records.entries() == ()
        may_write.set()
        await investigator.recorded()
        await investigator.close()

    asyncio.run(die())
    # What comes while the disk is busy is written together, and not without limit.
    assert len(written) == 2
    deaths = [each.deaths for each in records.entries()]
    assert len(deaths) == 2
    assert 256 <= sum(deaths) <= 258


def test_records_that_cannot_be_written_change_nothing_else(
    memory: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    found = watch(memory)
    investigator = CrashInvestigator(CrashRecords(tmp_path / "file" / "crashes.json"))
    with at_work(found, chain(ADD)):
        investigator.process_died(DRIVER, ABORTED, memory)
    assert "cannot be written" in caplog.text
    CrashInvestigator(None).process_died(DRIVER, ABORTED, memory)
