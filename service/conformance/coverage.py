"""Summarises the results of a run by operation, form and types."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from neurald.service.conformance.result import CheckResult, Outcome


@dataclass(slots=True, kw_only=True)
class Coverage:
    """The outcomes of the cases of one operation, form and row of types.

    Attributes:
        operation: the name of the operation.
        form: the number of the form.
        types: the types of the row.
        passed, failed: the numbers of cases with these outcomes.
        reasons: the reasons of declined cases, with the number of cases for each.
    """

    operation: str
    form: int
    types: str
    passed: int = 0
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def declined(self) -> int:
        """The number of cases that the device declined."""
        return sum(self.reasons.values())

    @property
    def is_certified(self) -> bool:
        """True if at least one case passed and none failed."""
        return self.passed > 0 and self.failed == 0


def coverage(results: Iterable[CheckResult]) -> list[Coverage]:
    """Groups the results of generated cases by operation, form and types, in their order."""
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
