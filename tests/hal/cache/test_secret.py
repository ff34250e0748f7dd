"""The secret of an installation: created once, private, and checked."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from neurald.hal.cache.secret import (
    SECRET_VARIABLE,
    authentication_code,
    installation_secret,
    secret_path,
)
from neurald.hal.errors import BadState


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "deep" / "secret"
    monkeypatch.setenv(SECRET_VARIABLE, str(path))
    return path


def test_made_once_for_its_user_alone(place: Path) -> None:
    secret = installation_secret()
    assert len(secret) == 32
    assert installation_secret() == secret == place.read_bytes()
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in place.parent.iterdir()] == ["secret"]


def test_processes_that_make_it_at_the_same_time_agree(place: Path) -> None:
    program = "from neurald.hal.cache.secret import installation_secret; print(installation_secret().hex())"
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = {process.communicate()[0].strip() for process in processes}
    assert said == {installation_secret().hex()}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_one_that_others_can_touch_is_refused(place: Path, mode: int) -> None:
    installation_secret()
    place.chmod(mode)
    with pytest.raises(BadState, match="not yours alone"):
        installation_secret()


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_another_length_is_refused(place: Path, content: bytes) -> None:
    place.parent.mkdir()
    place.write_bytes(content)
    place.chmod(0o600)
    with pytest.raises(BadState, match=f"has {len(content)} bytes; 32 are expected"):
        installation_secret()


def test_links_pipes_and_directories_are_refused(place: Path, tmp_path: Path) -> None:
    place.parent.mkdir()
    other = tmp_path / "other"
    other.write_bytes(bytes(32))
    other.chmod(0o600)
    place.symlink_to(other)
    with pytest.raises(BadState, match="symbolic link"):
        installation_secret()
    place.unlink()
    os.mkfifo(place, 0o600)
    with pytest.raises(BadState, match="not yours alone"):
        installation_secret()
    place.unlink()
    place.mkdir()
    with pytest.raises(BadState):
        installation_secret()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_one_of_another_user_is_refused(place: Path) -> None:
    installation_secret()
    os.chown(place, 12345, 12345)
    with pytest.raises(BadState, match="not yours alone"):
        installation_secret()


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECRET_VARIABLE)
    monkeypatch.setattr("neurald.hal.cache.secret.state_directory", lambda: Path("~") / "neurald")
    with pytest.raises(BadState, match="set HOME"):
        secret_path()


def test_a_place_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "/dev/null/secret")
    with pytest.raises(BadState, match="Not a directory"):
        installation_secret()


def test_codes_differ_by_secret_purpose_and_content() -> None:
    codes = {
        authentication_code(secret, purpose, content)
        for secret in (bytes(32), b"\1" * 32)
        for purpose in (b"a", b"b")
        for content in (b"", b"c")
    }
    assert len(codes) == 8


#: Prints the secret of a process of an owner, or why there is none, and waits.
_DERIVE = """
import signal, sys
from neurald.hal.cache.secret import installation_secret, keep_derived_secret
signal.signal(signal.SIGCHLD, signal.Handlers[sys.argv[2]])
keep_derived_secret(sys.argv[1])
try:
    print(installation_secret().hex(), flush=True)
except Exception as error:
    print(error, flush=True)
sys.stdin.read()
"""


def derived(
    owner: str, look: Callable[[int], None] = lambda process: None, *, children: str = "SIG_DFL"
) -> str:
    """Returns what a process of this owner has for a secret.

    Args:
        owner: of the secret.
        look: gets the process.
        children: the name of its handler of SIGCHLD.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _DERIVE, owner, children],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        look(process.pid)
        process.communicate()
    return said


def memory_of(process: int) -> bytes:
    """Returns what a process can write to: all that it has in its memory but constants and code."""
    found = []
    maps = Path(f"/proc/{process}/maps").read_text().splitlines()
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
        for line in maps:
            place, rights, *_ = line.split()
            begin, end = (int(each, 16) for each in place.split("-"))
            if rights.startswith("rw"):
                memory.seek(begin)
                with contextlib.suppress(OSError):
                    found.append(memory.read(end - begin))
    return b"".join(found)


def test_a_process_with_a_derived_secret_never_had_the_installations(place: Path) -> None:
    memories: list[bytes] = []
    gpu = derived("gpu", lambda process: memories.append(memory_of(process)))
    secret = place.read_bytes()
    assert secret not in memories[0]
    assert bytes.fromhex(gpu) in memories[0]
    assert gpu == derived("gpu", children="SIG_IGN") != secret.hex()
    assert derived("camera") not in (gpu, secret.hex())
    place.write_bytes(b"too short")
    assert "9 bytes" in derived("gpu")
