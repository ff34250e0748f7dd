"""What is known of the large files of an entry, so that they are copied into sealed memory and not hashed.

Whoever has checked a file, or written it, notes what its state was (`neurald.hal.memory.mapped_file`). As long as the file is in that
state, it holds what was checked. The notes are the installation's: they have its code, and say for which entry and which content
they are. They are no part of what an entry is; without them, or after a boot, its files are hashed again.

This is for what only decides about values. What decides about what is executed is always hashed.
"""

import contextlib
import hmac
import os
import time
from collections.abc import Mapping

import msgspec

from neurald.hal.cache.file import Fingerprint, read_bytes, replace_file
from neurald.hal.cache.secret import MAC_BYTES, authentication_code
from neurald.hal.errors import BadData
from neurald.hal.memory.mapped_file import FileState

WITNESS = "witness"

_PURPOSE = b"cache witness"
_LIMIT = 1 << 16
#: CLOCK_REALTIME_COARSE, as Linux numbers it: what local file systems take times from.
_CLOCK_OF_FILES = 5
#: How often to look whether the clock of file times has gone on, and how long to wait each time.
_LOOKS, _LOOK_S = 20, 0.001
_SECOND_NS = 1_000_000_000


class _Note(msgspec.Struct, frozen=True, array_like=True):
    name: str
    fingerprint: Fingerprint
    state: FileState


class _Witness(msgspec.Struct, frozen=True, array_like=True):
    key: str
    notes: tuple[_Note, ...]


def read_witness(
    directory: int, secret: bytes, key: str, expected: Mapping[str, Fingerprint]
) -> dict[str, FileState]:
    """The states in which files are known to hold what is expected, by their names.

    Args:
        directory: descriptor of the entry's directory.
        secret: of the installation.
        key: of the entry, in hexadecimal.
        expected: what files must hold, by their names.
    """
    try:
        content = read_bytes(directory, WITNESS, _LIMIT)
        code, content = content[:MAC_BYTES], content[MAC_BYTES:]
        if not hmac.compare_digest(code, authentication_code(secret, _PURPOSE, content)):
            return {}
        witness = msgspec.msgpack.decode(content, type=_Witness)
    except (OSError, BadData, msgspec.DecodeError):
        return {}
    if witness.key != key:
        return {}
    return {note.name: note.state for note in witness.notes if expected.get(note.name) == note.fingerprint}


def write_witness(
    directory: int,
    secret: bytes,
    key: str,
    expected: Mapping[str, Fingerprint],
    states: Mapping[str, FileState],
) -> None:
    """Notes the states in which files hold what is expected, in place of what was noted.

    Args:
        directory, secret, key, expected: as for `read_witness`.
        states: of files whose content was compared with what is expected while they were in that state.
    """
    notes = tuple(_Note(name=name, fingerprint=expected[name], state=state) for name, state in states.items())
    content = msgspec.msgpack.encode(_Witness(key=key, notes=notes))
    # A cache that cannot be written is used all the same.
    with contextlib.suppress(OSError):
        replace_file(directory, WITNESS, authentication_code(secret, _PURPOSE, content) + content)


def states_of_new_files(directory: int, names: list[str]) -> dict[str, FileState]:
    """The states of files that this process has just written and nobody else knows of, by their names.

    It waits until the clock of file times has gone on, since a write in the same tick would not be seen in them; files of which
    that cannot be said are left out.
    """
    found = {name: FileState.of(os.stat(name, dir_fd=directory, follow_symlinks=False)) for name in names}
    states = {name: state for name, state in found.items() if state is not None}
    for _ in range(_LOOKS):
        now_ns = time.clock_gettime_ns(_CLOCK_OF_FILES)
        if all(state.changed_ns < now_ns for state in states.values()):
            # Where times are whole seconds, the file system may know no finer ones.
            return {name: state for name, state in states.items() if state.changed_ns % _SECOND_NS}
        time.sleep(_LOOK_S)
    return {}
