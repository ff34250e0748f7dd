"""What a run certified: operations with their forms and types, and why others were not."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from neurald.service.conformance.result import Outcome, Result


@dataclass(slots=True, kw_only=True)
class Coverage:
    """How the cases of one operation, form and row of types ended.

    Attributes:
        reasons: why cases were declined, with how often.
    """

    operation: str
    form: int
    types: str
    passed: int = 0
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def declined(self) -> int:
        """Cases that the device did not take."""
        return sum(self.reasons.values())

    @property
    def is_certified(self) -> bool:
        """Whether every case that the device took is right, and there is one."""
        return self.passed > 0 and self.failed == 0


def coverage(results: Iterable[Result]) -> list[Coverage]:
    """By operation, form and types, in the order in which they were checked."""
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
