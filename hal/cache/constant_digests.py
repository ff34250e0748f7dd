"""Caches digests of models' constants, so that unchanged files need not be read for a key.

One file in the cache directory holds the latest answers to
`neurald.hal.cache.key.constants_question`, with an authentication code of the installation. It is
only replaced as a whole, and read again once that has happened. Concurrent processes may lose each
other's answers; the constants are then read again.
"""

import contextlib
import os

import msgspec

from neurald.hal.cache.directory import CacheDirectory
from neurald.hal.cache.file import read_small, write_small
from neurald.hal.cache.secret import MAC_BYTES, authentication_code
from neurald.hal.decoding import from_msgpack
from neurald.hal.digests import are_equal
from neurald.hal.errors import Error
from neurald.hal.records import DECODE_ERRORS

CONSTANTS = "constants"

_PURPOSE = b"cache constants"
_MAX_ENTRIES = 256
_MAX_FILE_BYTES = 1 << 16
#: How many files are remembered.
_MAX_KNOWN = 8
#: The status and content of files that were read, by path and secret.
_known: dict[tuple[str, bytes], tuple[object, dict[bytes, str]]] = {}


class ConstantDigests:
    """The constant digests of a cache. Safe for concurrent threads and processes.

    Args:
        directory: the directory of the cache; it need not exist.
        secret: the secret of the installation.
    """

    def __init__(self, directory: CacheDirectory, secret: bytes) -> None:
        self._directory = directory
        self._secret = secret

    def recall(self, question: bytes) -> str | None:
        """Returns the `KeyParts.constants` for a question; None if unknown."""
        known = _known.get((self._directory.text, self._secret))
        if known is not None and known[0] == self._identity():
            return known[1].get(question)
        return self._read().get(question)

    def remember(self, question: bytes, constants: str) -> None:
        """Stores an answer. Errors are ignored."""
        known = dict(self._read())
        known.pop(question, None)
        known[question] = constants
        latest = list(known.items())[-_MAX_ENTRIES:]
        content = msgspec.msgpack.encode(latest)
        with contextlib.suppress(OSError, Error):
            self._directory.make()
            code = authentication_code(self._secret, _PURPOSE, content)
            write_small(self._directory.path / CONSTANTS, code + content)

    def _identity(self) -> object:
        """Returns what changes when the file is replaced; None if there is no file."""
        try:
            status = os.stat(f"{self._directory.text}/{CONSTANTS}", follow_symlinks=False)  # noqa: PTH116
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def _read(self) -> dict[bytes, str]:
        """Reads the answers."""
        before = self._identity()
        try:
            whole = read_small(self._directory.path / CONSTANTS, _MAX_FILE_BYTES)
            code, content = whole[:MAC_BYTES], whole[MAC_BYTES:]
            if not are_equal(code, authentication_code(self._secret, _PURPOSE, content)):
                return {}
            answers = dict(from_msgpack(content, list[tuple[bytes, str]]))
        except (OSError, Error, *DECODE_ERRORS):
            return {}
        if before is not None and before == self._identity():
            if len(_known) >= _MAX_KNOWN:
                _known.clear()
            _known[self._directory.text, self._secret] = before, answers
        return answers
