"""Compiling in another process: what a driver offers, and what a daemon gives to it for that.

Compilers are Python, and a daemon that compiles in its own process holds up its other clients by the interpreter's lock. They also
take models from anybody, and may take any time and memory for them. So a daemon has a device that `CompilesApart` compile in
processes of their own, see `neurald.hal.compiling.pool`. Devices without it compile where they are.
"""

from typing import Protocol

from neurald.hal.device import Compiled, Device, InputShapes, PrepareOptions
from neurald.hal.model.types import Model


class CompilesApart(Protocol):
    """What a device can do beside, if what it compiles can be loaded by another process that has the same device.

    In the process that compiles there is a device of its own, made by the same factory (`neurald.hal.registry`). What it
    makes is taken by `Device.prepare_model` of the daemon's device, which finds a `Compiler` in its options.
    """

    def get_ready_to_compile(self) -> None:
        """Makes what all compilations share: imports the compiler, for example. Must not start threads."""
        ...

    def compile(self, model: Model, shapes: InputShapes | None, options: PrepareOptions) -> Compiled:
        """Compiles a valid model, every operation of which the device supports.

        Args:
            model: to compile.
            shapes: of inputs, by operand, where the model leaves them open; None: it leaves none open.
            options: as for `Device.prepare_model`; without a deadline, which the daemon watches.

        Raises:
            BadData: the shapes do not fit the model.
            MemoryError, OutOfMemory: it takes more memory than it may.
            Error: anything else that went wrong.
        """
        ...


def compiles_apart(device: Device) -> bool:
    """Whether a device is one that `CompilesApart`."""
    return hasattr(device, "get_ready_to_compile") and hasattr(device, "compile")
