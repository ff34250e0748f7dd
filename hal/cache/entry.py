"""One entry of the cache: a directory with a manifest, and the memories of an artifact as a file each.

    manifest            what the entry is, in JSON; then, in a line of its own, the installation's code over that
    model0, model1, …   `Artifact.model`
    data0, data1, …     `Artifact.data`
    seal                `Artifact.seal`, where the artifact has one
    witness             what is known of large files of data (`neurald.hal.cache.file_attestation`), where there are any

The manifest tells the size and the digest of every other file, and the key that the entry is for. Thus whatever is changed,
exchanged, cut short or put elsewhere is noticed before any of it is used.
"""

import hmac
from collections import Counter
from dataclasses import dataclass

import msgspec

from neurald.hal.cache.file import Fingerprint, copy_known, read_bytes, read_sealed, write_file
from neurald.hal.cache.file_attestation import read_witness, states_of_new_files, write_witness
from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.secret import authentication_code
from neurald.hal.device import Artifact, CacheFilesNeeded
from neurald.hal.errors import BadData
from neurald.hal.memory.mapped_file import FileState
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.types import Model, byte_size

FORMAT = 2
MANIFEST = "manifest"

_SEAL = "seal"
_PURPOSE = b"cache entry"
_MANIFEST_LIMIT = 1 << 16
_SEAL_LIMIT = 1 << 24
#: Files of data from this size on are believed to be what they were; smaller ones are as soon hashed.
_LARGE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """How an artifact came to be, for people.

    Attributes:
        model: a few words on the model, see `describe`.
        compile_ms: how long compiling took.
        created_s: when, on the clock of `time.time()`.
    """

    model: str
    compile_ms: float
    created_s: float


def describe(model: Model) -> str:
    """A model in a few words: `64 operations (36 CONV_2D, 17 DEPTHWISE_CONV_2D, …), 4.0 MB of constants`."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an entry is."""

    format: int
    key: str
    parts: KeyParts
    model: tuple[Fingerprint, ...]
    data: tuple[Fingerprint, ...]
    seal: Fingerprint
    origin: Origin

    @property
    def size_bytes(self) -> int:
        """Of all files but the manifest itself, and the witness."""
        return sum(record.size_bytes for record in (*self.model, *self.data, self.seal))

    def large(self) -> dict[str, Fingerprint]:
        """What the large files of data are, by their names."""
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
    """Fills the directory of a new entry.

    Args:
        directory: descriptor of an empty directory.
        secret: of the installation.
        parts: what its key is made of.
        artifact: what it keeps.
        origin: how it came to be.

    Raises:
        BadData: the artifact has more to say than an entry can hold.
        OSError: it cannot be written.
    """
    if len(artifact.seal) > _SEAL_LIMIT:
        raise BadData(f"a seal of {len(artifact.seal)} bytes; at most {_SEAL_LIMIT} are expected")

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
        seal=write_file(directory, _SEAL, HostMemory(artifact.seal)),
        origin=origin,
    )
    content = msgspec.json.encode(manifest)
    code = authentication_code(secret, _PURPOSE, content)
    whole = content + b"\n" + code.hex().encode() + b"\n"
    if len(whole) > _MANIFEST_LIMIT:
        raise BadData(f"a manifest of {len(whole)} bytes; at most {_MANIFEST_LIMIT} can be read again")
    write_file(directory, MANIFEST, HostMemory(whole))
    large = manifest.large()
    if large:
        write_witness(directory, secret, manifest.key, large, states_of_new_files(directory, list(large)))
    return manifest


def read_manifest(directory: int, secret: bytes, key: str) -> Manifest:
    """The manifest of an entry.

    Args:
        directory: descriptor of the entry's directory.
        secret: of the installation.
        key: that the entry must be for, in hexadecimal.

    Raises:
        BadData: it is damaged, of another installation, another version, or another key.
        OSError: it cannot be read.
    """
    content, _, code = read_bytes(directory, MANIFEST, _MANIFEST_LIMIT).removesuffix(b"\n").rpartition(b"\n")
    expected = authentication_code(secret, _PURPOSE, content).hex().encode()
    if not hmac.compare_digest(code, expected):
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
    """Raises BadData unless an entry has as many files as the device needs."""
    if (len(manifest.model), len(manifest.data)) != (needed.model, needed.data):
        raise BadData(
            f"it has {len(manifest.model)} model and {len(manifest.data)} data files; "
            f"the device needs {needed.model} and {needed.data}"
        )


def read_artifact(
    directory: int, manifest: Manifest, secret: bytes, *, is_thorough: bool = False
) -> Artifact:
    """The artifact of an entry, in sealed memory. Large files of data that are known to be what they were are not hashed.

    Args:
        directory: descriptor of the entry's directory.
        manifest: of the entry.
        secret: of the installation.
        is_thorough: whether these are hashed, too.

    Raises:
        BadData: a file is not what the manifest says.
        OutOfMemory, OSError: it cannot be read.
    """
    seal = read_bytes(directory, _SEAL, _SEAL_LIMIT)
    if Fingerprint.of(memoryview(seal)) != manifest.seal:
        raise BadData("its seal has changed since it was written")
    large = manifest.large()
    known = read_witness(directory, secret, manifest.key, large) if large and not is_thorough else {}
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
        write_witness(directory, secret, manifest.key, large, known | learned)
    return artifact
