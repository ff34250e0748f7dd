"""The constants of a step in the memory of a device, which executables of several lengths share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurald.drivers.opencl.runtime.instance import allocate
from neurald.drivers.opencl.runtime.staging import upload
from neurald.hal.accounting.account import reserve

if TYPE_CHECKING:
    import numpy as np

    from neurald.drivers.opencl.platform.discovery import DeviceContext


class DeviceConstants:
    """The constants of one step, which are copied to the memory of its device.

    Args:
        device: the device.
        contents: the constants.
        keeps_contents: whether they are also kept in the memory of the host, for an artifact.

    Attributes:
        buffer: the buffer that holds them.
        contents: the constants, if they are kept.

    Raises:
        OutOfMemory: the device lacks memory for them.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: the memory exceeds the limits of
            its account.
        Error: the device failed.
    """

    def __init__(self, device: DeviceContext, contents: np.ndarray, *, keeps_contents: bool) -> None:
        self.contents = contents if keeps_contents else None
        copies = 2 if keeps_contents else 1
        self._reservation = reserve(copies * contents.nbytes, "constants of a compiled step")
        self.buffer = allocate(device, contents.nbytes)
        upload(device, device.queue(), self.buffer, contents)
