"""Steps that run as separate kernels until the program of their persistent kernel is built.

Separate kernels are built in several processes at the same time. A persistent kernel is one
program, which takes a compiler several times as long. If it is known to be faster, a process builds
it while the model is in use already.
"""

import logging
import threading
import weakref
from queue import SimpleQueue

from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.opencl.runtime.executable import Improvement
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.tuning.build_helper import HelperBuild
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses
from neurald.hal.errors import Error
from neurald.hal.process.threads.checked_thread import CheckedThread

_LOG = logging.getLogger(__name__)


class ImprovementBuild:
    """Implements `PendingImprovement` by a process that builds the program.

    Args:
        device: the device to build for.
        improvement: what is built.

    Attributes:
        improvement: as given.
    """

    def __init__(self, device: DeviceContext, improvement: Improvement) -> None:
        self.improvement = improvement
        self._device = device
        self._build: HelperBuild | None = None
        self._is_closed = False
        self._is_done = threading.Event()
        #: Gets the model; None if there will be none.
        self._models: SimpleQueue[weakref.ref[OpenClPreparedModel] | None] = SimpleQueue()
        # The kernel ends the process with the thread that started it, and the thread that prepares
        # the model may end soon.
        CheckedThread(target=self._run, name="neurald opencl improvement", daemon=True).start()

    def improve(self, model: OpenClPreparedModel) -> None:
        """Lets a model run the improved step once its program is built, unless freed before."""
        self._models.put(weakref.ref(model, lambda _: self.close()))

    def wait(self, timeout_s: float | None = None) -> bool:
        """See `PendingImprovement.wait`."""
        return self._is_done.wait(timeout_s)

    def close(self) -> None:
        """See `PendingImprovement.close`."""
        self._is_closed = True
        self._models.put(None)
        if self._build is not None:
            self._build.close()

    def _run(self) -> None:
        try:
            program = self._program()
            reference = self._models.get()
            model = None if reference is None else reference()
            if model is not None:
                model.improve(self.improvement.executable, program)
        except Error as error:
            _LOG.info("a step stays separate kernels: %s", error)
        finally:
            self._is_done.set()

    def _program(self) -> BuiltProgram:
        process = HelperProcesses(self._device.facts).take()
        if process is None:
            return BuiltProgram.from_source(self._device, self.improvement.text)
        self._build = HelperBuild(self._device, self.improvement.text, process)
        if self._is_closed:
            self._build.close()
        return self._build.program()
