"""Keeps patterns that killed a driver away from it, in the driver's process."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from neurald.hal.crashes.breadcrumbs import CrashPhase, recorded_version
from neurald.hal.crashes.pattern import CrashPattern, ModelSignatures
from neurald.hal.crashes.records import REFUSED_AFTER, CrashEntry, CrashRecords
from neurald.hal.device import Verdict
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model

_MAX_COUNTED: Final = 256


class CrashGuard:
    """Refuses patterns that killed the driver. Thread-safe.

    Args:
        records: the records of this user; None if there are none.
        driver: the driver of this process, as in the configuration.
        version: the version of the driver.
    """

    def __init__(self, records: CrashRecords | None, driver: str, version: str) -> None:
        self._records = records
        self._driver = driver
        self._version = recorded_version(version)
        self._lock = threading.Lock()
        #: Patterns of which helpers of this process died, which is why they are refused at once.
        self._helpers: Counter[str] = Counter()
        self._patterns: dict[str, tuple[CrashPattern, str]] = {}

    def helper_died(self, pattern: CrashPattern, cause: str) -> None:
        """Counts a death of a process that compiled a model."""
        with self._lock:
            if len(self._helpers) < _MAX_COUNTED or pattern.digest in self._helpers:
                self._helpers[pattern.digest] += 1
                self._patterns[pattern.digest] = pattern, cause

    def supported(self, model: Model, ask: Callable[[], Sequence[Verdict]]) -> Sequence[Verdict]:
        """Returns the verdict for each operation of a model.

        Args:
            model: a valid model.
            ask: returns the verdicts of the driver.
        """
        found = self._found(model)
        if not found:
            return ask()
        everything = range(len(model.main.operations))
        queries = [entry for _, entry in found if entry.phase == CrashPhase.QUERY.text]
        if queries:
            # Not even asked.
            return tuple(Verdict(ok=False, reason=queries[0].reason) for _ in everything)
        verdicts = list(ask())
        for positions, entry in found:
            for position in positions:
                if position < len(verdicts):
                    verdicts[position] = Verdict(ok=False, reason=entry.reason)
        return verdicts

    def require_allowed(self, model: Model) -> None:
        """Raises an error if the driver must not be given a model.

        Raises:
            BadData: it contains a pattern that killed the driver.
        """
        for _, entry in self._found(model):
            raise BadData(entry.reason)

    def require_pattern_allowed(self, pattern: CrashPattern) -> None:
        """Raises an error if the driver must not be given a model with this pattern.

        Raises:
            BadData: it contains a pattern that killed the driver.
        """
        counts = {each.digest: each.count for each in pattern.operations}
        for entry in self._refused():
            if all(counts.get(each.digest, 0) >= each.count for each in entry.pattern.operations):
                raise BadData(entry.reason)

    def _found(self, model: Model) -> list[tuple[frozenset[int], CrashEntry]]:
        """Returns the refused patterns that a model contains, with their operations in it."""
        refused = self._refused()
        if not refused:
            return []
        signatures = ModelSignatures(model)
        return [
            (signatures.positions(entry.pattern), entry)
            for entry in refused
            if signatures.contains(entry.pattern)
        ]

    def _refused(self) -> list[CrashEntry]:
        records = self._records
        refused = [] if records is None else list(records.refused(self._driver, self._version))
        with self._lock:
            refused += [
                CrashEntry(
                    driver=self._driver,
                    version=self._version,
                    pattern=self._patterns[digest][0],
                    deaths=count,
                    is_certain=True,
                    phase=CrashPhase.COMPILE.text,
                    cause=self._patterns[digest][1],
                    at=0.0,
                )
                for digest, count in self._helpers.items()
                if count >= REFUSED_AFTER
            ]
        return refused
