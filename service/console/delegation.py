"""States how much of a model runs on the devices other than the CPU."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from neurald.hal.errors import BadData
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.explain.records import NOT_RUN_NAME
from neurald.service.console.missing_devices import MissingDevices

if TYPE_CHECKING:
    from neurald.hal.device import Device
    from neurald.runtime.explain.explanation import Explanation
    from neurald.runtime.explain.records import OperationExplanation

#: How many reasons a message has.
_SHOWN: Final = 4

#: The name of the CPU device.
_CPU: Final = "cpu"


def delegation(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Describes where operations run.

    Args:
        steps: the steps from `describe_steps`.

    Returns:
        `kind`: `none` if all operations run on the CPU device, `full` if none does, else `partial`;
        `operations` by device, and the number of `steps`.
    """
    counts: Counter[str] = Counter()
    for step in steps:
        ran = _CPU if step["executions_on_cpu_instead"] else step["device"]
        counts[ran] += step["operations"]
    elsewhere = sum(count for device, count in counts.items() if device != _CPU)
    kind = "none" if not elsewhere else "partial" if counts[_CPU] else "full"
    return {"kind": kind, "operations": dict(counts), "steps": len(steps)}


def delegation_sentence(found: Mapping[str, Any]) -> str:
    """Returns the description as one sentence."""
    parts = ", ".join(
        f"{count} operation{'s' if count != 1 else ''} on {device}"
        for device, count in found["operations"].items()
    )
    steps = f"{found['steps']} step{'s' if found['steps'] != 1 else ''}"
    if found["kind"] == "none":
        return f"no delegation: {parts or 'no operations'}, in {steps}"
    return f"{found['kind']} delegation: {parts}, in {steps}"


def require_full_delegation(found: Mapping[str, Any]) -> None:
    """Raises BadData unless all operations run on devices other than the CPU."""
    if found["kind"] != "full":
        raise BadData(f"full delegation is required; found {delegation_sentence(found)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """The share of the operations that has to run on a device.

    Attributes:
        device: its name, with or without the address of its daemon.
        percent: the smallest share.
    """

    device: str
    percent: float

    def check(self, steps: Sequence[Mapping[str, Any]], explanation: "Explanation") -> None:
        """Raises an error if less ran there.

        Args:
            steps: the steps from `describe_steps`.
            explanation: says why operations are elsewhere.

        Raises:
            BadData: less did; the message says why.
        """
        counts = delegation(steps)["operations"]
        total = sum(counts.values())
        here = sum(count for device, count in counts.items() if self.is_for(device))
        share = 100.0 * here / total if total else 0.0
        if share >= self.percent:
            return
        reasons = dict.fromkeys(
            f"{step['device']} did not run its step: {step['failure']}"
            for step in steps
            if self.is_for(step["device"]) and step["executions_on_cpu_instead"]
        )
        elsewhere = [
            each
            for each in explanation.operations
            if each.device != NOT_RUN_NAME and not self.is_for(each.device)
        ]
        reasons |= dict.fromkeys(f"{each.label} is on {each.device}: {self._why(each)}" for each in elsewhere)
        shown = "; ".join(list(reasons)[:_SHOWN]) or "nothing ran"
        more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
        raise BadData(
            f"{self.percent:g} % of the operations must run on {self.device}; {here} of {total} did "
            f"({share:.3g} %): {shown}{more}"
        )

    def is_for(self, device: str) -> bool:
        """Returns whether it is about the device of this name."""
        return self.device in (device, device.partition("@")[0])

    def _why(self, operation: "OperationExplanation") -> str:
        found = [each.reason for each in operation.rejected if self.is_for(each.device)]
        return found[0] if found else f"{self.device} was not among the devices"


def require_devices(requirements: Sequence[Requirement], devices: Sequence["Device"]) -> None:
    """Raises an error if a requirement names a device that a run does not have.

    Args:
        requirements: the requirements from the command line.
        devices: the devices of the run; the CPU device belongs to every run, since it stands in for
            others.

    Raises:
        BadData: there is no such device; the message lists those that there are, and the drivers
            whose devices are missing.
    """
    names = dict.fromkeys([*(device.name for device in devices), cpu_device().name])
    unknown = [each.device for each in requirements if not any(map(each.is_for, names))]
    if not unknown:
        return
    missing = MissingDevices.found()
    reasons = [f"the driver at {address} is starting for the first time" for address in missing.starting]
    reasons += [f"no device at {address}: {reason}" for address, reason in missing.unavailable.items()]
    raise BadData(
        f"--require names {', '.join(map(repr, unknown))}, which this run does not have; the devices of the run "
        f"are {', '.join(names)}{''.join(f'; {reason}' for reason in reasons)}"
    )


def parse_requirements(texts: Sequence[str]) -> tuple[Requirement, ...]:
    """Reads requirements such as `opencl` or `opencl=80`.

    Raises:
        BadData: one has another form.
    """
    found = []
    for text in texts:
        device, _, share = text.rpartition("=") if "=" in text else (text, "", "100")
        try:
            percent = float(share.removesuffix("%"))
        except ValueError:
            percent = -1.0
        if not device or not 0 <= percent <= 100:
            raise BadData(
                f"the requirement is {text!r}; DEVICE or DEVICE=PERCENT with 0 to 100 is expected, such as "
                "opencl=80"
            )
        found.append(Requirement(device=device, percent=percent))
    return tuple(found)
