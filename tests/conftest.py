"""What all tests share."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many records and variants have passed."""
    totals: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        totals.update({name: count for name, count in report.user_properties if isinstance(count, int)})
    if totals:
        listed = ", ".join(f"{count} {name}" for name, count in totals.items())
        terminalreporter.write_line(f"conformance, all devices together: {listed}")
