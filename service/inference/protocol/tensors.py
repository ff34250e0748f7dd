"""Requests and answers of an inference, independent of the transport."""

import math
import os
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from neurald.service.inference.protocol.errors import ServiceError, Status

#: The most inputs, or outputs, of one request, and the most dimensions of a tensor.
MAX_TENSORS = 1024
#: The most parameters of a request or a tensor.
MAX_PARAMETERS = 1024
MAX_RANK = 32
_MAX_MEMBERS = 1 << 15
_MAX_ELEMENTS = 2**63 - 1
#: The integers that a parameter over gRPC may be.
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
#: Bytes of the largest element.
_LARGEST_ELEMENT = 8

#: The parameter that asks for all outputs as bytes behind the JSON, over HTTP.
BINARY_OUTPUT = "binary_data_output"
#: Names of parameters that begin so belong to the protocol.
RESERVED_PREFIX = "triton_"

Parameter = bool | int | float | str


class InputBytes(Protocol):
    """The bytes of an input."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    def copy_into(self, target: memoryview) -> None:
        """Copies the bytes.

        Raises:
            ServiceError: they are not there any more.
        """

    def release(self) -> None:
        """Says that the request has ended."""


class Bytes(Struct, frozen=True):
    """Bytes that came with the request."""

    data: memoryview

    @property
    def size(self) -> int:
        """See `InputBytes.size`."""
        return self.data.nbytes

    def copy_into(self, target: memoryview) -> None:
        """See `InputBytes.copy_into`."""
        target[:] = self.data

    def release(self) -> None:
        """See `InputBytes.release`."""


class Zeros(Struct, frozen=True):
    """The bytes of an optional input that the client has left out: zeros, or empty strings."""

    size: int

    def copy_into(self, target: memoryview) -> None:
        """See `InputBytes.copy_into`."""
        np.frombuffer(target, np.uint8)[:] = 0

    def release(self) -> None:
        """See `InputBytes.release`."""


class RegionFile(Protocol):
    """The file of a registered region, which may be referred to weakly.

    Attributes:
        descriptor: the descriptor of the file, open while the region is registered.
        offset, size: the part of the file that is registered.
    """

    descriptor: int
    offset: int
    size: int

    @property
    def file(self) -> int:
        """Tells the file from others."""

    def check(self) -> None:
        """Raises ServiceError if the file cannot be used any more."""

    def check_size(self) -> None:
        """Raises ServiceError if the file is shorter than it was; takes less than `check`."""


class RegionPlace(Protocol):
    """A part of a region, for later requests. It does not keep the region.

    Attributes:
        offset: the offset of the part in the region's file.
        size: the size of the part.
    """

    offset: int
    size: int

    @property
    def region(self) -> RegionFile:
        """The region, which must be in use."""

    def part(self) -> "RegionPart | None":
        """Returns the part for another request; None if the region is not registered any more."""

    def is_beside(self, other: "RegionPlace") -> bool:
        """Returns whether another place is in the same region."""

    def use(self) -> bool:
        """Uses the region until `release`; returns False if it is not registered any more."""

    def release(self) -> None:
        """Ends what `use` has begun."""

    def copy_into(self, target: memoryview) -> None:
        """Copies its bytes; see `RegionPart.copy_into`. The region must be in use."""

    def write(self, data: memoryview, name: str) -> None:
        """Writes at its beginning; see `RegionPart.write`. The region must be in use."""


class RegionPart(Protocol):
    """A part of a region of shared memory, which another process may change or truncate."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    @property
    def place(self) -> RegionPlace:
        """The place where it is."""

    def copy_into(self, target: memoryview) -> None:
        """Copies its bytes; see `InputBytes.copy_into`."""

    def release(self) -> None:
        """Says that the request has ended, so that the region may go; see `InputBytes.release`."""

    def write(self, data: memoryview, name: str) -> None:
        """Writes the bytes of the output of this name at its beginning.

        Raises:
            ServiceError: they do not fit, or the region is not there any more.
        """


