"""Directories that no other user can replace, and paths through directories of others."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadState
from neurald.hal.process.files import private_directory
from neurald.hal.process.files.private_directory import make_directory, open_private, open_private_file

STRANGER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def open_mask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def refusal(directory: Path, *, may_be_link: bool = True) -> str:
    with pytest.raises(BadState) as caught:
        os.close(open_private(directory, may_be_link=may_be_link))
    return str(caught.value)


def test_what_is_missing_is_made_for_its_user_alone(tmp_path: Path, open_mask: None) -> None:
    deep = tmp_path / "a" / "b" / "c"
    make_directory(deep)
    make_directory(deep)
    for each in (deep, deep.parent, deep.parent.parent):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    os.close(open_private(deep, may_be_link=False))


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_directory(tmp_path / "file")
    with pytest.raises(OSError, match="Not a directory"):
        open_private(tmp_path / "file", may_be_link=True)


@sweep("mode", [0o777, 0o707, 0o703])
def test_others_may_write_nowhere_on_the_way(tmp_path: Path, mode: int) -> None:
    above = tmp_path / "above"
    inner = above / "mine"
    make_directory(inner)
    above.chmod(mode)
    assert str(above) in refusal(inner)
    above.chmod(mode | stat.S_ISVTX)
    os.close(open_private(inner, may_be_link=False))
    above.chmod(0o700)
    inner.chmod(mode)
    assert str(inner) in refusal(inner)


def test_links_of_ones_own(tmp_path: Path) -> None:
    make_directory(tmp_path / "real" / "inner")
    (tmp_path / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "relative").symlink_to("real/../real")
    (tmp_path / "endless").symlink_to("endless")
    for name in ("absolute", "relative"):
        os.close(open_private(tmp_path / name, may_be_link=True))
        os.close(open_private(tmp_path / name / "inner", may_be_link=False))
        assert "symbolic link" in refusal(tmp_path / name, may_be_link=False)
    assert "symbolic link" in refusal(tmp_path / "endless")
    (tmp_path / "real").chmod(0o777)
    assert "real can be written" in refusal(tmp_path / "absolute" / "inner")


@needs_root
def test_links_and_directories_of_others(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    make_directory(tmp_path / "victim" / "inner")
    planted = shared / "planted"
    planted.symlink_to(tmp_path / "victim")
    os.lchown(planted, STRANGER, STRANGER)
    assert f"link of user {STRANGER}" in refusal(planted)
    assert f"link of user {STRANGER}" in refusal(planted / "inner")
    foreign = shared / "foreign"
    make_directory(foreign / "inner")
    os.chown(foreign, STRANGER, STRANGER)
    assert f"belongs to user {STRANGER}" in refusal(foreign)
    assert f"belongs to user {STRANGER}" in refusal(foreign / "inner")


@sweep(
    ("users", "is_unseen"),
    [
        ("         0          0 4294967295\n", False),  # the first namespace: 65534 is `nobody`
        ("         0       1000          1\n", True),
        ("         0     100000      65536\n", False),
        ("         0       1000          1\n         1     100000      65533\n", True),
        ("", True),
        ("no numbers", False),
    ],
)
def test_who_stands_for_users_outside(tmp_path: Path, users: str, is_unseen: bool) -> None:
    """Root outside a namespace looks like `nobody`, and is trusted if that is not a user inside."""
    own_users, overflow_user = tmp_path / "uid_map", tmp_path / "overflowuid"
    own_users.write_text(users)
    overflow_user.write_text("65534\n")
    assert private_directory._is_unseen(65534, own_users, overflow_user) is is_unseen
    assert not private_directory._is_unseen(65533, own_users, overflow_user)
    assert not private_directory._is_unseen(65534, own_users, tmp_path / "missing")


@pytest.mark.parametrize("mode", ["xb", "ab", "rb"])
def test_private_files_are_regular_ones(tmp_path: Path, mode: str) -> None:
    """A pipe would be waited for: drivers may put one where applications keep a log."""
    file, pipe, link = tmp_path / "file", tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(file)
    for planted in (pipe, link):
        with pytest.raises(OSError, match=str(planted)), open(planted, mode, opener=open_private_file):
            pass
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match=str(pipe)), open(pipe, mode, opener=open_private_file):
        pass
    os.close(reader)
    if mode == "rb":
        file.touch(0o600)
    with open(file, mode, opener=open_private_file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
