"""Variables of the environment, read without the conversions of `os.environ`."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from neurald.hal.process import environment
from neurald.hal.process.environment import environment_variable, variables_with

_ROOT = Path(__file__).parents[3]
_NAME = "NEURALD_POLICY"


@pytest.mark.parametrize("value", ["", "android", "näme", os.fsdecode(b"\xff\xfe"), " a=b "])
@pytest.mark.parametrize("has_private", [True, False])
def test_values_are_those_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, value: str, has_private: bool
) -> None:
    if not has_private:
        monkeypatch.setattr(environment, "_encoded", None)
    monkeypatch.setenv(_NAME, value)
    assert environment_variable(_NAME) == value == os.environ[_NAME]
    monkeypatch.delenv(_NAME)
    assert environment_variable(_NAME) is None
    os.environ[_NAME] = "tengine"
    assert environment_variable(_NAME) == "tengine"
    os.environ.pop(_NAME)
    assert environment_variable(_NAME) is None


@pytest.mark.parametrize("has_private", [True, False])
def test_variables_of_a_kind(monkeypatch: pytest.MonkeyPatch, has_private: bool) -> None:
    if not has_private:
        monkeypatch.setattr(environment, "_encoded", None)
    for name in ("QQ_B", "QQ_A", "RR_C", "XQQ_D"):
        monkeypatch.setenv(name, name.lower())
    found = variables_with("QQ_", "RR_C")
    assert list(found.items()) == [("QQ_A", "qq_a"), ("QQ_B", "qq_b"), ("RR_C", "rr_c")]
    assert variables_with("QQ_C") == {}


def test_this_python_needs_no_conversions() -> None:
    assert environment._encoded is not None


def _reads(source: str) -> Iterator[int]:
    """Yields the lines that read one variable through `os`."""
    if "os.environ" not in source and "os.getenv" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if (isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.environ.get", "os.getenv")) or (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and ast.unparse(node.value) == "os.environ"
        ):
            yield node.lineno


def test_all_packages_read_variables_in_one_way() -> None:
    found = []
    for package in ("hal", "drivers", "runtime", "service"):
        for path in sorted((_ROOT / package).rglob("*.py")):
            if path != _ROOT / "hal/process/environment.py":
                found += [f"{path.relative_to(_ROOT)}:{line}" for line in _reads(path.read_text())]
    assert not found, "read them with environment_variable() of hal/process/environment.py"


@pytest.mark.parametrize("source", ["os.environ.get('A')", "os.getenv('A', '')", "b = os.environ['A']"])
def test_other_ways_to_read_variables_are_found(source: str) -> None:
    assert [*_reads(source)] == [1]
