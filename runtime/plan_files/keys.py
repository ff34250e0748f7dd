"""Keys that plan files are signed with, and keys that are trusted.

Each user has a key of their own, which is created when the first plan file is made, in
`$XDG_STATE_HOME/neurald/plan_key`. It is trusted by this user on this machine. The public keys of
others are trusted if they are in a file `NAME.pub` of `$XDG_CONFIG_HOME/neurald/plan_keys` or
`/etc/neurald/plan_keys`, or if the application names them. Such a file has lines like
`neurald-plan-key HEX COMMENT`, where HEX are the 32 bytes of an Ed25519 key.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from neurald.hal.api_arguments import file_path
from neurald.hal.errors import BadData, BadState, UnavailableDevice
from neurald.hal.process.files.bounded_read import read_at_most
from neurald.hal.process.files.secret_file import secret_bytes
from neurald.hal.process.files.user_directories import configuration_directory, state_directory

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
_LABEL: Final = "neurald-plan-key"
_MAX_FILE_BYTES: Final = 1 << 16
_MAX_FILES: Final = 256
_MACHINE: Final = Path("/etc/neurald/plan_keys")
_FOLDER: Final = "plan_keys"
_PUBLIC: Final = "plan_key.pub"


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise UnavailableDevice(
            "plan files need the package cryptography, which is not installed: pip install 'neurald[tls]'"
        ) from None
    return ed25519


class SigningKey:
    """The key of this user.

    Raises:
        UnavailableDevice: the package `cryptography` is not installed.
        BadState: the key cannot be read or created.
    """

    def __init__(self) -> None:
        path = state_directory() / "plan_key"
        if not path.is_absolute():
            raise BadState(f"there is no path for the key of plan files: {path} is not absolute; set HOME")
        seed = secret_bytes(
            path, "the key of plan files", "Remove the file: a new key is created then, and signs later files"
        )
        self._private = _ed25519().Ed25519PrivateKey.from_private_bytes(seed)
        self._keep_public(path.with_name(_PUBLIC))

    def _keep_public(self, path: Path) -> None:
        """Keeps the public key beside the private one, so that it is known without cryptography."""
        line = key_line(self.public, "own") + "\n"
        try:
            if path.exists() and path.read_bytes() == line.encode("ascii"):
                return
            draft = path.with_name(f".{path.name}-{os.urandom(8).hex()}")
            draft.write_text(line, encoding="ascii")
            draft.chmod(0o600)
            draft.replace(path)
        except OSError as error:
            raise BadState(f"{path} cannot be written: {error}") from None

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return bytes(self._private.public_key().public_bytes_raw())

    def sign(self, content: bytes) -> bytes:
        """Returns the signature of bytes."""
        return bytes(self._private.sign(content))


def is_signed(content: bytes, signature: bytes, public: bytes) -> bool:
    """Returns whether a signature of bytes is by a public key.

    Raises:
        UnavailableDevice: the package `cryptography` is not installed.
    """
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def key_line(public: bytes, comment: str) -> str:
    """Returns a public key as a line of a file."""
    return f"{_LABEL} {public.hex()} {comment}".rstrip()


def trusted_keys() -> frozenset[bytes]:
    """Returns the public keys that this user trusts, without their own.

    Raises:
        BadData: a file is not one of keys.
        BadState: others may write to a file or to its folder.
    """
    folders = (configuration_directory() / _FOLDER, _MACHINE)
    return frozenset(
        key
        for folder in folders
        if folder.is_absolute()
        for path in _files(folder)
        for key in read_keys(path)
    )


def own_keys() -> frozenset[bytes]:
    """Returns the public key of this user; nothing if there is none yet."""
    path = state_directory() / _PUBLIC
    return frozenset(read_keys(path)) if path.is_absolute() and os.path.exists(path) else frozenset()  # noqa: PTH110


def _files(folder: Path) -> list[Path]:
    """Returns the files of a folder; none if it is missing or this user may not see it."""
    try:
        status = os.stat(folder)  # noqa: PTH116 - a plain status is wanted
    except OSError:
        return []
    if not stat.S_ISDIR(status.st_mode):
        return []
    _check(folder, status)
    return sorted(folder.glob("*.pub"))[:_MAX_FILES]


def _check(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (os.geteuid(), 0) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BadState(
            f"the keys in {path} are not trusted: it must belong to you or root, and nobody else may write it"
        )


def read_keys(path: str | os.PathLike[str]) -> tuple[bytes, ...]:
    """Reads public keys from a file.

    Raises:
        BadData: it cannot be read, or has no keys.
        BadState: others may write to it.
        WrongType: the argument is not a path.
    """
    file = file_path(path, "the file of public keys")
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise BadData(
                    f"{file}: it is not a regular file; one that `neurald compile --public-key` wrote is expected"
                )
            _check(file, status)
            content = read_at_most(opened, _MAX_FILE_BYTES)
    except OSError as error:
        raise BadData(f"{file}: {error.strerror or error}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise BadData(f"{file}: it has more than {_MAX_FILE_BYTES} bytes")
    found = tuple(_keys(content, file))
    if not found:
        raise BadData(f"{file}: it has no keys; lines `{_LABEL} HEX COMMENT` are expected")
    return found


def _keys(content: bytes, path: Path) -> Iterator[bytes]:
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            key = bytes.fromhex(words[1]) if words[0] == _LABEL and len(words) > 1 else b""
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise BadData(
                f"{path}, line {number}: `{_LABEL} HEX COMMENT` with {2 * KEY_BYTES} digits is expected"
            )
        yield key
