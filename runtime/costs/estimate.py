"""Estimates the costs of operations, launches and transfers on a device from known measurements.

The better source counts, see `neurald.runtime.costs.table.CostSource`: what was measured of this
type and size; what was measured of this type; a roofline by the device's measured speeds; and for a
device that was never measured, the speed of this host times what its driver declares. Launches and
links of such a device are those that devices of its sort usually have.
"""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from neurald.hal.device import Capabilities, Link, Performance
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.graph import Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import OperandType
from neurald.runtime.costs.table import SOURCES, CostSource, CostTable, DeviceLink, band_of
from neurald.runtime.costs.work import (
    OperationKind,
    host_multiplications_per_s,
    kind_of,
    work_of,
)

#: The time that the runtime itself needs for each step of a plan that has several, on a device on
#: which it was not measured.
STEP_S: Final = 20e-6
#: The launch of a device that was not measured: of the CPU device, of another device of this
#: process, and of a daemon.
_CPU_LAUNCH_S: Final = 2e-6
_IN_PROCESS_LAUNCH_S: Final = 30e-6
_REMOTE_LAUNCH_S: Final = 150e-6
#: How fast data moves to a daemon of this host that was not measured.
_REMOTE_BYTES_PER_S: Final = 2e9


class OperationCost(Struct, frozen=True, kw_only=True):
    """The cost of one operation on one device.

    Attributes:
        seconds: without launch and transfers; infinite if the device does not list the type.
        source: where the number comes from.
        energy: relative: that of the CPU device is its own time in seconds.
    """

    seconds: float
    source: CostSource
    energy: float = 0.0


class DeviceCosts(Struct, frozen=True, kw_only=True):
    """The costs of a device: all that a policy asks for.

    Attributes:
        capabilities: the capabilities that the driver declares, relative to the CPU device.
        is_cpu: whether it is the CPU device.
        launch_s: the time of launching a step.
        step_s: what the runtime itself needs for a step of a plan that has several.
        link: between host memory and the device.
        is_measured: whether the device was ever measured.
        table: what was measured.
        weight: by how much the device is slower now than it was when it was measured.
    """

    capabilities: Capabilities
    is_cpu: bool = False
    launch_s: float = _IN_PROCESS_LAUNCH_S
    step_s: float = STEP_S
    link: DeviceLink = DeviceLink()
    is_measured: bool = False
    table: CostTable = CostTable()
    weight: float = 1.0
    _rooflines: dict[tuple[str, bool], float | None] = field(default_factory=dict)
    _units: dict[tuple[OperationKind, OperandType, int, bool], OperationCost] = field(default_factory=dict)

    def of(self, kind: OperationKind, operand: OperandType, work: float, *, relaxed: bool) -> OperationCost:
        """Returns the cost of an operation.

        Args:
            kind: the kind of the operation.
            operand: the type of its first operand.
            work: the work of the operation.
            relaxed: whether float32 may be computed in float16.
        """
        unit = self.unit(kind, operand, band_of(work), relaxed=relaxed)
        return OperationCost(seconds=unit.seconds * work, source=unit.source, energy=unit.energy * work)

    def unit(self, kind: OperationKind, operand: OperandType, band: int, *, relaxed: bool) -> OperationCost:
        """Returns the cost of a unit of work of an operation whose size is in a band; see `of`."""
        key = kind, operand, band, relaxed
        found = self._units.get(key)
        if found is None:
            found = self._units[key] = self._unit(kind, operand, band, relaxed=relaxed)
        return found

    def _unit(self, kind: OperationKind, operand: OperandType, band: int, *, relaxed: bool) -> OperationCost:
        other = self._unmeasured(kind, operand, relaxed=relaxed)
        measured = self.table.unit(kind, band)
        if measured is None or other.seconds == math.inf:
            return other
        return OperationCost(seconds=measured[0] * self.weight, source=measured[1], energy=other.energy)

    def _unmeasured(self, kind: OperationKind, operand: OperandType, *, relaxed: bool) -> OperationCost:
        """Returns the cost of a unit of work of a size that was not measured."""
        declared = self._declared(operand, relaxed=relaxed)
        host_s = 1 / host_multiplications_per_s()
        if declared is None:
            return OperationCost(seconds=math.inf, source=CostSource.DECLARED, energy=math.inf)
        energy = host_s * declared.power_usage
        unit_s = self._roofline(kind)
        if unit_s is not None:
            return OperationCost(seconds=unit_s * self.weight, source=CostSource.ROOFLINE, energy=energy)
        return OperationCost(
            seconds=host_s * declared.exec_time * self.weight, source=CostSource.DECLARED, energy=energy
        )

    def units(
        self,
        kinds: Sequence[tuple[OperationKind, OperandType]],
        numbers: Array,
        bands: Array,
        *,
        relaxed: bool,
    ) -> tuple[Array, Array, Array]:
        """Returns `unit` for many operations at once, as arrays.

        Args:
            kinds: the kinds of operations, with the types of their first operands.
            numbers: for each operation the position of its kind.
            bands: for each operation its band.
            relaxed: whether float32 may be computed in float16.

        Returns:
            Seconds, energies, and the positions of sources in `SOURCES`.
        """
        seconds, sources = self.table.units([kind for kind, _ in kinds], numbers, bands)
        seconds *= self.weight
        energies = np.zeros(len(kinds))
        is_unknown = np.isnan(seconds)
        has_unknown = bool(is_unknown.any())
        for number, (kind, operand) in enumerate(kinds):
            declared = self._declared(operand, relaxed=relaxed)
            if declared is None:
                energies[number] = math.inf
                rest = numbers == number
            else:
                energies[number] = declared.power_usage / host_multiplications_per_s()
                if not has_unknown:
                    continue
                rest = is_unknown & (numbers == number)
            if rest.any():
                other = self._unmeasured(kind, operand, relaxed=relaxed)
                seconds[rest], sources[rest] = other.seconds, SOURCES.index(other.source)
        return seconds, energies[numbers], sources

    def _roofline(self, kind: OperationKind) -> float | None:
        key = kind.operand, kind.is_product
        if key not in self._rooflines:
            self._rooflines[key] = self.table.unit_seconds(kind.operand, is_product=key[1])
        return self._rooflines[key]

    def _declared(self, operand: OperandType, *, relaxed: bool) -> Performance | None:
        """Returns what the driver declares for a type; None if it is missing or no number."""
        if relaxed and operand is OperandType.FLOAT32:
            found: Performance | None = self.capabilities.relaxed_float32_scalar
        elif relaxed and operand is OperandType.TENSOR_FLOAT32:
            found = self.capabilities.relaxed_float32_tensor
        else:
            found = self.capabilities.operand_performance.get(operand)
        if found is None or not (found.exec_time >= 0 and found.power_usage >= 0):
            return None
        return found

    def transfer_s(self, size_bytes: int, *, inward: bool) -> float:
        """Returns how long data takes to the device, or back."""
        return size_bytes / (self.link.input_bytes_per_s if inward else self.link.output_bytes_per_s)


