"""Caches of vendors' runtimes: each driver has its own, and can touch no other."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.daemon.processes import python_path

from neurald.service.sandbox import landlock
from neurald.service.sandbox.vendor_caches import CACHE_VARIABLES, driver_cache, use_own_caches

#: Enters the sandbox of the driver `first`; writes to, and reads from, the folders that follow.
_PROGRAM = """
import json, os, sys
from pathlib import Path
from neurald.hal.process.address import Address
from neurald.service.sandbox.mode import SandboxMode
from neurald.service.sandbox.sandbox import enter
sandbox = enter(SandboxMode.AUTO, [Address.parse(sys.argv[1])], driver="first", is_own_process=True)
told = {}
for folder in map(Path, [*sys.argv[2:], *(os.environ[name] for name in json.loads(os.environ["NAMES"]))]):
    try:
        (folder / "new").write_text("code")
        told[str(folder)] = "written"
    except OSError:
        try:
            (folder / "kernel").read_text()
            told[str(folder)] = "read"
        except OSError as error:
            told[str(folder)] = type(error).__name__
print(json.dumps(told))
sandbox.remove_temporary_files()
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's caches; no variable names another one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in CACHE_VARIABLES:
        # It is restored at the end, also if the test's process sets it.
        monkeypatch.setenv(name, "")
    return tmp_path / "cache"


def test_each_driver_has_folders_of_its_own(cache: Path, tmp_path: Path) -> None:
    found = use_own_caches("camera:create", tmp_path)
    assert all(path.is_dir() for path in found)
    assert found == [cache / "neurald-drivers" / "camera:create" / name for name in CACHE_VARIABLES.values()]
    assert [os.environ[name] for name in CACHE_VARIABLES] == [str(path) for path in found]


def test_a_factory_is_one_folder(cache: Path) -> None:
    assert driver_cache("a/b").parent == cache / "neurald-drivers"


def test_an_operator_may_choose_another_folder(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("CUDA_CACHE_PATH", "relative")
    found = use_own_caches("gpu", tmp_path)
    assert tmp_path / "kernels" in found
    assert os.environ["POCL_CACHE_DIR"] == str(tmp_path / "kernels")
    # The runtime may resolve it; what it names is not the driver's.
    assert os.environ["CUDA_CACHE_PATH"] == "relative"
    assert len(found) == len(CACHE_VARIABLES) - 1


def test_without_a_home_they_are_those_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in CACHE_VARIABLES:
        monkeypatch.setenv(name, "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    found = use_own_caches("gpu", tmp_path)
    assert {path.parent.parent for path in found} == {tmp_path}


def test_beside_a_cache_where_nothing_can_be_made_they_are_those_of_the_process(
    cache: Path, tmp_path: Path
) -> None:
    """As in a container, whose user has a folder for neurald's cache alone."""
    cache.mkdir()
    # Root may write anywhere, but not make a folder in a file.
    (cache / "neurald-drivers").write_text("")
    found = use_own_caches("gpu", tmp_path)
    assert len(found) == len(CACHE_VARIABLES)
    assert {path.parent.parent for path in found} == {tmp_path}
    assert all(path.is_dir() for path in found)
    assert os.environ["POCL_CACHE_DIR"] == str(found[0])


@pytest.mark.skipif(landlock.version() < 1, reason="this kernel has no Landlock")
def test_a_driver_touches_no_cache_but_its_own(cache: Path, tmp_path: Path) -> None:
    others = [cache / "pocl", tmp_path / ".nv", driver_cache("second") / "pocl"]
    for folder in others:
        folder.mkdir(parents=True)
        (folder / "kernel").write_text("code")
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PYTHONPATH": python_path(),
        "NAMES": json.dumps(list(CACHE_VARIABLES)),
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, f"unix://{tmp_path}/run/d.sock", *map(str, others)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        **{str(folder): "PermissionError" for folder in others},
        **{str(driver_cache("first") / name): "written" for name in CACHE_VARIABLES.values()},
    }