class InputTensor(Struct, frozen=True, kw_only=True):
    """One input of a request. The numbers of the shape are not negative."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    source: InputBytes


class WantedOutput(Struct, frozen=True, kw_only=True):
    """One output that a request asks for.

    Attributes:
        name: the name of the output.
        region: where it is written; None to send it in the answer.
        is_binary: whether it follows the JSON of an HTTP answer.
        classes: how many classes to return in place of the values; 0 for the values.
    """

    name: str
    region: RegionPart | None = None
    is_binary: bool = False
    classes: int = 0


class InferenceRequest(Struct, frozen=True, kw_only=True):
    """Asks to run a model.

    Attributes:
        model, version: which; an empty version is the newest.
        id: the ID of the request, which the answer repeats.
        parameters: the parameters of the request.
        inputs: the inputs in the client's order.
        outputs: those that are wanted; empty for all.
        trace_id: the trace ID of the client's trace; empty if it takes none.
    """

    model: str
    version: str
    id: str
    parameters: dict[str, Parameter]
    inputs: tuple[InputTensor, ...]
    outputs: tuple[WantedOutput, ...]
    trace_id: str = ""

    def of_trace(self, trace_id: str) -> "InferenceRequest":
        """Returns the request as one of a trace, in its place; itself if there is none."""
        return replace(self, trace_id=trace_id) if trace_id else self

    def with_parameters(self, added: dict[str, Parameter]) -> "InferenceRequest":
        """Returns the request with more parameters, which replace its own; itself without any.

        Raises:
            ServiceError: there are too many.
        """
        if not added:
            return self
        parameters = {**self.parameters, **added}
        require_few_parameters(len(parameters))
        return replace(self, parameters=parameters)

    def release(self) -> None:
        """Says that it has ended, so that the regions of its tensors may go."""
        for given in self.inputs:
            given.source.release()
        for wanted in self.outputs:
            if wanted.region is not None:
                wanted.region.release()


class OutputTensor(Struct, frozen=True, kw_only=True):
    """One output of an answer.

    Attributes:
        name, datatype, shape: the name, datatype, and shape of the output.
        data: its bytes, which are valid only while the answer is encoded.
        wanted: how it was asked for; None if all outputs are.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: memoryview
    wanted: WantedOutput | None = None

    def written_to_region(self) -> bool:
        """Writes it to the region that was asked for; returns False if there is none.

        Raises:
            ServiceError: it does not fit.
        """
        if self.wanted is None or self.wanted.region is None:
            return False
        self.wanted.region.write(self.data, self.name)
        return True


class InferenceAnswer(Struct, frozen=True, kw_only=True):
    """The answer to an `InferenceRequest`."""

    model: str
    version: str
    id: str
    outputs: tuple[OutputTensor, ...]
    parameters: dict[str, Parameter] = field(default_factory=dict)


def checked_shape(name: str, shape: "list[int] | tuple[int, ...]") -> tuple[int, ...]:
    """Returns the shape of an input.

    Raises:
        ServiceError: a length is negative, there are too many, or no array can have them.
    """
    if len(shape) > MAX_RANK or any(length < 0 for length in shape):
        raise ServiceError(
            Status.INVALID,
            f"All input dimensions should be specified for input {quoted(name)}, got {list(shape[:MAX_RANK])}, of "
            f"{len(shape)} lengths; up to {MAX_RANK} that are not negative are expected",
        )
    # A length of 0 makes no other one smaller: arrays are refused whose other lengths overflow.
    count = math.prod(filter(None, shape))
    if count > _MAX_ELEMENTS or any(length > _MAX_ELEMENTS for length in shape):
        raise ServiceError(
            Status.INVALID,
            f"the shape {list(shape)} of input {quoted(name)} causes total element count to exceed maximum "
            f"size of {_MAX_ELEMENTS}",
        )
    if count > _MAX_ELEMENTS // _LARGEST_ELEMENT:
        raise ServiceError(
            Status.INVALID, f"byte size overflow for input {quoted(name)} of the shape {list(shape)}"
        )
    return tuple(shape)


def require_few_parameters(count: int) -> None:
    """Raises ServiceError if there are too many parameters."""
    if count > MAX_PARAMETERS:
        raise ServiceError(Status.INVALID, f"there are {count} parameters; {MAX_PARAMETERS} may be")


def require_sound_parameters(parameters: Mapping[str, Parameter]) -> None:
    """Checks parameters of JSON, whose integers have any length.

    Raises:
        ServiceError: there are too many, or one is an integer that no other transport could carry.
    """
    require_few_parameters(len(parameters))
    for name, value in parameters.items():
        if isinstance(value, int) and not _MIN_INTEGER <= value <= _MAX_INTEGER:
            raise ServiceError(
                Status.INVALID,
                f"the parameter {quoted(name)} is an integer of {value.bit_length()} bits; -2^63 to 2^64-1 are expected",
            )


def number_fault(name: str, value: Parameter) -> str:
    """Returns what Triton says of a parameter that is no number, or not one that it may be."""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"invalid value type for '{name}' parameter, expected int64_param"
    return f"invalid value for '{name}'{', expected value >= 0' if value < 0 else ''}"


def require_few_members(content: bytes) -> None:
    """Raises ServiceError if JSON has too many members of objects, before they are parsed.

    Parsing keeps all other clients waiting, and much of it does for seconds. Most of what a request
    has are elements of tensors.
    """
    members = content.count(b'":') - content.count(b'\\":')  # without those in text
    if members > _MAX_MEMBERS:
        raise ServiceError(
            Status.INVALID, f"the request JSON has {members} members of objects; {_MAX_MEMBERS} may be"
        )


def quoted(text: str) -> str:
    """Returns text of a client for a message, without what terminals and logs might obey."""
    shown = text[:100].encode("unicode_escape").decode("ascii")
    return f"'{shown}'" + ("…" if len(text) > 100 else "")


def read_at(descriptor: int, target: memoryview, offset: int) -> bool:
    """Reads bytes of a file; returns False if it ends before."""
    done = 0
    while done < target.nbytes:
        count = os.preadv(descriptor, [target[done:]], offset + done)
        if count <= 0:
            return False
        done += count
    return True
