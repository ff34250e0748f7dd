"""Attestations of large files of an entry, which are then used without hashing.

A process that has verified or written a file records its state (`neurald.hal.memory.mapped_file`).
While the file is in that state, it holds the verified content. The attestations are authenticated
with the installation's secret, and name the entry and the content. Those of the files of a new
entry are in its manifest. After a boot, or in a copy of the entry, the files are hashed again, and
the new attestations are in a file of their own, which an entry need not have.

This applies only to files that affect values. Files that affect what is executed are always hashed.
"""

import contextlib
import os
import time
from collections.abc import Mapping

import msgspec

from neurald.hal.cache.file import Fingerprint, read_bytes, replace_file
from neurald.hal.cache.secret import MAC_BYTES, authentication_code
from neurald.hal.decoding import from_msgpack
from neurald.hal.digests import are_equal
from neurald.hal.errors import BadData
from neurald.hal.memory.mapped_file import FileState
from neurald.hal.records import DECODE_ERRORS

ATTESTATIONS = "witness"

_PURPOSE = b"cache witness"
_MAX_FILE_BYTES = 1 << 16
#: CLOCK_REALTIME_COARSE, as numbered by Linux: the source of file times on local file systems.
_CLOCK_OF_FILES = 5
#: Number of checks whether the clock of file times has advanced, and the pause between them in
#: seconds.
_MAX_POLLS, _POLL_S = 20, 0.001
_SECOND_NS = 1_000_000_000


class _Attestation(msgspec.Struct, frozen=True, array_like=True):
    name: str
    fingerprint: Fingerprint
    state: FileState


class _Attestations(msgspec.Struct, frozen=True, array_like=True):
    key: str
    attestations: tuple[_Attestation, ...]


def read_attestations(
    directory: int, secret: bytes, key: str, expected: Mapping[str, Fingerprint]
) -> dict[str, FileState]:
    """Returns the states in which files are attested to hold the expected content, by name.

    Args:
        directory: descriptor of the entry's directory.
        secret: the secret of the installation.
        key: the key of the entry, in hexadecimal.
        expected: the expected content, by file name.
    """
    try:
        content = read_bytes(directory, ATTESTATIONS, _MAX_FILE_BYTES)
        code, content = content[:MAC_BYTES], content[MAC_BYTES:]
        if not are_equal(code, authentication_code(secret, _PURPOSE, content)):
            return {}
        found = from_msgpack(content, _Attestations)
    except (OSError, BadData, *DECODE_ERRORS):
        return {}
    if found.key != key:
        return {}
    return {
        each.name: each.state for each in found.attestations if expected.get(each.name) == each.fingerprint
    }


def write_attestations(
    directory: int,
    secret: bytes,
    key: str,
    expected: Mapping[str, Fingerprint],
    states: Mapping[str, FileState],
) -> None:
    """Records the states in which files hold the expected content.

    Replaces earlier attestations.

    Args:
        directory, secret, key, expected: as for `read_attestations`.
        states: states of files whose content was verified while in that state.
    """
    attestations = tuple(
        _Attestation(name=name, fingerprint=expected[name], state=state) for name, state in states.items()
    )
    content = msgspec.msgpack.encode(_Attestations(key=key, attestations=attestations))
    # A cache that cannot be written is used all the same.
    with contextlib.suppress(OSError):
        replace_file(directory, ATTESTATIONS, authentication_code(secret, _PURPOSE, content) + content)


def states_of_new_files(directory: int, names: list[str]) -> dict[str, FileState]:
    """Returns the states of files that this process has just written, by name.

    Waits until the clock of file times has advanced, because a write within the same tick would be
    undetectable; files for which that cannot be ensured are left out.
    """
    found = {name: FileState.of(os.stat(name, dir_fd=directory, follow_symlinks=False)) for name in names}
    states = {name: state for name, state in found.items() if state is not None}
    for _ in range(_MAX_POLLS):
        now_ns = time.clock_gettime_ns(_CLOCK_OF_FILES)
        if all(state.changed_ns < now_ns for state in states.values()):
            # With times in whole seconds, the file system may have no finer resolution.
            return {name: state for name, state in states.items() if state.changed_ns % _SECOND_NS}
        time.sleep(_POLL_S)
    return {}
