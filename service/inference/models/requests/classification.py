"""The classes of an output, which clients may ask for in place of its values."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from neurald.hal.lanes.byte_strings import encode_byte_strings
from neurald.hal.lanes.packets import BYTES, type_named
from neurald.service.inference.models.requests.job import JobOutput
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import WantedOutput, quoted

#: The most elements of an output of which classes are wanted.
_MAX_CLASSIFIED: Final = 1_000_000


def classes_of(
    output: JobOutput, wanted: WantedOutput, labels: Sequence[str], *, is_batched: bool
) -> tuple[memoryview, tuple[int, ...]]:
    """Returns the largest values of an output as text "value:index", or "value:index:label"."""
    if output.kind == BYTES:
        raise ServiceError(
            Status.INVALID,
            f"class result not available for output due to unsupported type 'BYTES': {quoted(wanted.name)}",
        )
    values = np.frombuffer(output.data, type_named(output.kind))
    if values.size > _MAX_CLASSIFIED:
        raise ServiceError(
            Status.INVALID,
            f"classification output tensor too large: {quoted(wanted.name)} has {values.size} elements; "
            f"{_MAX_CLASSIFIED} may be",
        )
    rows = values.reshape(output.shape[0], -1) if is_batched else values.reshape(1, -1)
    count = min(wanted.classes, rows.shape[1])
    form = "f" if values.dtype.kind == "f" else "d"
    texts = np.empty((rows.shape[0], count), object)
    for number, row in enumerate(rows):
        for place, index in enumerate(np.argsort(-row.astype(np.float64), kind="stable")[:count]):
            label = f":{labels[index]}" if index < len(labels) else ""
            texts[number, place] = f"{row[index].item():{form}}:{index}{label}".encode()
    shape = texts.shape if is_batched else texts.shape[1:]
    return memoryview(encode_byte_strings(texts)), tuple(shape)
