"""The container of a plan file: parts of bytes behind a signed table of contents.

    0    magic, format, length of the table     `_HEAD`
    24   public key of the signer               32 bytes
    56   signature                              64 bytes
    120  table of contents                      JSON
         parts, each at a multiple of 64 bytes

The signature covers everything before it and the table; the table has the place, length and digest
of each part, and the length of the file. Nothing but the fixed head is interpreted before the
signature was found to be by a trusted key.
"""

import contextlib
import os
import stat
import struct
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from neurald.hal.cache.store import Cache, default_directory
from neurald.hal.decoding import from_json
from neurald.hal.digests import digest_of, hex_digest_of
from neurald.hal.errors import BadData, Error, OutOfMemory
from neurald.hal.memory.alignment import align
from neurald.hal.memory.mapped_file import FileMemory, FileState
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.memory.private_memory import anonymous_whole
from neurald.hal.records import DECODE_ERRORS
from neurald.runtime.plan_files.keys import KEY_BYTES, SIGNATURE_BYTES, SigningKey, is_signed

MAGIC: Final = b"NRLDPLAN"
FORMAT: Final = 1
_HEAD: Final = struct.Struct("<8sIIQ")
_PURPOSE: Final = b"neurald plan file 1\0"
_KEY_AT: Final = _HEAD.size
_SIGNATURE_AT: Final = _KEY_AT + KEY_BYTES
_TABLE_AT: Final = _SIGNATURE_AT + SIGNATURE_BYTES
_MAX_TABLE_BYTES: Final = 16 << 20
_MAX_PARTS: Final = 1 << 14
_REMEDY: Final = "copy it again, or make it again with `neurald compile`"


