"""Digests of the files that a compiler consists of."""

import os
import shutil
import sys
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.cache import sources
from neurald.hal.cache.secret import SECRET_VARIABLE
from neurald.hal.cache.sources import digest_of_directory, digest_of_resources, sources_digest

pytestmark = pytest.mark.quick

FOLDERS = ("drivers/a", "hal")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "of_a_compiler"
    for path, text in {
        "__init__.py": "",
        "drivers/a/render.py": "a = 1\n",
        "drivers/a/kernels/sum.cl": "sum\n",
        "drivers/b/other.py": "b = 1\n",
        "hal/model/types.py": "c = 1\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def digest(package: Path) -> str:
    return digest_of_directory(package, FOLDERS)


def test_every_file_of_the_folders_counts(package: Path) -> None:
    seen = {digest(package)}
    for path in ("drivers/a/render.py", "drivers/a/kernels/sum.cl", "hal/model/types.py", "hal/new.py"):
        file = package / path
        before = file.stat() if file.exists() else None
        # As long as before, and of the same time: as an editor or an installer may leave it.
        file.write_text("a = 2\n" if before is None else file.read_text().replace("1", "2").replace("s", "t"))
        if before is not None:
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        seen.add(digest(package))
    (package / "hal/new.py").rename(package / "hal/newer.py")
    seen.add(digest(package))
    assert len(seen) == 6


@pytest.mark.parametrize("size", [0, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 300_000])
def test_all_of_a_file_counts(package: Path, size: int) -> None:
    file = package / "hal/model/types.py"
    content = b"#" * size
    file.write_bytes(content)
    first = digest(package)
    assert first == digest_of_resources(package, FOLDERS)
    file.write_bytes(content[:-1] + b"!" * min(1, size))
    assert (digest(package) == first) is not bool(size)


def test_nothing_else_counts(package: Path, tmp_path: Path) -> None:
    found = digest(package)
    (package / "drivers/b/other.py").write_text("b = 2\n")
    (package / "hal/__pycache__").mkdir()
    (package / "hal/__pycache__/types.pyc").write_bytes(b"x")
    os.utime(package / "hal/model/types.py")
    assert digest(package) == found
    copy = shutil.copytree(package, tmp_path / "elsewhere")
    assert digest(copy) == found


def test_what_has_not_changed_is_not_read_again(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = digest(package)
    monkeypatch.setattr(sources, "_content_digest", lambda _: pytest.fail("the files were read"))
    assert digest(package) == found


@pytest.mark.parametrize("damage", [b"", b"x", b"\xff" * 200, None])
def test_a_damaged_memory_is_none(package: Path, tmp_path: Path, damage: bytes | None) -> None:
    found = digest(package)
    memory = memory_of(tmp_path)
    whole = memory.read_bytes()
    memory.write_bytes(whole.replace(found.encode(), found[::-1].encode()) if damage is None else damage)
    assert digest(package) == found


def memory_of(tmp_path: Path) -> Path:
    (memory,) = (tmp_path / "cache/neurald/sources").iterdir()
    return memory


def test_a_memory_that_is_no_file_of_the_user_is_not_read(package: Path, tmp_path: Path) -> None:
    """A pipe would be waited for, and a device has no end."""
    found = digest(package)
    memory = memory_of(tmp_path)
    for plant in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir):
        memory.unlink()
        plant(memory)
        assert digest(package) == found
        if memory.is_dir():
            memory.rmdir()
    digest(package)
    for mode in (0o770, 0o707):
        memory.parent.chmod(mode)
        memory.write_bytes(b"x")
        assert digest(package) == found
        assert memory.read_bytes() == b"x"


def test_a_digest_that_this_installation_did_not_remember_is_none(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers of the cache, such as drivers, cannot pass off other code's results as this one's."""
    found = digest(package)
    memory = memory_of(tmp_path)
    authentic = memory.read_bytes()
    monkeypatch.setenv(SECRET_VARIABLE, str(tmp_path / "another" / "secret"))
    digest(package)
    assert memory.read_bytes() != authentic
    memory.write_bytes(authentic)
    monkeypatch.setattr(sources, "_content_digest", lambda _: "0" * len(found))
    assert digest(package) == "0" * len(found)


def test_without_a_home_directory_nothing_is_kept_in_the_current_one(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sources, "cache_directory", lambda: Path("~/.cache/neurald"))
    monkeypatch.chdir(tmp_path)
    digest(package)
    assert not (tmp_path / "~").exists()


def test_without_a_place_to_remember(package: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no directory")
    assert digest(package) == digest(package)


@pytest.fixture
def zipped(package: Path, tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "packages.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in package.rglob("*"):
            archive.write(file, f"{package.name}/{file.relative_to(package)}")
    sys.path.insert(0, str(path))
    yield package.name
    sys.path.remove(str(path))
    sys.modules.pop(package.name, None)


def test_in_a_zip_file_it_is_the_same(package: Path, zipped: str) -> None:
    assert digest_of_resources(files(zipped), FOLDERS) == digest(package)


def test_a_changed_compiler_is_another_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = CpuDevice().version
    assert sources_digest("drivers/compiler", "drivers/cpu", "hal") in first
    copy = tmp_path / "neurald"
    for folder in ("drivers/compiler", "drivers/cpu", "hal"):
        shutil.copytree(sources._ROOT / folder, copy / folder)
    monkeypatch.setattr(sources, "_ROOT", copy)
    monkeypatch.setattr(sources, "_known", {})
    monkeypatch.setattr(sources, "_scans", {})
    assert CpuDevice().version == first
    lowering = next((copy / "drivers/compiler/lowering").glob("*.py"))
    lowering.write_text(lowering.read_text() + "\n# changed\n")
    monkeypatch.setattr(sources, "_known", {})
    monkeypatch.setattr(sources, "_scans", {})
    assert CpuDevice().version != first
