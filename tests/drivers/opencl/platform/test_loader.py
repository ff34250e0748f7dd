"""The loader finds every library once, and respects the user's choice of libraries."""

import os
import stat
import sys
from pathlib import Path

import pytest

from neurald.drivers.opencl.platform import loader


def test_the_folder_for_the_loader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in loader._LOADER_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OCL_ICD_FILENAMES", "libpocl.so.2.10.0:/opt/libmine.so")
    vendors, libraries = tmp_path / "vendors", tmp_path / "lib"
    for folder in (vendors, libraries):
        folder.mkdir()
    for name in ("libpocl.so.2.10.0", "libintelocl.so", "libnvidia-opencl.so.1"):
        (libraries / name).touch()
    (libraries / "libpocl.so.2").symlink_to("libpocl.so.2.10.0")
    (vendors / "pocl.icd").write_text("libpocl.so.2.10.0\n")
    (vendors / "intel.icd").write_text("/nowhere/libintelocl.so\n")
    found = [libraries / name for name in ("libpocl.so.2", "libintelocl.so", "libnvidia-opencl.so.1")]
    monkeypatch.setattr(loader, "_SYSTEM_VENDORS", vendors)
    monkeypatch.setattr(loader, "_libraries", lambda: found)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with loader.all_libraries():
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        entries = [file.read_text().strip() for file in folder.glob("*.icd")]
    assert sorted(entries) == sorted(
        ["libpocl.so.2.10.0", "/opt/libmine.so", "/nowhere/libintelocl.so", str(found[1]), str(found[2])]
    )
    assert not folder.exists()
    assert "OCL_ICD_VENDORS" not in os.environ
    monkeypatch.delenv("OCL_ICD_FILENAMES")
    # The user's choice stands, and where every library is named there is nothing to do.
    monkeypatch.setattr(loader, "_libraries", lambda: found[:1])
    with loader.all_libraries():
        assert "OCL_ICD_VENDORS" not in os.environ
    monkeypatch.setenv("OCL_ICD_VENDORS", "/mine")
    monkeypatch.setattr(loader, "_libraries", lambda: found)
    with loader.all_libraries():
        assert os.environ["OCL_ICD_VENDORS"] == "/mine"


def test_older_libraries_of_a_vendor_are_not_loaded(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "libpocl.so.2", tmp_path / "b" / "libpocl.so.1"
    for path in (first, second):
        path.parent.mkdir()
        path.touch()
    assert loader._entries([], [first, second]) == [str(first)]
    assert loader._entries([str(second)], [first, second]) == [str(second)]
    assert loader._entries(["libpocl.so.2", str(first)], [first]) == ["libpocl.so.2"]
