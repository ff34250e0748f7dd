"""Small files of applications: where they are, and that nothing about them is an error."""

import errno
import os
from pathlib import Path

import pytest

from neurald.hal.cache import file
from neurald.runtime.devices import kept_file


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The two folders, which do not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    return tmp_path / "cache" / "neurald" / "devices", tmp_path / "run" / "neurald" / "devices"


def test_a_file_is_replaced(places: tuple[Path, Path]) -> None:
    assert list(kept_file.contents("a")) == []
    for content in (b"1", b"2"):
        kept_file.write("a", content)
        assert list(kept_file.contents("a")) == [content]
    cache, run = places
    assert [path.name for path in cache.iterdir()] == ["a"]
    assert (cache / "a").stat().st_mode & 0o777 == 0o600
    assert not run.exists()


def test_a_cache_that_cannot_be_written_has_a_substitute(places: tuple[Path, Path]) -> None:
    cache, run = places
    cache.parent.parent.mkdir()
    cache.parent.touch()  # it is not a directory
    kept_file.write("a", b"1")
    assert list(kept_file.contents("a")) == [b"1"]
    assert (run / "a").read_bytes() == b"1"
    run.parent.parent.chmod(0o700)
    cache.parent.unlink()
    kept_file.write("a", b"2")
    assert list(kept_file.contents("a")) == [b"2"]
    assert not (run / "a").exists()


def test_a_file_that_cannot_be_replaced_is_not_preferred(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, run = places
    kept_file.write("a", b"1")
    os.utime(cache / "a", (1e9, 1e9))
    replace_file = file.replace_file

    def replace(directory: int, name: str, content: bytes) -> None:
        if os.path.samestat(os.fstat(directory), cache.stat()):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace_file(directory, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(kept_file, "replace_file", replace)
        kept_file.write("a", b"2")
    assert (run / "a").exists()
    assert list(kept_file.contents("a")) == [b"2", b"1"]
    kept_file.write("a", b"3")
    assert list(kept_file.contents("a")) == [b"3"]


def test_nowhere_to_write_is_no_error(places: tuple[Path, Path], tmp_path: Path) -> None:
    for name in ("cache", "run"):
        (tmp_path / name).touch()
    kept_file.write("a", b"1")
    assert list(kept_file.contents("a")) == []


def test_links_pipes_and_large_files_are_not_read(places: tuple[Path, Path], tmp_path: Path) -> None:
    cache, _ = places
    kept_file.write("large", b"x" * ((1 << 18) + 1))
    assert list(kept_file.contents("large")) == []
    kept_file.write("a", b"1")
    (cache / "link").symlink_to(cache / "a")
    os.mkfifo(cache / "pipe")
    (cache / "large").write_bytes(b"x" * ((1 << 18) + 1))
    for name in ("link", "pipe", "large"):
        assert list(kept_file.contents(name)) == []


def test_the_number_of_files_is_bounded(places: tuple[Path, Path]) -> None:
    cache, _ = places
    for number in range(300):
        kept_file.write(str(number), b"")
    assert len(list(cache.iterdir())) <= 256
    assert list(kept_file.contents("299")) == [b""]


def test_folders_that_others_can_write_to_are_not_used(places: tuple[Path, Path]) -> None:
    cache, run = places
    kept_file.write("a", b"1")
    cache.chmod(0o770)
    assert list(kept_file.contents("a")) == []
    kept_file.write("a", b"2")
    assert (cache / "a").read_bytes() == b"1"
    assert (run / "a").read_bytes() == b"2"


def test_a_folder_that_is_a_link_loses_nothing(places: tuple[Path, Path], tmp_path: Path) -> None:
    """Drivers may write to the cache, and could otherwise let an application remove any files."""
    cache, run = places
    documents = tmp_path / "documents"
    documents.mkdir()
    for number in range(300):
        (documents / str(number)).touch()
    cache.parent.mkdir(parents=True)
    cache.symlink_to(documents)
    kept_file.write("a", b"1")
    assert len(list(documents.iterdir())) == 300
    assert (run / "a").read_bytes() == b"1"
