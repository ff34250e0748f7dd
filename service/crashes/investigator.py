"""Records deaths of drivers, and searches in the background for the operations that cause them."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.crashes.breadcrumbs import CrashPhase
from neurald.hal.crashes.records import CrashEntry, CrashRecords, CrashSuspect
from neurald.hal.crashes.trail import HelperDeath, read_trail, read_version
from neurald.hal.decoding import from_msgpack
from neurald.hal.errors import BadData, BadState
from neurald.hal.process.orphans import ORPHANS
from neurald.hal.process.own_program import own_program
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.wording import counted, printable
from neurald.service.crashes.autopsy import DriverEnd, describe_end, suspects
from neurald.service.crashes.trial_job import TrialJob, TrialReport
from neurald.service.logs.formatters import DRIVER
from neurald.service.sandbox.mode import SandboxMode

_LOG: Final = logging.getLogger(__name__)

#: How many outlines of models are kept, and of how many bytes a report may be.
_MAX_OUTLINES: Final = 64
_MAX_REPORT_BYTES: Final = 1 << 20
#: How many deaths of helpers may wait for being recorded: a hostile driver may claim any number.
_MAX_HELPER_DEATHS: Final = 256
#: Time beyond that of the search itself in which a sacrificial process must have ended.
_SLACK_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashedDriver:
    """A driver whose process died.

    Attributes:
        name: the name of the driver, for the log.
        driver: an installed driver, or `module:factory`.
        address: the address that it served.
        sandbox: the mode of the sandbox of its process.
        writable, readable: the paths that its process could write and read besides the usual ones.
        environment: the environment variables of its process.
    """

    name: str
    driver: str
    address: str
    sandbox: SandboxMode
    writable: tuple[str, ...]
    readable: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A search to do.

    Attributes:
        driver: the driver that died.
        entry: the entry of the pattern.
        outline: the outline of the model.
        hangs: the driver hung and did not die by itself.
    """

    driver: CrashedDriver
    entry: CrashEntry
    outline: bytes
    hangs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _HelperCase:
    """The death of a helper that is not recorded yet.

    Attributes:
        driver: whose helper it was.
        version: the version of the driver.
        suspect: what it compiled.
        cause: how it ended.
    """

    driver: CrashedDriver
    version: str
    suspect: CrashSuspect
    cause: str


