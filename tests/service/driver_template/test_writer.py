"""`neurald new-driver` writes a driver that passes its own tests."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.daemon.command_line import error_of, invoke
from support.daemon.processes import python_path
from support.sweeps import sweep

from neurald.hal.registry import create_device
from neurald.service.driver_template.writer import _FILES


@sweep(
    "name",
    [
        "",
        "1a",
        "A",
        "a--b",
        "a-",
        "-a",
        "a b",
        "../a",
        "a/b",
        "a.b",
        "class",
        "match",
        "cpu",
        "sample-all",
        "json",
        "neurald",
        "é",
        "a\n",
        "a" * 41,
    ],
)
def test_invalid_names_are_refused(name: str, tmp_path: Path) -> None:
    message = error_of("new-driver", "--", name, tmp_path / "new")
    assert "driver name" in message
    assert not (tmp_path / "new").exists()


def test_existing_directories_are_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "new"
    target.mkdir()
    assert "exists already; nothing was written" in error_of("new-driver", "turbo", target)
    assert list(target.iterdir()) == []
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    assert "exists already" in error_of("new-driver", "turbo", dangling)


def test_a_package_that_cannot_be_written_whole_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []

    def write_until_the_disk_is_full(path: Path, content: bytes) -> None:
        if len(written) == len(_FILES) - 1:
            raise OSError(errno.ENOSPC, "it cannot be written: no space", str(path))
        path.write_bytes(content)
        written.append(path)

    monkeypatch.setattr("neurald.service.driver_template.writer.write_output", write_until_the_disk_is_full)
    message = error_of("new-driver", "my-npu", tmp_path / "new")
    assert message.endswith("test_damaged_files.py: it cannot be written: no space\n")
    assert written
    assert list(tmp_path.iterdir()) == []


def test_the_written_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "new"
    assert invoke("new-driver", "my-npu", target).exit_code == 0
    written = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert written == {path.format(package="my_npu") for path in _FILES}
    for path in target.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert not any(f"@{word}@" in text for word in ("name", "package", "class", "magic")), path
    assert 'my-npu = "my_npu.device:create"' in (target / "pyproject.toml").read_text()
    monkeypatch.syspath_prepend(str(target / "src"))
    assert create_device("my_npu.device:create").name == "my-npu"


def test_an_entry_point_names_the_driver(tmp_path: Path) -> None:
    assert invoke("new-driver", "turbo-one", tmp_path / "new").exit_code == 0
    source = tmp_path / "new" / "src"
    # An installation writes these files.
    information = source / "turbo_one-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: turbo-one\nVersion: 0.1.0\n")
    (information / "entry_points.txt").write_text("[neurald.drivers]\nturbo-one = turbo_one.device:create\n")
    program = "from neurald.hal.registry import create_device; print(create_device('turbo-one').version)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(source), python_path()))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith("turbo-one 0.1.0")


@pytest.mark.slow
def test_the_tests_of_the_package_pass(tmp_path: Path) -> None:
    assert invoke("new-driver", "turbo", tmp_path / "new").exit_code == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "new",
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "4 passed" in done.stdout


def test_the_written_files_compile_and_have_short_lines(tmp_path: Path) -> None:
    assert invoke("new-driver", "turbo", tmp_path / "new").exit_code == 0
    for path in (tmp_path / "new").rglob("*.py"):
        compile(path.read_text(), str(path), "exec")
        assert max(map(len, path.read_text().splitlines())) <= 110
