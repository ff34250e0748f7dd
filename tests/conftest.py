"""Options and fixtures of all tests."""

import contextlib
import faulthandler
import gc
import logging
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

# Imported by name: a test may patch the module, and its patch is undone after `_own_limits`.
from resource import getrlimit, setrlimit
from typing import TYPE_CHECKING, TypeGuard

import pytest
from hypothesis import HealthCheck, settings
from support.process.fresh_process import OPTION, run_in_fresh_process
from support.sweeps import run_only
from support.tiers import Tier, current_tier, is_taken, sampled, set_tier

if TYPE_CHECKING:
    from support.daemon.traffic import Traffic

# Beside other tests, the generation of an example and its test may take any time.
settings.register_profile("neurald", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("neurald")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of these tests."""
    parser.addoption(
        "--tier",
        choices=[tier.value for tier in Tier],
        default=Tier.DEFAULT.value,
        help="how many tests to run: quick (seconds), default, or full",
    )
    parser.addoption(
        "--case", default="", help="of tests that sweep over cases, run those whose names contain this"
    )
    parser.addoption(
        OPTION, action="store_true", help="run tests that fork in this process, started for one of them"
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Sets the tier and the cases to run, and what a fatal signal of this process reports."""
    # By default the stacks of the 100 youngest threads, among which that of the signal may be
    # missing, and in a process with so many that of the tests is. pytest restores the default.
    faulthandler.enable(os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2), all_threads=False)
    # Also while tests are collected. Tests of starting drivers on demand turn it on, in directories
    # of their own.
    os.environ["NEURALD_AUTOSTART"] = "0"
    set_tier(Tier(config.getoption("--tier")))
    run_only(config.getoption("--case"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in a background job of a shell; processes that tests start would ignore it as well.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Skips files without tests of the tier `quick` in that tier, to save their imports."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if current_tier() is Tier.QUICK and is_test:
        return "mark.quick" not in collection_path.read_text(encoding="utf-8") or None
    return None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collects tests without searching for garbage, and excludes what it makes from later searches.

    There are millions of objects, and some tests search for garbage dozens of times.
    """
    gc.disable()
    try:
        _import_share(session)
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _import_share(session: pytest.Session) -> None:
    """Imports this worker's share of all test files, whose bytecode the others then find.

    All workers collect all tests in the same order, so each would compile all files.
    """
    number, count = (os.environ.get(f"PYTEST_XDIST_WORKER{name}", "") for name in ("", "_COUNT"))
    if not number or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    for path in sorted(Path(__file__).parent.rglob("test_*.py"))[int(number[2:]) :: int(count)]:
        # A file that cannot be imported fails when its tests are collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            _ = pytest.Module.from_parent(session, path=path).obj


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests of higher tiers, and has tests of durations repeated if they fail."""
    taken = [item for item in items if is_taken(item, current_tier())]
    if current_tier() is not Tier.FULL:
        taken = sampled(taken)
    kept = {id(item) for item in taken}
    if left := [item for item in items if id(item) not in kept]:
        config.hook.pytest_deselected(items=left)
        items[:] = taken
    for item in items:
        if item.get_closest_marker("timed"):
            item.add_marker(pytest.mark.flaky(reruns=_REPETITIONS, reruns_delay=_PAUSE_S))
        if _needs_fresh_process(item):
            item.fixturenames = []  # they are set up in the fresh process


def _needs_fresh_process(item: pytest.Item) -> TypeGuard[pytest.Function]:
    """Returns whether a test runs in a process of its own, and this is not that."""
    forks = isinstance(item, pytest.Function) and item.get_closest_marker("forks") is not None
    return forks and not item.config.getoption(OPTION)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that forks in a process of its own."""
    if not _needs_fresh_process(pyfuncitem):
        return None
    run_in_fresh_process(pyfuncitem)
    return True


#: How often a test of a duration is repeated, and after which pause: other programs and tests may
#: have had the processor meanwhile.
_REPETITIONS = 2
_PAUSE_S = 2
#: All limits, except that of descriptors: a daemon within a test raises it, which does no harm.
_LIMITS = sorted(
    {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    - {resource.RLIMIT_NOFILE}
)


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a new folder with a short path, since that of a socket has at most 100 bytes.

    pytest would name it after the test, and its length would depend on how many tests with that
    name the same process has run before.
    """
    return tmp_path_factory.mktemp("t")


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> "Traffic":
    """Counts the messages of clients in this process from now on."""
    from support.daemon.traffic import Traffic

    return Traffic(monkeypatch)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Gives tests, and the processes that they start, a cache other than the user's.

    This is never undone: threads of the last tests may still compile and record when they have
    ended.
    """
    directory = tmp_path_factory.mktemp("cache")
    os.environ["XDG_CACHE_HOME"] = str(directory)
    os.environ["NEURALD_SECRET_FILE"] = str(directory / "secret")


@pytest.fixture(autouse=True, scope="session")
def _shared_kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lets all processes of a run share the machine code that PoCL makes of equal kernels.

    PoCL names it after its source, its options and the device, also where a test has a cache of its
    own.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POCL_CACHE_DIR", str(folder / "pocl"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_directories(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hides the daemons, the configuration and the records of this user and machine from tests.

    This is never undone, either.
    """
    directory = tmp_path_factory.mktemp("own")
    directory.chmod(0o700)
    for variable, name in (
        ("XDG_RUNTIME_DIR", "run"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("NEURALD_MACHINE_DIRECTORY", "machine"),
    ):
        os.environ[variable] = str(directory / name)
    (directory / "run").mkdir(mode=0o700)
    for variable in ("NEURALD_CONFIG", "NEURALD_REMOTES", "NEURALD_TLS", "NEURALD_TOKEN_FILE"):
        os.environ.pop(variable, None)


@pytest.fixture(autouse=True, scope="session")
def _optimized() -> Iterator[None]:
    """Lets compilations wait for optimised code, which tests compare with other results."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEURALD_STARTUP", "optimized")
        yield


@pytest.fixture(autouse=True, scope="session")
def _leaves_nothing() -> Iterator[None]:
    """Lets processes leave no work to others when they exit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEURALD_COMPILE_AFTER_EXIT", "0")
        yield


@pytest.fixture(autouse=True, scope="session")
def _android() -> Iterator[None]:
    """Makes compilations choose devices by Android's rule, by which small models use several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEURALD_POLICY", "android")
        yield


@pytest.fixture(autouse=True, scope="session")
def _quick_compilers() -> Iterator[None]:
    """Compiles in the background at full priority, so that busy machines do not delay tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neurald.hal.compiling.separate_compiler.NICENESS", 0)
        yield


@pytest.fixture
def compiles_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process compile models for its CPU device, with the same compiler.

    For a small model, the process that it is otherwise given takes several times as long.
    """
    for module in ("compiling", "preparer"):
        monkeypatch.setattr(
            f"neurald.runtime.plan.{module}.compiles_in_process_of_its_own", lambda device: False
        )


@pytest.fixture(autouse=True)
def _own_limits() -> Iterator[None]:
    """Checks that a test does not change the resource limits of this process."""
    before = {kind: getrlimit(kind) for kind in _LIMITS}
    yield
    changed = {kind: limit for kind, limit in before.items() if getrlimit(kind) != limit}
    for kind, limit in changed.items():
        setrlimit(kind, limit)
    assert not changed, "the test has changed limits of the process that runs all tests"


@pytest.fixture(autouse=True)
def unexpected_errors() -> Iterator[list[str]]:
    """Checks that nothing fails unexpectedly while the first tier chooses kernels.

    References would run such operations, with the same results. A test that causes such errors
    removes them from the list.
    """
    found: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(self.format(record))

    logger = logging.getLogger("neurald.drivers.cpu.first_tier")
    collector = Collector(logging.ERROR)
    logger.addHandler(collector)
    yield found
    logger.removeHandler(collector)
    assert not found, found[0]


@contextlib.contextmanager
def _no_daemons() -> Iterator[None]:
    from neurald.runtime.devices import daemons

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(daemons, "_daemons", {})
        yield


@pytest.fixture(autouse=True, scope="module")
def _no_daemons_of_other_files() -> Iterator[None]:
    """Hides the daemons of fixtures of the session from what fixtures of a file compile."""
    with _no_daemons():
        yield


@pytest.fixture(autouse=True)
def _no_daemons_of_other_tests() -> Iterator[None]:
    """Removes the daemons that a test has connected to from `nd.devices()`."""
    with _no_daemons():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Reports the numbers of passed records and variants, and of operations that ran compiled."""
    totals: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, count in report.user_properties:
            if isinstance(count, int):
                totals[name] += count
    if totals:
        listed = ", ".join(f"{count} {name}" for name, count in totals.items())
        terminalreporter.write_line(f"conformance, all devices together: {listed}")
