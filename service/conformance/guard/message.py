"""Messages between the suite and the process that runs cases between guard pages.

Each message comes after its length in eight bytes:

    process -> suite:    `Ready`, once it has opened the device
    suite -> process:    a `GuardedCase`
    process -> suite:    a `Stage` before each call of the device, and in the end a `Ran`

The last stage of a process that dies says where every buffer lay.
"""

import msgspec


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """Says whether the process has opened the device.

    Attributes:
        device: its name.
        error: why it could not be opened; "" if it could.
    """

    device: str = ""
    error: str = ""


class GuardedInput(msgspec.Struct, frozen=True, array_like=True):
    """The bytes and the shape of an input."""

    content: bytes
    dimensions: tuple[int, ...]


class GuardedCase(msgspec.Struct, frozen=True, array_like=True):
    """A model, and what to run it with.

    Attributes:
        model: in wire form; each of its pools is one constant.
        constants: what the pools hold.
        inputs: of the model.
        outputs: the bytes of each output.
        limit_s: how long a call may take.
    """

    model: bytes
    constants: tuple[bytes, ...]
    inputs: tuple[GuardedInput, ...]
    outputs: tuple[int, ...]
    limit_s: float


class Region(msgspec.Struct, frozen=True, array_like=True):
    """Where a buffer lies in the process.

    Attributes:
        name: "input 0", for example.
        start, size: of the buffer.
        first, end: of its pages with the guard pages before and behind them.
    """

    name: str
    start: int
    size: int
    first: int
    end: int


class Stage(msgspec.Struct, frozen=True, array_like=True, tag="stage"):
    """Announces a call of the device.

    Attributes:
        call: of the device: "prepare_model" or "execute".
        placement: the value of a `Placement`.
        regions: of the buffers that exist then.
    """

    call: str
    placement: str
    regions: tuple[Region, ...]


class FoundOutput(msgspec.Struct, frozen=True, array_like=True):
    """An output after an execution: the bytes of its memory, and the shape that was reported."""

    content: bytes
    dimensions: tuple[int, ...] | None
    is_sufficient: bool


class Ran(msgspec.Struct, frozen=True, array_like=True, tag="ran"):
    """The outcome of a case in which every call returned or raised an error.

    Attributes:
        placement: of the buffers in the call that failed.
        error: of that call; "" if none failed.
        outputs: those of one execution for each placement.
    """

    placement: str = ""
    error: str = ""
    outputs: tuple[tuple[FoundOutput, ...], ...] = ()


Message = Ready | Stage | Ran
