"""A model that one process has compiled is not compiled again by another, in process or through
daemons.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.daemon.processes import daemon_process, python_path
from support.devices.counted import COMPILATIONS, compilations
from support.tiers import one_in

from neurald.drivers.opencl.platform.discovery import choose, discover
from neurald.hal.errors import UnavailableDevice

#: Compiles a model on the device named first, runs it with inputs of each number of rows, and
#: prints the report.
PROGRAM = """
import sys
import numpy as np
import neurald as nd
from neurald.hal.registry import create_device
from support.models.cached import MODELS

where, kind, *rows = sys.argv[1:]
device = nd.connect(where) if where.startswith("unix:") else create_device(where)
model, expected = MODELS[kind]
compilation = nd.CompilationBuilder(model(), [device]).finish()
(report,) = compilation.report.steps
print(report.cache.value, report.is_stored, report.reason, sep="|")
for count in map(int, rows):
    given = np.arange(count * 3, dtype=np.float32).reshape(count, 3) / 8
    result = compilation.run(given)[0]
    np.testing.assert_allclose(result, expected(given), rtol=1e-5)
"""


@pytest.fixture(params=["cpu", "opencl"])
def driver(request: pytest.FixtureRequest) -> str:
    if request.param == "opencl":
        try:
            choose(discover())
        except UnavailableDevice as error:
            pytest.skip(str(error))
    return f"support.devices.counted:create_{request.param}"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "NEURALD_SECRET_FILE": str(tmp_path / "secret"),
        COMPILATIONS: str(tmp_path / "compilations"),
        "NEURALD_CPU_COMPILER": "on",
        "PYTHONPATH": python_path(),
    }


@contextmanager
def served(driver: str, is_remote: bool, environment: dict[str, str]) -> Iterator[str]:
    """Yields the device's name in this process, or the address of a new daemon."""
    if not is_remote:
        yield driver
        return
    with daemon_process(driver, environment=environment) as (_, address):
        yield address


def run(where: str, environment: dict[str, str], model: str, *rows: int) -> tuple[str, str, str]:
    """Compiles in a new process and returns the outcome, whether it is stored, and the reason."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, where, model, *map(str, rows)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "not cached" not in result.stderr
    outcome, is_stored, reason = result.stdout.strip().split("|")
    return outcome, is_stored, reason


def counted(environment: dict[str, str]) -> int:
    return compilations(Path(environment[COMPILATIONS]))


@pytest.mark.slow
@pytest.mark.parametrize("is_remote", [False, True], ids=["in-process", "daemon"])
@pytest.mark.sampled(2)
def test_each_shape_is_compiled_once_for_all_processes(
    driver: str, is_remote: bool, environment: dict[str, str]
) -> None:
    # Devices compile once for one row, and once for any other number of rows.
    for rows in ((1, 4), (4, 1), (4, 2, 1)):
        with served(driver, is_remote, environment) as where:
            outcome, is_stored, reason = run(where, environment, "unspecified", *rows)
        assert (outcome, is_stored) == ("miss", "False"), reason
        assert "only known to executions" in reason
        assert "changed" not in reason
        assert counted(environment) == 2


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("model", one_in(2, ["with constants", "without constants"]))
@pytest.mark.parametrize("is_remote", [False, True], ids=["in-process", "daemon"])
@pytest.mark.sampled(4)
def test_every_step_is_stored(driver: str, is_remote: bool, model: str, environment: dict[str, str]) -> None:
    for outcome in ("miss", "hit"):
        with served(driver, is_remote, environment) as where:
            found = run(where, environment, model, 2)
        assert found[:2] == (outcome, "True"), found
        assert counted(environment) == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_remote", [False, True], ids=["in-process", "daemon"])
@pytest.mark.sampled(2)
def test_a_model_in_parts_is_stored(is_remote: bool, environment: dict[str, str]) -> None:
    for outcome in ("miss", "hit"):
        with served("support.devices.counted:create_cpu", is_remote, environment) as where:
            found = run(where, environment, "in parts", 4)
        assert found[:2] == (outcome, "True"), found
        assert counted(environment) == 1
