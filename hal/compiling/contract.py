"""The interface of devices whose models can be compiled in another process.

Compilers are written in Python, so a daemon that compiles in its own process blocks its other
clients by the interpreter's lock. They also accept models from any client, and may need any time
and memory for them. So a daemon compiles for a device that implements `CompilesApart` in separate
processes, see `neurald.hal.compiling.pool`. Other devices compile in the daemon's process.
"""

from typing import Protocol

from neurald.hal.device import Artifact, CompileResult, Device, InputShapes, PrepareOptions
from neurald.hal.model.model import Model


class CompilesApart(Protocol):
    """An optional interface of a device whose compiled models another process can load.

    The compiling process has a device of its own, created by the same factory
    (`neurald.hal.registry`). Its result is used by `Device.prepare_model` of the daemon's device,
    which finds a `Compiler` in its options.
    """

    def get_ready_to_compile(self, *, lasts: bool) -> None:
        """Initialises what all compilations share: imports the compiler, for example.

        It must not start threads.

        Args:
            lasts: True if the process will compile many models; False if the first one is waiting,
                and there may be no other.
        """
        ...

    def compile(
        self, model: Model, shapes: InputShapes | None, options: PrepareOptions, *, is_open: bool = False
    ) -> CompileResult:
        """Compiles a valid model. The device supports each of its operations.

        Args:
            model: the model to compile.
            shapes: the shapes of inputs that the model leaves open, by operand; None if it leaves
                none open.
            options: as for `Device.prepare_model`, without a deadline, which the daemon watches.
            is_open: True to compile it for any lengths of its open dimensions; `shapes` are then
                only an example.

        Raises:
            BadData: the shapes do not fit the model.
            MemoryError, OutOfMemory: compiling exceeds the limit of memory.
            Error: any other failure.
        """
        ...


class CompilesCommonCode(Protocol):
    """An optional interface of a device that implements `CompilesApart`, for code of all models."""

    def compile_common(self) -> Artifact:
        """Compiles what the device needs for every model, such as the kernels of a first tier.

        Raises:
            Error: it cannot be compiled.
        """
        ...


class PreparesForShapes(Protocol):
    """An optional interface of a prepared model whose inputs have open dimensions."""

    def prepare_for(self, shapes: InputShapes) -> None:
        """Compiles the model for shapes of its inputs, by operand, and caches the result.

        Raises:
            Error: it cannot be compiled for them.
        """
        ...


class SparesImports(Protocol):
    """An optional interface of a device that implements `CompilesApart`.

    Attributes:
        spares_imports: True if compiling needs nothing of what
            `neurald.hal.compiling.spared_imports` leaves out.
    """

    spares_imports: bool


def spares_imports(device: Device) -> bool:
    """Returns whether a device implements `SparesImports`, and says so."""
    return getattr(device, "spares_imports", False) is True


def compiles_apart(device: Device) -> bool:
    """Returns whether a device implements `CompilesApart`."""
    return hasattr(device, "get_ready_to_compile") and hasattr(device, "compile")
