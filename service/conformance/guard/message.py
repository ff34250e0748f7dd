"""Messages between the suite and the process that runs cases between guard pages.

Each message is preceded by its length in eight little-endian bytes:

    process -> suite:    `Ready`, once it has opened the device
    suite -> process:    a `GuardedCase`
    process -> suite:    a `Stage` before each call of the device, and a `Ran` at the end

If the process dies, its last `Stage` contains the call and the addresses of all buffers.
"""

import msgspec


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """Reports whether the process has opened the device.

    Attributes:
        device: the name of the device.
        error: the reason why it cannot be opened, or "".
    """

    device: str = ""
    error: str = ""


class GuardedInput(msgspec.Struct, frozen=True, array_like=True):
    """The bytes and the shape of an input."""

    content: bytes
    dimensions: tuple[int, ...]


class GuardedCase(msgspec.Struct, frozen=True, array_like=True):
    """A model, and the data to run it with.

    Attributes:
        model: the model in wire format; each of its pools is one constant.
        constants: the contents of the pools.
        inputs: the inputs of the model.
        outputs: the size of each output in bytes.
        limit_s: the time limit of a call.
    """

    model: bytes
    constants: tuple[bytes, ...]
    inputs: tuple[GuardedInput, ...]
    outputs: tuple[int, ...]
    limit_s: float


class BufferRegion(msgspec.Struct, frozen=True, array_like=True):
    """The addresses of a buffer in the process.

    Attributes:
        name: the name for messages, such as "input 0".
        start: the address of the buffer.
        size: its size in bytes.
        first: the start of the guard pages before it.
        end: the end of the guard pages behind it.
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
        placement: the value of a `GuardPlacement`.
        regions: the buffers that exist during the call.
    """

    call: str
    placement: str
    regions: tuple[BufferRegion, ...]


class FoundOutput(msgspec.Struct, frozen=True, array_like=True):
    """An output after an execution: the bytes of its memory, and the reported shape."""

    content: bytes
    dimensions: tuple[int, ...] | None
    is_sufficient: bool


class Ran(msgspec.Struct, frozen=True, array_like=True, tag="ran"):
    """The outcome of a case whose calls all returned or raised an error.

    Attributes:
        placement: the placement of the buffers in the call that failed.
        error: the error of that call; "" if none failed.
        outputs: the outputs of an execution for each placement.
    """

    placement: str = ""
    error: str = ""
    outputs: tuple[tuple[FoundOutput, ...], ...] = ()


Message = Ready | Stage | Ran
