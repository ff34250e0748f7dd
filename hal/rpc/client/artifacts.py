"""Transfers artifacts between a client and a daemon; see `neurald.hal.cache.artifact_seal`."""

from neurald._proto import device_pb2
from neurald.hal.cache.artifact_seal import named_tokens, read_seal
from neurald.hal.device import MAX_CACHE_FILES, Artifact
from neurald.hal.errors import BadData, Error, OutOfMemory
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.memory.private_memory import anonymous
from neurald.hal.rpc.client.connection import Connection

#: Larger artifacts are not fetched.
_MAX_BYTES = 8 << 30


def fetch_artifact(connection: Connection, prepared_model: int) -> Artifact | None:
    """Fetches the artifact of a prepared model to memory of this process.

    Returns:
        None if the daemon has no artifact for it.

    Raises:
        BadData: the artifact is not the one that its seal describes.
        OutOfMemory: there is no memory for it.
        DeadObject: the daemon is gone.
        Error: the daemon's error.
    """
    message = device_pb2.GetArtifactRequest(prepared_model=prepared_model)
    reply = connection.call("GetArtifact", message)
    if not reply.HasField("artifact"):
        return None
    announced = reply.artifact
    tokens = [*announced.model_cache, *announced.data_cache]
    try:
        seal = read_seal(announced.seal)
        sizes = [content.size_bytes for content in (*seal.model, *seal.data)]
        counts = len(announced.model_cache), len(announced.data_cache)
        is_consistent = counts == (len(seal.model), len(seal.data)) and max(counts) <= MAX_CACHE_FILES
        is_consistent = is_consistent and all(
            size >= 0 and bool(size) == bool(token) for size, token in zip(sizes, tokens, strict=True)
        )
        if not is_consistent or sum(sizes) > _MAX_BYTES:
            raise BadData("the daemon returned an artifact that its seal does not describe")
        memories: list[Memory] = []
        for size in sizes:
            memories.append(_fetch(connection, tokens[0], size) if size else HostMemory(b""))
            del tokens[0]
    except Error:
        unused = [token for token in tokens if token]
        connection.call_in_background("ReleaseMemory", device_pb2.ReleaseMemoryRequest(memories=unused))
        raise
    return Artifact(
        model=tuple(memories[: counts[0]]), data=tuple(memories[counts[0] :]), seal=bytes(announced.seal)
    )


def _fetch(connection: Connection, token: bytes, size: int) -> Memory:
    try:
        memory = HostMemory(anonymous(size))
    except OSError as error:
        raise OutOfMemory(f"no memory for an artifact of {size} bytes: {error.strerror}") from None
    connection.read_memory(token, memory)
    return memory


def send_artifact(
    connection: Connection, artifact: Artifact, deadline_s: float | None
) -> tuple[device_pb2.Artifact, list[bytes]]:
    """Sends the memories of an artifact to a daemon.

    Args:
        connection: the connection to the daemon.
        artifact: its memories come from `sealed_memory`.
        deadline_s: the deadline on the clock of `time.monotonic()`.

    Returns:
        The message of the artifact, and the tokens in it, which must be used or released.

    Raises:
        DeadObject: the daemon is gone.
        Error: the daemon refuses a memory.
    """
    memories = (*artifact.model, *artifact.data)
    tokens = connection.send_memories((memory for memory in memories if memory.size), deadline_s)
    named = named_tokens(memories, tokens)
    count = len(artifact.model)
    message = device_pb2.Artifact(model_cache=named[:count], data_cache=named[count:], seal=artifact.seal)
    return message, tokens


def sealed_memory(memory: Memory) -> Memory:
    """Returns the same bytes in immutable shared memory, which a daemon on this host maps."""
    if not memory.size or (isinstance(memory, SharedMemory) and memory.readonly):
        return memory
    return SharedMemory.constant(memory.view(), "neurald artifact")
