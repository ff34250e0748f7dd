"""Messages between the suite and the process that runs cases between guard pages.

Each message is preceded by its length in eight bytes:

    process -> suite:    `Ready`, once it has opened the device
    suite -> process:    a `GuardedCase`
    process -> suite:    a `Stage` before each call of the device, and in the end a `Ran`

The last stage of a process that dies describes where every buffer was.
"""

import msgspec


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """Reports whether the process has opened the device.

    Attributes:
        device: its name.
        error: the reason why it could not be opened; "" if it was.
    """

    device: str = ""
    error: str = ""


class GuardedInput(msgspec.Struct, frozen=True, array_like=True):
    """Bytes and shape of an input."""

    content: bytes
    dimensions: tuple[int, ...]


class GuardedCase(msgspec.Struct, frozen=True, array_like=True):
    """Model and the data to run it with.

    Attributes:
        model: in wire form; each of its pools is one constant.
        constants: the contents of the pools.
        inputs: the model's inputs.
        outputs: the size of each output in bytes.
        limit_s: the time limit of a call.
    """

    model: bytes
    constants: tuple[bytes, ...]
    inputs: tuple[GuardedInput, ...]
    outputs: tuple[int, ...]
    limit_s: float


class Region(msgspec.Struct, frozen=True, array_like=True):
    """Location of a buffer in the process.

    Attributes:
        name: such as "input 0".
        start, size: the buffer.
        first, end: its pages including the guard pages.
    """

    name: str
    start: int
    size: int
    first: int
    end: int


class Stage(msgspec.Struct, frozen=True, array_like=True, tag="stage"):
    """Announces a call of the device.

    Attributes:
        call: "prepare_model" or "execute".
        placement: the value of a `Placement`.
        regions: the buffers that exist at that time.
    """

    call: str
    placement: str
    regions: tuple[Region, ...]


class FoundOutput(msgspec.Struct, frozen=True, array_like=True):
    """Output after an execution: the bytes of its memory, and the reported shape."""

    content: bytes
    dimensions: tuple[int, ...] | None
    is_sufficient: bool


class Ran(msgspec.Struct, frozen=True, array_like=True, tag="ran"):
    """Outcome of a case in which every call returned or raised an error.

    Attributes:
        placement: the placement of the buffers in the failed call.
        error: the error of that call; "" if none failed.
        outputs: those of one execution for each placement.
    """

    placement: str = ""
    error: str = ""
    outputs: tuple[tuple[FoundOutput, ...], ...] = ()


Message = Ready | Stage | Ran
