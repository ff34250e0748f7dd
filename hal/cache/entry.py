"""One entry of the cache: a directory with a file for almost everything, so that one read suffices.

    head                the installation's authentication code, the manifest, and the memories of
                        the artifact and its seal, except for large data
    data0, data1, …     `Artifact.data` of at least 64 KiB, in files of their own
    witness             attestations of large data files (`neurald.hal.cache.file_attestation`),
                        once those in the manifest no longer hold

The manifest holds digests of all other content, the sizes of the memories, and the key of the
entry. So any change, exchange, truncation or relocation is detected before use. It also attests
the states in which large data files were written.

Both are copied to memory that no other process can change, and verified there. Large data for the
process of a driver are copied to shared memory, which it maps.
"""

import contextlib
import os
import struct
from collections import Counter
from collections.abc import Iterable
from functools import partial

import msgspec
from msgspec import Struct

from neurald.hal.cache.file import (
    Fingerprint,
    copy_verified,
    created_file,
    open_directory,
    open_file,
    read_whole,
    write_file,
    write_memory,
)
from neurald.hal.cache.file_attestation import read_attestations, states_of_new_files, write_attestations
from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.secret import MAC_BYTES, authentication_code
from neurald.hal.decoding import from_msgpack
from neurald.hal.device import Artifact, CacheFilesNeeded
from neurald.hal.digests import are_equal, hex_digest_of, new_digest
from neurald.hal.errors import BadData
from neurald.hal.memory.alignment import ALIGNMENT, align
from neurald.hal.memory.mapped_file import FileState
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.model import Model
from neurald.hal.model.types import byte_size
from neurald.hal.records import DECODE_ERRORS, replace
from neurald.hal.wording import sized

FORMAT = 5
HEAD = "head"

_PURPOSE = b"cache entry"
_DAMAGED = "its manifest is damaged, or of another installation"
_MAX_MANIFEST_BYTES = 1 << 16
_MAX_SEAL_BYTES = 1 << 24
#: Data of at least this size are files of their own, which are attested by their state; smaller
#: ones are hashed as fast as an attestation is read.
_LARGE_BYTES = 1 << 16
#: The authentication code, and the size of the manifest that follows it.
_START = struct.Struct(f"<{MAC_BYTES}sI")
#: How much of a head is read for its manifest.
_MANIFEST_END = align(_START.size + _MAX_MANIFEST_BYTES)
#: How much of a head is read before its manifest tells that it is authentic: nearly always all.
_FIRST_BYTES = 1 << 20


class Origin(Struct, frozen=True, kw_only=True):
    """Information for users about the origin of an artifact.

    Attributes:
        model: a short description, see `describe`.
        compile_ms: compile time in milliseconds.
        created_s: creation time, on the clock of `time.time()`.
    """

    model: str
    compile_ms: float
    created_s: float


def describe(model: Model) -> str:
    """Returns a short description of a model.

    For example `64 operations (36 CONV_2D, 17 DEPTHWISE_CONV_2D, …), 4.03 MB of constants`.
    """
    graphs = (model.main, *model.referenced)
    counts = Counter(operation.type.name for graph in graphs for operation in graph.operations)
    # Like `most_common(2)`, which imports a module.
    common = [f"{count} {name}" for name, count in sorted(counts.items(), key=lambda each: -each[1])[:2]]
    listed = ", ".join([*common, "…"] if len(counts) > len(common) else common)
    size = sum(
        byte_size(operand.type, operand.dimensions or ())
        for graph in graphs
        for operand in graph.operands
        if operand.lifetime.is_constant
    )
    total = counts.total()
    return f"{total} operation{'s' if total != 1 else ''} ({listed}), {sized(size)} of constants"


class Manifest(Struct, frozen=True, kw_only=True):
    """The description of an entry.

    Attributes:
        format: the format of entries.
        key, parts: the key and parts of the entry.
        model, data, seal: sizes of the artifact's memories and of its seal, in bytes.
        content: digest of everything behind the manifest in the head, in hexadecimal.
        large: fingerprints of the data that have files of their own.
        states: attested states of these files; None for one that has none.
        origin: the origin of the artifact.
        owner: whose secret authenticates it, see `neurald.hal.cache.secret.secret_owner`.
    """

    format: int
    key: str
    parts: KeyParts
    model: tuple[int, ...]
    data: tuple[int, ...]
    seal: int
    content: str
    large: tuple[Fingerprint, ...]
    states: tuple[FileState | None, ...]
    origin: Origin
    owner: str = ""

    @property
    def size_bytes(self) -> int:
        """Total size of all memories and the seal."""
        return sum(self.model) + sum(self.data) + self.seal

    @property
    def files(self) -> dict[str, Fingerprint]:
        """The fingerprints of the data that have files of their own, by name."""
        return dict(zip(_names(self.data), self.large, strict=True))

    @property
    def attested(self) -> dict[str, FileState]:
        """The attested states of these files."""
        states = zip(_names(self.data), self.states, strict=True)
        return {name: state for name, state in states if state is not None}


