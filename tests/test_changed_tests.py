"""`scripts/test --changed` finds the tests of changed files."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from support.sources.mirror import COVERED_BY

pytestmark = pytest.mark.quick

_SCRIPT = Path(__file__).parent.parent / "scripts" / "changed_tests.py"


@pytest.fixture(scope="module")
def script() -> Any:
    specification = importlib.util.spec_from_file_location("changed_tests", _SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_a_source_selects_its_mirror_and_importing_tests(script: Any) -> None:
    source, test = next(iter(COVERED_BY.items()))
    found = script.touched_tests([source, "hal/sync/fence.py"])
    assert "tests/hal/sync/test_fence.py" in found
    assert test in found
    assert all(path.rpartition("/")[2].startswith("test_") for path in found)


def test_a_helper_selects_importing_tests_and_a_test_itself(script: Any) -> None:
    assert "tests/test_sweeps.py" in script.touched_tests(["tests/support/sweeps.py"])
    assert script.touched_tests(["tests/hal/sync/test_fence.py"]) == ["tests/hal/sync/test_fence.py"]


def test_pages_examples_and_benchmarks_select_their_folder(script: Any) -> None:
    assert "tests/docs/test_pages.py" in script.touched_tests(["README.md"])
    assert "tests/docs/test_paths.py" in script.touched_tests(["docs/index.md"])
    assert "tests/examples/test_examples.py" in script.touched_tests(["examples/chain_models.py"])
    assert "tests/benchmarks/test_results.py" in script.touched_tests(["benchmarks/tables.py"])


def test_files_that_no_test_reads_select_none(script: Any) -> None:
    assert script.touched_tests(["LICENSE", ".gitignore"]) == []
