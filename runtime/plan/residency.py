"""Finds values between steps that can stay in the memory of the device that computes them.

A value that steps of one device write and read need not be transferred to the host in between. It
is stored in a buffer of that device (`Device.allocate`), and copied to the host only if a step on
another device reads it.
"""

from collections.abc import Sequence

from msgspec import Struct

from neurald.hal.device import BufferDescription, BufferRole, Device
from neurald.hal.errors import Error
from neurald.hal.memory.pool import Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.types import OperandType
from neurald.runtime.devices.driver_faults import checked, convert_driver_faults, is_cpu
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.plan.plan import ExecutionStep, IfStep, PlanStep, PlanValue, StepRole, WhileStep


class Residence(Struct, frozen=True, kw_only=True):
    """A value that may stay on a device.

    Attributes:
        device: device that writes the value and reads it in a later step.
        writers, readers: the steps of that device that write and read the value, each with the
            index of its output or input.
    """

    device: Device
    writers: tuple[StepRole, ...]
    readers: tuple[StepRole, ...]

    def allocate(self) -> DeviceBuffer | None:
        """Allocates a buffer for the value; None if the device offers no memory of its own."""
        description = BufferDescription(
            dimensions=None,
            input_roles=tuple(_role(*reader) for reader in self.readers),
            output_roles=tuple(_role(*writer) for writer in self.writers),
        )
        try:
            with convert_driver_faults(self.device.name):
                memory = checked(self.device.allocate(description), Memory, self.device.name, "allocate()")
        except Error:
            return None
        return memory if isinstance(memory, DeviceBuffer) else None


def _role(step: ExecutionStep, index: int) -> BufferRole:
    return BufferRole(prepared_model=step.prepared_model, index=index, probability=1.0)


def residences(program: Sequence[PlanStep], values: Sequence[PlanValue]) -> dict[int, Residence]:
    """Finds the values that may stay on a device.

    Values of unknown size, strings, values that loops exchange and conditions stay on the host.

    Args:
        program: the program of a plan.
        values: the values of the plan.

    Returns:
        The residences by the number of the value.
    """
    writers: dict[int, list[StepRole]] = {}
    readers: dict[int, list[StepRole]] = {}
    on_host: set[int] = set()
    for step in program:
        if isinstance(step, ExecutionStep):
            for position, number in enumerate(step.writes):
                writers.setdefault(number, []).append((step, position))
            for position, number in enumerate(step.reads):
                readers.setdefault(number, []).append((step, position))
        elif isinstance(step, IfStep):
            on_host.add(step.condition)
        elif isinstance(step, WhileStep):
            on_host.update(
                (step.condition, *step.initial, *step.carried, *step.results, *step.spares, *step.outputs)
            )
    found: dict[int, Residence] = {}
    for number, value in enumerate(values):
        size = value.size_bytes
        if number in on_host or not value.is_temporary or not size or value.type is OperandType.TENSOR_STRING:
            continue
        written = writers.get(number, [])
        devices = {id(step.device): step.device for step, _ in written}
        if len(devices) != 1:
            continue
        (device,) = devices.values()
        read = tuple(role for role in readers.get(number, ()) if role[0].device is device)
        if read and _has_memory(device):
            found[number] = Residence(device=device, writers=tuple(written), readers=read)
    return found


def _has_memory(device: Device) -> bool:
    """Returns True if a device may have memory of its own.

    The CPU device of this process computes in host memory, CPU devices of daemons in shared memory.
    """
    return device is not cpu_device() and not (device.is_remote and is_cpu(device))
