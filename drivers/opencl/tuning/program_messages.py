"""Requests to helper processes that build programs, and their answers."""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    # A process that only builds need not import what it takes to measure.
    from neurald.drivers.opencl.tuning.trials import Trials


class Build(msgspec.Struct, frozen=True, array_like=True, tag="build"):
    """Request to build a program, whose kernels later requests measure.

    Attributes:
        text: the text of the program.
        wants_binary: whether the answer must contain its binary.
    """

    text: str
    wants_binary: bool = False


class Measure(msgspec.Struct, frozen=True, array_like=True, tag="measure"):
    """Request to measure kernels of the program that was built last.

    Attributes:
        trials: the encoded `Trials`.
    """

    trials: msgspec.Raw

    @staticmethod
    def of(trials: "Trials") -> "Measure":
        """Returns the request for these trials."""
        return Measure(trials=msgspec.Raw(msgspec.msgpack.encode(trials)))


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """Answer to a request.

    Attributes:
        error: the reason why the program does not build; "" if it does.
        binary: the value of `BuiltProgram.binary`, if it was requested.
        times_ns: the time of each kernel; None if it cannot run. If there are fewer than kernels,
            the next kernel lost the device.
    """

    error: str = ""
    binary: bytes = b""
    times_ns: tuple[float | None, ...] = ()
