"""What all tests share."""

import resource
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

# Under names of their own: a test may put others in their places, and its patch is undone after `_own_limits`.
from resource import getrlimit, setrlimit

import pytest
from support.sweeps import run_only
from support.tiers import Tier, current_tier, is_taken, set_tier


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this repository's tests."""
    parser.addoption(
        "--tier",
        choices=[tier.value for tier in Tier],
        default=Tier.DEFAULT.value,
        help="how many tests to run: quick (seconds), default, or full",
    )
    parser.addoption(
        "--case", default="", help="of tests that sweep over cases, run those whose names contain this"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tells the tests' own helpers which tests and cases run."""
    set_tier(Tier(config.getoption("--tier")))
    run_only(config.getoption("--case"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in the background of a shell; the processes that tests start and interrupt would ignore it as well.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Files that have no test of the tier `quick` are not imported for it: to import all takes longer than to run it."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if current_tier() is Tier.QUICK and is_test:
        return "mark.quick" not in collection_path.read_text(encoding="utf-8") or None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests of higher tiers."""
    left = [item for item in items if not is_taken(item, current_tier())]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if is_taken(item, current_tier())]


#: A daemon that runs in a test raises the limit of descriptors, which takes nothing from others.
_LIMITS = sorted(
    {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    - {resource.RLIMIT_NOFILE}
)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests, and the processes that they start, neither use nor fill the caches of the user who runs them."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(directory))
        patch.setenv("NEURALD_SECRET_FILE", str(directory / "secret"))
        yield


@pytest.fixture(autouse=True)
def _own_limits() -> Iterator[None]:
    """The limits of this process are those it started with: those that a test sets hold in processes of its own."""
    before = {kind: getrlimit(kind) for kind in _LIMITS}
    yield
    changed = {kind: limit for kind, limit in before.items() if getrlimit(kind) != limit}
    for kind, limit in changed.items():
        setrlimit(kind, limit)
    assert not changed, "the test has changed limits of the process that runs all tests"


@pytest.fixture(autouse=True)
def _no_daemons_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that a test connects to are not among `nd.devices()` in the tests after it."""
    from neurald.runtime.devices import daemons

    monkeypatch.setattr(daemons, "_daemons", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many records and variants have passed, and how many of the CPU device's operations ran compiled."""
    totals: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, count in report.user_properties:
            if isinstance(count, int):
                totals[name] += count
    if totals:
        listed = ", ".join(f"{count} {name}" for name, count in totals.items())
        terminalreporter.write_line(f"conformance, all devices together: {listed}")
