"""Reports a run as JSON or Markdown: the device, certified operations, refusals and failures."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from neurald._version import __version__
from neurald.hal.device import Device
from neurald.hal.process.files.output_file import write_output
from neurald.service.conformance.coverage import Coverage, coverage
from neurald.service.conformance.operation_check import GUARD_PAGES
from neurald.service.conformance.result import CheckResult, Outcome, count
from neurald.service.conformance.suite import Plan
from neurald.service.console.output import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """A run of the suite.

    Attributes:
        device: the device that was checked.
        driver: the name of the device or driver on the command line.
        plan: the checks that were selected.
        results: the results of all checks.
        began: the start time in UTC.
        took_s: the duration.
    """

    device: Device
    driver: str
    plan: Plan
    results: Sequence[CheckResult]
    began: datetime
    took_s: float

    @property
    def failed(self) -> list[CheckResult]:
        """The results of failed checks."""
        return [result for result in self.results if result.outcome is Outcome.FAILED]

    @property
    def checks_nothing(self) -> bool:
        """True if the device declined everything that was checked."""
        return all(result.outcome is Outcome.DECLINED for result in self.results)

    @property
    def guarded(self) -> tuple[int, str]:
        """The number of cases that ran between guard pages, and the reason if others could not."""
        found = [result for result in self.results if result.group == GUARD_PAGES]
        refusals = [result.detail for result in found if result.outcome is Outcome.DECLINED]
        return len(found) - len(refusals), next(iter(refusals), "")


def case_command(driver: str, case: str) -> str:
    """Returns the command that runs a case of a driver."""
    return f"{_base_command(driver)} --case {shlex.quote(case)}"


def _base_command(driver: str) -> str:
    return f"neurald conformance --device {shlex.quote(driver)}"


def command(run: SuiteRun, result: CheckResult) -> str:
    """Returns the command that repeats a failed check."""
    base = _base_command(run.driver)
    if result.seed is not None and result.operation:
        return f"{base} --operation {result.operation} --seed {result.seed} --count 1"
    if result.case:
        return case_command(run.driver, result.case)
    names = "".join(f" --operation {each.name}" for each in run.plan.operations)
    return base + names


def document(run: SuiteRun) -> dict[str, Any]:
    """Returns the report as data."""
    counts = {
        group: {outcome.value: found[outcome] for outcome in Outcome}
        for group, found in count(run.results).items()
    }
    guarded, refusal = run.guarded
    return {
        "device": run.device.name,
        "version": run.device.version,
        "driver": run.driver,
        "feature_level": run.device.feature_level.name,
        "suite": __version__,
        "began": run.began.astimezone(UTC).isoformat(timespec="seconds"),
        "took_s": round(run.took_s, 3),
        "count": run.plan.count,
        "seed": run.plan.seed,
        "thorough": run.plan.is_thorough,
        "guard_pages": {"cases": guarded, "refusal": refusal},
        "passed": not run.failed,
        "counts": counts,
        "coverage": [
            {
                "operation": each.operation,
                "form": each.form,
                "types": each.types,
                "certified": each.is_certified,
                "passed": each.passed,
                "declined": each.declined,
                "failed": each.failed,
                "reasons": dict(each.reasons),
            }
            for each in coverage(run.results)
        ],
        "results": [
            {
                "group": result.group,
                "subject": result.subject,
                "case": result.case,
                "label": result.label,
                "outcome": result.outcome.value,
                "detail": result.detail,
                "seed": result.seed,
                "command": command(run, result),
            }
            for result in run.results
            if result.outcome is not Outcome.PASSED
        ],
    }


def markdown(run: SuiteRun) -> str:
    """Returns the report as Markdown."""
    found = document(run)
    guarded, refusal = run.guarded
    lines = [
        f"# Conformance of {_cell(found['device'])}",
        "",
        f"{_verdict(run)} on {found['began']}, in {run.took_s:.0f} s.",
        "",
        f"- Device: {_cell(found['device'])}, version {_cell(found['version'])}, {found['feature_level']}",
        f"- Driver: `{_cell(run.driver)}`",
        f"- Suite: neurald {found['suite']}, {run.plan.count} random cases each, from seed {run.plan.seed}",
        f"- Guard pages: {guarded} cases{_cell(refusal and f'; {refusal}')}",
        "",
        "| checks | passed | declined | failed |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {group} | " + " | ".join(str(each[outcome.value]) for outcome in Outcome) + " |"
        for group, each in found["counts"].items()
    ]
    rows = coverage(run.results)
    lines += ["", "## Certified", ""]
    lines += _table(
        ("operation", "form", "types", "cases"),
        [(c.operation, str(c.form), c.types, str(c.passed)) for c in rows if c.is_certified],
    )
    lines += ["", "## Declined", ""]
    lines += _table(
        ("operation", "form", "types", "cases", "reason"),
        [
            (c.operation, str(c.form), c.types, str(number), reason)
            for c in rows
            for reason, number in c.reasons.items()
        ]
        + [
            (result.subject, "", "", "1", result.detail)
            for result in run.results
            if result.outcome is Outcome.DECLINED and not result.operation
        ],
    )
    lines += ["", "## Failed", ""]
    lines += _table(
        ("check", "case", "what is wrong", "run it again"),
        [(r.subject, r.label, r.detail, f"`{command(run, r)}`") for r in run.failed],
    )
    return "\n".join(lines) + "\n"


def _verdict(run: SuiteRun) -> str:
    if run.checks_nothing:
        return "The device declined every case"
    return "**Failed**" if run.failed else "Passed"


def write(run: SuiteRun, path: Path) -> None:
    """Writes the report to a file, as Markdown if its name ends with .md and as JSON otherwise.

    Raises:
        OSError: the report cannot be written.
    """
    import msgspec

    if path.suffix == ".md":
        write_output(path, markdown(run).encode())
    else:
        write_output(path, msgspec.json.format(msgspec.json.encode(document(run)), indent=2) + b"\n")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return ["Nothing."]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]


def _cell(text: str) -> str:
    """Escapes text for a cell of a table."""
    return printable(text).replace("|", "\\|").replace("<", "&lt;")


def certified_by_operation(rows: Sequence[Coverage]) -> list[tuple[str, int, int, int]]:
    """Lists the operations of which cases ran.

    Returns:
        For each operation its name, the number of certified combinations of form and types, the
        number of combinations that the device accepted, and the number of passed cases.
    """
    found: dict[str, list[Coverage]] = {}
    for each in rows:
        if each.passed or each.failed:
            found.setdefault(each.operation, []).append(each)
    return [
        (name, sum(e.is_certified for e in taken), len(taken), sum(e.passed for e in taken))
        for name, taken in found.items()
    ]
