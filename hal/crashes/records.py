"""The records of deaths of drivers, in a file that outlives them and their supervisor.

A pattern that killed a driver twice is refused to that driver, until its version changes or an
operator forgives it. Processes that supervise drivers write the file, under a lock and by an atomic
replacement. Drivers read it. A file that is missing or damaged counts as empty.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from neurald.hal.crashes.breadcrumbs import CrashPhase, recorded_version
from neurald.hal.crashes.pattern import CrashPattern
from neurald.hal.crashes.record_file import MAX_TEXT, RecordFile
from neurald.hal.errors import BadData
from neurald.hal.process.files.user_directories import state_directory

#: This many deaths of a driver by a pattern, and it is refused.
REFUSED_AFTER: Final = 2


class CrashEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The knowledge about one pattern and one version of a driver.

    Attributes:
        driver: as in the configuration: the name of an installed driver, or `module:factory`.
        version: the version of the driver.
        pattern: the pattern of the operations.
        deaths: how many processes of the driver died of it.
        is_certain: False as long as other models were at work at each of the deaths, too.
        phase: what the driver did with it when it died last.
        cause: how it died last, such as "signal SIGSEGV".
        at: when, in seconds since 1970.
        narrowing: what is known of the search for the operations that kill; empty if there was
            none yet.
    """

    driver: str
    version: str
    pattern: CrashPattern
    deaths: int
    is_certain: bool
    phase: str
    cause: str
    at: float
    narrowing: str = ""

    @property
    def is_refused(self) -> bool:
        """True if the pattern is no longer given to the driver."""
        return self.deaths >= REFUSED_AFTER

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the entry."""
        return self.driver, self.version, self.pattern.digest

    @property
    def weight(self) -> tuple[object, ...]:
        """Orders entries: those with the least are dropped first."""
        return self.is_refused, self.at

    @property
    def reason(self) -> str:
        """Tells people why the pattern is refused."""
        return (
            f"{self.pattern.text} killed driver {self.driver} {self.deaths} times, the last time by "
            f"{self.cause} while {self.phase}; `neurald forgive {self.driver} {self.pattern.digest}` "
            "lets it try again"
        )

    def check(self) -> None:
        """Raises an error unless the entry is valid.

        Raises:
            BadData: the entry is not valid.
        """
        self.pattern.check()
        texts = (self.driver, self.version, self.phase, self.cause, self.narrowing)
        if any(len(text) > MAX_TEXT or not text.isprintable() for text in texts):
            raise BadData("an entry has an invalid text")
        if not 0 < self.deaths < 1 << 31:
            raise BadData(f"an entry has {self.deaths} deaths")


class CrashSuspect(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern that a driver was at work on when it died.

    Attributes:
        pattern: the pattern of the model.
        phase: what the driver did with it.
    """

    pattern: CrashPattern
    phase: CrashPhase


def crash_directory() -> Path:
    """Returns the directory of the file of this user, which sandboxed drivers may read.

    There is nothing else in it. A sandbox permits reading of a directory, or of a file that exists
    and is never replaced.
    """
    return state_directory() / "crashes"


