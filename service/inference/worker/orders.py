"""Messages of the front end and a worker over the worker's control socket."""

from typing import Final

import msgspec

from neurald.hal.decoding import msgpack_decoder
from neurald.hal.device.execution import DEFAULT_LOOP_TIMEOUT_S
from neurald.hal.lanes.opening import TensorDescription

#: The largest packet of the control socket. A description of a model with very many inputs or
#: outputs is larger, and such a model is refused.
MAX_CONTROL_BYTES: Final = 1 << 16


class Warmup(msgspec.Struct, frozen=True, array_like=True):
    """A run before the model is ready.

    Attributes:
        shapes: the shapes of inputs, by name; an input without an entry takes its own shape, with 1
            for open lengths.
        batch: entries of the batch, for a model with batches.
        is_random: whether inputs are random instead of zero.
        count: how often.
    """

    shapes: dict[str, tuple[int, ...]]
    batch: int
    is_random: bool
    count: int


class LoadOrder(msgspec.Struct, frozen=True, array_like=True, tag="load"):
    """Loads the model whose file is attached.

    Attributes:
        name: the name of the model, for messages.
        devices: names of the only devices that may be used; empty for an automatic choice.
        device_type: "gpu" for GPUs only, "cpu" for the CPU only; empty for any.
        threads: number of CPU threads; 0 lets the driver choose.
        signature: the entry point; empty for the first.
        is_batched: whether the first length of inputs and outputs is left open for batches.
        joins_requests: whether requests are joined to batches.
        startup: "optimized" or "instant".
        warmups: runs before the model is ready.
        loop_timeout_s: how long a WHILE operation may take, in requests, warm-ups and the check of
            batches.
    """

    name: str
    devices: tuple[str, ...] = ()
    device_type: str = ""
    threads: int = 0
    signature: str = ""
    is_batched: bool = False
    startup: str = "optimized"
    warmups: tuple[Warmup, ...] = ()
    loop_timeout_s: float = DEFAULT_LOOP_TIMEOUT_S
    joins_requests: bool = False


class OpenLane(msgspec.Struct, frozen=True, array_like=True, tag="lane"):
    """Serves the lane whose socket is attached.

    Attributes:
        lane: its number, chosen by the front end.
        is_trusted: whether the caller keeps its hands off the arena during a run. Otherwise inputs
            and outputs are copied.
    """

    lane: int
    is_trusted: bool


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """Ends a run, if it is still under way.

    Attributes:
        lane: where it was begun.
        number: the number of the run.
    """

    lane: int
    number: int


class CutWindow(msgspec.Struct, frozen=True, array_like=True, tag="cut"):
    """Gives the memory of a lane's window back, since its client has unregistered it.

    Attributes:
        lane: the number of the lane.
        window: the number of the window.
    """

    lane: int
    window: int


class ExplainOrder(msgspec.Struct, frozen=True, array_like=True, tag="explain"):
    """Asks for the document of the page that explains the model, in the attached file.

    Attributes:
        title: the title of the page.
    """

    title: str


class Ping(msgspec.Struct, frozen=True, array_like=True, tag="ping"):
    """Asks for `ModelHealth`."""


class ModelDescription(msgspec.Struct, frozen=True, array_like=True, tag="loaded"):
    """The model is compiled and warm.

    Attributes:
        inputs, outputs: the inputs and outputs of the model; with batches, shapes include the
            length of the batch.
        devices: the devices that run it, in the order of the steps.
        drivers: the versions of their drivers.
    """

    inputs: tuple[TensorDescription, ...]
    outputs: tuple[TensorDescription, ...]
    devices: tuple[str, ...]
    drivers: tuple[str, ...]


class LoadFailure(msgspec.Struct, frozen=True, array_like=True, tag="not_loaded"):
    """The model cannot be served.

    Attributes:
        code: a `ResultCode`.
        message: the error message.
    """

    code: int
    message: str


class Explained(msgspec.Struct, frozen=True, array_like=True, tag="explained"):
    """The file of an `ExplainOrder` is written.

    Attributes:
        failure: why it is not; empty if it is.
    """

    failure: str = ""


class ModelHealth(msgspec.Struct, frozen=True, array_like=True, tag="health"):
    """The answer to whether the model can be run now.

    Attributes:
        is_ready: whether all devices that must be there are there.
        reason: why not.
    """

    is_ready: bool
    reason: str = ""


ControlOrder = LoadOrder | OpenLane | Cancel | CutWindow | Ping | ExplainOrder
Report = ModelDescription | LoadFailure | ModelHealth | Explained

encode: Final = msgspec.msgpack.Encoder().encode
decode_order: Final = msgpack_decoder(ControlOrder).decode
decode_report: Final = msgpack_decoder(Report).decode
