"""Seals: what a daemon knows an artifact by that it, or another daemon of its installation, has made.

An artifact may hold machine code, and it comes back to a daemon from a client, which may have got it from anywhere. So a daemon
gives each away with a seal: what the artifact is, and a code over that which only the installation can make. It takes back nothing
without one, and nothing that is not, bit for bit, what was sealed, for this device and under this key. The seal also tells the
operands that requests are checked against, since the model does not come back with the artifact.
"""

import hmac
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from neurald.hal.cache.file import Fingerprint
from neurald.hal.cache.secret import MAC_BYTES, authentication_code, installation_secret
from neurald.hal.device import Artifact, Device, declared_extensions
from neurald.hal.errors import BadData, BadState, OpFailed
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension import Extension
from neurald.hal.model.types import Model, Subgraph
from neurald.hal.rpc.wire.model import decode_model, encode_model

logger = logging.getLogger(__name__)

_PURPOSE = b"artifact seal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """What an artifact is.

    Attributes:
        device, device_version: which device has made it.
        cache_key: under which key.
        interface: what `neurald.hal.rpc.wire.model.encode_model` writes for `interface_of` its model.
        model, data: what its memories must be.
    """

    device: str
    device_version: str
    cache_key: bytes
    interface: bytes
    model: tuple[Fingerprint, ...]
    data: tuple[Fingerprint, ...]

    def interface_model(self, extensions: Sequence[Extension] = ()) -> Model:
        """The model with nothing in it but its inputs and outputs, where there are these vendors' extensions.

        Raises:
            BadData: it is none.
        """
        return decode_model(self.interface, (), extensions)


def interface_of(model: Model) -> Model:
    """A model with the inputs and outputs of `model` and nothing else: what requests are checked against."""
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


def make_seal(device: Device, model: Model, cache_key: bytes, artifact: Artifact) -> bytes:
    """The seal of an artifact that `device` has made of `model` under `cache_key`.

    Raises:
        OpFailed: there is no installation's secret.
    """
    content = msgspec.msgpack.encode(
        Seal(
            device=device.name,
            device_version=device.version,
            cache_key=cache_key,
            interface=encode_model(interface_of(model)),
            model=_fingerprints(artifact.model),
            data=_fingerprints(artifact.data),
        )
    )
    return _code(content) + content


def read_seal(seal: bytes) -> Seal:
    """What a seal says, whoever has made it.

    Raises:
        BadData: it is none.
    """
    try:
        return msgspec.msgpack.decode(seal[MAC_BYTES:], type=Seal)
    except msgspec.DecodeError:
        raise BadData(f"these {len(seal)} bytes are no seal of an artifact") from None


def check_seal(device: Device, artifact: Artifact, cache_key: bytes) -> Model:
    """Checks that an artifact is one of `device` under `cache_key`; returns the interface of its model.

    Args:
        device: that it is for.
        artifact: in memory that cannot change any more.
        cache_key: that the client names.

    Raises:
        BadData: it is not.
        OpFailed: there is no installation's secret.
    """
    code, content = artifact.seal[:MAC_BYTES], artifact.seal[MAC_BYTES:]
    if not hmac.compare_digest(code, _code(content)):
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
    return seal.interface_model(declared_extensions(device))


def named_tokens(memories: Sequence[Memory], tokens: Iterable[bytes]) -> list[bytes]:
    """A token for each memory of an artifact: those given, in order, and the empty one for memories without bytes.

    Neither shared memory nor a session's can be empty, but many an artifact has no constants.
    """
    following = iter(tokens)
    return [next(following) if memory.size else b"" for memory in memories]


def _code(content: bytes) -> bytes:
    try:
        secret = installation_secret()
    except BadState as error:
        # Where the secret is to be is the business of no client.
        logger.warning("artifacts are neither given nor taken: %s", error)
        raise OpFailed(
            "this installation has no secret to seal artifacts with; the daemon's log tells more"
        ) from None
    return authentication_code(secret, _PURPOSE, content)


def _fingerprints(memories: Sequence[Memory]) -> tuple[Fingerprint, ...]:
    return tuple(Fingerprint.of(memory.view()) for memory in memories)
