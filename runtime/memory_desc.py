"""MemoryDesc: declares how a memory will be used, so that a device can allocate it."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

from msgspec import Struct

from neurald.hal.api_arguments import dimensions as check_dimensions
from neurald.hal.api_arguments import integer, number
from neurald.hal.buffers.coherent_memory import HOST, CoherentMemory
from neurald.hal.buffers.tracked_buffer import Role, described_operand
from neurald.hal.device import BufferDescription, BufferRole, Device
from neurald.hal.errors import BadData, BadState, Error, OpFailed
from neurald.hal.memory.pool import Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import DeviceType, Dimensions, value_size
from neurald.hal.unpicklable import Unpicklable
from neurald.hal.validation.request_rules import merge_dimensions
from neurald.hal.wording import counted
from neurald.runtime.compilation import Compilation
from neurald.runtime.devices.driver_faults import checked, convert_driver_faults
from neurald.runtime.execution.binding.device_memory import DeviceMemory
from neurald.runtime.execution.compiled_model import require_compiled
from neurald.runtime.plan.plan import CompoundBody, ExecutionPlan, IfStep, StepRole, WhileStep

_LOGGER = logging.getLogger(__name__)


class _DeclaredRole(Struct, frozen=True):
    """The compilation and the operand of a role, and the likelihood of its use."""

    compilation: Compilation
    operand: Operand
    probability: float

    def buffer_role(self, step_role: StepRole) -> BufferRole:
        """Returns the role in terms of the step's device, whose prepared model it waits for.

        The step may have been prepared again since it was planned.
        """
        step, index = step_role
        self.compilation.wait_until_optimized()
        prepared_model = self.compilation.recovery.step(step).usable() or step.prepared_model
        return BufferRole(prepared_model=prepared_model, index=index, probability=self.probability)


class MemoryDesc(Unpicklable):
    """Describes a memory by its roles: the inputs and outputs of compilations that will use it.

    Not thread-safe. Methods return the description itself, so that calls can be chained:
    `MemoryDesc().add_output_role(first, 0).add_input_role(second, 1).finish().allocate()`.
    """

    instead_of_pickling = "Describe the memory where it is used"

    def __init__(self) -> None:
        self._roles: dict[Role, _DeclaredRole] = {}
        self._dimensions: Dimensions = None
        self._operand: Operand | None = None

    def __repr__(self) -> str:
        return f"<MemoryDesc of {counted(len(self._roles), 'role')}>"

    def add_input_role(self, compilation: Compilation, index: int, probability: float = 1.0) -> Self:
        """Declares that executions of a compilation will use the memory as an input.

        Args:
            compilation: a finished compilation.
            index: the index of the input.
            probability: likelihood of that use, in (0, 1].

        Raises:
            UnexpectedNull: `compilation` is None.
            BadState: the compilation is not finished, or the description is already finished.
            BadData: there is no such input, the role was already added, the input differs from the
                other roles in type, quantisation or dimensions, or the probability is not in
                (0, 1].
        """
        return self._add(compilation, index, probability, is_output=False)

    def add_output_role(self, compilation: Compilation, index: int, probability: float = 1.0) -> Self:
        """Declares that executions of a compilation will use the memory as an output.

        See `add_input_role`.

        Args:
            compilation, index, probability: as for `add_input_role`.
        """
        return self._add(compilation, index, probability, is_output=True)

    def _add(self, compilation: Compilation, index: int, probability: float, *, is_output: bool) -> Self:
        self._require_open()
        require_compiled(compilation)
        index, probability = integer(index, "the index"), number(probability, "the probability")
        role = Role(owner=compilation, index=index, is_output=is_output)
        model = compilation.model
        indexes = model.outputs if is_output else model.inputs
        if not 0 <= index < len(indexes):
            raise BadData(f"there is no {role}; the model has {len(indexes)}")
        if not 0 < probability <= 1:
            raise BadData(f"{role}: probability {probability}; it must be greater than 0 and at most 1")
        if role in self._roles:
            raise BadData(f"{role} is already a role of the memory")
        declared = _DeclaredRole(compilation, model.main.operands[indexes[index]], probability)
        described_operand(_uses({**self._roles, role: declared}), self._dimensions)
        self._roles[role] = declared
        compilation.keep_plan("device memory belongs to the plan")
        return self

    def set_dimensions(self, dimensions: Dimensions) -> Self:
        """Sets the dimensions of the memory's values that the roles leave open.

        Args:
            dimensions: the shape, with 0 for a dimension that stays open; empty or None if the rank
                stays open.

        Raises:
            BadState: the description is finished.
            BadData: the shape contradicts that of a role or of an earlier call, or the memory is
                for a scalar.
        """
        self._require_open()
        merged = merge_dimensions(
            self._dimensions, check_dimensions(dimensions, "the shape of the memory") or None, "the memory"
        )
        if self._roles:
            described_operand(_uses(self._roles), merged)
        self._dimensions = merged
        return self

    def finish(self) -> Self:
        """Completes the description. Any number of memories can then be allocated.

        Raises:
            BadState: the description is already finished.
            BadData: the description has no role.
        """
        self._require_open()
        if not self._roles:
            raise BadData("the memory has no role; call add_input_role or add_output_role before finish")
        self._operand = described_operand(_uses(self._roles), self._dimensions)
        return self

    def allocate(self) -> DeviceMemory:
        """Allocates memory on the device that runs all roles, or on each of several devices.

        Roles on several devices: each device with memory of its own has a place there, and the
        others share one on the host. The value is copied to a place when an execution reads it
        there and it was written elsewhere; `DeviceMemory.copies` counts that. Devices that map host
        memory, such as the CPU device and daemons of it on this host, share one memory, and nothing
        is copied.

        If no device allocates memory, the host is used if the application did not choose the
        devices and the size is known.

        Raises:
            BadState: the description is not finished.
            OpFailed: no device can allocate the memory, and the host may not be used.
            OutOfMemory: the host does not have enough memory.
        """
        operand = self._operand
        if operand is None:
            raise BadState("the memory's description is not finished; call finish before allocate")
        memory = self._device_memory(operand)
        if memory is None:
            if any(declared.compilation.has_explicit_devices for declared in self._roles.values()):
                raise OpFailed(
                    "no device can allocate the memory, and host memory may not be used instead, because a "
                    "compilation has an explicit list of devices"
                )
            memory = _host_memory(operand)
        return DeviceMemory(memory, operand, frozenset(self._roles), self._renewed)

    def _renewed(self) -> Memory:
        """Allocates a replacement for lost memory.

        The host may be used even if the application chose the devices.
        """
        assert self._operand is not None  # noqa: S101 - something was allocated
        return self._device_memory(self._operand) or _host_memory(self._operand)

    def _device_memory(self, operand: Operand) -> Memory | None:
        """Allocates memory on the device that runs all roles; None if that is not possible."""
        uses: dict[int, _DeviceUse] = {}
        for role, declared in self._roles.items():
            plan = declared.compilation.plan
            if _is_interpreted(plan, role.index, is_output=role.is_output):
                _LOGGER.info(
                    "memory is allocated on the host, since a branch or loop of the plan uses %s", role
                )
                return None
            written = plan.roles_of_output(role.index) if role.is_output else ()
            read = (
                plan.reading_roles_of_output(role.index)
                if role.is_output
                else plan.roles_of_input(role.index)
            )
            for roles, is_written in ((read, False), (written, True)):
                for step_role in roles:
                    device = step_role[0].device
                    use = uses.setdefault(id(device), _DeviceUse(device))
                    use.roles.append((declared, step_role, is_written))
        if len(uses) == 1:
            (use,) = uses.values()
            return use.allocate(operand)
        return _on_several(list(uses.values()), operand)

    def _require_open(self) -> None:
        if self._operand is not None:
            raise BadState(
                "the memory's description is finished and cannot change; describe another with a new MemoryDesc"
            )


class _DeviceUse:
    """A device that uses a memory.

    Attributes:
        device: the device that uses it.
        roles: in which it uses it: with the step and the argument, and whether it writes it.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.roles: list[tuple[_DeclaredRole, StepRole, bool]] = []

    def allocate(self, operand: Operand) -> Memory | None:
        """Allocates memory of the device; None if it refuses."""
        try:
            return self.allocate_again(operand)
        except Error as error:
            _LOGGER.info("%s cannot allocate memory: %s", self.device.name, error)
            return None

    def allocate_again(self, operand: Operand) -> Memory:
        """Allocates memory of the device, for its prepared models of now.

        Raises:
            Error: it refuses, or is gone.
        """
        inputs, outputs = (
            dict.fromkeys(
                declared.buffer_role(step_role)
                for declared, step_role, is_written in self.roles
                if is_written is wanted
            )
            for wanted in (False, True)
        )
        description = BufferDescription(
            dimensions=operand.dimensions, input_roles=tuple(inputs), output_roles=tuple(outputs)
        )
        name = self.device.name
        with convert_driver_faults(name):
            return checked(self.device.allocate(description), Memory, name, "allocate()")

    @property
    def maps_host(self) -> bool:
        """True if the device is known to compute in memory of this host that it maps."""
        is_here = not self.device.is_remote or getattr(self.device, "address", "").startswith("unix:")
        return is_here and self.device.type is DeviceType.CPU


