"""Requests that come again and again with the same bytes, but for their ids.

A client that passes tensors in shared memory sends the same short message each time. It is decoded
once, as long as the regions that it names stay registered.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from msgspec import Struct

from neurald.service.inference.protocol.grpc_encoding import decode_request
from neurald.service.inference.protocol.messages import ModelInferRequest
from neurald.service.inference.protocol.regions import RegionTable
from neurald.service.inference.protocol.tensors import (
    InferenceRequest,
    InputTensor,
    Parameter,
    RegionPlace,
    WantedOutput,
)

#: The longest message that is kept, and how many are.
MAX_KNOWN_BYTES: Final = 4096
_KEPT: Final = 64
#: The tags of the first fields of a ModelInferRequest.
_MODEL_NAME: Final = 1 << 3 | 2
_MODEL_VERSION: Final = 2 << 3 | 2
_ID: Final = 3 << 3 | 2
#: Lengths from here on take more than one byte.
_LONG: Final = 0x80


class KnownRequest(Struct, eq=False):
    """A request without its id, and without the regions' parts, which each request has for itself.

    Attributes:
        model, version, parameters: see `InferenceRequest`.
        inputs: name, type, shape and place of each input.
        outputs: name, number of classes and place of each output; None for one in the answer.
        run: how it was run, for the next run; None at first.
    """

    model: str
    version: str
    parameters: dict[str, Parameter]
    inputs: tuple[tuple[str, str, tuple[int, ...], RegionPlace], ...]
    outputs: tuple[tuple[str, int, RegionPlace | None], ...]
    run: object = None

    def request(self, number: str) -> InferenceRequest | None:
        """Returns the request again; None if one of its regions is not registered any more.

        Args:
            number: its id.
        """
        inputs: list[InputTensor] = []
        for name, datatype, shape, place in self.inputs:
            part = place.part()
            if part is None:
                return None
            inputs.append(InputTensor(name=name, datatype=datatype, shape=shape, source=part))
        outputs: list[WantedOutput] = []
        for name, classes, target in self.outputs:
            part = None if target is None else target.part()
            if part is None and target is not None:
                return None
            outputs.append(WantedOutput(name=name, region=part, classes=classes))
        return InferenceRequest(
            model=self.model,
            version=self.version,
            id=number,
            parameters=self.parameters,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
        )


class KnownTable:
    """The requests that came last whose inputs are all in regions.

    Any thread may call its methods.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, KnownRequest] = OrderedDict()
        self._lock = threading.Lock()
        #: Looks for a request by its key; returns None if it is not known.
        self.find: Final = self._known.get

    def forget(self, key: Hashable) -> None:
        """Forgets a request."""
        with self._lock:
            self._known.pop(key, None)

    def keep(self, key: Hashable, request: InferenceRequest) -> KnownRequest | None:
        """Keeps a request if all its inputs are in regions; returns what is kept."""
        known = _known(request)
        if known is not None:
            with self._lock:
                self._known[key] = known
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return known


def _known(request: InferenceRequest) -> KnownRequest | None:
    """Returns what is kept of a request; None if it has inputs that are not in regions, or none."""
    inputs: list[tuple[str, str, tuple[int, ...], RegionPlace]] = []
    for each in request.inputs:
        place: RegionPlace | None = getattr(each.source, "place", None)
        if place is None:
            return None
        inputs.append((each.name, each.datatype, each.shape, place))
    if not inputs:
        return None
    return KnownRequest(
        model=request.model,
        version=request.version,
        parameters=request.parameters,
        inputs=tuple(inputs),
        outputs=tuple(
            (each.name, each.classes, None if each.region is None else each.region.place)
            for each in request.outputs
        ),
    )


class KnownRequests:
    """Decodes requests of gRPC, and remembers those whose inputs are all in regions.

    Any thread may call its methods.

    Args:
        regions: the regions of clients.
    """

    def __init__(self, regions: RegionTable) -> None:
        self._regions = regions
        self._known = KnownTable()

    def find(self, data: bytes) -> tuple[KnownRequest | None, bytes]:
        """Looks for a ModelInferRequest.

        Returns:
            What is known of it, None for nothing; and the field with its id, empty if it has none.
        """
        if len(data) > MAX_KNOWN_BYTES:  # to look for it would take as long as to copy it
            return None, b""
        key, id_field = _without_id(data)
        return self._known.find(key), id_field

    def decode(self, data: bytes) -> InferenceRequest:
        """Decodes a ModelInferRequest; see `decode_request`."""
        if len(data) > MAX_KNOWN_BYTES:
            return decode_request(data, self._regions)
        key, id_field = _without_id(data)
        known = self._known.find(key)
        if known is not None:
            again = known.request(id_field[2:].decode())
            if again is not None:
                return again
            self._known.forget(key)
        request = decode_request(data, self._regions)
        if not ModelInferRequest.FromString(key).id:  # else its id is in another place
            self._known.keep(key, request)
        return request


def _without_id(data: bytes) -> tuple[bytes, bytes]:
    """Returns a message without the field with its id, and this field.

    The field is empty if it is not behind the name and the version of the model, where encoders put
    it, or has no id that can be decoded.
    """
    at = 0
    try:
        for tag in (_MODEL_NAME, _MODEL_VERSION):
            if data[at] == tag:
                if data[at + 1] >= _LONG:
                    return data, b""
                at += 2 + data[at + 1]
        if data[at] != _ID or data[at + 1] >= _LONG:
            return data, b""
        end = at + 2 + data[at + 1]
        field = data[at:end]
        field[2:].decode()
    except (IndexError, UnicodeDecodeError):
        return data, b""
    return (data[:at] + data[end:], field) if end < len(data) else (data, b"")
