"""A device that fails on demand: as the file ILLNESS says, and one execution later.

"deadlock" blocks the interpreter, "endless" one execution, and "lost" loses the device.
"""

import ctypes
import os
import time
from pathlib import Path

from support.models.addition import AddingDevice

from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import DeadObject
from neurald.hal.model.request import Request

ILLNESS_VARIABLE = "ILLNESS"


class Unwell(AddingDevice):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.is_lost = False
        self.on_execute = self._fall_ill

    def _fall_ill(self, request: Request, options: ExecuteOptions) -> None:
        file = Path(os.environ[ILLNESS_VARIABLE])
        illness = file.read_text()
        file.write_text("")
        if illness == "deadlock":
            # PyDLL keeps the interpreter's lock, and so nothing else in this process runs.
            ctypes.PyDLL(None).sleep(600)
        if illness == "endless":
            time.sleep(600)
        if illness == "lost":
            self.is_lost = True
        if self.is_lost:
            raise DeadObject("the device is lost")


def create() -> Unwell:
    """Creates a device."""
    return Unwell()
