"""Artifacts on their way between a client and a daemon; see `neurald.hal.cache_seal`."""

import mmap

from neurald._proto import device_pb2
from neurald.hal.cache_seal import read_seal
from neurald.hal.connection import Connection
from neurald.hal.device import MAXIMUM_CACHE_FILES, Artifact
from neurald.hal.errors import BadData, Error, OutOfMemory
from neurald.hal.memory import HostMemory, Memory, SharedMemory

#: An artifact that a daemon announces with more bytes is not fetched.
_MAXIMUM_BYTES = 8 << 30


def fetch_artifact(connection: Connection, prepared_model: int) -> Artifact | None:
    """What a daemon has compiled, in memory of this process; None if it has nothing to give.

    Raises:
        BadData: what it gives is not what its seal says.
        OutOfMemory: there is no memory for it.
        DeadObject: the daemon is gone.
        Error: what the daemon answers.
    """
    message = device_pb2.GetArtifactRequest(prepared_model=prepared_model)
    reply = connection.call("GetArtifact", message)
    if not reply.HasField("artifact"):
        return None
    found = reply.artifact
    tokens = [*found.model_cache, *found.data_cache]
    try:
        seal = read_seal(found.seal)
        sizes = [content.size_bytes for content in (*seal.model, *seal.data)]
        counts = len(found.model_cache), len(found.data_cache)
        is_sound = counts == (len(seal.model), len(seal.data)) and max(counts) <= MAXIMUM_CACHE_FILES
        if not is_sound or any(size <= 0 for size in sizes) or sum(sizes) > _MAXIMUM_BYTES:
            raise BadData("the daemon gave an artifact that its seal does not describe")
        memories: list[Memory] = []
        for size in sizes:
            memories.append(_fetch(connection, tokens[0], size))
            del tokens[0]
    except Error:
        connection.call_later("ReleaseMemory", device_pb2.ReleaseMemoryRequest(memories=tokens))
        raise
    return Artifact(
        model=tuple(memories[: counts[0]]), data=tuple(memories[counts[0] :]), seal=bytes(found.seal)
    )


def _fetch(connection: Connection, token: bytes, size: int) -> Memory:
    try:
        memory = HostMemory(mmap.mmap(-1, size))
    except OSError as error:
        raise OutOfMemory(f"an artifact of {size} bytes: {error.strerror}") from None
    connection.read_memory(token, memory)
    return memory


def sealed_memory(memory: Memory) -> Memory:
    """The same bytes in memory that a daemon on this host takes as they are: it can be sure that nobody changes them."""
    if isinstance(memory, SharedMemory) and memory.readonly:
        return memory
    return SharedMemory.constant(memory.view(), "neurald artifact")
