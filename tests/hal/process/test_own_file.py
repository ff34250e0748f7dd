"""Files that this process has made are removed, and not what has replaced them."""

from pathlib import Path

from neurald.hal.process.own_file import file_number, is_own, remove_own


def test_only_the_own_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    number = file_number(path)
    assert is_own(path, number)
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "other").replace(path)
    assert not is_own(path, number)
    remove_own(path, number)
    assert path.read_text() == "theirs"
    remove_own(path, file_number(path))
    assert not path.exists()


def test_a_file_that_is_gone_or_was_never_made(tmp_path: Path) -> None:
    path = tmp_path / "file"
    remove_own(path, 1)
    assert not is_own(path, 1)
    path.write_text("theirs")
    remove_own(path, None)
    assert path.exists()
