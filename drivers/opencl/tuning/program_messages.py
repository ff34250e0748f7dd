"""What this process asks those that help to build programs, and what they answer."""

import msgspec

from neurald.drivers.opencl.tuning.trials import Trials


class Build(msgspec.Struct, frozen=True, array_like=True, tag="build"):
    """Build a program; what is measured next is in it.

    Attributes:
        text: of the program.
        wants_binary: whether the answer has its binary.
    """

    text: str
    wants_binary: bool = False


class Measure(msgspec.Struct, frozen=True, array_like=True, tag="measure"):
    """Measure kernels of the program that was built last."""

    trials: Trials


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What became of a request.

    Attributes:
        error: why the program does not build; "" if it does.
        binary: of the program, if it was asked for: what `Program.binary` gives.
        times_ns: of each kernel; None where it cannot run. Fewer than there are kernels: the device was lost with the next one.
    """

    error: str = ""
    binary: bytes = b""
    times_ns: tuple[float | None, ...] = ()