class CrashInvestigator:
    """Records deaths, and investigates one refused pattern after another. Used in one event loop.

    Args:
        records: the records of this user; None records nothing.
    """

    def __init__(self, records: CrashRecords | None) -> None:
        self._records = records
        #: Outlines by driver and pattern: one driver must not say what is tried with another one.
        self._outlines: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        #: The patterns that were suspected together with one that is not certain, by the latter.
        self._beside: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {}
        self._cases: asyncio.Queue[_Case] = asyncio.Queue()
        self._waiting: set[tuple[str, str, str]] = set()
        self._worker: asyncio.Task[None] | None = None
        self._helper_cases: deque[_HelperCase] = deque(maxlen=_MAX_HELPER_DEATHS)
        self._recorder: asyncio.Task[None] | None = None
        self._is_closed = False

    def entries(self, driver: str) -> tuple[CrashEntry, ...]:
        """Returns what is known of a driver, whatever its version."""
        records = self._records
        return () if records is None else tuple(each for each in records.entries() if each.driver == driver)

    def forgive(self, drivers: Sequence[str], pattern: str) -> tuple[str, ...]:
        """Forgets patterns, and describes them; see `forgive_in`."""
        return forgive_in(self._records, drivers, pattern)

    def process_died(self, driver: CrashedDriver, end: DriverEnd, breadcrumbs: int) -> None:
        """Records the death of a driver's process.

        Args:
            driver: the driver of the process.
            end: the end of the process.
            breadcrumbs: descriptor of its breadcrumbs.
        """
        if not end.is_own:
            return
        trail = read_trail(breadcrumbs)
        for activity in trail.activities:
            self._keep(driver, activity.record.pattern.digest, activity.record.outline)
        cause = "a hang" if end.was_aborted else describe_end(end.status)
        self._record(driver, trail.version, suspects(end, trail), cause, hangs=end.was_aborted)

    def helpers_died(self, driver: CrashedDriver, deaths: tuple[HelperDeath, ...], breadcrumbs: int) -> None:
        """Records the deaths of processes that compiled models for a driver's process.

        They are written soon, by a thread: a driver can claim them as fast as it likes, and each
        write waits for the disk.
        """
        version = read_version(breadcrumbs)
        for death in deaths:
            pattern = death.record.pattern
            self._keep(driver, pattern.digest, death.record.outline)
            suspect = CrashSuspect(pattern=pattern, phase=CrashPhase.COMPILE)
            cause = describe_end(-death.signal) if death.signal else "an early end"
            self._helper_cases.append(
                _HelperCase(driver=driver, version=version, suspect=suspect, cause=cause)
            )
        if self._helper_cases and (self._recorder is None or self._recorder.done()):
            self._recorder = asyncio.get_running_loop().create_task(self._record_helpers())

    async def _record_helpers(self) -> None:
        while self._helper_cases:
            cases = list(self._helper_cases)
            self._helper_cases.clear()
            drivers = {each.driver.driver: each.driver for each in cases}
            for entry in await asyncio.to_thread(self._write_helpers, cases):
                self._report(drivers[entry.driver], entry, hangs=False)

    def _write_helpers(self, cases: Sequence[_HelperCase]) -> tuple[CrashEntry, ...]:
        """Records deaths of helpers.

        Called in another thread, which uses nothing but the records.
        """
        deaths = [(each.driver.driver, each.version, each.suspect, each.cause) for each in cases]
        try:
            return () if self._records is None else self._records.helpers_died(deaths)
        except BadState as error:
            _log(cases[0].driver, f"what killed its helpers is not recorded: {error}")
            return ()

    async def recorded(self) -> None:
        """Waits until all deaths that are known are recorded."""
        if self._recorder is not None:
            await self._recorder

    async def close(self) -> None:
        """Ends the search; none begins from now on."""
        self._is_closed = True
        if self._worker is not None:
            self._worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._worker

    def _keep(self, driver: CrashedDriver, digest: str, outline: bytes) -> None:
        if outline:
            key = driver.driver, digest
            self._outlines[key] = outline
            self._outlines.move_to_end(key)
            if len(self._outlines) > _MAX_OUTLINES:
                self._outlines.popitem(last=False)

    def _record(
        self,
        driver: CrashedDriver,
        version: str,
        found: tuple[CrashSuspect, ...],
        cause: str,
        *,
        hangs: bool,
    ) -> None:
        if self._records is None or not found:
            return
        try:
            entries = self._records.died(driver.driver, version, found, cause)
        except BadState as error:
            _log(driver, f"what killed it is not recorded: {error}")
            return
        keys = {each.key for each in entries}
        for entry in entries:
            if len(keys) > 1:
                self._beside.setdefault(entry.key, set()).update(keys - {entry.key})
            self._report(driver, entry, hangs=hangs)

    def _report(self, driver: CrashedDriver, entry: CrashEntry, *, hangs: bool) -> None:
        """Logs what killed a driver, and has it investigated if it is refused."""
        times = "once" if entry.deaths == 1 else f"{entry.deaths} times"
        doubt = "" if entry.is_certain else " or another model"
        refused = "; it is no longer given to it" if entry.is_refused else ""
        text = (
            f"{entry.pattern.text} ({entry.pattern.digest}){doubt} killed it {times}, "
            f"by {entry.cause} while {entry.phase}{refused}"
        )
        if entry.is_refused:
            note_event(CountedEvent.POISON, driver.name, partial(_log, driver), text)
        else:
            _log(driver, text)
        self._investigate(driver, entry, hangs=hangs)

    def _investigate(self, driver: CrashedDriver, entry: CrashEntry, *, hangs: bool) -> None:
        outline = self._outlines.get((driver.driver, entry.pattern.digest), b"")
        is_known = entry.narrowing or entry.key in self._waiting
        if self._is_closed or is_known or not entry.is_refused or not outline:
            return
        self._waiting.add(entry.key)
        self._cases.put_nowait(_Case(driver=driver, entry=entry, outline=outline, hangs=hangs))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while not self._cases.empty():
            case = self._cases.get_nowait()
            if case.entry.key not in {each.key for each in self.entries(case.driver.driver)}:
                self._waiting.discard(case.entry.key)  # acquitted, or forgiven
                continue
            try:
                self._conclude(case, await self._try(case))
            except (OSError, BadData, BadState) as error:
                _log(case.driver, f"the search for the operations that kill it failed: {error}")
            finally:
                self._waiting.discard(case.entry.key)

    async def _try(self, case: _Case) -> TrialReport:
        job = TrialJob(
            driver=case.driver.driver,
            version=case.entry.version,
            outline=case.outline,
            address=case.driver.address,
            sandbox=case.driver.sandbox,
            writable=case.driver.writable,
            readable=case.driver.readable,
            hangs=case.hangs,
        )
        with ORPHANS.starting():
            process = await asyncio.create_subprocess_exec(
                *own_program("neurald.service.crashes.trial"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **case.driver.environment, "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
            ORPHANS.started(process.pid)
        try:
            async with asyncio.timeout(job.total_s + _SLACK_S):
                output, _ = await process.communicate(msgspec.msgpack.encode(job))
        except TimeoutError:
            return TrialReport(problem="the sacrificial process did not end in time")
        finally:
            # Its children end with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            ORPHANS.ended(process.pid)
        try:
            report = from_msgpack(output[:_MAX_REPORT_BYTES], TrialReport)
        except DECODE_ERRORS:
            return TrialReport(problem="the sacrificial process ended without a report")
        if report.pattern is not None:
            report.pattern.check()
        return report

    def _conclude(self, case: _Case, report: TrialReport) -> None:
        assert self._records is not None  # noqa: S101 - there was an entry
        entry = case.entry
        if report.kills and report.pattern is not None:
            before = sum(each.count for each in entry.pattern.operations)
            found = sum(each.count for each in report.pattern.operations)
            text = f"found among {counted(before, 'operation')} in {counted(report.trials, 'trial')}"
            if not report.is_complete:
                text += ", before the time ran out"
            self._records.narrow(entry, report.pattern, text)
            self._acquit(entry)
            if found < before:
                _log(case.driver, f"{report.pattern.text} ({report.pattern.digest}) kills it, {text}")
            return
        text = printable(report.problem or "in a trial the model did not kill, so all of it is refused")
        self._records.narrow(entry, entry.pattern, text, is_certain=entry.is_certain)
        _log(case.driver, f"{entry.pattern.digest}: {text}")

    def _acquit(self, guilty: CrashEntry) -> None:
        """Forgets those that were only suspected because they were at work at the same time."""
        assert self._records is not None  # noqa: S101 - there was an entry
        beside = self._beside.pop(guilty.key, set())
        innocent = [each for each in self._records.entries() if each.key in beside and not each.is_certain]
        if innocent:
            self._records.remove(innocent)


def forgive_in(records: CrashRecords | None, drivers: Sequence[str], pattern: str) -> tuple[str, ...]:
    """Forgets patterns, and describes them.

    Args:
        records: the records of a user; None for a user without a home directory.
        drivers: only what killed these; empty for all.
        pattern: only those whose identifier begins with this.

    Raises:
        BadState: there are no such patterns although some were named, or the records cannot be
            written.
    """
    if records is None:
        raise BadState("there are no records of what killed drivers, since the user has no home directory")
    gone = records.forgive(drivers, pattern)
    if not gone and (drivers or pattern):
        known = ", ".join(f"{each.driver} {each.pattern.digest}" for each in records.entries()) or "none"
        raise BadState(f"no such pattern is known; known are: {known}")
    return tuple(f"{each.driver} {each.pattern.digest}: {each.pattern.text}" for each in gone)


def _log(driver: CrashedDriver, text: str) -> None:
    _LOG.warning("%s", text, extra={DRIVER: driver.name})
