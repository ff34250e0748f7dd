"""A plan that was made before, with the artifacts of its steps, for example in a plan file."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from neurald.hal.cache.key import KeyParts
from neurald.hal.device import Artifact, Device
from neurald.hal.digests import digest_of
from neurald.hal.errors import Error
from neurald.hal.model.model import Model
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.group_order import check_groups
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.partitioning.live_part import placement_of_dead
from neurald.runtime.partitioning.partitioner import PartitionResult
from neurald.runtime.partitioning.placement import Candidate, Placement

#: The token of the keys of its artifacts.
PLAN_TOKEN: Final = digest_of(b"neurald plan")


class ProvidedStep(Struct, frozen=True, kw_only=True):
    """A step that was compiled before.

    Attributes:
        parts: the parts of the key of its artifact.
        compile_ms: how long compiling it took.
        artifact: the artifact that was compiled.
    """

    parts: KeyParts
    compile_ms: float
    artifact: Artifact


class ProvidedPlan:
    """A plan with artifacts.

    Args:
        devices: the versions of the devices of the steps, by name.
        groups: name of the device and operations of each step of the main graph, in order; empty if
            devices are to be chosen again.
        steps: what was compiled.
    """

    def __init__(
        self,
        devices: Mapping[str, str],
        groups: Sequence[tuple[str, tuple[int, ...]]],
        steps: Sequence[ProvidedStep],
    ) -> None:
        self._devices = dict(devices)
        self._groups = tuple(groups)
        self._steps = {each.parts.key(): each for each in steps}

    def partition(
        self, model: Model, devices: Sequence[Device], candidates: Sequence[Candidate]
    ) -> PartitionResult | str:
        """Returns the partitioning of the plan, or the reason why it does not apply.

        Args:
            model: a valid model.
            devices: those that may be used.
            candidates: the candidates of the devices, in their order.
        """
        if not self._groups:
            return "it has no placement of operations, since control flow is interpreted"
        numbers = {device.name: number for number, device in enumerate(devices)}
        for name, version in self._devices.items():
            if name not in numbers:
                return f"there is no device {name}"
            try:
                with convert_driver_faults(name):
                    found = devices[numbers[name]].version
            except Error as error:
                return str(error)
            if found != version:
                return f"{name} has version {found}; it was made for {version}"
        missing = [name for name, _ in self._groups if name not in numbers]
        if missing:
            return f"there is no device {missing[0]}"
        groups = tuple(
            StepGroup(graph=MAIN, device=numbers[name], operations=operations)
            for name, operations in self._groups
        )
        try:
            check_groups(model, groups)
        except Error as error:
            return str(error)
        for group in groups:
            for position in group.operations:
                reason = candidates[group.device].unsupported_reason((MAIN, position))
                if reason:
                    return f"{candidates[group.device].name} cannot run operation {position}: {reason}"
        placed = {position: group.device for group in groups for position in group.operations}
        placements = [
            _placement(placed.get(position), len(candidates))
            for position in range(len(model.main.operations))
        ]
        return PartitionResult(groups=groups, placements={MAIN: tuple(placements)})

    def constants(self, graphs: str) -> str | None:
        """Returns the digest of the constants of a step with these graphs, or None.

        Args:
            graphs: `KeyParts.graphs`.
        """
        found = {each.parts.constants for each in self._steps.values() if each.parts.graphs == graphs}
        return found.pop() if len(found) == 1 else None

    def step(self, parts: KeyParts) -> ProvidedStep | str:
        """Returns what was compiled under a key, or the reason why there is nothing."""
        found = self._steps.get(parts.key())
        if found is not None:
            return found
        earlier = [each.parts for each in self._steps.values() if each.parts.graphs == parts.graphs]
        if not earlier:
            return "the plan file has no such step"
        near = min(earlier, key=lambda each: len(parts.changes_since(each)))
        return f"not as in the plan file: {', '.join(parts.changes_since(near))}"


def _placement(device: int | None, count: int) -> Placement:
    """Returns the placement of an operation, which no step runs if the device is None."""
    if device is None:
        return placement_of_dead(count)
    rejected = {n: "not in the plan file" for n in range(count) if n != device}
    return Placement(device=device, reason="in the plan file", rejected=rejected)
