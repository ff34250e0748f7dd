"""Result of one check."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """Outcome of a check; `DECLINED` means that the device permissibly refused."""

    PASSED = "passed"
    DECLINED = "declined"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of one check of a device.

    Attributes:
        group: the kind of check: "operations", "contract", "invalid models", "records".
        subject: the operation, rule or file.
        outcome: the outcome.
        detail: the reason, or what was found and what was expected.
        seed: the seed that reproduces a random case.
        label: identifies the case within the operation, such as "activation=2".
        case: the argument of `neurald conformance --case` that repeats it.
        operation, form, types: of a generated case: the name, the number of the form, and the types
            of its row.
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
    """Counts outcomes by group."""
    counts: dict[str, Counter[Outcome]] = {}
    for result in results:
        counts.setdefault(result.group, Counter())[result.outcome] += 1
    return counts
