"""NumPy is imported when it is first used, and its version is known before."""

import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from neurald.hal.lazy_numpy import np, numpy_version, version_in

_PROGRAM = """
import sys
from neurald.hal.lazy_numpy import np, numpy_version
assert "numpy" not in sys.modules
version = numpy_version()
assert "numpy" not in sys.modules
assert np.zeros(3).tolist() == [0, 0, 0]
import numpy
assert np.ndarray is numpy.ndarray
assert version == numpy.__version__, version
"""


def test_numpy_is_imported_by_its_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_attributes_are_those_of_numpy() -> None:
    assert np.float32 is numpy.float32
    assert np.linalg is numpy.linalg
    with pytest.raises(AttributeError, match="no_such_function"):
        np.no_such_function  # type: ignore[attr-defined]  # noqa: B018


def test_what_a_file_says_of_its_version(tmp_path: Path) -> None:
    path = tmp_path / "version.py"
    assert version_in(path) is None
    path.write_text("version = compute()\n")
    assert version_in(path) is None
    path.write_bytes(b"version = '\xff'\n")
    assert version_in(path) is None
    path.write_text("# version\nshort_version = '9'\nversion = '1.2.3rc1'\n")
    assert version_in(path) == "1.2.3rc1"


def test_the_version_of_an_imported_numpy() -> None:
    assert numpy_version() == numpy.__version__
