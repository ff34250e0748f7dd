"""Settings: what is read of the environment, and that nothing is read past them."""

import ast
import subprocess
import sys
from enum import Enum
from pathlib import Path

import pytest
from support.sweeps import sweep

import neurald.drivers
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData

DRIVERS = Path(neurald.drivers.__file__).parent
#: What may look at the environment: the settings themselves, and what finds the libraries of OpenCL
#: platforms. Which these are, and of which versions, is a part of what a device's version tells of
#: the device.
READERS = {"settings.py", "opencl/platform/loader.py"}


class Color(Enum):
    RED = "red"
    BLUE = "blue"


def settings(**environment: str) -> Settings:
    return Settings("NEURALD_X_", "NEURALD_ALL", environment=environment)


def test_only_the_variables_of_the_driver_are_read() -> None:
    found = settings(NEURALD_X_A="1", NEURALD_X_B="", NEURALD_ALL="2", NEURALD_Y_C="3", HOME="/")
    assert found.description() == "NEURALD_ALL=2, NEURALD_X_A=1"
    assert found.description(without={"NEURALD_ALL"}) == "NEURALD_X_A=1"
    assert found.text("NEURALD_X_A") == "1"
    assert not found.text("NEURALD_X_B")
    assert not found.text("NEURALD_X_NEW")
    with pytest.raises(ValueError, match="NEURALD_Y_C is not a setting of this driver"):
        found.text("NEURALD_Y_C")


def test_one_of_a_few_values() -> None:
    assert settings(NEURALD_X_A="red").choice("NEURALD_X_A", Color) is Color.RED
    assert settings().choice("NEURALD_X_A", Color) is None
    with pytest.raises(BadData, match="NEURALD_X_A is 'green'; red or blue is expected"):
        settings(NEURALD_X_A="green").choice("NEURALD_X_A", Color)


def test_what_changes_later_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURALD_X_A", raising=False)
    found = Settings("NEURALD_X_")
    monkeypatch.setenv("NEURALD_X_A", "red")
    assert not found.text("NEURALD_X_A")
    assert Settings("NEURALD_X_").text("NEURALD_X_A") == "red"


def reads_of(path: Path) -> list[str]:
    """The lines of a file that look at the environment."""
    named = {"environ", "environb", "getenv", "getenvb"}
    text = path.read_text()
    if not any(name in text for name in named):  # parsing takes longer
        return []
    return [
        f"{path.relative_to(DRIVERS)}:{node.lineno}"
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Attribute) and node.attr in named)
        or (isinstance(node, ast.ImportFrom) and any(alias.name in named for alias in node.names))
    ]


def test_no_driver_reads_the_environment_past_its_settings() -> None:
    paths = [path for path in DRIVERS.rglob("*.py") if str(path.relative_to(DRIVERS)) not in READERS]
    assert len(paths) > 100
    assert [line for path in paths for line in reads_of(path)] == []
    assert reads_of(DRIVERS / "settings.py")


@sweep(
    ("variable", "first", "second"),
    [
        ("NEURALD_CPU_COMPILER", "on", "off"),
        ("NEURALD_CPU_TARGET", "", "generic"),
        ("NEURALD_CPU_OF_THE_FUTURE", "", "1"),
    ],
)
def test_another_setting_is_another_version_of_the_cpu_device(
    variable: str, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neurald.drivers.cpu.device import create

    versions = []
    for text in (first, second):
        monkeypatch.setenv(variable, text)
        versions.append(create().version)
    assert versions[0] != versions[1]
    monkeypatch.setenv(variable, first)
    assert create().version == versions[0]


def test_threads_decide_nothing_of_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURALD_THREADS", raising=False)
    version = CpuDevice().version
    monkeypatch.setenv("NEURALD_THREADS", "3")
    assert CpuDevice().version == version


def test_importing_neurald_reads_no_sources() -> None:
    code = "import sys, neurald; sys.exit('neurald.hal.cache.sources' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
