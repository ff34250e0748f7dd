"""The devices that run a compiled model, as its options choose them."""

from collections.abc import Iterable
from typing import Final

from neurald.hal.device import Device
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.model.types import DeviceType
from neurald.runtime.compilation import Compilation
from neurald.runtime.devices.discovery import devices
from neurald.runtime.devices.local import open_device
from neurald.runtime.litert.compiled_model.messages import coded
from neurald.runtime.litert.compiled_model.option_numbers import UNSET
from neurald.runtime.litert.compiled_model.options import CpuKernelMode, HardwareAccelerator
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.status import StepStatus, StepTier

_ALL_KINDS: Final = HardwareAccelerator.CPU | HardwareAccelerator.GPU | HardwareAccelerator.NPU
_TYPES: Final = {
    HardwareAccelerator.GPU: DeviceType.GPU,
    HardwareAccelerator.NPU: DeviceType.ACCELERATOR,
}


class Accelerators:
    """The kinds of devices that were asked for, and the kind of kernels for the CPU.

    Args:
        kinds: the number of a `HardwareAccelerator`.
        kernel_mode: the number of a `CpuKernelMode`, or UNSET.

    Raises:
        RuntimeError: there are no such kinds, or there is no such mode.
    """

    def __init__(self, kinds: int, kernel_mode: int) -> None:
        self._kinds = _kinds(kinds)
        self._mode = _kernel_mode(kernel_mode)

    @property
    def start_at_once(self) -> bool:
        """True if models start before their optimised code exists: on the CPU, with its kernels."""
        return self._kinds == HardwareAccelerator.CPU and self._mode is not CpuKernelMode.REFERENCE

    def devices(self) -> list[Device]:
        """Returns the devices of these kinds.

        Raises:
            RuntimeError: there is none.
        """
        found = [
            device
            for flag, kind in _TYPES.items()
            if self._kinds & flag
            for device in devices()
            if device.type is kind
        ]
        if self._kinds & HardwareAccelerator.CPU:
            found.append(open_device("reference" if self._mode is CpuKernelMode.REFERENCE else "cpu"))
        if not found:
            names = " | ".join(flag.name or "" for flag in self._kinds)
            raise RuntimeError(
                coded(
                    6,
                    f"no device of the kinds {names} is there; add HardwareAccelerator.CPU to run without one",
                )
            )
        return found

    def run_all_of(self, compilations: Iterable[Compilation]) -> bool:
        """Returns True if the accelerators run all operations of some compilations.

        If other devices than the CPU were asked for, the CPU does not count as one of them. If none
        were, kernels of the mode DELEGATE have to run all operations.
        """
        others = {kind for flag, kind in _TYPES.items() if self._kinds & flag}
        if not others and self._mode is not CpuKernelMode.DELEGATE:
            return False
        steps = (
            pair
            for compilation in compilations
            for pair in zip(compilation.plan.steps, compilation.status.steps, strict=True)
        )
        if others:
            return all(step.device.type in others for step, _ in steps)
        return all(_is_compiled(step, status) for step, status in steps)


def _kinds(number: int) -> HardwareAccelerator:
    found = HardwareAccelerator(number)
    if number < 1 or found not in _ALL_KINDS:
        raise RuntimeError(
            f"No acceleration provided.\n└ hardware_accel is {number}; a combination of "
            "HardwareAccelerator.CPU, GPU and NPU is expected"
        )
    return found


def _kernel_mode(number: int) -> CpuKernelMode:
    try:
        return CpuKernelMode.DELEGATE if number == UNSET else CpuKernelMode(number)
    except ValueError as error:
        modes = ", ".join(f"{mode.value} ({mode.name})" for mode in CpuKernelMode)
        raise RuntimeError(
            coded(1, f"CpuOptions.kernel_mode is {number}; one of {modes} is expected")
        ) from error


def _is_compiled(step: ExecutionStep, status: StepStatus) -> bool:
    """Returns True if kernels that were compiled for a step run all of it, or soon will."""
    if status.tier is StepTier.FIRST:
        return status.is_pending
    return not isinstance(step.prepared_model, ReferenceModel)
