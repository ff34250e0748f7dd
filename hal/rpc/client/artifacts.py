"""Artifacts on their way between a client and a daemon; see `neurald.hal.cache.artifact_seal`."""

from neurald._proto import device_pb2
from neurald.hal.cache.artifact_seal import named_tokens, read_seal
from neurald.hal.device import MAX_CACHE_FILES, Artifact
from neurald.hal.errors import BadData, Error, OutOfMemory
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory, anonymous
from neurald.hal.rpc.client.connection import Connection

#: An artifact that a daemon announces with more bytes is not fetched.
_MAX_BYTES = 8 << 30


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
        is_sound = counts == (len(seal.model), len(seal.data)) and max(counts) <= MAX_CACHE_FILES
        is_sound = is_sound and all(
            size >= 0 and bool(size) == bool(token) for size, token in zip(sizes, tokens, strict=True)
        )
        if not is_sound or sum(sizes) > _MAX_BYTES:
            raise BadData("the daemon gave an artifact that its seal does not describe")
        memories: list[Memory] = []
        for size in sizes:
            memories.append(_fetch(connection, tokens[0], size) if size else HostMemory(b""))
            del tokens[0]
    except Error:
        unused = [token for token in tokens if token]
        connection.call_later("ReleaseMemory", device_pb2.ReleaseMemoryRequest(memories=unused))
        raise
    return Artifact(
        model=tuple(memories[: counts[0]]), data=tuple(memories[counts[0] :]), seal=bytes(found.seal)
    )


def _fetch(connection: Connection, token: bytes, size: int) -> Memory:
    try:
        memory = HostMemory(anonymous(size))
    except OSError as error:
        raise OutOfMemory(f"an artifact of {size} bytes: {error.strerror}") from None
    connection.read_memory(token, memory)
    return memory


def send_artifact(
    connection: Connection, artifact: Artifact, deadline_s: float | None
) -> tuple[device_pb2.Artifact, list[bytes]]:
    """Gives a daemon the memories of an artifact; returns its message, and the tokens in it that are to be used.

    Args:
        connection: to the daemon.
        artifact: its memories are such as `sealed_memory` gives.
        deadline_s: on the clock of `time.monotonic()`.

    Raises:
        DeadObject: the daemon is gone.
        Error: it refuses a memory.
    """
    memories = (*artifact.model, *artifact.data)
    tokens = connection.send_memories((memory for memory in memories if memory.size), deadline_s)
    named = named_tokens(memories, tokens)
    count = len(artifact.model)
    message = device_pb2.Artifact(model_cache=named[:count], data_cache=named[count:], seal=artifact.seal)
    return message, tokens


def sealed_memory(memory: Memory) -> Memory:
    """The same bytes in memory that a daemon on this host takes as they are: it can be sure that nobody changes them."""
    if not memory.size or (isinstance(memory, SharedMemory) and memory.readonly):
        return memory
    return SharedMemory.constant(memory.view(), "neurald artifact")
