"""Shared by those lanes of one model that native code serves; see `native_lane`."""

from typing import Final

from neurald.hal.admission.executions.native_gate import NativeGate
from neurald.hal.crashes.breadcrumbs import Breadcrumbs
from neurald.hal.device import executions_at_once
from neurald.runtime.devices.local import cpu_device

_LANES: Final = "lanes"


class NativeLanes:
    """Lets lanes run as many executions at once as are efficient, in turn."""

    def __init__(self) -> None:
        self.gate = NativeGate(executions_at_once(cpu_device()), {})
        self.share = self.gate.share_of(_LANES)
        # Nobody reads them: the front end knows what a worker ran that died.
        self.breadcrumbs = Breadcrumbs.private()