class PlanFilePart(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the file: where it is from the start of the parts, and its digest."""

    offset: int
    length: int
    digest: str


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    size_bytes: int
    content: msgspec.Raw
    parts: dict[str, PlanFilePart]


def is_plan_file(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file begins like a plan file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            return stat.S_ISREG(os.fstat(descriptor).st_mode) and file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def write_container(path: Path, content: bytes, parts: Mapping[str, memoryview], key: SigningKey) -> None:
    """Writes a file, by an atomic replacement.

    Args:
        path: the path of the file.
        content: what the table says besides, in JSON.
        parts: bytes by name.
        key: signs it.

    Raises:
        OSError: it cannot be written.
    """
    table: dict[str, PlanFilePart] = {}
    end = 0
    for name, part in parts.items():
        table[name] = PlanFilePart(end, part.nbytes, hex_digest_of(part))
        end = align(end + part.nbytes)
    described = msgspec.json.encode({"size_bytes": end, "content": msgspec.Raw(content), "parts": table})
    head = _HEAD.pack(MAGIC, FORMAT, 0, len(described)) + key.public
    room = align(_TABLE_AT + len(described)) - _TABLE_AT - len(described)
    # Its name has nothing of the file's, which may be as long as names can be.
    draft = path.parent / f".neurald-{os.urandom(8).hex()}"
    try:
        with draft.open("xb") as file:
            file.write(head + key.sign(_PURPOSE + head + described) + described)
            file.write(bytes(room))
            for part in parts.values():
                file.write(part)
                file.write(bytes(align(part.nbytes) - part.nbytes))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


class Container:
    """A plan file; use `verified_container` to open one.

    Args:
        path: the path of the file, for messages.
        memory: the file.
        head, table: copies of the signed bytes.
        known: the state of the file in which all of it was verified before; None if it was not.

    Attributes:
        content: what the table says besides, in JSON.

    Raises:
        BadData: the table is not valid.
    """

    def __init__(
        self, path: str, memory: FileMemory, head: bytes, table: bytes, known: FileState | None
    ) -> None:
        self._path = path
        self._memory = memory
        self._head = head
        self._known = known
        try:
            found = from_json(table, _Table)
        except (ValueError, *DECODE_ERRORS) as error:
            raise BadData(f"{path}: its table of contents is not valid: {error}") from None
        self._table_end = _TABLE_AT + len(table)
        self._start = align(self._table_end)
        self._parts = found.parts
        self.content = bytes(found.content)
        if memory.size != self._start + found.size_bytes:
            raise BadData(
                f"{path}: it has {memory.size} bytes; {self._start + found.size_bytes} are expected: {_REMEDY}"
            )
        self._check_layout()

    def _check_layout(self) -> None:
        """Raises BadData unless the parts follow each other, with zeros in between."""
        if len(self._parts) > _MAX_PARTS:
            raise BadData(f"{self._path}: it has {len(self._parts)} parts; at most {_MAX_PARTS} are allowed")
        gaps = [(self._table_end, self._start)]
        end = 0
        for part in self._parts.values():
            if part.offset != end or not 0 <= part.length <= self._memory.size - self._start - end:
                raise BadData(
                    f"{self._path}: its table of contents is not valid: parts do not follow each other"
                )
            end = align(part.offset + part.length)
            gaps.append((self._start + part.offset + part.length, self._start + end))
        if self._start + end != self._memory.size:
            raise BadData(f"{self._path}: its table of contents is not valid: parts are missing")
        if any(any(self._memory.view(first, last - first)) for first, last in gaps if last > first):
            raise BadData(f"{self._path}: it is damaged between its parts: {_REMEDY}")

    def read_all(self, shared: Collection[str] = ()) -> dict[str, Memory]:
        """Returns verified copies of all parts, in memory that cannot change.

        Args:
            shared: names of parts that other processes are to map. Each needs two descriptors, of
                which a process may have few.

        Raises:
            BadData: one is damaged.
            OutOfMemory: there is not enough memory.
        """
        state = self._memory.state()
        copies = {name: self._copy(part, is_shared=name in shared) for name, part in self._parts.items()}
        is_known = self._known is not None and self._known == self._memory.state()
        if is_known:
            return copies
        for name, part in self._parts.items():
            if hex_digest_of(copies[name].view()) != part.digest:
                raise BadData(f"{self._path}: its part {name} is damaged: {_REMEDY}")
        if state is not None and state == self._memory.state():
            _remember(state, self._head)
        return copies

    def _copy(self, part: PlanFilePart, *, is_shared: bool) -> Memory:
        if not part.length:
            return HostMemory(b"")
        source = self._memory.view(self._start + part.offset, part.length)
        if is_shared:
            return SharedMemory.constant(source, "neurald plan")
        try:
            copy = anonymous_whole(part.length)
        except OSError as error:
            raise OutOfMemory(
                f"{self._path}: there is no memory for {part.length} bytes of it: {error.strerror}"
            ) from None
        copy[:] = source
        return HostMemory(copy.toreadonly())


def verified_container(path: str, memory: FileMemory, trusted: frozenset[bytes]) -> Container:
    """Opens a plan file whose table of contents was signed with a trusted key.

    Args:
        path: the path of the file, for messages.
        memory: the file.
        trusted: public keys.

    Raises:
        BadData: it is not a plan file, is damaged, or is not signed by a trusted key.
        UnavailableDevice: the package `cryptography` is not installed.
    """
    if memory.size < _TABLE_AT:
        raise BadData(f"{path}: it has {memory.size} bytes, which is too short for a plan file")
    head = bytes(memory.view(0, _TABLE_AT))
    magic, version, reserved, length = _HEAD.unpack_from(head)
    if magic != MAGIC:
        raise BadData(f"{path}: it is not a plan file; `neurald compile` makes them")
    if version != FORMAT:
        raise BadData(f"{path}: it has format {version}; {FORMAT} is expected: {_REMEDY}")
    if reserved:
        raise BadData(f"{path}: its head has {reserved:#x} where 0 is expected: {_REMEDY}")
    if length > _MAX_TABLE_BYTES or _TABLE_AT + length > memory.size:
        raise BadData(f"{path}: it is damaged or was truncated: {_REMEDY}")
    public = head[_KEY_AT:_SIGNATURE_AT]
    if public not in trusted:
        raise BadData(
            f"{path}: it is signed with the key {public.hex()}, which is not trusted. If you trust the "
            "machine that made it, put the line that `neurald compile --public-key` prints there into a "
            "file NAME.pub in $XDG_CONFIG_HOME/neurald/plan_keys here"
        )
    table = bytes(memory.view(_TABLE_AT, length))
    state = memory.state()
    known = state if state is not None and _is_known(state, head) else None
    # A head that was verified in this state of the file need not be verified again.
    if known is None and not is_signed(_PURPOSE + head[:_SIGNATURE_AT] + table, head[_SIGNATURE_AT:], public):
        raise BadData(f"{path}: its signature does not fit its content: it is damaged or forged: {_REMEDY}")
    if known is not None and memory.state() != known:
        raise BadData(f"{path}: it was modified while it was read")
    return Container(path, memory, head, table, known)


def _is_known(state: FileState, head: bytes) -> bool:
    try:
        return Cache(default_directory()).constants.recall(_question(state)) == hex_digest_of(head)
    except Error:
        return False


def _remember(state: FileState, head: bytes) -> None:
    with contextlib.suppress(Error):
        Cache(default_directory()).constants.remember(_question(state), hex_digest_of(head))


def _question(state: FileState) -> bytes:
    return digest_of(b"neurald plan file 1\0" + msgspec.msgpack.encode(structs.astuple(state)))
