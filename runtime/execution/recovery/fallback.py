"""Work of the CPU device in place of other devices: steps for now, and executions so far."""

from msgspec import Struct


class Fallback(Struct, frozen=True, kw_only=True):
    """A step that the CPU device currently runs because its own device failed.

    Attributes:
        step: position of the step in the plan.
        device: name of the device that the step was planned for.
        failures: number of consecutive failures.
        reason: message of the last failure.
        retry_in_s: seconds until the device is retried; infinity if it computed wrong values.
    """

    step: int
    device: str
    failures: int
    reason: str
    retry_in_s: float


class Substitution(Struct, frozen=True, kw_only=True):
    """Executions of a step that the CPU device ran although another device was chosen for it.

    Attributes:
        step: position of the step in the plan.
        device: name of the device that the step was planned for.
        executions: how many executions the CPU device has run since the compilation was made.
        reason: message of the device's last failure.
    """

    step: int
    device: str
    executions: int
    reason: str
