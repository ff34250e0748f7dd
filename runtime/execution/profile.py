"""Collects kernel times from devices and maps them to the operations of the whole model."""

import logging
from collections.abc import Iterable

from msgspec import Struct

from neurald.hal.device import KernelTime
from neurald.hal.errors import DRIVER_FAULTS, Error, OpFailed
from neurald.hal.records import replace
from neurald.hal.wording import described
from neurald.runtime.costs.refinement import refine_kernels
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.plan.plan import ExecutionStep

logger = logging.getLogger(__name__)


class StepProfile(Struct, frozen=True, kw_only=True):
    """The kernel times of one step.

    Attributes:
        step: position of the step in the plan.
        device: name of the device that currently runs the step: the CPU device if it took over.
        graph: number of the graph that contains the operations: 0 for the main graph, otherwise a
            branch.
        operations: positions of the step's operations in that graph, in the application's order.
        kernels: and copies, in execution order; their operations are positions in that graph, too.
        reason: why there are no kernels; empty if there are kernels.
    """

    step: int
    device: str
    graph: int
    operations: tuple[int, ...]
    kernels: tuple[KernelTime, ...]
    reason: str = ""

    @property
    def duration_ns(self) -> int:
        """Total duration of all kernels and copies."""
        return sum(kernel.duration_ns for kernel in self.kernels)

    @property
    def on_references(self) -> tuple[int, ...]:
        """The operations that their NumPy references compute, because they have no kernel."""
        found = {n for kernel in self.kernels if kernel.is_reference for n in kernel.operations}
        return tuple(sorted(found))


def profile(steps: Iterable[ExecutionStep], recovery: Recovery) -> tuple[StepProfile, ...]:
    """Profiles each step on its device. A step that fails has no kernels and gives the reason.

    Args:
        steps: steps of a plan, in order.
        recovery: the steps' recovery, which knows the device that runs each step now.
    """
    return tuple(_step_profile(number, step, recovery) for number, step in enumerate(steps))


def _step_profile(number: int, step: ExecutionStep, recovery: Recovery) -> StepProfile:
    device, reason = step.device.name, ""
    kernels: tuple[KernelTime, ...] = ()
    try:
        device, reported = recovery.step(step).profile()
        kernels = tuple(_in_graph(step, kernel) for kernel in reported)
        if device == step.device.name:
            refine_kernels(step.device, step.model, reported)
        reason = "" if kernels else f"{device} does not report kernel times"
    except Error as error:
        reason = str(error)
    except DRIVER_FAULTS as error:
        logger.exception("the driver of %s failed while profiling", step.device.name)
        reason = f"{step.device.name}: {described(error)}"
    return StepProfile(
        step=number,
        device=device,
        graph=step.graph,
        operations=step.operations,
        kernels=kernels,
        reason=reason,
    )


def _in_graph(step: ExecutionStep, kernel: KernelTime) -> KernelTime:
    """Maps the kernel's operations to positions in the graph of the whole model."""
    outside = [position for position in kernel.operations if not 0 <= position < len(step.operations)]
    if outside:
        raise OpFailed(
            f"{step.device.name}: kernel {kernel.name!r} reports operation {outside[0]}; "
            f"the step has only {len(step.operations)} operations"
        )
    return replace(kernel, operations=tuple(step.operations[position] for position in kernel.operations))