class CrashRecords:
    """The file of records. Safe for concurrent threads and processes.

    Args:
        path: the path of the file.
    """

    def __init__(self, path: Path) -> None:
        self._file = RecordFile(path, CrashEntry, "what killed drivers before is not known")

    @classmethod
    def of_user(cls) -> "CrashRecords | None":
        """Returns the records of this user; None for a user without a home directory."""
        path = crash_directory() / "drivers.json"
        return cls(path) if path.is_absolute() else None

    def entries(self) -> tuple[CrashEntry, ...]:
        """Returns all entries. While the file does not change, it is not read again."""
        return self._file.entries()

    def refused(self, driver: str, version: str) -> tuple[CrashEntry, ...]:
        """Returns the entries of the patterns that a driver is not given."""
        version = recorded_version(version)
        return tuple(
            each
            for each in self.entries()
            if each.is_refused and each.driver == driver and each.version == version
        )

    def died(
        self, driver: str, version: str, suspects: Sequence[CrashSuspect], cause: str
    ) -> tuple[CrashEntry, ...]:
        """Records a death; returns the entries of its suspects.

        Args:
            driver, version: the driver and version of the process.
            suspects: what it was at work on. If there are several, any of them may be the cause.
            cause: how it ended.

        Raises:
            BadState: the file cannot be written.
        """
        version = recorded_version(version)
        found = {(driver, version, each.pattern.digest): each for each in suspects}

        def changed(entries: dict[tuple[str, str, str], CrashEntry]) -> tuple[CrashEntry, ...]:
            for key, suspect in found.items():
                self._count(entries, key, suspect, cause, is_certain=len(found) == 1)
            return tuple(entries[key] for key in found)

        return self._file.change(changed) if found else ()

    def helpers_died(self, deaths: Sequence[tuple[str, str, CrashSuspect, str]]) -> tuple[CrashEntry, ...]:
        """Records deaths of processes that compiled one model each; returns the models' entries.

        Args:
            deaths: the driver, its version, the model, and how the process ended.

        Raises:
            BadState: the file cannot be written.
        """

        def changed(entries: dict[tuple[str, str, str], CrashEntry]) -> tuple[CrashEntry, ...]:
            keys = {}
            for driver, version, suspect, cause in deaths:
                key = driver, recorded_version(version), suspect.pattern.digest
                self._count(entries, key, suspect, cause, is_certain=True)
                keys[key] = True
            return tuple(entries[key] for key in keys)

        return self._file.change(changed)

    def _count(
        self,
        entries: dict[tuple[str, str, str], CrashEntry],
        key: tuple[str, str, str],
        suspect: CrashSuspect,
        cause: str,
        *,
        is_certain: bool,
    ) -> None:
        """Counts a death in the entry of a suspect."""
        before = entries.pop(key, None)
        entries[key] = CrashEntry(
            driver=key[0],
            version=key[1],
            pattern=suspect.pattern,
            deaths=1 if before is None else before.deaths + 1,
            is_certain=is_certain or (before is not None and before.is_certain),
            phase=suspect.phase.text,
            cause=cause[:MAX_TEXT],
            at=time.time(),
            narrowing="" if before is None else before.narrowing,
        )

    def narrow(
        self, entry: CrashEntry, pattern: CrashPattern, narrowing: str, *, is_certain: bool = True
    ) -> None:
        """Replaces the pattern of an entry, unless it was forgiven in the meantime.

        Args:
            entry: the entry to replace.
            pattern: the pattern of the operations that kill.
            narrowing, is_certain: see `CrashEntry`.

        Raises:
            BadState: the file cannot be written.
        """

        def changed(entries: dict[tuple[str, str, str], CrashEntry]) -> None:
            found = entries.pop(entry.key, None)
            if found is not None:
                narrowed = msgspec.structs.replace(
                    found, pattern=pattern, is_certain=is_certain, narrowing=narrowing[:MAX_TEXT]
                )
                entries[narrowed.key] = narrowed

        self._file.change(changed)

    def remove(self, entries: Sequence[CrashEntry]) -> None:
        """Removes entries that turned out to be innocent.

        Raises:
            BadState: the file cannot be written.
        """

        def changed(known: dict[tuple[str, str, str], CrashEntry]) -> None:
            for each in entries:
                known.pop(each.key, None)

        self._file.change(changed)

    def forgive(self, drivers: Sequence[str] = (), pattern: str = "") -> tuple[CrashEntry, ...]:
        """Forgets entries, and returns them.

        Args:
            drivers: only those of these drivers; empty for all.
            pattern: only those whose digest begins with this.

        Raises:
            BadState: the file cannot be written.
        """

        def is_meant(entry: CrashEntry) -> bool:
            is_named = not drivers or entry.driver in drivers
            return is_named and entry.pattern.digest.startswith(pattern)

        return self._file.forget(is_meant)
