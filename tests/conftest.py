"""What all tests share."""

import os
import resource
import zlib
from collections import Counter
from collections.abc import Iterator

import pytest

#: Sweeps of many cases alike, and one in how many of them a run of all tests takes: those that compilers are waited for
#: would take most of its time. With NEURALD_ALL_TESTS it takes every one, and so does a run of a folder or file of them.
SAMPLED = {
    "tests/drivers/compiler/lowering/": 4,
    "tests/drivers/compiler/test_lowering.py": 2,
    "tests/drivers/cpu/": 2,
    "tests/drivers/opencl/": 2,
    "tests/conformance/test_opencl.py": 3,
    "tests/conformance/test_fresh_models.py": 4,
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what a run of all tests does not take, always the same cases."""
    if os.environ.get("NEURALD_ALL_TESTS") or config.args != config.getini("testpaths"):
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        share = next((share for place, share in SAMPLED.items() if item.nodeid.startswith(place)), 1)
        is_case = "[" in item.nodeid
        is_taken = not is_case or zlib.crc32(item.nodeid.encode()) % share == 0
        (kept if is_taken else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


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
    before = {kind: resource.getrlimit(kind) for kind in _LIMITS}
    yield
    changed = {kind: limit for kind, limit in before.items() if resource.getrlimit(kind) != limit}
    for kind, limit in changed.items():
        resource.setrlimit(kind, limit)
    assert not changed, "the test has changed limits of the process that runs all tests"


@pytest.fixture(autouse=True)
def _no_daemons_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that a test connects to are not among `nd.devices()` in the tests after it."""
    from neurald.runtime import daemons

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
