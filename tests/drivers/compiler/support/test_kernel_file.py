"""Kernel text that is loaded from files."""

import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from neurald.drivers.compiler.support import kernel_file
from neurald.drivers.compiler.support.kernel_file import kernel_text

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module beside a kernel file."""
    (tmp_path / "with_a_kernel.py").write_text("")
    (tmp_path / "with_a_kernel.ll").write_text("; $$1\ndefine $TYPE @${TYPE}_of_$COUNT()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "with_a_kernel", raising=False)
    kernel_file._template.cache_clear()
    return "with_a_kernel"


def test_placeholders_are_replaced(module: str) -> None:
    assert kernel_text(module, "with_a_kernel.ll", TYPE="i32", COUNT=4) == "; $1\ndefine i32 @i32_of_4()\n"


@pytest.mark.parametrize("values", [{}, {"TYPE": "i32"}, {"TYPE": "i32", "COUNT": 4, "KIND": "float"}])
def test_the_values_are_those_of_the_placeholders(module: str, values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"with_a_kernel\.ll: .* but the file contains COUNT, TYPE"):
        kernel_text(module, "with_a_kernel.ll", **values)


def test_other_dollar_signs_are_refused(module: str, tmp_path: Path) -> None:
    (tmp_path / "dollars.ll").write_text("a $name\n")
    with pytest.raises(ValueError, match=r"dollars\.ll: Invalid placeholder .* write a dollar sign as \$\$"):
        kernel_text(module, "dollars.ll")


def test_a_missing_file(module: str) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        kernel_text(module, "missing.ll")


def test_a_file_is_read_once(module: str, tmp_path: Path) -> None:
    first = kernel_text(module, "with_a_kernel.ll", TYPE="i32", COUNT=4)
    (tmp_path / "with_a_kernel.ll").unlink()
    assert kernel_text(module, "with_a_kernel.ll", TYPE="i32", COUNT=4) == first


def test_files_in_a_zip_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "packages.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("zipped_kernels/__init__.py", "")
        archive.writestr("zipped_kernels/kernels.py", "")
        archive.writestr("zipped_kernels/sum.cl", "sum of $COUNT")
    monkeypatch.syspath_prepend(path)
    assert kernel_text("zipped_kernels.kernels", "sum.cl", COUNT=2) == "sum of 2"


def test_packages_contain_all_kernel_files() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["*"]
    files = [
        path for path in (ROOT / "drivers").rglob("*") if path.is_file() and path.suffix in (".ll", ".cl")
    ]
    assert files
    assert [path for path in files if not any(fnmatch(path.name, each) for each in patterns)] == []
