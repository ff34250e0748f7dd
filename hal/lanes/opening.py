"""Opens a lane from a client on the same host to a served model.

It connects to the SEQPACKET socket of the execution service and sends `OpenRequest`. The answer is
`Opened`, with the client's end of the lane's socket attached, or `Refused`. From then on the client
talks to the model's process directly. The lane lasts until either side closes its end.
"""

from typing import Final

import msgspec

from neurald.hal.decoding import msgpack_decoder


class TensorDescription(msgspec.Struct, frozen=True, array_like=True):
    """An input or output of a model.

    Attributes:
        name: unique among the inputs or outputs.
        kind: name of the element type, see `neurald.hal.lanes.packets`.
        shape: -1 for each open length; None if the rank is open.
        scale, zero_point: the scale and zero point of quantised values; 0.0 if they are not
            quantised.
    """

    name: str
    kind: str
    shape: tuple[int, ...] | None
    scale: float = 0.0
    zero_point: int = 0


class OpenRequest(msgspec.Struct, frozen=True, array_like=True, tag="open"):
    """Asks for a lane.

    Attributes:
        name: the name of the model.
        version: the version of the model; empty for the newest.
    """

    name: str
    version: str = ""


class Opened(msgspec.Struct, frozen=True, array_like=True, tag="opened"):
    """A lane was opened.

    Attributes:
        version: the version of the model.
        inputs, outputs: the inputs and outputs of the model.
        max_batch: the most entries of a batch; 0 for a model without batches.
    """

    version: str
    inputs: tuple[TensorDescription, ...]
    outputs: tuple[TensorDescription, ...]
    max_batch: int


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """Reports that no lane was opened.

    Attributes:
        code: a `ResultCode`.
        message: the error message.
    """

    code: int
    message: str


encode_opening: Final = msgspec.msgpack.Encoder().encode
decode_open_model: Final = msgpack_decoder(OpenRequest).decode
decode_opened: Final = msgpack_decoder(Opened | Refused).decode
