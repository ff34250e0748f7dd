"""Requests that come again and again with the same bytes.

A client that passes tensors in shared memory sends the same short message each time. It is decoded
once, as long as the regions that it names stay registered.
"""

import threading
from collections import OrderedDict
from typing import Final

from msgspec import Struct

from neurald.service.inference.protocol.grpc_encoding import decode_request
from neurald.service.inference.protocol.regions import RegionTable
from neurald.service.inference.protocol.tensors import (
    InferenceRequest,
    InputTensor,
    Parameter,
    RegionPlace,
    WantedOutput,
)

#: The longest message that is kept, and how many are.
_MAX_BYTES: Final = 4096
_KEPT: Final = 64


class _Known(Struct, frozen=True, eq=False):
    """A request without the parts of regions, which each request has for itself."""

    model: str
    version: str
    id: str
    parameters: dict[str, Parameter]
    #: Name, type, shape and place of each input.
    inputs: tuple[tuple[str, str, tuple[int, ...], RegionPlace], ...]
    #: Name, number of classes and place of each output; None for one that is in the answer.
    outputs: tuple[tuple[str, int, RegionPlace | None], ...]

    def request(self) -> InferenceRequest | None:
        """Returns the request again; None if one of its regions is not registered any more."""
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
            id=self.id,
            parameters=self.parameters,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
        )


def _known(request: InferenceRequest) -> _Known | None:
    """Returns what is kept of a request; None if it has inputs that are not in regions, or none."""
    inputs: list[tuple[str, str, tuple[int, ...], RegionPlace]] = []
    for each in request.inputs:
        place: RegionPlace | None = getattr(each.source, "place", None)
        if place is None:
            return None
        inputs.append((each.name, each.datatype, each.shape, place))
    if not inputs:
        return None
    return _Known(
        model=request.model,
        version=request.version,
        id=request.id,
        parameters=request.parameters,
        inputs=tuple(inputs),
        outputs=tuple(
            (each.name, each.classes, None if each.region is None else each.region.place)
            for each in request.outputs
        ),
    )


class KnownRequests:
    """Decodes requests, and remembers those whose inputs are all in regions.

    Any thread may call its methods.

    Args:
        regions: of clients.
    """

    def __init__(self, regions: RegionTable) -> None:
        self._regions = regions
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def decode(self, data: bytes) -> InferenceRequest:
        """Decodes a ModelInferRequest; see `decode_request`."""
        if len(data) > _MAX_BYTES:  # to look for it would take as long as to copy it
            return decode_request(data, self._regions)
        known = self._known.get(data)
        if known is not None:
            again = known.request()
            if again is not None:
                return again
            with self._lock:
                self._known.pop(data, None)
        request = decode_request(data, self._regions)
        known = _known(request)
        if known is not None:
            with self._lock:
                self._known[data] = known
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return request