def device_costs(
    table: CostTable,
    capabilities: Capabilities,
    *,
    is_cpu: bool = False,
    is_remote: bool = False,
    host_link: Link | None = None,
    weight: float = 1.0,
) -> DeviceCosts:
    """Returns the costs of a device.

    Args:
        table: what was measured.
        capabilities: the capabilities that its driver declares.
        is_cpu: whether it is the CPU device.
        is_remote: whether it is in another process.
        host_link: the link to the other host, if it is on one.
        weight: by how much the device is slower now than it was when it was measured.
    """
    link = table.link
    if host_link is not None:
        link = DeviceLink(
            latency_s=host_link.latency_s,
            input_bytes_per_s=host_link.bytes_per_s,
            output_bytes_per_s=host_link.bytes_per_s,
            shares_memory=False,
        )
    elif link is None and is_remote:
        link = DeviceLink(
            latency_s=_REMOTE_LAUNCH_S,
            input_bytes_per_s=_REMOTE_BYTES_PER_S,
            output_bytes_per_s=_REMOTE_BYTES_PER_S,
            shares_memory=False,
        )
    if table.launch is not None:
        launch_s = table.launch.seconds
    elif is_cpu:
        launch_s = _CPU_LAUNCH_S
    else:
        launch_s = _REMOTE_LAUNCH_S if is_remote else _IN_PROCESS_LAUNCH_S
    if host_link is not None:
        launch_s = max(launch_s, host_link.latency_s)
    return DeviceCosts(
        capabilities=capabilities,
        is_cpu=is_cpu,
        launch_s=launch_s,
        step_s=STEP_S if table.step is None else table.step.seconds,
        link=link or DeviceLink(),
        is_measured=bool(table.rates),
        table=table,
        weight=weight,
    )


class ModelWork:
    """The kinds and the work of a model's operations, each computed once.

    Args:
        model: a valid model.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._relaxed = model.relaxed
        self._known: dict[tuple[object, ...], tuple[OperationKind, OperandType, float]] = {}
        #: What is known of an operation, by the identities of its graph and of itself, which the
        #: model keeps alive.
        self._by_place: dict[tuple[int, int], tuple[OperationKind, OperandType, float]] = {}

    def cost(self, graph: Subgraph, operation: Operation, costs: DeviceCosts) -> OperationCost:
        """Returns the cost of an operation that is not control flow on a device."""
        return costs.of(*self.of(graph, operation), relaxed=self._relaxed)

    def of(self, graph: Subgraph, operation: Operation) -> tuple[OperationKind, OperandType, float]:
        """Returns the kind, the type of the first operand, and the work of an operation."""
        place = id(graph), id(operation)
        again = self._by_place.get(place)
        if again is not None:
            return again
        operands = graph.operands
        key = (
            operation.type,
            *[(operands[n].type, operands[n].dimensions, operands[n].lifetime) for n in operation.inputs],
            *[operands[n].dimensions for n in operation.outputs],
        )
        found = self._known.get(key)
        if found is None:
            first = next(iter(operation.inputs or operation.outputs), None)
            operand = OperandType.FLOAT32 if first is None else operands[first].type
            found = self._known[key] = (kind_of(graph, operation), operand, work_of(graph, operation))
        self._by_place[place] = found
        return found