def _names(sizes: Iterable[int]) -> list[str]:
    """Returns the names of the files of large data, for the sizes of all data."""
    return [f"data{index}" for index, size in enumerate(sizes) if size >= _LARGE_BYTES]


def write_entry(
    directory: int, secret: bytes, parts: KeyParts, artifact: Artifact, origin: Origin, owner: str = ""
) -> Manifest:
    """Writes the files of a new entry.

    Args:
        directory: descriptor of an empty directory.
        secret: the secret of the installation.
        parts: the parts of its key.
        artifact: the artifact to store.
        origin: its origin.
        owner: the owner of the secret.

    Raises:
        BadData: the artifact's seal or the manifest is too large for an entry.
        OSError: a file cannot be written.
    """
    if len(artifact.seal) > _MAX_SEAL_BYTES:
        raise BadData(f"the seal has {len(artifact.seal)} bytes; at most {_MAX_SEAL_BYTES} are allowed")
    contents = list(artifact.model)
    large: list[Fingerprint] = []
    for index, memory in enumerate(artifact.data):
        if memory.size < _LARGE_BYTES:
            contents.append(memory)
        else:
            large.append(write_file(directory, f"data{index}", memory))
    contents.append(HostMemory(artifact.seal))
    sizes = tuple([memory.size for memory in artifact.data])
    states = states_of_new_files(directory, _names(sizes)) if large else {}
    digest = new_digest()
    manifest = Manifest(
        format=FORMAT,
        key=parts.key().hex(),
        parts=parts,
        model=tuple([memory.size for memory in artifact.model]),
        data=sizes,
        seal=len(artifact.seal),
        content=digest.hexdigest(),
        large=tuple(large),
        states=tuple(map(states.get, _names(sizes))),
        origin=origin,
        owner=owner,
    )
    # All digests have the same length, and so have the manifests before and after it is known.
    head_bytes = align(_START.size + len(_encoded(manifest)))
    with created_file(directory, HEAD) as descriptor:
        os.lseek(descriptor, head_bytes, os.SEEK_SET)
        for memory in contents:
            write_memory(descriptor, memory, digest)
            write_memory(descriptor, HostMemory(bytes(-memory.size % ALIGNMENT)), digest)
        manifest = replace(manifest, content=digest.hexdigest())
        encoded = _encoded(manifest)
        head = _START.pack(authentication_code(secret, _PURPOSE, encoded), len(encoded)) + encoded
        os.lseek(descriptor, 0, os.SEEK_SET)
        write_memory(descriptor, HostMemory(head + bytes(head_bytes - len(head))), new_digest())
    return manifest


def _encoded(manifest: Manifest) -> bytes:
    encoded = msgspec.msgpack.encode(manifest)
    if len(encoded) > _MAX_MANIFEST_BYTES:
        raise BadData(f"the manifest has {len(encoded)} bytes; at most {_MAX_MANIFEST_BYTES} are allowed")
    return encoded


def read_manifest(path: str, secret: bytes, key: str) -> Manifest:
    """Reads and verifies the manifest of an entry.

    Args:
        path: the path of the entry's directory.
        secret: the secret of the installation.
        key: the required key of the entry, in hexadecimal.

    Raises:
        BadData: it is damaged, or of another installation, version or key.
        OutOfMemory, OSError: it cannot be read.
    """
    return _manifest(_beginning(path), secret, key)[0]


def claimed_owner(path: str) -> str:
    """Returns the owner that an entry names, before its manifest is verified.

    Raises:
        BadData: it is damaged.
        OutOfMemory, OSError: it cannot be read.
    """
    head = _beginning(path)
    if len(head) < _START.size:
        raise BadData(_DAMAGED)
    _, size = _START.unpack_from(head)
    try:
        return from_msgpack(head[_START.size : _START.size + size], _Owned).owner
    except DECODE_ERRORS:
        raise BadData(_DAMAGED) from None


class _Owned(Struct, frozen=True):
    """The part of a manifest that is read before it is verified."""

    owner: str = ""


def _beginning(path: str) -> memoryview:
    """Returns the beginning of the head of an entry, which has its manifest."""
    descriptor, status = open_file(None, f"{path}/{HEAD}")
    try:
        return read_whole(descriptor, min(status.st_size, _MANIFEST_END)).view()
    finally:
        os.close(descriptor)


