"""Summarises what a run certified: operations with their forms and types, and reasons for gaps."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from neurald.service.conformance.result import Outcome, Result


@dataclass(slots=True, kw_only=True)
class Coverage:
    """Outcomes of the cases of one operation, form and row of types.

    Attributes:
        reasons: the reasons for declined cases, with their counts.
    """

    operation: str
    form: int
    types: str
    passed: int = 0
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def declined(self) -> int:
        """Number of cases that the device declined."""
        return sum(self.reasons.values())

    @property
    def is_certified(self) -> bool:
        """Whether at least one case passed and none failed."""
        return self.passed > 0 and self.failed == 0


def coverage(results: Iterable[Result]) -> list[Coverage]:
    """Groups results by operation, form and types, in the order in which they were checked."""
    found: dict[tuple[str, int, str], Coverage] = {}
    for result in results:
        if not result.operation:
            continue
        key = result.operation, result.form, result.types
        each = found.setdefault(key, Coverage(operation=key[0], form=key[1], types=key[2]))
        if result.outcome is Outcome.PASSED:
            each.passed += 1
        elif result.outcome is Outcome.FAILED:
            each.failed += 1
        else:
            each.reasons[result.detail] += 1
    return list(found.values())
