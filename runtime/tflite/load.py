"""`load_tflite`: converts a `.tflite` file to a model."""

import os
import stat
from types import MappingProxyType

from neurald.hal.errors import BadData
from neurald.hal.memory.mapped_file import FileMemory
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.model.types import Model, SignatureNames
from neurald.hal.validation.model_rules import validate_accepted, validate_model
from neurald.runtime.tflite.importer import Importer
from neurald.runtime.tflite.schema import TfliteFile, TfliteSignature, TfliteSubgraph, shown


def load_tflite(
    path_or_bytes: str | os.PathLike[str] | bytes | bytearray | memoryview, signature: str | None = None
) -> Model:
    """Loads the model in a `.tflite` file, or in the bytes of one.

    Bytes are copied. A file stays mapped as long as the model exists, and holds its constants: it
    must not be written or truncated meanwhile (replacing it by another file is fine).

    Each signature becomes a separate model. Variables that a signature assigns are variables of all
    signatures that read them; `CompilationBuilder.share_state` makes compilations share their
    values.

    Args:
        path_or_bytes: the file, or its content.
        signature: the entry point to load; its inputs and outputs are ordered by name. None: the
            first subgraph, with inputs and outputs in the file's order, named like the tensors.

    Raises:
        BadData: the file cannot be read, is damaged, has no such signature, or has unsupported
            operators; the message lists all of them.
    """
    if isinstance(path_or_bytes, bytes | bytearray | memoryview):
        name, memory = f"{memoryview(path_or_bytes).nbytes} bytes", _copy(path_or_bytes)
    else:
        name, memory = _open(path_or_bytes)
    try:
        return _load(memory, signature)
    except BadData as error:
        raise BadData(f"{name}: {error}") from None


def _copy(content: bytes | bytearray | memoryview) -> Memory:
    """Copies the content of a file to memory that driver processes can share."""
    try:
        view = memoryview(content).cast("B")
    except TypeError as error:
        raise BadData(f"the bytes of a .tflite file must be contiguous: {error}") from None
    if not view.nbytes:
        raise BadData("0 bytes: the content of a .tflite file is expected")
    return SharedMemory.constant(view, "neurald model")


def _open(path: str | os.PathLike[str]) -> tuple[str, Memory]:
    """Maps a file; returns its name for messages and its memory."""
    try:
        name = os.fspath(path)
    except TypeError:
        raise BadData(
            f"a path or the bytes of a .tflite file are expected, not {type(path).__name__}"
        ) from None
    try:
        return name, _map(name)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadData(f"{name!s}: {reason}") from None
    except BadData as error:
        raise BadData(f"{name!s}: {error}") from None


def _map(path: str) -> FileMemory:
    """Maps the file. Anything but a regular file is rejected: opening a pipe would block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadData("it is not a regular file")
        if status.st_size == 0:
            raise BadData("the file is empty")
        return FileMemory(descriptor, path)
    finally:
        os.close(descriptor)


def _load(memory: Memory, name: str | None) -> Model:
    file = TfliteFile(memory.view())
    signatures = MappingProxyType(
        {
            key: SignatureNames(inputs=tuple(entry.inputs), outputs=tuple(entry.outputs))
            for key, entry in file.signatures.items()
        }
    )
    importer = Importer(file, memory)
    if name is None:
        source = importer.subgraph(0)
        inputs, outputs = source.inputs, source.outputs
        names = SignatureNames(
            inputs=tuple(source.tensors[index].name for index in inputs),
            outputs=tuple(source.tensors[index].name for index in outputs),
        )
    else:
        if name not in file.signatures:
            known = ", ".join(shown(key) for key in sorted(file.signatures)) or "none"
            raise BadData(f"there is no signature {shown(name)}; there are: {known}")
        entry = file.signatures[name]
        source = importer.subgraph(entry.subgraph)
        inputs, outputs = _entry_tensors(entry, source, f"signature {shown(name)}")
        names = signatures[name]
    main, state = importer.main(source, inputs, outputs)
    model = Model(
        main=main,
        referenced=tuple(importer.referenced),
        pools=importer.pools,
        state=state,
        input_names=names.inputs,
        output_names=names.outputs,
        signatures=signatures,
    )
    if importer.is_accepted:
        validate_accepted(model)
    else:
        validate_model(model)
    return model


def _entry_tensors(
    entry: TfliteSignature, source: TfliteSubgraph, what: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the tensors of a signature's inputs and outputs.

    Its inputs must be those of the subgraph.
    """
    inputs, outputs = tuple(entry.inputs.values()), tuple(entry.outputs.values())
    if sorted(inputs) != sorted(source.inputs):
        raise BadData(f"{what} does not name each input of subgraph {entry.subgraph} exactly once")
    for label, index in entry.outputs.items():
        if index >= len(source.tensors):
            raise BadData(f"{what}: output {shown(label)} is tensor {index}; there are {len(source.tensors)}")
    return inputs, tuple(source.aliases.get(index, index) for index in outputs)
