"""What all tests share."""

from collections import Counter
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests, and the processes that they start, neither use nor fill the caches of the user who runs them."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(directory))
        patch.setenv("NEURALD_SECRET_FILE", str(directory / "secret"))
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many records and variants have passed."""
    totals: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        totals.update({name: count for name, count in report.user_properties if isinstance(count, int)})
    if totals:
        listed = ", ".join(f"{count} {name}" for name, count in totals.items())
        terminalreporter.write_line(f"conformance, all devices together: {listed}")
