"""Seals: prove that a daemon of this installation made an artifact.

An artifact may contain machine code, and it comes back to a daemon from a client, which may have
obtained it anywhere. So a daemon issues each artifact with a seal: a description of the artifact,
and an authentication code that only the installation can compute. The daemon accepts no artifact
without a seal, and none that differs in any bit from what was sealed for this device and key. The
seal also contains the operands that requests are checked against, since the model does not come
back with the artifact.
"""

import logging
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from neurald.hal.cache.file import Fingerprint
from neurald.hal.cache.secret import MAC_BYTES, authentication_code, installation_secret
from neurald.hal.decoding import from_msgpack
from neurald.hal.device import Artifact, Device
from neurald.hal.digests import are_equal
from neurald.hal.errors import BadData, BadState, OpFailed
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension import Extension
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.rpc.wire.model import decode_model, encode_model

logger = logging.getLogger(__name__)

_PURPOSE = b"artifact seal"


class Seal(Struct, frozen=True, kw_only=True):
    """The description of an artifact.

    Attributes:
        device, device_version: the device that made it.
        cache_key: the key that it was made for.
        interface: result of `neurald.hal.rpc.wire.model.encode_model` for `interface_of` its model.
        model, data: fingerprints of its memories.
        pattern: the pattern of its model's operations, see `neurald.hal.crashes.watch`; empty if
            not known.
    """

    device: str
    device_version: str
    cache_key: bytes
    interface: bytes
    model: tuple[Fingerprint, ...]
    data: tuple[Fingerprint, ...]
    pattern: bytes = b""

    def interface_model(self, extensions: Sequence[Extension] = ()) -> Model:
        """Decodes the model's interface: a model with only its inputs and outputs.

        Args:
            extensions: vendor extensions whose operand types it may have.

        Raises:
            BadData: the bytes are not a model.
        """
        return decode_model(self.interface, (), extensions)


def interface_of(model: Model) -> Model:
    """Returns a model with only the inputs and outputs of `model`, for checking requests."""
    graph = model.main
    indexes = dict.fromkeys((*graph.inputs, *graph.outputs))
    numbers = {index: number for number, index in enumerate(indexes)}
    return Model(
        main=Subgraph(
            operands=tuple(graph.operands[index] for index in indexes),
            operations=(),
            inputs=tuple(numbers[index] for index in graph.inputs),
            outputs=tuple(numbers[index] for index in graph.outputs),
        )
    )


def make_seal(
    device: Device, model: Model, cache_key: bytes, artifact: Artifact, pattern: bytes = b""
) -> bytes:
    """Creates the seal of an artifact that `device` made from `model` under `cache_key`.

    Args:
        device, model, cache_key, artifact: what is sealed.
        pattern: see `Seal`.

    Raises:
        OpFailed: the installation has no secret.
    """
    content = msgspec.msgpack.encode(
        Seal(
            device=device.name,
            device_version=device.version,
            cache_key=cache_key,
            interface=encode_model(interface_of(model)),
            model=_fingerprints(artifact.model),
            data=_fingerprints(artifact.data),
            pattern=pattern,
        )
    )
    return _code(content) + content


def read_seal(seal: bytes) -> Seal:
    """Decodes a seal without checking its authenticity.

    Raises:
        BadData: it is not a seal.
    """
    try:
        return from_msgpack(seal[MAC_BYTES:], Seal)
    except DECODE_ERRORS:
        raise BadData(f"the {len(seal)} bytes are not the seal of an artifact") from None


def check_seal(device: Device, artifact: Artifact, cache_key: bytes) -> Seal:
    """Verifies that `device` made an artifact under `cache_key`; returns its seal.

    Args:
        device: device that will load it.
        artifact: the artifact in memory that cannot change.
        cache_key: the key that the client claims.

    Raises:
        BadData: the device did not make it, or under another key.
        OpFailed: the installation has no secret.
    """
    code, content = artifact.seal[:MAC_BYTES], artifact.seal[MAC_BYTES:]
    if not are_equal(code, _code(content)):
        raise BadData("the artifact was not made by this installation")
    seal = read_seal(artifact.seal)
    if (seal.device, seal.device_version) != (device.name, device.version):
        raise BadData(
            f"the artifact was made by {seal.device} {seal.device_version}; this is {device.name} {device.version}"
        )
    if seal.cache_key != cache_key:
        raise BadData("the artifact was made under another key")
    if (seal.model, seal.data) != (_fingerprints(artifact.model), _fingerprints(artifact.data)):
        raise BadData("the artifact is not the one that its seal was made for")
    return seal


def named_tokens(memories: Sequence[Memory], tokens: Iterable[bytes]) -> list[bytes]:
    """Assigns the given tokens to the memories of an artifact, in order; empty memories get b"".

    Shared memory and session memory cannot be empty, but many artifacts have no constants.
    """
    following = iter(tokens)
    return [next(following) if memory.size else b"" for memory in memories]


def _code(content: bytes) -> bytes:
    try:
        secret = installation_secret()
    except BadState as error:
        # Clients need not know the location of the secret.
        logger.warning("no artifacts are exchanged with clients: %s", error)
        raise OpFailed(
            "this installation has no secret to seal artifacts with; the daemon's log has the reason"
        ) from None
    return authentication_code(secret, _PURPOSE, content)


def _fingerprints(memories: Sequence[Memory]) -> tuple[Fingerprint, ...]:
    return tuple(Fingerprint.of(memory.view()) for memory in memories)
