"""One entry of the cache: a directory with a manifest and one file per memory of an artifact.

    manifest            the entry in JSON, and a line with the installation's authentication code
    model0, model1, …   `Artifact.model`
    data0, data1, …     `Artifact.data`
    seal                `Artifact.seal`, if the artifact has one
    witness             attestations of large data files (`neurald.hal.cache.file_attestation`)

The manifest holds the size and digest of every other file, and the key of the entry. So any change,
exchange, truncation or relocation is detected before use.
"""

from collections import Counter

import msgspec
from msgspec import Struct

from neurald.hal.cache.file import Fingerprint, copy_known, read_bytes, read_sealed, write_file
from neurald.hal.cache.file_attestation import read_attestations, states_of_new_files, write_attestations
from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.secret import authentication_code
from neurald.hal.device import Artifact, CacheFilesNeeded
from neurald.hal.digests import are_equal
from neurald.hal.errors import BadData
from neurald.hal.memory.mapped_file import FileState
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.types import Model, byte_size

FORMAT = 3
MANIFEST = "manifest"

_SEAL = "seal"
_PURPOSE = b"cache entry"
_MAX_MANIFEST_BYTES = 1 << 16
_MAX_SEAL_BYTES = 1 << 24
#: Data files of at least this size are attested by their state; smaller ones are hashed as fast.
_LARGE_BYTES = 1 << 18
#: Of the seal of an artifact that has none, for which there is no file.
_NO_SEAL = Fingerprint.of(memoryview(b""))


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

    For example `64 operations (36 CONV_2D, 17 DEPTHWISE_CONV_2D, …), 4.0 MB of constants`.
    """
    graphs = (model.main, *model.referenced)
    counts = Counter(operation.type.name for graph in graphs for operation in graph.operations)
    common = [f"{count} {name}" for name, count in counts.most_common(2)]
    listed = ", ".join([*common, "…"] if len(counts) > len(common) else common)
    size = sum(
        byte_size(operand.type, operand.dimensions or ())
        for graph in graphs
        for operand in graph.operands
        if operand.lifetime.is_constant
    )
    total = counts.total()
    return f"{total} operation{'s' if total != 1 else ''} ({listed}), {size / 1e6:.1f} MB of constants"


class Manifest(Struct, frozen=True, kw_only=True):
    """The description of an entry."""

    format: int
    key: str
    parts: KeyParts
    model: tuple[Fingerprint, ...]
    data: tuple[Fingerprint, ...]
    seal: Fingerprint
    origin: Origin

    @property
    def size_bytes(self) -> int:
        """Total size of all files except the manifest itself and the attestations."""
        return sum(record.size_bytes for record in (*self.model, *self.data, self.seal))

    def large(self) -> dict[str, Fingerprint]:
        """Returns the expected fingerprints of the large data files, by name."""
        return {
            _data_name(index): expected
            for index, expected in enumerate(self.data)
            if expected.size_bytes >= _LARGE_BYTES
        }


def _data_name(index: int) -> str:
    return f"data{index}"


def write_entry(
    directory: int, secret: bytes, parts: KeyParts, artifact: Artifact, origin: Origin
) -> Manifest:
    """Writes the files of a new entry.

    Args:
        directory: descriptor of an empty directory.
        secret: of the installation.
        parts: the parts of its key.
        artifact: the artifact to store.
        origin: its origin.

    Raises:
        BadData: the artifact's seal or the manifest is too large for an entry.
        OSError: a file cannot be written.
    """
    if len(artifact.seal) > _MAX_SEAL_BYTES:
        raise BadData(f"the seal has {len(artifact.seal)} bytes; at most {_MAX_SEAL_BYTES} are allowed")

    manifest = Manifest(
        format=FORMAT,
        key=parts.key().hex(),
        parts=parts,
        model=tuple(
            write_file(directory, f"model{index}", memory) for index, memory in enumerate(artifact.model)
        ),
        data=tuple(
            write_file(directory, _data_name(index), memory) for index, memory in enumerate(artifact.data)
        ),
        seal=write_file(directory, _SEAL, HostMemory(artifact.seal)) if artifact.seal else _NO_SEAL,
        origin=origin,
    )
    content = msgspec.json.encode(manifest)
    code = authentication_code(secret, _PURPOSE, content)
    whole = content + b"\n" + code.hex().encode() + b"\n"
    if len(whole) > _MAX_MANIFEST_BYTES:
        raise BadData(f"the manifest has {len(whole)} bytes; at most {_MAX_MANIFEST_BYTES} are allowed")
    write_file(directory, MANIFEST, HostMemory(whole))
    large = manifest.large()
    if large:
        write_attestations(
            directory, secret, manifest.key, large, states_of_new_files(directory, list(large))
        )
    return manifest


def read_manifest(directory: int, secret: bytes, key: str) -> Manifest:
    """Reads and verifies the manifest of an entry.

    Args:
        directory: descriptor of the entry's directory.
        secret: of the installation.
        key: the required key of the entry, in hexadecimal.

    Raises:
        BadData: it is damaged, or of another installation, version or key.
        OSError: it cannot be read.
    """
    content, _, code = (
        read_bytes(directory, MANIFEST, _MAX_MANIFEST_BYTES).removesuffix(b"\n").rpartition(b"\n")
    )
    expected = authentication_code(secret, _PURPOSE, content).hex().encode()
    if not are_equal(code, expected):
        raise BadData("its manifest is damaged, or of another installation")
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError:
        raise BadData("its manifest is of another version of neurald") from None
    if manifest.format != FORMAT:
        raise BadData(f"its format is {manifest.format}; {FORMAT} is expected")
    if manifest.key != key or manifest.parts.key().hex() != key:
        raise BadData("it is the entry of another key")
    return manifest


def check_counts(manifest: Manifest, needed: CacheFilesNeeded) -> None:
    """Raises BadData unless an entry has the number of files that the device needs."""
    if (len(manifest.model), len(manifest.data)) != (needed.model, needed.data):
        raise BadData(
            f"it has {len(manifest.model)} model and {len(manifest.data)} data files; "
            f"the device needs {needed.model} and {needed.data}"
        )


def read_artifact(
    directory: int, manifest: Manifest, secret: bytes, *, is_thorough: bool = False
) -> Artifact:
    """Reads the artifact of an entry into memory that nobody else can change.

    Attested large data files are not hashed.

    Args:
        directory: descriptor of the entry's directory.
        manifest: of the entry.
        secret: of the installation.
        is_thorough: hash attested files, too.

    Raises:
        BadData: a file does not match the manifest.
        OutOfMemory, OSError: a file cannot be read.
    """
    seal = b""
    if manifest.seal.size_bytes:
        seal = read_bytes(directory, _SEAL, _MAX_SEAL_BYTES)
        if Fingerprint.of(memoryview(seal)) != manifest.seal:
            raise BadData("its seal has changed since it was written")
    large = manifest.large()
    known = read_attestations(directory, secret, manifest.key, large) if large and not is_thorough else {}
    learned: dict[str, FileState] = {}

    def read(name: str, expected: Fingerprint) -> Memory:
        memory = copy_known(directory, name, known[name]) if name in known else None
        if memory is None:
            known.pop(name, None)
            memory, state = read_sealed(directory, name, expected)
            if state is not None and name in large:
                learned[name] = state
        return memory

    artifact = Artifact(
        model=tuple(read(f"model{index}", expected) for index, expected in enumerate(manifest.model)),
        data=tuple(read(_data_name(index), expected) for index, expected in enumerate(manifest.data)),
        seal=seal,
    )
    if learned:
        write_attestations(directory, secret, manifest.key, large, known | learned)
    return artifact