def _on_several(uses: Sequence[_DeviceUse], operand: Operand) -> Memory | None:
    """Allocates a memory for several devices; None if none of them has memory.

    Devices that compute in host memory share a place there.
    """
    size = value_size(operand.type, operand.dimensions)
    found = {id(use.device): None if use.maps_host else use.allocate(operand) for use in uses}
    own = {key: memory for key, memory in found.items() if isinstance(memory, DeviceBuffer)}
    others = [use for use in uses if id(use.device) not in own]
    has_host = any(use.maps_host or found[id(use.device)] is not None for use in others)
    if others and size is None:
        _LOGGER.info("memory is allocated on the host, since its size is not known to %d devices", len(uses))
        return None
    if not own:
        return _host_memory(operand) if has_host else None

    def place(use: _DeviceUse, first: list[DeviceBuffer]) -> Memory:
        return first.pop() if first else use.allocate_again(operand)

    places: dict[int, Callable[[], Memory]] = {
        id(use.device): partial(place, use, [own[id(use.device)]]) for use in uses if id(use.device) in own
    }
    if others:
        places[HOST] = partial(_host_memory, operand)
    return CoherentMemory(places, size or 0)


def _uses(roles: dict[Role, _DeclaredRole]) -> list[tuple[str, Operand]]:
    return [(str(role), declared.operand) for role, declared in roles.items()]


def _is_interpreted(plan: ExecutionPlan, index: int, *, is_output: bool) -> bool:
    """Returns True if a branch or loop that the plan interprets uses a model input or output."""
    if not isinstance(plan.body, CompoundBody):
        return False
    used: set[int] = set()
    for step in plan.body.program:
        if isinstance(step, IfStep):
            used.add(step.condition)
        elif isinstance(step, WhileStep):
            used.update((step.condition, *step.initial, *step.outputs))
    values = (plan.body.values[number] for number in used)
    return any((value.client_output if is_output else value.client_input) == index for value in values)


def _host_memory(operand: Operand) -> Memory:
    size = value_size(operand.type, operand.dimensions)
    if size is None:
        raise OpFailed(
            "no device can allocate the memory, and host memory needs a known size: set all dimensions"
        )
    return Memory.allocate(size)
