"""What came of one check."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """How a check ended; `DECLINED` is what a device says no to, which is its right."""

    PASSED = "passed"
    DECLINED = "declined"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One check of a device.

    Attributes:
        group: what kind of check: "operations", "contract", "invalid models", "records".
        subject: operation, rule or file.
        outcome: how it ended.
        detail: the reason, or what was found and what is expected.
        seed: with which a random case is had again.
        label: which case of the operation it is: "activation=2", for example.
        case: what `neurald conformance --case` takes to run it again.
        operation, form, types: of a generated case: name, number of the form, and the types of its row.
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


def count(results: Iterable[Result]) -> dict[str, Counter[Outcome]]:
    """How many of each outcome, by group."""
    counts: dict[str, Counter[Outcome]] = {}
    for result in results:
        counts.setdefault(result.group, Counter())[result.outcome] += 1
    return counts
