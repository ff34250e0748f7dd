from pathlib import Path

import pytest

from neurald.hal.errors import BadData, BadState
from neurald.runtime.plan_files.keys import (
    SigningKey,
    is_signed,
    key_line,
    own_keys,
    read_keys,
    trusted_keys,
)


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_the_key_of_a_user_is_made_once() -> None:
    assert own_keys() == frozenset()
    key = SigningKey()
    assert SigningKey().public == key.public
    assert own_keys() == {key.public}
    signature = key.sign(b"content")
    assert is_signed(b"content", signature, key.public)
    assert not is_signed(b"contents", signature, key.public)
    assert not is_signed(b"content", bytes(64), key.public)
    assert not is_signed(b"content", signature, bytes(32))
    assert not is_signed(b"content", b"", key.public)


def test_a_damaged_public_key_is_written_again(tmp_path: Path) -> None:
    key = SigningKey()
    (tmp_path / "state" / "neurald" / "plan_key.pub").write_bytes(b"\xff")
    assert SigningKey().public == key.public
    assert own_keys() == {key.public}


def test_folders_that_cannot_be_examined_have_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    too_long = "/" + 300 * "x"
    monkeypatch.setenv("XDG_STATE_HOME", too_long)
    monkeypatch.setenv("XDG_CONFIG_HOME", too_long)
    assert trusted_keys() == own_keys() == frozenset()


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    SigningKey()
    path = tmp_path / "state" / "neurald" / "plan_key"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(BadState, match=r"the key of plan files .* is not yours alone"):
        SigningKey()
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(BadState, match=r"32 are expected\. Remove the file: a new key"):
        SigningKey()


def test_keys_in_the_folder_are_trusted(tmp_path: Path) -> None:
    assert trusted_keys() == frozenset()
    folder = tmp_path / "config" / "neurald" / "plan_keys"
    folder.mkdir(parents=True)
    first, second = bytes(range(32)), bytes(32)
    (folder / "a.pub").write_text(f"# a comment\n\n{key_line(first, 'of a')}\n{key_line(second, '')}\n")
    (folder / "other.txt").write_text("no key")
    assert trusted_keys() == {first, second}
    folder.chmod(0o777)
    with pytest.raises(BadState, match="nobody else may write it"):
        trusted_keys()
    folder.chmod(0o755)
    (folder / "a.pub").chmod(0o666)
    with pytest.raises(BadState, match="nobody else may write it"):
        trusted_keys()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing",
        "ssh-ed25519 AAAA",
        "neurald-plan-key",
        "neurald-plan-key 00ff",
        "neurald-plan-key " + "0g" * 32,
        "neurald-plan-key " + "00" * 33,
        "x" * 70_000,
    ],
)
def test_other_files_are_not_keys(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k.pub"
    path.write_text(text)
    with pytest.raises(BadData, match=r"k\.pub"):
        read_keys(path)


def test_keys_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="No such file"):
        read_keys(tmp_path / "none")
    with pytest.raises(BadData):
        read_keys(tmp_path)
    with pytest.raises(BadData, match="not a regular file"):
        read_keys("/dev/null")
