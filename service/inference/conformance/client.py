"""The interface of clients of the V2 protocol that the checks use, for any transport."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Unavailable(Exception):
    """The server does not have a call, which may be optional; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTensor:
    """An input or output with its bytes.

    Attributes:
        name, datatype, shape: as the protocol has them.
        data: its bytes; None to send an input without any.
        elements: the elements, to send an input in typed contents or JSON; None for its bytes.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes | None = b""
    elements: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """A request."""

    model: str
    version: str = ""
    id: str = ""
    inputs: tuple[NamedTensor, ...]
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to a request, or why it was refused.

    Attributes:
        status: "OK", or the name of gRPC's status that fits best.
        message: the message of an error.
        model, version, id, outputs: the model, version, ID, and outputs of an answer.
    """

    status: str = "OK"
    message: str = ""
    model: str = ""
    version: str = ""
    id: str = ""
    outputs: tuple[NamedTensor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOffer:
    """A server's description of a model.

    Attributes:
        inputs, outputs: name, datatype and shape of each.
        versions: the versions that there are.
    """

    name: str
    versions: tuple[str, ...]
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The statistics of a model: numbers of events by name."""

    inferences: int
    executions: int
    counts: dict[str, int] = field(default_factory=dict)


class V2Client(Protocol):
    """A connection to a server. Calls raise `Unavailable` if the server does not have them."""

    transport: str

    def is_live(self) -> bool:
        """Asks whether the server is there."""

    def is_ready(self) -> bool:
        """Asks whether the server is ready."""

    def is_model_ready(self, name: str) -> bool:
        """Asks whether a model is ready; False also if there is none."""

    def extensions(self) -> tuple[str, ...]:
        """Returns the extensions that the server has."""

    def offer(self, name: str, version: str = "") -> ModelOffer | Reply:
        """Returns what the server says of a model, or the refusal."""

    def max_batch(self, name: str) -> int:
        """Returns the most entries of a batch; 0 for a model without batches."""

    def counters(self, name: str) -> Counters:
        """Returns the statistics of a model."""

    def models(self) -> dict[str, str]:
        """Returns the states of the models in the repository."""

    def unregister_memory(self) -> None:
        """Unregisters all shared memory, of the system and of CUDA."""

    def infer(self, request: Inference) -> Reply:
        """Runs a model."""

    def stream(self, requests: Sequence[Inference]) -> list[Reply]:
        """Runs models over one stream; returns the answers as they came."""

    def send_raw(self, content: bytes, model: str) -> Reply:
        """Sends bytes as an inference."""

    def encoded(self, request: Inference) -> bytes:
        """Returns the bytes of a request."""

    def close(self) -> None:
        """Closes the connection."""