def _manifest(head: memoryview, secret: bytes, key: str) -> tuple[Manifest, int]:
    """Returns the verified manifest at the beginning of a head, and where the memories begin."""
    if len(head) < _START.size:
        raise BadData(_DAMAGED)
    code, size = _START.unpack_from(head)
    encoded = bytes(head[_START.size : _START.size + min(size, _MAX_MANIFEST_BYTES)])
    if not are_equal(code, authentication_code(secret, _PURPOSE, encoded)):
        raise BadData(_DAMAGED)
    try:
        manifest = from_msgpack(encoded, Manifest)
    except DECODE_ERRORS:
        raise BadData("its manifest is of another version of neurald") from None
    if manifest.format != FORMAT:
        raise BadData(f"its format is {manifest.format}; {FORMAT} is expected")
    if manifest.key != key:
        raise BadData("it is the entry of another key")
    end = _START.size + size
    start = align(end)
    if head[end:start] != bytes(start - end):
        raise BadData("bytes after its manifest are not zero")
    return manifest, start


def read_entry(
    path: str,
    secret: bytes,
    key: str,
    needed: CacheFilesNeeded | None = None,
    *,
    is_shared: bool = False,
    is_thorough: bool = False,
) -> tuple[Manifest, Artifact]:
    """Reads an entry, and notes its use.

    The head is in memory that no other process can change. Attested large data are not hashed. If
    another entry takes the place of this one meanwhile, its data do not match.

    Args:
        path: the path of the entry's directory.
        secret: the secret of the installation.
        key: the required key of the entry, in hexadecimal.
        needed: the memories that the device needs; None for any.
        is_shared: whether large data are in memory that another process can map.
        is_thorough: hash attested files, too, and note no use.

    Raises:
        BadData: the manifest is not authentic, the memories do not match it, or there are other
            numbers of memories.
        OutOfMemory, OSError: a file cannot be read.
    """
    descriptor, status = open_file(None, f"{path}/{HEAD}")
    try:
        head = read_whole(descriptor, min(status.st_size, _FIRST_BYTES)).view()
        manifest, start = _manifest(head, secret, key)
        if needed is not None:
            _check_counts(manifest, needed)
        inner = [size for size in manifest.data if size < _LARGE_BYTES]
        end = start + sum(map(align, (*manifest.model, *inner, manifest.seal)))
        if status.st_size != end:
            raise BadData(f"its {HEAD} has {status.st_size} bytes; {end} are expected")
        if end > len(head):
            head = read_whole(descriptor, end).view()
        if not is_thorough:
            # A read-only cache is still usable.
            with contextlib.suppress(OSError):
                os.utime(descriptor)
    finally:
        os.close(descriptor)
    if hex_digest_of(head[start:]) != manifest.content:
        raise BadData("its content has changed since it was written")

    def take(size: int) -> memoryview:
        nonlocal start
        begin, start = start, start + align(size)
        return head[begin : begin + size]

    model = tuple([HostMemory(take(size)) for size in manifest.model])
    files: dict[str, Memory] = {}
    if manifest.large:
        directory = open_directory(path)
        try:
            files = _copied(directory, manifest, secret, is_shared=is_shared, is_thorough=is_thorough)
        finally:
            os.close(directory)
    data = tuple(
        [files.get(f"data{index}") or HostMemory(take(size)) for index, size in enumerate(manifest.data)]
    )
    artifact = Artifact(model=model, data=data, seal=bytes(take(manifest.seal)), is_verified=True)
    return manifest, artifact


def _check_counts(manifest: Manifest, needed: CacheFilesNeeded) -> None:
    """Raises BadData unless an entry has as many memories as the device needs."""
    if (len(manifest.model), len(manifest.data)) != (needed.model, needed.data):
        raise BadData(
            f"it has {len(manifest.model)} model and {len(manifest.data)} data files; "
            f"the device needs {needed.model} and {needed.data}"
        )


def _copied(
    directory: int, manifest: Manifest, secret: bytes, *, is_shared: bool, is_thorough: bool
) -> dict[str, Memory]:
    """Copies the large data of an entry, and verifies them; by name."""
    files = manifest.files
    written = {} if is_thorough else manifest.attested
    later: dict[str, FileState] | None = {} if is_thorough else None

    def is_attested(name: str, state: FileState) -> bool:
        nonlocal later
        if state == written.get(name):
            return True
        if later is None:
            later = read_attestations(directory, secret, manifest.key, files)
        return state == later.get(name)

    learned: dict[str, FileState] = {}
    found: dict[str, Memory] = {}
    for name, expected in files.items():
        found[name], state = copy_verified(
            directory, name, expected, partial(is_attested, name), is_shared=is_shared
        )
        if state is not None:
            learned[name] = state
    if learned and not is_thorough:
        write_attestations(directory, secret, manifest.key, files, (later or {}) | learned)
    return found
