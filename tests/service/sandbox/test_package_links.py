"""Drivers can read packages that are links to where an installer keeps them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.daemon.processes import python_path

from neurald.service.sandbox import landlock
from neurald.service.sandbox.package_links import linked_paths
from neurald.service.sandbox.readable_paths import readable_paths

#: Restricts what the process may read, and then imports packages.
_IMPORTING = """
import sys
from pathlib import Path
from neurald.service.sandbox import landlock
from neurald.service.sandbox.readable_paths import readable_paths
landlock.restrict(landlock.version(), [Path(sys.argv[1])], readable_paths(), ())
import linked, whole, single
from kept.part import inner
print(linked.sub.VALUE, whole.VALUE, single.VALUE, inner.VALUE)
"""


def _linked_files(kept: Path, folder: Path) -> None:
    """Links all files below a directory into a folder, whose directories are real."""
    for path in kept.rglob("*.*"):
        if path.is_file():
            place = folder / path.relative_to(kept)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Returns where an installer keeps packages, and a folder with links to them."""
    kept, folder = tmp_path / "kept" / "a1b2", tmp_path / "packages"
    files = {
        "linked/__init__.py": "from linked import sub",
        "linked/sub/__init__.py": "VALUE = 1",
        "linked-1.0.dist-info/entry_points.txt": "",
        "single.py": "VALUE = 3",
        "kept/part/inner.py": "VALUE = 4",
    }
    for name, text in files.items():
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        (kept / name).write_text(text)
    _linked_files(kept, folder)
    (tmp_path / "developed" / "whole").mkdir(parents=True)
    (tmp_path / "developed" / "whole" / "__init__.py").write_text("VALUE = 2")
    (folder / "whole").symlink_to(tmp_path / "developed" / "whole")
    return kept, folder


def test_where_links_of_packages_point_to_is_found(folders: tuple[Path, Path]) -> None:
    kept, folder = folders
    assert linked_paths(folder) == {
        kept / "linked",
        kept / "linked-1.0.dist-info",
        kept / "single.py",
        kept / "kept" / "part",
        folder.parent / "developed" / "whole",
    }


def test_a_link_to_a_single_file_shows_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "table.csv").touch()
    package = tmp_path / "packages" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "table.csv").symlink_to(tmp_path / "documents" / "table.csv")
    assert linked_paths(tmp_path / "packages") == {tmp_path / "documents" / "table.csv"}


def test_links_to_nothing_and_folders_that_do_not_exist_are_no_errors(tmp_path: Path) -> None:
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    assert linked_paths(tmp_path) == {tmp_path / "nowhere"}
    assert linked_paths(tmp_path / "missing") == set()


def test_a_link_to_the_home_of_the_user_does_not_make_it_readable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "home" / "ada").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "ada"))
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "everything").symlink_to(tmp_path / "home")
    (packages / "project").symlink_to(tmp_path / "home" / "ada" / "project")
    monkeypatch.setattr(sys, "path", [str(packages)])
    found = readable_paths()
    assert tmp_path / "home" not in found
    assert tmp_path / "home" / "ada" / "project" in found


@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
def test_linked_packages_are_imported_in_the_sandbox(folders: tuple[Path, Path]) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{python_path()}:{folders[1]}"}
    process = subprocess.run(
        [sys.executable, "-B", "-c", _IMPORTING, str(folders[1].parent / "packages")],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
    )
    assert process.stdout.split() == ["1", "2", "3", "4"], process.stderr
