"""The records of operations that devices were found to compute wrong.

A pattern is refused to this version of the driver, for all applications of the user, until an
operator forgives it. Applications that verify results write the file; see `RecordFile`.
"""

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from neurald.hal.crashes.breadcrumbs import recorded_version
from neurald.hal.crashes.pattern import CrashPattern, ModelSignatures
from neurald.hal.crashes.record_file import MAX_TEXT, RecordFile
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.process.files.user_directories import state_directory
from neurald.hal.wording import printable


class WrongResult(msgspec.Struct, frozen=True, kw_only=True):
    """Operations that a device computed wrong.

    Attributes:
        device: its name.
        version: the version of the driver.
        pattern: the pattern of the operations.
        difference: between its results and those of the CPU device.
        narrowing: how the operations were found.
        at: when, in seconds since 1970.
    """

    device: str
    version: str
    pattern: CrashPattern
    difference: str
    narrowing: str
    at: float

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the entry."""
        return self.device, self.version, self.pattern.digest

    @property
    def weight(self) -> tuple[object, ...]:
        """Orders entries by age."""
        return (self.at,)

    @property
    def reason(self) -> str:
        """Tells people why the pattern is refused."""
        return (
            f"{self.device} computed {self.pattern.text} wrong: {self.difference}; "
            f"`neurald forgive {self.device} {self.pattern.digest}` lets it try again"
        )

    def check(self) -> None:
        """Raises an error unless the entry is valid.

        Raises:
            BadData: the entry is not valid.
        """
        self.pattern.check()
        texts = (self.device, self.version, self.difference, self.narrowing)
        if any(len(text) > MAX_TEXT or not text.isprintable() for text in texts):
            raise BadData("an entry has an invalid text")


class WrongResults:
    """The file of records. Safe for concurrent threads and processes.

    Args:
        path: the path of the file.
    """

    def __init__(self, path: Path) -> None:
        self._file = RecordFile(path, WrongResult, "what devices computed wrong before is not known")

    @classmethod
    def of_user(cls) -> "WrongResults | None":
        """Returns the records of this user; None for a user without a home directory."""
        path = wrong_results_path()
        return _records(path) if path.is_absolute() else None

    def entries(self) -> tuple[WrongResult, ...]:
        """Returns all entries."""
        return self._file.entries()

    def refused(self, device: str, version: str, model: Model) -> dict[int, WrongResult]:
        """Returns the operations of a main graph that a device is not given, with the records.

        Args:
            device, version: the name of the device, and its version.
            model: a valid model.
        """
        version = recorded_version(version)
        known = [each for each in self.entries() if each.device == device and each.version == version]
        if not known:
            return {}
        signatures = ModelSignatures(model)
        return {
            position: entry
            for entry in known
            if signatures.contains(entry.pattern)
            for position in signatures.positions(entry.pattern)
        }

    def add(
        self, device: str, version: str, pattern: CrashPattern, difference: str, narrowing: str
    ) -> WrongResult:
        """Adds an entry, and returns it; see `WrongResult`.

        Raises:
            BadState: the file cannot be written.
        """
        entry = WrongResult(
            device=printable(device)[:MAX_TEXT],
            version=recorded_version(version),
            pattern=pattern,
            difference=printable(difference)[:MAX_TEXT],
            narrowing=printable(narrowing)[:MAX_TEXT],
            at=time.time(),
        )

        def changed(entries: dict[tuple[str, str, str], WrongResult]) -> None:
            entries[entry.key] = entry

        self._file.change(changed)
        return entry

    def forgive(self, devices: Sequence[str] = (), pattern: str = "") -> tuple[WrongResult, ...]:
        """Forgets entries, and returns them.

        Args:
            devices: only those of these devices; empty for all.
            pattern: only those whose digest begins with this.

        Raises:
            BadState: the file cannot be written.
        """

        def is_meant(entry: WrongResult) -> bool:
            is_named = not devices or entry.device in devices
            return is_named and entry.pattern.digest.startswith(pattern)

        return self._file.forget(is_meant) if self.entries() else ()


def wrong_results_path() -> Path:
    """Returns the path of the user's file, which need not exist, nor be absolute without a home."""
    return state_directory() / "wrong_results.json"


@cache
def _records(path: Path) -> WrongResults:
    """Returns the records in a file, which is not read again while it does not change."""
    return WrongResults(path)
