"""Refines the costs of a device by the times of real runs.

The time of a step without its launch and transfers is divided over its operations by what was
estimated for each, so that all become better by the same factor. Short steps say nothing about
their operations, because most of their time is spent around them.
"""

import math
from collections.abc import Sequence
from typing import Final

from neurald.hal.device import Device, KernelTime
from neurald.hal.errors import Error
from neurald.hal.model.model import Model
from neurald.runtime.costs.estimate import DeviceCosts, ModelWork, device_costs
from neurald.runtime.costs.store import costs_of
from neurald.runtime.costs.table import CostBook
from neurald.runtime.costs.work import OperationKind, operand_bytes
from neurald.runtime.devices.driver_faults import checked_capabilities
from neurald.runtime.model.branches import is_control_flow

#: The least time of the call of a device, whatever it computes.
_CALL_S: Final = 50e-6
#: A step of which more than this share is launch and transfers says nothing about its operations.
_MAX_OVERHEAD: Final = 0.3
#: A step whose computing takes as long as this many calls says something in spite of transfers, up
#: to this share.
_MANY_CALLS: Final = 8.0
_MAX_MOVED: Final = 0.6
#: A single run does not change a cost by more than this.
_MAX_FACTOR: Final = 100.0


def refine_step(device: Device, model: Model, seconds: float) -> None:
    """Refines the costs of a device by the time of one run of a model."""
    graph = model.main
    if any(is_control_flow(operation) for operation in graph.operations):
        return
    book = costs_of(device)
    costs = _costs(device, book)
    if costs is None:
        return
    moved_s = sum(costs.transfer_s(operand_bytes(graph, n), inward=True) for n in graph.inputs)
    moved_s += sum(costs.transfer_s(operand_bytes(graph, n), inward=False) for n in graph.outputs)
    computed_s = seconds - max(costs.launch_s, _CALL_S) - moved_s
    max_overhead = _MAX_MOVED if computed_s > _MANY_CALLS * _CALL_S else _MAX_OVERHEAD
    if computed_s < (1 - max_overhead) * seconds:
        return
    sizes = _estimates(model, range(len(graph.operations)), costs)
    book.scale(*_scaled(sizes, computed_s))


def refine_kernels(device: Device, model: Model, kernels: Sequence[KernelTime]) -> None:
    """Refines the costs of a device by the times that it has reported for a model's kernels."""
    book = costs_of(device)
    costs = _costs(device, book)
    if costs is None:
        return
    graph = model.main
    by_operations: dict[tuple[int, ...], float] = {}
    for kernel in kernels:
        key = tuple(sorted(set(kernel.operations)))
        by_operations[key] = by_operations.get(key, 0.0) + kernel.duration_ns / 1e9
    seen: set[int] = set()
    for positions in by_operations:
        if not seen.isdisjoint(positions):
            return  # several kernels share an operation in part
        seen.update(positions)
    for positions, seconds in by_operations.items():
        if positions and not any(is_control_flow(graph.operations[n]) for n in positions):
            book.scale(*_scaled(_estimates(model, positions, costs), seconds))


def _costs(device: Device, book: CostBook) -> DeviceCosts | None:
    try:
        capabilities = checked_capabilities(device)
    except Error:
        return None
    return device_costs(book.table, capabilities, is_remote=device.is_remote)


def _estimates(
    model: Model, positions: Sequence[int], costs: DeviceCosts
) -> dict[tuple[OperationKind, float], tuple[int, float]]:
    """Returns for each kind and work how many operations there are, and the estimate for one."""
    work = ModelWork(model)
    found: dict[tuple[OperationKind, float], tuple[int, float]] = {}
    for position in positions:
        operation = model.main.operations[position]
        kind, operand, size = work.of(model.main, operation)
        estimate = costs.of(kind, operand, size, relaxed=model.relaxed)
        count, _ = found.get((kind, size), (0, 0.0))
        found[kind, size] = count + 1, estimate.seconds
    return found


def _scaled(
    sizes: dict[tuple[OperationKind, float], tuple[int, float]], seconds: float
) -> tuple[dict[tuple[OperationKind, float], float], float]:
    total = sum(count * estimate for count, estimate in sizes.values())
    if not 0 < total < math.inf:
        return {}, 1.0
    factor = min(_MAX_FACTOR, max(1 / _MAX_FACTOR, seconds / total))
    return {key: estimate for key, (_, estimate) in sizes.items()}, factor
