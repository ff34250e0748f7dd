"""Every source file has a test file of the same name, or an entry in `support.covered_by`."""

from pathlib import Path

import pytest
from support.covered_by import compiler, cpu, hal, opencl, runtime, sample, service
from support.sources.mirror import COVERED_BY, SOURCES, mirror_of, sources

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parent.parent


def test_every_source_is_covered() -> None:
    without = [
        path for path in sources(ROOT) if path not in COVERED_BY and not (ROOT / mirror_of(path)).is_file()
    ]
    assert not without, "neither a test file of their own nor an entry in tests/support/covered_by"


def test_each_table_has_its_folder() -> None:
    tables = {
        "hal/": hal,
        "runtime/": runtime,
        "service/": service,
        "drivers/compiler/": compiler,
        "drivers/cpu/": cpu,
        "drivers/opencl/": opencl,
        "drivers/sample/": sample,
    }
    for folder, table in tables.items():
        assert [path for path in table.COVERED_BY if not path.startswith(folder)] == []


def test_the_table_names_files_that_exist() -> None:
    listed = set(sources(ROOT))
    assert [path for path in COVERED_BY if path not in listed] == []
    assert [test for test in sorted(set(COVERED_BY.values())) if not (ROOT / test).is_file()] == []
    assert [test for test in COVERED_BY.values() if not Path(test).name.startswith("test_")] == []


def test_sources_with_their_own_test_file_are_not_in_the_table() -> None:
    assert [path for path in COVERED_BY if (ROOT / mirror_of(path)).is_file()] == []


def test_sources_are_found_and_files_without_code_need_no_test() -> None:
    found = sources(ROOT)
    assert {path.partition("/")[0] for path in found} == set(SOURCES)
    assert "hal/sync/fence.py" in found
    assert "hal/__init__.py" not in found
    assert "runtime/tflite/legalization/__init__.py" in found
    assert mirror_of("hal/sync/fence.py") == "tests/hal/sync/test_fence.py"
