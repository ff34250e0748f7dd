"""Results of checks.

Tests of drivers outside of this project use `Outcome`, so its name and members must not change.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """The outcome of a check. `DECLINED` means that the device refused, as it may."""

    PASSED = "passed"
    DECLINED = "declined"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check of a device.

    Attributes:
        group: the kind of check, such as "operations", "contract", "invalid models" or "records".
        subject: the operation, rule or file that was checked.
        outcome: the outcome.
        detail: the reason of the outcome, or "".
        seed: the seed of a random case.
        label: identifies a case within its signature, such as "activation=2".
        case: the argument of `neurald conformance --case` that repeats the case.
        operation: the name of the operation of a generated case; otherwise "".
        form: the number of its form.
        types: the types of its row.
    """

    group: str
    subject: str
    outcome: Outcome
    detail: str = ""
    seed: int | None = None
    label: str = ""
    case: str = ""
    operation: str = ""
    form: int = 0
    types: str = ""


def count(results: Iterable[CheckResult]) -> dict[str, Counter[Outcome]]:
    """Counts outcomes by group."""
    counts: dict[str, Counter[Outcome]] = {}
    for result in results:
        counts.setdefault(result.group, Counter())[result.outcome] += 1
    return counts
