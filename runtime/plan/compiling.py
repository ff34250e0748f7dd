"""Makes a device compile a model."""

import logging
import time

from neurald.hal.compiling.contract import compiles_apart
from neurald.hal.device import Device, PreparedModel, PrepareOptions
from neurald.hal.model.model import Model
from neurald.hal.process.fork import forkable_lock
from neurald.hal.process.interpreter import interpreter
from neurald.hal.records import replace
from neurald.runtime.devices.driver_faults import checked_executable, convert_driver_faults
from neurald.runtime.devices.local import cpu_device

logger = logging.getLogger(__name__)


def compiled(device: Device, model: Model, options: PrepareOptions, *, is_background: bool) -> PreparedModel:
    """Makes a device compile a model, in a process of its own if that is possible.

    Args:
        device, model, options: see `Device.prepare_model`.
        is_background: whether no caller waits for the result.
    """
    if compiles_in_process_of_its_own(device):
        from neurald.hal.compiling.separate_compiler import SeparateCompiler  # Not needed for a warm start.

        compiler = SeparateCompiler(device.name, device, model, options.shared, is_awaited=not is_background)
        options = replace(options, compiler=compiler)
    with convert_driver_faults(device.name):
        return checked_model(device.prepare_model(model, options), device)


def compiles_in_process_of_its_own(device: Device) -> bool:
    """Returns True if models of a device are compiled in another process."""
    # Without an interpreter, as in an application that embeds one, no process can start.
    return device is cpu_device() and compiles_apart(device) and bool(interpreter())


def checked_model(answer: PreparedModel, device: Device) -> PreparedModel:
    """Returns a device's answer to a preparation; raises an error if it is not a prepared model."""
    return checked_executable(answer, "PreparedModel", device.name, "preparing")


def has_known_inputs(model: Model) -> bool:
    """Returns True if the shapes of all inputs are known before an execution."""
    return all(operand.is_fully_specified for operand in model.outline.input_operands)


def milliseconds_since(started: float) -> float:
    """Returns the time since `started`, which is on the clock of `time.perf_counter()`."""
    return (time.perf_counter() - started) * 1000


_warned: set[str] = set()
_warned_lock = forkable_lock()


def warn_once(message: str) -> None:
    """Logs a warning once per process."""
    with _warned_lock:
        if message in _warned:
            return
        _warned.add(message)
    logger.warning("%s", message)
